//! What a client hears of a connection by address, from servers that answer by hand: that it is there and what was agreed to, why
//! it is not, and how it ended. On every backend.

#![cfg(feature = "client")]

mod common;

use common::*;
use netwright_core::{CloseCause, Peer};
use netwright_transport::{Backend, ConnectError, Probe};
use netwright_websocket::{
    Config, Deflate, HandshakeError, Message, OpenError, Opened, REJECTION_MAX, Request, Socket,
    WebSocketClient, accept_key, frame::Opcode,
};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{self, Receiver, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn clients() -> Vec<WebSocketClient> {
    let mut backends = vec![Backend::Readiness, Backend::Blocking];
    backends.extend(Probe::run(Backend::Uring).works().then_some(Backend::Uring));
    backends.into_iter().map(|backend| WebSocketClient::new(backend.event_loops(1).unwrap())).collect()
}

/// A server for one connection: it reads the request, and has `answer` do the rest with the request's key.
fn server(answer: impl FnOnce(TcpStream, String) + Send + 'static) -> (Request, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let request = Request::new(&format!("ws://{}/", listener.local_addr().unwrap())).unwrap();
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            socket.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        let key = fields.find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key")).expect("a key").1;
        answer(socket, key.to_owned());
    });
    (request, server)
}

fn agreed(key: &str, more: &str) -> Vec<u8> {
    let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
    format!("{head}Sec-WebSocket-Accept: {}\r\n{more}\r\n", accept_key(key)).into_bytes()
}

async fn until_the_end(mut peer: Peer<Message, Message>, tell: Sender<String>) -> Result<(), CloseCause> {
    loop {
        let read = peer.read().await;
        let _ = tell.send(match &read {
            Ok(Some(message)) => String::from_utf8_lossy(message.payload()).into_owned(),
            Ok(None) => CloseCause::PeerClosed.to_string(),
            Err(cause) => cause.to_string(),
        });
        if read?.is_none() {
            return Ok(());
        }
    }
}

#[test]
fn a_connection_is_there_when_the_server_has_agreed_and_says_to_what() {
    for client in clients() {
        let (asked, is_asked) = mpsc::channel();
        let (go, goes): (Sender<()>, Receiver<()>) = mpsc::channel();
        let (request, server) = server(move |mut socket, key| {
            asked.send(()).unwrap();
            goes.recv().unwrap();
            let more = "Sec-WebSocket-Protocol: chat.v1\r\nSet-Cookie: seen=1\r\nSec-WebSocket-Extensions: \
                permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n";
            socket.write_all(&agreed(&key, more)).unwrap();
            let _ = socket.read_to_end(&mut Vec::new()); // until the client goes
        });
        let (tell, told) = mpsc::channel();
        let config = Config::default().deflate(Deflate::default()).close_deadline(Duration::ZERO);
        let request = request.protocols(["chat.v2", "chat.v1"]).config(config);
        let mut connecting = client.connect(request, |_, opened: Opened| async move {
            let _ = tell.send(opened);
        });
        is_asked.recv().unwrap();
        assert!(!connecting.is_done(), "the server has said nothing yet");
        go.send(()).unwrap();
        let socket = connecting.wait().unwrap();
        assert_eq!(socket.protocol(), Some("chat.v1"));
        assert!(socket.deflate().is_some_and(|deflate| deflate.server_no_context_takeover));
        assert_eq!(socket.headers()["set-cookie"], "seen=1");
        assert_eq!(&told.recv().unwrap(), socket.opened(), "the function knows it too");
        socket.closed().wait().unwrap();
        server.join().unwrap();
    }
}

