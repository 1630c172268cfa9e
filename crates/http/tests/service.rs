//! Who answers requests: aggregator, closures, async functions.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use netwright_core::{EmbeddedChannel, EventLoop, HostSettings, WaterMarks, pipeline, time};
use netwright_http::{
    Body, HttpAggregate, HttpError, HttpLimits, HttpPart, HttpServer, Received, respond, serve,
};
use std::{cell::RefCell, convert::Infallible, rc::Rc, time::Duration};

type Served = EmbeddedChannel<Infallible, netwright_http::ReplyPart>;

fn sent<R: 'static, W: 'static>(channel: &mut EmbeddedChannel<R, W>) -> String {
    let text = String::from_utf8(channel.outbound_bytes()).unwrap();
    let lines = text.split("\r\n").filter(|line| !line.starts_with("date: "));
    lines.collect::<Vec<_>>().join("|")
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn post(body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK|content-length: {}||{body}", body.len())
}

const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
const EXPECTS: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";

fn aggregated(max: usize) -> EmbeddedChannel<Request<Bytes>, Response<Bytes>> {
    EmbeddedChannel::new(pipeline().add(HttpServer::new()).add(HttpAggregate::max(max)))
}

/// Behaviour 87.
#[test]
fn a_body_that_is_announced_too_large_is_refused_and_the_connection_goes_on() {
    let mut channel = aggregated(4);
    channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    assert!(sent(&mut channel).starts_with("HTTP/1.1 413 Payload Too Large|"));
    channel.write_inbound("12345").write_inbound(post("1234"));
    assert_eq!(channel.read_inbound().unwrap().body(), "1234");
    channel.write_outbound(Response::new("ok".into()));
    assert_eq!(sent(&mut channel), ok("ok"));
    assert!(channel.read_inbound().is_none() && channel.is_open());
}

/// Behaviour 87.
#[test]
fn a_body_that_turns_out_too_large_is_refused_and_ends_the_connection() {
    let mut channel = aggregated(4);
    channel.write_inbound(format!("{CHUNKED}3\r\nabc\r\n2\r\nde\r\n"));
    let text = sent(&mut channel);
    assert!(text.starts_with("HTTP/1.1 413 ") && text.contains("connection: close"), "{text}");
    channel.write_inbound("0\r\n\r\n").advance(HttpLimits::default().linger_time);
    assert!(!channel.is_open() && channel.read_inbound().is_none());
}

/// Behaviour 87, but for what follows a refusal: the peer may send its body all the same, so nobody could tell where the next
/// request begins.
#[test]
fn a_peer_that_waits_is_told_to_go_on_or_refused() {
    let mut channel = aggregated(5);
    channel.write_inbound(EXPECTS);
    assert_eq!(sent(&mut channel), "HTTP/1.1 100 Continue||");
    channel.write_inbound("12345");
    assert_eq!(channel.read_inbound().unwrap().body(), "12345");

    let mut channel = aggregated(4);
    channel.write_inbound(EXPECTS);
    let text = sent(&mut channel);
    assert!(text.starts_with("HTTP/1.1 413 ") && text.contains("connection: close"), "{text}");
}

/// Behaviour 87: a body that has begun is a body, and what follows it the next request.
#[test]
fn a_peer_that_did_not_wait_is_refused_and_the_connection_goes_on() {
    for begun in [1, 4] {
        let mut channel = aggregated(4);
        channel.write_inbound(format!("{EXPECTS}{}", &"12345"[..begun]));
        let text = sent(&mut channel);
        assert!(text.starts_with("HTTP/1.1 413 ") && !text.contains("connection: close"), "{text}");
        channel.write_inbound(&"12345"[begun..]).write_inbound(post("1234"));
        assert_eq!(channel.read_inbound().unwrap().body(), "1234");
        assert!(channel.read_inbound().is_none() && channel.is_open());
    }
    // The same for who answers heads.
    let teapot = pipeline().add(HttpServer::new()).handle(|cx, part| {
        if let HttpPart::Head(_) | HttpPart::Whole(..) = part {
            cx.write_and_flush(HttpPart::Whole(StatusCode::EXPECTATION_FAILED.into(), Bytes::new()));
        }
    });
    let mut channel = EmbeddedChannel::new(teapot);
    channel.write_inbound(format!("{EXPECTS}1"));
    let refused = sent(&mut channel);
    assert!(refused.starts_with("HTTP/1.1 417 ") && !refused.contains("close"), "{refused}");
    channel.write_inbound(format!("2345{}", get("/")));
    assert_eq!(sent(&mut channel), refused, "the next request is answered");
    // Nothing to wait for: an expectation without a body.
    channel.write_inbound(EXPECTS.replace("Content-Length: 5", "Content-Length: 0"));
    assert_eq!(sent(&mut channel), refused);
    assert!(channel.is_open());
}

#[test]
fn a_refusal_of_the_aggregator_waits_for_the_replies_before_it() {
    let mut channel = aggregated(4);
    channel.write_inbound(get("/")).write_inbound(post("12345")).write_inbound(get("/"));
    assert_eq!(sent(&mut channel), "");
    channel.write_outbound(Response::new("1".into()));
    let text = sent(&mut channel);
    assert!(text.starts_with(&format!("{}HTTP/1.1 413 ", ok("1"))), "{text}");
    channel.write_outbound(Response::new("2".into()));
    assert_eq!(sent(&mut channel), ok("2"));
}

#[test]
fn a_closure_answers_a_batch_in_one_piece_and_bodies_are_put_together() {
    let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(respond(|request| {
        Response::new(format!("{} {}", request.uri(), request.body().escape_ascii()))
    })));
    channel.write_inbound([get("/1"), get("/2"), post("three")].concat());
    let pieces = std::iter::from_fn(|| channel.read_outbound()).count();
    assert_eq!(pieces, 1);
    channel.write_inbound(format!("{CHUNKED}3\r\nabc\r\n")).write_inbound("2\r\nde\r\n0\r\n\r\n");
    assert_eq!(sent(&mut channel), ok("/ abcde"));
}

