//! HTTP/1.1 and WebSocket, recorded on real connections over two transports: the replies are the same in a replay.

use super::{Written, flight};
use crate::sockets::talk;
use ::http::{Response, StatusCode};
use bytes::Bytes;
use netwright_core::{AppContext, Application, IntoPipeline, pipeline};
use netwright_http::{HttpServer, ReplyPart, respond};
use netwright_record::{FlightRecorder, Recording, When, Why};
use netwright_websocket::{
    Accept, Config, Deflate, Message, Upgrade,
    frame::{FrameHead, Opcode, mask},
};
use std::{convert::Infallible, sync::Arc};

fn pages() -> impl IntoPipeline<ReplyPart> {
    let page = |request: &netwright_http::Received| {
        let text = format!("{} {} {:?}", request.method(), request.uri(), request.body());
        let status = if request.uri().path() == "/nowhere" { StatusCode::NOT_FOUND } else { StatusCode::OK };
        let mut reply = Response::new(Bytes::from(text));
        *reply.status_mut() = status;
        reply
    };
    pipeline().add(HttpServer::new()).app(respond(page))
}

/// Records what comes of these pieces on real connections, and plays it.
fn same_again<T: Send + 'static, P: IntoPipeline<T> + 'static>(
    make: fn() -> P,
    pieces: &[&[u8]],
) -> Vec<(Recording, Vec<u8>)> {
    let mut all = Vec::new();
    for transport in ["127.0.0.1:0", "local:"] {
        let (flight, files): (_, Written) =
            flight(FlightRecorder::builder().label("test").when(When::ALWAYS));
        let heard = talk(transport, flight.clone(), make, pieces);
        let (why, recording) = files.next();
        assert_eq!(why, Why::End, "{transport}");
        assert!(recording.is_from_the_start());
        let again = recording.replay().run(make());
        again.compare(&recording).ignore_header("date").with_the_same_end().assert_same();
        assert_eq!(again.sent_bytes().len(), heard.len(), "{transport}");
        all.push((recording, heard));
    }
    all
}

fn count(heard: &[u8], what: &str) -> usize {
    heard.windows(what.len()).filter(|window| *window == what.as_bytes()).count()
}

#[test]
fn requests_one_after_the_other_pipelined_and_cut_anywhere_are_answered_the_same() {
    let pieces: [&[u8]; 5] = [
        b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\nGET /4 HT",
        b"TP/1.1\r\nHo",
        b"st: a\r\nCookie: id=7\r\n\r",
        b"\nGET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    for (recording, heard) in same_again(pages, &pieces) {
        assert_eq!((count(&heard, " 200 OK"), count(&heard, " 404 Not Found")), (4, 1));
        assert!(count(&recording.to_bytes(), "Cookie: ****") == 1, "and what is covered does no harm");
    }
}

#[test]
fn bodies_of_a_length_and_in_chunks_are_answered_the_same() {
    let pieces: [&[u8]; 4] = [
        b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel",
        b"loPOST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"4\r\ndefg\r",
        b"\n0\r\nx-trailer: 1\r\n\r\nPOST /3 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
    ];
    for (_, heard) in same_again(pages, &pieces) {
        assert_eq!(count(&heard, " 200 OK"), 3);
    }
}

#[test]
fn a_request_that_is_refused_is_refused_the_same() {
    let good = &b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"[..];
    for bad in [
        &b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01 what is this\r\n\r\n",
    ] {
        for (_, heard) in same_again(pages, &[good, bad]) {
            assert_eq!((count(&heard, " 200 OK"), count(&heard, "HTTP/1.1 400 ")), (1, 1));
        }
    }
}

// ---- WebSocket ----

struct Echo;

impl Application for Echo {
    type Read = Message;
    type Write = Message;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, message: Message) {
        cx.write_and_flush(message);
    }
}

fn ws_echo() -> impl IntoPipeline<Infallible> {
    let config = Config::default().deflate(Deflate::default().takeover(true).min(0));
    let accept = Arc::new(Accept::new(config));
    pipeline().joint(|switch| {
        let upgrade = Upgrade::new(switch, accept, |socket, _, _| pipeline().add(socket).app(Echo));
        pipeline().add(HttpServer::new()).add(upgrade).app(respond(|_| Response::new("no socket"))).sealed()
    })
}

/// A frame as a client sends it: each with a mask of its own.
fn frame(opcode: Opcode, payload: &[u8], key: [u8; 4]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let len = payload.len() as u64;
    FrameHead { fin: true, compressed: false, opcode, len, mask: Some(key) }.write(&mut bytes);
    let at = bytes.len();
    bytes.extend_from_slice(payload);
    mask(&mut bytes[at..], key);
    bytes
}

#[test]
fn a_websocket_is_answered_the_same_whatever_the_masks() {
    for key in [[1, 2, 3, 4], [0x80, 0x0a, 0x3a, 0xff]] {
        for extensions in ["", "Sec-WebSocket-Extensions: permessage-deflate\r\n"] {
            let hello = format!(
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{extensions}\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            let text = frame(Opcode::Text, "hello, wörld".as_bytes(), key);
            let binary = frame(Opcode::Binary, &[7; 3000], key);
            let ping = frame(Opcode::Ping, b"there?", key);
            let close = frame(Opcode::Close, &1000_u16.to_be_bytes(), key);
            let pieces: [&[u8]; 5] =
                [hello.as_bytes(), &text, &binary[..100], &binary[100..], &[ping, close].concat()];
            for (_, heard) in same_again(ws_echo, &pieces) {
                assert_eq!(count(&heard, " 101 Switching Protocols"), 1);
                assert_eq!(count(&heard, "there?"), 1, "the pong");
            }
        }
    }
}
