//! Channels that have channels of their own: several conversations in one connection.

mod board;

use super::{
    Behaviour, Need, ON_PURPOSE, Setup, Variation, behaviour,
    support::{PATIENCE, Peer, Running, Soon, expect, expect_end, reset, wait_until},
};
use board::{Board, echoed, frame};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Channel, ChannelGroup, CloseCause, OnWorker, Segment, Workers, WriteError,
    pipeline,
};
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

/// What these vary, parents and children do by themselves.
const VARIED: &[Variation] = &[Variation::Asking, Variation::OnWorkers];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(children_of_one_connection_answer_each_for_itself).not(VARIED),
    behaviour!(children_come_and_go_by_the_hundreds_and_none_is_left).not(VARIED),
    behaviour!(a_child_that_does_not_ask_holds_up_itself_alone).not(VARIED),
    behaviour!(a_child_that_panics_ends_alone).not(VARIED),
    behaviour!(a_parent_that_panics_ends_its_children_with_that_cause).not(VARIED),
    behaviour!(the_end_of_the_connection_is_that_of_its_children_wherever_they_wait).not(VARIED),
    behaviour!(a_reset_of_the_connection_is_that_of_its_children_wherever_they_wait)
        .not(VARIED)
        .needs(&[Need::Reset]),
    behaviour!(handles_of_children_work_from_any_thread).not(VARIED),
    behaviour!(a_child_that_is_broken_off_knows_the_code).not(VARIED),
    behaviour!(work_of_children_on_workers_ends_with_their_connection).not(VARIED),
    behaviour!(a_group_of_children_hears_all_and_loses_those_who_end).not(VARIED),
    behaviour!(pipelines_of_children_that_ended_in_order_are_used_again).not(VARIED),
];

/// A child that does what it is told.
struct Told;

impl Application for Told {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        match &bytes[..] {
            b"panic" => panic!("{ON_PURPOSE}: a child"),
            b"pause" => cx.pause(),
            b"close" => cx.close(),
            b"wait" => drop(cx.spawn(std::future::pending::<()>(), |_, _, ()| ())),
            _ => cx.write_and_flush(bytes.freeze()),
        }
    }
    fn start_over(&mut self) -> bool {
        true
    }
}

fn told() -> impl Segment<BytesMut, Bytes, Tail = Bytes> {
    pipeline().app(Told).into_segment()
}

type Known = Receiver<Channel<Bytes>>;

/// A server whose connections have such children, and the handles of these.
fn serve<P, F>(setup: Setup, build: F) -> (Running, Known)
where
    P: Segment<BytesMut, Bytes, Tail = Bytes>,
    F: Fn(u8) -> P + Clone + Send + Sync + 'static,
{
    let (known, handles): (Sender<Channel<Bytes>>, _) = mpsc::channel();
    let (builder, loops) = setup.server();
    let mut bound = builder
        .pipeline(move |_| {
            let (build, known) = (build.clone(), known.clone());
            pipeline().last(Board::new(build, move |channel| known.send(channel.clone()).unwrap_or_default()))
        })
        .bind(setup.listen_at());
    (Running { setup, server: bound.soon().unwrap(), loops }, handles)
}

fn say(peer: &mut Peer, kind: u8, child: u8, bytes: &[u8]) {
    peer.write_all(&frame(kind, child, bytes)).unwrap();
}

fn next(known: &Known) -> Channel<Bytes> {
    known.recv_timeout(PATIENCE).unwrap()
}

fn children_of_one_connection_answer_each_for_itself(setup: Setup) {
    let (running, known) = serve(setup, |_| told());
    let mut peer = running.dial();
    peer.write_all(&[frame(b'd', 1, b"one"), frame(b'd', 2, b"two")].concat()).unwrap();
    expect(&mut peer, &[echoed(1, b"one"), echoed(2, b"two")].concat());
    let (one, two) = (next(&known), next(&known));
    assert_ne!(one, two);
    assert_eq!(one.parent(), two.parent());
    let parent = one.parent().unwrap();
    assert_eq!((one.local(), one.peer()), (parent.local(), parent.peer()));
    say(&mut peer, b'd', 1, b"close");
    expect(&mut peer, &[&[b'c', 1, 5][..], &frame(b'e', 1, b"")].concat());
    assert!(matches!(one.closed().soon(), CloseCause::Requested));
    say(&mut peer, b'd', 2, b"still there");
    expect(&mut peer, &echoed(2, b"still there"));
    drop(parent.close());
    expect_end(&mut peer);
    assert!(matches!(two.closed().soon(), CloseCause::Requested));
    running.wait_for_open(0);
}