/// Answers `/slow` after a second, and anything else at once.
async fn by_path(request: Request<Body>) -> Response<String> {
    if request.uri().path() == "/slow" {
        time::sleep(Duration::from_secs(1)).await;
    }
    Response::new(request.uri().path().to_owned())
}

#[test]
fn replies_keep_the_order_of_their_requests_whatever_is_done_first() {
    let mut channel =
        EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(by_path).concurrency(2)));
    channel.write_inbound([get("/slow"), get("/fast"), get("/third")].concat());
    assert_eq!(sent(&mut channel), "");
    channel.advance(Duration::from_secs(1));
    assert_eq!(sent(&mut channel), [ok("/slow"), ok("/fast"), ok("/third")].concat());
}

#[test]
fn no_more_requests_are_worked_on_than_allowed() {
    let begun = Rc::new(RefCell::new(Vec::new()));
    let log = begun.clone();
    let mut channel =
        EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(move |request: Request<Body>| {
            log.borrow_mut().push(request.uri().path().to_owned());
            by_path(request)
        })));
    channel.write_inbound([get("/slow"), get("/fast")].concat());
    assert_eq!(*begun.borrow(), ["/slow"]);
    assert!(!channel.wants_read());
    channel.advance(Duration::from_secs(1));
    assert_eq!(*begun.borrow(), ["/slow", "/fast"]);
    assert!(channel.wants_read());
}

/// Sends the body back as it comes.
async fn echo(request: Request<Body>) -> Response<Body> {
    Response::new(request.into_body())
}

#[test]
fn a_body_is_streamed_back_piece_by_piece() {
    let mut channel: Served = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(echo)));
    channel.write_inbound(CHUNKED);
    assert_eq!(sent(&mut channel), "HTTP/1.1 200 OK|transfer-encoding: chunked||");
    channel.write_inbound("3\r\nabc\r\n");
    assert_eq!(sent(&mut channel), "3|abc|");
    channel.write_inbound("2\r\nde\r\n0\r\nx: y\r\n\r\n");
    assert_eq!(sent(&mut channel), "2|de|0|x: y||");
    channel.write_inbound(post("whole"));
    assert_eq!(sent(&mut channel), ok("whole"));
}

