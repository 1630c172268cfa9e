//! WebSocket on a stream of HTTP/2 (RFC 8441), frame by frame, by a peer that is written here.

use bytes::Buf;
use http::Response;
use netwright_core::{CloseCause, EmbeddedChannel, Event, Peer, ShuttingDown, pipeline};
use netwright_http::{HttpVersions, respond};
use netwright_websocket::{Accept, Config, Message, Upgrade};
use std::{cell::RefCell, convert::Infallible, rc::Rc, sync::Arc};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const NO_ERROR: &[u8] = &[0, 0, 0, 0];
const CANCEL: &[u8] = &[0, 0, 0, 8];

/// A frame: its type, its flags, its stream, and what is in it.
type Frame = (u8, u8, u32, Vec<u8>);

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while bytes.len() >= 9 {
        let len = bytes.get_uint(3) as usize;
        let (kind, flags, stream) = (bytes.get_u8(), bytes.get_u8(), bytes.get_u32());
        frames.push((kind, flags, stream, bytes[..len].to_vec()));
        bytes.advance(len);
    }
    assert!(bytes.is_empty(), "half a frame");
    frames
}

/// A head, without any compression.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.extend([0, name.len() as u8]);
        block.extend(name.as_bytes());
        block.push(value.len() as u8);
        block.extend(value.as_bytes());
    }
    block
}

fn asks(stream: u32, flags: u8, more: &[(&str, &str)]) -> Vec<u8> {
    asks_for("/chat", stream, flags, more)
}

fn asks_for(path: &str, stream: u32, flags: u8, more: &[(&str, &str)]) -> Vec<u8> {
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", path),
        (":authority", "a"),
    ];
    let version = [("sec-websocket-version", "13")];
    let version = if more.iter().any(|(name, _)| *name == version[0].0) { &version[..0] } else { &version };
    frame(HEADERS, END_HEADERS | flags, stream, &block(&[&fields, version, more].concat()))
}

/// A WebSocket frame as clients send it, with a mask that changes nothing.
fn masked(opcode: u8, payload: &[u8]) -> Vec<u8> {
    [&[0x80 | opcode, 0x80 | payload.len() as u8, 0, 0, 0, 0], payload].concat()
}

fn text(payload: &str) -> Vec<u8> {
    masked(1, payload.as_bytes())
}

type Channel = EmbeddedChannel<(), Infallible>;
type Ends = Rc<RefCell<Vec<String>>>;

