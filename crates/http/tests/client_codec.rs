//! The client's codec, driven by hand.

use bytes::Bytes;
use http::{Request, Version};
use netwright_core::{AppContext, Application, CloseCause, EmbeddedChannel, Fault, pipeline};
use netwright_http::{HttpClient, HttpError, HttpPart, ReplyPart, RequestHead, RequestPart};

type Embedded = EmbeddedChannel<ReplyPart, RequestPart>;

fn client() -> Embedded {
    EmbeddedChannel::new(pipeline().add(HttpClient::new()))
}

fn head(method: &str, uri: &str) -> RequestHead {
    Request::builder().method(method).uri(uri).body(()).unwrap().into()
}

fn asked(methods: &[&str]) -> Embedded {
    let mut channel = client();
    for method in methods {
        let uri = if *method == "CONNECT" { "a:443" } else { "http://a/" };
        channel.write_outbound(HttpPart::Whole(head(method, uri), Bytes::new()));
    }
    channel.outbound_bytes();
    channel
}

fn told(part: &ReplyPart) -> String {
    match part {
        HttpPart::Head(head) => format!("head {}", head.status.as_u16()),
        HttpPart::Whole(head, body) => format!("whole {} [{}]", head.status.as_u16(), body.escape_ascii()),
        HttpPart::Data(bytes) => format!("data [{}]", bytes.escape_ascii()),
        HttpPart::End(None) => "end".to_owned(),
        HttpPart::End(Some(trailers)) => format!("end with {} trailers", trailers.len()),
        HttpPart::Interim(head) => format!("interim {}", head.status.as_u16()),
        HttpPart::File(_) => unreachable!("never read"),
    }
}

fn parts(channel: &mut Embedded) -> Vec<String> {
    std::iter::from_fn(|| channel.read_inbound()).map(|part| told(&part)).collect()
}

fn error(channel: &Embedded) -> String {
    match channel.channel().close_cause() {
        Some(CloseCause::Fault(fault)) => {
            assert!(fault.downcast_ref::<HttpError>().is_some(), "{fault}");
            fault.to_string()
        }
        other => panic!("{other:?}"),
    }
}

fn sent(channel: &mut Embedded) -> String {
    String::from_utf8(channel.outbound_bytes()).unwrap().replace("\r\n", "|")
}

/// Behaviour 90.
#[test]
fn replies_belong_to_their_requests_with_1xx_head_and_connect_between_them() {
    let mut channel = asked(&["GET", "HEAD", "GET", "CONNECT"]);
    channel.write_inbound(
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    );
    channel.write_inbound("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n");
    channel
        .write_inbound("HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    channel.write_inbound("HTTP/1.1 200 Connected\r\nContent-Length: 7\r\n\r\ntunnel");
    let expected =
        ["interim 103", "whole 200 [hi]", "whole 200 []", "head 404", "data [abc]", "end", "whole 200 []"];
    assert_eq!(parts(&mut channel), expected);
    assert!(channel.is_open());
}

#[test]
fn bytes_one_by_one_give_the_same_as_all_at_once() {
    let stream = "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 \r\nContent-Length: 9\r\n\r\n";
    let mut channel = asked(&["GET", "GET", "GET"]);
    stream.as_bytes().chunks(1).for_each(|byte| _ = channel.write_inbound(byte));
    assert_eq!(
        parts(&mut channel),
        ["head 200", "data [h]", "data [i]", "end", "whole 204 []", "whole 304 []"]
    );
}

/// Behaviour 86.
#[test]
fn a_reply_without_a_length_ends_with_its_connection_and_a_broken_head_is_an_error() {
    let mut channel = asked(&["GET"]);
    channel.write_inbound("HTTP/1.1 200 OK\r\n\r\nsome").write_inbound("thing").close_by_peer();
    assert_eq!(parts(&mut channel), ["head 200", "data [some]", "data [thing]", "end"]);
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::PeerClosed)));

    for (stream, within) in [
        ("", "before the reply"),
        ("HTTP/1.1 20", "within a head"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1234", "within a body"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "within a body"),
    ] {
        let mut channel = asked(&["GET"]);
        channel.write_inbound(stream).close_input();
        assert!(error(&channel).contains(within), "{stream}");
        assert!(!parts(&mut channel).contains(&"end".to_owned()), "{stream}");
    }
}

