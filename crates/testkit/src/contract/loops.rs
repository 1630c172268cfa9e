//! What can be asked of the loop that a channel lives on, from outside.

use super::{
    Behaviour, Setup, Variation, behaviour,
    support::{Echo, Soon, expect, expect_end, round_trip, script, settle},
};
use netwright_core::{CloseCause, WaitStrategy, WriteError, pipeline};
use std::time::Duration;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_timer_on_the_loop_of_a_channel_is_armed_from_outside_and_writes_to_it),
    behaviour!(a_rebuild_that_was_asked_for_keeps_every_connection),
    // A loop that ends now does not wait for what its stages have on workers.
    behaviour!(the_loop_of_a_channel_that_ends_now_ends_it_with_that_cause).not(&[Variation::OnWorkers]),
    behaviour!(a_loop_that_looks_out_for_what_comes_serves_as_one_that_sleeps).in_one_model(),
];

fn a_timer_on_the_loop_of_a_channel_is_armed_from_outside_and_writes_to_it(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    let (event_loop, later) = (channel.event_loop(), channel.clone());
    let mut timer = event_loop
        .schedule(Duration::from_millis(1), move || {
            later.write_and_flush("later");
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
    let late = channel.send("late").soon();
    assert!(matches!(late, Err(WriteError::Closed(CloseCause::ShutDown))), "{late:?}");
}

fn a_loop_that_looks_out_for_what_comes_serves_as_one_that_sleeps(setup: Setup) {
    for wait in
        [WaitStrategy::Spin, WaitStrategy::SpinThenBlock(Duration::from_micros(50)), WaitStrategy::Block]
    {
        let group = setup.transport.backend().group().loops(1).wait_strategy(wait).build().unwrap();
        let server = setup
            .bare_server()
            .group(group.clone())
            .pipeline(|_| pipeline().app(Echo))
            .bind(setup.listen_at())
            .soon()
            .unwrap();
        let mut streams: Vec<_> = (0..3).map(|_| setup.dial(server.address())).collect();
        for round in 0..20_u8 {
            for stream in &mut streams {
                round_trip(stream, &[round; 64]);
            }
        }
        streams.truncate(1);
        settle(&group);
        round_trip(&mut streams[0], b"the one that is left");
        let figures = group.next().figures();
        assert!(wait != WaitStrategy::Spin || figures.wakeups_sent == 0, "it was never asleep");
        assert_eq!((figures.premature_wakeups, figures.poll_failures), (0, 0), "{wait:?}");
        group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5)).unwrap().soon().unwrap();
        expect_end(&mut streams[0]);
    }
}
