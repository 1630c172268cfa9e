//! What is particular to a thread for each channel: the threads, their limit and their end.

use super::{
    Behaviour, Need, Setup, behaviour,
    support::{
        Echo, PATIENCE, Refusing, Script, Soon, Unanswering, assert_quiet, expect, expect_end,
        in_own_process, reset, round_trip, script, settle, wait_until,
    },
};
use bytes::BytesMut;
use netwright_core::{AppContext, Application, Outgoing, pipeline};
use netwright_transport::{BindError, ConnectError, Server, ServerBuilder, ThreadFigures, ThreadPerChannel};
use std::{
    io::{ErrorKind, Read, Write},
    sync::{Mutex, mpsc},
    thread::{self, ThreadId},
    time::Duration,
};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_handler_that_blocks_its_thread_holds_up_no_other_channel_and_no_shutdown)
        .needs(NEEDS)
        .in_one_model(),
    behaviour!(channels_have_different_threads_and_a_thread_that_is_free_is_used_again)
        .needs(NEEDS)
        .in_one_model(),
    behaviour!(idle_threads_end_after_their_time_and_new_ones_come_when_needed).needs(NEEDS).in_one_model(),
    behaviour!(nothing_of_a_channel_is_left_on_its_thread_for_the_next_one).needs(NEEDS).in_one_model(),
    behaviour!(beyond_the_limit_a_connection_is_reset_and_counted_and_later_ones_are_served)
        .needs(NEEDS)
        .in_one_model(),
    behaviour!(five_hundred_rounds_of_connecting_and_closing_leave_no_thread_and_no_descriptor)
        .needs(NEEDS)
        .in_one_model(),
    behaviour!(the_end_of_the_threads_ends_their_channels_and_the_listener_refuses_what_comes_later)
        .needs(NEEDS)
        .in_one_model(),
    behaviour!(when_server_and_threads_are_gone_so_are_the_connections).needs(NEEDS).in_one_model(),
    behaviour!(the_blocking_backend_alone_means_a_thread_for_each_connection_on_both_sides)
        .needs(NEEDS)
        .in_one_model(),
    behaviour!(a_connect_that_fails_or_is_cancelled_gives_its_thread_back).needs(NEEDS).in_one_model(),
    behaviour!(a_client_beyond_the_limit_learns_both_numbers_and_connects_when_there_is_room)
        .needs(NEEDS)
        .in_one_model(),
    behaviour!(settings_that_do_not_go_together_are_refused_by_name).needs(NEEDS).in_one_model(),
    behaviour!(loops_of_a_group_that_block_in_poll_host_many_connections).needs(NEEDS).in_one_model(),
];

const NEEDS: &[Need] = &[Need::Threads];

fn wait_for(threads: &ThreadPerChannel, done: impl Fn(ThreadFigures) -> bool) {
    wait_until(|| done(threads.figures()), || format!("other figures than {:?}", threads.figures()));
}

/// A server whose connections run the script, on these threads.
fn serve(setup: Setup, script: Script, threads: &ThreadPerChannel) -> Server {
    let builder = setup.bare_server().thread_per_channel(threads.clone());
    builder.pipeline(move |_| pipeline().app(script.probe())).bind(setup.listen_at()).soon().unwrap()
}

fn echo(setup: Setup, threads: &ThreadPerChannel) -> Server {
    let builder = setup.bare_server().thread_per_channel(threads.clone());
    builder.pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon().unwrap()
}

