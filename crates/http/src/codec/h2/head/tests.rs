use super::reply::Reply;
use super::*;
use crate::{
    codec::h2::hpack::{Decoder, Encoder, HpackError},
    error::{Framing, Grammar, HttpError, Limit, Misuse},
    limits::HttpLimits,
    message::{Protocol, ReplyHead, RequestHead},
};
use bytes::BytesMut;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use netwright_testkit::{CountingAllocator, allocations_during};
use write::Length;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Fields in full, as they are here, put into no table.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            match text.chars().count() {
                len @ ..127 => block.push(len as u8),
                len => {
                    let more = len - 127;
                    assert!(more < 1 << 14);
                    block.extend_from_slice(&[127, more as u8 | 0x80, (more >> 7) as u8]);
                }
            }
            block.extend(text.chars().map(|char| u8::try_from(u32::from(char)).unwrap()));
        }
    }
    block
}

fn limits() -> HttpLimits {
    HttpLimits::default()
}

fn request(fields: &[(&str, &str)]) -> Result<Request, HttpError> {
    let mut reader = RequestReader::default();
    reader.read(&mut Decoder::default(), &block(fields), &limits(), true).unwrap()
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a")];

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    GET.iter().chain(more).copied().collect()
}

/// The usual request with these in place of the fields of the same name, which are left out if they are `-`.
fn instead<'a>(changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let changed = GET.iter().map(|field| *changes.iter().find(|change| change.0 == field.0).unwrap_or(field));
    let new = changes.iter().copied().filter(|change| GET.iter().all(|field| field.0 != change.0));
    changed.chain(new).filter(|field| field.1 != "-").collect()
}

#[test]
fn a_request_is_the_one_that_http1_would_give() {
    let fields = [
        (":method", "POST"),
        (":path", "/a/b?c=d"),
        (":authority", "example.org:8443"),
        ("accept", "*/*"),
        ("x-two", "1"),
        ("x-two", "2"),
        ("te", "trailers"),
        ("content-length", "12"),
        ("expect", "100-continue"),
    ];
    let Request { head, facts } = request(&instead(&fields)).unwrap();
    assert_eq!((head.method.as_str(), head.version), ("POST", Version::HTTP_2));
    assert_eq!(head.uri, "/a/b?c=d");
    assert_eq!((head.uri.scheme(), head.uri.authority()), (None, None));
    let mut headers = HeaderMap::new();
    headers.insert("host", "example.org:8443".parse().unwrap());
    for (name, value) in &fields[3..] {
        headers.append(*name, value.parse().unwrap());
    }
    assert_eq!(head.headers, headers);
    let expected =
        RequestFacts { content_length: Some(12), expects: true, https: true, ..RequestFacts::default() };
    assert_eq!(facts, expected);
    let facts = request(&instead(&[(":method", "HEAD"), (":scheme", "http")])).unwrap().facts;
    assert_eq!(facts, RequestFacts { head: true, ..RequestFacts::default() });
}

