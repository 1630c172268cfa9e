//! The side that asks, against a server that says what a test has it say.

use super::peer::{Heard, Peer};
use crate::{
    HttpError,
    codec::h2::{code::ErrorCode, connection::http2_client, error::Http2Error, frame::Settings},
    error::{Limit, Within},
    limits::HttpLimits,
    message::{HttpPart, ReplyPart, RequestPart},
};
use bytes::Bytes;
use http::Request;
use netwright_core::{Channel, CloseCause, Context, EmbeddedChannel, Handler, WritePromise, pipeline};
use std::{cell::RefCell, convert::Infallible, rc::Rc, time::Duration};

/// What all streams have read, and how they have ended.
#[derive(Default)]
struct Log {
    read: RefCell<Vec<(usize, String)>>,
    ends: RefCell<Vec<(usize, CloseCause)>>,
    opened: RefCell<usize>,
    /// Streams that do not read.
    lazy: bool,
}

struct Noting {
    number: usize,
    log: Rc<Log>,
}

impl Handler for Noting {
    type Read = ReplyPart;
    type ReadOut = Infallible;
    type Write = RequestPart;
    type WriteOut = RequestPart;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        if self.log.lazy {
            cx.pause();
        }
    }
    fn read(&mut self, _: &mut Context<'_, Self>, part: ReplyPart) {
        let text = match part {
            HttpPart::Head(head) => format!("head {}", head.status.as_u16()),
            HttpPart::Whole(head, body) => format!("whole {} {}", head.status.as_u16(), body.len()),
            HttpPart::Interim(head) => format!("interim {}", head.status.as_u16()),
            HttpPart::Data(bytes) => format!("data {}", bytes.len()),
            HttpPart::End(trailers) => format!("end {}", trailers.map_or(0, |trailers| trailers.len())),
            HttpPart::File(_) => unreachable!(),
        };
        self.log.read.borrow_mut().push((self.number, text));
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, part: RequestPart, done: WritePromise) {
        cx.write_with(part, done);
    }
    fn inactive(&mut self, _: &mut Context<'_, Self>, cause: CloseCause) {
        self.log.ends.borrow_mut().push((self.number, cause));
    }
}

struct Rig {
    peer: Peer<RequestPart>,
    log: Rc<Log>,
    streams: Rc<RefCell<Vec<Channel<RequestPart>>>>,
}

impl Rig {
    fn with(limits: HttpLimits, settings: &Settings, lazy: bool) -> Self {
        let log = Rc::new(Log { lazy, ..Log::default() });
        let streams = Rc::new(RefCell::new(Vec::new()));
        let (noting, known) = (log.clone(), streams.clone());
        let client = http2_client(move || {
            let number = noting.opened.replace_with(|opened| *opened + 1);
            pipeline().last(Noting { number, log: noting.clone() })
        });
        let client = client.limits(limits).introduce(move |channel: &Channel<RequestPart>| {
            known.borrow_mut().push(channel.clone());
        });
        let peer = Peer::serving(EmbeddedChannel::of(pipeline().last(client)), settings);
        Self { peer, log, streams }
    }

    fn new() -> Self {
        Self::with(HttpLimits::client(), &Settings::default(), false)
    }

    fn get(&mut self, path: &str) -> &mut Self {
        let request = Request::get(format!("http://example{path}")).body(Bytes::new()).unwrap();
        self.peer.channel.write_outbound(RequestPart::from(request));
        self
    }

    /// The head of a request with a body that comes later.
    fn post(&mut self) -> Channel<RequestPart> {
        let (head, ()) = Request::post("http://example/").body(()).unwrap().into_parts();
        self.peer.channel.write_outbound(HttpPart::Head(head.into()));
        self.streams.borrow().last().unwrap().clone()
    }

    fn write(&mut self, stream: &Channel<RequestPart>, part: RequestPart) {
        stream.write_and_flush(part);
        self.peer.channel.run();
    }

    /// Sends what the server says, and gives what it hears.
    fn hear(&mut self) -> Vec<Heard> {
        self.peer.send();
        self.peer.hear()
    }

