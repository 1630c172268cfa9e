//! All stages at once, from bytes to bytes.

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use netwright_codec::{Compressor, Decompressor, Flush, Format};
use netwright_core::{EmbeddedChannel, pipeline};
use netwright_http::{
    Body, HttpServer, Received, ReplyPart, respond, serve,
    web::{
        AccessLog, Cors, Files, Miss, Multipart, MultipartEvent, Params, Query, Reply, ReplyCompression,
        RequestDecompression, Router, SseEvent, SseKeepAlive, event_stream,
    },
};
use std::{
    convert::Infallible,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

type Channel = EmbeddedChannel<Infallible, ReplyPart>;

/// Head and body of the one reply that was sent.
fn reply(channel: &mut Channel) -> (String, Vec<u8>) {
    let bytes = channel.outbound_bytes();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    (String::from_utf8(bytes[..end].to_vec()).unwrap(), bytes[end..].to_vec())
}

pub(crate) fn packed(text: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    Compressor::new(Format::Gzip).compress(text, Flush::Finish, &mut out, usize::MAX).unwrap();
    out
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    Decompressor::new(Format::Gzip).decompress(bytes, &mut out, usize::MAX).unwrap();
    out.to_vec()
}

type Handler = fn(&Received, &Params<'_, '_>) -> Response<Bytes>;

fn api() -> (Channel, Arc<Mutex<Vec<String>>>) {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = {
        let lines = lines.clone();
        AccessLog::new(move |entry| {
            let line = entry.common().to_string();
            lines.lock().unwrap().push(line.split_once('"').unwrap().1.to_owned());
        })
    };
    let router: Rc<Router<Handler>> = Rc::new(
        Router::new()
            .get(
                "/add/{a}",
                (|request, params| {
                    let (Ok(a), Ok(query)) = (params.parse::<u32>("a"), Query::of(request.uri())) else {
                        return Reply::bad_request("no number");
                    };
                    match query.value::<u32>("b") {
                        Ok(b) => Reply::text(format!("{}", a + b.unwrap_or(0))),
                        Err(error) => Reply::bad_request(error),
                    }
                }) as Handler,
            )
            .unwrap()
            .post("/echo", |request, _| Reply::text(request.body().clone()))
            .unwrap(),
    );
    let channel = EmbeddedChannel::new(
        pipeline()
            .add(HttpServer::new())
            .add(log.stage())
            .add(Cors::origins(["https://app.example"]).unwrap().stage())
            .add(RequestDecompression::new())
            .add(ReplyCompression::new().threshold(100).stage())
            .app(respond(move |request: &Received| {
                match router.find(request.method(), request.uri().path()) {
                    Ok(found) => (found.handler)(request, &found.params),
                    Err(miss @ (Miss::Path | Miss::Method { .. } | Miss::Options { .. })) => miss.reply(),
                }
            })),
    );
    (channel, lines)
}

#[test]
fn a_router_behind_all_stages_answers() {
    let (mut channel, lines) = api();
    channel.write_inbound("GET /add/40?b=2 HTTP/1.1\r\nHost: a\r\n\r\n");
    let (head, body) = reply(&mut channel);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("vary: origin\r\n"), "{head}");
    assert_eq!(body, b"42");
    channel.write_inbound("HEAD /add/40?b=2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reply(&mut channel).1, b"");
    channel.write_inbound("PUT /add/40 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert!(reply(&mut channel).0.contains("allow: GET, HEAD, OPTIONS\r\n"));
    channel.write_inbound("GET /add/x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(reply(&mut channel).0.starts_with("HTTP/1.1 400 "));
    let lines = lines.lock().unwrap();
    let expected = [
        "GET /add/40?b=2 HTTP/1.1\" 200 2",
        "HEAD /add/40?b=2 HTTP/1.1\" 200 2",
        "PUT /add/40 HTTP/1.1\" 405 19",
        "GET /add/x HTTP/1.1\" 400 10",
    ];
    assert_eq!(*lines, expected);
}

#[test]
fn bodies_are_unpacked_and_packed_on_their_way() {
    let (mut channel, lines) = api();
    let text = b"to and fro, ".repeat(100);
    let body = packed(&text);
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nAccept-Encoding: gzip\r\nOrigin: https://app.example\r\n";
    for _ in 0..3 {
        channel.write_inbound(format!("{head}Content-Length: {}\r\n\r\n", body.len()));
        body.chunks(9).for_each(|piece| {
            channel.write_inbound(piece);
        });
        let (head, body) = reply(&mut channel);
        assert!(
            head.contains("content-encoding: gzip\r\n")
                && head.contains("access-control-allow-origin: https://app.example\r\n"),
            "{head}"
        );
        assert_eq!(unpacked(&body), text);
    }
    assert_eq!(lines.lock().unwrap().len(), 3);
}

#[test]
fn pipelined_requests_that_stages_answer_keep_their_order() {
    let (mut channel, lines) = api();
    channel.write_inbound(concat!(
        "GET /add/1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "OPTIONS /echo HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: what\r\nContent-Length: 3\r\n\r\nabc",
        "GET /add/2 HTTP/1.1\r\nHost: a\r\n\r\n",
    ));
    let bytes = channel.outbound_bytes();
    let text = String::from_utf8(bytes).unwrap();
    let statuses: Vec<_> = text.match_indices("HTTP/1.1 ").map(|(at, _)| &text[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "204", "415", "200"]);
    assert!(channel.is_open() && text.ends_with("\r\n\r\n2"));
    assert_eq!(lines.lock().unwrap().len(), 4, "the log sees what stages answer");
}

#[test]
fn a_bomb_is_413_and_ends_the_connection() {
    let (mut channel, lines) = api();
    let body = packed(&vec![0; 3_000_000]);
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\n";
    channel.write_inbound(format!("{head}Content-Length: {}\r\n\r\n", body.len()));
    body.chunks(1000).for_each(|piece| {
        channel.write_inbound(piece);
    });
    let (head, text) = reply(&mut channel);
    assert!(head.starts_with("HTTP/1.1 413 ") && head.contains("connection: close\r\n"), "{head}");
    assert!(!text.is_empty());
    channel.write_inbound("GET /add/1 HTTP/1.1\r\nHost: a\r\n\r\n").advance(Duration::from_secs(10));
    assert!(channel.outbound_bytes().is_empty() && !channel.is_open());
    assert!(lines.lock().unwrap()[0].contains(" 413 "));
}

#[test]
fn events_are_flushed_through_compression_and_kept_alive() {
    let secs = Duration::from_secs;
    let senders = Rc::new(std::cell::RefCell::new(Vec::new()));
    let kept = senders.clone();
    let mut channel: Channel = EmbeddedChannel::new(
        pipeline()
            .add(HttpServer::new())
            .add(ReplyCompression::new().stage())
            .add(SseKeepAlive::every(secs(15)))
            .app(serve(move |_| {
                let (sender, body) = Body::channel();
                kept.borrow_mut().push(sender);
                async move { Response::from_parts(event_stream(), body) }
            })),
    );
    channel.write_inbound("GET /events HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let (head, mut sent) = reply(&mut channel);
    assert!(
        head.contains("content-type: text/event-stream\r\n")
            && head.contains("transfer-encoding: chunked\r\n"),
        "{head}"
    );
    let mut sender = senders.borrow_mut().pop().unwrap();
    sender.try_send(SseEvent::data("one").to_bytes()).unwrap();
    channel.run();
    sent.extend(channel.outbound_bytes());
    channel.advance(secs(31));
    sent.extend(channel.outbound_bytes());
    // Chunks, each `size CRLF data CRLF`.
    let (mut rest, mut coded) = (&sent[..], Vec::new());
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        coded.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
    let text = String::from_utf8(unpacked(&coded)).unwrap();
    assert!(text.starts_with("data: one\n\n:\n\n"), "{text:?}");
}

#[test]
fn files_are_sent_by_stage_and_by_service() {
    let directory = std::env::temp_dir().join(format!("netwright-stack-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("a.txt"), "0123456789").unwrap();
    let files = Files::below(&directory).unwrap();
    let by_service = {
        let files = files.clone();
        serve(move |request: Request<Body>| {
            let files = files.clone();
            async move { files.respond(request.into_parts().0).await }
        })
    };
    let stage: Channel = EmbeddedChannel::new(
        pipeline()
            .add(HttpServer::new())
            .add(ReplyCompression::new().threshold(1).stage())
            .app(files.server()),
    );
    let service: Channel = EmbeddedChannel::new(
        pipeline().add(HttpServer::new()).add(ReplyCompression::new().threshold(1).stage()).app(by_service),
    );
    for mut channel in [stage, service] {
        let mut ask = |method: &str, path: &str, more: &str| {
            channel.write_inbound(format!(
                "{method} {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n{more}\r\n"
            ));
            let mut bytes = Vec::new();
            // Workers have to open the file; a reply is there when its body is.
            while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
                channel.run();
                bytes.extend(channel.outbound_bytes());
            }
            let text = String::from_utf8(bytes).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            (head.to_owned(), body.to_owned())
        };
        let (head, body) = ask("GET", "/a.txt", "");
        assert!(
            head.starts_with("HTTP/1.1 200 ")
                && head.contains("content-length: 10")
                && !head.contains("content-encoding"),
            "{head}"
        );
        assert_eq!(body, "0123456789");
        let (head, body) = ask("HEAD", "/a.txt", "");
        assert!(head.contains("content-length: 10") && body.is_empty(), "{head}");
        let (head, body) = ask("GET", "/a.txt", "Range: bytes=3-4\r\n");
        assert!(head.starts_with("HTTP/1.1 206 ") && head.contains("content-range: bytes 3-4/10"), "{head}");
        assert_eq!(body, "34");
        let (head, body) = ask("GET", "/a.txt", "Range: bytes=0-0,9-9\r\n");
        assert!(head.contains("multipart/byteranges"), "{head}");
        assert!(body.contains("bytes 0-0/10\r\n\r\n0\r\n") && body.ends_with("--\r\n"), "{body}");
        assert!(ask("GET", "/none", "").0.starts_with("HTTP/1.1 404 "));
        let (head, body) = ask("GET", "/a.txt", "If-None-Match: *\r\n");
        assert!(head.starts_with("HTTP/1.1 304 ") && body.is_empty(), "{head}");
        assert!(ask("HEAD", "/none", "").0.starts_with("HTTP/1.1 404 "));
        assert!(channel.is_open());
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

fn replies(bytes: &[u8]) -> usize {
    bytes.windows(12).filter(|window| *window == b"HTTP/1.1 200").count()
}

#[test]
fn a_peer_that_reads_slowly_has_one_file_open_and_keeps_its_connection() {
    let directory = std::env::temp_dir().join(format!("netwright-slow-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("a.txt"), "x".repeat(1000)).unwrap();
    let files = Files::below(&directory).unwrap();
    let answered = Arc::new(Mutex::new(0));
    let log = {
        let answered = answered.clone();
        AccessLog::new(move |_| *answered.lock().unwrap() += 1)
    };
    let mut channel: Channel =
        EmbeddedChannel::new(pipeline().add(HttpServer::new()).add(log.stage()).app(files.server()));
    channel.block_output(true);
    channel.write_inbound("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(50));
    let (mut bytes, mut seen) = (Vec::new(), 0);
    while seen < 50 {
        while *answered.lock().unwrap() == seen {
            channel.run();
        }
        seen = *answered.lock().unwrap();
        // Downloads may take longer than a connection may be idle, as long as they go on.
        for _ in 0..5 {
            channel.advance(Duration::from_secs(10));
        }
        assert!(channel.is_open());
        let (answered, sent) = (*answered.lock().unwrap(), replies(&bytes));
        // One may be on its way out, and the next one opened.
        assert!(answered <= sent + 2, "files are opened one after the other: {answered}, {sent}");
        channel.block_output(false);
        bytes.extend(channel.outbound_bytes());
        channel.block_output(true);
    }
    channel.block_output(false);
    bytes.extend(channel.outbound_bytes());
    assert_eq!(replies(&bytes), 50);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn uploads_are_read_as_they_come_and_refused_as_soon_as_they_are_wrong() {
    async fn upload(request: Request<Body>) -> Response<Bytes> {
        let content_type = request.headers().get("content-type").and_then(|value| value.to_str().ok());
        let form = match Multipart::of(content_type.unwrap_or_default()) {
            Ok(form) => form,
            Err(error) => return with(error.status(), error.to_string()),
        };
        let (mut form, mut seen) = (form.reader(request.into_body()), String::new());
        loop {
            match form.next().await {
                Ok(Some(MultipartEvent::Part(head))) => seen.push_str(&format!("{}:", head.name())),
                Ok(Some(MultipartEvent::Data(data))) => seen.push_str(&String::from_utf8_lossy(&data)),
                Ok(Some(MultipartEvent::End)) => seen.push(';'),
                Ok(None) => return Reply::text(seen),
                Err(error) => return with(error.status(), error.to_string()),
            }
        }
    }
    fn with(status: http::StatusCode, text: String) -> Response<Bytes> {
        let mut reply = Reply::text(text);
        *reply.status_mut() = status;
        reply
    }
    let mut channel: Channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(upload)));
    let body = "--x\r\nContent-Disposition: form-data; name=a\r\n\r\none\r\n--x\r\nContent-Disposition: form-data; name=b; filename=f\r\n\r\ntwo\r\n--x--\r\n";
    let head = |length: usize| {
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    for size in [1, 13, body.len()] {
        channel.write_inbound(head(body.len()));
        body.as_bytes().chunks(size).for_each(|piece| {
            channel.write_inbound(piece);
        });
        assert_eq!(String::from_utf8(reply(&mut channel).1).unwrap(), "a:one;b:two;", "by {size}");
    }
    channel.write_inbound(head(1_000_000)).write_inbound("no boundary at all");
    assert!(reply(&mut channel).0.starts_with("HTTP/1.1 400 "), "without waiting for the rest");
    let mut channel: Channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(upload)));
    channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert!(reply(&mut channel).0.starts_with("HTTP/1.1 415 "));
}

/// Behind the codec, which says what parts hold, stands every stage that there is: none of them makes it forgotten.
#[test]
fn parts_count_for_what_they_hold_whatever_stands_between_the_tail_and_the_codec() {
    let (mut channel, _) = api();
    let mut stages = channel.channel().stages();
    channel.run();
    let stages = stages.wait().unwrap();
    assert!(stages.len() > 4, "{stages:?}");
    for stage in stages {
        assert!(stage.weighed, "{stage:?}");
    }
    channel.channel().write(netwright_http::HttpPart::Data(vec![b'x'; 1 << 20].into()));
    assert!(!channel.channel().is_writable());
}
