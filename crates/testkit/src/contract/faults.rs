//! Peers that vanish and handlers that panic: the right event once, no spin, nothing left, neighbours live.

use super::{
    Behaviour, Need, ON_PURPOSE, Setup, behaviour,
    support::{
        Cx, Echo, Events, ForeignListener, Peer, Random, Running, Script, Seen, Soon, assert_quiet,
        expect_end, in_own_process, loops_of, open_sockets, pattern, reset, round_trip, script, settle,
        wait_for_sockets,
    },
};
use netwright_core::{CloseCause, WriteError};
use std::{
    io::{ErrorKind, Read, Write},
    time::Duration,
};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_reset_of_an_idle_connection_is_told_once).needs(&[Need::Reset]),
    behaviour!(a_reset_in_the_middle_of_reading_is_told_once_after_what_came).needs(&[Need::Reset]),
    behaviour!(a_reset_that_is_there_before_the_data_is_read_is_told_once).needs(&[Need::Reset]),
    behaviour!(a_reset_in_the_middle_of_writing_fails_what_waits_and_is_told_once).needs(&[Need::Reset]),
    behaviour!(a_peer_that_closes_with_data_unread_ends_a_writer_once),
    behaviour!(a_peer_that_shuts_down_and_then_resets_ends_the_channel_once)
        .needs(&[Need::Reset, Need::HalfClosure]),
    behaviour!(a_client_is_told_of_a_reset_once).needs(&[Need::Reset]),
    behaviour!(a_client_that_is_reset_at_once_begins_and_ends_once)
        .needs(&[Need::Reset, Need::ForeignPeers])
        .in_one_model(),
    behaviour!(resets_at_every_point_leave_no_descriptor).needs(&[
        Need::Reset,
        Need::Descriptors,
        Need::HalfClosure,
    ]),
    behaviour!(a_handler_that_panics_costs_its_own_channel_and_nothing_else).shows(&[51]),
    behaviour!(a_channel_that_panics_fails_what_waits_with_that_cause),
    behaviour!(an_error_that_nobody_handles_closes_the_channel_with_it).shows(&[51]),
];

fn is_reset(cause: &CloseCause) -> bool {
    let gone = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    matches!(cause, CloseCause::Io(error) if gone.contains(&error.kind()))
}

/// The end has come once, and the loops sleep.
#[track_caller]
fn assert_over(running: &Running, events: &Events) {
    running.settle();
    events.nothing();
    running.wait_for_open(0);
    running.assert_quiet();
}

fn a_reset_of_an_idle_connection_is_told_once(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let stream = running.dial();
    let channel = events.active();
    reset(stream);
    let cause = events.end();
    assert!(is_reset(&cause), "{cause}");
    assert!(is_reset(&channel.close_cause().unwrap()));
    assert!(channel.close_cause().unwrap().to_string().contains("connection failed"));
    assert_over(&running, &events);
}

fn a_reset_in_the_middle_of_reading_is_told_once_after_what_came(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    events.active();
    stream.write_all(b"half a mess").unwrap();
    events.read(b"half a mess");
    reset(stream);
    let cause = events.end();
    assert!(is_reset(&cause), "{cause}");
    assert_over(&running, &events);
}

/// Data and reset are there before the loop looks. Whether the data is still handed over is the system's choice.
fn a_reset_that_is_there_before_the_data_is_read_is_told_once(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    events.active();
    let hold = running.hold();
    stream.write_all(b"half a mess").unwrap();
    reset(stream);
    drop(hold);
    let cause = match events.next() {
        Seen::Read(bytes) => {
            assert_eq!(bytes, b"half a mess");
            events.end()
        }
        Seen::Inactive(cause) => {
            assert!(matches!(events.next(), Seen::Removed));
            cause
        }
        other => panic!("{other}"),
    };
    assert!(is_reset(&cause), "{cause}");
    assert_over(&running, &events);
}

fn a_reset_in_the_middle_of_writing_fails_what_waits_and_is_told_once(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial_narrow();
    let channel = events.active();
    let mut under_way = channel.send(pattern(8 << 20));
    let mut behind = channel.send("behind");
    let mut not_flushed = channel.write_tracked("not flushed");
    stream.read_exact(&mut [0; 1000]).unwrap();
    reset(stream);
    for write in [&mut under_way, &mut behind, &mut not_flushed] {
        let failed = write.soon();
        assert!(matches!(&failed, Err(WriteError::Closed(cause)) if is_reset(cause)), "{failed:?}");
    }
    let cause = events.skip_to_end();
    assert!(is_reset(&cause), "{cause}");
    assert_over(&running, &events);
}

