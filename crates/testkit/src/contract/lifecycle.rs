//! A channel begins once and ends once, and everybody is told in the same order.

use super::{
    Behaviour, Need, Setup, behaviour,
    support::{
        Echo, Loops, PATIENCE, Running, Seen, Soon, assert_nobody_listens, expect, expect_end, loops_of,
        pattern, round_trip, script, settle, wait_until,
    },
};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    ChannelState, CloseCause, Context, Handler, Outgoing, WriteError, WritePromise, pipeline,
};
use netwright_transport::{BindError, ConnectError};
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(active_comes_first_then_reads_then_inactive_then_removed),
    behaviour!(a_client_channel_is_active_when_its_connect_resolves).shows(&[42]),
    behaviour!(connect_then_immediate_close_is_active_once_and_inactive_once).shows(&[56]),
    behaviour!(a_close_in_the_listener_of_the_connect_ends_the_channel_once).shows(&[56]),
    behaviour!(a_handler_that_closes_in_active_is_told_inactive_afterwards),
    behaviour!(closing_twice_succeeds_twice_and_tells_the_pipeline_once).shows(&[57]),
    behaviour!(the_first_cause_of_a_close_counts),
    behaviour!(a_message_is_released_before_its_promise_completes).shows(&[64]).needs(&[Need::Copies]),
    behaviour!(a_message_is_released_once_when_it_has_arrived).shows(&[64]),
    behaviour!(a_write_to_a_closed_channel_fails_at_once_and_releases_its_message).shows(&[43]),
    behaviour!(nobody_waits_for_ever_for_a_channel_that_is_over).shows(&[43]),
    behaviour!(every_write_that_races_with_the_end_is_answered).shows(&[43]),
    behaviour!(what_is_written_before_the_channel_is_active_is_sent_when_it_is).shows(&[63]),
    behaviour!(attributes_belong_to_one_channel).shows(&[44]),
    behaviour!(timers_fire_on_the_channel_and_are_forgotten_with_it),
    behaviour!(bind_and_connect_on_a_loop_do_not_block_it).shows(&[45]),
    behaviour!(a_graceful_shutdown_is_over_as_soon_as_the_last_channel_ends),
    behaviour!(a_graceful_shutdown_cuts_what_is_left_at_the_deadline_and_counts_it),
    behaviour!(after_a_graceful_shutdown_nobody_listens),
    behaviour!(a_connection_accepted_just_before_a_graceful_shutdown_is_counted),
    behaviour!(dropping_the_server_stops_listening_and_leaves_connections_alone),
    behaviour!(the_end_of_the_loops_ends_their_channels_with_that_cause),
    behaviour!(a_paused_channel_ends_with_its_loop_although_it_holds_messages).in_one_model(),
    behaviour!(a_handler_that_closes_in_read_gets_nothing_more),
    behaviour!(what_a_handler_asks_for_after_the_end_is_without_effect),
    behaviour!(a_channel_that_many_threads_close_ends_once),
    behaviour!(a_graceful_shutdown_lets_an_answer_that_is_under_way_finish),
];

fn active_comes_first_then_reads_then_inactive_then_removed(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    stream.write_all(b"hello").unwrap();
    let channel = events.active();
    assert_eq!(channel.state(), ChannelState::Active);
    assert_eq!(channel.peer(), Some(stream.own_address()));
    assert_eq!(channel.local().as_ref(), Some(running.address()));
    assert!(matches!(events.next_of_all(), Seen::Read(bytes) if bytes == b"hello"));
    assert!(matches!(events.next_of_all(), Seen::ReadComplete));
    drop(stream);
    assert!(matches!(events.next_of_all(), Seen::Inactive(CloseCause::PeerClosed)));
    assert!(matches!(events.next_of_all(), Seen::Removed));
    assert_eq!(channel.state(), ChannelState::Closed);
    running.settle();
    events.nothing();
}