fn children_come_and_go_by_the_hundreds_and_none_is_left(setup: Setup) {
    let (running, known) = serve(setup, |_| told());
    let mut peer = running.dial();
    for _ in 0..3 {
        for number in 0..200 {
            say(&mut peer, b'd', number, b"hello");
        }
        for number in 0..200 {
            expect(&mut peer, &echoed(number, b"hello"));
        }
        for number in 0..200 {
            say(&mut peer, b'r', number, b"");
        }
        for number in 0..200 {
            expect(&mut peer, &frame(b'e', number, b""));
        }
    }
    let all: Vec<_> = (0..600).map(|_| next(&known)).collect();
    assert!(all.iter().all(|child| matches!(child.close_cause(), Some(CloseCause::Reset(7)))));
    let parent = all[0].parent().unwrap();
    assert!(parent.close_cause().is_none());
    drop(parent.close());
    expect_end(&mut peer);
    running.wait_for_open(0);
    running.assert_quiet();
}

fn a_child_that_does_not_ask_holds_up_itself_alone(setup: Setup) {
    let (running, known) = serve(setup, |_| told());
    let mut peer = running.dial();
    say(&mut peer, b'd', 1, b"pause");
    expect(&mut peer, &[b'c', 1, 5]);
    say(&mut peer, b'd', 1, b"waits");
    say(&mut peer, b'd', 2, b"goes");
    expect(&mut peer, &echoed(2, b"goes"));
    next(&known).resume();
    expect(&mut peer, &echoed(1, b"waits"));
}

fn a_child_that_panics_ends_alone(setup: Setup) {
    let (running, known) = serve(setup, |_| told());
    let mut peer = running.dial();
    say(&mut peer, b'd', 1, b"panic");
    expect(&mut peer, &[&[b'c', 1, 5][..], &frame(b'e', 1, b"")].concat());
    let cause = next(&known).closed().soon();
    assert!(matches!(&cause, CloseCause::Panicked(why) if why.contains("a child")), "{cause}");
    say(&mut peer, b'd', 2, b"lives");
    expect(&mut peer, &echoed(2, b"lives"));
}

fn a_parent_that_panics_ends_its_children_with_that_cause(setup: Setup) {
    let (running, known) = serve(setup, |_| told());
    let mut peer = running.dial();
    say(&mut peer, b'd', 1, b"hello");
    expect(&mut peer, &echoed(1, b"hello"));
    let child = next(&known);
    say(&mut peer, b'x', 0, b"");
    expect_end(&mut peer);
    let cause = child.closed().soon();
    assert!(matches!(&cause, CloseCause::Panicked(why) if why.contains("the parent")), "{cause}");
    running.wait_for_open(0);
}

/// Children that wait in every way, on one connection each: idle, paused with and without something unread, for a future, with
/// something unsent that they were not asked for. Ends the connection by `end`; all of them have to end, and nothing is left.
fn children_wait_and_end(setup: Setup, end: impl Fn(Peer), is_cause: impl Fn(&CloseCause) -> bool) {
    let (running, known) = serve(setup, |_| told());
    for words in [&[&b"hello"[..]][..], &[b"pause"], &[b"pause", b"unread"], &[b"wait"], &[b"wait", b"hello"]]
    {
        let mut peer = running.dial();
        for word in words {
            say(&mut peer, b'd', 1, word);
            // Heard before anything else is written: what comes later would be sent along with an answer.
            match *word {
                b"hello" => expect(&mut peer, &echoed(1, word)),
                b"unread" => {}
                _ => expect(&mut peer, &[b'c', 1, word.len() as u8]),
            }
        }
        let child = next(&known);
        running.settle();
        let mut unsent = child.write_tracked("not flushed");
        end(peer);
        let cause = child.closed().soon();
        assert!(is_cause(&cause), "{words:?}: {cause}");
        let unsent = unsent.soon();
        assert!(matches!(unsent, Err(WriteError::Closed(_))), "{words:?}: {unsent:?}");
        assert!(child.send("late").soon().is_err());
        drop(child.close()); // nobody waits for what was not read
        running.wait_for_open(0);
    }
    running.settle();
    running.assert_quiet();
}

fn the_end_of_the_connection_is_that_of_its_children_wherever_they_wait(setup: Setup) {
    children_wait_and_end(setup, drop, |cause| {
        // What was not read by the peer makes a reset of its end.
        matches!(cause, CloseCause::PeerClosed | CloseCause::Io(_))
    });
}

fn a_reset_of_the_connection_is_that_of_its_children_wherever_they_wait(setup: Setup) {
    children_wait_and_end(setup, reset, |cause| matches!(cause, CloseCause::Io(_) | CloseCause::PeerClosed));
}

