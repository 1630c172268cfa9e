//! From the loop that accepts to the loop that hosts: a loop that stalls, and one that has ended.

use super::{
    Behaviour, Setup, behaviour,
    support::{Echo, Hold, PATIENCE, Peer, Soon, round_trip, settle, wait_until},
};
use netwright_core::{EventLoop, EventLoopGroup, pipeline};
use netwright_transport::{Server, ServerFigures};
use std::{io::Read, time::Duration};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(connections_pass_by_a_loop_for_which_too_many_wait).in_one_model(),
    behaviour!(where_too_many_wait_for_every_loop_further_ones_are_refused_and_counted).in_one_model(),
    behaviour!(a_connection_whose_loop_has_ended_goes_to_another_one).in_one_model(),
    behaviour!(where_every_loop_has_ended_connections_are_refused_and_counted).in_one_model(),
    behaviour!(a_connection_that_waited_for_a_loop_that_ends_is_refused_and_counted).in_one_model(),
    behaviour!(a_loop_that_stands_still_does_not_hold_up_the_shutdown_of_its_server).in_one_model(),
];

/// Connections that may wait for a loop.
const WAITING: usize = 4;

/// One loop accepts, two host.
struct Bench {
    setup: Setup,
    server: Server,
    acceptor: EventLoopGroup,
    workers: EventLoopGroup,
}

fn bench(setup: Setup) -> Bench {
    let (acceptor, workers) = (setup.event_loops(1), setup.event_loops(2));
    let server = setup
        .bare_server()
        .acceptors(acceptor.clone())
        .group(workers.clone())
        .waiting_max(WAITING)
        .pipeline(|_| pipeline().app(Echo))
        .bind(setup.listen_at())
        .soon()
        .unwrap();
    Bench { setup, server, acceptor, workers }
}

impl Bench {
    fn worker(&self, index: usize) -> EventLoop {
        self.workers.iter().nth(index).unwrap()
    }

    /// So many connections, one after the other: these loops have taken theirs in before the next one comes.
    fn dial(&self, count: usize, able: &[&EventLoop]) -> Vec<Peer> {
        let dial = |_| {
            let before = self.server.figures().accepted;
            let peer = self.setup.dial(self.server.address());
            self.wait_for(|figures| figures.accepted > before);
            settle(&self.acceptor);
            settle(able.iter().copied());
            peer
        };
        (0..count).map(dial).collect()
    }

    fn wait_for(&self, done: impl Fn(ServerFigures) -> bool) {
        let figures = || self.server.figures();
        wait_until(|| done(figures()), || format!("other figures than {:?}", figures()));
    }

    fn refused(&self) -> [u64; 3] {
        let figures = self.server.figures();
        [figures.refused, figures.refused_ended, figures.refused_stalled]
    }

    fn end(&self, index: usize) {
        self.worker(index).shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().soon().unwrap();
    }
}

/// The other end is gone, in order or not.
#[track_caller]
fn assert_refused(peers: impl IntoIterator<Item = Peer>) {
    for mut peer in peers {
        assert!(!matches!(peer.read(&mut [0; 1]), Ok(1..)), "it was served");
    }
}

fn connections_pass_by_a_loop_for_which_too_many_wait(setup: Setup) {
    let bench = bench(setup);
    let stalled = Hold::new(&bench.worker(0));
    let mut peers = bench.dial(30, &[&bench.worker(1)]);
    assert_eq!((bench.server.figures().open, bench.refused()), (30 - WAITING, [0; 3]));
    drop(stalled);
    peers.iter_mut().for_each(|peer| round_trip(peer, b"hello"));
    assert_eq!(bench.server.figures().open, 30);
}

fn where_too_many_wait_for_every_loop_further_ones_are_refused_and_counted(setup: Setup) {
    let bench = bench(setup);
    let stalled: Vec<_> = bench.workers.iter().map(|worker| Hold::new(&worker)).collect();
    let mut peers = bench.dial(2 * WAITING + 5, &[]);
    assert_eq!(bench.refused(), [0, 0, 5]);
    assert_refused(peers.drain(2 * WAITING..));
    drop(stalled);
    peers.iter_mut().for_each(|peer| round_trip(peer, b"hello"));
    for mut peer in bench.dial(5, &[&bench.worker(0), &bench.worker(1)]) {
        round_trip(&mut peer, b"there is room again");
    }
    assert_eq!(bench.refused(), [0, 0, 5]);
}

fn a_connection_whose_loop_has_ended_goes_to_another_one(setup: Setup) {
    let bench = bench(setup);
    bench.end(0);
    let mut peers = bench.dial(6, &[&bench.worker(1)]);
    peers.iter_mut().for_each(|peer| round_trip(peer, b"hello"));
    assert_eq!(bench.refused(), [0; 3]);
}

fn where_every_loop_has_ended_connections_are_refused_and_counted(setup: Setup) {
    let bench = bench(setup);
    (0..2).for_each(|index| bench.end(index));
    assert_refused(bench.dial(3, &[]));
    assert_eq!(bench.refused(), [0, 3, 0]);
}

fn a_connection_that_waited_for_a_loop_that_ends_is_refused_and_counted(setup: Setup) {
    let bench = bench(setup);
    let stalled: Vec<_> = bench.workers.iter().map(|worker| Hold::new(&worker)).collect();
    let peers = bench.dial(2, &[]);
    let end = |worker: EventLoop| worker.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
    let ends: Vec<_> = bench.workers.iter().map(end).collect();
    drop(stalled);
    ends.into_iter().for_each(|mut end| end.soon().unwrap());
    bench.wait_for(|figures| figures.refused_ended == 2);
    assert_refused(peers);
    assert_eq!(bench.refused(), [0, 2, 0]);
}

fn a_loop_that_stands_still_does_not_hold_up_the_shutdown_of_its_server(setup: Setup) {
    for index in 0..2 {
        let bench = bench(setup);
        let mut peers = bench.dial(6, &[&bench.worker(0), &bench.worker(1)]);
        let stalled = Hold::new(&bench.worker(index));
        let report = bench.server.drain(Duration::from_millis(20)).soon().unwrap();
        assert_eq!(report.cut, 6);
        bench.wait_for(|figures| figures.open == 3); // those of the other loop
        drop(stalled);
        assert_refused(peers.drain(..));
        bench.wait_for(|figures| figures.open == 0);
    }
}
