//! Exchanges on a connection in memory, with the clock moved by hand.

use super::{
    ask::{self, Ask, Failure, Times},
    exchange::Exchange,
    lease::Lease,
    room::Room,
    shared::{Found, SharedConnections},
    *,
};
use crate::{
    codec::HttpClient,
    error::{Grammar, HttpError},
};
use bytes::Bytes;
use http::{HeaderValue, Response};
use netwright_core::{CloseCause, EmbeddedChannel, Event, ManualLoop, Promised, pipeline, promise};
use netwright_transport::{Pool, Pooled};
use std::{
    convert::Infallible,
    task::{Context, Poll},
    time::Duration,
};

const HEAD: Duration = Duration::from_secs(30);
const PIECE: Duration = Duration::from_secs(300);
const REPLY: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const LAST: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

type Replied = Promised<Response<Body>, Failure>;

/// One connection, and the pool that it belongs to.
struct Rig {
    connection: EmbeddedChannel<Infallible, Ask>,
    pool: Pool<Ask>,
    timer: ManualLoop,
}

impl Rig {
    fn new() -> Self {
        Self::on(EmbeddedChannel::new(pipeline().add(HttpClient::new()).last(Exchange::default())))
    }

    fn on(connection: EmbeddedChannel<Infallible, Ask>) -> Self {
        let (timer, channel) = (ManualLoop::new(), connection.channel().clone());
        let pool = Pool::with(timer.handle().clone(), move || Promised::ready(Ok(channel.clone())));
        Self { connection, pool: pool.max_connections(1).build().unwrap(), timer }
    }

    fn lend(&self) -> Pooled<Ask> {
        self.pool.acquire().try_take().expect("there is one").expect("and it is free")
    }

    fn send(&mut self, lease: impl Into<Lease>, body: impl Into<Body>, total: Duration) -> Replied {
        let (reply, promised) = promise();
        let lease = lease.into();
        let channel = (*lease).clone();
        let request = Request::post("http://a/").body(body.into()).unwrap();
        channel.write_and_flush(Ask::new(
            ask::Parts { request, reply, lease },
            Times { head: HEAD, piece: PIECE, total },
        ));
        self.connection.run();
        promised
    }

    fn ask(&mut self, body: impl Into<Body>) -> Replied {
        let pooled = self.lend();
        self.send(pooled, body, Duration::ZERO)
    }

    /// `(idle, in use)`
    fn figures(&self) -> (usize, usize) {
        (self.pool.figures().idle, self.pool.figures().in_use)
    }
}

fn error(mut replied: Replied) -> WebClientError {
    match replied.try_take().expect("it is over").expect_err("without a reply") {
        Failure::Sent { error, .. } => error,
        Failure::Unsent(_, error) => panic!("nothing was written: {error}"),
        Failure::Refused => panic!("refused"),
    }
}

fn late(replied: Replied) -> (&'static str, Duration) {
    match error(replied) {
        WebClientError::TimedOut { what, limit } => (what, limit),
        other => panic!("{other}"),
    }
}

#[test]
fn the_time_for_the_head_begins_when_the_request_is_sent() {
    let mut rig = Rig::new();
    let (mut sender, body) = Body::channel();
    let replied = rig.ask(body);
    for _ in 0..10 {
        sender.try_send("our own side is slow".into()).unwrap();
        rig.connection.advance(HEAD);
        assert!(!replied.is_done());
    }
    sender.end();
    rig.connection.run();
    rig.connection.advance(HEAD - Duration::from_secs(1));
    assert!(!replied.is_done());
    rig.connection.advance(Duration::from_secs(1));
    assert_eq!(late(replied), ("the reply", HEAD));
    assert!(!rig.connection.is_open());
    assert_eq!(rig.figures(), (0, 0));
}

#[test]
fn a_request_without_a_body_has_its_reply_in_time_or_none() {
    let mut rig = Rig::new();
    let replied = rig.ask(());
    rig.connection.advance(HEAD - Duration::from_secs(1));
    assert!(!replied.is_done());
    rig.connection.advance(Duration::from_secs(1));
    assert_eq!(late(replied), ("the reply", HEAD));
}