/// The peer's system answers what comes after its close with a reset.
fn a_peer_that_closes_with_data_unread_ends_a_writer_once(setup: Setup) {
    let (script, events) = script();
    let script = script.on_active(|cx, ()| {
        cx.arm(Duration::from_millis(1));
    });
    let running = setup.serve(script.on_timer(|cx, _| {
        cx.write_and_flush(vec![1; 1000]);
        cx.arm(Duration::from_millis(1));
    }));
    let mut stream = running.dial();
    events.active();
    stream.read_exact(&mut [0; 10]).unwrap();
    drop(stream);
    events.skip_to_end();
    assert_over(&running, &events);
}

fn a_peer_that_shuts_down_and_then_resets_ends_the_channel_once(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let stream = running.dial();
    events.active();
    let hold = running.hold();
    stream.shut_down().unwrap();
    reset(stream);
    drop(hold);
    events.end();
    assert_over(&running, &events);
}

fn a_client_is_told_of_a_reset_once(setup: Setup) {
    let options = netwright_transport::StreamOptions::new().linger(Duration::ZERO);
    let (server_script, _at_server) = script();
    let running =
        setup.serve_with(server_script.on_read(|cx, _| cx.close()), |builder| builder.options(options));
    let (script, events) = script();
    let client = setup.client(script);
    let channel = client.connect(running.address()).soon().unwrap();
    events.active();
    channel.write_and_flush("please reset me");
    let cause = events.end();
    assert!(is_reset(&cause), "{cause}");
    settle(&loops_of(&client));
    events.nothing();
    assert_quiet(&loops_of(&client));
}

/// The connection is reset as soon as it is established, so the client finds both at once, or one after the other.
fn a_client_that_is_reset_at_once_begins_and_ends_once(setup: Setup) {
    let listener = ForeignListener::new(setup);
    let (script, events) = script();
    let client = setup.client(script);
    let mut connecting = client.connect(listener.address());
    reset(listener.accept());
    match connecting.soon() {
        Ok(channel) => {
            assert_eq!(events.active(), channel);
            let cause = events.end();
            assert!(is_reset(&cause), "{cause}");
        }
        Err(error) => {
            assert!(error.to_string().contains(&listener.address().to_string()), "{error}")
        }
    }
    settle(&loops_of(&client));
    events.nothing();
    assert_quiet(&loops_of(&client));
    assert!(loops_of(&client).iter().all(|event_loop| event_loop.figures().sources == 0));
}

fn resets_at_every_point_leave_no_descriptor(setup: Setup) {
    in_own_process(setup, || {
        let (script, events) = script();
        let script = script.on_read(|cx, bytes| {
            let answer = if bytes[0] == b'w' { 4 << 20 } else { 10 };
            cx.write_and_flush(vec![7; answer]);
        });
        let running = setup.serve_with(script, |builder| builder.half_closure(true));
        let before = open_sockets();
        let mut random = Random::new();
        const POINTS: usize = 7;
        for point in (0..POINTS).chain((0..100).map(|_| random.below(POINTS))) {
            let begin = |events: &Events| {
                let stream = running.dial();
                (stream, events.active())
            };
            match point {
                0 => {
                    let hold = running.hold();
                    reset(running.dial());
                    drop(hold);
                }
                1 => reset(begin(&events).0),
                2 => {
                    let (mut stream, _) = begin(&events);
                    stream.write_all(b"read").unwrap();
                    reset(stream);
                }
                3 => {
                    let (mut stream, _) = begin(&events);
                    stream.write_all(b"write").unwrap();
                    stream.read_exact(&mut [0; 100]).unwrap();
                    reset(stream);
                }
                4 => {
                    let (stream, _) = begin(&events);
                    stream.shut_down().unwrap();
                    events.input_closed();
                    reset(stream);
                }
                5 => {
                    let (mut stream, channel) = begin(&events);
                    channel.shut_down_output_tracked().soon().unwrap();
                    expect_end(&mut stream);
                    reset(stream);
                }
                _ => {
                    let (stream, channel) = begin(&events);
                    channel.pause();
                    running.settle();
                    reset(stream);
                }
            }
            events.skip_to_end();
        }
        running.settle();
        events.nothing();
        wait_for_sockets(before);
        running.assert_quiet();
        assert_eq!(running.server.figures().open, 0);
    });
}

// ---- panics ----

const WHY: &str = ON_PURPOSE;

