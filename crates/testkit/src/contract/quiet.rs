//! A loop that has nothing to do sleeps, whatever its descriptors would say if asked; and tasks do not wait for bytes.

use super::{
    Behaviour, Need, Setup, Variation, behaviour,
    support::{Events, PATIENCE, Peer, Running, Soon, expect, expect_end, pattern, reset, script},
};
use netwright_core::{Channel, EventLoop};
use netwright_transport::ServerBuilder;
use std::{io::Write, sync::mpsc, time::Duration};

/// Each of them says when it reads.
const VARIED: &[Variation] = &[Variation::Asking];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_paused_channel_with_bytes_waiting_does_not_spin_and_gets_them_when_it_resumes).not(VARIED),
    behaviour!(a_paused_channel_whose_peer_half_closed_behind_bytes_does_not_spin_and_gets_both)
        .not(VARIED)
        .needs(&[Need::HalfClosure]),
    behaviour!(a_paused_channel_whose_peer_reset_behind_bytes_does_not_spin_and_ends_when_it_resumes)
        .needs(&[Need::Reset])
        .not(VARIED),
    behaviour!(a_channel_whose_peer_half_closed_does_not_spin_while_it_lives_on_and_while_it_waits_for_room)
        .not(VARIED)
        .needs(&[Need::HalfClosure]),
    behaviour!(a_listener_that_is_told_to_pause_does_not_spin_while_peers_wait).shows(&[61]).not(VARIED),
    behaviour!(timers_and_tasks_run_while_the_peer_sends_nothing_and_while_it_reads_nothing).not(VARIED),
];

/// More than any system takes for a peer that does not read.
const MUCH: usize = 16 << 20;

/// A channel of a server, and the connection to it.
struct Pair {
    running: Running,
    events: Events,
    stream: Peer,
    channel: Channel,
}

fn pair(setup: Setup, set_up: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Pair {
    let (script, events) = script();
    let running = setup.serve_with(script, set_up);
    let stream = running.dial_narrow();
    let channel = events.active();
    Pair { running, events, stream, channel }
}

fn a_paused_channel_with_bytes_waiting_does_not_spin_and_gets_them_when_it_resumes(setup: Setup) {
    let mut pair = pair(setup, |builder| builder.auto_read(false));
    pair.stream.write_all(b"patience").unwrap();
    pair.running.settle();
    pair.running.assert_quiet();
    pair.events.nothing();
    pair.channel.resume();
    pair.events.read(b"patience");
    pair.running.assert_quiet();
}

fn a_paused_channel_whose_peer_half_closed_behind_bytes_does_not_spin_and_gets_both(setup: Setup) {
    let mut pair = pair(setup, |builder| builder.auto_read(false));
    pair.stream.write_all(b"the last").unwrap();
    pair.stream.shut_down().unwrap();
    pair.running.settle();
    pair.running.assert_quiet();
    pair.events.nothing();
    pair.channel.resume();
    pair.events.read(b"the last");
    pair.events.end();
}

fn a_paused_channel_whose_peer_reset_behind_bytes_does_not_spin_and_ends_when_it_resumes(setup: Setup) {
    let mut pair = pair(setup, |builder| builder.auto_read(false));
    pair.stream.write_all(b"the last").unwrap();
    reset(pair.stream);
    pair.running.settle();
    pair.running.assert_quiet();
    pair.channel.resume();
    pair.events.skip_to_end();
}

fn a_channel_whose_peer_half_closed_does_not_spin_while_it_lives_on_and_while_it_waits_for_room(
    setup: Setup,
) {
    let mut pair = pair(setup, |builder| builder.half_closure(true));
    pair.stream.shut_down().unwrap();
    pair.events.input_closed();
    pair.running.assert_quiet();
    let message = pattern(MUCH);
    pair.channel.write_and_flush(message.clone());
    pair.running.settle();
    pair.running.assert_quiet(); // nobody reads, and the end stands
    expect(&mut pair.stream, &message);
    pair.running.assert_quiet();
    pair.channel.close();
    pair.events.skip_to_end();
    expect_end(&mut pair.stream);
}

fn a_listener_that_is_told_to_pause_does_not_spin_while_peers_wait(setup: Setup) {
    let running = setup.echo();
    running.server.pause_accepting();
    let mut waiting = running.dial();
    waiting.write_all(b"hello").unwrap();
    running.settle();
    running.assert_quiet();
    assert_eq!(running.server.figures().accepted, 0);
    running.server.resume_accepting();
    expect(&mut waiting, b"hello");
    running.assert_quiet();
}

fn timers_and_tasks_run_while_the_peer_sends_nothing_and_while_it_reads_nothing(setup: Setup) {
    let mut pair = pair(setup, |builder| builder);
    let run_some = |event_loop: &EventLoop| {
        let (tell, told) = mpsc::channel();
        event_loop.execute(move || tell.send(()).unwrap()).unwrap();
        told.recv_timeout(PATIENCE).expect("tasks do not wait for bytes");
        event_loop.schedule(Duration::from_millis(2), || ()).unwrap().soon().unwrap();
    };
    pair.running.loops.all().iter().for_each(run_some);
    let message = pattern(MUCH);
    pair.channel.write_and_flush(message.clone());
    pair.running.settle();
    assert!(!pair.channel.is_writable());
    pair.running.loops.all().iter().for_each(run_some);
    pair.running.assert_quiet();
    expect(&mut pair.stream, &message);
}