fn rejected(client: &WebSocketClient, reply: Vec<u8>) -> netwright_websocket::Rejection {
    let (request, server) = server(move |mut socket, _| {
        let _ = socket.write_all(&reply);
    });
    let error = client.connect(request, |_, _| async {}).wait().unwrap_err();
    server.join().unwrap();
    match error {
        OpenError::Handshake(HandshakeError::Rejected(rejection)) => (*rejection).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refusal_is_told_with_its_head_and_its_body() {
    for client in clients() {
        let head = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\n";
        for body in [
            "Content-Length: 4\r\n\r\nwho?",
            "Transfer-Encoding: chunked\r\n\r\n2\r\nwh\r\n2\r\no?\r\n0\r\n\r\n",
            "\r\nwho?",
        ] {
            let rejection = rejected(&client, format!("{head}{body}").into_bytes());
            assert_eq!((rejection.status.as_u16(), &rejection.body[..]), (401, &b"who?"[..]), "{body:?}");
            assert_eq!(rejection.headers["www-authenticate"], "Bearer");
            assert!(rejection.complete);
        }
        let cut = rejected(&client, format!("{head}Content-Length: 10\r\n\r\nwho").into_bytes());
        assert_eq!((&cut.body[..], cut.complete), (&b"who"[..], false));
        let mut long = format!("{head}Content-Length: 1000000\r\n\r\n").into_bytes();
        long.resize(long.len() + 1_000_000, b'x');
        let long = rejected(&client, long);
        assert_eq!((long.body.len(), long.complete), (REJECTION_MAX, false));
    }
}

#[test]
fn nobody_who_listens_and_an_end_before_the_reply_are_told_apart() {
    for client in clients() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        drop(listener);
        let error = client.connect(&*url, |_, _| async {}).wait().unwrap_err();
        assert!(matches!(error, OpenError::Connect(ConnectError::Refused(_))), "{error:?}");
        let (request, server) = server(|socket, _| drop(socket));
        let error = client.connect(request, |_, _| async {}).wait().unwrap_err();
        assert!(matches!(error, OpenError::Closed(_)), "{error:?}");
        server.join().unwrap();
    }
}

#[test]
fn an_attempt_that_is_cancelled_is_given_up() {
    for client in clients() {
        let (asked, is_asked) = mpsc::channel();
        let (request, server) = server(move |mut socket, _| {
            asked.send(()).unwrap();
            assert_eq!(socket.read(&mut [0]).unwrap(), 0, "the client has gone");
        });
        let mut connecting = client.connect(request, |_, _| async {});
        is_asked.recv().unwrap();
        assert!(connecting.cancel());
        assert!(matches!(connecting.wait(), Err(OpenError::Connect(ConnectError::Cancelled))));
        server.join().unwrap();
    }
}

/// A connection whose server sends this and goes: the socket, and what its function has read until the socket was over.
fn after(client: &WebSocketClient, bytes: Vec<u8>) -> (Socket, CloseCause, Vec<String>) {
    let (request, server) = server(move |mut socket, key| {
        socket.write_all(&[agreed(&key, ""), bytes].concat()).unwrap();
    });
    let (tell, told) = mpsc::channel();
    let socket = client.connect(request, |peer, _| until_the_end(peer, tell)).wait().unwrap();
    let cause = socket.closed().wait().unwrap();
    server.join().unwrap();
    (socket, cause, told.try_iter().collect())
}

#[test]
fn the_end_comes_behind_the_function_and_says_what_it_heard() {
    let text = |text: &str| raw(true, false, Opcode::Text, text.as_bytes(), None);
    let close = |payload: &[u8]| raw(true, false, Opcode::Close, payload, None);
    let many: Vec<u8> = (0..500).flat_map(|n| text(&format!("message {n}"))).collect();
    for client in clients() {
        for (end, expected) in [
            (close(b"\x03\xe8"), "closed by the peer"),
            (close(b"\x0f\xa1moved"), "the peer closed with 4001 moved"),
            (vec![0xff], "unknown opcode"),
            (Vec::new(), "without a close frame"),
        ] {
            let (_, cause, heard) = after(&client, [many.clone(), end].concat());
            assert!(cause.to_string().contains(expected), "{cause} instead of {expected}");
            assert_eq!(heard.len(), 501, "all messages, and the end");
            assert_eq!(heard[500], cause.to_string());
        }
    }
}

#[test]
fn others_may_write_to_a_socket_and_close_it() {
    for client in clients() {
        let (request, server) = server(|mut socket, key| {
            socket.write_all(&agreed(&key, "")).unwrap();
            let mut sent = Vec::new();
            socket.read_to_end(&mut sent).unwrap(); // the client does not wait for an answer to its close
            let sent = frames_of(netwright_websocket::frame::Role::Client, &sent);
            let sent: Vec<_> = sent.iter().map(|(opcode, _, payload)| (*opcode, &payload[..])).collect();
            assert_eq!(sent, [(Opcode::Text, &b"from outside"[..]), (Opcode::Close, b"\x03\xe8")]);
        });
        let request = request.config(Config::default().close_deadline(Duration::ZERO));
        let (tell, _told) = mpsc::channel();
        let socket = client.connect(request, |peer, _| until_the_end(peer, tell)).wait().unwrap();
        socket.channel().send(Message::from("from outside")).wait().unwrap();
        assert!(matches!(socket.close().wait(), Ok(CloseCause::Requested)));
        server.join().unwrap();
    }
}

#[test]
fn the_end_of_a_function_that_panics_says_so() {
    for client in clients() {
        let (request, server) = server(|mut socket, key| {
            socket
                .write_all(&[agreed(&key, ""), raw(true, false, Opcode::Text, b"boo", None)].concat())
                .unwrap();
            let _ = socket.read_to_end(&mut Vec::new());
        });
        let serve = async |mut peer: Peer<Message, Message>, _| {
            if peer.read().await.is_ok() {
                std::panic::resume_unwind(Box::new("stumbled")); // without the noise of the hook
            }
        };
        let socket = client.connect(request, serve).wait().unwrap();
        let cause = socket.closed().wait().unwrap();
        assert!(matches!(&cause, CloseCause::Panicked(message) if message == "stumbled"), "{cause}");
        server.join().unwrap();
    }
}