    fn read(&self) -> Vec<(usize, String)> {
        std::mem::take(&mut *self.log.read.borrow_mut())
    }

    /// The error with which a stream has ended.
    fn error_of(&self, number: usize) -> HttpError {
        match self.end_of(number) {
            CloseCause::Fault(fault) => fault.downcast_ref::<HttpError>().expect("an error of HTTP").clone(),
            other => panic!("{other:?}"),
        }
    }

    fn end_of(&self, number: usize) -> CloseCause {
        let ends = self.log.ends.borrow();
        ends.iter().find(|(other, _)| *other == number).expect("it has ended").1.clone()
    }

    fn open(&self) -> usize {
        self.streams.borrow().iter().filter(|stream| stream.close_cause().is_none()).count()
    }
}

fn paths(heard: &[Heard]) -> Vec<(u32, String)> {
    let path = |heard: &Heard| match heard {
        Heard::Head { stream, fields, .. } => {
            let path = fields.iter().find(|(name, _)| name == ":path")?;
            Some((*stream, path.1.clone()))
        }
        _ => None,
    };
    heard.iter().filter_map(path).collect()
}

fn text(parts: &[(usize, &str)]) -> Vec<(usize, String)> {
    parts.iter().map(|(number, part)| (*number, (*part).to_owned())).collect()
}

#[test]
fn requests_go_out_on_streams_of_their_own_and_replies_come_back_in_any_order() {
    let mut rig = Rig::new();
    rig.get("/one").get("/two");
    let heard = rig.hear();
    assert_eq!(paths(&heard), [(1, "/one".into()), (3, "/two".into())]);
    let Heard::Head { fields, end: true, .. } = &heard[0] else { panic!("{heard:?}") };
    let field = |name: &str| fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    let all = (field(":method"), field(":scheme"), field(":authority"));
    assert_eq!(all, (Some("GET"), Some("http"), Some("example")));
    rig.peer
        .reply(3, "204", &[], true)
        .reply(1, "200", &[], false)
        .data(1, b"body", false)
        .data(1, b"", true);
    assert_eq!(rig.hear(), []);
    let parts = [(1, "whole 204 0"), (0, "head 200"), (0, "data 4"), (0, "end 0")];
    assert_eq!(rig.read(), text(&parts));
    assert_eq!(rig.open(), 0);
}

#[test]
fn interim_replies_trailers_and_a_last_piece_that_ends_are_read() {
    let mut rig = Rig::new();
    rig.get("/");
    rig.hear();
    rig.peer.reply(1, "100", &[], false).reply(1, "103", &[("link", "</a>")], false);
    rig.peer.reply(1, "200", &[("content-length", "4")], false).data(1, b"body", false);
    rig.peer.head(1, &[("x-sum", "4")], true);
    assert_eq!(rig.hear(), []);
    let parts = ["interim 100", "interim 103", "head 200", "data 4", "end 1"];
    assert_eq!(rig.read(), parts.map(|part| (0, part.to_owned())));
    rig.get("/");
    rig.peer.reply(3, "200", &[], false).data(3, b"body", true);
    rig.hear();
    assert_eq!(rig.read().last().unwrap().1, "end 0");
}

#[test]
fn a_body_goes_out_as_windows_allow_and_a_reply_may_come_before_it_is_sent() {
    let settings = Settings { initial_window_size: Some(10), ..Settings::default() };
    let mut rig = Rig::with(HttpLimits::client(), &settings, false);
    let stream = rig.post();
    assert!(matches!(rig.hear()[..], [Heard::Head { end: false, .. }]));
    rig.write(&stream, HttpPart::Data(Bytes::from_static(b"0123456789abcdef")));
    rig.write(&stream, HttpPart::End(None));
    let sent = |stream, data: &'static [u8], end| Heard::Data { stream, data: Bytes::from_static(data), end };
    assert_eq!(rig.hear(), [sent(1, b"0123456789", false)]);
    rig.peer.reply(1, "200", &[], true);
    assert_eq!(rig.hear(), []);
    assert_eq!(rig.open(), 1, "its request is not out yet");
    rig.peer.window_update(1, 100);
    assert_eq!(rig.hear(), [sent(1, b"abcdef", true)]);
    assert_eq!(rig.open(), 0);
}

