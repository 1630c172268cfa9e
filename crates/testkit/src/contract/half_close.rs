//! One direction ends, the other goes on, if that is allowed.

use super::{
    Behaviour, Need, Setup, behaviour,
    joints::Lines,
    support::{PATIENCE, Running, Seen, Soon, expect, expect_end, pattern, reset, round_trip, script},
};
use bytes::BytesMut;
use netwright_core::{
    AppContext, Application, CloseCause, HalfClosure, Outgoing, Peer, Place, PromiseError, Workers,
    WriteError, pipeline, promise,
};
use netwright_transport::StreamOptions;
use std::{
    io::{ErrorKind, Read, Write},
    num::NonZeroUsize,
    sync::mpsc,
    time::Duration,
};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(without_half_closure_the_end_of_input_closes_the_channel_after_all_data)
        .shows(&[58])
        .needs(&[Need::HalfClosure]),
    behaviour!(answers_flushed_when_all_is_read_leave_before_the_channel_closes).needs(&[Need::HalfClosure]),
    behaviour!(answers_by_a_channels_own_handle_come_before_the_end_of_its_peer).needs(&[Need::HalfClosure]),
    behaviour!(an_end_of_input_waits_for_answers_that_are_still_on_workers).needs(&[Need::HalfClosure]),
    behaviour!(read_complete_comes_after_the_last_read_and_before_the_end).shows(&[58]),
    behaviour!(with_half_closure_the_end_of_input_is_told_once_and_writing_goes_on)
        .shows(&[58])
        .needs(&[Need::HalfClosure]),
    behaviour!(with_half_closure_an_echo_answers_what_came_with_the_end).needs(&[Need::HalfClosure]),
    behaviour!(output_that_is_shut_down_ends_the_peers_input_and_reading_goes_on)
        .shows(&[59])
        .needs(&[Need::HalfClosure]),
    behaviour!(shutting_output_down_waits_for_what_was_flushed_and_refuses_what_comes_later)
        .shows(&[59])
        .needs(&[Need::HalfClosure]),
    behaviour!(a_channel_whose_both_directions_have_ended_is_closed).shows(&[59]).needs(&[Need::HalfClosure]),
    behaviour!(a_reset_after_half_closure_ends_the_channel_once).needs(&[Need::Reset, Need::HalfClosure]),
    behaviour!(a_reset_after_our_output_was_shut_down_ends_the_channel_once)
        .needs(&[Need::Reset, Need::HalfClosure]),
    behaviour!(a_client_half_closes_too).needs(&[Need::HalfClosure]),
    behaviour!(stages_say_whether_a_peer_that_sends_no_more_is_talked_to).needs(&[Need::HalfClosure]),
    behaviour!(a_stage_that_came_by_an_exchange_says_so_too).needs(&[Need::HalfClosure]),
    behaviour!(a_tail_that_reads_to_the_end_answers_then).needs(&[Need::HalfClosure]),
    behaviour!(a_service_answers_a_peer_that_sends_no_more).needs(&[Need::HalfClosure]),
    behaviour!(a_linger_of_zero_resets_the_peer).shows(&[44, 60]).needs(&[Need::Reset]),
    behaviour!(without_a_linger_a_close_is_clean).shows(&[60]),
    behaviour!(a_client_with_a_linger_of_zero_resets_the_server).shows(&[44]).needs(&[Need::Reset]),
    behaviour!(a_peer_that_sends_no_more_gets_all_answers_to_what_it_sent).needs(&[Need::HalfClosure]),
];

fn without_half_closure_the_end_of_input_closes_the_channel_after_all_data(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    let data = pattern(500_000);
    stream.write_all(&data).unwrap();
    stream.shut_down().unwrap();
    events.read(&data);
    assert!(matches!(events.end(), CloseCause::PeerClosed));
    assert!(matches!(channel.close_cause(), Some(CloseCause::PeerClosed)));
    expect_end(&mut stream);
    running.assert_quiet();
}