#[test]
fn each_head_that_is_none_has_its_own_error() {
    use Grammar::*;
    let target = format!("/{}", "x".repeat(8000));
    for (fields, error) in [
        (instead(&[(":method", "-")]), PseudoMissing),
        (instead(&[(":scheme", "-")]), PseudoMissing),
        (instead(&[(":path", "-")]), PseudoMissing),
        (vec![], PseudoMissing),
        (instead(&[(":authority", "-")]), NoHost),
        (with(&[(":method", "GET")]), PseudoTwice),
        (with(&[(":scheme", "https")]), PseudoTwice),
        (with(&[(":path", "/")]), PseudoTwice),
        (with(&[(":authority", "a")]), PseudoTwice),
        (with(&[(":status", "200")]), PseudoUnexpected),
        (with(&[(":protocol", "websocket")]), PseudoUnexpected),
        (with(&[(":other", "x")]), HeaderName),
        (with(&[("accept", "*/*"), (":path", "/")]), PseudoLate),
        (instead(&[(":method", "G T")]), Method),
        (instead(&[(":method", "")]), Method),
        (instead(&[(":method", "GET\r\nx")]), Method),
        (instead(&[(":scheme", "ftp")]), Scheme),
        (instead(&[(":scheme", "")]), Scheme),
        (instead(&[(":scheme", "http ")]), Scheme),
        (instead(&[(":path", "")]), Target),
        (instead(&[(":path", "*")]), Target),
        (instead(&[(":path", "a")]), Target),
        (instead(&[(":path", "?a")]), Target),
        (instead(&[(":path", "https://a/")]), Target),
        (instead(&[(":path", "/a b")]), Target),
        (instead(&[(":path", "/a#b")]), Target),
        (instead(&[(":path", "/a\r\nHost: b")]), Target),
        (instead(&[(":path", "/\u{e4}")]), Target),
        (instead(&[(":path", "/\0")]), Target),
        (instead(&[(":path", "/ HTTP/1.1\r\nx: y")]), Target),
        (instead(&[(":authority", "")]), Host),
        (instead(&[(":authority", "user@a")]), Host),
        (instead(&[(":authority", "a/b")]), Host),
        (instead(&[(":authority", "a b")]), Host),
        (instead(&[(":authority", "a\r\nx: y")]), Host),
        (instead(&[(":authority", "a:99999")]), Host),
        (with(&[("host", "b")]), HostsDiffer),
        (with(&[("host", "a:80")]), HostsDiffer),
        (with(&[("host", "")]), Host),
        (with(&[("host", "a"), ("host", "a")]), TwoHosts),
        (with(&[("Accept", "x")]), HeaderName),
        (with(&[("x y", "x")]), HeaderName),
        (with(&[("x:", "x")]), HeaderName),
        (with(&[("x\r\ny", "x")]), HeaderName),
        (with(&[("", "x")]), HeaderName),
        (with(&[("x", "a\r\nb")]), HeaderValue),
        (with(&[("x", "a\nb")]), HeaderValue),
        (with(&[("x", "a\rb")]), HeaderValue),
        (with(&[("x", "a\0b")]), HeaderValue),
        (with(&[("x", "a\u{7f}")]), HeaderValue),
        (with(&[("x", " a")]), HeaderValue),
        (with(&[("x", "a\t")]), HeaderValue),
        (with(&[("connection", "close")]), ConnectionField),
        (with(&[("connection", "")]), ConnectionField),
        (with(&[("keep-alive", "timeout=5")]), ConnectionField),
        (with(&[("proxy-connection", "keep-alive")]), ConnectionField),
        (with(&[("transfer-encoding", "chunked")]), ConnectionField),
        (with(&[("upgrade", "h2c")]), ConnectionField),
        (with(&[("te", "gzip")]), ConnectionField),
        (with(&[("te", "trailers, gzip")]), ConnectionField),
    ] {
        assert_eq!(request(&fields).err(), Some(error.into()), "{fields:?}");
    }
    for (fields, error) in [
        (with(&[("content-length", "1x")]), HttpError::Framing(Framing::BadLength)),
        (with(&[("content-length", "")]), Framing::BadLength.into()),
        (with(&[("content-length", "-1")]), Framing::BadLength.into()),
        (with(&[("content-length", "1,1")]), Framing::BadLength.into()),
        (with(&[("content-length", "18446744073709551616")]), Framing::BadLength.into()),
        (with(&[("content-length", "1"), ("content-length", "2")]), Framing::TwoLengths.into()),
        (with(&[("content-length", "1"), ("content-length", "1")]), Framing::TwoLengths.into()),
        (with(&[("expect", "tea")]), HttpError::Expectation("tea".into())),
        (
            with(&[("content-length", "99999999999")]),
            HttpError::TooMuch { limit: Limit::Body, max: limits().body, got: 99_999_999_999 },
        ),
        (instead(&[(":path", &target)]), HttpError::TooMuch { limit: Limit::Target, max: 8000, got: 8001 }),
    ] {
        assert_eq!(request(&fields).err(), Some(error), "{fields:?}");
    }
}

#[test]
fn every_byte_that_ends_a_line_or_a_value_is_refused_wherever_it_is() {
    for byte in (0..0x20).chain([0x7f]).filter(|&byte| byte != b'\t') {
        let bad = format!("a{}b", byte as char);
        for fields in [
            with(&[("x", &bad)]),
            with(&[(&bad, "x")]),
            with(&[("cookie", &bad)]),
            with(&[("host", &bad)]),
            instead(&[(":method", &bad)]),
            instead(&[(":scheme", &bad)]),
            instead(&[(":authority", &bad)]),
            instead(&[(":path", &format!("/{bad}"))]),
        ] {
            assert!(request(&fields).is_err(), "{fields:?}");
        }
    }
}