#[test]
fn a_server_that_needs_no_more_of_a_request_ends_its_stream_in_order() {
    let mut rig = Rig::new();
    rig.post();
    rig.hear();
    rig.peer.reply(1, "413", &[], true).reset(1, ErrorCode::NO_ERROR);
    assert_eq!(rig.hear(), []);
    assert_eq!(rig.read(), text(&[(0, "whole 413 0")]));
    assert!(matches!(rig.end_of(0), CloseCause::PeerClosed));
}

/// What haproxy does when it answers by itself, with 503 for one.
#[test]
fn a_whole_reply_is_one_whatever_code_its_stream_is_reset_with() {
    let mut rig = Rig::new();
    rig.post();
    rig.hear();
    rig.peer.reply(1, "503", &[], false).data(1, b"sorry", true).reset(1, ErrorCode::CANCEL);
    assert_eq!(rig.hear(), []);
    assert_eq!(rig.read(), text(&[(0, "head 503"), (0, "data 5"), (0, "end 0")]));
    assert!(matches!(rig.end_of(0), CloseCause::PeerClosed));
}

#[test]
fn a_stream_that_is_closed_is_cancelled_and_what_still_comes_of_it_hurts_nobody() {
    let mut rig = Rig::new();
    rig.get("/one").get("/two");
    rig.hear();
    rig.peer.reply(1, "200", &[], false);
    rig.hear();
    rig.streams.borrow()[0].close();
    rig.peer.channel.run();
    assert_eq!(rig.hear(), [Heard::Reset { stream: 1, code: ErrorCode::CANCEL }]);
    rig.peer.data(1, b"sent before", false).head(1, &[("x-late", "1")], true).reply(3, "200", &[], true);
    assert_eq!(rig.hear(), []);
    assert_eq!(rig.read().last().unwrap(), &(1, "whole 200 0".to_owned()));
    assert!(rig.peer.channel.is_open());
}

#[test]
fn one_that_was_not_opened_yet_is_closed_without_a_word() {
    let mut rig = Rig::new();
    rig.peer.channel.block_output(true);
    // More than the connection takes at a time.
    let stream = rig.post();
    rig.write(&stream, HttpPart::Data(Bytes::from(vec![1; 1_000_000])));
    rig.get("/late");
    rig.streams.borrow()[1].close();
    rig.peer.channel.run();
    rig.peer.channel.block_output(false).run();
    let heard = rig.hear();
    assert!(!heard.iter().any(|heard| matches!(heard, Heard::Reset { .. } | Heard::Head { stream: 3, .. })));
}

#[test]
fn streams_wait_while_the_server_takes_no_more_and_go_out_in_turn() {
    let settings = Settings { max_concurrent_streams: Some(1), ..Settings::default() };
    let mut limits = HttpLimits::client();
    limits.in_flight = 2;
    let mut rig = Rig::with(limits, &settings, false);
    rig.get("/one").get("/two").get("/three").get("/four");
    assert_eq!(paths(&rig.hear()), [(1, "/one".into())]);
    rig.peer.reply(1, "200", &[], true);
    assert_eq!(paths(&rig.hear()), [(3, "/two".into())]);
    rig.peer.settings(&Settings { max_concurrent_streams: Some(5), ..Settings::default() });
    assert_eq!(paths(&rig.hear()), [(5, "/three".into())], "the fourth was refused: two may wait");
}

#[test]
fn what_the_server_has_not_looked_at_when_it_goes_away_can_be_asked_again_and_the_rest_goes_on() {
    let mut rig = Rig::new();
    rig.get("/one").get("/two");
    rig.hear();
    rig.peer.goaway((1 << 31) - 1, ErrorCode::NO_ERROR, "");
    assert_eq!(rig.hear(), []);
    assert_eq!(rig.open(), 2);
    rig.get("/three"); // too late
    rig.peer.goaway(1, ErrorCode::NO_ERROR, "");
    assert_eq!(rig.hear(), []);
    assert!(matches!(rig.end_of(1), CloseCause::Reset(7)), "refused");
    rig.peer.channel.advance(Duration::from_secs(600));
    rig.peer.reply(1, "200", &[], true);
    rig.hear();
    assert_eq!(rig.read(), text(&[(0, "whole 200 0")]));
    assert!(!rig.peer.channel.is_open(), "nothing is left to be done");
}

