use super::*;
use crate::{
    HttpPart, HttpServer, ReplyPart, RequestPart,
    web::testing::{Directory, HttpEmbedded, reply_head, request, shown},
};
use bytes::{Bytes, BytesMut};
use netwright_codec::Decompressor;
use netwright_core::{AppContext, Application, EmbeddedChannel, Fault, FileRegion, pipeline};

const TEXT: (&str, &str) = ("content-type", "text/plain");

fn accepting(coding: &str) -> RequestPart {
    request("GET", "/", &[("accept-encoding", coding)])
}

fn channel() -> HttpEmbedded {
    let compression = ReplyCompression::new().threshold(100);
    HttpEmbedded::new(|_| compression.stage())
}

fn unpack(coding: Coding, data: &[u8]) -> String {
    let (mut out, mut decompressor) = (BytesMut::new(), Decompressor::new(format(coding).unwrap()));
    decompressor.decompress(data, &mut out, usize::MAX).unwrap();
    String::from_utf8(out.to_vec()).unwrap()
}

fn headers(part: &ReplyPart) -> &HeaderMap {
    match part {
        HttpPart::Head(head) | HttpPart::Whole(head, _) => &head.headers,
        _ => panic!("no head"),
    }
}

#[test]
fn a_whole_reply_is_compressed_by_what_the_request_prefers() {
    let text = "hello, hello, ".repeat(100);
    for (accept, coding) in [
        ("gzip", Coding::Gzip),
        ("br", Coding::Brotli),
        ("zstd", Coding::Zstd),
        ("gzip;q=0.5, br;q=0.8, zstd;q=0.1", Coding::Brotli),
        ("*", Coding::Zstd),
        ("gzip;q=0, identity", Coding::Identity),
        ("", Coding::Identity),
        ("*;q=0", Coding::Identity),
    ] {
        let mut channel = channel();
        channel.ask(accepting(accept));
        channel.reply(HttpPart::Whole(
            reply_head(
                200,
                &[TEXT, ("etag", "\"a\""), ("content-length", "1400"), ("accept-ranges", "bytes")],
            ),
            text.clone().into(),
        ));
        let replies = channel.replies();
        let [HttpPart::Whole(head, body)] = replies.as_slice() else { panic!("{replies:?}") };
        assert_eq!(head.headers["vary"], "accept-encoding", "{accept}");
        if coding == Coding::Identity {
            assert_eq!((&**body, &head.headers["etag"]), (text.as_bytes(), &"\"a\"".parse().unwrap()));
            assert!(!head.headers.contains_key("content-encoding"));
        } else {
            assert_eq!(head.headers["content-encoding"], coding.name());
            assert_eq!(head.headers["etag"], "W/\"a\"");
            assert!(
                !head.headers.contains_key("content-length") && !head.headers.contains_key("accept-ranges")
            );
            assert!(body.len() < 200);
            assert_eq!(unpack(coding, body), text);
        }
    }
}