#[test]
fn too_many_fields_are_the_error_of_a_stream_and_the_table_is_in_step() {
    let mut decoder = Decoder::default();
    let mut reader = RequestReader::default();
    let many: Vec<_> = with(&[("x", "y"); 97]);
    let read = reader.read(&mut decoder, &block(&many), &limits(), false).unwrap();
    assert_eq!(read.err(), Some(HttpError::TooMuch { limit: Limit::Headers, max: 100, got: 101 }));
    let value = "x".repeat(8000);
    let large = with(&[("x", &value), ("y", &value), ("z", &value)]);
    let read = reader.read(&mut decoder, &block(&large), &limits(), false).unwrap();
    assert!(matches!(read, Err(HttpError::TooMuch { limit: Limit::Head, max: 16384, .. })), "{read:?}");
    // Behind a bad field, one goes into the table.
    let mut bad = block(&with(&[("A", "b")]));
    bad.extend_from_slice(b"\x40\x01a\x01b");
    assert!(reader.read(&mut decoder, &bad, &limits(), false).unwrap().is_err());
    let mut good = block(&GET);
    good.push(0xbe);
    let request = reader.read(&mut decoder, &good, &limits(), false).unwrap().unwrap();
    assert_eq!(request.head.headers["a"], "b");
    assert_eq!(reader.read(&mut decoder, &[0xbf], &limits(), false).err(), Some(HpackError::Index));
}

#[test]
fn hosts_that_are_the_same_may_be_written_differently() {
    for (authority, host) in
        [("a", "a"), ("Example.org", "example.ORG"), ("a:443", "a"), ("a", "a:443"), ("a:", "a")]
    {
        let Request { head, .. } = request(&instead(&[(":authority", authority), ("host", host)])).unwrap();
        let hosts: Vec<_> = head.headers.get_all("host").iter().collect();
        assert_eq!(hosts, [authority]);
    }
    let Request { head, .. } = request(&instead(&[(":authority", "-"), ("host", "only.example")])).unwrap();
    assert_eq!(head.headers["host"], "only.example");
}

