//! From HTTP to WebSocket, on the client's side; and both sides together, over loopback.

mod common;

use common::*;
use netwright_core::{CloseCause, EmbeddedChannel, Peer, pipeline};
use netwright_websocket::{
    HandshakeError, Message, Request, accept_key,
    frame::{Opcode, Role},
};
use std::{cell::RefCell, convert::Infallible, rc::Rc, time::Duration};

type Outside = EmbeddedChannel<(), Infallible>;

fn client(got: Rc<RefCell<Vec<Message>>>) -> Outside {
    let request = Request::new("ws://example.org/chat").unwrap().protocols(["talk"]);
    EmbeddedChannel::with_joint(request.pipeline(move |socket, _, opened| {
        assert_eq!(opened.protocol.as_deref(), Some("talk"));
        pipeline().add(socket).serve(move |mut peer: Peer<Message, Message>| async move {
            peer.write(Message::from("hello")).await?;
            while let Some(message) = peer.read().await? {
                got.borrow_mut().push(message);
            }
            Ok::<(), CloseCause>(())
        })
    }))
}

/// The reply to the request that a client has sent.
fn reply(channel: &mut Outside) -> String {
    let request = String::from_utf8(channel.outbound_bytes()).unwrap().to_lowercase();
    for line in [
        "get /chat http/1.1\r\n",
        "\r\nhost: example.org\r\n",
        "\r\nupgrade: websocket\r\n",
        "\r\nconnection: upgrade\r\n",
        "\r\nsec-websocket-version: 13\r\n",
        "\r\nsec-websocket-protocol: talk\r\n",
    ] {
        assert_eq!(request.matches(line).count(), 1, "{line:?} in {request}");
    }
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: talk\r\n"
        .to_owned()
}

fn key(request: &str) -> String {
    let line =
        request.lines().find(|line| line.to_lowercase().starts_with("sec-websocket-key:")).expect("a key");
    line.split_once(':').unwrap().1.trim().to_owned()
}

#[test]
fn frames_that_come_with_the_reply_are_not_lost() {
    for size in [1, 10, 1000] {
        let got = Rc::default();
        let mut channel = client(Rc::clone(&got));
        let request = String::from_utf8(channel.outbound_bytes()).unwrap();
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Protocol: talk\r\nSec-WebSocket-Accept: ";
        let head = format!("{head}{}\r\n\r\n", accept_key(&key(&request)));
        let stream = [
            head.as_bytes(),
            &raw(true, false, Opcode::Text, b"one", None),
            &raw(true, false, Opcode::Binary, b"two", None),
        ]
        .concat();
        for piece in stream.chunks(size) {
            channel.write_inbound(piece);
        }
        channel.run();
        assert_eq!(*got.borrow(), [Message::from("one"), Message::from(b"two".to_vec())]);
        let sent = frames_of(Role::Client, &channel.outbound_bytes());
        assert_eq!(sent, [(Opcode::Text, false, b"hello".to_vec())]);
        channel.write_inbound(raw(true, false, Opcode::Close, b"\x03\xe8", None)).close_by_peer();
        assert_eq!(
            frames_of(Role::Client, &channel.outbound_bytes()),
            [(Opcode::Close, false, b"\x03\xe8".to_vec())]
        );
        assert!(matches!(channel.channel().close_cause(), Some(CloseCause::PeerClosed)));
    }
}