#[test]
fn what_has_to_be_left_alone_is() {
    let body = Bytes::from("x".repeat(1000));
    let leave = |method: &str, status: u16, list: &[(&str, &str)], body: &Bytes| {
        let mut channel = channel();
        channel.ask(request(method, "/", &[("accept-encoding", "gzip")]));
        channel.reply(HttpPart::Whole(reply_head(status, list), body.clone()));
        let replies = channel.replies();
        assert!(
            !headers(&replies[0]).contains_key("content-encoding")
                || list.iter().any(|(name, _)| *name == "content-encoding"),
            "{method} {status} {list:?}"
        );
        assert!(
            matches!(&replies[0], HttpPart::Whole(_, same) if same == body),
            "{method} {status} {list:?}"
        );
    };
    leave("HEAD", 200, &[TEXT], &body);
    leave("CONNECT", 200, &[TEXT], &body);
    for status in [101, 204, 206, 304] {
        leave("GET", status, &[TEXT], &body);
    }
    leave("GET", 200, &[TEXT, ("content-encoding", "br")], &body);
    leave("GET", 200, &[TEXT, ("content-range", "bytes 0-1/2")], &body);
    leave("GET", 200, &[TEXT, ("cache-control", "public, No-Transform")], &body);
    leave("GET", 200, &[("content-type", "image/png")], &body);
    leave("GET", 200, &[], &body);
    leave("GET", 200, &[TEXT], &body.slice(..99));
    // What does not get smaller is sent as it is.
    let noise: Bytes = (0..200u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    leave("GET", 200, &[TEXT], &noise);
}

#[test]
fn interim_replies_pass_and_keep_the_turn() {
    let mut channel = channel();
    channel.ask(accepting("gzip"));
    channel.reply(HttpPart::Interim(reply_head(103, &[TEXT])));
    channel.reply(HttpPart::Whole(reply_head(200, &[TEXT]), "x".repeat(1000).into()));
    let replies = channel.replies();
    assert_eq!(shown(&replies[0]), "Interim 103");
    assert_eq!(headers(&replies[1])["content-encoding"], "gzip");
}

#[test]
fn each_flush_of_a_stream_can_be_read_at_once() {
    for coding in Coding::ALL {
        let mut channel = channel();
        channel.ask(accepting(coding.name()));
        channel.reply(HttpPart::Head(reply_head(200, &[("content-type", "text/event-stream")])));
        let head = channel.replies();
        assert_eq!(headers(&head[0])["content-encoding"], coding.name(), "a flush lets the head go");
        let (mut decompressor, mut out) = (Decompressor::new(format(coding).unwrap()), BytesMut::new());
        let mut text = String::new();
        for event in 0..20 {
            let event = format!("data: {event}\n\n");
            text.push_str(&event);
            channel.reply(HttpPart::Data(event.into()));
            for part in channel.replies() {
                let HttpPart::Data(data) = part else { panic!("{part:?}") };
                decompressor.decompress(&data, &mut out, usize::MAX).unwrap();
            }
            assert_eq!(out, text.as_bytes(), "{coding:?}");
        }
        channel.reply(HttpPart::End(None));
        let last = channel.replies();
        if let [HttpPart::Data(data), HttpPart::End(_)] = last.as_slice() {
            decompressor.decompress(data, &mut out, usize::MAX).unwrap();
        }
        decompressor.finish().unwrap();
        assert_eq!(out, text.as_bytes());
    }
}

#[test]
fn files_and_empty_bodies_stay_what_they_are() {
    let directory = Directory::new();
    directory.write("file", "x".repeat(1000));
    let region = || FileRegion::whole(std::fs::File::open(directory.path().join("file")).unwrap()).unwrap();
    let mut channel = channel();
    for _ in 0..3 {
        channel.ask(accepting("gzip"));
    }
    let stream = channel.channel.channel().clone();
    stream.write(HttpPart::Head(reply_head(200, &[TEXT, ("content-length", "1000")])));
    stream.write(HttpPart::File(region()));
    stream.write_and_flush(HttpPart::End(None));
    let replies = channel.replies();
    assert_eq!(replies.iter().map(shown).collect::<Vec<_>>(), ["Head 200", "File 0+1000", "End"]);
    assert_eq!(headers(&replies[0])["content-length"], "1000");
    stream.write(HttpPart::Head(reply_head(200, &[TEXT])));
    stream.write_and_flush(HttpPart::End(None));
    let replies = channel.replies();
    assert!(!headers(&replies[0]).contains_key("content-encoding"));
    // Too late for a file: the reply cannot be kept, so the connection is not.
    channel.reply(HttpPart::Head(reply_head(200, &[TEXT])));
    channel.reply(HttpPart::File(region()));
    assert!(!channel.channel.is_open());
    let cause = channel.channel.channel().close_cause().unwrap().to_string();
    assert!(cause.contains("1000 bytes of a file"), "{cause}");
}

#[test]
fn a_reply_that_cannot_be_completed_does_not_look_complete_whatever_is_made_of_errors() {
    struct Careless;
    impl Application for Careless {
        type Read = RequestPart;
        type Write = ReplyPart;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, _: RequestPart) {
            let directory = Directory::new();
            directory.write("file", "x".repeat(1000));
            let file = std::fs::File::open(directory.path().join("file")).unwrap();
            cx.write(HttpPart::Head(reply_head(200, &[TEXT])));
            cx.write(HttpPart::Data("some".into()));
            cx.write(HttpPart::File(FileRegion::new(file, 0, 1000)));
            cx.write(HttpPart::End(None));
            cx.flush();
        }
        fn error(&mut self, _: &mut AppContext<'_, Self>, _: Fault) {}
    }
    let compression = ReplyCompression::new();
    let stages = pipeline().add(HttpServer::new()).add(compression.stage()).app(Careless);
    let mut channel = EmbeddedChannel::new(stages);
    channel.write_inbound("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let text = channel.outbound_bytes();
    assert!(!text.ends_with(b"0\r\n\r\n"), "{}", text.escape_ascii());
    assert!(!channel.is_open());
}

#[test]
fn settings_that_cannot_be_are_refused() {
    assert!(ReplyCompression::new().codings(&[Coding::Identity]).is_err());
    assert!(
        ReplyCompression::new().level(Coding::Gzip, 10).unwrap_err().to_string().contains("between 0 and 9")
    );
    let none = ReplyCompression::new().all_types().threshold(0).codings(&[Coding::Gzip]).unwrap();
    let mut channel = HttpEmbedded::new(|_| none.stage());
    channel.ask(accepting("br, gzip;q=0.1"));
    channel.reply(HttpPart::Whole(reply_head(200, &[("content-type", "image/png")]), "x".repeat(50).into()));
    assert_eq!(headers(&channel.replies()[0])["content-encoding"], "gzip");
}
