//! The first bytes decide.
#![cfg(not(loom))]

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Carries, CloseCause, Context, EmbeddedChannel, Event, Fault, Handler,
    HostSettings, Outgoing, Peer, ShuttingDown, Switch, WriteError, WritePromise,
    detect::{DEADLINE, Detect, DetectError, FIRST_BYTES_MAX, Verdict, http, prefix, tls},
    pipeline,
};
use std::{cell::RefCell, convert::Infallible, rc::Rc, time::Duration};

type Port = EmbeddedChannel<(), Infallible>;

/// Says what it is called for every message; its messages are no bytes.
struct Named(&'static str);

impl Handler for Named {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = usize;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, number: usize, done: WritePromise) {
        cx.write_with(Bytes::from(format!("{} {number}.", self.0)), done);
    }
}

/// Shouts what it reads.
struct Shout;

impl Application for Shout {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush(bytes.to_ascii_uppercase());
    }
}

fn detect<W: Carries<Bytes> + 'static>(switch: Switch<Infallible, BytesMut, W>) -> Detect<Infallible, W> {
    let named =
        |name| move || pipeline().add(Named(name)).handle(|cx, b| cx.write_and_flush(b.len())).sealed();
    let shout = || pipeline().app(Shout).sealed();
    Detect::new(switch).rule(tls, named("tls")).rule(http, named("http")).rule(prefix("shout"), shout)
}

fn port() -> Port {
    EmbeddedChannel::with_joint(pipeline().joint(|switch| pipeline().last(detect(switch))))
}

/// As `port`, and for all others there is an async tail that speaks first.
fn open_port() -> Port {
    async fn greet(mut peer: Peer) -> Result<(), CloseCause> {
        peer.write("hello, ").await?;
        while let Some(bytes) = peer.read().await? {
            peer.write(bytes.freeze()).await?;
        }
        peer.write("bye").await
    }
    EmbeddedChannel::with_joint(
        pipeline().joint(|switch| {
            pipeline().last(detect(switch).otherwise(move || pipeline().serve(greet).sealed()))
        }),
    )
}

#[track_caller]
fn error(port: &Port) -> DetectError {
    match port.channel().close_cause() {
        Some(CloseCause::Fault(fault)) => fault.downcast_ref::<DetectError>().unwrap().clone(),
        other => panic!("{other:?}"),
    }
}

const HELLO: [u8; 8] = [22, 3, 1, 2, 0, 1, 0, 1];

#[test]
fn each_protocol_is_known_and_reads_everything_from_the_first_byte_on() {
    let mut one = port();
    assert_eq!(one.write_inbound(HELLO).outbound_bytes(), b"tls 8.");
    let mut one = port();
    assert_eq!(one.write_inbound(b"GET / HTTP/1.1\r\n").outbound_bytes(), b"http 16.");
    assert_eq!(one.write_inbound(b"more").outbound_bytes(), b"http 4.");
    let mut one = port();
    assert_eq!(one.write_inbound(b"shout it").outbound_bytes(), b"SHOUT IT");
}

#[test]
fn byte_by_byte_the_decision_comes_with_the_byte_that_tells() {
    let mut one = port();
    for byte in &HELLO[..5] {
        one.write_inbound([*byte]);
        assert_eq!(one.outbound_bytes(), b"");
    }
    assert_eq!(one.write_inbound([HELLO[5]]).outbound_bytes(), b"tls 6.");
    assert_eq!(one.write_inbound([HELLO[6]]).outbound_bytes(), b"tls 1.");
}

#[test]
fn bytes_of_no_protocol_close_the_channel_with_an_error_that_shows_them() {
    let mut one = port();
    one.write_inbound(b"SSH-2.0-OpenSSH_9.9");
    let found = error(&one);
    assert_eq!(found, DetectError::NoMatch { read: 19, start: b"SSH-2.0-OpenSSH_".to_vec() });
    assert!(found.to_string().ends_with("these 19 bytes: SSH-2.0-OpenSSH_"));
    assert_eq!(one.outbound_bytes(), b"");
}

