//! TLS over real connections, on every backend.

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, CloseCause, Outgoing, Peer, pipeline};
use netwright_tls::{Acceptor, Certificate, Connector, Roots, Tls, TlsError};
use netwright_transport::{Backend, Client, Server};
use std::{
    sync::{OnceLock, mpsc},
    time::Duration,
};

/// Longer than any healthy step takes; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

fn certificate() -> &'static Certificate {
    static CERTIFICATE: OnceLock<Certificate> = OnceLock::new();
    CERTIFICATE.get_or_init(|| Certificate::self_signed(["localhost"]).unwrap())
}

fn acceptor() -> Acceptor {
    Acceptor::builder().certificate(certificate()).half_closure(true).build().unwrap()
}

fn connector() -> Connector {
    Connector::builder().roots(Roots::of(certificate()).unwrap()).half_closure(true).build().unwrap()
}

/// Sends everything back, no faster than the peer reads.
struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
        if !cx.is_writable() {
            cx.pause();
        }
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        if writable {
            cx.resume();
        }
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
        cx.close_when_flushed();
    }
}

fn on_every_backend(test: impl Fn(Backend)) {
    for backend in [Backend::Readiness, Backend::Blocking, Backend::Uring] {
        match backend.event_loops(1) {
            Ok(_) => test(backend),
            Err(error) => println!("ignored for {backend:?}: {error}"),
        }
    }
}

fn echo_server(backend: Backend) -> Server {
    let acceptor = acceptor();
    Server::builder()
        .backend(backend)
        .half_closure(true)
        .pipeline(move |_| pipeline().add(Tls::server(&acceptor)).app(Echo))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap()
}

#[test]
fn messages_come_back_and_a_half_close_ends_the_conversation_in_order() {
    on_every_backend(|backend| {
        let server = echo_server(backend);
        let (tell, told) = mpsc::channel();
        let connector = connector();
        let client = Client::builder()
            .backend(backend)
            .half_closure(true)
            .pipeline(move || {
                let tell = tell.clone();
                let tls = Tls::client(&connector, "localhost").unwrap();
                pipeline().add(tls).serve(move |mut peer: Peer| async move {
                    for round in 0..100_u8 {
                        let message = Bytes::from(vec![round; 1 + usize::from(round) * 100]);
                        peer.write(message.clone()).await?;
                        let mut back = BytesMut::new();
                        while back.len() < message.len() {
                            back.unsplit(peer.read().await?.expect("an answer"));
                        }
                        assert!(back == message);
                    }
                    peer.shut_down_output();
                    let end = peer.read().await?;
                    tell.send(end).unwrap();
                    Ok::<(), CloseCause>(())
                })
            })
            .unwrap();
        let channel = client.connect(server.local_addr().unwrap()).wait().unwrap();
        let end = told.recv_timeout(PATIENCE);
        assert_eq!(end, Ok(None), "{backend:?}: {:?}", channel.close_cause());
    });
}

/// Counts what comes, and tells at the end.
struct Count {
    tell: mpsc::Sender<(u64, bool, CloseCause)>,
    count: u64,
    right: bool,
    expected: u64,
}

impl Application for Count {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        for byte in bytes {
            self.right &= byte == (self.count % 251) as u8;
            self.count += 1;
        }
        if self.count == self.expected {
            cx.shut_down_output();
        }
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        let _ = self.tell.send((self.count, self.right, cause));
    }
}

#[test]
fn megabytes_go_both_ways_at_once() {
    const SIZE: u64 = 8 * 1024 * 1024;
    on_every_backend(|backend| {
        let server = echo_server(backend);
        let (tell, told) = mpsc::channel();
        let connector = connector();
        let client = Client::builder()
            .backend(backend)
            .pipeline(move || {
                let count = Count { tell: tell.clone(), count: 0, right: true, expected: SIZE };
                pipeline().add(Tls::client(&connector, "localhost").unwrap()).app(count)
            })
            .unwrap();
        let channel = client.connect(server.local_addr().unwrap()).wait().unwrap();
        let all: Bytes = (0..SIZE).map(|number| (number % 251) as u8).collect::<Vec<_>>().into();
        let mut rest = all;
        while !rest.is_empty() {
            let len = rest.len().min(100_003);
            channel.write_and_flush(rest.split_to(len));
        }
        let (count, right, cause) = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!((count, right), (SIZE, true), "{backend:?}: {cause}");
    });
}