#[test]
fn a_server_that_takes_nothing_of_a_request_is_given_up_and_one_that_takes_it_slowly_is_not() {
    for whole in [true, false] {
        let mut rig = Rig::new();
        rig.connection.block_output(true);
        let (mut sender, streamed) = Body::channel();
        for _ in 0..40 {
            sender.try_send(Bytes::from(vec![7; 10_000])).unwrap();
        }
        let body = if whole { Body::from(vec![7; 400_000]) } else { streamed };
        let replied = rig.ask(body);
        if !whole {
            // Each time as much is taken as fits between the marks.
            for _ in 0..3 {
                rig.connection.advance(HEAD - Duration::from_secs(1));
                rig.connection.block_output(false).run().block_output(true);
                sender.try_send(Bytes::from(vec![7; 100_000])).unwrap();
                rig.connection.run();
                assert!(!replied.is_done());
            }
        }
        rig.connection.advance(HEAD * 10 - Duration::from_secs(1));
        assert!(!replied.is_done(), "not before its time");
        rig.connection.advance(HEAD / 2 + Duration::from_secs(1));
        rig.connection.advance(HEAD / 2);
        assert_eq!(late(replied), ("room for more of the request", HEAD * 10));
        assert_eq!(rig.figures(), (0, 0));
    }
}

#[test]
fn a_server_that_answers_and_does_not_take_the_rest_is_given_up_too() {
    let mut rig = Rig::new();
    rig.connection.block_output(true);
    let mut replied = rig.ask(vec![7; 400_000]);
    rig.connection.write_inbound(REPLY);
    assert!(replied.try_take().unwrap().is_ok());
    rig.connection.advance(HEAD * 10);
    assert_eq!(rig.figures(), (0, 1));
    rig.connection.advance(HEAD);
    assert_eq!(rig.figures(), (0, 0));
    assert!(!rig.connection.is_open());
}

#[test]
fn a_connection_is_not_lent_before_its_request_is_sent_although_the_reply_has_come() {
    let mut rig = Rig::new();
    rig.connection.block_output(true);
    let mut replied = rig.ask(vec![7; 400_000]);
    rig.connection.write_inbound(REPLY);
    assert!(replied.try_take().unwrap().is_ok());
    assert_eq!(rig.figures(), (0, 1));
    rig.connection.block_output(false).run();
    assert_eq!(rig.figures(), (1, 0));

    // The same for one that is still being written.
    let (sender, body) = Body::channel();
    let mut replied = rig.ask(body);
    rig.connection.write_inbound(REPLY);
    assert!(replied.try_take().unwrap().is_ok());
    assert_eq!(rig.figures(), (0, 1));
    sender.end();
    rig.connection.run();
    assert_eq!(rig.figures(), (1, 0));
}

#[test]
fn a_connection_that_the_server_closes_with_an_early_reply_is_not_kept_for_the_rest_of_the_request() {
    let mut rig = Rig::new();
    rig.connection.block_output(true);
    let mut replied = rig.ask(vec![7; 400_000]);
    rig.connection.write_inbound(LAST);
    assert!(replied.try_take().unwrap().is_ok());
    assert_eq!(rig.figures(), (0, 0));
    rig.connection.run();
    assert!(!rig.connection.is_open());
}

#[test]
fn an_answer_to_what_the_server_cannot_have_ends_the_connection() {
    let mut rig = Rig::new();
    rig.connection.block_output(true);
    let _replied = rig.ask(());
    rig.connection.write_inbound(REPLY).run();
    assert_eq!(rig.figures(), (0, 0));
    assert!(!rig.connection.is_open());
}

#[test]
fn what_finds_its_connection_ended_comes_back_as_it_was() {
    type End = fn(&mut Rig);
    let ends: [End; 3] = [
        |rig| _ = rig.connection.close_by_peer(),
        |rig| _ = rig.connection.channel().close(),
        |rig| _ = rig.connection.write_inbound("nobody has asked for this"),
    ];
    for end in ends {
        let mut rig = Rig::new();
        let pooled = rig.lend();
        end(&mut rig);
        let mut replied = rig.send(pooled, "the body", Duration::ZERO);
        let failure = replied.try_take().expect("it is known at once").expect_err("without a reply");
        let Failure::Unsent(request, error) = failure else { panic!("something was written") };
        assert!(matches!(error, WebClientError::Closed(_)), "{error}");
        assert_eq!(request.into_body().into_full().ok().unwrap(), "the body");
        assert_eq!(rig.figures(), (0, 0));
    }
}