fn handles_of_children_work_from_any_thread(setup: Setup) {
    const THREADS: usize = 4;
    const EACH: usize = 50;
    let (running, known) = serve(setup, |_| told());
    let mut peer = running.dial();
    (0..THREADS as u8).for_each(|number| say(&mut peer, b'd', number, b"hello"));
    let all: Vec<u8> = (0..THREADS as u8).flat_map(|number| echoed(number, b"hello")).collect();
    expect(&mut peer, &all);
    let children: Vec<_> = (0..THREADS).map(|_| next(&known)).collect();
    let writers: Vec<_> = children
        .iter()
        .map(|child| {
            let child = child.clone();
            thread::spawn(move || (0..EACH).all(|_| child.send("!").soon().is_ok()))
        })
        .collect();
    let mut seen = [0; THREADS];
    for _ in 0..THREADS * EACH {
        let mut said = [0; 4];
        std::io::Read::read_exact(&mut peer, &mut said).unwrap();
        assert_eq!((said[0], said[2], said[3]), (b'd', 1, b'!'));
        seen[usize::from(said[1])] += 1;
    }
    assert_eq!(seen, [EACH; THREADS]);
    assert!(writers.into_iter().all(|writer| writer.join().unwrap()));
    for (number, child) in children.iter().enumerate() {
        drop(child.close());
        expect(&mut peer, &frame(b'e', number as u8, b""));
    }
}

fn a_child_that_is_broken_off_knows_the_code(setup: Setup) {
    let (running, known) = serve(setup, |_| told());
    let mut peer = running.dial();
    say(&mut peer, b'd', 1, b"hello");
    expect(&mut peer, &echoed(1, b"hello"));
    let child = next(&known);
    say(&mut peer, b'r', 1, b"");
    assert!(matches!(child.closed().soon(), CloseCause::Reset(7)));
    expect(&mut peer, &frame(b'e', 1, b""));
    say(&mut peer, b'd', 2, b"hello");
    expect(&mut peer, &echoed(2, b"hello"));
    assert!(matches!(next(&known).reset(9).soon(), CloseCause::Reset(9)));
    expect(&mut peer, &frame(b'e', 2, b""));
}

/// Works until it is let go.
struct Works {
    begun: Sender<()>,
    go: Arc<AtomicUsize>,
}

impl Application<OnWorker> for Works {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, bytes: BytesMut) {
        self.begun.send(()).unwrap_or_default();
        while self.go.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        cx.write_and_flush(bytes.freeze());
    }
}

fn work_of_children_on_workers_ends_with_their_connection(setup: Setup) {
    let workers = Workers::new(1).unwrap();
    let (begun, begins) = mpsc::channel();
    let go = Arc::new(AtomicUsize::new(0));
    let (on, until) = (workers.clone(), go.clone());
    let (running, known) = serve(setup, move |_| {
        pipeline().app_on(&on, Works { begun: begun.clone(), go: until.clone() }).into_segment()
    });
    let mut peer = running.dial();
    say(&mut peer, b'd', 1, b"work");
    let child = next(&known);
    begins.recv_timeout(PATIENCE).unwrap();
    let (mut first, mut second) = (child.send("behind it"), child.shut_down_output_tracked());
    drop(peer);
    child.closed().soon();
    go.store(1, Ordering::Release);
    assert!(first.soon().is_err() && second.soon().is_err());
    running.wait_for_open(0);
}

fn a_group_of_children_hears_all_and_loses_those_who_end(setup: Setup) {
    let (running, known) = serve(setup, |_| told());
    let mut peer = running.dial();
    let group = ChannelGroup::new();
    for number in 1..=3 {
        say(&mut peer, b'd', number, b"hello");
        expect(&mut peer, &echoed(number, b"hello"));
        group.add(next(&known));
    }
    group.write_and_flush(Bytes::from("all"));
    let all: Vec<u8> = (1..=3).flat_map(|number| frame(b'd', number, b"all")).collect();
    expect(&mut peer, &all);
    say(&mut peer, b'r', 2, b"");
    expect(&mut peer, &frame(b'e', 2, b""));
    assert_eq!(group.len(), 2);
    drop(peer);
    wait_until(|| group.is_empty(), || "the members to leave with their connection".to_owned());
}

fn pipelines_of_children_that_ended_in_order_are_used_again(setup: Setup) {
    let built = Arc::new(AtomicUsize::new(0));
    let count = built.clone();
    let (running, known) = serve(setup, move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        told()
    });
    let mut peer = running.dial();
    for number in 0..50 {
        say(&mut peer, b'd', number, b"hello");
        expect(&mut peer, &echoed(number, b"hello"));
        say(&mut peer, b'd', number, b"close");
        expect(&mut peer, &[&[b'c', number, 5][..], &frame(b'e', number, b"")].concat());
    }
    assert_eq!(built.load(Ordering::Relaxed), 1);
    let all: Vec<_> = (0..50).map(|_| next(&known)).collect();
    assert!(all.iter().all(|child| child.close_cause().is_some()), "each has a handle of its own");
}