#[test]
fn a_server_that_wants_to_close_is_believed() {
    for reply in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    ] {
        let mut channel = asked(&["GET"]);
        channel.write_inbound(reply);
        assert_eq!(parts(&mut channel), ["whole 200 [hi]"]);
        assert!(!channel.is_open());
    }
    let mut channel = asked(&["GET"]);
    channel.write_inbound("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi");
    assert!(channel.is_open());
}

#[test]
fn replies_that_cannot_be_trusted_are_errors_and_end_the_connection() {
    for reply in [
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 999 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1 200 O\0K\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx : y\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: y\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    ] {
        for size in [reply.len(), 1] {
            let mut channel = asked(&["GET"]);
            reply.as_bytes().chunks(size).for_each(|piece| _ = channel.write_inbound(piece));
            assert!(!channel.is_open(), "{reply:?}");
            error(&channel);
        }
    }
    let mut unasked = client();
    unasked.write_inbound("HTTP/1.1 200 OK\r\n\r\n");
    assert!(error(&unasked).contains("nobody asked for"));
    let mut endless = asked(&["GET"]);
    endless.write_inbound("HTTP/1.1 102 Processing\r\n\r\n".repeat(40));
    assert!(error(&endless).contains("the limit is 32"));
}

#[test]
fn requests_get_what_is_missing_and_keep_what_they_have() {
    let mut channel = client();
    let mut post = head("POST", "http://user:secret@a:81/x?y#z");
    post.headers.insert("x-a", "b".parse().unwrap());
    channel.write_outbound(HttpPart::Whole(post, "body".into()));
    assert_eq!(sent(&mut channel), "POST /x?y HTTP/1.1|host: a:81|x-a: b|content-length: 4||body");
    channel.write_outbound(HttpPart::Whole(head("POST", "http://a"), Bytes::new()));
    assert_eq!(sent(&mut channel), "POST / HTTP/1.1|host: a|content-length: 0||");
    channel.write_outbound(HttpPart::Head(head("PUT", "http://a/")));
    channel.write_outbound(HttpPart::Data("abc".into())).write_outbound(HttpPart::End(None));
    assert_eq!(sent(&mut channel), "PUT / HTTP/1.1|host: a|transfer-encoding: chunked||3|abc|0||");
    channel.write_outbound(HttpPart::Whole(head("CONNECT", "a:443"), Bytes::new()));
    assert_eq!(sent(&mut channel), "CONNECT a:443 HTTP/1.1|host: a:443||");

    let mut proxied = EmbeddedChannel::new(pipeline().add(HttpClient::new().absolute_targets(true)));
    proxied.write_outbound(HttpPart::Whole(head("GET", "http://user@a/x"), Bytes::new()));
    assert_eq!(sent(&mut proxied), "GET http://a/x HTTP/1.1|host: a||");
}

#[test]
fn a_request_that_cannot_be_written_is_an_error() {
    let mut streamed = head("PUT", "http://a/");
    streamed.version = Version::HTTP_10;
    let mut short = head("PUT", "http://a/");
    short.headers.insert("content-length", "5".parse().unwrap());
    for (part, text) in [
        (HttpPart::Whole(head("GET", "/no-host"), Bytes::new()), "without a host"),
        (HttpPart::Head(streamed), "Content-Length"),
        (HttpPart::Whole(short, "1234".into()), "5 bytes of body were announced, 4 were written"),
        (HttpPart::Data("x".into()), "without a head"),
    ] {
        let mut channel = client();
        let mut written = channel.channel().send(part);
        channel.run();
        assert!(written.wait().unwrap_err().to_string().contains(text), "{text}");
        assert_eq!(sent(&mut channel), "");
    }
}

