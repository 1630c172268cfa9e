//! Frames, messages and ends, with peers that keep the rules and peers that do not.
//!
//! | behaviour | tests |
//! | --- | --- |
//! | 95 violations and their codes | `every_violation_is_told_by_its_code_and_ends_the_connection`, `what_is_too_big_is_refused_with_1009` |
//! | 96 ping, pong, data after close | `a_ping_is_answered_with_its_payload`, `pongs_are_dropped_unless_asked_for`, `nothing_behind_a_close_is_looked_at` |
//! | 97 UTF-8, silent close | `text_may_be_split_anywhere_over_fragments`, `text_that_cannot_become_utf8_is_refused_at_once`, `a_silent_close_says_goodbye` |

mod common;

use bytes::Bytes;
use common::*;
use netwright_core::{
    AppContext, Application, CloseCause, EmbeddedChannel, Event, Host, HostSettings, LocalLoop, ManualLoop,
    Peer, ShuttingDown, WaterMarks, WriteError, pipeline,
};
use netwright_websocket::{
    Close, CloseCode, ClosedByPeer, Config, LINGER, Message, NoClose, PeerClosed, Violation, WebSocket,
    frame::{Opcode, Role},
};
use std::{cell::RefCell, convert::Infallible, io::ErrorKind, rc::Rc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

fn quiet() -> Config {
    Config::default().ping_after(None)
}

// ---- messages ----

#[test]
fn messages_pass_in_both_directions() {
    let mut channel = server(quiet());
    channel.write_inbound(
        [frame(Opcode::Text, "grüße"), frame(Opcode::Binary, [0, 255]), frame(Opcode::Text, "")].concat(),
    );
    assert_eq!(channel.read_inbound(), Some(text("grüße")));
    assert_eq!(channel.read_inbound(), Some(Message::from(vec![0, 255])));
    assert_eq!(channel.read_inbound(), Some(text("")));
    channel.write_outbound(text("und zurück")).write_outbound(Message::from(vec![7; 70_000]));
    let sent = sent(&mut channel);
    assert_eq!(sent, [(Opcode::Text, "und zurück".as_bytes().to_vec()), (Opcode::Binary, vec![7; 70_000])]);
}

#[test]
fn a_client_masks_with_a_key_of_its_own_for_each_frame() {
    let mut channel = client(quiet());
    for len in [0, 5, 5, 200, 4096, 70_000] {
        channel.write_outbound(Message::from(vec![42; len]));
    }
    let bytes = channel.outbound_bytes();
    assert_ne!(bytes[8..12], bytes[19..23], "two frames with the same key");
    let lens: Vec<usize> = frames_of(Role::Client, &bytes)
        .into_iter()
        .map(|(_, _, payload)| payload.iter().map(|byte| usize::from(*byte == 42)).sum())
        .collect();
    assert_eq!(lens, [0, 5, 5, 200, 4096, 70_000]);
}

#[test]
fn fragments_make_one_message_with_control_frames_between_them() {
    let mut channel = server(quiet());
    let stream = [
        fragment(Opcode::Text, "one "),
        frame(Opcode::Ping, "a"),
        fragment(Opcode::Continuation, "two "),
        fragment(Opcode::Continuation, ""),
        frame(Opcode::Ping, "b"),
        frame(Opcode::Continuation, "three"),
        frame(Opcode::Binary, "next"),
    ]
    .concat();
    for size in [stream.len(), 1, 3] {
        feed(&mut channel, stream.chunks(size));
        assert_eq!(channel.read_inbound(), Some(text("one two three")));
        assert_eq!(channel.read_inbound(), Some(Message::Binary(Bytes::from_static(b"next"))));
        assert_eq!(sent(&mut channel), [(Opcode::Pong, b"a".to_vec()), (Opcode::Pong, b"b".to_vec())]);
    }
    assert_eq!(channel.read_inbound(), None);
}

// ---- violations ----

/// What a server says to these bytes: the code, after which the connection ends.
#[track_caller]
fn refused_with(config: Config, bytes: &[u8]) -> (u16, Violation) {
    let mut codes = Vec::new();
    for size in [bytes.len().max(1), 1] {
        let cause = Rc::new(RefCell::new(None));
        let socket = pipeline().add(WebSocket::server(config.clone()));
        let mut channel =
            EmbeddedChannel::new(socket.app(Notes { cause: cause.clone(), ..Notes::default() }));
        feed(&mut channel, bytes.chunks(size));
        let out = channel.outbound_bytes();
        let (Opcode::Close, _, payload) = frames_of(Role::Server, &out).pop().expect("a close frame") else {
            panic!("not a close frame")
        };
        codes.push(u16::from_be_bytes([payload[0], payload[1]]));
        assert!(payload.len() > 2, "the reason is told");
        channel.write_inbound(frame(Opcode::Text, "more")).advance(LINGER);
        assert!(!channel.is_open(), "the connection stays open");
        assert!(channel.outbound_bytes().is_empty());
        let cause = cause.take().expect("the application is told");
        let CloseCause::Fault(fault) = cause else { panic!("{cause:?}") };
        codes.push(fault.downcast_ref::<Violation>().expect("a violation").close_code().get());
        if size == 1 || bytes.len() == 1 {
            assert!(codes.iter().all(|code| *code == codes[0]), "{codes:?}");
            return (codes[0], fault.downcast_ref::<Violation>().cloned().unwrap());
        }
    }
    unreachable!()
}

/// Notes what an application hears.
#[derive(Default)]
struct Notes {
    messages: Rc<RefCell<Vec<Message>>>,
    events: Rc<RefCell<Vec<Close>>>,
    cause: Rc<RefCell<Option<CloseCause>>>,
}

impl Application for Notes {
    type Read = Message;
    type Write = Message;
    fn read(&mut self, _: &mut AppContext<'_, Self>, message: Message) {
        self.messages.borrow_mut().push(message);
    }
    fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
        if let Ok(PeerClosed(close)) = event.take() {
            self.events.borrow_mut().push(close);
        }
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        *self.cause.borrow_mut() = Some(cause);
    }
}