/// A server that speaks both versions, whose WebSockets send everything back unless they are called `/silent`.
fn server() -> (Channel, Ends) {
    let accept = Accept::new(Config::default()).protocols(["v1"]).origins(|origin| origin == "https://a");
    let (accept, ends) = (Arc::new(accept), Ends::default());
    let told = ends.clone();
    let web = HttpVersions::new(move || {
        let (accept, told) = (accept.clone(), told.clone());
        pipeline().joint_between(|switch| {
            let upgrade = Upgrade::tunnel(switch, accept, move |socket, request, _| {
                let (told, silent) = (told.clone(), request.uri.path() == "/silent");
                pipeline().add(socket).serve(async move |mut peer: Peer<Message, Message>| {
                    if silent {
                        std::future::pending::<()>().await;
                    }
                    let end = loop {
                        match peer.read().await {
                            Ok(Some(message)) => peer.write(message).await?,
                            Ok(None) => break "in order".to_owned(),
                            Err(cause) => break cause.to_string(),
                        }
                    };
                    told.borrow_mut().push(end);
                    Ok::<(), CloseCause>(())
                })
            });
            pipeline().add(upgrade).app(respond(|_| Response::new("a page"))).sealed()
        })
    });
    let mut channel = Channel::with_joint(web.date(false).pipeline());
    channel.write_inbound(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    channel.write_inbound(frame(SETTINGS, 0, 0, &[]));
    channel.outbound_bytes();
    (channel, ends)
}

/// What is said of a stream.
fn said(channel: &mut Channel, stream: u32) -> Vec<Frame> {
    frames(&channel.outbound_bytes()).into_iter().filter(|(_, _, of, _)| *of == stream).collect()
}

/// Opens a WebSocket on a stream.
fn open(channel: &mut Channel, stream: u32) {
    channel.write_inbound(asks(stream, 0, &[]));
    let said = said(channel, stream);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!((said[0].0, said[0].1), (HEADERS, END_HEADERS), "the stream goes on");
    assert_eq!(said[0].3[0], 0x88, "status 200");
}

#[test]
fn a_stream_becomes_a_websocket_while_others_carry_requests() {
    let (mut channel, _) = server();
    open(&mut channel, 1);
    open(&mut channel, 3);
    channel.write_inbound(frame(DATA, 0, 1, &text("one")));
    channel.write_inbound(frame(DATA, 0, 3, &text("three")));
    let get = block(&[(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a")]);
    channel.write_inbound(frame(HEADERS, END_HEADERS | END_STREAM, 5, &get));
    let data: Vec<_> =
        frames(&channel.outbound_bytes()).into_iter().filter(|frame| frame.0 == DATA).collect();
    assert_eq!(data[0], (DATA, 0, 1, b"\x81\x03one".to_vec()));
    assert_eq!(data[1], (DATA, 0, 3, b"\x81\x05three".to_vec()));
    assert_eq!(data[2], (DATA, END_STREAM, 5, b"a page".to_vec()));
    // However its bytes are cut.
    for byte in text("in pieces") {
        channel.write_inbound(frame(DATA, 0, 1, &[byte]));
    }
    assert_eq!(said(&mut channel, 1), [(DATA, 0, 1, b"\x81\x09in pieces".to_vec())]);
}

#[test]
fn a_goodbye_ends_the_stream_in_order_and_nothing_else() {
    let (mut channel, ends) = server();
    open(&mut channel, 1);
    open(&mut channel, 3);
    channel.write_inbound(frame(DATA, 0, 1, &masked(8, &[3, 232])));
    let said_now = said(&mut channel, 1);
    let data: Vec<u8> =
        said_now.iter().filter(|frame| frame.0 == DATA).flat_map(|frame| frame.3.clone()).collect();
    assert_eq!(data, b"\x88\x02\x03\xe8");
    assert!(said_now.iter().any(|frame| frame.0 == DATA && frame.1 == END_STREAM), "{said_now:?}");
    assert!(said_now.iter().all(|frame| frame.0 != RESET || frame.3 == NO_ERROR), "{said_now:?}");
    assert_eq!(*ends.borrow(), ["in order"]);
    channel.write_inbound(frame(DATA, 0, 3, &text("on")));
    assert_eq!(said(&mut channel, 3), [(DATA, 0, 3, b"\x81\x02on".to_vec())]);
}

#[test]
fn a_stream_that_ends_without_a_goodbye_is_cancelled() {
    let (mut channel, ends) = server();
    open(&mut channel, 1);
    channel.write_inbound(frame(DATA, END_STREAM, 1, &text("last")));
    let said = said(&mut channel, 1);
    assert_eq!(said.last(), Some(&(RESET, 0, 1, CANCEL.to_vec())), "{said:?}");
    assert!(ends.borrow()[0].contains("close frame"), "{:?}", ends.borrow());
    assert!(channel.is_open());
}

#[test]
fn a_stream_that_the_peer_resets_is_over_for_the_application() {
    let (mut channel, ends) = server();
    open(&mut channel, 1);
    channel.write_inbound(frame(RESET, 0, 1, CANCEL));
    assert_eq!(ends.borrow().len(), 1);
    assert_eq!(said(&mut channel, 1), []);
    open(&mut channel, 3);
}

#[test]
fn a_violation_is_told_by_its_code_and_ends_only_its_stream() {
    let (mut channel, ends) = server();
    open(&mut channel, 1);
    channel.write_inbound(frame(DATA, 0, 1, b"\x81\x02hi")); // no mask
    let said_now = said(&mut channel, 1);
    assert_eq!(&said_now[0].3[2..4], &1002_u16.to_be_bytes(), "{said_now:?}");
    assert!(said_now.iter().any(|frame| frame.0 == DATA && frame.1 == END_STREAM), "{said_now:?}");
    channel.advance(std::time::Duration::from_secs(5)); // it has had its time to read why
    assert_eq!(ends.borrow().len(), 1);
    assert!(said(&mut channel, 1).iter().all(|frame| frame.0 == RESET && frame.3 == NO_ERROR));
    open(&mut channel, 3);
}

#[test]
fn what_may_not_become_a_websocket_is_refused_by_its_status() {
    type Case = (u8, &'static [(&'static str, &'static str)], u16);
    let cases: [Case; 3] = [
        (0, &[("origin", "https://evil")], 403),
        (0, &[("sec-websocket-version", "8")], 426),
        (END_STREAM, &[], 400),
    ];
    for (flags, more, status) in cases {
        let (mut channel, _) = server();
        channel.write_inbound(asks(1, flags, more));
        let said = said(&mut channel, 1);
        // 400 is in the table; the others are said by their digits, Huffman or not.
        let refused = &said[0].3;
        assert_ne!(refused[0], 0x88, "{status}: {said:?}");
        assert_eq!((status == 400), (refused[0] == 0x8c), "{said:?}");
        let page: Vec<u8> =
            said.iter().filter(|frame| frame.0 == DATA).flat_map(|frame| frame.3.clone()).collect();
        assert!(page.ends_with(b"\n"), "a reason in words");
    }
}

#[test]
fn a_websocket_that_nobody_reads_gets_no_more_credit() {
    let (mut channel, _) = server();
    channel.write_inbound(asks_for("/silent", 1, 0, &[]));
    let message = [&[0x82, 0xfe, 0x3f, 0xf8, 0, 0, 0, 0][..], &[7; 0x3ff8]].concat();
    for _ in 0..3 {
        channel.write_inbound(frame(DATA, 0, 1, &message));
    }
    assert!(said(&mut channel, 1).iter().all(|frame| frame.0 != WINDOW), "nothing was read");
}

#[test]
fn a_server_that_shuts_down_says_goodbye_on_each_stream() {
    let (mut channel, _) = server();
    open(&mut channel, 1);
    channel.channel().fire_event(Event::new(ShuttingDown));
    let data =
        frames(&channel.outbound_bytes()).into_iter().find(|frame| frame.0 == DATA).expect("a close frame");
    assert_eq!(data.3, [&b"\x88\x02"[..], &1001_u16.to_be_bytes()].concat());
    // The peer answers, and knows of the end: nothing is left to wait for.
    channel.write_inbound(frame(DATA, END_STREAM, 1, &masked(8, &1001_u16.to_be_bytes())));
    channel.write_inbound(frame(6, 1, 0, b"draining"));
    channel.end_input(); // the peer has heard all
    assert!(!channel.is_open());
}