#[test]
fn what_is_still_open_at_the_limit_is_not_waited_for() {
    let limited = |max| -> Port {
        EmbeddedChannel::with_joint(pipeline().joint(move |switch| {
            let never = |_: &[u8]| Verdict::More;
            let nothing = || pipeline().handle(|_, _| ()).sealed();
            pipeline().last(Detect::new(switch).max(max).rule(never, nothing))
        }))
    };
    let mut one = limited(4);
    assert!(one.write_inbound(b"abc").is_open());
    one.write_inbound(b"d");
    assert_eq!(error(&one), DetectError::TooLong { limit: 4 });
    let mut one = limited(FIRST_BYTES_MAX);
    one.write_inbound(vec![0; 1 << 20]);
    assert_eq!(error(&one), DetectError::TooLong { limit: FIRST_BYTES_MAX });
}

#[test]
fn a_rule_never_sees_more_than_the_limit() {
    let mut one: Port = EmbeddedChannel::with_joint(pipeline().joint(|switch| {
        let look = |bytes: &[u8]| {
            assert!(bytes.len() <= 4);
            if bytes.len() == 4 { Verdict::Take } else { Verdict::More }
        };
        let count = || pipeline().add(Named("got")).handle(|cx, b| cx.write_and_flush(b.len())).sealed();
        pipeline().last(Detect::new(switch).max(4).rule(look, count))
    }));
    assert_eq!(one.write_inbound(b"abcdefgh").outbound_bytes(), b"got 8.");
}

#[test]
fn silence_ends_with_the_deadline_and_bytes_do_not_put_it_off() {
    let mut one = port();
    one.advance(DEADLINE - Duration::from_secs(1)).write_inbound(b"GE");
    assert!(one.is_open());
    one.advance(Duration::from_secs(1));
    assert_eq!(error(&one), DetectError::TooLate { deadline: DEADLINE, read: 2 });
}

#[test]
fn a_protocol_that_was_chosen_has_no_deadline() {
    let mut one = port();
    one.write_inbound(b"shout").advance(DEADLINE * 2);
    assert!(one.is_open());
}

#[test]
fn whoever_is_none_of_them_gets_the_segment_for_all_others() {
    let mut one = open_port();
    assert_eq!(one.write_inbound(b"SSH").outbound_bytes(), b"hello, SSH");
}

#[test]
fn a_peer_that_waits_for_us_to_speak_first_is_spoken_to_at_the_deadline() {
    let mut one = open_port();
    assert_eq!(one.advance(DEADLINE).outbound_bytes(), b"hello, ");
    assert_eq!(one.write_inbound(b"thanks").outbound_bytes(), b"thanks");
}

#[test]
fn a_peer_that_sends_no_more_is_decided_on_and_its_end_is_told_to_who_took_it() {
    let mut one = open_port();
    one.write_inbound(b"GE").close_input();
    assert_eq!(one.outbound_bytes(), b"hello, GEbye");
    let mut one = port();
    one.write_inbound(b"GE").close_input();
    assert_eq!(error(&one), DetectError::CutShort { read: 2 });
    let mut one = port();
    one.close_input();
    assert!(matches!(one.channel().close_cause(), Some(CloseCause::Requested)));
}

/// Notes what a segment reads, and with what it ends.
#[derive(Clone, Default)]
struct Notes(Rc<RefCell<Vec<String>>>);

impl Application for Notes {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.0.borrow_mut().push(bytes.escape_ascii().to_string());
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.0.borrow_mut().push(cause.to_string());
    }
}

#[test]
fn a_peer_that_has_gone_before_it_was_clear_is_decided_on_and_nothing_that_it_sent_is_lost() {
    let noting = || {
        let notes = Notes::default();
        let (rest, never) = (notes.clone(), notes.clone());
        let one: Port = EmbeddedChannel::with_joint(pipeline().joint(|switch| {
            let longer = Detect::new(switch).rule(prefix("abc"), move || pipeline().app(never).sealed());
            pipeline().last(longer.rule(prefix("a"), move || pipeline().app(rest).sealed()))
        }));
        (one, notes.0)
    };
    let (mut one, notes) = noting();
    one.write_inbound(b"ab").close_by_peer();
    assert_eq!(notes.take(), ["ab", "closed by the peer"]);

    let (mut one, notes) = noting();
    one.write_inbound(b"ab").channel().close();
    one.run();
    assert!(!one.is_open() && notes.take().is_empty(), "we have left: nobody begins to read");

    let (mut one, notes) = noting();
    one.close_by_peer();
    assert!(notes.take().is_empty(), "it came, and went");
}