fn a_handler_that_blocks_its_thread_holds_up_no_other_channel_and_no_shutdown(setup: Setup) {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let (blocks, blocking) = mpsc::channel();
    let (script, events) = script();
    let script = script.on_read(move |cx, bytes| match &bytes[..] {
        b"block" => {
            blocks.send(()).unwrap();
            let _ = released.lock().unwrap().recv_timeout(PATIENCE);
        }
        _ => cx.write_and_flush(bytes.freeze()),
    });
    let running = setup.serve(script);
    let mut stuck = running.dial();
    stuck.write_all(b"block").unwrap();
    blocking.recv_timeout(PATIENCE).unwrap();
    round_trip(&mut running.dial(), b"meanwhile");
    running.wait_for_open(1);
    let shutdown = running.server.drain(Duration::ZERO).soon().unwrap();
    assert_eq!(shutdown.cut, 1, "it is counted although it cannot notice yet");
    drop(release);
    expect_end(&mut stuck);
    running.wait_for_open(0);
    drop(events);
}

// ---- threads ----

/// Tells on which thread it runs.
struct WhichThread(mpsc::Sender<ThreadId>);

impl Application for WhichThread {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, _: &mut AppContext<'_, Self>) {
        self.0.send(thread::current().id()).unwrap();
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush(bytes.freeze());
    }
}

fn channels_have_different_threads_and_a_thread_that_is_free_is_used_again(setup: Setup) {
    let threads = ThreadPerChannel::new();
    let (tell, told) = mpsc::channel();
    let server = setup
        .bare_server()
        .thread_per_channel(threads.clone())
        .pipeline(move |_| pipeline().app(WhichThread(tell.clone())))
        .bind(setup.listen_at())
        .soon()
        .unwrap();
    let next = || told.recv_timeout(PATIENCE).unwrap();
    let first_stream = setup.dial(server.address());
    let first = next();
    let _second_stream = setup.dial(server.address());
    assert_ne!(next(), first);
    for _ in 0..20 {
        // Whatever ends is free before the next comes, so the same thread serves them all.
        let stream = setup.dial(server.address());
        let thread = next();
        drop(stream);
        wait_for(&threads, |figures| figures.busy == 2);
        let _stream = setup.dial(server.address());
        assert_eq!(next(), thread);
        drop(_stream);
        wait_for(&threads, |figures| figures.busy == 2);
    }
    drop(first_stream);
    wait_for(&threads, |figures| (figures.busy, figures.idle) == (1, 2));
    assert_eq!(threads.figures().started, 3);
}

fn idle_threads_end_after_their_time_and_new_ones_come_when_needed(setup: Setup) {
    let threads = ThreadPerChannel::builder().keep_idle(Duration::from_millis(5)).build().unwrap();
    let server = echo(setup, &threads);
    for round in 1..=3 {
        let mut streams: Vec<_> = (0..4).map(|_| setup.dial(server.address())).collect();
        streams.iter_mut().for_each(|stream| round_trip(stream, b"hello"));
        assert_eq!(threads.figures().busy, 4);
        drop(streams);
        wait_for(&threads, |figures| figures.threads == 0);
        assert!(threads.figures().started >= 4 * round);
    }
}

fn nothing_of_a_channel_is_left_on_its_thread_for_the_next_one(setup: Setup) {
    let threads = ThreadPerChannel::new();
    let (script, events) = script();
    let hour = Duration::from_secs(3600);
    let script = script
        .on_active(move |cx, ()| {
            cx.arm(Duration::from_millis(1));
            cx.arm(hour);
        })
        .on_timer(|cx, _| cx.write_and_flush("due"));
    let server = serve(setup, script, &threads);
    for _ in 0..3 {
        let mut stream = setup.dial(server.address());
        events.active();
        expect(&mut stream, b"due");
        let [event_loop] = &threads.busy_loops()[..] else { panic!("one channel") };
        drop(stream);
        events.skip_to_end();
        wait_for(&threads, |figures| figures.busy == 0);
        settle([event_loop]);
        let figures = event_loop.figures();
        // The only timer left is the one that ends the thread some day.
        assert_eq!((figures.timers_pending, figures.sources, figures.futures), (1, 0, 0));
    }
    assert_eq!(threads.figures().started, 1);
}

