//! Requests that would be others, or several, if they were passed on as HTTP/1.1: no application hears of one.

use crate::peer::*;
use netwright_http::HttpLimits;

/// A request of these fields, and of the usual ones that it does not have.
fn asks(peer: &mut Peer, stream: u32, own: &[(&str, &[u8])], body: Option<&[u8]>) {
    let usual: [(&str, &[u8]); 4] =
        [(":method", b"POST"), (":scheme", b"http"), (":path", b"/"), (":authority", b"example")];
    let mut block: Vec<u8> = Vec::new();
    for (name, value) in usual {
        if !own.iter().any(|(known, _)| *known == name) {
            block.extend(field(name, value));
        }
    }
    let (pseudo, plain): (Vec<_>, Vec<_>) = own.iter().partition(|(name, _)| name.starts_with(':'));
    for (name, value) in pseudo.into_iter().chain(plain) {
        block.extend(field(name, value));
    }
    let end = if body.is_none() { END_STREAM } else { 0 };
    peer.say(frame(HEADERS, END_HEADERS | end, stream, &block));
    if let Some(body) = body {
        peer.say(frame(DATA, END_STREAM, stream, body));
    }
}

/// Names and values.
type Fields = &'static [(&'static str, &'static [u8])];

#[test]
fn requests_that_would_smuggle_are_refused_and_others_go_on() {
    let cases: &[(&str, Fields)] = &[
        ("transfer-encoding", &[("transfer-encoding", b"chunked")]),
        ("connection", &[("connection", b"close")]),
        ("keep-alive", &[("keep-alive", b"timeout=5")]),
        ("proxy-connection", &[("proxy-connection", b"close")]),
        ("upgrade", &[("upgrade", b"websocket")]),
        ("te", &[("te", b"gzip")]),
        ("CR LF in a value", &[("a", b"b\r\nx: y")]),
        ("LF in a value", &[("a", b"b\nx: y")]),
        ("NUL in a value", &[("a", b"b\0")]),
        ("CR at the end of a value", &[("a", b"b\r")]),
        ("space before a value", &[("a", b" b")]),
        ("upper case", &[("Content-Length", b"5")]),
        ("colon in a name", &[("a:b", b"c")]),
        ("CR LF in a name", &[("a\r\nb", b"c")]),
        ("space in a name", &[("content-length ", b"0")]),
        ("empty name", &[("", b"c")]),
        ("two lengths", &[("content-length", b"3"), ("content-length", b"4")]),
        ("a list of lengths", &[("content-length", b"3, 4")]),
        ("signed length", &[("content-length", b"+3")]),
        ("hexadecimal length", &[("content-length", b"0x3")]),
        ("long length", &[("content-length", b"99999999999999999999999")]),
        ("length that lies", &[("content-length", b"2")]),
        ("space in the path", &[(":path", b"/ HTTP/1.1\r\nhost: x")]),
        ("CR LF in the path", &[(":path", b"/a\r\nx: y")]),
        ("path without slash", &[(":path", b"a")]),
        ("empty path", &[(":path", b"")]),
        ("fragment", &[(":path", b"/a#b")]),
        ("absolute path", &[(":path", b"http://other/")]),
        ("space in the method", &[(":method", b"GET / HTTP/1.1\r\n")]),
        ("CR LF in the method", &[(":method", b"GET\r\n")]),
        ("space in the authority", &[(":authority", b"exa mple")]),
        ("user in the authority", &[(":authority", b"user@example")]),
        ("slash in the authority", &[(":authority", b"example/x")]),
        ("other host", &[("host", b"other")]),
        ("two hosts", &[("host", b"example"), ("host", b"example")]),
        ("scheme with more", &[(":scheme", b"http://other/?")]),
        ("a pseudo-field that is none", &[(":foo", b"x")]),
        ("a status", &[(":status", b"200")]),
    ];
    let mut limits = HttpLimits::default();
    limits.http2.points = 1_000_000;
    let mut peer = Peer::with(limits);
    let mut stream = 1;
    for (what, fields) in cases {
        asks(&mut peer, stream, fields, Some(b"xyz"));
        assert!(peer.reset_of(stream).is_some() || !peer.body(stream).starts_with(b"POST"), "{what}");
        assert!(!peer.body(stream).starts_with(b"POST") && !peer.body(stream).starts_with(b"GET"), "{what}");
        assert_eq!(peer.goodbye(), None, "{what}");
        assert!(peer.serves(stream + 2), "{what}");
        stream += 4;
    }
    asks(
        &mut peer,
        stream,
        &[("content-length", b"3"), ("te", b"trailers"), ("host", b"example")],
        Some(b"xyz"),
    );
    assert_eq!(peer.body(stream), b"POST / 3", "what is good is taken");
}

