//! Requests and their replies.

use super::peer::{Heard, Peer};
use crate::{
    Received,
    codec::h2::{code::ErrorCode, connection::http2_server, frame::Settings},
    respond, serve,
};
use bytes::Bytes;
use http::{Request, Response};
use netwright_core::{EmbeddedChannel, pipeline, time};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

fn hello(request: &Received) -> Response<String> {
    Response::new(format!("{} {} {}", request.method(), request.uri(), request.body().len()))
}

fn server() -> Peer<std::convert::Infallible> {
    let server = http2_server(|| pipeline().app(respond(hello))).date(false);
    Peer::greeted(EmbeddedChannel::of(pipeline().last(server)))
}

fn data(stream: u32, text: &str) -> Heard {
    Heard::Data { stream, data: Bytes::copy_from_slice(text.as_bytes()), end: true }
}

#[test]
fn settings_come_first_and_are_acknowledged() {
    let server = http2_server(|| pipeline().app(respond(hello)));
    let mut peer = Peer::silent(EmbeddedChannel::of(pipeline().last(server)));
    let heard = peer.hear();
    assert!(matches!(&heard[0], Heard::Settings(settings) if settings.max_concurrent_streams == Some(100)));
    assert!(matches!(heard[1], Heard::WindowUpdate { stream: 0, .. }));
    peer.raw(crate::codec::h2::frame::PREFACE).settings(&Settings::default()).drip();
    assert_eq!(peer.hear(), [Heard::SettingsAck]);
}

#[test]
fn requests_are_answered_each_on_its_stream() {
    let mut peer = server();
    peer.get(1, "/one").get(3, "/two").send();
    let heard = peer.hear();
    assert_eq!(heard.iter().filter_map(Heard::status).collect::<Vec<_>>(), ["200", "200"]);
    assert_eq!((&heard[1], &heard[3]), (&data(1, "GET /one 0"), &data(3, "GET /two 0")));
    peer.get(5, "/one").drip();
    assert_eq!(peer.hear()[1], data(5, "GET /one 0"));
}

#[test]
fn bodies_come_in_pieces_and_are_given_back() {
    let mut peer = server();
    peer.request(1, "POST", "/", &[("content-length", "6")], false).data(1, b"abc", false).send();
    assert_eq!(peer.hear(), []);
    peer.data(1, b"def", true).send();
    assert_eq!(peer.hear()[1], data(1, "POST / 6"));
}

#[test]
fn a_reply_waits_for_windows_and_goes_on_when_they_open() {
    let server = http2_server(|| {
        pipeline().app(respond(|_: &Received| Response::new(Bytes::from(vec![b'x'; 100_000]))))
    });
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    peer.get(1, "/").send();
    let sent = |heard: Vec<Heard>| -> (usize, bool) {
        heard.iter().fold((0, false), |(sum, ended), heard| match heard {
            Heard::Data { data, end, .. } => (sum + data.len(), ended | end),
            _ => (sum, ended),
        })
    };
    assert_eq!(sent(peer.hear()), (65_535, false));
    peer.window_update(1, 10).send();
    assert_eq!(sent(peer.hear()), (0, false), "the connection's window is used up");
    peer.window_update(0, 1 << 20).send();
    assert_eq!(sent(peer.hear()), (10, false));
    peer.window_update(1, 1 << 20).send();
    assert_eq!(sent(peer.hear()), (100_000 - 65_545, true));
}

#[test]
fn an_async_function_answers_with_the_body_that_it_reads() {
    let server = http2_server(|| {
        pipeline().app(serve(async |request: Request<crate::Body>| Response::new(request.into_body())))
    });
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    peer.request(1, "POST", "/", &[], false).data(1, b"abc", false).send();
    let heard = peer.hear();
    assert_eq!(heard[0].status(), Some("200"));
    assert_eq!(heard[1], Heard::Data { stream: 1, data: "abc".into(), end: false });
    peer.data(1, b"def", true).send();
    assert_eq!(peer.hear(), [data(1, "def")]);
}