fn beyond_the_limit_a_connection_is_reset_and_counted_and_later_ones_are_served(setup: Setup) {
    let threads = ThreadPerChannel::builder().limit(3).build().unwrap();
    let server = echo(setup, &threads);
    for round in 1..=3_u64 {
        let mut served: Vec<_> = (0..3).map(|_| setup.dial(server.address())).collect();
        served.iter_mut().for_each(|stream| round_trip(stream, b"in"));
        let mut refused = setup.dial(server.address());
        let error = refused.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "not a silent end");
        served.iter_mut().for_each(|stream| round_trip(stream, b"unharmed"));
        assert_eq!((server.figures().refused, threads.figures().refused), (round, round));
        drop(served);
        wait_for(&threads, |figures| figures.busy == 0);
    }
    assert_eq!((threads.figures().threads, threads.figures().started), (3, 3));
    assert_quiet(server.group());
}

fn five_hundred_rounds_of_connecting_and_closing_leave_no_thread_and_no_descriptor(setup: Setup) {
    in_own_process(setup, || {
        let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
        let threads = ThreadPerChannel::builder().keep_idle(Duration::from_millis(20)).build().unwrap();
        let server = echo(setup, &threads);
        let (script, _events) = script();
        let client = setup.client_with(script, |builder| builder.thread_per_channel(threads.clone()));
        settle(server.group());
        settle(client.group());
        // The resolver and its like have what they need after the first.
        client.connect(server.address()).soon().unwrap().close().soon();
        wait_for(&threads, |figures| figures.threads == 0);
        let (tasks, descriptors) = (count("task"), count("fd"));
        let mut kept = Vec::new();
        for round in 0..500 {
            if round % 2 == 0 {
                let mut stream = setup.dial(server.address());
                round_trip(&mut stream, b"hello");
                if round % 4 == 0 {
                    reset(stream);
                }
            } else {
                let channel = client.connect(server.address()).soon().unwrap();
                channel.close().soon();
                kept.push(channel); // a handle keeps nothing of the system
            }
        }
        assert!(threads.figures().started < 500, "threads are used again");
        wait_for(&threads, |figures| figures.threads == 0);
        assert_eq!(server.figures().open, 0);
        // A thread tells of its end a moment before the system forgets it.
        wait_until(|| count("task") <= tasks, || format!("{tasks} threads: {}", count("task")));
        wait_until(|| count("fd") <= descriptors, || format!("{descriptors} descriptors: {}", count("fd")));
        drop(kept);
    });
}