#[test]
fn pseudo_fields_twice_late_or_missing_are_refused() {
    let pseudo = |name: &str, value: &[u8]| field(name, value);
    let good = [
        pseudo(":method", b"GET"),
        pseudo(":scheme", b"http"),
        pseudo(":path", b"/"),
        pseudo(":authority", b"a"),
    ];
    let mut limits = HttpLimits::default();
    limits.http2.points = 1_000_000;
    let mut peer = Peer::with(limits);
    let mut stream = 1;
    let mut refused = |block: &[u8], what: &str| {
        peer.say(frame(HEADERS, ALL, stream, block));
        assert_eq!(peer.reset_of(stream), Some(PROTOCOL_ERROR), "{what}");
        stream += 2;
    };
    for (number, again) in good.iter().enumerate() {
        refused(&[good.concat(), again.clone()].concat(), "twice");
        let without: Vec<u8> = good
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != number)
            .flat_map(|(_, field)| field.clone())
            .collect();
        refused(&without, "missing");
        refused(&[without, field("x", b"y"), again.clone()].concat(), "late");
    }
    refused(&[good.concat(), field("host", b"b")].concat(), "two hosts");
}

#[test]
fn a_tunnel_has_an_authority_and_nothing_else() {
    let mut limits = HttpLimits::default();
    limits.http2.points = 1_000_000;
    let mut peer = Peer::with(limits);
    for (number, block) in [
        [field(":method", b"CONNECT"), field(":authority", b"a:1"), field(":path", b"/")].concat(),
        [field(":method", b"CONNECT"), field(":authority", b"a:1"), field(":scheme", b"http")].concat(),
        [field(":method", b"CONNECT"), field(":authority", b"a")].concat(),
        [field(":method", b"CONNECT"), field(":authority", b"a:0")].concat(),
        [field(":method", b"CONNECT"), field(":authority", b"a:1"), field("content-length", b"5")].concat(),
        [
            field(":method", b"GET"),
            field(":authority", b"a"),
            field(":scheme", b"http"),
            field(":path", b"/"),
            field(":protocol", b"websocket"),
        ]
        .concat(),
    ]
    .into_iter()
    .enumerate()
    {
        let stream = 1 + 2 * number as u32;
        peer.say(frame(HEADERS, END_HEADERS, stream, &block));
        assert_eq!(peer.reset_of(stream), Some(PROTOCOL_ERROR), "{number}");
    }
}

#[test]
fn a_head_cut_at_any_byte_over_frames_and_reads_is_the_same_head() {
    let block =
        [fields("GET", "/path?query"), field("x-long", &[b'x'; 300]), field("cookie", b"a=b")].concat();
    for cut in 0..=block.len() {
        let mut peer = Peer::with(HttpLimits::default());
        peer.say(frame(HEADERS, END_STREAM, 1, &block[..cut]));
        peer.say(frame(CONTINUATION, END_HEADERS, 1, &block[cut..]));
        if cut == block.len() {
            assert_eq!(peer.goodbye(), Some(ENHANCE_YOUR_CALM), "the second one is empty");
        } else {
            assert_eq!(peer.body(1), b"GET /path?query 0", "{cut}");
        }
    }
    let whole = frame(HEADERS, ALL, 1, &block);
    for cut in 0..=whole.len() {
        let mut peer = Peer::with(HttpLimits::default());
        peer.say(&whole[..cut]).say(&whole[cut..]);
        assert_eq!(peer.body(1), b"GET /path?query 0", "{cut}");
        // And what comes behind a part of a block that is thrown away ends the connection: nothing can be trusted any more.
        let mut peer = Peer::with(HttpLimits::default());
        peer.say(frame(HEADERS, ALL, 1, &block[..cut.min(block.len())]));
        let (cause, answered) = (peer.goodbye(), peer.body(1));
        assert!(
            cause == Some(COMPRESSION_ERROR) || peer.reset_of(1).is_some() || answered.starts_with(b"GET"),
            "{cut}"
        );
    }
}