#[test]
fn a_stream_that_panics_costs_itself_alone() {
    let server = http2_server(|| {
        pipeline().app(respond(|request: &Received| {
            assert_ne!(request.uri().path(), "/panic");
            Response::new("fine")
        }))
    });
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    peer.get(1, "/panic").get(3, "/").send();
    let heard = peer.hear();
    let statuses: Vec<_> = heard.iter().filter_map(Heard::status).collect();
    assert!(statuses.contains(&"500") && statuses.contains(&"200"), "{heard:?}");
}

#[test]
fn what_breaks_the_rules_of_the_connection_ends_it_with_a_goodbye() {
    let mut peer = server();
    peer.data(1, b"x", false).send();
    let heard = peer.hear();
    assert!(
        matches!(&heard[..], [Heard::GoAway { last: 0, code: ErrorCode::PROTOCOL_ERROR, .. }]),
        "{heard:?}"
    );
}

#[test]
fn a_ping_is_answered_and_a_reset_stream_is_forgotten() {
    let server = http2_server(|| {
        pipeline().app(serve(async |_: Request<crate::Body>| {
            std::future::pending::<()>().await;
            Response::new(())
        }))
    });
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    peer.get(1, "/").ping(false, *b"12345678").reset(1, ErrorCode::CANCEL).send();
    assert_eq!(peer.hear(), [Heard::Ping { ack: true, data: *b"12345678" }]);
    peer.window_update(1, 1).send();
    assert_eq!(peer.hear(), [], "credit for a stream that has ended is no mistake");
}

#[test]
fn a_handler_whose_stream_is_reset_is_dropped() {
    struct Noted(Arc<AtomicBool>);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = Arc::new(AtomicBool::new(false));
    let noted = over.clone();
    let server = http2_server(move || {
        let noted = noted.clone();
        pipeline().app(serve(move |_: Request<crate::Body>| {
            let noted = Noted(noted.clone());
            async move {
                let _noted = noted;
                std::future::pending::<Response<String>>().await
            }
        }))
    });
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    peer.get(1, "/").send();
    assert!(!over.load(Ordering::Relaxed));
    peer.reset(1, ErrorCode::CANCEL).send();
    peer.channel.run();
    assert!(over.load(Ordering::Relaxed));
}

/// What Node does when many uploads are refused: it had sent more of each before it heard.
#[test]
fn bodies_that_were_sent_before_the_peer_knew_that_nobody_wants_them_cost_it_nothing() {
    let server =
        http2_server(|| pipeline().app(serve(async |_: Request<crate::Body>| Response::new("not today"))));
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    let streams = || (0..100).map(|number| 2 * number + 1);
    for round in 0..3 {
        let from = round * 200;
        for stream in streams() {
            peer.request(from + stream, "POST", "/", &[], false);
        }
        peer.send();
        for stream in streams() {
            for _ in 0..4 {
                peer.data(from + stream, &[b'x'; 2000], false);
            }
        }
        peer.send();
        let heard = peer.hear();
        assert_eq!(heard.iter().filter_map(Heard::status).filter(|status| *status == "200").count(), 100);
        let resets =
            |code| move |heard: &&Heard| matches!(heard, Heard::Reset { code: its, .. } if *its == code);
        assert_eq!(heard.iter().filter(resets(ErrorCode::NO_ERROR)).count(), 100);
        assert_eq!(heard.iter().filter(resets(ErrorCode::STREAM_CLOSED)).count(), 0);
        assert!(!heard.iter().any(|heard| matches!(heard, Heard::GoAway { .. })), "{heard:?}");
    }
}

/// What nghttpx does: it cuts bodies where its own buffers end.
#[test]
fn pieces_of_few_bytes_are_paid_back_as_they_are_read_although_others_wait() {
    let server = http2_server(|| {
        pipeline().app(serve(async |mut request: Request<crate::Body>| {
            let mut read = 0;
            while let Ok(Some(piece)) = request.body_mut().read().await {
                read += piece.len();
                time::sleep(Duration::from_millis(1)).await;
            }
            Response::new(read.to_string())
        }))
    });
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    peer.request(1, "POST", "/", &[], false);
    let mut sent = 0;
    for round in 0..3000 {
        for _ in 0..if round == 0 { 30 } else { 1 } {
            peer.data(1, &[b'x'; 9], false).data(1, &[b'x'; 300], false);
            sent += 309;
        }
        peer.send();
        peer.channel.advance(Duration::from_millis(2)); // two pieces are read
    }
    peer.data(1, b"", true).send();
    peer.channel.advance(Duration::from_secs(1));
    assert_eq!(peer.hear().last(), Some(&data(1, &sent.to_string())));
}

