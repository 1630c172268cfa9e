//! Peers that say that they send no more, and read nothing of what they asked for: they cost nothing, and their channels end.

use super::{
    Behaviour, Need, Setup, Variation, behaviour,
    support::{Events, Peer, Running, Seen, Soon, assert_rests, expect, reset, script},
};
use bytes::Bytes;
use netwright_core::{Channel, CloseCause, LeastRate};
use netwright_transport::ServerBuilder;
use std::{io::Write, time::Duration};

/// Reading plays no part.
const VARIED: &[Variation] = &[Variation::Asking];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_peer_that_ends_its_side_and_does_not_read_costs_no_turns)
        .not(VARIED)
        .needs(&[Need::HalfClosure]),
    behaviour!(a_channel_whose_peer_ended_its_side_and_does_not_read_ends_when_the_peer_resets)
        .needs(&[Need::Reset, Need::HalfClosure])
        .not(VARIED),
    behaviour!(a_channel_whose_peer_ended_its_side_and_does_not_read_ends_when_it_is_cut)
        .not(VARIED)
        .needs(&[Need::HalfClosure]),
    behaviour!(a_channel_whose_peer_ended_its_side_and_does_not_read_ends_when_it_is_closed)
        .not(VARIED)
        .needs(&[Need::HalfClosure]),
    behaviour!(a_channel_whose_peer_ended_its_side_and_does_not_read_ends_with_its_loop)
        .not(VARIED)
        .needs(&[Need::HalfClosure]),
];

/// Together more than any system takes for a peer that does not read; each so short that no transport treats it as bulk.
const MESSAGE: usize = 4000;
const MESSAGES: usize = 4096;

/// A channel with much to send, and its peer, who has ended its side and does not read.
struct Deaf {
    running: Running,
    events: Events,
    peer: Peer,
    channel: Channel,
}

/// Once with the peer's end read, and once with bytes before it that nobody reads: then nobody knows of the end.
fn deaf(setup: Setup, rate: Option<LeastRate>, check: impl Fn(Deaf)) {
    for reads in [true, false] {
        let (script, events) = script();
        let set_up = |builder: ServerBuilder| builder.half_closure(true).auto_read(reads).least_rate(rate);
        let running = setup.serve_with(script, set_up);
        let mut peer = running.dial_narrow();
        let channel = events.active();
        let message = Bytes::from(vec![7; MESSAGE]);
        for _ in 0..MESSAGES {
            channel.write_and_flush(message.clone());
        }
        running.settle(); // so the system is full, and what is next waits
        peer.write_all(b"all of it, please").unwrap();
        peer.shut_down().unwrap();
        while reads && !matches!(events.next(), Seen::InputClosed) {}
        check(Deaf { running, events, peer, channel });
    }
}

fn a_peer_that_ends_its_side_and_does_not_read_costs_no_turns(setup: Setup) {
    deaf(setup, None, |mut deaf| {
        assert_rests(&deaf.running.loops.all());
        // It changes its mind, and has missed nothing.
        expect(&mut deaf.peer, &vec![7; MESSAGE * MESSAGES]);
        assert_rests(&deaf.running.loops.all());
        deaf.channel.close();
        deaf.events.skip_to_end();
    });
}

fn a_channel_whose_peer_ended_its_side_and_does_not_read_ends_when_the_peer_resets(setup: Setup) {
    deaf(setup, None, |deaf| {
        reset(deaf.peer);
        let cause = deaf.events.skip_to_end();
        assert!(matches!(cause, CloseCause::Io(_)), "{cause}");
        deaf.running.wait_for_open(0);
        assert_rests(&deaf.running.loops.all());
    });
}

fn a_channel_whose_peer_ended_its_side_and_does_not_read_ends_when_it_is_cut(setup: Setup) {
    let soon = LeastRate::new(1, Duration::from_millis(200)).unwrap();
    deaf(setup, Some(soon), |deaf| {
        let cause = deaf.events.skip_to_end();
        assert!(matches!(cause, CloseCause::TooSlow(_)), "{cause}");
        deaf.running.wait_for_open(0);
        assert_rests(&deaf.running.loops.all());
        drop(deaf.peer);
    });
}

fn a_channel_whose_peer_ended_its_side_and_does_not_read_ends_when_it_is_closed(setup: Setup) {
    deaf(setup, None, |deaf| {
        deaf.channel.close();
        let cause = deaf.events.skip_to_end();
        assert!(matches!(cause, CloseCause::Requested), "{cause}");
        deaf.running.wait_for_open(0);
        assert_rests(&deaf.running.loops.all());
        drop(deaf.peer);
    });
}

fn a_channel_whose_peer_ended_its_side_and_does_not_read_ends_with_its_loop(setup: Setup) {
    deaf(setup, None, |deaf| {
        let mut ended = deaf.running.loops.hosts.shut_down();
        let cause = deaf.events.skip_to_end();
        assert!(matches!(cause, CloseCause::ShutDown), "{cause}");
        ended.soon().unwrap();
        drop(deaf.peer);
    });
}
