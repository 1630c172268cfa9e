//! Streams of bytes that leave their loop, and upgrades of hyper's by them.
#![cfg(all(feature = "hyper", feature = "tokio"))]

use bytes::Bytes;
use http_body_util::Empty;
use hyper::{
    Request, Response, StatusCode, body::Incoming, header, server::conn::http1, service::service_fn,
};
use netwright_bridge::{Carry, PeerIo, SendIo};
use netwright_core::{CloseCause, EmbeddedChannel, Outgoing, Peer, pipeline};
use netwright_transport::{Backend, Server};
use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    pin::pin,
    sync::mpsc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Runtime,
};

/// Longer than any healthy step takes; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

fn on_every_backend(test: impl Fn(Backend)) {
    for backend in [Backend::Readiness, Backend::Blocking, Backend::Uring] {
        match backend.event_loops(1) {
            Ok(_) => test(backend),
            Err(error) => println!("ignored for {backend:?}: {error}"),
        }
    }
}

/// A server that hands the stream of each connection to this.
fn server(backend: Backend, hand: impl Fn(SendIo) + Send + Sync + Clone + 'static) -> Server {
    Server::builder()
        .backend(backend)
        .half_closure(true)
        .pipeline(move |_| {
            let hand = hand.clone();
            pipeline().serve(move |peer: Peer| async move {
                let (io, carry) = PeerIo::sendable(peer);
                hand(io);
                carry.await;
            })
        })
        .bind("127.0.0.1:0")
        .wait()
        .unwrap()
}

fn dial(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn a_stream_of_bytes_may_go_to_other_threads() {
    fn goes<T: Send + 'static>() {}
    goes::<SendIo>();
}

/// Answers with 101 and echoes what comes behind it, on the runtime that this runs on.
async fn switch(mut request: Request<Incoming>) -> hyper::Result<Response<Empty<Bytes>>> {
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let parts = upgrade.await.unwrap().downcast::<SendIo>().unwrap();
        let mut io = parts.io;
        io.write_all(&parts.read_buf).await.unwrap();
        let mut piece = [0; 1000];
        loop {
            match io.read(&mut piece).await.unwrap() {
                0 => break,
                len => io.write_all(&piece[..len]).await.unwrap(),
            }
        }
    });
    let reply = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "echo");
    Ok(reply.body(Empty::new()).unwrap())
}

#[test]
fn a_connection_that_hyper_upgrades_goes_on_in_another_protocol() {
    let runtime = Runtime::new().unwrap();
    on_every_backend(|backend| {
        let handle = runtime.handle().clone();
        let server = server(backend, move |io| {
            let connection = http1::Builder::new().serve_connection(io, service_fn(switch)).with_upgrades();
            drop(handle.spawn(connection));
        });
        let mut stream = dial(&server);
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nat once, ")
            .unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", head.escape_ascii());
        for _ in 0..100 {
            stream.write_all(b"and again, ").unwrap();
        }
        stream.shutdown(Shutdown::Write).unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, format!("at once, {}", "and again, ".repeat(100)), "{backend:?}");
    });
}

#[test]
fn what_was_written_before_a_stream_is_dropped_arrives_and_then_the_end() {
    let runtime = Runtime::new().unwrap();
    on_every_backend(|backend| {
        let handle = runtime.handle().clone();
        let server = server(backend, move |mut io| {
            drop(handle.spawn(async move {
                for number in 0..100_u8 {
                    io.write_all(&[number; 10_007]).await.unwrap();
                }
            }));
        });
        for _ in 0..20 {
            let mut all = Vec::new();
            dial(&server).read_to_end(&mut all).unwrap();
            let expected: Vec<u8> = (0..100_u8).flat_map(|number| [number; 10_007]).collect();
            assert!(all == expected, "{backend:?}: {} of {} bytes", all.len(), expected.len());
        }
    });
}