#[test]
fn a_connection_is_given_up_after_a_last_reply_of_every_kind() {
    for (ours, theirs) in [
        ("close", REPLY),
        ("", LAST),
        ("upgrade", "HTTP/1.1 101 Switching Protocols\r\nupgrade: other\r\nconnection: upgrade\r\n\r\n"),
        ("", "HTTP/1.1 200 OK\r\n\r\nuntil the end"),
        ("", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"),
        ("", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ] {
        let mut rig = Rig::new();
        let pooled = rig.lend();
        let (reply, mut promised) = promise::<_, Failure>();
        let mut request = Request::get("http://a/").header("connection", ours).body(Body::empty()).unwrap();
        if ours == "upgrade" {
            request.headers_mut().insert("upgrade", HeaderValue::from_static("other"));
        }
        let times = Times { head: HEAD, piece: PIECE, total: Duration::ZERO };
        rig.connection.write_outbound(Ask::new(ask::Parts { request, reply, lease: pooled.into() }, times));
        rig.connection.write_inbound(theirs);
        let mut body = promised.try_take().unwrap().ok().unwrap().into_body();
        let mut waker = Context::from_waker(std::task::Waker::noop());
        let mut read = |rig: &mut Rig| {
            while let Poll::Ready(Ok(Some(_))) = body.poll_read(&mut waker) {}
            rig.connection.run();
        };
        read(&mut rig);
        if theirs.ends_with("end") {
            rig.connection.close_by_peer();
            read(&mut rig);
        }
        assert_eq!(rig.figures(), (0, 0), "{ours:?} {theirs:?}");
        assert!(!rig.connection.is_open(), "{ours:?} {theirs:?}");
    }
}

#[test]
fn a_request_that_is_given_up_ends_its_connection_and_one_that_was_not_written_leaves_it_to_the_next() {
    let mut rig = Rig::new();
    let pooled = rig.lend();
    let channel = (*pooled).clone();
    let (reply, promised) = promise::<_, Failure>();
    let times = Times { head: HEAD, piece: PIECE, total: Duration::ZERO };
    let request = Request::get("http://a/").body(Body::empty()).unwrap();
    channel.write_and_flush(Ask::new(ask::Parts { request, reply, lease: pooled.into() }, times));
    assert!(promised.cancel());
    channel.fire_event(Event::new(ask::GivenUp));
    rig.connection.run();
    assert_eq!((rig.connection.outbound_bytes(), rig.figures()), (Vec::new(), (1, 0)));

    let given_up = rig.ask("");
    channel.fire_event(Event::new(ask::GivenUp)); // somebody else, long ago
    assert!(rig.connection.run().is_open());
    assert!(given_up.cancel());
    channel.fire_event(Event::new(ask::GivenUp));
    assert!(!rig.connection.run().is_open());
    assert_eq!(rig.figures(), (0, 0));
}

#[test]
fn a_reply_to_nobody_ends_its_connection_with_an_error_that_says_so() {
    for asked in [false, true] {
        let mut rig = Rig::new();
        if asked {
            let mut replied = rig.ask("");
            rig.connection.write_inbound(REPLY);
            assert!(matches!(replied.try_take(), Some(Ok(_))));
            assert_eq!(rig.figures(), (1, 0));
        }
        rig.connection.write_inbound(REPLY);
        let Some(CloseCause::Fault(fault)) = rig.connection.channel().close_cause() else {
            panic!("no fault")
        };
        let unasked = matches!(fault.downcast_ref(), Some(HttpError::Grammar(Grammar::Unasked)));
        assert!(unasked, "{fault:?}");
        assert_eq!(rig.figures(), (0, 0));
    }
}

// ---- on a stream of HTTP/2 ----

/// A connection that speaks HTTP/2, and the requests that share it.
struct Http2Rig {
    rig: Rig,
    shared: Arc<SharedConnections>,
    first: Option<Lease>,
}

impl Http2Rig {
    fn new() -> Self {
        let room = Arc::new(Room::new(std::sync::Weak::new()));
        let stage = speaks::http2(Arc::new(HttpLimits::client()), false, room.clone());
        let mut rig = Rig::on(EmbeddedChannel::new(pipeline().last(stage)));
        rig.connection.write_inbound(b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0"); // settings, and the end of ours
        rig.connection.outbound_bytes();
        let shared = SharedConnections::new(1, rig.timer.handle().clone());
        let first = Some(shared.add(rig.lend(), room));
        Self { rig, shared, first }
    }

    fn ask(&mut self, body: impl Into<Body>, total: Duration) -> Replied {
        let lease = self.first.take().unwrap_or_else(|| match self.shared.find(None) {
            Found::Stream(lease) => lease,
            _ => panic!("there is no stream"),
        });
        self.rig.send(lease, body, total)
    }

    /// Types of the frames that were sent, and their streams.
    fn sent(&mut self) -> Vec<(u8, u8)> {
        let mut bytes = &self.rig.connection.outbound_bytes()[..];
        let mut frames = Vec::new();
        while let [_, high, low, kind, _, _, _, _, stream, rest @ ..] = bytes {
            frames.push((*kind, *stream));
            bytes = &rest[usize::from(u16::from_be_bytes([*high, *low]))..];
        }
        frames
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const PING: u8 = 6;

#[test]
fn a_reply_that_is_late_resets_its_stream_and_the_connection_goes_on() {
    for total in [Duration::ZERO, HEAD / 2] {
        let mut rig = Http2Rig::new();
        let replied = rig.ask((), total);
        assert_eq!(rig.sent(), [(HEADERS, 1)]);
        let limit = if total.is_zero() { HEAD } else { total };
        rig.rig.connection.advance(limit);
        assert_eq!(late(replied).1, limit);
        assert_eq!(rig.sent(), [(RESET, 1), (PING, 0)]);
        rig.rig.connection.write_inbound(b"\0\0\x08\x06\x01\0\0\0\0alive?!?").advance(HEAD);
        assert!(rig.rig.connection.is_open());
        let mut replied = rig.ask("body", Duration::ZERO);
        assert_eq!(rig.sent(), [(HEADERS, 3), (DATA, 3)]);
        rig.rig.connection.write_inbound(b"\0\0\x01\x01\x05\0\0\0\x03\x88");
        assert_eq!(replied.try_take().unwrap().ok().unwrap().status(), 200);
        assert_eq!(rig.shared.figures().streams, 0);
    }
}

#[test]
fn what_a_server_says_that_it_has_not_looked_at_is_told_so() {
    let refused: [&[u8]; 2] =
        [b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x07", b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0"];
    for said in refused {
        let mut rig = Http2Rig::new();
        let mut replied = rig.ask("body", Duration::ZERO);
        rig.rig.connection.write_inbound(said);
        assert!(matches!(replied.try_take().unwrap(), Err(Failure::Refused)));
    }
}

#[test]
fn a_stream_that_the_server_resets_is_no_end_of_a_connection() {
    let mut rig = Http2Rig::new();
    let mut replied = rig.ask("body", Duration::ZERO);
    rig.rig.connection.write_inbound(b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x02");
    let failure = replied.try_take().unwrap().err().unwrap();
    let Failure::Sent { error: WebClientError::Closed(CloseCause::Reset(2)), unanswered: false } = failure
    else {
        panic!("that is not sent again");
    };
}

#[test]
fn what_a_server_has_said_in_full_is_read_to_its_end_although_it_wants_no_more_of_the_request() {
    let mut rig = Http2Rig::new();
    let (mut sender, body) = Body::channel();
    sender.try_send(Bytes::from_static(b"the beginning")).unwrap();
    let mut replied = rig.ask(body, Duration::ZERO);
    // A head, four bytes, the end, and RST_STREAM(NO_ERROR), all at once.
    rig.rig.connection.write_inbound(
        b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x04\0\x01\0\0\0\x01full\0\0\x04\x03\0\0\0\0\x01\0\0\0\0",
    );
    let mut body = replied.try_take().unwrap().ok().unwrap().into_body();
    let mut waker = Context::from_waker(std::task::Waker::noop());
    let mut read = Vec::new();
    for _ in 0..4 {
        match body.poll_read(&mut waker) {
            Poll::Ready(Ok(Some(piece))) => read.extend_from_slice(&piece),
            Poll::Ready(Ok(None)) => break,
            Poll::Ready(Err(error)) => panic!("{error}"),
            Poll::Pending => drop(rig.rig.connection.run()),
        }
    }
    assert_eq!(read, b"full");
    assert!(matches!(body.poll_read(&mut waker), Poll::Ready(Ok(None))));
    drop(sender);
    assert!(rig.rig.connection.run().is_open());
    assert_eq!(rig.shared.figures().streams, 0);
}

#[test]
fn a_server_that_has_gone_without_a_word_is_noticed_when_a_reply_is_late() {
    let mut rig = Http2Rig::new();
    let replied = rig.ask((), Duration::ZERO);
    rig.rig.connection.advance(HEAD);
    assert_eq!(late(replied), ("the reply", HEAD));
    rig.rig.connection.advance(Duration::from_secs(11));
    assert!(!rig.rig.connection.is_open(), "nobody waits on it a second time");
}
