//! All stages at once, from bytes to bytes: what is not the same for both versions (`both`).

use bytes::{Bytes, BytesMut};
use http::Response;
use netwright_codec::{Compressor, Flush, Format};
use netwright_core::{EmbeddedChannel, pipeline};
use netwright_http::{
    HttpServer, Received, ReplyPart, respond,
    web::{
        AccessLog, Cors, Files, Miss, Params, Query, Reply, ReplyCompression, RequestDecompression, Router,
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