#[test]
fn the_half_that_is_dropped_last_ends_the_channel_and_a_writer_its_direction() {
    let runtime = Runtime::new().unwrap();
    on_every_backend(|backend| {
        let (handle, (tell, told)) = (runtime.handle().clone(), mpsc::channel());
        let server = server(backend, move |io| {
            let (mut read, mut write) = io.into_split();
            let tell = tell.clone();
            drop(handle.spawn(async move {
                write.write_all(b"all of it").await.unwrap();
                drop(write);
                let mut all = Vec::new();
                tell.send((read.read_to_end(&mut all).await.unwrap(), all)).unwrap();
            }));
        });
        let mut stream = dial(&server);
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        assert_eq!(all, "all of it", "{backend:?}");
        stream.write_all(b"an answer").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), (9, b"an answer".to_vec()));
    });
}

/// A channel whose stream is here, and who carries for it.
fn embedded() -> (EmbeddedChannel<std::convert::Infallible, Outgoing>, SendIo) {
    let (tell, told) = mpsc::channel();
    let channel = EmbeddedChannel::new(pipeline().serve(move |peer: Peer| async move {
        let (io, carry): (_, Carry) = PeerIo::sendable(peer);
        tell.send(io).unwrap();
        carry.await;
    }));
    (channel, told.recv().unwrap())
}

/// One try to read.
fn try_read(io: &mut SendIo) -> Poll<std::io::Result<Vec<u8>>> {
    let mut piece = [0; 100];
    let read = pin!(io.read(&mut piece)).poll(&mut Context::from_waker(Waker::noop()));
    read.map_ok(|len| piece[..len].to_vec())
}

#[test]
fn nothing_is_read_that_was_not_asked_for() {
    let (mut channel, mut io) = embedded();
    channel.run();
    assert!(!channel.wants_read());
    assert!(try_read(&mut io).is_pending());
    channel.run();
    assert!(channel.wants_read());
    channel.write_inbound("one").write_inbound("two");
    assert!(!channel.wants_read(), "one is enough until somebody asks again");
    assert!(matches!(try_read(&mut io), Poll::Ready(Ok(bytes)) if bytes == b"one"));
}

#[test]
fn what_had_come_can_be_read_behind_the_end_of_the_channel() {
    let (mut channel, mut io) = embedded();
    assert!(try_read(&mut io).is_pending());
    channel.run().write_inbound("one").write_inbound("two").close_by_peer();
    assert!(matches!(try_read(&mut io), Poll::Ready(Ok(bytes)) if bytes == b"one"));
    assert!(try_read(&mut io).is_pending());
    channel.run();
    assert!(matches!(try_read(&mut io), Poll::Ready(Ok(bytes)) if bytes == b"two"));
    assert!(matches!(try_read(&mut io), Poll::Ready(Ok(bytes)) if bytes.is_empty()));
    assert!(matches!(try_read(&mut io), Poll::Ready(Ok(bytes)) if bytes.is_empty()), "and so it stays");
    let write = pin!(io.write_all(b"too late")).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(write, Poll::Ready(Err(error)) if error.kind() == ErrorKind::BrokenPipe));
}

#[test]
fn a_channel_that_goes_with_its_tail_is_told_to_the_stream() {
    let (mut channel, mut io) = embedded();
    assert!(try_read(&mut io).is_pending());
    drop(channel.channel().close_because(CloseCause::ShutDown));
    channel.run();
    assert!(matches!(try_read(&mut io), Poll::Ready(Err(error)) if error.kind() == ErrorKind::NotConnected));
    let (channel, mut io) = embedded();
    drop(channel);
    assert!(matches!(try_read(&mut io), Poll::Ready(Err(_))), "its loop is gone");
}

#[test]
fn a_peer_that_does_not_read_holds_its_writer_back() {
    let (mut channel, mut io) = embedded();
    channel.block_output(true);
    let mut taken = 0;
    loop {
        let write = pin!(io.write(&[7; 10_000])).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(len) = write else { break };
        taken += len.unwrap();
        channel.run();
        assert!(taken < 1_000_000, "more than a channel takes");
    }
    channel.block_output(false);
    assert_eq!(channel.outbound_bytes().len(), taken, "what was written was flushed for lack of room");
    let write = pin!(io.write(b"more")).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(write, Poll::Ready(Ok(4))));
}