/// The request and the end of the stream are there before the loop looks, so both are read in one turn.
fn answers_flushed_when_all_is_read_leave_before_the_channel_closes(setup: Setup) {
    let running = setup.echo();
    let mut stream = running.dial();
    round_trip(&mut stream, b"warm");
    let hold = running.hold();
    stream.write_all(b"question").unwrap();
    stream.shut_down().unwrap();
    drop(hold);
    expect(&mut stream, b"question");
    expect_end(&mut stream);
}

/// Answers by what others have of its channel as well: a handle, a way back to itself, a future.
struct Roundabout(HalfClosure);

impl Application for Roundabout {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
        cx.channel().write_and_flush("handle, ");
        cx.caller().call(|_, cx| cx.write_and_flush("caller, "));
        cx.spawn(std::future::ready(()), |_, cx, ()| cx.write_and_flush("future."));
    }
    fn half_closure(&self) -> HalfClosure {
        self.0
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush(" Goodbye.");
        cx.close_when_flushed();
    }
}

/// The same with answers that are asked for in the call that reads, and carried out behind it.
fn answers_by_a_channels_own_handle_come_before_the_end_of_its_peer(setup: Setup) {
    for (says, answer) in [
        (HalfClosure::Passes, "handle, caller, future."),
        (HalfClosure::Needs, "handle, caller, future. Goodbye."),
    ] {
        let (builder, loops) = setup.server();
        let mut bound = builder.pipeline(move |_| pipeline().app(Roundabout(says))).bind(setup.listen_at());
        let running = Running { setup, server: bound.soon().unwrap(), loops };
        for _ in 0..10 {
            assert_eq!(String::from_utf8_lossy(&answer_to(&running)), answer);
        }
        running.wait_for_open(0);
        running.assert_quiet();
    }
}

/// Answers lines, on a worker.
struct Answers;

impl<P: Place> Application<P> for Answers {
    type Read = String;
    type Write = String;

    fn read(&mut self, cx: &mut AppContext<'_, Self, P>, line: String) {
        cx.write(line);
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self, P>) {
        cx.flush();
    }
}

/// As above with every stage on workers, and many requests in one piece.
fn an_end_of_input_waits_for_answers_that_are_still_on_workers(setup: Setup) {
    let (builder, loops) = setup.server();
    let workers = Workers::new(2).unwrap();
    let stages = move |_: &_| pipeline().add_on(&workers, Lines::default()).app_on(&workers, Answers);
    let mut bound = builder.pipeline(stages).bind(setup.listen_at());
    let running = Running { setup, server: bound.soon().unwrap(), loops };
    let lines: String = (0..100).map(|number| format!("line {number}\n")).collect();
    for _ in 0..10 {
        let mut stream = running.dial();
        stream.write_all(lines.as_bytes()).unwrap();
        stream.shut_down().unwrap();
        expect(&mut stream, lines.as_bytes());
        expect_end(&mut stream);
    }
    running.wait_for_open(0);
    running.assert_quiet();
}

fn read_complete_comes_after_the_last_read_and_before_the_end(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    events.active();
    let hold = running.hold();
    stream.write_all(b"all of it").unwrap();
    drop(stream);
    drop(hold);
    assert!(matches!(events.next_of_all(), Seen::Read(bytes) if bytes == b"all of it"));
    assert!(matches!(events.next_of_all(), Seen::ReadComplete));
    assert!(matches!(events.next_of_all(), Seen::Inactive(CloseCause::PeerClosed)));
}

fn with_half_closure_the_end_of_input_is_told_once_and_writing_goes_on(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.half_closure(true));
    let mut stream = running.dial();
    let channel = events.active();
    let data = pattern(500_000);
    stream.write_all(&data).unwrap();
    stream.shut_down().unwrap();
    events.read(&data);
    events.input_closed();
    running.settle();
    events.nothing();
    running.assert_quiet();
    for _ in 0..3 {
        channel.send("still talking").soon().unwrap();
        expect(&mut stream, b"still talking");
    }
    running.settle();
    events.nothing();
    channel.close();
    assert!(matches!(events.end(), CloseCause::Requested));
    expect_end(&mut stream);
}

