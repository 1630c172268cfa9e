//! Smuggling, floods and nonsense: refused with a status, in order, then closed, and nothing behind it is looked at.

use super::*;
use netwright_core::CloseCause;
use netwright_http::HttpError;

/// Feeds a stream whole and byte by byte: the same status both times, no request comes of it, and the connection ends.
#[track_caller]
fn refused(stream: impl AsRef<[u8]>, status: u16) {
    let stream = stream.as_ref();
    for size in [stream.len().max(1), 1] {
        let mut channel = server();
        stream.chunks(size).for_each(|piece| _ = channel.write_inbound(piece));
        let text = sent(&mut channel);
        let shown = stream[..stream.len().min(100)].escape_ascii();
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}: {text}");
        assert!(text.contains("|connection: close|"), "{shown}: {text}");
        assert_eq!(text.matches("HTTP/1.1").count(), 1, "{shown}: {text}");
        let seen = parts(&mut channel);
        assert!(
            !seen.iter().any(|part| part.starts_with("whole") || part.starts_with("end")),
            "{shown}: {seen:?}"
        );
        channel.write_inbound(GET).advance(HttpLimits::default().linger_time);
        assert!(!channel.is_open(), "{shown}");
        assert_eq!(parts(&mut channel), [""; 0], "{shown}: nothing is read behind it");
        let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { continue };
        assert!(fault.downcast_ref::<HttpError>().is_some());
    }
}

/// Behaviours 82, 83 and 85.
#[test]
fn what_is_not_in_the_grammar_is_refused() {
    for head in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\rHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\tfolded\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost\t: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nx\u{0}y: z\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nx: y\u{0}\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nx: \u{b}y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nx: y\u{7f}\r\n\r\n",
        "GET /\u{0} HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /#x HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\u{e4} HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / http/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1x\r\nHost: a\r\n\r\n",
        "GET /\r\n\r\n",
        "GET\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT a:b HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT http://a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT a:80 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
        "CONNECT a:80 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
    ] {
        refused(head, 400);
    }
    refused(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400);
    refused(b"GET / HTTP/1.1\r\nHost: a\r\nx\xe4: y\r\n\r\n", 400);
}

