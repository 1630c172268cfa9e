//! However a connection ends and whatever its channel waits for: the channel ends, once, with its cause, and nothing is left.
//!
//! ```text
//!   way to wait   room, a timer, a hold, a message, other threads …   one function in `ways`, one line in its table
//!       ×  end    the peer leaves, resets, half-closes; we close; the loop, the server shuts down
//!       =  one behaviour: `whoever_waits_for_room_is_gone_when_the_peer_leaves`
//! ```
//! Protocols join with a [`Waiting`] of their own: see `crates/netwright/tests/ends.rs`.

mod watch;
mod ways;

pub use watch::{Guard, Watch, Watcher};
pub(super) use ways::BEHAVIOURS;

use super::{
    Need, Setup, Transport,
    support::{Peer, Running, Soon, break_off, reset},
};
use netwright_core::Promised;
use netwright_transport::{BindError, Server, ServerBuilder};
use std::{
    io::{Read, Write},
    time::Duration,
};

/// A way in which the channels of a server can wait for something when their connections end.
#[derive(Clone, Copy)]
pub struct Waiting {
    /// What is waited for, as a part of a sentence: `room`.
    pub name: &'static str,
    /// Binds the server.
    pub serve: fn(ServerAt) -> Promised<Server, BindError>,
    /// What a peer says, before its channel waits.
    pub approach: fn(&mut dyn Stream),
}

/// Where a server of a [`Waiting`] is to be.
pub struct ServerAt {
    /// A builder that knows its loops.
    pub builder: ServerBuilder,
    /// The address to bind.
    pub at: String,
    /// What tells the test how far channels are.
    pub watch: Watch,
}

/// A peer's end of a connection.
pub trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The peer closes in order.
    PeerLeaves,
    /// The peer breaks off.
    PeerResets,
    /// The peer sends no more, with half-closure allowed, and vanishes then.
    PeerHalfCloses,
    /// Our side closes.
    WeClose,
    /// The channels' loops are shut down.
    LoopShutsDown,
    /// The server is shut down, and waits for nobody.
    ServerShutsDown,
}

impl End {
    /// Every end.
    pub const ALL: &[Self] = &[
        Self::PeerLeaves,
        Self::PeerResets,
        Self::PeerHalfCloses,
        Self::WeClose,
        Self::LoopShutsDown,
        Self::ServerShutsDown,
    ];

    /// The end as a part of a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::PeerLeaves => "the_peer_leaves",
            Self::PeerResets => "the_peer_resets",
            Self::PeerHalfCloses => "the_peer_half_closes",
            Self::WeClose => "we_close",
            Self::LoopShutsDown => "the_loop_shuts_down",
            Self::ServerShutsDown => "the_server_shuts_down",
        }
    }

    /// Whether it needs connections that can end otherwise than in order.
    pub fn needs_reset(self) -> bool {
        matches!(self, Self::PeerResets | Self::PeerHalfCloses)
    }
}

/// Connections that wait at a time: a neighbour's end must not be taken for one's own.
const CONNECTIONS: usize = 3;

/// Longer than any test: whoever waits for the end of a deadline fails.
const NEVER: Duration = Duration::from_secs(3600);

/// Shows it on one transport, in its first model.
pub fn check(transport: Transport, way: &Waiting, end: End) {
    run(Setup::of(transport, end.needs_reset().then_some(Need::Reset)), way, end);
}

fn run(setup: Setup, way: &Waiting, end: End) {
    let (builder, loops) = setup.server();
    let watch = Watch::new();
    let place = ServerAt {
        builder: builder.half_closure(end == End::PeerHalfCloses),
        at: setup.listen_at(),
        watch: watch.clone(),
    };
    let server = (way.serve)(place).soon().unwrap();
    let running = Running { setup, server, loops };
    let peers: Vec<Peer> = (0..CONNECTIONS)
        .map(|_| {
            let mut peer = running.dial_narrow();
            (way.approach)(&mut peer);
            peer
        })
        .collect();
    watch.wait_for(CONNECTIONS);
    running.settle();
    let peers = bring_about(end, peers, &running, &watch);
    watch.open_gate();
    running.wait_for_open(0);
    watch.expect_ends(CONNECTIONS, end);
    if end != End::LoopShutsDown {
        running.settle();
        running.assert_quiet();
    }
    drop(peers);
}

/// Lets it happen. Returns the peers that are still there.
fn bring_about(end: End, mut peers: Vec<Peer>, running: &Running, watch: &Watch) -> Vec<Peer> {
    match end {
        End::PeerLeaves => peers.clear(),
        End::PeerResets => peers.drain(..).for_each(reset),
        End::PeerHalfCloses => {
            peers.iter().for_each(|peer| peer.shut_down().unwrap());
            running.settle();
            peers.drain(..).for_each(break_off);
        }
        End::WeClose => watch.close_all(),
        End::LoopShutsDown => {
            let mut ended = running.loops.hosts.shut_down_within(NEVER);
            watch.open_gate(); // a loop does not leave stages behind that still run elsewhere
            ended.soon().unwrap();
        }
        End::ServerShutsDown => {
            let report = running.server.drain(Duration::ZERO).soon().unwrap();
            assert!(report.cut <= CONNECTIONS, "{report:?}");
        }
    }
    peers
}

/// Time for those who wait for something that comes by itself.
pub const SOON: Duration = Duration::from_millis(20);
