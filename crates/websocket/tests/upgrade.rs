//! From HTTP to WebSocket, on the server's side.
//!
//! Behaviour 91: the reply is written, the pipeline exchanged in the same call, the event fired:
//! `frames_that_come_with_the_request_are_not_lost`, `the_application_of_before_hears_of_it`.

mod common;

use bytes::Bytes;
use common::*;
use netwright_core::{AppContext, Application, Channel, CloseCause, EmbeddedChannel, Event, Peer, pipeline};
use netwright_http::{HttpPart, HttpServer, ReplyPart, RequestPart};
use netwright_websocket::{
    Accept, Config, Deflate, Message, Upgrade, Upgraded,
    frame::{Opcode, Role},
};
use std::{cell::RefCell, convert::Infallible, rc::Rc};

type Outside = EmbeddedChannel<(), Infallible>;

const REQUEST: &str = "GET /ws HTTP/1.1\r\nHost: example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

async fn echo(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
    while let Some(message) = peer.read().await? {
        peer.write(message).await?;
    }
    Ok(())
}

/// Answers with the path, some paths only when told to.
#[derive(Default)]
struct Pages {
    later: Rc<RefCell<Option<Channel<ReplyPart>>>>,
    upgraded: Rc<RefCell<Vec<Upgraded>>>,
}

fn page(text: impl Into<Bytes>) -> ReplyPart {
    http::Response::new(text.into()).into()
}

impl Application for Pages {
    type Read = RequestPart;
    type Write = ReplyPart;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, part: RequestPart) {
        match part {
            HttpPart::Whole(head, _) if head.uri.path() == "/later" => {
                *self.later.borrow_mut() = Some(cx.channel())
            }
            HttpPart::Whole(head, _) => cx.write_and_flush(page(head.uri.path().to_owned())),
            _ => {}
        }
    }
    fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
        if let Ok(upgraded) = event.take() {
            self.upgraded.borrow_mut().push(upgraded);
        }
    }
}

fn accept() -> Accept {
    Accept::new(Config::default().ping_after(None)).path("/ws").protocols(["echo"])
}

fn server(accept: Accept, pages: Pages) -> Outside {
    EmbeddedChannel::with_joint(pipeline().joint(|switch| {
        let upgrade = Upgrade::new(switch, accept, |socket, _, _| pipeline().add(socket).serve(echo));
        pipeline().add(HttpServer::new()).add(upgrade).app(pages).sealed()
    }))
}

fn split(reply: &[u8]) -> (String, Vec<u8>) {
    let end = reply.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head") + 4;
    (String::from_utf8(reply[..end].to_vec()).unwrap(), reply[end..].to_vec())
}

#[test]
fn frames_that_come_with_the_request_are_not_lost() {
    let stream = [
        REQUEST.as_bytes(),
        &frame(Opcode::Text, "one"),
        &frame(Opcode::Ping, "p"),
        &frame(Opcode::Text, "two"),
    ];
    let stream = stream.concat();
    for size in [stream.len(), 1, 7, REQUEST.len(), REQUEST.len() + 3] {
        let mut channel = server(accept(), Pages::default());
        for piece in stream.chunks(size) {
            channel.write_inbound(piece);
        }
        let (head, frames) = split(&channel.run().outbound_bytes());
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
        assert_eq!(head.to_lowercase().matches("connection: upgrade").count(), 1, "{head}");
        let mut frames: Vec<_> =
            frames_of(Role::Server, &frames).into_iter().map(|(_, _, payload)| payload).collect();
        frames.sort(); // a pong may overtake: the tail runs in a turn of its own
        assert_eq!(frames, [b"one".to_vec(), b"p".to_vec(), b"two".to_vec()]);
        channel.write_inbound(frame(Opcode::Close, b"\x03\xe8"));
        assert_eq!(channel.outbound_bytes(), b"\x88\x02\x03\xe8");
        assert!(!channel.is_open());
    }
}