/// What curl of 2023 needs: it reads the reply to its last request of HTTP/1.1 into 32 KiB, and what follows has to fit in there.
#[test]
fn little_is_sent_behind_a_change_of_protocol_before_the_client_has_spoken() {
    let long = |_: &Received| Response::new(Bytes::from(vec![b'x'; 1 << 20]));
    let server = crate::HttpVersions::new(move || pipeline().app(respond(long))).pipeline();
    let mut channel: EmbeddedChannel<(), _> = EmbeddedChannel::with_joint(server);
    let ask = "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAQAoAAA\r\n";
    channel.write_inbound(format!("GET / HTTP/1.1\r\nHost: a\r\n{ask}\r\n"));
    let first = channel.outbound_bytes();
    assert!(first.starts_with(b"HTTP/1.1 101 ") && (16 << 10..20 << 10).contains(&first.len()));
    let mut hello = crate::codec::h2::frame::PREFACE.to_vec();
    hello.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    channel.write_inbound(hello);
    let then = channel.outbound_bytes();
    let bytes = |sent: &[u8]| sent.iter().filter(|byte| **byte == b'x').count();
    assert!(bytes(&first) + bytes(&then) >= 65_535, "what the connection's window allows");
}

#[test]
fn who_waits_for_a_100_gets_it_when_the_body_is_asked_for_and_not_before() {
    let server = http2_server(|| {
        pipeline().app(serve(async |request: Request<crate::Body>| {
            netwright_core::time::sleep(std::time::Duration::from_secs(5)).await;
            let body = request.into_body().collect(10).await.unwrap();
            Response::new(body)
        }))
    });
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    peer.request(1, "POST", "/", &[("expect", "100-continue"), ("content-length", "3")], false).send();
    peer.channel.advance(std::time::Duration::from_secs(4));
    assert_eq!(peer.hear(), []);
    peer.channel.advance(std::time::Duration::from_secs(2));
    let statuses: Vec<_> = peer.hear().iter().filter_map(Heard::status).map(str::to_owned).collect();
    assert_eq!(statuses, ["100"]);
    peer.data(1, b"abc", true).send();
    assert_eq!(peer.hear()[1], data(1, "abc"));
}

#[test]
fn who_is_answered_without_a_look_at_the_body_gets_no_100() {
    let server = http2_server(|| {
        pipeline().app(serve(async |_: Request<crate::Body>| {
            netwright_core::time::sleep(std::time::Duration::from_secs(5)).await;
            Response::new(crate::Body::empty())
        }))
    });
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    peer.request(1, "POST", "/", &[("expect", "100-continue"), ("content-length", "3")], false).send();
    peer.channel.advance(std::time::Duration::from_secs(6));
    let statuses: Vec<_> = peer.hear().iter().filter_map(Heard::status).map(str::to_owned).collect();
    assert_eq!(statuses, ["200"]);
}

/// Answers each piece as it comes, and ends as gRPC does; what comes without a body is answered by trailers alone, in a head.
#[cfg(feature = "tower")]
#[derive(Clone)]
struct Calls;

#[cfg(feature = "tower")]
impl tower_service::Service<Request<crate::Body>> for Calls {
    type Response = Response<crate::Body>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<crate::Body>) -> Self::Future {
        assert_eq!(request.headers()["te"], "trailers");
        let mut incoming = request.into_body();
        if incoming.is_empty() {
            let mut refused = Response::new(crate::Body::empty());
            refused.headers_mut().insert("grpc-status", http::HeaderValue::from_static("12"));
            return std::future::ready(Ok(refused));
        }
        let (mut sender, body) = crate::Body::channel();
        let answering = async move {
            while let Ok(Some(piece)) = incoming.read().await {
                if sender.send(piece).await.is_err() {
                    return;
                }
            }
            let mut trailers = http::HeaderMap::new();
            trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
            sender.end_with(trailers);
        };
        drop(netwright_core::EventLoop::current().unwrap().spawn_local(answering));
        std::future::ready(Ok(Response::new(body)))
    }
}