fn with_half_closure_an_echo_answers_what_came_with_the_end(setup: Setup) {
    let (script, events) = script();
    let script = script
        .on_read(|cx, bytes| cx.write(bytes.freeze()))
        .on_read_complete(|cx, ()| cx.flush())
        .on_input_closed(|cx, ()| cx.close_when_flushed());
    let running = setup.serve_with(script, |builder| builder.half_closure(true));
    let mut stream = running.dial();
    events.active();
    let hold = running.hold();
    stream.write_all(b"question").unwrap();
    stream.shut_down().unwrap();
    drop(hold);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"question");
}

fn output_that_is_shut_down_ends_the_peers_input_and_reading_goes_on(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    channel.write("last ");
    channel.flush();
    channel.write_and_flush("words");
    channel.shut_down_output_tracked().soon().unwrap();
    expect(&mut stream, b"last words");
    expect_end(&mut stream);

    let refused = channel.send("more").soon();
    assert!(matches!(refused, Err(WriteError::OutputShutDown)), "{refused:?}");
    stream.write_all(b"I can still talk").unwrap();
    events.read(b"I can still talk");
    running.settle();
    events.nothing();
    running.assert_quiet();
    drop(stream);
    assert!(matches!(events.end(), CloseCause::PeerClosed));
}

fn shutting_output_down_waits_for_what_was_flushed_and_refuses_what_comes_later(setup: Setup) {
    const LEN: usize = 8 << 20; // more than the system holds for a narrow peer
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial_narrow();
    let channel = events.active();
    let mut sent = channel.send(pattern(LEN));
    let mut shut = channel.shut_down_output_tracked();
    let mut late = channel.send("late");
    let refused = late.soon();
    assert!(matches!(refused, Err(WriteError::OutputShutDown)), "{refused:?}");
    assert!(!shut.is_done(), "what was flushed before is still under way");
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got == pattern(LEN), "{} bytes", got.len());
    sent.soon().unwrap();
    shut.soon().unwrap();
}

/// Nothing can happen to it any more, so nothing but the descriptor would be left of it.
fn a_channel_whose_both_directions_have_ended_is_closed(setup: Setup) {
    // The peer ends first.
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.half_closure(true));
    let mut stream = running.dial();
    let channel = events.active();
    stream.shut_down().unwrap();
    events.input_closed();
    channel.shut_down_output_tracked().soon().unwrap();
    events.end();
    expect_end(&mut stream);

    // We end first.
    let mut stream = running.dial();
    let channel = events.active();
    channel.shut_down_output_tracked().soon().unwrap();
    expect_end(&mut stream);
    stream.shut_down().unwrap();
    events.input_closed();
    assert!(matches!(events.end(), CloseCause::PeerClosed));
    running.wait_for_open(0);
}

fn a_reset_after_half_closure_ends_the_channel_once(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.half_closure(true));
    let stream = running.dial();
    events.active();
    stream.shut_down().unwrap();
    events.input_closed();
    reset(stream);
    let cause = events.end();
    // Linux calls it a broken pipe once the peer has sent its end.
    let gone = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    assert!(matches!(&cause, CloseCause::Io(error) if gone.contains(&error.kind())), "{cause}");
    running.settle();
    events.nothing();
    running.assert_quiet();
}

fn a_reset_after_our_output_was_shut_down_ends_the_channel_once(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    channel.shut_down_output_tracked().soon().unwrap();
    expect_end(&mut stream);
    reset(stream);
    let cause = events.end();
    assert!(matches!(&cause, CloseCause::Io(error) if error.kind() == ErrorKind::ConnectionReset), "{cause}");
    running.settle();
    events.nothing();
    running.assert_quiet();
}

