//! Frames against the verifier: whole, split anywhere, byte by byte, cut off, paused, hostile.

mod common;

use bytes::Bytes;
use common::*;
use netwright_testkit::verify_decoder;
use netwright_websocket::{Agreed, Config, Deflate, Message, WebSocket, frame::Opcode};

fn quiet() -> Config {
    Config::default().ping_after(None).max_message(1000)
}

#[test]
fn messages() {
    verify_decoder!(WebSocket::server(quiet());
        frame(Opcode::Text, "one") => [Ok(text("one"))],
        frame(Opcode::Binary, [1; 300]) => [Ok(Message::Binary(Bytes::from(vec![1; 300])))],
        frame(Opcode::Ping, "ping") => [],
        [fragment(Opcode::Text, "fra\u{e9}".as_bytes()), frame(Opcode::Pong, ""), frame(Opcode::Continuation, "gments")].concat()
            => [Ok(text("fra\u{e9}gments"))],
        frame(Opcode::Text, "") => [Ok(text(""))],
    );
}

#[test]
fn messages_of_a_server() {
    verify_decoder!(WebSocket::client(quiet());
        raw(true, false, Opcode::Text, b"one", None) => [Ok(text("one"))],
        raw(true, false, Opcode::Binary, &[2; 126], None) => [Ok(Message::Binary(Bytes::from(vec![2; 126])))],
    );
}

#[test]
fn compressed_messages() {
    let hello = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
    verify_decoder!(WebSocket::server(quiet().deflate(Deflate::default())).agreed(Some(Agreed::default()));
        raw(true, true, Opcode::Text, &hello, Some(KEY)) => [Ok(text("Hello"))],
        raw(true, true, Opcode::Text, &[0xf2, 0x00, 0x11, 0x00, 0x00], Some(KEY)) => [Ok(text("Hello"))],
        raw(true, true, Opcode::Text, &[0], Some(KEY)) => [Ok(text(""))],
    );
}