#[test]
fn a_peer_that_vanishes_is_told_from_one_that_says_goodbye() {
    use std::io::{Read, Write};
    on_every_backend(|backend| {
        let (tell, told) = mpsc::channel();
        let acceptor = acceptor();
        let server = Server::builder()
            .backend(backend)
            .pipeline(move |_| {
                let count = Count { tell: tell.clone(), count: 0, right: true, expected: u64::MAX };
                pipeline().add(Tls::server(&acceptor)).app(count)
            })
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        for polite in [true, false] {
            let config = connector().config().clone();
            let mut tls =
                netwright_tls::rustls::ClientConnection::new(config, "localhost".try_into().unwrap())
                    .unwrap();
            let mut socket = std::net::TcpStream::connect(server.local_addr().unwrap()).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut stream = netwright_tls::rustls::Stream::new(&mut tls, &mut socket);
            stream.write_all(&[0, 1, 2]).unwrap();
            if polite {
                tls.send_close_notify();
                tls.complete_io(&mut socket).unwrap();
            }
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            let (count, right, cause) = told.recv_timeout(PATIENCE).unwrap();
            assert_eq!((count, right), (3, true));
            match cause {
                CloseCause::PeerClosed => assert!(polite),
                CloseCause::Fault(fault) => {
                    assert!(
                        !polite
                            && matches!(fault.downcast_ref(), Some(TlsError::Truncated { unfinished: 0 }))
                    );
                }
                other => panic!("{backend:?}: {other}"),
            }
            let _ = socket.read(&mut [0; 100]);
        }
    });
}

/// Answers the first message with megabytes, and ends behind them.
struct Megabytes;

impl Application for Megabytes {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
        // As from another thread: an answer of its own would hold back the end behind the question.
        cx.channel().write_and_flush(Bytes::from(vec![7; MEGABYTES]));
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.close_when_flushed();
    }
}

/// More than any socket's buffers take.
const MEGABYTES: usize = 16 * 1024 * 1024;

#[test]
fn a_client_that_has_ended_its_side_gets_all_of_a_long_reply() {
    use netwright_tls::rustls::{ClientConnection, Stream};
    use std::io::{Read, Write};
    on_every_backend(|backend| {
        for half_closure in [true, false] {
            // Nothing is said about half-closure here: the channel's setting is enough.
            let acceptor = Acceptor::new(certificate()).unwrap();
            let server = Server::builder()
                .backend(backend)
                .half_closure(half_closure)
                .pipeline(move |_| pipeline().add(Tls::server(&acceptor)).app(Megabytes))
                .bind("127.0.0.1:0")
                .wait()
                .unwrap();
            for (goodbye, fin) in [(true, false), (true, true), (false, true)] {
                if half_closure && !goodbye {
                    continue; // the end of an attack: told as an error, which closes the channel
                }
                let config = connector().config().clone();
                let mut tls = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
                let mut socket = std::net::TcpStream::connect(server.local_addr().unwrap()).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                Stream::new(&mut tls, &mut socket).write_all(b"everything, please").unwrap();
                // Its first byte shows that the question was read.
                let mut received = vec![0; 1];
                Stream::new(&mut tls, &mut socket).read_exact(&mut received).unwrap();
                if goodbye {
                    tls.send_close_notify();
                    while tls.wants_write() {
                        tls.write_tls(&mut socket).unwrap();
                    }
                }
                if fin {
                    socket.shutdown(std::net::Shutdown::Write).unwrap();
                }
                let end = Stream::new(&mut tls, &mut socket).read_to_end(&mut received);
                let case = format!(
                    "{backend:?}, half-closure {half_closure}, goodbye {goodbye}, FIN {fin}: {end:?}"
                );
                assert_eq!(received.len(), MEGABYTES, "{case}");
                assert_eq!(end.is_ok(), goodbye, "{case}: who said goodbye gets one");
            }
        }
    });
}

#[test]
fn an_alert_reaches_a_peer_that_breaks_the_protocol() {
    use std::io::{Read, Write};
    // Half a ClientHello, and something else within it.
    let offence = [22, 3, 1, 0, 5, 1, 0, 1, 0, 3, 23, 3, 3, 0, 2, 1, 2];
    on_every_backend(|backend| {
        let server = echo_server(backend);
        for behind in [0, 1000] {
            let mut socket = std::net::TcpStream::connect(server.local_addr().unwrap()).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let bytes = [&offence[..], &vec![7; behind]].concat();
            socket.write_all(&bytes).unwrap();
            let mut alert = Vec::new();
            let _ = socket.read_to_end(&mut alert); // a reset, if it has not read everything
            assert_eq!(alert, [21, 3, 3, 0, 2, 2, 10], "{backend:?}, {behind} bytes behind");
        }
    });
}