fn cause(channel: &Outside) -> HandshakeError {
    match channel.channel().close_cause() {
        Some(CloseCause::Fault(fault)) => {
            fault.downcast_ref::<HandshakeError>().expect("of the handshake").clone()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reply_that_is_not_right_ends_the_connection() {
    let mut channel = client(Rc::default());
    let head = reply(&mut channel);
    channel.write_inbound(format!("{head}Sec-WebSocket-Accept: {}\r\n\r\n", accept_key("another")));
    assert_eq!(cause(&channel), HandshakeError::Proof);
    let mut channel = client(Rc::default());
    channel.write_inbound("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    let HandshakeError::Rejected(rejection) = cause(&channel) else { panic!("{:?}", cause(&channel)) };
    assert_eq!((rejection.status.as_u16(), &rejection.body[..], rejection.complete), (403, &b"no"[..], true));
}

#[test]
fn a_server_that_does_not_answer_has_ten_seconds() {
    let mut channel = client(Rc::default());
    channel.write_inbound("HTTP/1.1 10").advance(Duration::from_millis(9_999));
    assert!(channel.is_open());
    channel.advance(Duration::from_millis(2));
    assert_eq!(cause(&channel), HandshakeError::TimedOut(Duration::from_secs(10)));
}

#[cfg(feature = "tls")]
mod together {
    use super::*;
    use netwright_http::HttpServer;
    use netwright_tls::{
        Acceptor, Certificate, Connector, Roots, Tls,
        rustls::{ClientConnection, StreamOwned},
    };
    use netwright_transport::{Backend, Probe, Server, event_loops};
    use netwright_websocket::{Accept, Config, Deflate, OpenError, Upgrade, WebSocket, WebSocketClient};
    use std::{
        io::{ErrorKind, Read, Write},
        net::{TcpListener, TcpStream},
        sync::{Arc, mpsc},
    };

    async fn echo(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
        while let Some(message) = peer.read().await? {
            peer.write(message).await?;
        }
        Ok(())
    }

    fn server(tls: Option<Acceptor>, deflate: Deflate) -> Server {
        let accept = Arc::new(Accept::new(Config::default().deflate(deflate)));
        let pipe = move |_: &_| {
            let accept = accept.clone();
            pipeline().add(tls.as_ref().map(Tls::server)).joint(|switch| {
                let upgrade = Upgrade::new(switch, accept, |socket, _, _| pipeline().add(socket).serve(echo));
                pipeline().add(HttpServer::new()).add(upgrade).handle(|cx, _| cx.close()).sealed()
            })
        };
        Server::builder().group(event_loops(1).unwrap()).pipeline(pipe).bind("127.0.0.1:0").wait().unwrap()
    }

    /// Sends messages of many sizes and gets them back.
    async fn rounds(mut peer: Peer<Message, Message>, tell: mpsc::Sender<usize>) -> Result<(), CloseCause> {
        let mut total = 0;
        for len in [0, 1, 125, 126, 1000, 65_535, 65_536, 500_000] {
            let message = if len % 2 == 0 {
                Message::from("x".repeat(len))
            } else {
                Message::from((0..len).map(|n| ((n * n) >> 3) as u8).collect::<Vec<u8>>())
            };
            peer.write(message.clone()).await?;
            assert_eq!(peer.read().await?.as_ref(), Some(&message));
            total += len;
        }
        let _ = tell.send(total);
        Ok(())
    }

    fn run(client: &WebSocketClient, request: Request) {
        let (tell, told) = mpsc::channel();
        let channel = client.connect(request, |peer, _| rounds(peer, tell)).wait().unwrap();
        let cause = channel.closed().wait().unwrap();
        assert_eq!(told.recv(), Ok(632_323), "ended by {cause}");
        assert!(matches!(cause, CloseCause::Requested | CloseCause::PeerClosed), "{cause}");
    }

    #[test]
    fn both_sides_talk_over_loopback() {
        let deflates =
            [None, Some(Deflate::default()), Some(Deflate::default().takeover(true).window_bits(10))];
        for deflate in deflates {
            let server = server(None, deflate.clone().unwrap_or_default());
            let mut config = Config::default();
            if let Some(deflate) = deflate {
                config = config.deflate(deflate);
            }
            let client = WebSocketClient::new(event_loops(1).unwrap());
            let url = format!("ws://{}/", server.local_addr().unwrap());
            run(&client, Request::new(&url).unwrap().config(config));
            let refused = |url: &str| client.connect(url, |peer, _| echo(peer)).wait().unwrap_err();
            assert!(matches!(refused("wss://localhost/"), OpenError::NoTls));
            assert!(matches!(refused("http://localhost/"), OpenError::Request(_)));
        }
    }

    #[test]
    fn both_sides_talk_through_tls() {
        let certificate = Certificate::self_signed(["localhost"]).unwrap();
        let server = server(Some(Acceptor::new(&certificate).unwrap()), Deflate::default());
        let connector = Connector::builder().roots(Roots::of(&certificate).unwrap()).build().unwrap();
        let client = WebSocketClient::new(event_loops(1).unwrap()).tls(connector);
        let url = format!("wss://localhost:{}/", server.local_addr().unwrap().port());
        run(&client, Request::new(&url).unwrap());
    }

    #[test]
    fn a_server_that_shuts_down_says_goodbye() {
        let server = server(None, Deflate::default());
        let client = WebSocketClient::new(event_loops(1).unwrap());
        let (tell, told) = mpsc::channel();
        let url = format!("ws://{}/", server.local_addr().unwrap());
        let request = Request::new(&url).unwrap().config(Config::default().show_control(true));
        let serve = |mut peer: Peer<Message, Message>, _| async move {
            peer.write(Message::from("are you there?")).await?;
            while let Some(message) = peer.read().await? {
                let _ = tell.send(message);
            }
            Ok::<(), CloseCause>(())
        };
        let channel = client.connect(request, serve).wait().unwrap();
        assert_eq!(told.recv().unwrap(), Message::from("are you there?"));
        server.drain(Duration::from_secs(5)).wait().unwrap();
        let Message::Close(close) = told.recv().unwrap() else { panic!("no close") };
        assert_eq!(close.to_string(), "1001");
        channel.closed().wait().unwrap();
    }

    /// Without the noise of the hook.
    async fn stumble(mut peer: Peer<Message, Message>) {
        if peer.read().await.is_ok() {
            std::panic::resume_unwind(Box::new("stumbled"));
        }
    }

    #[test]
    fn a_peer_of_code_that_panics_hears_1011_whatever_carries_the_bytes() {
        let certificate = Certificate::self_signed(["localhost"]).unwrap();
        let acceptor = Acceptor::new(&certificate).unwrap();
        let connector = Connector::builder().roots(Roots::of(&certificate).unwrap()).build().unwrap();
        let mut backends = vec![Backend::Readiness, Backend::Blocking];
        backends.extend(Probe::run(Backend::Uring).works().then_some(Backend::Uring));
        for (backend, tls) in backends.into_iter().flat_map(|backend| [(backend, false), (backend, true)]) {
            let acceptor = tls.then(|| acceptor.clone());
            let server = Server::builder()
                .group(backend.event_loops(1).unwrap())
                .pipeline(move |_| {
                    let tls = acceptor.as_ref().map(Tls::server);
                    pipeline().add(tls).add(WebSocket::server(Config::default())).serve(stumble)
                })
                .bind("127.0.0.1:0")
                .wait()
                .unwrap();
            let mut socket = TcpStream::connect(server.local_addr().unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let (message, mut said) = (frame(Opcode::Text, "boo"), Vec::new());
            if tls {
                let name = "localhost".try_into().unwrap();
                let tls = ClientConnection::new(connector.config().clone(), name).unwrap();
                let mut stream = StreamOwned::new(tls, socket);
                stream.write_all(&message).unwrap();
                // The end is no close of TLS: that would say that all is well.
                let _ = stream.read_to_end(&mut said);
            } else {
                socket.write_all(&message).unwrap();
                socket.read_to_end(&mut said).unwrap();
            }
            let close = (Opcode::Close, false, 1011_u16.to_be_bytes().to_vec());
            assert_eq!(frames_of(Role::Server, &said), [close], "{backend}, with TLS: {tls}");
        }
    }

    #[test]
    fn a_peer_that_sends_and_never_reads_is_given_up_whatever_carries_the_bytes() {
        let certificate = Certificate::self_signed(["localhost"]).unwrap();
        let acceptor = Acceptor::new(&certificate).unwrap();
        let connector = Connector::builder().roots(Roots::of(&certificate).unwrap()).build().unwrap();
        let mut backends = vec![Backend::Readiness, Backend::Blocking];
        backends.extend(Probe::run(Backend::Uring).works().then_some(Backend::Uring));
        for (backend, tls) in backends.into_iter().flat_map(|backend| [(backend, false), (backend, true)]) {
            let acceptor = tls.then(|| acceptor.clone());
            let (tell, told) = mpsc::channel();
            let server = Server::builder()
                .group(backend.event_loops(1).unwrap())
                .pipeline(move |_| {
                    let config = Config::default().ping_after(Some(Duration::from_millis(200)));
                    let mut socket = WebSocket::server(config.pong_deadline(Duration::from_millis(100)));
                    let tell = tell.clone();
                    socket.over().listen(move |cause| drop(tell.send(cause.clone())));
                    pipeline().add(acceptor.as_ref().map(Tls::server)).add(socket).serve(echo)
                })
                .bind("127.0.0.1:0")
                .wait()
                .unwrap();
            let mut socket = TcpStream::connect(server.local_addr().unwrap()).unwrap();
            socket.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
            let message = frame(Opcode::Binary, vec![7; 500_000]);
            let refused = if tls {
                let name = "localhost".try_into().unwrap();
                let mut tls = ClientConnection::new(connector.config().clone(), name).unwrap();
                while tls.is_handshaking() {
                    tls.complete_io(&mut socket).unwrap();
                }
                let mut pieces = message.chunks(10_000).cycle();
                loop {
                    tls.writer().write_all(pieces.next().unwrap()).unwrap();
                    if let Err(error) =
                        std::iter::from_fn(|| tls.wants_write().then(|| tls.write_tls(&mut socket)))
                            .collect::<Result<Vec<_>, _>>()
                    {
                        break error;
                    }
                }
            } else {
                loop {
                    if let Err(error) = socket.write_all(&message) {
                        break error;
                    }
                }
            };
            assert_ne!(refused.kind(), ErrorKind::WouldBlock, "{backend}, with TLS: {tls}: it is kept");
            let cause = told.recv_timeout(Duration::from_secs(60)).expect("it has ended").unwrap();
            assert!(matches!(cause, CloseCause::TimedOut(_)), "{backend}, with TLS: {tls}: {cause}");
        }
    }

    /// A connector that trusts nobody who is there.
    fn connector() -> Connector {
        let certificate = Certificate::self_signed(["localhost"]).unwrap();
        Connector::builder().roots(Roots::of(&certificate).unwrap()).build().unwrap()
    }

    #[test]
    fn wss_to_a_host_that_tls_has_no_name_for_is_refused_and_sends_nothing() {
        let client = WebSocketClient::new(event_loops(1).unwrap()).tls(connector());
        for host in ["127.1", "2130706433", "0x7f.1", "0"] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let url = format!("wss://{host}:{}/", listener.local_addr().unwrap().port());
            let error = client.connect(&*url, |peer, _| echo(peer)).wait().unwrap_err();
            assert!(matches!(error, OpenError::Tls(_)), "{url}: {error}");
            assert!(error.to_string().contains(host), "{error}");
            assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "{url}: somebody came");
        }
    }

    #[test]
    fn a_wss_request_leaves_on_an_encrypted_connection_or_not_at_all() {
        let request = || Request::new("wss://localhost/secret").unwrap();
        // Nothing in front.
        let mut channel: Outside = EmbeddedChannel::with_joint(
            request().pipeline(|socket, _, _| pipeline().add(socket).serve(echo)),
        );
        assert_eq!((cause(&channel), channel.outbound_bytes().len()), (HandshakeError::NotSecure, 0));
        // Something, which is no TLS.
        let open = |switch| request().open(switch, |socket, _, _| pipeline().add(socket).serve(echo));
        let mut channel: Outside = EmbeddedChannel::with_joint(pipeline().joint(open));
        channel.advance(netwright_websocket::HANDSHAKE_DEADLINE);
        assert!(!channel.is_open());
        assert_eq!(channel.outbound_bytes(), b"");
        // TLS: a handshake, and nothing else before it is done.
        let localhost = connector().to("localhost").unwrap();
        let front = pipeline().add(Tls::to(&localhost));
        let mut channel: Outside = EmbeddedChannel::with_joint(front.joint(open));
        let sent = channel.outbound_bytes();
        assert_eq!(sent[0], 22, "a record of a handshake");
        assert!(!sent.windows(6).any(|bytes| bytes == b"secret"));
    }
}
