//! What can be asked of the loop that a channel lives on, from outside.

use super::{
    Behaviour, Setup, Variation, behaviour,
    support::{Soon, expect, expect_end, round_trip, script},
};
use netwright_core::{CloseCause, WriteError};
use std::time::Duration;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_timer_on_the_loop_of_a_channel_is_armed_from_outside_and_writes_to_it),
    behaviour!(a_rebuild_that_was_asked_for_keeps_every_connection),
    // A loop that ends now does not wait for what its stages have on workers.
    behaviour!(the_loop_of_a_channel_that_ends_now_ends_it_with_that_cause).not(&[Variation::OnWorkers]),
];

fn a_timer_on_the_loop_of_a_channel_is_armed_from_outside_and_writes_to_it(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    let (event_loop, later) = (channel.event_loop(), channel.clone());
    let mut timer = event_loop
        .schedule(Duration::from_millis(1), move || {
            later.send("later".into());
            later.event_loop().in_event_loop()
        })
        .unwrap();
    expect(&mut stream, b"later");
    assert_eq!(timer.soon(), Ok(true));
}

fn a_rebuild_that_was_asked_for_keeps_every_connection(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script.on_read(|cx, bytes| cx.write_and_flush(bytes.freeze())));
    let (mut streams, channels): (Vec<_>, Vec<_>) = (0..3)
        .map(|_| {
            let mut stream = running.dial();
            let channel = events.active();
            round_trip(&mut stream, b"before");
            events.read(b"before");
            (stream, channel)
        })
        .unzip();
    for channel in &channels {
        let event_loop = channel.event_loop();
        let before = event_loop.figures().rebuilds;
        event_loop.rebuild().unwrap().soon().unwrap().unwrap();
        assert_eq!(event_loop.figures().rebuilds, before + 1);
    }
    for stream in &mut streams {
        round_trip(stream, b"behind");
    }
    round_trip(&mut running.dial(), b"new");
}

fn the_loop_of_a_channel_that_ends_now_ends_it_with_that_cause(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    let mut ended = channel.event_loop().shutdown_now();
    assert!(matches!(events.end(), CloseCause::ShutDown));
    expect_end(&mut stream);
    ended.soon().unwrap();
    assert!(matches!(channel.closed().soon(), CloseCause::ShutDown));
    let late = channel.write_and_flush("late".into()).soon();
    assert!(matches!(late, Err(WriteError::Closed(CloseCause::ShutDown))), "{late:?}");
}