fn a_client_channel_is_active_when_its_connect_resolves(setup: Setup) {
    let running = setup.echo();
    let (script, events) = script();
    let client = setup.client(script);
    let channel = client.connect(running.address()).soon().unwrap();
    assert_eq!(channel.state(), ChannelState::Active);
    assert_eq!(channel.peer().as_ref(), Some(running.address()));
    assert_eq!(events.active(), channel);
}

fn connect_then_immediate_close_is_active_once_and_inactive_once(setup: Setup) {
    let running = setup.echo();
    let (script, events) = script();
    let client = setup.client(script);
    for _ in 0..20 {
        let channel = client.connect(running.address()).soon().unwrap();
        let mut closed = channel.close();
        assert_eq!(events.active(), channel);
        assert!(matches!(events.end(), CloseCause::Requested));
        assert!(matches!(closed.soon(), CloseCause::Requested));
    }
    settle(&loops_of(&client));
    events.nothing();
    running.wait_for_open(0);
}

fn a_close_in_the_listener_of_the_connect_ends_the_channel_once(setup: Setup) {
    let running = setup.echo();
    let (script, events) = script();
    let client = setup.client(script);
    let connecting = client.connect(running.address());
    connecting.listen(|connected| drop(connected.as_ref().unwrap().close()));
    events.active();
    assert!(matches!(events.end(), CloseCause::Requested));
    settle(&loops_of(&client));
    events.nothing();
}

fn a_handler_that_closes_in_active_is_told_inactive_afterwards(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script.on_active(|cx, ()| {
        cx.write_and_flush("too late");
        cx.close();
    }));
    let mut stream = running.dial();
    events.active();
    assert!(matches!(events.end(), CloseCause::Requested));
    expect(&mut stream, b"too late");
    expect_end(&mut stream);
    running.settle();
    events.nothing();
}

fn closing_twice_succeeds_twice_and_tells_the_pipeline_once(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    let (mut first, mut second) = (channel.close(), channel.close());
    assert!(matches!(first.soon(), CloseCause::Requested));
    assert!(matches!(second.soon(), CloseCause::Requested));
    events.end();
    assert!(matches!(channel.close().soon(), CloseCause::Requested), "and long after");
    expect_end(&mut stream);
    running.settle();
    events.nothing();
}

fn the_first_cause_of_a_close_counts(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let _stream = running.dial();
    let channel = events.active();
    channel.close_because(CloseCause::TimedOut(Duration::from_secs(7)));
    channel.close();
    assert!(matches!(events.end(), CloseCause::TimedOut(time) if time.as_secs() == 7));
    assert!(matches!(channel.close_cause(), Some(CloseCause::TimedOut(_))));
}

