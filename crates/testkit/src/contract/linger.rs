//! Closes that wait for the peer: they end when it has everything, or with a reset when their time is over, and hold nobody up.

use super::{
    Behaviour, Need, Setup, Variation, behaviour,
    support::{
        Echo, Events, NARROW, Peer, Running, Soon, assert_quiet, expect, expect_end, in_own_process, pattern,
        reset, round_trip, script, wait_until,
    },
};
use netwright_core::{Channel, CloseCause, pipeline};
use netwright_transport::StreamOptions;
use std::{
    io::{ErrorKind, Read},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// Reading plays no part.
const VARIED: &[Variation] = &[Variation::Asking, Variation::OnWorkers];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_close_that_lingers_ends_when_the_peer_has_everything)
        .shows(&[60])
        .needs(&[Need::Network])
        .not(VARIED),
    behaviour!(a_close_that_lingers_ends_with_a_reset_when_its_time_is_over)
        .shows(&[60])
        .needs(&[Need::Network])
        .not(VARIED),
    behaviour!(a_close_that_lingers_ends_at_once_if_the_peer_has_everything_already)
        .needs(&[Need::Network])
        .not(VARIED),
    behaviour!(a_peer_that_resets_ends_a_close_that_lingers).needs(&[Need::Network, Need::Reset]).not(VARIED),
    behaviour!(loops_run_and_no_thread_is_started_while_many_closes_linger)
        .needs(&[Need::Network])
        .not(VARIED),
    behaviour!(a_server_that_shuts_down_now_ends_closes_that_linger_and_begins_none)
        .needs(&[Need::Network])
        .not(VARIED),
    behaviour!(loops_that_shut_down_leave_closes_that_linger_to_the_system)
        .needs(&[Need::Network])
        .not(VARIED),
];

/// More than a narrow peer takes unread, and less than the system takes from us at once.
const UNREAD: usize = 5 * NARROW;
const LONG: Duration = Duration::from_secs(600);

fn lingering(setup: Setup, time: Duration) -> (Running, Events) {
    let (script, events) = script();
    let options = StreamOptions::new().linger(time);
    (setup.serve_with(script, |builder| builder.options(options)), events)
}

/// A connection with bytes on their way that its peer does not read.
fn full(running: &Running, events: &Events) -> (Peer, Channel) {
    let stream = running.dial_narrow();
    let channel = events.active();
    channel.send(pattern(UNREAD)).soon().unwrap();
    (stream, channel)
}

fn waits(future: &mut (impl Future + Unpin)) -> bool {
    let pinned = std::pin::Pin::new(future);
    matches!(pinned.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
}

fn a_close_that_lingers_ends_when_the_peer_has_everything(setup: Setup) {
    let (running, events) = lingering(setup, LONG);
    let (mut stream, channel) = full(&running, &events);
    let mut closed = channel.close();
    running.settle();
    assert!(waits(&mut closed), "the peer has not got everything");
    running.assert_quiet();
    expect(&mut stream, &pattern(UNREAD));
    expect_end(&mut stream);
    assert!(matches!(closed.soon(), CloseCause::Requested));
    assert!(matches!(events.skip_to_end(), CloseCause::Requested));
    running.wait_for_open(0);
}

fn a_server_that_shuts_down_now_ends_closes_that_linger_and_begins_none(setup: Setup) {
    let (running, events) = lingering(setup, LONG);
    let (_first, closing) = full(&running, &events);
    let (_second, _open) = full(&running, &events);
    let mut closed = closing.close();
    running.settle();
    assert!(waits(&mut closed), "it lingers");
    running.server.shutdown_now().soon().unwrap();
    assert!(matches!(closed.soon(), CloseCause::Requested), "the first cause counts");
    assert_eq!(running.server.figures().open, 0);
}

fn a_close_that_lingers_ends_with_a_reset_when_its_time_is_over(setup: Setup) {
    const TIME: Duration = Duration::from_secs(1);
    let (running, events) = lingering(setup, TIME);
    let (mut stream, channel) = full(&running, &events);
    let begun = Instant::now();
    assert!(matches!(channel.close().soon(), CloseCause::Requested));
    assert!(begun.elapsed() >= TIME, "it ended early, after {:?}", begun.elapsed());
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    events.skip_to_end();
    running.wait_for_open(0);
}

fn a_close_that_lingers_ends_at_once_if_the_peer_has_everything_already(setup: Setup) {
    let (running, events) = lingering(setup, LONG);
    let mut stream = running.dial();
    let channel = events.active();
    channel.write_and_flush("goodbye");
    channel.close().soon();
    expect(&mut stream, b"goodbye");
    expect_end(&mut stream);
}

fn a_peer_that_resets_ends_a_close_that_lingers(setup: Setup) {
    let (running, events) = lingering(setup, LONG);
    let (stream, channel) = full(&running, &events);
    let mut closed = channel.close();
    running.settle();
    assert!(waits(&mut closed));
    reset(stream);
    assert!(matches!(closed.soon(), CloseCause::Requested));
    events.skip_to_end();
    running.wait_for_open(0);
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

fn loops_run_and_no_thread_is_started_while_many_closes_linger(setup: Setup) {
    const MANY: usize = 50;
    in_own_process(setup, || {
        let (running, events) = lingering(setup, LONG);
        let neighbours = running
            .loops
            .hosts
            .host(setup.bare_server())
            .pipeline(|_| pipeline().app(Echo))
            .bind(setup.listen_at())
            .soon()
            .unwrap();
        let mut neighbour = setup.dial(neighbours.address());
        round_trip(&mut neighbour, b"before");
        let open: Vec<_> = (0..MANY).map(|_| full(&running, &events)).collect();
        let before = threads();
        let mut closes: Vec<_> = open.iter().map(|(_, channel)| channel.close()).collect();
        running.settle();
        assert!(closes.iter_mut().all(waits), "no peer has everything");
        assert_eq!(threads(), before, "no thread is there for a close");
        for _ in 0..10 {
            round_trip(&mut neighbour, b"not held up");
        }
        running.assert_quiet();
        assert_quiet(neighbours.group());
        drop(open); // with bytes unread: resets
        for closed in &mut closes {
            closed.soon();
        }
        running.wait_for_open(0);
    });
}

/// Nobody waits for them, and their bytes are not thrown away either.
fn loops_that_shut_down_leave_closes_that_linger_to_the_system(setup: Setup) {
    let (running, events) = lingering(setup, LONG);
    let (mut stream, channel) = full(&running, &events);
    let mut closed = channel.close();
    running.settle();
    assert!(waits(&mut closed));
    running.loops.hosts.shut_down_within(LONG).soon().unwrap(); // so long it would wait for a close
    wait_until(|| !waits(&mut closed), || "the end of a channel whose loop has ended".to_owned());
    expect(&mut stream, &pattern(UNREAD));
    expect_end(&mut stream);
}