#[test]
fn a_connection_that_ends_says_how_far_each_reply_was_and_what_the_server_had_against_us() {
    let mut rig = Rig::new();
    rig.get("/one").get("/two");
    rig.hear();
    rig.peer.reply(3, "200", &[], false).send();
    rig.peer.channel.close_input();
    assert_eq!(rig.error_of(0), HttpError::Premature { within: Within::Waiting });
    assert_eq!(rig.error_of(1), HttpError::Premature { within: Within::Body });

    let mut rig = Rig::new();
    rig.get("/one");
    rig.hear();
    rig.peer.goaway(1, ErrorCode::ENHANCE_YOUR_CALM, "too_many_pings").send();
    rig.peer.channel.close_input();
    let HttpError::Http2(Http2Error { code, why, .. }) = rig.error_of(0) else { panic!() };
    assert_eq!(code, ErrorCode::ENHANCE_YOUR_CALM);
    assert!(why.contains("too_many_pings"), "{why}");
}

#[test]
fn a_reader_that_waits_holds_back_its_own_stream_and_gives_its_window_back_by_reading() {
    let mut rig = Rig::with(HttpLimits::client(), &Settings::default(), true);
    rig.get("/one");
    rig.hear();
    rig.peer.reply(1, "200", &[], false);
    for _ in 0..4 {
        rig.peer.data(1, &[7; 16384], false);
    }
    let heard = rig.hear();
    assert!(!heard.iter().any(|heard| matches!(heard, Heard::WindowUpdate { stream: 1, .. })), "{heard:?}");
    assert_eq!(rig.read(), []);
    // One byte more than its window is too much, of that stream alone.
    rig.peer.data(1, b"x", false);
    assert_eq!(rig.hear(), [Heard::Reset { stream: 1, code: ErrorCode::FLOW_CONTROL_ERROR }]);

    let mut rig = Rig::with(HttpLimits::client(), &Settings::default(), true);
    rig.get("/one");
    rig.peer.reply(1, "200", &[], false);
    for _ in 0..4 {
        rig.peer.data(1, &[7; 16384], false);
    }
    rig.hear();
    rig.streams.borrow()[0].resume();
    rig.peer.channel.run();
    let heard = rig.hear();
    assert!(matches!(heard[..], [Heard::WindowUpdate { stream: 1, .. }]), "{heard:?}");
}

/// A server that does what it must not, and what comes of it: the code that it is told, for the stream or for all.
#[track_caller]
fn refused(say: impl FnOnce(&mut Peer<RequestPart>), stream: bool, code: ErrorCode) -> HttpError {
    let mut rig = Rig::new();
    rig.get("/one").get("/two");
    rig.hear();
    say(&mut rig.peer);
    let heard = rig.hear();
    if stream {
        assert_eq!(heard, [Heard::Reset { stream: 1, code }]);
        rig.peer.reply(3, "200", &[], true);
        assert_eq!(rig.hear(), [], "the other one goes on");
        assert_eq!(rig.read().last().unwrap().1, "whole 200 0");
    } else {
        let said = heard.iter().find_map(|heard| match heard {
            Heard::GoAway { code, .. } => Some(*code),
            _ => None,
        });
        assert_eq!(said, Some(code), "{heard:?}");
        assert_eq!(rig.open(), 0);
        rig.peer.channel.advance(Duration::from_secs(10));
        assert!(!rig.peer.channel.is_open());
    }
    rig.error_of(0)
}