fn a_client_half_closes_too(setup: Setup) {
    let (server_script, at_server) = script();
    let server_script =
        server_script.on_read(|cx, bytes| cx.write_and_flush(bytes.freeze())).on_input_closed(|cx, ()| {
            cx.write_and_flush(" and goodbye");
            cx.close_when_flushed();
        });
    let running = setup.serve_with(server_script, |builder| builder.half_closure(true));
    let (script, events) = script();
    let client = setup.client_with(script, |builder| builder.half_closure(true));
    let channel = client.connect(running.address()).soon().unwrap();
    events.active();
    channel.write_and_flush("hello");
    channel.shut_down_output_tracked().soon().unwrap();
    events.read(b"hello and goodbye");
    events.input_closed();
    events.end(); // both directions have ended
    at_server.active();
    at_server.read(b"hello");
    at_server.input_closed();
    assert!(matches!(at_server.end(), CloseCause::Requested));
}

fn a_linger_of_zero_resets_the_peer(setup: Setup) {
    let (script, events) = script();
    let options = StreamOptions::new().linger(Duration::ZERO);
    let running = setup.serve_with(script, |builder| builder.options(options));
    let mut stream = running.dial();
    let channel = events.active();
    channel.close().soon();
    let error = stream.read(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

fn without_a_linger_a_close_is_clean(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    channel.write_and_flush("goodbye");
    channel.close().soon();
    expect(&mut stream, b"goodbye");
    expect_end(&mut stream);
}

fn a_client_with_a_linger_of_zero_resets_the_server(setup: Setup) {
    let (server_script, at_server) = script();
    let running = setup.serve(server_script);
    let (script, events) = script();
    let options = StreamOptions::new().linger(Duration::ZERO);
    let client = setup.client_with(script, |builder| builder.options(options));
    let channel = client.connect(running.address()).soon().unwrap();
    events.active();
    at_server.active();
    channel.close().soon();
    let cause = at_server.end();
    assert!(matches!(&cause, CloseCause::Io(error) if error.kind() == ErrorKind::ConnectionReset), "{cause}");
}

/// Without half-closure: its end is the channel's, but not before it has its answers.
fn a_peer_that_sends_no_more_gets_all_answers_to_what_it_sent(setup: Setup) {
    const LEN: usize = 1 << 20;
    let (builder, loops) = setup.server();
    let options = netwright_transport::StreamOptions::new().send_buffer_size(16 * 1024);
    let mut bound = builder
        .options(options)
        .pipeline(|_| netwright_core::pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
        .bind(setup.listen_at());
    let running = Running { setup, server: bound.soon().unwrap(), loops };
    let mut stream = running.dial_narrow();
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        writer.write_all(&pattern(LEN)).unwrap();
        writer.shut_down().unwrap();
    });
    expect(&mut stream, &pattern(LEN));
    expect_end(&mut stream);
    sender.join().unwrap();
    drop(stream);
    running.wait_for_open(0);
    running.assert_quiet();
}

/// Says this about half-closure; echoes, and has something to say behind the peer's last byte.
#[derive(Clone, Copy)]
struct Says(HalfClosure);

impl Application for Says {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush(bytes.freeze());
    }
    fn half_closure(&self) -> HalfClosure {
        self.0
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush(", goodbye");
        cx.close_when_flushed();
    }
}

