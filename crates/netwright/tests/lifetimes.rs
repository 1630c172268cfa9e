//! A connection that has grown old ends by the means of its protocol.
#![cfg(all(feature = "handler", feature = "http", feature = "websocket"))]

use netwright::{
    CloseCause, EmbeddedChannel,
    handler::{Idle, Lifetime},
    http::{HttpServer, Received, respond},
    pipeline,
    websocket::{Config, Message, WebSocket},
};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn lifetime() -> Lifetime {
    Lifetime::of(HOUR).jitter(0.0).grace(Duration::from_secs(10))
}

#[test]
fn http_closes_an_idle_connection_at_once_and_a_busy_one_with_its_answer() {
    let answers = respond(|_: &Received| http::Response::new("hello"));
    let mut idle = EmbeddedChannel::of(pipeline().filter(lifetime()).add(HttpServer::new()).app(answers));
    idle.write_inbound("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(String::from_utf8(idle.outbound_bytes()).unwrap().ends_with("\r\n\r\nhello"));
    // Its own time for quiet connections would end it before.
    idle.advance(Duration::from_secs(1));
    assert!(idle.is_open());

    let quarter = Duration::from_secs(2);
    let answers = respond(|_: &Received| http::Response::new("hello"));
    let old = Lifetime::of(quarter).jitter(0.0);
    let mut busy = EmbeddedChannel::of(pipeline().filter(old).add(HttpServer::new()).app(answers));
    busy.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab").advance(quarter);
    assert!(busy.is_open(), "a request is half there");
    busy.write_inbound("cd");
    let reply = String::from_utf8(busy.outbound_bytes()).unwrap().to_lowercase();
    assert!(reply.contains("\r\nconnection: close\r\n"), "{reply}");
    assert!(!busy.is_open());

    idle.advance(HOUR);
    assert!(!idle.is_open());
}

#[test]
fn a_web_socket_is_closed_with_1001_and_cut_if_its_peer_does_not_answer() {
    let config = Config::default().ping_after(None);
    let socket = WebSocket::server(config);
    let stages =
        pipeline().filter(lifetime()).add(socket).handle(|cx, message: Message| cx.write_and_flush(message));
    let mut channel = EmbeddedChannel::of(stages);
    channel.advance(HOUR);
    assert_eq!(channel.outbound_bytes(), b"\x88\x02\x03\xe9");
    channel.advance(Duration::from_secs(10));
    assert!(!channel.is_open());
}

#[test]
fn an_idle_web_socket_is_closed_with_a_word_if_its_stage_is_in_front() {
    let config = Config::default().ping_after(None);
    let stages =
        pipeline().add(WebSocket::server(config)).filter(Idle::read(Duration::from_secs(60)).closing());
    let mut channel = EmbeddedChannel::of(stages.handle(|_, _: Message| {}));
    channel.advance(Duration::from_secs(60));
    assert!(channel.outbound_bytes().starts_with(b"\x88"));
    channel.advance(Duration::from_secs(60));
    assert!(matches!(channel.finish().cause, Some(CloseCause::TimedOut(_))));
}