#[test]
fn a_body_is_not_read_faster_than_its_echo_is_sent() {
    let mut channel: Served = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(echo)));
    channel.block_output(true).write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    let mut accepted = 0;
    while channel.wants_read() {
        channel.write_inbound([b'x'; 10_000]);
        accepted += 10_000;
        assert!(accepted <= 200_000, "{accepted} bytes were taken, and none was sent");
    }
    channel.block_output(false);
    assert!(channel.wants_read());
    while accepted < 1_000_000 {
        channel.write_inbound([b'x'; 10_000]);
        accepted += 10_000;
    }
    assert_eq!(sent(&mut channel).matches('x').count(), 1_000_000);
    assert!(channel.is_open());
}

#[test]
fn a_peer_that_waits_is_told_to_go_on_only_when_the_service_reads() {
    let mut channel: Served =
        EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(async |request: Request<Body>| {
            time::sleep(Duration::from_secs(1)).await;
            Response::new(request.into_body().collect(10).await.unwrap())
        })));
    channel.write_inbound(EXPECTS);
    assert_eq!(sent(&mut channel), "");
    channel.advance(Duration::from_secs(1));
    assert_eq!(sent(&mut channel), "HTTP/1.1 100 Continue||");
    channel.write_inbound("12345");
    assert_eq!(sent(&mut channel), ok("12345"));
}

#[test]
fn a_body_that_nobody_reads_is_thrown_away_if_it_is_short_and_ends_the_connection_if_it_is_long() {
    let refuse = async |_: Request<Body>| {
        let mut reply = Response::new(Body::empty());
        *reply.status_mut() = StatusCode::UNAUTHORIZED;
        reply
    };
    let mut channel: Served = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(refuse)));
    channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n");
    assert_eq!(sent(&mut channel), "HTTP/1.1 401 Unauthorized|content-length: 0||");
    channel.write_inbound([b'x'; 20_000]).write_inbound(get("/"));
    assert_eq!(sent(&mut channel), "HTTP/1.1 401 Unauthorized|content-length: 0||");
    channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n");
    assert!(sent(&mut channel).contains("connection: close"));
    channel.advance(HttpLimits::default().linger_time);
    assert!(!channel.is_open());
}

#[test]
fn a_service_learns_that_a_body_broke_off_and_why() {
    for (rest, expected) in [(Some("nonsense\r\n"), "size of a chunk"), (None, "ended within a body")] {
        let seen = Rc::new(RefCell::new(String::new()));
        let log = seen.clone();
        let mut channel: Served = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(
            move |request: Request<Body>| {
                let log = log.clone();
                async move {
                    let result: Result<Bytes, HttpError> = request.into_body().collect(100).await;
                    *log.borrow_mut() = result.unwrap_err().to_string();
                    Response::new(())
                }
            },
        )));
        channel.write_inbound(format!("{CHUNKED}1\r\na\r\n"));
        match rest {
            Some(rest) => channel.write_inbound(rest),
            None => channel.close_input(),
        };
        assert!(seen.borrow().contains(expected), "{}", seen.borrow());
        assert!(sent(&mut channel).starts_with("HTTP/1.1 400 "));
    }
}

#[test]
fn a_reply_that_is_broken_off_does_not_look_whole() {
    let mut channel: Served =
        EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(async |_: Request<Body>| {
            let (mut sender, body) = Body::channel();
            sender.try_send("abc".into()).unwrap();
            drop(sender);
            Response::new(body)
        })));
    channel.write_inbound(get("/"));
    assert!(sent(&mut channel).ends_with("||3|abc|"));
    assert!(!channel.is_open());
}

#[test]
fn files_and_streams_of_known_length_have_it_announced() {
    let path = std::env::temp_dir().join(format!("netwright-http-service-{}", std::process::id()));
    std::fs::write(&path, b"0123456789").unwrap();
    let file = std::sync::Arc::new(std::fs::File::open(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    let mut channel: Served =
        EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(move |_: Request<Body>| {
            let region = netwright_core::FileRegion::new(file.clone(), 2, 5);
            std::future::ready(Response::new(Body::file(region)))
        })));
    channel.write_inbound(get("/"));
    assert_eq!(sent(&mut channel), ok("23456"));
}

