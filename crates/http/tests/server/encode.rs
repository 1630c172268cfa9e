//! What replies look like, and which cannot be written.

use super::*;
use netwright_core::CloseCause;
use netwright_http::{HttpError, error::Misuse};

fn replied(request: &str, parts: impl IntoIterator<Item = ReplyPart>) -> (String, Embedded) {
    let mut channel = server();
    channel.write_inbound(request);
    parts.into_iter().for_each(|part| _ = channel.write_outbound(part));
    (sent(&mut channel), channel)
}

#[test]
fn a_length_is_added_and_a_stream_without_one_is_chunked() {
    assert_eq!(replied(GET, [hello()]).0, HELLO);
    let stream = || {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x", "y".parse().unwrap());
        [
            HttpPart::Head(reply(200)),
            HttpPart::Data("hello".into()),
            HttpPart::Data(Bytes::new()),
            HttpPart::Data(", world".repeat(3).into()),
            HttpPart::End(Some(Box::new(trailers))),
        ]
    };
    let chunked =
        "HTTP/1.1 200 OK|date: D|transfer-encoding: chunked||5|hello|15|, world, world, world|0|x: y||";
    let (text, channel) = replied(GET, stream());
    assert_eq!(text, chunked);
    assert!(channel.is_open());
    let (text, channel) = replied("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", stream());
    assert_eq!(text, "HTTP/1.1 200 OK|date: D|connection: close||hello, world, world, world");
    assert!(!channel.is_open(), "its end is the end of the connection");
}

#[test]
fn replies_to_head_and_those_without_a_body_have_none() {
    let head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(replied(head, [hello()]).0, "HTTP/1.1 200 OK|date: D|content-length: 5||");
    let stream = [
        HttpPart::Head(reply_with(200, &[("content-length", "9")])),
        HttpPart::Data("123".into()),
        HttpPart::End(None),
    ];
    let (text, channel) = replied(head, stream);
    assert_eq!(text, "HTTP/1.1 200 OK|date: D|content-length: 9||");
    assert!(channel.is_open());
    assert_eq!(
        replied(GET, [HttpPart::Whole(reply(204), Bytes::new())]).0,
        "HTTP/1.1 204 No Content|date: D||"
    );
    let not_modified = reply_with(304, &[("content-length", "5"), ("etag", "\"x\"")]);
    assert_eq!(
        replied(GET, [HttpPart::Whole(not_modified, Bytes::new())]).0,
        "HTTP/1.1 304 Not Modified|date: D|etag: \"x\"|content-length: 5||"
    );
    let interim = [HttpPart::Interim(reply_with(103, &[("link", "</x>")])), hello()];
    assert_eq!(replied(GET, interim).0, format!("HTTP/1.1 103 Early Hints|date: D|link: </x>||{HELLO}"));
}

#[test]
fn what_does_not_fit_its_announcement_is_an_error_and_ends_the_connection() {
    let five = || reply_with(200, &[("content-length", "5")]);
    let cases: [(Vec<ReplyPart>, Misuse); 8] = [
        (vec![HttpPart::Whole(five(), "1234".into())], Misuse::BodyTooShort { announced: 5, written: 4 }),
        (vec![HttpPart::Whole(five(), "123456".into())], Misuse::BodyTooLong { announced: 5, written: 6 }),
        (
            vec![HttpPart::Head(five()), HttpPart::Data("123456".into())],
            Misuse::BodyTooLong { announced: 5, written: 6 },
        ),
        (
            vec![HttpPart::Head(five()), HttpPart::Data("1234".into()), HttpPart::End(None)],
            Misuse::BodyTooShort { announced: 5, written: 4 },
        ),
        (vec![HttpPart::Whole(reply(204), "x".into())], Misuse::NoBodyAllowed(204)),
        (vec![HttpPart::Whole(reply(100), Bytes::new())], Misuse::Status(100)),
        (vec![HttpPart::Whole(reply_with(101, &[("upgrade", "x")]), Bytes::new())], Misuse::Upgrade),
        (vec![HttpPart::Data("x".into())], Misuse::BodyWithoutHead),
    ];
    for (parts, misuse) in cases {
        let streamed = matches!(parts[0], HttpPart::Head(_));
        let (text, mut channel) = replied(GET, parts);
        assert_eq!(text.contains("HTTP/1.1 500 "), !streamed, "{misuse:?}: {text}");
        channel.advance(HttpLimits::default().linger_time);
        assert!(!channel.is_open(), "{misuse:?}");
        if let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() {
            assert_eq!(fault.downcast_ref(), Some(&HttpError::from(misuse)));
        }
    }
}