/// What a peer gets that asks and sends no more.
fn answer_to(running: &Running) -> Vec<u8> {
    let mut stream = running.dial();
    stream.write_all(b"hello").unwrap();
    stream.shut_down().unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn stages_say_whether_a_peer_that_sends_no_more_is_talked_to(setup: Setup) {
    use HalfClosure::{Needs, Passes, Refuses};
    let alone: &[u8] = b"hello";
    let both: &[u8] = b"hello, goodbye";
    for (says, builder_says, answer) in [
        (Passes, None, alone),
        (Needs, None, both),
        (Refuses, None, alone),
        (Needs, Some(false), alone),
        (Passes, Some(true), both),
        (Refuses, Some(true), both),
    ] {
        let (builder, loops) = setup.server();
        let builder = match builder_says {
            Some(allowed) => builder.half_closure(allowed),
            None => builder,
        };
        let mut bound = builder.pipeline(move |_| pipeline().app(Says(says))).bind(setup.listen_at());
        let running = Running { setup, server: bound.soon().unwrap(), loops };
        assert_eq!(answer_to(&running), answer, "the stage {says:?}, the builder {builder_says:?}");
        running.wait_for_open(0);
        running.assert_quiet();
    }
}

/// Of those who are there when the end comes: the one that has gone needed nothing, and would have closed.
fn a_stage_that_came_by_an_exchange_says_so_too(setup: Setup) {
    let (builder, loops) = setup.server();
    let stages = |_: &_| {
        pipeline().joint(|switch| {
            pipeline().handle(move |cx, bytes: BytesMut| {
                cx.write_and_flush(bytes.freeze());
                switch.to(pipeline().app(Says(HalfClosure::Needs)));
            })
        })
    };
    let mut bound = builder.pipeline(stages).bind(setup.listen_at());
    let running = Running { setup, server: bound.soon().unwrap(), loops };
    assert_eq!(answer_to(&running), b"hello, goodbye");
    running.wait_for_open(0);
}

/// What a tail or a service waits for in the middle of its answer: nothing is under way that anybody could see.
type Work = netwright_core::Promise<(), PromiseError>;

fn a_tail_that_reads_to_the_end_answers_then(setup: Setup) {
    let (works, working) = mpsc::channel::<Work>();
    let (ends, ended) = mpsc::channel();
    let running = setup.serve_tail(move |mut peer: Peer<BytesMut, Outgoing>| {
        let (works, ends) = (works.clone(), ends.clone());
        async move {
            let mut all = Vec::new();
            while let Some(bytes) = peer.read().await? {
                all.extend_from_slice(&bytes);
            }
            let (work, worked) = promise();
            works.send(work).unwrap();
            let _ = worked.await;
            peer.channel().on_close(move |cause| ends.send(cause.clone()).unwrap());
            peer.write(all).await
        }
    });
    let mut stream = running.dial();
    stream.write_all(b"hello").unwrap();
    stream.shut_down().unwrap();
    let work = working.recv_timeout(PATIENCE).unwrap();
    running.settle();
    assert_eq!(running.server.figures().open, 1);
    running.assert_quiet();
    work.succeed(());
    expect(&mut stream, b"hello");
    expect_end(&mut stream);
    let cause = ended.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(cause, CloseCause::PeerClosed), "the peer was the first to end it: {cause}");
    running.wait_for_open(0);
}

fn a_service_answers_a_peer_that_sends_no_more(setup: Setup) {
    let (works, working) = mpsc::channel::<Work>();
    let (builder, loops) = setup.server();
    let stages = move |_: &_| {
        let works = works.clone();
        pipeline().add(Lines::default()).service(NonZeroUsize::new(2).unwrap(), move |line: String| {
            let (work, worked) = promise();
            works.send(work).unwrap();
            async move {
                let _ = worked.await;
                line.to_uppercase()
            }
        })
    };
    let mut bound = builder.pipeline(stages).bind(setup.listen_at());
    let running = Running { setup, server: bound.soon().unwrap(), loops };
    let mut stream = running.dial();
    stream.write_all(b"one\ntwo\n").unwrap();
    stream.shut_down().unwrap();
    let (one, two) = (working.recv_timeout(PATIENCE).unwrap(), working.recv_timeout(PATIENCE).unwrap());
    running.settle();
    two.succeed(());
    one.succeed(());
    expect(&mut stream, b"ONE\nTWO\n");
    expect_end(&mut stream);
    running.wait_for_open(0);
}
