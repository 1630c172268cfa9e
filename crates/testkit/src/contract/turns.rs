//! Channels of one loop take turns: what one of them has to do holds up no other.

use super::{
    Behaviour, Setup, behaviour,
    support::{Running, Soon, round_trip},
};
use bytes::BytesMut;
use netwright_core::{AppContext, Application, LocalLoop, Outgoing, pipeline};
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

pub(super) const BEHAVIOURS: &[Behaviour] =
    &[behaviour!(a_peer_that_sends_without_a_pause_leaves_others_their_turns).in_one_model()];

/// Reads of one channel in one turn: a turn may bring it more than one event, but not one after the other for ever.
const READS_MAX: u64 = 32;
/// Reads and round trips that are looked at.
const FLOOD_READS: u64 = 2000;
const ROUND_TRIPS: usize = 50;
const FLOOD: u8 = b'F';

/// What the channel of the flood has seen.
#[derive(Default)]
struct Counts {
    turn: AtomicU64,
    reads_in_turn: AtomicU64,
    most_in_turn: AtomicU64,
    reads: AtomicU64,
}

impl Counts {
    /// A read, on the loop. Nobody else writes.
    fn read(&self) {
        let turn = LocalLoop::current().unwrap().turn();
        let same = self.turn.swap(turn, Ordering::Relaxed) == turn;
        let reads = 1 + if same { self.reads_in_turn.load(Ordering::Relaxed) } else { 0 };
        self.reads_in_turn.store(reads, Ordering::Relaxed);
        self.most_in_turn.fetch_max(reads, Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts what belongs to the flood, and sends everything else back.
struct Counting(Arc<Counts>);

impl Application for Counting {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        if bytes[0] == FLOOD {
            self.0.read();
        } else {
            cx.write_and_flush(bytes.freeze());
        }
    }
}

/// The peer sends as fast as it can for as long as this takes, and another has its round trips meanwhile. What one channel reads
/// before the loop looks at the others is counted by the loop's turns, so no speed plays a part.
fn a_peer_that_sends_without_a_pause_leaves_others_their_turns(setup: Setup) {
    let counts = Arc::new(Counts::default());
    let (builder, loops) = setup.server();
    let counted = counts.clone();
    let mut bound =
        builder.pipeline(move |_| pipeline().app(Counting(counted.clone()))).bind(setup.listen_at());
    let running = Running { setup, server: bound.soon().unwrap(), loops };
    let (mut flood, mut other) = (running.dial(), running.dial());
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let sender = thread::spawn(move || {
        let piece = vec![FLOOD; 256 * 1024];
        while !stopped.load(Ordering::Relaxed) {
            flood.write_all(&piece).unwrap();
        }
    });
    let mut round_trips = 0;
    while round_trips < ROUND_TRIPS || counts.reads.load(Ordering::Relaxed) < FLOOD_READS {
        round_trip(&mut other, b"ping");
        round_trips += 1;
    }
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    let most = counts.most_in_turn.load(Ordering::Relaxed);
    assert!(most <= READS_MAX, "{most} reads of one channel in one turn of its loop");
}
