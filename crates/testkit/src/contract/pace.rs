//! Peers that do not take what waits for them: they are cut, told and counted.

use super::{
    Behaviour, Need, Setup, Variation, behaviour,
    support::{Soon, pattern, script, wait_until},
};
use bytes::Bytes;
use netwright_core::{CloseCause, LeastRate, WriteError};
use std::{
    io::{ErrorKind, Read},
    time::Duration,
};

/// Reading plays no part.
const VARIED: &[Variation] = &[Variation::Asking];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_peer_that_takes_nothing_of_what_waits_for_it_is_cut_and_counted).not(VARIED),
    behaviour!(what_the_system_keeps_for_a_peer_that_is_cut_goes_with_it)
        .needs(&[Need::Network, Need::Reset])
        .not(VARIED),
    behaviour!(without_a_least_rate_a_peer_may_take_its_time).not(VARIED),
];

/// More than any system takes unread.
const MUCH: usize = 16 * 1024 * 1024;

fn much() -> Bytes {
    vec![7; MUCH].into()
}

/// A byte a second: what the system takes at first is no credit for later, see `LeastRate`.
fn soon() -> LeastRate {
    LeastRate::new(1, Duration::from_millis(200)).unwrap()
}

fn a_peer_that_takes_nothing_of_what_waits_for_it_is_cut_and_counted(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.least_rate(soon()));
    let stream = running.dial_narrow();
    let channel = events.active();
    let error = channel.send(much()).soon().unwrap_err();
    assert!(matches!(&error, WriteError::Closed(CloseCause::TooSlow(rate)) if *rate == soon()), "{error:?}");
    assert!(matches!(events.skip_to_end(), CloseCause::TooSlow(_)));
    running.wait_for_open(0);
    assert_eq!(running.server.figures().cut_slow, 1);
    drop(stream);
    // Who takes what is sent has nothing to fear.
    let mut honest = running.dial();
    events.active().send(pattern(1000)).soon().unwrap();
    honest.read_exact(&mut [0; 1000]).unwrap();
    assert_eq!(running.server.figures().cut_slow, 1);
}

fn what_the_system_keeps_for_a_peer_that_is_cut_goes_with_it(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.least_rate(soon()));
    let mut stream = running.dial_narrow();
    let channel = events.active();
    channel.send(much()).soon().unwrap_err();
    events.skip_to_end();
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

fn without_a_least_rate_a_peer_may_take_its_time(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.least_rate(None));
    let mut stream = running.dial_narrow();
    let channel = events.active();
    let mut written = channel.send(much());
    wait_until(|| !channel.is_writable(), || "the channel is full".to_owned());
    running.assert_quiet();
    let mut got = vec![0; MUCH];
    stream.read_exact(&mut got).unwrap();
    assert!(got.iter().all(|byte| *byte == 7));
    written.soon().unwrap();
}