#[test]
fn every_violation_is_told_by_its_code_and_ends_the_connection() {
    let code_of = |bytes: &[u8]| refused_with(quiet(), bytes).0;
    let unmasked = raw(true, false, Opcode::Text, b"hi", None);
    assert_eq!(code_of(&unmasked), 1002);
    for reserved in [0xc1, 0xa1, 0x91, 0xf1, 0xc8, 0xc9] {
        assert_eq!(code_of(&[reserved, 0x80, 0, 0, 0, 0]), 1002);
    }
    for opcode in [3, 7, 11, 15] {
        assert_eq!(code_of(&[0x80 | opcode, 0x80, 0, 0, 0, 0]), 1002);
    }
    for control in [Opcode::Ping, Opcode::Pong, Opcode::Close] {
        assert_eq!(code_of(&fragment(control, "")), 1002);
        assert_eq!(code_of(&frame(control, [0; 126])), 1002);
    }
    assert_eq!(code_of(&[0x82, 0xfe, 0, 125]), 1002);
    assert_eq!(code_of(&[0x82, 0xff, 0, 0, 0, 0, 0, 0, 255, 255]), 1002);
    assert_eq!(code_of(&[0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]), 1002);
    assert_eq!(code_of(&frame(Opcode::Continuation, "lost")), 1002);
    assert_eq!(code_of(&[fragment(Opcode::Text, "a"), frame(Opcode::Text, "b")].concat()), 1002);
    assert_eq!(code_of(&frame(Opcode::Close, [3])), 1002);
    for code in [0u16, 999, 1004, 1005, 1006, 1015, 2999, 5000] {
        assert_eq!(code_of(&frame(Opcode::Close, code.to_be_bytes())), 1002, "{code}");
    }
    assert_eq!(code_of(&frame(Opcode::Close, b"\x03\xe8\xff")), 1007);
    assert_eq!(
        code_of(&frame(Opcode::Text, b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80")),
        1007
    );
    assert_eq!(code_of(&frame(Opcode::Text, b"\xe2\x82")), 1007);
}

#[test]
fn a_client_refuses_masked_frames() {
    let mut channel = client(quiet());
    channel.write_inbound(frame(Opcode::Text, "hi"));
    let (opcode, _, payload) = frames_of(Role::Client, &channel.outbound_bytes()).pop().unwrap();
    assert_eq!((opcode, &payload[..2]), (Opcode::Close, &1002u16.to_be_bytes()[..]));
}

#[test]
fn what_is_too_big_is_refused_with_1009() {
    let small = || quiet().max_message(100);
    let (code, violation) = refused_with(small(), &frame(Opcode::Binary, [0; 101])[..4]);
    assert_eq!((code, violation), (1009, Violation::FrameTooLong { len: 101, limit: 100 }));
    let fragments =
        [fragment(Opcode::Binary, [0; 60]), fragment(Opcode::Continuation, [0; 41])[..2 + 4].to_vec()]
            .concat();
    let (code, violation) = refused_with(small(), &fragments);
    assert_eq!((code, violation), (1009, Violation::MessageTooLong { len: 101, limit: 100 }));
    let frames = quiet().max_frame(10);
    assert_eq!(refused_with(frames.clone(), &frame(Opcode::Text, "a".repeat(11))).0, 1009);
    let mut channel = server(frames);
    (0..50).for_each(|n| {
        let opcode = if n == 0 { Opcode::Text } else { Opcode::Continuation };
        channel.write_inbound(raw(n == 49, false, opcode, b"0123456789", Some(KEY)));
    });
    assert_eq!(channel.read_inbound().unwrap().payload().len(), 500);
    assert_eq!(
        refused_with(quiet(), &[0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0]).1,
        Violation::FrameTooLong { len: 1 << 32, limit: 1024 * 1024 }
    );
}

#[test]
fn what_came_before_a_violation_arrives() {
    let messages = Rc::new(RefCell::new(Vec::new()));
    let notes = Notes { messages: messages.clone(), ..Notes::default() };
    let mut channel = EmbeddedChannel::new(pipeline().add(WebSocket::server(quiet())).app(notes));
    channel.write_inbound([frame(Opcode::Text, "good"), vec![0xff]].concat());
    assert_eq!(*messages.borrow(), [text("good")]);
}

// ---- text ----

#[test]
fn text_may_be_split_anywhere_over_fragments() {
    let whole = "κόσμε \u{10ffff}".as_bytes();
    for split in 0..=whole.len() {
        let mut channel = server(quiet());
        channel.write_inbound(fragment(Opcode::Text, &whole[..split]));
        channel.write_inbound(frame(Opcode::Continuation, &whole[split..]));
        assert_eq!(channel.read_inbound(), Some(text("κόσμε \u{10ffff}")));
    }
}

#[test]
fn text_that_cannot_become_utf8_is_refused_at_once() {
    // A surrogate in a fragment, long before the message ends.
    assert_eq!(refused_with(quiet(), &fragment(Opcode::Text, b"ok \xed\xa0")).0, 1007);
    // Split between frames.
    let split = [fragment(Opcode::Text, b"\xf4"), fragment(Opcode::Continuation, b"\x90")].concat();
    assert_eq!(refused_with(quiet(), &split).0, 1007);
    // Inside of a frame that is not there yet.
    let mut channel = server(quiet());
    channel.write_inbound(&frame(Opcode::Text, [b"abc\xff".as_slice(), &[b'x'; 1000]].concat())[..30]);
    assert_eq!(close_code(&mut channel), 1007);
}

// ---- control frames ----

#[test]
fn a_ping_is_answered_with_its_payload() {
    let mut channel = server(quiet());
    for payload in [&b""[..], b"hello", &[9; 125]] {
        feed(&mut channel, frame(Opcode::Ping, payload).chunks(3));
        assert_eq!(sent(&mut channel), [(Opcode::Pong, payload.to_vec())]);
    }
    assert_eq!(channel.read_inbound(), None);
}

#[test]
fn pongs_are_dropped_unless_asked_for() {
    let mut channel = server(quiet());
    channel.write_inbound(frame(Opcode::Pong, "unasked"));
    assert_eq!((channel.read_inbound(), channel.outbound_bytes().len()), (None, 0));
    let mut channel = server(quiet().show_control(true));
    channel.write_inbound(
        [frame(Opcode::Pong, "p"), frame(Opcode::Ping, "q"), frame(Opcode::Close, "")].concat(),
    );
    assert_eq!(channel.read_inbound(), Some(Message::Pong(Bytes::from_static(b"p"))));
    assert_eq!(channel.read_inbound(), Some(Message::Ping(Bytes::from_static(b"q"))));
    assert_eq!(channel.read_inbound(), Some(Message::Close(Close::default())));
    assert_eq!(sent(&mut channel), [(Opcode::Pong, b"q".to_vec()), (Opcode::Close, vec![])]);
}

#[test]
fn pings_of_a_peer_that_does_not_read_pile_nothing_up() {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(500, 1000).unwrap();
    settings.hold_back = false; // it is listened to all the same
    let mut channel = EmbeddedChannel::with_settings(pipeline().add(WebSocket::server(quiet())), settings);
    channel.block_output(true);
    for n in 0..1000u32 {
        channel.write_inbound(frame(Opcode::Ping, n.to_be_bytes()));
    }
    channel.block_output(false);
    let sent = sent(&mut channel);
    assert!(sent.len() < 20, "{} pongs", sent.len());
    assert_eq!(sent.last().unwrap(), &(Opcode::Pong, 999u32.to_be_bytes().to_vec()));
}

#[test]
fn our_pings_are_sent_and_may_not_be_too_long() {
    let mut channel = server(quiet());
    channel.write_outbound(Message::Ping(Bytes::from_static(b"there?")));
    assert_eq!(sent(&mut channel), [(Opcode::Ping, b"there?".to_vec())]);
    let mut written = channel.channel().send(Message::Ping(Bytes::from(vec![0; 126])));
    channel.run();
    let error = written.try_take().unwrap().unwrap_err();
    assert!(error.to_string().contains("126 bytes, the limit is 125"), "{error}");
    assert!(channel.is_open());
}

// ---- silence ----

fn watchful() -> Config {
    Config::default().ping_after(Some(20 * SECOND)).pong_deadline(5 * SECOND)
}

#[track_caller]
fn assert_given_up<R: 'static>(channel: &EmbeddedChannel<R, Message>) {
    let cause = channel.channel().close_cause();
    assert!(matches!(cause, Some(CloseCause::TimedOut(time)) if time == 25 * SECOND), "{cause:?}");
}

#[test]
fn a_silent_peer_gets_a_ping_and_is_given_up_if_it_stays_silent() {
    let mut channel = server(watchful());
    channel.advance(19 * SECOND).write_inbound(frame(Opcode::Text, "x")).advance(19 * SECOND);
    assert!(sent(&mut channel).is_empty(), "bytes are life");
    channel.advance(SECOND);
    assert_eq!(sent(&mut channel), [(Opcode::Ping, vec![])]);
    channel.advance(4 * SECOND).write_inbound(frame(Opcode::Pong, ""));
    channel.advance(19 * SECOND);
    assert!(channel.is_open() && sent(&mut channel).is_empty(), "the answer counts from when it came");
    channel.advance(SECOND);
    assert_eq!(sent(&mut channel), [(Opcode::Ping, vec![])]);
    channel.advance(4 * SECOND);
    assert!(channel.is_open());
    channel.advance(SECOND);
    assert_given_up(&channel);
}

#[test]
fn a_ping_comes_at_most_a_quarter_of_its_interval_late() {
    for heard in 0..60 {
        let mut channel = server(watchful());
        for _ in 0..heard {
            channel.advance(SECOND).write_inbound(frame(Opcode::Pong, ""));
        }
        let mut silent = 0;
        while sent(&mut channel).is_empty() {
            channel.advance(SECOND);
            silent += 1;
            assert!(silent <= 25, "heard for {heard} s, then silent for {silent} s without a ping");
        }
        assert!(silent >= 20, "heard for {heard} s, and asked after {silent} s");
    }
}

#[test]
fn a_peer_that_sends_and_never_reads_is_given_up() {
    let marks = WaterMarks::new(500, 1000).unwrap();
    let question = frame(Opcode::Binary, [7; 600]);
    for hold_back in [true, false] {
        let mut settings = HostSettings::default();
        (settings.water_marks, settings.hold_back) = (marks, hold_back);
        let echo = pipeline().add(WebSocket::server(watchful()));
        let echo = echo.handle(|cx, message: Message| {
            if cx.is_writable() {
                cx.write_and_flush(message)
            }
        });
        let mut channel = EmbeddedChannel::with_settings(echo, settings);
        channel.block_output(true);
        let mut passed = 0;
        while channel.is_open() {
            assert!(passed < 300, "it is kept, held back: {hold_back}");
            channel.write_inbound(&question).advance(SECOND);
            passed += 1;
        }
        assert_given_up(&channel);
        assert!(passed > 200, "it is given time: {passed} s");
    }
}

#[test]
fn a_tail_whose_peer_never_reads_comes_to_its_end() {
    async fn echo(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
        while let Some(message) = peer.read().await? {
            peer.write(message).await?;
        }
        Ok(())
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(WebSocket::server(watchful())).serve(echo));
    channel.run().block_output(true);
    for _ in 0..10 {
        channel.write_inbound(frame(Opcode::Binary, vec![7; 100_000]));
    }
    assert!(!channel.wants_read(), "answers hold questions back");
    channel.advance(300 * SECOND);
    assert_given_up(&channel);
}

#[test]
fn a_peer_that_reads_now_and_then_stays() {
    let echo =
        pipeline().add(WebSocket::server(watchful())).handle(|cx, message| cx.write_and_flush(message));
    let mut channel = EmbeddedChannel::new(echo);
    for _ in 0..20 {
        channel.block_output(true).write_inbound(frame(Opcode::Binary, vec![7; 100_000]));
        channel.advance(15 * SECOND).block_output(false).run();
        assert!(channel.is_open());
    }
}

#[test]
fn a_peer_is_not_blamed_for_what_we_do_not_read() {
    let mut channel = server(Config::default());
    channel.channel().pause();
    channel.run().advance(600 * SECOND);
    assert!(channel.is_open());
}

// ---- the end ----

#[test]
fn a_close_is_answered_with_its_code_and_the_server_closes() {
    for (payload, answer) in [(&b""[..], &b""[..]), (b"\x03\xe8bye", b"\x03\xe8"), (b"\x0f\xa0", b"\x0f\xa0")]
    {
        let mut channel = server(quiet());
        channel.write_inbound(frame(Opcode::Close, payload));
        assert_eq!(sent(&mut channel), [(Opcode::Close, answer.to_vec())]);
        assert!(!channel.is_open());
    }
}

#[test]
fn the_application_hears_the_code_and_the_cause() {
    let (events, cause) = (Rc::default(), Rc::new(RefCell::new(None)));
    let notes = Notes { events: Rc::clone(&events), cause: cause.clone(), ..Notes::default() };
    let mut channel = EmbeddedChannel::new(pipeline().add(WebSocket::server(quiet())).app(notes));
    channel.write_inbound(frame(Opcode::Close, b"\x03\xf3oops"));
    let close = Close::new(CloseCode::INTERNAL, "oops");
    assert_eq!(*events.borrow(), std::slice::from_ref(&close));
    let Some(CloseCause::Fault(fault)) = cause.take() else { panic!("no fault") };
    assert_eq!(fault.downcast_ref(), Some(&ClosedByPeer(close)));
    assert_eq!(fault.to_string(), "the peer closed with 1011 oops");
}

#[test]
fn nothing_behind_a_close_is_looked_at() {
    let mut channel = server(quiet());
    channel.write_inbound([frame(Opcode::Close, ""), frame(Opcode::Text, "late"), vec![0xff; 20]].concat());
    assert_eq!(channel.read_inbound(), None);
    assert_eq!(sent(&mut channel), [(Opcode::Close, vec![])]);
}

#[test]
fn a_silent_close_says_goodbye() {
    let mut channel = server(quiet());
    let closed = channel.channel().close();
    channel.run();
    assert_eq!(close_code(&mut channel), 1000);
    assert!(channel.is_open(), "the peer has not answered");
    channel
        .write_inbound(frame(Opcode::Text, "I was just about to say"))
        .write_inbound(frame(Opcode::Ping, ""));
    assert_eq!((channel.read_inbound(), channel.outbound_bytes().len()), (None, 0));
    channel.write_inbound(frame(Opcode::Close, b"\x03\xe8"));
    assert!(!channel.is_open());
    assert!(matches!(closed.wait(), Ok(CloseCause::Requested)));
    assert!(channel.outbound_bytes().is_empty(), "one close frame is enough");
}

#[test]
fn a_peer_that_does_not_answer_a_close_has_ten_seconds() {
    let mut channel = server(quiet());
    drop(channel.channel().close());
    channel.run().advance(Duration::from_millis(9_999));
    assert!(channel.is_open());
    channel.advance(Duration::from_millis(2));
    assert!(!channel.is_open());
}

#[test]
fn a_close_of_ones_own_has_a_code_and_fails_what_follows() {
    let mut channel = server(quiet());
    let close = Close::new(CloseCode::new(4000).unwrap(), "enough");
    channel.write_outbound(text("last")).write_outbound(close.into());
    let mut late = channel.channel().send(text("too late"));
    assert_eq!(
        sent(&mut channel),
        [(Opcode::Text, b"last".to_vec()), (Opcode::Close, b"\x0f\xa0enough".to_vec())]
    );
    assert!(matches!(late.try_take(), Some(Err(WriteError::Closed(_)))));
    // What the peer sends before it answers still arrives.
    channel.write_inbound(frame(Opcode::Text, "see you")).write_inbound(frame(Opcode::Close, b"\x0f\xa0"));
    assert_eq!(channel.read_inbound(), Some(text("see you")));
    assert!(!channel.is_open());
}

#[test]
fn shutting_down_says_1001_behind_what_the_application_says() {
    struct Farewell;
    impl Application for Farewell {
        type Read = Message;
        type Write = Message;
        fn read(&mut self, _: &mut AppContext<'_, Self>, _: Message) {}
        fn event(&mut self, cx: &mut AppContext<'_, Self>, event: Event) {
            if event.get::<ShuttingDown>().is_some() {
                cx.write_and_flush(Message::from("bye"));
            }
        }
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(WebSocket::server(quiet())).app(Farewell));
    channel.channel().fire_event(Event::new(ShuttingDown));
    channel.run();
    let sent = frames_of(Role::Server, &channel.outbound_bytes());
    assert_eq!(sent, [(Opcode::Text, false, b"bye".to_vec()), (Opcode::Close, false, b"\x03\xe9".to_vec())]);
    channel.write_inbound(frame(Opcode::Close, b"\x03\xe9"));
    assert!(!channel.is_open());
}

#[test]
fn a_client_leaves_the_socket_to_the_server_but_not_for_ever() {
    let mut channel = client(quiet());
    channel.write_inbound(raw(true, false, Opcode::Close, b"\x03\xe8", None));
    assert_eq!(
        frames_of(Role::Client, &channel.outbound_bytes()),
        [(Opcode::Close, false, b"\x03\xe8".to_vec())]
    );
    assert!(channel.is_open());
    channel.advance(10 * SECOND);
    assert!(!channel.is_open());
}

#[test]
fn a_peer_that_vanishes_is_told_from_one_that_closes() {
    let cause = Rc::new(RefCell::new(None));
    let notes = Notes { cause: cause.clone(), ..Notes::default() };
    let mut channel = EmbeddedChannel::new(pipeline().add(WebSocket::server(quiet())).app(notes));
    channel.write_inbound(&frame(Opcode::Text, "unfinished")[..5]).close_by_peer();
    let Some(CloseCause::Fault(fault)) = cause.take() else { panic!("no fault") };
    assert!(fault.downcast_ref::<NoClose>().is_some());
}

/// A channel that its transport ends with a reset, behind what was read.
fn reset_after(socket: WebSocket, bytes: &[u8]) -> CloseCause {
    let cause = Rc::new(RefCell::new(None));
    let notes = Notes { cause: cause.clone(), ..Notes::default() };
    ManualLoop::new().enter(|| {
        let pipeline = pipeline().add(socket).app(notes).into_segment();
        let mut host = Host::new(LocalLoop::current().unwrap(), pipeline, HostSettings::default());
        host.activate(None, None);
        host.received(bytes.into());
        host.read_complete();
        host.closed(CloseCause::io(ErrorKind::ConnectionReset.into()));
        host.remove();
    });
    cause.take().expect("it has ended")
}

#[test]
fn a_reset_behind_a_completed_close_handshake_is_no_error() {
    let client = || WebSocket::client(quiet());
    let close = |payload: &[u8]| raw(true, false, Opcode::Close, payload, None);
    assert!(matches!(reset_after(client(), &close(b"\x03\xe8")), CloseCause::PeerClosed));
    let CloseCause::Fault(fault) = reset_after(client(), &close(b"\x0f\xa0bye")) else { panic!() };
    assert_eq!(fault.to_string(), "the peer closed with 4000 bye");
    let CloseCause::Fault(fault) = reset_after(client(), &[0xff]) else { panic!() };
    assert!(fault.downcast_ref::<Violation>().is_some(), "{fault}");
    let message = raw(true, false, Opcode::Text, b"and then", None);
    assert!(matches!(reset_after(client(), &message), CloseCause::Io(_)), "nobody had said goodbye");
}

/// What a stage says at the end of all, of a channel that nobody else has closed.
fn over_after(mut socket: WebSocket, bytes: &[u8]) -> (CloseCause, CloseCause) {
    let over = socket.over();
    let heard = Rc::new(RefCell::new(None));
    let notes = Notes { cause: heard.clone(), ..Notes::default() };
    let mut channel = EmbeddedChannel::new(pipeline().add(socket).app(notes));
    channel.write_inbound(bytes);
    assert!(!over.is_done());
    channel.close_by_peer();
    drop(channel);
    (over.wait().expect("a cause"), heard.take().expect("a cause"))
}

#[test]
fn the_end_says_outside_what_it_says_inside() {
    let close = raw(true, false, Opcode::Close, b"\x0f\xa0bye", None);
    for bytes in [&close[..], b"\xff", b"\x81", b""] {
        let (outside, inside) = over_after(WebSocket::client(quiet()), bytes);
        assert_eq!(outside.to_string(), inside.to_string());
        assert!(matches!(outside, CloseCause::Fault(_)), "{outside}");
    }
}

#[test]
fn the_end_comes_when_the_function_has_handled_what_had_come() {
    let mut socket = WebSocket::client(quiet());
    let over = socket.over();
    let got = Rc::new(RefCell::new(Vec::new()));
    let notes = got.clone();
    let tail = async move |mut peer: Peer<Message, Message>| {
        loop {
            netwright_core::time::sleep(SECOND).await; // it has its own pace
            let Some(message) = peer.read().await? else { return Ok::<(), CloseCause>(()) };
            notes.borrow_mut().push(message);
        }
    };
    let mut channel = EmbeddedChannel::new(pipeline().add(socket).serve(tail));
    let close = raw(true, false, Opcode::Close, b"\x0f\xa0", None);
    let texts: Vec<Vec<u8>> = (b'a'..=b'c').map(|n| raw(true, false, Opcode::Text, &[n], None)).collect();
    channel.run().write_inbound([texts.concat(), close].concat()).close_by_peer();
    for handled in 0..3 {
        assert!(!over.is_done(), "{handled} of three");
        channel.advance(SECOND);
    }
    assert_eq!(*got.borrow(), [text("a"), text("b"), text("c")]);
    drop(channel);
    assert!(over.wait().unwrap().to_string().contains("4000"));
}

// ---- straight-line ----

#[test]
fn a_straight_line_tail_reads_writes_and_closes() {
    async fn greet(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
        while let Some(message) = peer.read().await? {
            let Some(name) = message.as_text() else { continue };
            peer.write(Message::from(format!("hello, {name}"))).await?;
            if name == "last" {
                break;
            }
        }
        Ok(())
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(WebSocket::server(quiet())).serve(greet));
    channel.write_inbound(
        [frame(Opcode::Text, "ada"), frame(Opcode::Text, "last"), frame(Opcode::Text, "more")].concat(),
    );
    let sent = frames_of(Role::Server, &channel.run().outbound_bytes());
    let expected =
        [(Opcode::Text, &b"hello, ada"[..]), (Opcode::Text, b"hello, last"), (Opcode::Close, b"\x03\xe8")];
    assert_eq!(sent.len(), 3, "{sent:?}");
    for ((opcode, _, payload), expected) in sent.iter().zip(expected) {
        assert_eq!((*opcode, &payload[..]), expected);
    }
    channel.write_inbound(frame(Opcode::Close, b"\x03\xe8"));
    assert!(!channel.is_open());
}

#[test]
fn a_tail_that_waits_for_room_has_its_say_before_the_close_is_answered() {
    async fn echo(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
        while let Some(message) = peer.read().await? {
            peer.write(message).await?;
        }
        Ok(())
    }
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(500, 1000).unwrap();
    let socket = pipeline().add(WebSocket::server(quiet())).serve(echo);
    let mut channel = EmbeddedChannel::with_settings(socket, settings);
    channel.run().block_output(true);
    let stream =
        [frame(Opcode::Text, "x".repeat(5000)), frame(Opcode::Text, "ok"), frame(Opcode::Close, b"\x03\xe8")];
    channel.write_inbound(stream.concat()).run();
    channel.block_output(false).run();
    let sent = frames_of(Role::Server, &channel.outbound_bytes());
    let sent: Vec<_> = sent.iter().map(|(opcode, _, payload)| (*opcode, payload.len())).collect();
    assert_eq!(sent, [(Opcode::Text, 5000), (Opcode::Text, 2), (Opcode::Close, 2)]);
    assert!(!channel.is_open());
}

#[test]
fn a_close_that_nobody_has_asked_for_is_found_when_the_channel_closes() {
    let mut channel = server(quiet());
    channel.channel().pause();
    channel.run().write_inbound(frame(Opcode::Close, b"\x0f\xa0"));
    drop(channel.channel().close());
    channel.run();
    assert_eq!(close_code(&mut channel), 1000, "the application had not seen the peer's");
    assert!(!channel.is_open(), "nobody waits for an answer that is there");
}

// ---- panics ----

/// What the channel has sent, and how it ended, after a message came.
fn after_a_message(mut channel: EmbeddedChannel<Infallible, Message>) -> (Vec<(Opcode, Vec<u8>)>, String) {
    assert!(channel.is_open());
    channel.write_inbound(frame(Opcode::Text, "boo"));
    assert!(!channel.is_open());
    (sent(&mut channel), channel.channel().close_cause().unwrap().to_string())
}

/// Without the noise of the hook.
fn stumble() -> ! {
    std::panic::resume_unwind(Box::new("stumbled"))
}

fn internal() -> [(Opcode, Vec<u8>); 1] {
    [(Opcode::Close, CloseCode::INTERNAL.get().to_be_bytes().to_vec())]
}

#[test]
fn a_peer_of_a_handler_that_panics_is_told_1011() {
    let socket = || WebSocket::server(quiet());
    let handler = pipeline().add(socket()).handle(|cx, message: Message| {
        cx.write_and_flush(message); // not sent: nobody knows what else the call would have written
        stumble()
    });
    let (sent, cause) = after_a_message(EmbeddedChannel::new(handler));
    assert_eq!((&sent[..], &*cause), (&internal()[..], "a handler panicked: stumbled"));

    let tail = pipeline().add(socket()).serve(async |mut peer: Peer<Message, Message>| {
        if peer.read().await.is_ok() {
            stumble();
        }
    });
    let (sent, cause) = after_a_message(EmbeddedChannel::new(tail));
    assert_eq!((&sent[..], &*cause), (&internal()[..], "a handler panicked: stumbled"));
}

#[test]
fn a_panic_behind_a_close_says_no_second_one() {
    let handler = pipeline().add(WebSocket::server(quiet())).handle(|cx, message: Message| match message {
        Message::Text(_) => cx.write_and_flush(Message::Close(Close::from(CloseCode::NORMAL))),
        _ => stumble(),
    });
    let mut channel = EmbeddedChannel::new(handler);
    channel.write_inbound(frame(Opcode::Text, "close"));
    assert_eq!(sent(&mut channel), [(Opcode::Close, 1000_u16.to_be_bytes().to_vec())]);
    channel.write_inbound(frame(Opcode::Binary, "boo"));
    assert!(!channel.is_open());
    assert_eq!(sent(&mut channel), []);
}

#[test]
fn messages_from_other_threads_count_for_their_bytes_before_the_loop_has_seen_them() {
    let mut channel = server(quiet());
    let handle = channel.channel().clone();
    handle.write(text("short"));
    assert!(handle.is_writable());
    handle.write(Message::from(vec![7; WaterMarks::default().high()]));
    assert!(!handle.is_writable(), "more than the mark is on its way");
    channel.run();
    handle.flush();
    channel.run();
    assert!(handle.is_writable());
    assert_eq!(sent(&mut channel).len(), 2);
}

#[test]
fn a_handler_that_writes_while_there_is_room_stops_by_the_bytes_of_its_messages() {
    const LEN: usize = 10_000;
    let handler = pipeline().add(WebSocket::server(quiet())).handle(|cx, _: Message| {
        while cx.is_writable() {
            cx.write(Message::from(vec![7; LEN]));
        }
        cx.flush();
    });
    let mut channel = EmbeddedChannel::new(handler);
    channel.write_inbound(frame(Opcode::Text, "go"));
    assert_eq!(sent(&mut channel).len(), WaterMarks::default().high() / LEN + 1);
}