#[test]
fn who_stands_behind_hears_that_a_peer_has_gone_before_it_was_clear() {
    let errors = Rc::new(RefCell::new(Vec::new()));
    let told = errors.clone();
    let mut one: Port = EmbeddedChannel::with_joint(
        pipeline().joint(|switch| pipeline().add(detect(switch)).app(Errors(told)).sealed()),
    );
    one.write_inbound(b"GE").close_by_peer();
    assert_eq!(errors.take(), [DetectError::CutShort { read: 2 }]);
}

struct Errors(Rc<RefCell<Vec<DetectError>>>);

impl Application for Errors {
    type Read = Infallible;
    type Write = Infallible;

    fn read(&mut self, _: &mut AppContext<'_, Self>, never: Infallible) {
        match never {}
    }
    fn error(&mut self, _: &mut AppContext<'_, Self>, fault: Fault) {
        self.0.borrow_mut().extend(fault.downcast_ref::<DetectError>().cloned());
    }
}

#[test]
fn a_server_that_shuts_down_does_not_wait_for_peers_that_have_not_begun() {
    let mut one = port();
    one.channel().fire_event(Event::new(ShuttingDown));
    assert!(!one.run().is_open());
}

#[test]
fn first_bytes_are_read_though_nobody_asks_and_what_follows_is_not() {
    let mut settings = HostSettings::default();
    settings.auto_read = false;
    let mut one: Port = EmbeddedChannel::with_joint_and_settings(
        pipeline().joint(|switch| pipeline().last(detect(switch))),
        settings,
    );
    assert!(one.wants_read());
    one.write_inbound(b"shout");
    assert!(!one.wants_read());
    assert_eq!(one.outbound_bytes(), b"");
    one.channel().request();
    assert_eq!(one.run().outbound_bytes(), b"SHOUT");
}

#[test]
fn what_is_written_before_it_is_known_who_encodes_it_fails() {
    let mut one = EmbeddedChannel::<(), Outgoing>::with_joint(pipeline().joint(|switch| {
        let echo = || pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
        pipeline().last(Detect::new(switch).otherwise(echo))
    }));
    let mut early = one.channel().send(Bytes::from("early"));
    one.run();
    let Some(Err(WriteError::Fault(fault))) = early.try_take() else { panic!("it was taken") };
    assert_eq!(fault.downcast_ref(), Some(&DetectError::NotYet));
    one.write_inbound(b"a").write_outbound(Bytes::from("b"));
    assert_eq!(one.outbound_bytes(), b"ab");
}

/// Stands for TLS: keeps the types, changes every byte.
struct Veil;

impl Handler for Veil {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self>, mut bytes: BytesMut) {
        bytes.iter_mut().for_each(|byte| *byte ^= 0x80);
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Bytes, done: WritePromise) {
        cx.write_with(bytes.iter().map(|byte| byte ^ 0x80).collect::<Bytes>(), done);
    }
}

fn veiled(text: &str) -> Vec<u8> {
    text.bytes().map(|byte| byte ^ 0x80).collect()
}

#[test]
fn a_connection_that_begins_in_the_clear_can_be_veiled_in_the_middle() {
    // STARTTLS: what comes behind the command is for the stage that was not there when it came.
    let mut one: Port = EmbeddedChannel::with_joint(pipeline().joint(|switch: Switch<_, _, _>| {
        pipeline()
            .handle(move |cx, mut bytes: BytesMut| {
                let end = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| end + 1);
                let line = bytes.split_to(end);
                assert_eq!(line, "STARTTLS\n");
                cx.write_and_flush(Bytes::from("ready\n"));
                let echo = pipeline().add(Veil).handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
                switch.to_with(echo.sealed(), netwright_core::Leftover::one(bytes));
            })
            .sealed()
    }));
    one.write_inbound([b"STARTTLS\n".as_slice(), &veiled("secret")].concat());
    assert_eq!(one.outbound_bytes(), [b"ready\n".as_slice(), &veiled("secret")].concat());
}

#[test]
fn detection_goes_on_behind_the_protocol_that_was_detected() {
    // A veil that is found by its first byte; behind it, the first bytes decide again.
    let mut one: Port = EmbeddedChannel::with_joint(pipeline().joint(|switch| {
        let veil = prefix([b'G' ^ 0x80]);
        let veiled = || pipeline().add(Veil).joint(|switch| pipeline().last(detect(switch)));
        pipeline().last(detect(switch).rule(veil, veiled))
    }));
    assert_eq!(one.write_inbound(veiled("GET / ")).outbound_bytes(), veiled("http 6."));
}