#[test]
fn other_requests_are_answered_before_and_an_upgrade_elsewhere_is_one_of_them() {
    let mut channel = server(accept(), Pages::default());
    channel.write_inbound("GET /page HTTP/1.1\r\nHost: example\r\n\r\n");
    assert!(channel.outbound_bytes().ends_with(b"\r\n\r\n/page"));
    channel.write_inbound(REQUEST.replace("/ws", "/other"));
    assert!(channel.outbound_bytes().ends_with(b"\r\n\r\n/other"));
    channel.write_inbound("GET /ws HTTP/1.1\r\nHost: example\r\n\r\n");
    assert!(channel.outbound_bytes().ends_with(b"\r\n\r\n/ws"));
    channel.write_inbound(REQUEST);
    assert!(channel.outbound_bytes().starts_with(b"HTTP/1.1 101 "));
}

#[test]
fn a_refused_request_leaves_an_http_connection() {
    let mut channel = server(accept(), Pages::default());
    channel.write_inbound(REQUEST.replace("Version: 13", "Version: 12"));
    let (head, body) = split(&channel.outbound_bytes());
    assert!(head.starts_with("HTTP/1.1 426 ") && head.contains("sec-websocket-version: 13\r\n"), "{head}");
    assert_eq!(body, b"the WebSocket version is 13, not \"12\"\n");
    let with_body = REQUEST.replace("Host", "Content-Length: 3\r\nHost");
    channel.write_inbound(format!("{with_body}abc"));
    assert!(channel.outbound_bytes().starts_with(b"HTTP/1.1 400 "));
    if channel.is_open() {
        channel.write_inbound("GET /page HTTP/1.1\r\nHost: example\r\n\r\n");
        assert!(channel.outbound_bytes().ends_with(b"/page"));
    }
}

#[test]
fn an_upgrade_waits_for_the_replies_before_it() {
    let pages = Pages::default();
    let later = pages.later.clone();
    let mut channel = server(accept(), pages);
    channel.write_inbound(
        [b"GET /later HTTP/1.1\r\nHost: example\r\n\r\n", REQUEST.as_bytes(), &frame(Opcode::Text, "early")]
            .concat(),
    );
    assert!(channel.outbound_bytes().is_empty());
    let handle = later.take().expect("the request has arrived");
    handle.write_and_flush(page("now"));
    let (head, rest) = split(&channel.run().outbound_bytes());
    assert!(head.starts_with("HTTP/1.1 200 ") && rest.starts_with(b"nowHTTP/1.1 101 "), "{head}");
    let (_, frames) = split(&rest);
    let frames = [frames, channel.run().outbound_bytes()].concat();
    assert_eq!(frames_of(Role::Server, &frames), [(Opcode::Text, false, b"early".to_vec())]);
}

#[test]
fn the_application_of_before_hears_of_it() {
    let pages = Pages::default();
    let upgraded = pages.upgraded.clone();
    let mut accept = accept();
    accept = Accept::new(accept.config().as_ref().clone().deflate(Deflate::default())).protocols(["echo"]);
    let mut channel = server(accept, pages);
    let extensions =
        "Sec-WebSocket-Protocol: chat, echo\r\nSec-WebSocket-Extensions: permessage-deflate\r\nHost";
    channel.write_inbound(REQUEST.replace("Host", extensions));
    let upgraded = upgraded.take();
    assert_eq!(upgraded.len(), 1);
    assert_eq!(upgraded[0].0.protocol.as_deref(), Some("echo"));
    assert!(upgraded[0].0.deflate.is_some());
    let (head, _) = split(&channel.outbound_bytes());
    assert!(head.contains("sec-websocket-protocol: echo\r\n"), "{head}");
    assert!(
        head.contains("sec-websocket-extensions: permessage-deflate; server_no_context_takeover"),
        "{head}"
    );
}