#[test]
fn crumbs_of_cookies_are_one_cookie() {
    let head =
        request(&with(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")])).unwrap().head;
    let cookies: Vec<_> = head.headers.get_all("cookie").iter().collect();
    assert_eq!(cookies, ["a=1; b=2; c=3"]);
    let mut secret = block(&with(&[("cookie", "a=1")]));
    secret.extend_from_slice(b"\x1f\x11\x03b=2"); // cookie: b=2, for no table
    let mut reader = RequestReader::default();
    let head = reader.read(&mut Decoder::default(), &secret, &limits(), false).unwrap().unwrap().head;
    assert_eq!(head.headers["cookie"], "a=1; b=2");
    assert!(head.headers["cookie"].is_sensitive());
}

#[test]
fn a_star_is_for_options_alone() {
    let head = request(&instead(&[(":method", "OPTIONS"), (":path", "*")])).unwrap().head;
    assert_eq!((head.method.clone(), head.uri.to_string()), (Method::OPTIONS, "*".to_owned()));
}

#[test]
fn a_connect_names_host_and_port_and_nothing_else() {
    let Request { head, facts } =
        request(&[(":method", "CONNECT"), (":authority", "a.example:443")]).unwrap();
    assert_eq!(
        (head.uri.to_string().as_str(), &head.headers["host"]),
        ("a.example:443", &HeaderValue::from_static("a.example:443"))
    );
    assert_eq!((facts.connect, facts.extended), (true, false));
    for (fields, error) in [
        (&[(":method", "CONNECT")][..], HttpError::Grammar(Grammar::PseudoMissing)),
        (&[(":method", "CONNECT"), (":authority", "a")], Grammar::Target.into()),
        (&[(":method", "CONNECT"), (":authority", "a:0")], Grammar::Target.into()),
        (
            &[(":method", "CONNECT"), (":authority", "a:1"), (":scheme", "http")],
            Grammar::PseudoUnexpected.into(),
        ),
        (&[(":method", "CONNECT"), (":authority", "a:1"), (":path", "/")], Grammar::PseudoUnexpected.into()),
        (&[(":method", "CONNECT"), (":authority", "a:1"), ("host", "b:1")], Grammar::HostsDiffer.into()),
        (&[(":method", "CONNECT"), (":authority", "a:1"), ("content-length", "3")], Framing::Body.into()),
    ] {
        assert_eq!(request(fields).err(), Some(error), "{fields:?}");
    }
}

#[test]
fn an_extended_connect_names_a_resource_and_a_protocol_if_we_allow_it() {
    let fields = instead(&[(":method", "CONNECT"), (":path", "/chat"), (":protocol", "websocket")]);
    let Request { head, facts } = request(&fields).unwrap();
    assert_eq!((head.method.clone(), head.uri.to_string()), (Method::CONNECT, "/chat".to_owned()));
    assert_eq!(head.extensions.get::<Protocol>(), Some(&Protocol::WEBSOCKET));
    assert_eq!((facts.connect, facts.extended), (true, true));
    let mut reader = RequestReader::default();
    let refused = reader.read(&mut Decoder::default(), &block(&fields), &limits(), false).unwrap();
    assert_eq!(refused.err(), Some(Grammar::PseudoUnexpected.into()));
    for (change, error) in [
        ((":protocol", "web socket"), Grammar::Protocol),
        ((":path", "-"), Grammar::PseudoMissing),
        ((":scheme", "-"), Grammar::PseudoMissing),
        ((":authority", "-"), Grammar::NoHost),
    ] {
        let fields = instead(&[(":method", "CONNECT"), (":protocol", "websocket"), change]);
        let fields: Vec<_> =
            if change.0 == ":protocol" { instead(&[(":method", "CONNECT"), change]) } else { fields };
        assert_eq!(request(&fields).err(), Some(error.into()), "{fields:?}");
    }
}

fn reply(fields: &[(&str, &str)]) -> Result<Reply, HttpError> {
    read_reply(&mut Decoder::default(), &block(fields), &limits()).unwrap()
}

#[test]
fn replies_and_what_comes_before_them() {
    let Reply { head, content_length } =
        reply(&[(":status", "404"), ("content-length", "7"), ("x", "y")]).unwrap();
    assert_eq!((head.status.as_u16(), head.version, head.headers.len()), (404, Version::HTTP_2, 2));
    assert_eq!(content_length, Some(7));
    assert!(reply(&[(":status", "103"), ("link", "</a>")]).unwrap().head.status.is_informational());
    use Grammar::*;
    for (fields, error) in [
        (&[][..], PseudoMissing),
        (&[("x", "y")], PseudoMissing),
        (&[(":status", "200"), (":status", "200")], PseudoTwice),
        (&[("x", "y"), (":status", "200")], PseudoLate),
        (&[(":status", "200"), (":path", "/")], PseudoUnexpected),
        (&[(":status", "101")], Unasked),
        (&[(":status", "20")], Status),
        (&[(":status", "2000")], Status),
        (&[(":status", "099")], Status),
        (&[(":status", "600")], Status),
        (&[(":status", "2x0")], Status),
        (&[(":status", "")], Status),
        (&[(":status", "200"), ("X", "y")], HeaderName),
        (&[(":status", "200"), ("x", "a\r\nb")], HeaderValue),
        (&[(":status", "200"), ("connection", "close")], ConnectionField),
        (&[(":status", "200"), ("transfer-encoding", "chunked")], ConnectionField),
    ] {
        assert_eq!(reply(fields).err(), Some(error.into()), "{fields:?}");
    }
    let two = [(":status", "200"), ("content-length", "7"), ("content-length", "8")];
    assert_eq!(reply(&two).err(), Some(Framing::TwoLengths.into()));
}

#[test]
fn trailers_are_fields_that_nobody_needs_before() {
    let read = |fields: &[(&str, &str)]| {
        let limits = HttpLimits { trailers: 100, headers: 3, ..limits() };
        read_trailers(&mut Decoder::default(), &block(fields), &limits).unwrap()
    };
    assert_eq!(read(&[("grpc-status", "0"), ("x", "y")]).unwrap().len(), 2);
    assert!(read(&[]).unwrap().is_empty());
    use Grammar::*;
    for (fields, error) in [
        (&[(":status", "200")][..], HttpError::Grammar(PseudoUnexpected)),
        (&[("x", "y"), (":path", "/")], PseudoUnexpected.into()),
        (&[("X", "y")], HeaderName.into()),
        (&[("x", "y\0")], HeaderValue.into()),
        (&[("content-length", "3")], Trailer.into()),
        (&[("host", "a")], Trailer.into()),
        (&[("transfer-encoding", "chunked")], ConnectionField.into()),
        (&[("x", "y"); 4], HttpError::TooMuch { limit: Limit::Trailers, max: 100, got: 136 }),
    ] {
        assert_eq!(read(fields).err(), Some(error), "{fields:?}");
    }
    let few = HttpLimits { headers: 3, ..limits() };
    let many = read_trailers(&mut Decoder::default(), &block(&[("x", "y"); 4]), &few).unwrap();
    assert_eq!(many.err(), Some(HttpError::TooMuch { limit: Limit::Headers, max: 3, got: 4 }));
}

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
}

#[test]
fn a_reply_is_read_as_it_was_written_but_for_what_is_of_the_connection() {
    let mut head = ReplyHead::from(StatusCode::NOT_FOUND);
    head.headers = headers(&[
        ("content-type", "text/plain"),
        ("content-length", "5"),
        ("connection", "close, x"),
        ("keep-alive", "timeout=5"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "x"),
        ("proxy-connection", "x"),
        ("te", "gzip"),
        ("x-blank", " a "),
        ("x", "1"),
    ]);
    head.headers.append("x", "2".parse().unwrap());
    let (mut encoder, mut out) = (Encoder::default(), BytesMut::new());
    let said = write::reply(&mut encoder, &mut out, &head, Length::AsSaid, false).unwrap();
    assert_eq!((said.length, said.close), (Some(5), true));
    let read = read_reply(&mut Decoder::default(), &out, &limits()).unwrap().unwrap();
    let mut expected = headers(&[("content-type", "text/plain"), ("x-blank", "a"), ("x", "1")]);
    expected.append("x", "2".parse().unwrap());
    expected.append("content-length", "5".parse().unwrap());
    assert_eq!((read.head.status, &read.head.headers), (StatusCode::NOT_FOUND, &expected));
}

#[test]
fn lengths_are_written_as_the_body_is_and_contradictions_before_anything_is() {
    let written = |fields: &[(&'static str, &'static str)], length| {
        let mut head = ReplyHead::new();
        head.headers = headers(fields);
        let mut out = BytesMut::new();
        let result = write::reply(&mut Encoder::default(), &mut out, &head, length, false);
        if result.is_err() {
            assert!(out.is_empty());
        }
        result.map(|_| {
            let read = read_reply(&mut Decoder::default(), &out, &limits()).unwrap().unwrap();
            read.content_length
        })
    };
    let said = [("content-length", "12")];
    for (fields, length, expected) in [
        (&said[..], Length::AsSaid, Ok(Some(12))),
        (&said, Length::Nothing, Ok(None)),
        (&said, Length::OrElse(7), Ok(Some(12))),
        (&said, Length::Is(12), Ok(Some(12))),
        (&said, Length::Is(13), Err(HttpError::Misuse(Misuse::BodyTooLong { announced: 12, written: 13 }))),
        (&said, Length::Is(11), Err(Misuse::BodyTooShort { announced: 12, written: 11 }.into())),
        (&[], Length::AsSaid, Ok(None)),
        (&[], Length::OrElse(7), Ok(Some(7))),
        (&[], Length::Is(0), Ok(Some(0))),
        (&[], Length::Is(u64::MAX), Ok(Some(u64::MAX))),
        (&[("content-length", "x")], Length::AsSaid, Err(Misuse::Length.into())),
    ] {
        assert_eq!(written(fields, length), expected, "{fields:?} {length:?}");
    }
    let switch = ReplyHead::from(StatusCode::SWITCHING_PROTOCOLS);
    let failed = write::reply(&mut Encoder::default(), &mut BytesMut::new(), &switch, Length::Nothing, false);
    assert_eq!(failed, Err(Misuse::Upgrade.into()));
}

#[test]
fn a_date_is_added_where_there_is_none() {
    crate::codec::date::refresh();
    let mut head = ReplyHead::new();
    for own in [None, Some("Sun, 06 Nov 1994 08:49:37 GMT")] {
        own.map(|own| head.headers.insert("date", own.parse().unwrap()));
        let mut out = BytesMut::new();
        write::reply(&mut Encoder::default(), &mut out, &head, Length::AsSaid, true).unwrap();
        let read = read_reply(&mut Decoder::default(), &out, &limits()).unwrap().unwrap();
        let dates: Vec<_> = read.head.headers.get_all("date").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(dates.len(), 1);
        assert!(dates[0].ends_with(b" GMT") && dates[0].len() == 29);
        assert_eq!(own.is_some_and(|own| own.as_bytes() == dates[0]), own.is_some());
    }
}

fn write_request(head: &RequestHead) -> Result<Result<Request, HttpError>, HttpError> {
    let mut out = BytesMut::new();
    let written = write::request(&mut Encoder::default(), &mut out, head, Length::AsSaid, true);
    if let Err(error) = written {
        assert!(out.is_empty());
        return Err(error);
    }
    Ok(RequestReader::default().read(&mut Decoder::default(), &out, &limits(), true).unwrap())
}

#[test]
fn a_request_is_read_as_it_was_written() {
    for (method, uri, host, path, authority, https) in [
        ("GET", "http://user:word@a.example/x?y", None, "/x?y", "a.example", false),
        ("GET", "/x", Some("b.example:81"), "/x", "b.example:81", true),
        ("GET", "https://a.example", Some("b.example"), "/", "b.example", true),
        ("GET", "https://a.example?q", None, "/?q", "a.example", true),
        ("OPTIONS", "*", Some("a"), "*", "a", true),
        ("CONNECT", "a.example:443", Some("other"), "a.example:443", "a.example:443", false),
    ] {
        let mut head = RequestHead::new();
        (head.method, head.uri) = (method.parse().unwrap(), uri.parse().unwrap());
        head.headers = headers(&[("accept", "*/*"), ("connection", "close"), ("te", "trailers")]);
        host.map(|host| head.headers.insert("host", host.parse().unwrap()));
        let Request { head, facts } = write_request(&head).unwrap().unwrap();
        assert_eq!((head.method.as_str(), head.uri.to_string().as_str()), (method, path));
        assert_eq!(
            (&head.headers["host"], facts.https),
            (&HeaderValue::from_static(authority), https),
            "{uri}"
        );
        assert_eq!(head.headers.len(), 3, "{:?}", head.headers);
    }
    let mut head = RequestHead::new();
    (head.method, head.uri) = (Method::CONNECT, "https://a.example/chat".parse().unwrap());
    head.extensions.insert(Protocol::WEBSOCKET);
    let Request { head, facts } = write_request(&head).unwrap().unwrap();
    assert_eq!((head.uri.path(), facts.extended), ("/chat", true));
    for (method, uri) in [("GET", "/no/host"), ("GET", "*"), ("CONNECT", "/"), ("CONNECT", "http://a/")] {
        let mut head = RequestHead::new();
        (head.method, head.uri) = (method.parse().unwrap(), uri.parse().unwrap());
        assert_eq!(write_request(&head).err(), Some(Misuse::Target.into()), "{method} {uri}");
    }
}

#[test]
fn trailers_are_read_as_they_were_written() {
    let mut out = BytesMut::new();
    let given = headers(&[("grpc-status", "0"), ("x", "y")]);
    write::trailers(&mut Encoder::default(), &mut out, &given).unwrap();
    assert_eq!(*read_trailers(&mut Decoder::default(), &out, &limits()).unwrap().unwrap(), given);
    let bad = headers(&[("content-length", "0")]);
    let failed = write::trailers(&mut Encoder::default(), &mut out, &bad);
    assert_eq!(failed, Err(Misuse::Trailer.into()));
}

/// A connection on which the same request comes again and again.
struct Client {
    encoder: Encoder,
    decoder: Decoder,
    reader: RequestReader,
    block: BytesMut,
}

impl Client {
    fn new() -> Self {
        let (encoder, decoder) = (Encoder::default(), Decoder::default());
        Self { encoder, decoder, reader: RequestReader::default(), block: BytesMut::new() }
    }

    fn ask(&mut self, head: &RequestHead) -> Request {
        self.block.clear();
        write::request(&mut self.encoder, &mut self.block, head, Length::AsSaid, true).unwrap();
        self.reader.read(&mut self.decoder, &self.block, &limits(), false).unwrap().unwrap()
    }
}

fn usual(path: &str) -> RequestHead {
    let mut head = RequestHead::new();
    head.uri = path.parse().unwrap();
    head.headers = headers(&[
        ("host", "a.example"),
        ("accept", "*/*"),
        ("user-agent", "test"),
        ("accept-encoding", "br"),
    ]);
    head
}

#[test]
fn a_request_that_comes_again_is_the_same_and_costs_no_allocation() {
    let mut client = Client::new();
    let head = usual("/plaintext");
    for times in 0..100 {
        let (allocations, request) = allocations_during(|| client.ask(&head));
        assert_eq!(request.head.uri, "/plaintext");
        let mut expected = head.headers.clone();
        expected.insert("host", "a.example".parse().unwrap());
        assert_eq!(request.head.headers, expected);
        assert_eq!(request.facts, RequestFacts { https: true, ..RequestFacts::default() });
        if times > 10 {
            assert_eq!(allocations, 0, "request {times}");
        }
        let allocations = allocations_during(|| request.head.recycle()).0;
        assert!(times <= 10 || allocations == 0, "request {times}");
    }
}

#[test]
fn requests_that_differ_or_are_many_at_a_time_cost_no_allocation_either() {
    let mut client = Client::new();
    let heads: Vec<_> = (0..32).map(|number| usual(&format!("/number/{}", number % 8))).collect();
    let mut open = Vec::with_capacity(32);
    for round in 0..50 {
        let (allocations, ()) = allocations_during(|| {
            open.extend(heads.iter().map(|head| client.ask(head)));
            for (head, request) in heads.iter().zip(open.drain(..)) {
                assert_eq!((&request.head.uri, request.head.headers.len()), (&head.uri, 4));
                request.head.recycle();
            }
        });
        if round > 10 {
            assert_eq!(allocations, 0, "round {round}");
        }
    }
}

#[test]
fn a_head_that_somebody_changed_or_another_table_is_not_lent_again() {
    let mut client = Client::new();
    let head = usual("/a");
    (0..5).for_each(|_| client.ask(&head).head.recycle());
    let mut changed = client.ask(&head).head;
    changed.headers.insert("accept", "changed".parse().unwrap());
    changed.recycle();
    (0..5).for_each(|_| {
        let request = client.ask(&head);
        assert_eq!(
            (&request.head.headers["accept"], request.head.headers.len()),
            (&HeaderValue::from_static("*/*"), 4)
        );
        request.head.recycle();
    });
    // The same bytes, with another table: an index means something else.
    let before = client.block.clone();
    client.ask(&usual("/b")).head.recycle();
    client.ask(&usual("/b")).head.recycle();
    let request = client.reader.read(&mut client.decoder, &before, &limits(), false).unwrap();
    assert_ne!(request.map(|request| request.head.uri.to_string()).ok().as_deref(), Some("/a"));
    // Another connection on this loop, with the same bytes and another table.
    let mut other = Client::new();
    for path in ["/c", "/c", "/c", "/d"] {
        let request = other.ask(&usual(path));
        assert_eq!(request.head.uri, path);
        request.head.recycle();
    }
}

#[test]
fn replies_that_come_again_in_any_order_are_read_as_they_were_written() {
    use netwright_testkit::verify::Numbers;
    for seed in 0..20 {
        let mut numbers = Numbers::new(seed);
        let (mut encoder, mut decoder, mut out) = (Encoder::default(), Decoder::default(), BytesMut::new());
        for _ in 0..300 {
            let mut head = ReplyHead::from([StatusCode::OK, StatusCode::NOT_FOUND][numbers.below(8) / 7]);
            for _ in 0..numbers.below(4) {
                let value = ["1", "2", ""][numbers.below(12) / 5];
                let name = ["x", "etag", "content-type", "set-cookie"][numbers.below(4)];
                head.headers.append(name, HeaderValue::from_static(value));
            }
            if numbers.below(40) == 0 {
                encoder.set_max([0, 60, 200, 4096][numbers.below(4)]);
            }
            out.clear();
            let length = [Length::Nothing, Length::Is(5)][numbers.below(2)];
            write::reply(&mut encoder, &mut out, &head, length, false).unwrap();
            let read = read_reply(&mut decoder, &out, &limits()).unwrap().unwrap();
            if length == Length::Is(5) {
                head.headers.insert("content-length", HeaderValue::from_static("5"));
            }
            assert_eq!((read.head.status, &read.head.headers), (head.status, &head.headers), "seed {seed}");
        }
    }
}

#[test]
fn a_reply_that_is_written_again_costs_no_allocation() {
    let mut encoder = Encoder::default();
    let mut out = BytesMut::with_capacity(4096);
    let mut head = ReplyHead::new();
    head.headers = headers(&[("content-type", "text/plain"), ("server", "netwright")]);
    crate::codec::date::refresh();
    for times in 0..20 {
        out.clear();
        let (allocations, written) =
            allocations_during(|| write::reply(&mut encoder, &mut out, &head, Length::Is(13), true));
        written.unwrap();
        if times > 3 {
            assert_eq!((allocations, out.len()), (0, 5), "reply {times}");
        }
    }
}

/// `GET`, a target in full that is put into no table, and the newest field of the table.
fn targeted(path: &[u8]) -> Vec<u8> {
    let len = u8::try_from(path.len()).unwrap();
    [&[0x82, 0x87, 0x04, len], path, &[0xbe]].concat()
}

#[test]
fn requests_that_differ_in_their_target_alone_are_made_of_each_other() {
    let (mut decoder, mut reader) = (Decoder::default(), RequestReader::default());
    let mut read =
        |block: &[u8], limits: &HttpLimits| reader.read(&mut decoder, block, limits, false).unwrap();
    read(b"\x82\x87\x84\x41\x01a", &limits()).unwrap();
    let mut open = Vec::with_capacity(8);
    for round in 0..40 {
        for target in [
            "/",
            "/a",
            "/b?c=d",
            "/a/very/long/target/that/is/no/part/of/what/is/known?of=the&block=so+there",
        ] {
            let block = targeted(target.as_bytes());
            let (allocations, request) = allocations_during(|| read(&block, &limits()).unwrap());
            assert_eq!((request.head.uri.to_string().as_str(), &request.head.method), (target, &Method::GET));
            assert_eq!(request.head.headers, headers(&[("host", "a")]));
            assert_eq!(request.facts, RequestFacts { https: true, ..RequestFacts::default() });
            // Now and then a chunk for targets, while heads hold the last one.
            assert!(round < 4 || allocations <= 2, "{allocations}");
            open.push(request.head);
        }
        open.drain(..).for_each(RequestHead::recycle);
    }
    for (path, error) in [
        (&b""[..], Grammar::Target),
        (b"a", Grammar::Target),
        (b"*", Grammar::Target),
        (b"/a#b", Grammar::Target),
        (b"/a b", Grammar::Target),
        (b"/a\r\n", Grammar::Target),
        (b"/\xe4", Grammar::Target),
    ] {
        assert_eq!(read(&targeted(path), &limits()).err(), Some(error.into()), "{}", path.escape_ascii());
    }
    let short = HttpLimits { target: 9, ..limits() };
    let error = HttpError::TooMuch { limit: Limit::Target, max: 9, got: 10 };
    assert_eq!(read(&targeted(b"/123456789"), &short).err(), Some(error));
    // :method GET, :scheme https, host a, and the path: 32 bytes each, and 42 without the path's text.
    for (max, good) in [(4 * 32 + 10 + 12 + 11 + 5 + 10, true), (4 * 32 + 10 + 12 + 11 + 5 + 9, false)] {
        let small = HttpLimits { head: max, ..limits() };
        assert_eq!(read(&targeted(b"/123456789"), &small).is_ok(), good, "{max}");
    }
    // The same bytes with another table are another request.
    read(b"\x82\x87\x84\x41\x01b", &limits()).unwrap();
    assert_eq!(read(&targeted(b"/a"), &limits()).unwrap().head.headers["host"], "b");
}