#[cfg(feature = "tower")]
#[test]
fn a_tower_service_replies_while_its_request_still_comes_and_ends_with_trailers() {
    let server = http2_server(|| pipeline().app(crate::tower(Calls))).date(false);
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    peer.request(1, "POST", "/", &[("te", "trailers")], false).send();
    let head = |stream, fields: &[(&str, &str)], end| {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Heard::Head { stream, fields, end }
    };
    assert_eq!(peer.hear(), [head(1, &[(":status", "200")], false)], "before any of the body has come");
    for piece in ["one", "two"] {
        peer.data(1, piece.as_bytes(), false).send();
        let data = Bytes::from_static(piece.as_bytes());
        assert_eq!(peer.hear(), [Heard::Data { stream: 1, data, end: false }]);
    }
    peer.data(1, b"", true).send();
    assert_eq!(peer.hear(), [head(1, &[("grpc-status", "0")], true)]);

    peer.request(3, "POST", "/", &[("te", "trailers")], true).send();
    let fields = [(":status", "200"), ("grpc-status", "12"), ("content-length", "0")];
    assert_eq!(peer.hear(), [head(3, &fields, true)], "trailers alone");
}

/// Writes as long as there is room.
struct Endless;

impl Endless {
    fn pour(cx: &mut netwright_core::AppContext<'_, Self>) {
        while cx.is_writable() {
            cx.write(crate::HttpPart::Data(Bytes::from_static(&[b'x'; 8192])));
        }
        cx.flush();
    }
}

impl netwright_core::Application for Endless {
    type Read = crate::RequestPart;
    type Write = crate::ReplyPart;

    fn read(&mut self, cx: &mut netwright_core::AppContext<'_, Self>, _: crate::RequestPart) {
        cx.write(crate::HttpPart::Head(crate::ReplyHead::new()));
        Self::pour(cx);
    }

    fn writability(&mut self, cx: &mut netwright_core::AppContext<'_, Self>, writable: bool) {
        if writable {
            Self::pour(cx);
        }
    }
}

#[test]
fn a_body_without_end_for_who_asked_for_the_head_keeps_nobody_else_waiting() {
    let server = http2_server(|| pipeline().app(Endless));
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    peer.request(1, "HEAD", "/", &[], true).send();
    let heard = peer.hear();
    assert!(matches!(&heard[..], [Heard::Head { stream: 1, end: true, .. }]), "{heard:?}");
    peer.ping(false, *b"still ok").send();
    assert_eq!(peer.hear(), [Heard::Ping { ack: true, data: *b"still ok" }]);
    peer.channel.advance(std::time::Duration::from_millis(5));
    peer.reset(1, ErrorCode::CANCEL).send();
    assert_eq!(peer.hear(), []);
}

/// Says when it is dropped.
struct Guard(std::rc::Rc<std::cell::Cell<u32>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_function_that_does_not_read_its_body_ends_with_its_connection_and_what_it_did_not_read_as_well() {
    let dropped = std::rc::Rc::new(std::cell::Cell::new(0));
    let guards = dropped.clone();
    let server = http2_server(move || {
        let guards = guards.clone();
        pipeline().app(serve(move |request: Request<crate::Body>| {
            let guard = Guard(guards.clone());
            async move {
                let _held = (request, guard);
                std::future::pending::<()>().await;
                Response::new("never")
            }
        }))
    });
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    for stream in [1, 3] {
        peer.request(stream, "POST", "/", &[], false).data(stream, &[b'x'; 16_000], false);
    }
    peer.get(5, "/").send();
    assert_eq!(dropped.get(), 0);
    peer.channel
        .end_because(netwright_core::CloseCause::Io(std::sync::Arc::new(std::io::Error::other("reset"))));
    peer.channel.run();
    assert_eq!(dropped.get(), 3);
}

#[test]
fn who_does_not_hear_that_the_connection_ends_is_not_answered_for_ever() {
    let limits = crate::HttpLimits { requests: 10, ..crate::HttpLimits::default() };
    let server = http2_server(|| pipeline().app(respond(hello))).limits(limits);
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(server)));
    let mut answered = 0;
    for number in 0..400 {
        peer.get(2 * number + 1, "/").send();
        answered += peer.hear().iter().filter(|heard| heard.status().is_some()).count();
    }
    assert!((10..=10 + 2 * 100).contains(&answered), "{answered}");
}