#[test]
fn replies_that_are_none_end_their_stream_with_an_error_that_says_why() {
    type Fields = &'static [(&'static str, &'static str)];
    let cases: &[(Fields, &[u8])] = &[
        (&[(":status", "200"), ("content-length", "3")], b"four"),
        (&[(":status", "200"), ("content-length", "5")], b"four"),
        (&[(":status", "200"), ("content-length", "x")], b"four"),
        (&[(":status", "99")], b"four"),
        (&[(":status", "200"), (":status", "200")], b"four"),
        (&[("x", "y")], b"four"),
        (&[(":status", "200"), ("connection", "close")], b"four"),
        (&[(":status", "200"), ("transfer-encoding", "chunked")], b"four"),
        (&[(":status", "101")], b"four"),
        (&[(":path", "/")], b"four"),
    ];
    for (fields, body) in cases {
        println!("{fields:?}");
        let say = |peer: &mut Peer<RequestPart>| {
            let head_alone = fields.iter().all(|field| *field != (":status", "200"));
            peer.head(1, fields, false);
            if !head_alone {
                peer.data(1, body, true);
            }
        };
        let error = refused(say, true, ErrorCode::PROTOCOL_ERROR);
        assert!(matches!(error, HttpError::Http2(Http2Error { stream: Some(1), .. })), "{fields:?} {error}");
    }
    let error = refused(
        |peer| _ = peer.reply(1, "200", &[("content-length", "1")], true),
        true,
        ErrorCode::PROTOCOL_ERROR,
    );
    assert!(error.to_string().contains("none follows"), "{error}");
}

#[test]
fn a_small_head_that_is_large_when_it_is_decoded_is_cut_and_so_is_one_of_many_small_fields() {
    // `:status`, then a field of 3,000 bytes that gets into the table, and is named again in one byte each time.
    let large = [&[0x88, 0x40, 1, b'x', 0x7f, 0xb9, 0x16][..], &[b'y'; 3000], &[0xbe; 40]].concat();
    let many = [&[0x88, 0x40, 1, b'x', 1, b'y'][..], &[0xbe; 100]].concat();
    for (block, limit) in [(large, Limit::Head), (many, Limit::Headers)] {
        let error = refused(|peer| _ = peer.frame(1, 5, 1, &block), true, ErrorCode::CANCEL);
        assert!(matches!(error, HttpError::TooMuch { limit: said, .. } if said == limit), "{error}");
    }
}

#[test]
fn a_head_that_is_larger_than_allowed_is_its_own_error() {
    let mut limits = HttpLimits::client();
    limits.head = 1000;
    let mut rig = Rig::with(limits, &Settings::default(), false);
    rig.get("/one").get("/two");
    rig.hear();
    rig.peer.reply(1, "200", &[("x", &"y".repeat(2000))], true);
    assert_eq!(rig.hear(), [Heard::Reset { stream: 1, code: ErrorCode::CANCEL }]);
    assert!(matches!(rig.error_of(0), HttpError::TooMuch { limit: Limit::Head, .. }));
    assert_eq!(rig.open(), 1);
}

#[test]
fn interim_replies_without_an_end_are_cut() {
    let error = refused(
        |peer| {
            for _ in 0..40 {
                peer.reply(1, "102", &[], false);
            }
        },
        true,
        ErrorCode::CANCEL,
    );
    assert!(matches!(error, HttpError::TooMuch { limit: Limit::Interim, max: 32, got: 33 }), "{error}");
}