/// Counts its drops.
struct Counted(Bytes, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

fn a_message_is_released_before_its_promise_completes(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let _stream = running.dial();
    let channel = events.active();
    let drops = Arc::new(AtomicUsize::new(0));
    let message = Bytes::from_owner(Counted(Bytes::from_static(b"once"), drops.clone()));
    channel.send(message).soon().unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

fn a_message_is_released_once_when_it_has_arrived(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    let drops = Arc::new(AtomicUsize::new(0));
    let message = Bytes::from_owner(Counted(Bytes::from_static(b"once"), drops.clone()));
    channel.send(message).soon().unwrap();
    expect(&mut stream, b"once");
    wait_until(|| drops.load(Ordering::SeqCst) == 1, || "the message to be released".to_owned());
    channel.close();
    events.end();
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

fn a_write_to_a_closed_channel_fails_at_once_and_releases_its_message(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let _stream = running.dial();
    let channel = events.active();
    let drops = Arc::new(AtomicUsize::new(0));
    let message = || Bytes::from_owner(Counted(Bytes::from_static(b"never"), drops.clone()));
    channel.write(message());
    channel.close().soon();
    events.end();
    assert_eq!(drops.load(Ordering::SeqCst), 1, "not flushed, not sent");
    let refused = channel.send(message()).soon();
    assert!(matches!(refused, Err(WriteError::Closed(CloseCause::Requested))), "{refused:?}");
    assert_eq!(drops.load(Ordering::SeqCst), 2);
    let refused = channel.shut_down_output_tracked().soon();
    assert!(matches!(refused, Err(WriteError::Closed(_))), "{refused:?}");
}

fn nobody_waits_for_ever_for_a_channel_that_is_over(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let _stream = running.dial();
    let channel = events.active();
    channel.close().soon();
    events.end();
    running.settle();
    let stages = channel.stages().wait_timeout(PATIENCE);
    assert!(matches!(stages, Some(Err(_))), "{stages:?}");
    channel.flush();
    channel.resume();
    assert!(matches!(channel.close().soon(), CloseCause::Requested));
}

/// Writes are on their way to the loop while the channel ends there: each is sent or fails, none is forgotten.
fn every_write_that_races_with_the_end_is_answered(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script.on_read(|cx, _| cx.close()));
    for _ in 0..50 {
        let mut stream = running.dial();
        let channel = events.active();
        stream.write_all(b"end").unwrap();
        let mut writes = Vec::new();
        while channel.state() == ChannelState::Active && writes.len() < 10_000 {
            writes.push(channel.send("x"));
        }
        writes.push(channel.send("x"));
        for mut write in writes {
            let answer =
                write.wait_timeout(PATIENCE).expect("a write on its way when the channel ended is answered");
            assert!(matches!(answer, Ok(()) | Err(WriteError::Closed(_))), "{answer:?}");
        }
        events.skip_to_end();
    }
}

/// Writes before the channel is connected.
struct Eager;

impl Handler for Eager {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn added(&mut self, cx: &mut Context<'_, Self>) {
        cx.write("added ");
        cx.flush();
    }
    fn active(&mut self, cx: &mut Context<'_, Self>) {
        cx.write("active ");
        cx.flush();
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

fn what_is_written_before_the_channel_is_active_is_sent_when_it_is(setup: Setup) {
    let (builder, _loops) = setup.server();
    let server =
        builder.pipeline(|_| pipeline().add(Eager).app(Echo)).bind(setup.listen_at()).soon().unwrap();
    let mut stream = setup.dial(server.address());
    expect(&mut stream, b"added active ");
    round_trip(&mut stream, b"and on");

    // The same from the connecting side.
    let (script, events) = script();
    let running = setup.serve(script);
    let client = setup.client_builder().pipeline(|| pipeline().add(Eager).app(Echo)).unwrap();
    let channel = client.connect(running.address()).soon().unwrap();
    events.active();
    events.read(b"added active ");
    channel.close();
    events.end();
}

fn attributes_belong_to_one_channel(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let (_first, first) = (running.dial(), events.active());
    let (_second, second) = (running.dial(), events.active());
    assert_eq!(first.set_attribute(7_u32), None);
    assert_eq!(first.attribute::<u32>().as_deref(), Some(&7));
    assert_eq!(second.attribute::<u32>(), None);
    assert_ne!(first.id(), second.id());
}

fn timers_fire_on_the_channel_and_are_forgotten_with_it(setup: Setup) {
    let (script, events) = script();
    let script = script
        .on_active(|cx, ()| {
            cx.arm(Duration::from_millis(1));
            cx.arm(Duration::from_secs(3600));
        })
        .on_timer(|cx, _| cx.write_and_flush("tick"));
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    expect(&mut stream, b"tick");
    channel.close();
    events.end();
    running.settle();
    for event_loop in running.loops.all() {
        assert_eq!(event_loop.figures().timers_pending, 0);
    }
}

/// Waiting on a loop's thread is an error, not a deadlock; awaiting works, also for a server on the same loop.
fn bind_and_connect_on_a_loop_do_not_block_it(setup: Setup) {
    let (builder, loops) = setup.server();
    let Loops { hosts, acceptors, .. } = loops;
    let place = hosts.loops().first().cloned().unwrap_or_else(|| acceptors.next());
    let (told, answer) = mpsc::channel();
    let (client_script, events) = script();
    let task = {
        async move {
            let mut binding = builder.pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at());
            let refused = binding.wait();
            assert!(matches!(refused, Err(BindError::WouldBlockLoop)), "{refused:?}");
            let server = binding.await.unwrap();
            let client = hosts
                .host_client(setup.client_builder())
                .pipeline(move || pipeline().app(client_script.probe()))
                .unwrap();
            let mut connecting = client.connect(server.address());
            let refused = connecting.wait();
            assert!(matches!(refused, Err(ConnectError::WouldBlockLoop)), "{refused:?}");
            let channel = connecting.await.unwrap();
            channel.write_and_flush("from a loop");
            told.send((server, client, channel)).unwrap();
        }
    };
    let mut spawned = place.spawn(task).unwrap();
    spawned.soon().unwrap();
    let (_server, _client, _channel) = answer.recv_timeout(PATIENCE).unwrap();
    events.active();
    events.read(b"from a loop");
}

fn a_graceful_shutdown_is_over_as_soon_as_the_last_channel_ends(setup: Setup) {
    let running = setup.echo();
    let mut streams: Vec<_> = (0..5).map(|_| running.dial()).collect();
    streams.iter_mut().for_each(|stream| round_trip(stream, b"here"));
    let mut shutdown = running.server.drain(Duration::from_secs(3600));
    streams.iter_mut().for_each(|stream| round_trip(stream, b"still served"));
    assert!(!shutdown.is_done());
    drop(streams);
    let result = shutdown.wait_timeout(PATIENCE).expect("an hour early").unwrap();
    assert_eq!(result.cut, 0);
    assert_eq!(running.server.figures().open, 0);
}

fn a_graceful_shutdown_cuts_what_is_left_at_the_deadline_and_counts_it(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut streams: Vec<_> = (0..5).map(|_| running.dial()).collect();
    let channels: Vec<_> = streams.iter().map(|_| events.active()).collect();
    let mut shutdown = running.server.drain(Duration::from_millis(30));
    let result = shutdown.wait_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(result.cut, 5);
    for stream in &mut streams {
        expect_end(stream);
    }
    for channel in channels {
        assert!(matches!(channel.closed().soon(), CloseCause::ShutDown));
    }
    running.wait_for_open(0);
}

fn after_a_graceful_shutdown_nobody_listens(setup: Setup) {
    for _ in 0..10 {
        let running = setup.echo();
        let result = running.server.drain(Duration::from_secs(3600)).soon().unwrap();
        assert_eq!(result.cut, 0);
        assert_nobody_listens(setup, running.address());
    }
}

/// Accepted by one loop and on its way to another when the shutdown is asked for: it is a connection like any other.
fn a_connection_accepted_just_before_a_graceful_shutdown_is_counted(setup: Setup) {
    for _ in 0..20 {
        let (script, events) = script();
        let running = setup.serve(script);
        let mut stream = running.dial();
        let mut shutdown = running.server.drain(Duration::from_millis(1));
        let cut = shutdown.wait_timeout(PATIENCE).unwrap().unwrap().cut;
        let accepted = running.server.figures().accepted as usize;
        assert_eq!(cut, accepted, "what was accepted was open at the deadline, and cut");
        if accepted == 1 {
            events.active();
            assert!(matches!(events.end(), CloseCause::ShutDown));
            expect_end(&mut stream);
        }
    }
}

fn dropping_the_server_stops_listening_and_leaves_connections_alone(setup: Setup) {
    let running = setup.echo();
    let address = running.address().clone();
    let mut stream = running.dial();
    round_trip(&mut stream, b"before");
    let Running { server, loops, .. } = running;
    let clone = server.clone();
    drop(server);
    round_trip(&mut setup.dial(&address), b"a clone keeps it");
    drop(clone);
    settle(&loops.all());
    assert_nobody_listens(setup, &address);
    round_trip(&mut stream, b"after: its loop is still held by the test");
}

fn the_end_of_the_loops_ends_their_channels_with_that_cause(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    let mut ended = running.loops.hosts.shut_down();
    assert!(matches!(events.end(), CloseCause::ShutDown));
    expect_end(&mut stream);
    ended.soon().unwrap();
    assert!(matches!(channel.closed().soon(), CloseCause::ShutDown));
    let late = channel.send("late").soon();
    assert!(matches!(late, Err(WriteError::Closed(CloseCause::ShutDown))), "{late:?}");
}

fn a_paused_channel_ends_with_its_loop_although_it_holds_messages(setup: Setup) {
    let group = setup.event_loops(1);
    let (script, events) = script();
    // Two stages, so that a message can be held between them.
    struct Pass;
    impl Handler for Pass {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Outgoing;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
            cx.pause();
            cx.fire_read(bytes);
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
            cx.write_with(bytes, done);
        }
    }
    let server = setup
        .bare_server()
        .group(group.clone())
        .pipeline(move |_| pipeline().add(Pass).app(script.probe()))
        .bind(setup.listen_at())
        .soon()
        .unwrap();
    let mut stream = setup.dial(server.address());
    let channel = events.active();
    stream.write_all(b"held").unwrap();
    settle(&group);
    events.nothing();
    group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5)).unwrap().soon().unwrap();
    assert!(matches!(channel.closed().soon(), CloseCause::ShutDown));
}