fn the_end_of_the_threads_ends_their_channels_and_the_listener_refuses_what_comes_later(setup: Setup) {
    let threads = ThreadPerChannel::new();
    let server = echo(setup, &threads);
    let mut stream = setup.dial(server.address());
    round_trip(&mut stream, b"hello");
    threads.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().soon().unwrap();
    expect_end(&mut stream);
    assert_eq!(setup.dial(server.address()).read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(server.figures().refused, 1);
}

fn when_server_and_threads_are_gone_so_are_the_connections(setup: Setup) {
    let server = setup.bare_server().pipeline(|_| pipeline().app(Echo));
    let server = server.bind(setup.listen_at()).soon().unwrap();
    let mut stream = setup.dial(server.address());
    round_trip(&mut stream, b"hello");
    drop(server);
    expect_end(&mut stream);
}

// ---- set up ----

fn the_blocking_backend_alone_means_a_thread_for_each_connection_on_both_sides(setup: Setup) {
    let (script, events) = script();
    let builder = setup.bare_server();
    let server = builder.pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon().unwrap();
    let client = setup.client(script);
    let (at_server, at_client) = (server.threads().unwrap(), client.threads().unwrap());
    let channels: Vec<_> = (0..5).map(|_| client.connect(server.address()).soon().unwrap()).collect();
    channels.iter().for_each(|_| drop(events.active()));
    for channel in &channels {
        channel.write_and_flush("hello");
        events.read(b"hello");
    }
    for threads in [at_server, at_client] {
        assert_eq!((threads.figures().busy, threads.figures().started), (5, 5));
    }
    assert_eq!(server.group().len(), 1, "the loop that accepts");
    channels.iter().for_each(|channel| drop(channel.close().soon()));
    for threads in [at_server, at_client] {
        wait_for(threads, |figures| (figures.busy, figures.idle) == (0, 5));
    }
}

fn a_connect_that_fails_or_is_cancelled_gives_its_thread_back(setup: Setup) {
    let threads = ThreadPerChannel::new();
    let set_up = |threads: &ThreadPerChannel| {
        let threads = threads.clone();
        setup.client_with(script().0, move |builder| builder.thread_per_channel(threads))
    };
    let client = set_up(&threads);
    let nobody = Refusing::new(setup);
    assert!(matches!(client.connect(nobody.addr()).soon(), Err(ConnectError::Refused(_))));
    wait_for(&threads, |figures| figures.busy == 0);
    let silent = Unanswering::new().unwrap();
    let connecting = client.connect(silent.addr());
    assert_eq!(threads.figures().busy, 1);
    assert!(connecting.cancel());
    wait_for(&threads, |figures| figures.busy == 0);
    assert_eq!(threads.figures().started, 1);
}

fn a_client_beyond_the_limit_learns_both_numbers_and_connects_when_there_is_room(setup: Setup) {
    let server = setup.echo();
    let threads = ThreadPerChannel::builder().limit(1).build().unwrap();
    let client = setup.client_with(script().0, |builder| builder.thread_per_channel(threads.clone()));
    let channel = client.connect(server.address()).soon().unwrap();
    let error = client.connect(server.address()).soon().expect_err("there is one thread for one channel");
    assert!(matches!(error, ConnectError::NoThread(_)), "{error:?}");
    assert_eq!(error.to_string(), "no thread for another channel: there are 1, and the limit is 1");
    channel.close().soon();
    wait_for(&threads, |figures| figures.busy == 0);
    client.connect(server.address()).soon().unwrap();
}

fn settings_that_do_not_go_together_are_refused_by_name(setup: Setup) {
    let text = |builder: ServerBuilder| match builder
        .pipeline(|_| pipeline().app(Echo))
        .bind(setup.listen_at())
        .soon()
    {
        Err(BindError::Setup(text)) => text,
        other => panic!("{other:?}"),
    };
    let threads = || setup.bare_server().thread_per_channel(ThreadPerChannel::new());
    let said = text(threads().shared_port(true));
    assert!(said.contains("shared_port") && said.contains("thread_per_channel"), "{said}");
    let said = text(setup.bare_server().shared_port(true));
    assert!(said.contains("shared_port") && said.contains("thread_per_channel"), "{said}");
    let said = text(threads().group(setup.event_loops(1)));
    assert!(said.contains("group") && said.contains("thread_per_channel"), "{said}");
    let client =
        setup.client_builder().group(setup.event_loops(1)).thread_per_channel(ThreadPerChannel::new());
    let error = client.pipeline(|| pipeline().app(Echo)).map(drop).unwrap_err();
    assert!(error.to_string().contains("thread_per_channel"), "{error}");
}

fn loops_of_a_group_that_block_in_poll_host_many_connections(setup: Setup) {
    let group = setup.event_loops(2);
    let builder = setup.bare_server().group(group.clone()).shared_port(true);
    let server = builder.pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon().unwrap();
    let mut streams: Vec<_> = (0..60).map(|_| setup.dial(server.address())).collect();
    for _ in 0..3 {
        streams.iter_mut().for_each(|stream| round_trip(stream, b"hello"));
    }
    assert!(server.threads().is_none());
    assert_quiet(&group);
    drop(streams);
    wait_until(|| server.figures().open == 0, || format!("{:?}", server.figures()));
    assert_quiet(&group);
}