#[test]
fn parts_from_other_threads_count_for_their_bytes_before_the_loop_has_seen_them() {
    let large = || Bytes::from(vec![b'x'; WaterMarks::default().high()]);
    let mut channel: Served =
        EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(respond(|_| Response::new("unused"))));
    let handle = channel.channel().clone();
    handle.write(HttpPart::Data("short".into()));
    assert!(handle.is_writable());
    handle.write(HttpPart::Data(large()));
    assert!(!handle.is_writable(), "more than the mark is on its way");
    assert!(channel.run().channel().is_writable(), "nobody has asked for it");

    let channel = aggregated(1);
    channel.channel().write(Response::new(large()));
    assert!(!channel.channel().is_writable());
}

#[test]
fn a_closure_that_panics_is_answered_for_with_500_behind_the_replies_before_it() {
    let answer = |request: &Received| {
        assert_eq!(request.uri().path(), "/good", "no such page");
        Response::new("good")
    };
    let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(respond(answer)));
    channel.write_inbound("GET /good HTTP/1.1\r\nHost: a\r\n\r\nGET /bad HTTP/1.1\r\nHost: a\r\n\r\n");
    let text = String::from_utf8(channel.outbound_bytes()).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains("goodHTTP/1.1 500 Internal Server Error\r\nconnection: close\r\n"), "{text}");
    assert!(!channel.is_open());
}

#[test]
fn a_body_that_nobody_gets_because_only_the_head_was_asked_for_is_not_made() {
    let pieces = Rc::new(RefCell::new(0));
    let count = pieces.clone();
    let endless = move |_: Request<Body>| {
        let (mut sender, body) = Body::channel();
        let count = count.clone();
        let making = async move {
            while *count.borrow() < 10_000 && sender.send("piece").await.is_ok() {
                *count.borrow_mut() += 1;
            }
        };
        drop(netwright_core::EventLoop::current().unwrap().spawn_local(making));
        async { Response::new(body) }
    };
    let mut channel: Served = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(endless)));
    channel.write_inbound("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(sent(&mut channel), "HTTP/1.1 200 OK||");
    assert_eq!(*pieces.borrow(), 0);
    channel.write_inbound("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(sent(&mut channel), "HTTP/1.1 200 OK||", "the connection goes on");
}

/// A tail is tried with the parts themselves: no bytes, no codec.
#[test]
fn a_channel_of_parts_answers_requests_without_a_codec() {
    let answer = |request: &Received| Response::new(request.uri().path().to_owned());
    let mut channel = EmbeddedChannel::of_messages(pipeline().app(respond(answer)));
    for path in ["/a", "/b"] {
        channel.receive(Request::get(path).body("").unwrap().into());
        let Some(HttpPart::Whole(head, body)) = channel.read_outbound() else { panic!("no reply to {path}") };
        assert_eq!((head.status, &body[..]), (StatusCode::OK, path.as_bytes()));
    }
    channel.finish().expect_nothing();
}

#[test]
fn a_stream_of_parts_waits_while_nobody_takes_them_and_ends_with_its_channel() {
    let sent = Rc::new(RefCell::new(0));
    let counts = sent.clone();
    let stream = move |_: Request<Body>| {
        let counts = counts.clone();
        async move {
            let (mut sender, body) = Body::channel();
            let sending = async move {
                while *counts.borrow() < 100 && sender.send(vec![b'x'; 16 * 1024]).await.is_ok() {
                    *counts.borrow_mut() += 1;
                }
            };
            drop(EventLoop::current().unwrap().spawn_local(sending).unwrap());
            Response::new(body)
        }
    };
    let stages = pipeline().app(serve(stream));
    let mut channel = EmbeddedChannel::of_messages_with(stages, HostSettings::default(), HttpPart::WEIGHT);
    channel.block_output(true).receive(Request::get("/").body("").unwrap().into());
    let held = *sent.borrow();
    assert!((1..=16).contains(&held), "{held} pieces while nobody takes them");
    channel.block_output(false);
    assert!(matches!(channel.read_outbound(), Some(HttpPart::Head(_))));
    assert_eq!(*sent.borrow(), 100);
    let data =
        std::iter::from_fn(|| channel.read_outbound()).filter(|part| matches!(part, HttpPart::Data(_)));
    assert_eq!(data.count(), 100);
    channel.close_by_peer();
    assert!(!channel.is_open());
}