#[test]
fn a_reply_without_a_request_is_not_written_and_harms_nobody() {
    let mut channel = server();
    let mut written = channel.channel().send(hello());
    channel.run();
    assert!(written.wait().unwrap_err().to_string().contains("no request waits"), "it says why");
    channel.write_inbound(GET).write_outbound(hello());
    assert_eq!(sent(&mut channel), HELLO);
}

#[test]
fn the_date_is_added_unless_there_is_one() {
    let (text, _) = replied(GET, [HttpPart::from(Response::new(Bytes::new()))]);
    let date = text.split("date: ").nth(1).unwrap().split('|').next().unwrap();
    assert!(httpdate::parse_http_date(date).is_ok(), "{date}");
}

#[test]
fn large_bodies_and_files_pass_as_they_are() {
    use netwright_core::FileRegion;
    let large = Bytes::from(vec![7; 100_000]);
    let mut channel = server();
    channel.write_inbound(GET.repeat(2));
    channel.write_outbound(HttpPart::Whole(reply(200), large.clone()));
    let head = channel.read_outbound().unwrap();
    let body = channel.read_outbound().unwrap();
    assert!(head.ends_with(b"\r\n\r\n") && body.as_ptr() == large.as_ptr());
    let path = std::env::temp_dir().join(format!("netwright-http-{}", std::process::id()));
    std::fs::write(&path, b"0123456789").unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    channel.write_outbound(HttpPart::Head(reply_with(206, &[("content-length", "4")])));
    channel.write_outbound(HttpPart::File(FileRegion::new(file, 3, 4)));
    channel.write_outbound(HttpPart::End(None));
    assert_eq!(sent(&mut channel), "HTTP/1.1 206 Partial Content|date: D|content-length: 4||3456");
    assert!(channel.is_open());
}

#[test]
fn tracked_replies_are_pieces_of_their_own() {
    let mut channel = server();
    channel.write_inbound(GET.repeat(2));
    let mut first = channel.channel().send(hello());
    let mut second = channel.channel().send(hello());
    channel.run();
    assert!(first.wait().is_ok() && second.wait().is_ok());
    assert_eq!(channel.read_outbound().map(|piece| piece.len()), Some(HELLO.len() + 4));
}

#[test]
fn what_the_codec_has_written_cannot_be_taken_back_and_what_it_has_not_is_missed() {
    let mut channel = server();
    channel.write_inbound(GET.repeat(2));
    let handle = channel.channel().clone();
    handle.write(HttpPart::Head(reply_with(200, &[("content-length", "8")])));
    let early = handle.write_tracked(HttpPart::Data("four".into()));
    channel.run();
    assert!(!early.cancel(), "the head says that it comes");
    handle.write(HttpPart::Data("more".into()));
    handle.write(HttpPart::End(None));
    let whole = handle.write_tracked(hello());
    channel.run();
    assert!(!whole.cancel(), "another reply would be taken for it");
    handle.flush();
    channel.run();
    assert_eq!(sent(&mut channel), format!("HTTP/1.1 200 OK|date: D|content-length: 8||fourmore{HELLO}"));

    channel.write_inbound(GET);
    handle.write(HttpPart::Head(reply_with(200, &[("content-length", "8")])));
    let late = handle.write_tracked(HttpPart::Data("four".into()));
    assert!(late.cancel(), "it is still on its way");
    handle.write(HttpPart::Data("more".into()));
    handle.write(HttpPart::End(None));
    channel.run();
    assert_eq!(sent(&mut channel), "HTTP/1.1 200 OK|date: D|content-length: 8||more");
    assert!(!channel.is_open(), "the body is too short");
}