#[test]
fn what_a_server_must_never_say_ends_the_connection() {
    let protocol = ErrorCode::PROTOCOL_ERROR;
    type Say = fn(&mut Peer<RequestPart>);
    let cases: &[(Say, ErrorCode)] = &[
        // It opens a stream.
        (|peer| _ = peer.head(2, &[(":status", "200")], true), protocol),
        // It answers what nobody has asked.
        (|peer| _ = peer.reply(5, "200", &[], true), protocol),
        (|peer| _ = peer.data(7, b"x", true), protocol),
        (|peer| _ = peer.reset(9, ErrorCode::CANCEL), protocol),
        (|peer| _ = peer.window_update(11, 1), protocol),
        // It pushes, or says that it may be pushed to.
        (|peer| _ = peer.frame(5, 4, 1, &[0, 0, 0, 2, 0x88]), protocol),
        (|peer| _ = peer.settings(&Settings { enable_push: Some(true), ..Settings::default() }), protocol),
        // Windows that cannot be counted.
        (|peer| _ = peer.window_update(0, (1 << 31) - 1), ErrorCode::FLOW_CONTROL_ERROR),
        (
            |peer| {
                peer.window_update(1, (1 << 31) - 70_000);
                peer.settings(&Settings { initial_window_size: Some(1 << 30), ..Settings::default() });
            },
            ErrorCode::FLOW_CONTROL_ERROR,
        ),
        // A block that is no block, and one that never ends.
        (|peer| _ = peer.frame(1, 5, 1, &[0xff, 0xff, 0xff, 0xff, 0xff]), ErrorCode::COMPRESSION_ERROR),
        (
            |peer| {
                peer.frame(1, 0, 1, &[0x88]);
                for _ in 0..5 {
                    peer.frame(9, 0, 1, &[0x88]);
                }
            },
            ErrorCode::ENHANCE_YOUR_CALM,
        ),
        // Floods.
        (|peer| (0..2000).for_each(|_| _ = peer.ping(false, [0; 8])), ErrorCode::ENHANCE_YOUR_CALM),
        (
            |peer| (0..2000).for_each(|_| _ = peer.settings(&Settings::default())),
            ErrorCode::ENHANCE_YOUR_CALM,
        ),
        (
            |peer| {
                peer.reply(1, "200", &[], false);
                (0..200).for_each(|_| _ = peer.data(1, b"", false));
            },
            ErrorCode::ENHANCE_YOUR_CALM,
        ),
        (|peer| (0..2000).for_each(|_| _ = peer.window_update(0, 1)), ErrorCode::ENHANCE_YOUR_CALM),
        (
            |peer| (0..2000).for_each(|_| _ = peer.goaway(3, ErrorCode::NO_ERROR, "")),
            ErrorCode::ENHANCE_YOUR_CALM,
        ),
        (
            |peer| (0..2000).for_each(|_| _ = peer.frame(0xbe, 0, 0, b"what is this")),
            ErrorCode::ENHANCE_YOUR_CALM,
        ),
    ];
    for (number, (say, code)) in cases.iter().enumerate() {
        let error = refused(say, false, *code);
        let HttpError::Http2(Http2Error { code: said, stream: None, .. }) = &error else {
            panic!("{number}: {error:?}")
        };
        assert_eq!(said, code, "{number}: {error}");
    }
}

#[test]
fn a_window_of_one_stream_that_cannot_be_counted_ends_that_stream() {
    let error = refused(|peer| _ = peer.window_update(1, (1 << 31) - 1), true, ErrorCode::FLOW_CONTROL_ERROR);
    assert!(matches!(error, HttpError::Http2(_)), "{error}");
}

#[test]
fn a_server_that_does_not_begin_is_given_up() {
    let client = http2_client(|| pipeline().last(Noting { number: 0, log: Rc::default() }));
    let mut channel = EmbeddedChannel::of(pipeline().last(client));
    channel.advance(Duration::from_secs(10));
    let _: Vec<u8> = channel.outbound_bytes().to_vec();
    channel.advance(Duration::from_secs(2));
    assert!(!channel.is_open());
    let client = http2_client(|| pipeline().last(Noting { number: 0, log: Rc::default() }));
    let mut channel = EmbeddedChannel::of(pipeline().last(client));
    channel.write_inbound("HTTP/1.1 400 Bad Request\r\n\r\n").advance(Duration::from_secs(2));
    assert!(!channel.is_open(), "it speaks something else");
}

#[test]
fn a_thousand_streams_that_the_server_refuses_cost_it_nothing() {
    let mut rig = Rig::new();
    for n in 0..1000 {
        rig.get("/");
        rig.peer.reset(1 + 2 * n, ErrorCode::REFUSED_STREAM);
        rig.hear();
    }
    assert!(rig.peer.channel.is_open());
    assert!(matches!(rig.end_of(999), CloseCause::Reset(7)));
}