/// One that goes on whatever happens.
struct Undeterred;

impl Application for Undeterred {
    type Read = ReplyPart;
    type Write = RequestPart;

    fn read(&mut self, _: &mut AppContext<'_, Self>, _: ReplyPart) {}

    fn error(&mut self, _: &mut AppContext<'_, Self>, _: Fault) {}
}

#[test]
fn a_request_whose_body_ends_too_soon_ends_its_connection() {
    let mut channel = EmbeddedChannel::new(pipeline().add(HttpClient::new()).app(Undeterred));
    let mut short = head("PUT", "http://a/");
    short.headers.insert("content-length", "5".parse().unwrap());
    channel.write_outbound(HttpPart::Head(short));
    channel.write_outbound(HttpPart::Data("1234".into()));
    let mut written = channel.channel().send(HttpPart::End(None));
    channel.run();
    let error = written.wait().unwrap_err().to_string();
    assert!(error.contains("5 bytes of body were announced, 4 were written"), "{error}");
    // The server would take the beginning of the next one for the rest of this one.
    channel.write_outbound(HttpPart::Whole(head("GET", "http://a/behind"), Bytes::new()));
    let sent = String::from_utf8(channel.outbound_bytes()).unwrap().replace("\r\n", "|");
    assert_eq!(sent, "PUT / HTTP/1.1|host: a|content-length: 5||1234");
    assert!(!channel.is_open());
}

#[test]
fn what_a_request_says_about_the_end_of_its_connection_holds() {
    let mut channel = client();
    let mut last = head("GET", "http://a/");
    last.headers.insert("connection", "close".parse().unwrap());
    channel.write_outbound(HttpPart::Whole(last, Bytes::new()));
    channel.write_outbound(HttpPart::Whole(head("GET", "http://a/behind"), Bytes::new()));
    assert_eq!(sent(&mut channel), "GET / HTTP/1.1|host: a|connection: close||", "and nothing behind it");

    let mut old = head("GET", "http://a/");
    old.version = Version::HTTP_10;
    for last in [old, {
        let mut last = head("GET", "http://a/");
        last.headers.insert("connection", "close".parse().unwrap());
        last
    }] {
        let mut channel = client();
        channel.write_outbound(HttpPart::Whole(last, Bytes::new()));
        channel.write_inbound("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(parts(&mut channel), ["whole 200 [hi]"]);
        assert!(!channel.is_open());
    }
}

#[test]
fn what_came_before_a_request_is_not_its_reply() {
    let mut channel = asked(&["GET"]);
    channel.channel().pause();
    channel.channel().request();
    channel.run();
    channel.write_inbound(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong",
    );
    channel.write_outbound(HttpPart::Whole(head("GET", "http://a/"), Bytes::new()));
    channel.channel().resume();
    assert_eq!(parts(&mut channel), ["whole 200 [hi]"]);
    assert!(!channel.is_open());
}

#[test]
fn a_target_has_a_path() {
    for (method, uri, line) in [
        ("GET", "http://a?x=1", "GET /?x=1"),
        ("GET", "http://a", "GET /"),
        ("GET", "http://a/?x=1", "GET /?x=1"),
        ("OPTIONS", "http://a?x", "OPTIONS /?x"),
    ] {
        let mut channel = client();
        channel.write_outbound(HttpPart::Whole(head(method, uri), Bytes::new()));
        assert!(sent(&mut channel).starts_with(&format!("{line} HTTP/1.1|")), "{uri}");
    }
    let mut proxied = EmbeddedChannel::new(pipeline().add(HttpClient::new().absolute_targets(true)));
    proxied.write_outbound(HttpPart::Whole(head("GET", "http://a?x=1"), Bytes::new()));
    assert!(sent(&mut proxied).starts_with("GET http://a/?x=1 HTTP/1.1|"));
}