/// One script for each call in which a handler can panic, and what a peer does to bring it about.
fn panicking() -> Vec<(&'static str, Script, Events)> {
    fn boom(cx: &mut Cx<'_>) {
        panic!("{WHY}, on {}", cx.view().id());
    }
    let mut list = Vec::new();
    let mut add = |at, change: fn(Script) -> Script| {
        let (script, events) = script();
        list.push((at, change(script), events));
    };
    add("active", |script| script.on_active(|cx, ()| boom(cx)));
    add("read", |script| script.on_read(|cx, _| boom(cx)));
    add("read_complete", |script| script.on_read_complete(|cx, ()| boom(cx)));
    add("input_closed", |script| script.on_input_closed(|cx, ()| boom(cx)));
    add("inactive", |script| script.on_inactive(|cx, ()| boom(cx)));
    add("removed", |script| script.on_removed(|| panic!("{WHY}")));
    add("timer", |script| {
        script
            .on_active(|cx, ()| {
                cx.arm(Duration::from_millis(1));
            })
            .on_timer(|cx, _| boom(cx))
    });
    add("writability", |script| {
        script.on_active(|cx, ()| cx.write_and_flush(vec![0; 1 << 20])).on_writability(|cx, _| boom(cx))
    });
    list
}

/// Does what brings every call about; the connection may end at any time.
fn provoke(mut stream: Peer) {
    let _ = stream.write_all(b"hello");
    let _ = stream.shut_down();
    let _ = stream.read_to_end(&mut Vec::new());
}

fn a_handler_that_panics_costs_its_own_channel_and_nothing_else(setup: Setup) {
    for (at, script, events) in panicking() {
        // The neighbours run the same pipeline on the same loops, without the panic: they are asked by another server.
        let (builder, loops) = setup.server();
        let server = builder
            .half_closure(true)
            .pipeline(move |_| netwright_core::pipeline().app(script.probe()))
            .bind(setup.listen_at())
            .soon()
            .unwrap();
        let neighbours = loops
            .hosts
            .host(setup.bare_server())
            .pipeline(|_| netwright_core::pipeline().app(Echo))
            .bind(setup.listen_at())
            .soon()
            .unwrap();
        let mut live: Vec<_> = (0..4).map(|_| setup.dial(neighbours.address())).collect();
        live.iter_mut().for_each(|stream| round_trip(stream, b"before"));

        let stream = setup.dial(server.address());
        let channel = events.active();
        let peer = std::thread::spawn(move || provoke(stream));
        if ["inactive", "removed"].contains(&at) {
            channel.close();
        }
        let cause = channel.closed().soon();
        match &cause {
            CloseCause::Panicked(message) => assert!(message.contains(WHY), "{at}: {message}"),
            _ => assert!(["inactive", "removed"].contains(&at), "{at}: {cause}"),
        }
        peer.join().unwrap();
        let late = channel.send("late").soon();
        assert!(matches!(late, Err(WriteError::Closed(_))), "{at}: {late:?}");

        live.iter_mut().for_each(|stream| round_trip(stream, b"after"));
        let running = Running { setup, server, loops };
        running.wait_for_open(0);
        running.assert_quiet();
        for event_loop in running.loops.all() {
            let panics = event_loop.figures().panics;
            assert_eq!(panics, 0, "{at}: the panic stayed in its channel");
        }
    }
}

fn a_channel_that_panics_fails_what_waits_with_that_cause(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script.on_read(|_, _| panic!("{WHY}")));
    let mut stream = running.dial_narrow();
    let channel = events.active();
    let mut waits = channel.send(pattern(8 << 20));
    stream.write_all(b"go").unwrap();
    let failed = waits.soon();
    let because = |cause: &CloseCause| matches!(cause, CloseCause::Panicked(message) if message == WHY);
    assert!(matches!(&failed, Err(WriteError::Closed(cause)) if because(cause)), "{failed:?}");
    assert!(because(&channel.closed().soon()));
    running.wait_for_open(0);
}

fn an_error_that_nobody_handles_closes_the_channel_with_it(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script.on_read(|cx, _| cx.fire_error(std::fmt::Error)));
    let mut stream = running.dial();
    let channel = events.active();
    stream.write_all(b"go").unwrap();
    events.read(b"go");
    let cause = events.end();
    assert!(
        matches!(&cause, CloseCause::Fault(fault) if fault.downcast_ref::<std::fmt::Error>().is_some()),
        "{cause}"
    );
    assert!(channel.close_cause().unwrap().to_string().contains("unhandled error"));
    expect_end(&mut stream);
}