#[test]
fn a_host_that_is_none_is_refused_wherever_a_request_names_it() {
    let bad = [
        "[", "]", "[]", "[::1", "::1", "[::1]x", "[gg::1]", "a[b]", "a:b", "a:-1", "a:80:80", "%", "%zz",
        "a:65536", ":80", "u@a", "a:80@b",
    ];
    for host in bad {
        refused(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400);
        refused(format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n"), 400);
        refused(format!("GET http://{host}/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
        refused(format!("GET http://a/ HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400);
        refused(format!("GET http://{host}?x HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
        refused(format!("CONNECT {host} HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
        refused(format!("CONNECT {host}:80 HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    }
    for target in ["a:", "a:0", "[::1]", "[::1]:", "a:99999", ":443"] {
        refused(format!("CONNECT {target} HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    }
    for head in [
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a%41:\r\n\r\n",
        "GET http://[::1]:80/@b:c HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a:?b@c HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT [::1]:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let mut channel = server();
        channel.write_inbound(head);
        let seen = parts(&mut channel);
        assert!(matches!(seen.as_slice(), [part] if part.starts_with("whole")), "{head}: {seen:?}");
    }
}

#[test]
fn lengths_that_two_readers_could_read_differently_are_refused() {
    let post = |fields: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
        )
    };
    for fields in [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5, 5",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: -5",
        "Content-Length: +5",
        "Content-Length: 0x5",
        "Content-Length: 5 ,",
        "Content-Length:",
        "Content-Length: 99999999999999999999",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding:\r\n chunked",
        "Content-Length : 5",
    ] {
        refused(post(fields), 400);
    }
    for fields in [
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked;a=b",
        "Transfer-Encoding: ,chunked",
    ] {
        refused(post(fields), 501);
    }
    refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400);
}

/// Behaviour 84.
#[test]
fn chunks_that_are_none_are_refused_and_the_body_does_not_end() {
    for body in [
        "g\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5;a\nhello\r\n0\r\n\r\n",
        "5;\u{0}\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "fffffffffffffffff\r\n",
        "0\r\nContent-Length: 1\r\n\r\n",
        "0\r\nx y: 1\r\n\r\n",
        "0\r\n\nGET / HTTP/1.1\r\n\r\n",
    ] {
        refused(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}"), 400);
    }
}

#[test]
fn each_limit_has_its_status() {
    refused(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9000)), 414);
    refused(format!("GET /{}", "a".repeat(20_000)), 414);
    refused(format!("GET / HTTP/1.1\r\nHost: a\r\nx: {}\r\n\r\n", "a".repeat(20_000)), 431);
    refused(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(100)), 431);
    refused(format!("GET / HTTP/1.1\r\nHost: a\r\n{}", "x: y\r\n".repeat(10_000)), 431);
    refused("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 16777217\r\n\r\n", 413);
    refused("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1000001\r\n", 413);
    refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505);
    refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
    refused("GET / HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n", 417);
    let trailers = "x: y\r\n".repeat(2000);
    refused(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{trailers}"), 431);
}

#[test]
fn a_refusal_comes_behind_the_replies_to_what_was_asked_before() {
    let mut channel = server();
    channel.write_inbound(format!("{GET}{GET}garbage\r\n\r\n"));
    assert_eq!(parts(&mut channel).len(), 2);
    assert_eq!(sent(&mut channel), "");
    channel.write_outbound(HttpPart::Head(reply(200))).write_outbound(HttpPart::Data("x".into()));
    channel.write_outbound(HttpPart::End(None));
    assert!(sent(&mut channel).ends_with("|1|x|0||"), "one more is owed");
    channel.write_outbound(hello());
    let text = sent(&mut channel);
    assert!(text.starts_with(&format!("{HELLO}HTTP/1.1 400 Bad Request|connection: close|")), "{text}");
    channel.write_outbound(hello()).advance(HttpLimits::default().linger_time);
    assert!(!channel.is_open());
    channel.finish().expect_nothing();
}

#[test]
fn a_body_that_goes_wrong_under_a_reply_ends_the_connection_and_the_reply_does_not_look_whole() {
    let mut channel = server();
    channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    channel.write_outbound(HttpPart::Head(reply(200))).write_outbound(HttpPart::Data("abc".into()));
    channel.write_inbound("nonsense\r\n");
    assert!(sent(&mut channel).ends_with("3|abc|"));
    assert!(!channel.is_open());
}

#[test]
fn a_body_that_goes_wrong_behind_its_reply_gets_no_second_one() {
    let mut channel = server();
    channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n");
    channel.write_outbound(hello()).write_inbound("xy");
    assert_eq!(sent(&mut channel), HELLO);
    channel.advance(HttpLimits::default().linger_time);
    assert!(!channel.is_open());
}

#[test]
fn a_request_that_breaks_off_is_refused_if_the_peer_still_reads() {
    for stream in ["GET / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n123"] {
        let mut channel = server();
        channel.write_inbound(stream).close_input();
        assert!(sent(&mut channel).starts_with("HTTP/1.1 400 "), "{stream}");
        channel.advance(HttpLimits::default().linger_time);
        assert!(!channel.is_open());
        let mut channel = server();
        channel.write_inbound(stream).close_by_peer();
        assert!(!channel.is_open());
    }
}

#[test]
fn who_was_refused_and_sends_on_is_cut_off() {
    let mut channel = server_with(|limits| limits.linger = 1000);
    channel.write_inbound("nonsense\r\n\r\n");
    channel.write_inbound([b'x'; 900]);
    assert!(channel.is_open());
    channel.write_inbound([b'x'; 200]);
    assert!(!channel.is_open());
}

#[test]
fn who_wants_no_date_has_none_in_refusals_either() {
    for date in [true, false] {
        let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new().date(date)));
        channel.write_inbound("nonsense\r\n\r\n");
        let text = sent(&mut channel);
        assert!(text.starts_with("HTTP/1.1 400 ") && text.contains("|date: ") == date, "{text}");
    }
}