fn a_handler_that_closes_in_read_gets_nothing_more(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script.on_read(|cx, _| cx.close()));
    let mut stream = running.dial();
    events.active();
    let hold = running.hold();
    stream.write_all(&vec![1; 150_000]).unwrap(); // several reads, and less than any system holds
    drop(hold);
    assert!(matches!(events.next(), Seen::Read(_)));
    assert!(matches!(events.end(), CloseCause::Requested));
    running.settle();
    events.nothing();
}

fn what_a_handler_asks_for_after_the_end_is_without_effect(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script.on_inactive(|cx, ()| {
        cx.write_and_flush("too late");
        cx.shut_down_output();
        cx.close();
        cx.resume();
        cx.arm(Duration::from_millis(1));
        assert!(cx.view().close_cause().is_some());
    }));
    drop(running.dial());
    events.active();
    assert!(matches!(events.end(), CloseCause::PeerClosed));
    running.settle();
    events.nothing();
    running.wait_for_open(0);
    running.assert_quiet();
}

fn a_channel_that_many_threads_close_ends_once(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    for _ in 0..10 {
        let stream = running.dial();
        let channel = events.active();
        let closers: Vec<_> = (0..4)
            .map(|_| {
                let channel = channel.clone();
                std::thread::spawn(move || channel.close().soon())
            })
            .collect();
        drop(stream); // and the peer too
        closers.into_iter().for_each(|closer| drop(closer.join().unwrap()));
        events.end();
    }
    running.settle();
    events.nothing();
}

fn a_graceful_shutdown_lets_an_answer_that_is_under_way_finish(setup: Setup) {
    const LEN: usize = 8 << 20;
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial_narrow();
    let channel = events.active();
    channel.write_and_flush(pattern(LEN));
    channel.close_when_flushed();
    let mut shutdown = running.server.drain(PATIENCE * 2);
    expect(&mut stream, &pattern(LEN));
    expect_end(&mut stream);
    assert_eq!(shutdown.soon().unwrap().cut, 0);
    running.settle();
    for event_loop in running.loops.all() {
        assert_eq!(event_loop.figures().timers_pending, 0, "the deadline is forgotten");
    }
}
