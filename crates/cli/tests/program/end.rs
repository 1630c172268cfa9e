#![cfg(unix)]

use super::{Peer, Running};
use rustix::process::Signal;
use std::{
    io::{self, Write},
    net::TcpListener,
    thread,
    time::Duration,
};

#[test]
fn both_signals_end_servers_in_order_although_connections_are_open() {
    for (signal, model) in [(Signal::TERM, "workers"), (Signal::INT, "workers"), (Signal::INT, "blocking")] {
        let arguments = ["serve", "echo", "--listen", "127.0.0.1:0", "--model", model];
        let (mut server, addresses) = Running::serve(&arguments, 1);
        let mut peer = Peer::connect(addresses[0]);
        assert_eq!(peer.send("hello\n").line(), "hello");
        server.signal(signal);
        assert_eq!(peer.rest(), b"", "the peer sees an orderly end");
        assert_eq!(server.ended().code(), Some(0), "{signal:?} {model}");
    }
}

#[test]
fn servers_on_http_end_in_order_although_connections_are_kept_alive() {
    for protocol in ["hello", "ws-echo"] {
        let (mut server, addresses) =
            Running::serve(&["serve", protocol, "--listen", "127.0.0.1:0", "--model", "workers"], 1);
        let mut peer = Peer::connect(addresses[0]);
        let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let line = peer.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{upgrade}\r\n")).line();
        assert!(line.starts_with("HTTP/1.1 "), "{line}");
        server.signal(Signal::TERM);
        let rest = peer.rest();
        let end = if protocol == "hello" { &b"Hello, World!"[..] } else { b"\x88\x02\x03\xe9" }; // going away
        assert!(rest.ends_with(end), "{protocol}: {}", rest.escape_ascii());
        assert_eq!(server.ended().code(), Some(0), "{protocol}");
    }
}

#[test]
fn a_peer_that_asks_without_reading_and_breaks_off_leaves_nothing_behind() {
    let (mut server, addresses) = Running::serve(&["serve", "time", "--listen", "127.0.0.1:0"], 1);
    let peer = Peer::connect(addresses[0]);
    peer.socket().set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let orders = "x\n".repeat(100_000);
    while peer.socket().write(orders.as_bytes()).is_ok() {} // until nothing moves any more
    drop(peer); // with answers that it has not read: the system resets the connection
    server.signal(Signal::TERM);
    let said = std::iter::from_fn(|| Some(server.line())).find(|line| line.starts_with("stopped"));
    assert_eq!(said.as_deref(), Some("stopped"), "no connection was left");
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_demo_ends_on_a_signal() {
    let (mut demo, addresses) = Running::serve(&[], 3);
    let mut chat = Peer::connect(addresses[2]);
    chat.line();
    demo.signal(Signal::INT);
    assert_eq!(chat.rest(), b"");
    assert_eq!(demo.ended().code(), Some(0));
}

#[test]
fn a_load_that_is_interrupted_reports_what_it_has() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut load = Running::start(&["load", "echo", &address, "--connections", "2", "--seconds", "3600"]);
    for _ in 0..2 {
        let stream = listener.accept().unwrap().0;
        thread::spawn(move || io::copy(&mut &stream, &mut &stream));
    }
    load.signal(Signal::INT); // it listens to signals before it connects
    let report = load.line();
    assert!(report.contains("2 connections"), "{report}");
    assert_eq!(load.ended().code(), Some(0));
}
