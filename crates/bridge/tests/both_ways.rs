//! Tokio programs that use Netwright, and handlers that use a tokio runtime: plain futures, no bridge needed.

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, CloseCause, EventLoop, Outgoing, Peer, pipeline, promise};
use netwright_transport::{Client, Server, event_loops};
use std::{
    error::Error,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::{Builder, Handle, Runtime},
};

type AnyError = Box<dyn Error + Send + Sync>;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

async fn echo(mut peer: Peer) -> Result<(), CloseCause> {
    while let Some(bytes) = peer.read().await? {
        peer.write(bytes.freeze()).await?;
    }
    Ok(())
}

/// Everything that Netwright promises is awaited on tokio: groups, binding, connecting, writing, closing, the end.
async fn a_tokio_program() -> Result<(), AnyError> {
    let server = Server::builder().group(event_loops(1)?).pipeline(|_| pipeline().serve(echo));
    let server = server.bind("127.0.0.1:0").await?;

    let (answer, answered) = promise::<BytesMut, netwright_core::PromiseError>();
    let answer = Arc::new(Mutex::new(Some(answer)));
    let client = Client::builder().pipeline(move || {
        let answer = answer.clone();
        pipeline().handle(move |_, bytes: BytesMut| {
            if let Some(answer) = answer.lock().unwrap().take() {
                answer.succeed(bytes);
            }
        })
    })?;
    let channel = client.connect(server.address()).await?;
    channel.send(Bytes::from("ping")).await?;
    assert_eq!(answered.await?, "ping");
    assert!(matches!(channel.close().await, CloseCause::Requested));

    let sum = server.group().next().spawn(async { 40 + 2 })?;
    assert_eq!(sum.await?, 42);
    assert_eq!(server.drain(Duration::from_secs(10)).await?.cut, 0);
    server.group().shutdown_gracefully(Duration::ZERO, Duration::from_secs(10))?.await?;
    Ok(())
}

#[test]
fn a_tokio_program_awaits_all_that_netwright_promises() {
    let runtime = runtime();
    // On a worker thread of the runtime as well as in `block_on`: all of it is `Send`.
    runtime.block_on(async { tokio::spawn(a_tokio_program()).await }).unwrap().unwrap();
    runtime.block_on(a_tokio_program()).unwrap();
}

/// Asks a server on a tokio runtime, and answers on its own loop.
struct Asks {
    tokio: Handle,
    upstream: std::net::SocketAddr,
    home: EventLoop,
    answered: usize,
}

impl Application for Asks {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, question: BytesMut) {
        let upstream = self.upstream;
        let asked = self.tokio.spawn(async move {
            let mut stream = tokio::net::TcpStream::connect(upstream).await?;
            stream.write_all(&question).await?;
            stream.shutdown().await?;
            tokio::time::sleep(Duration::from_millis(1)).await; // tokio's time, on tokio's threads
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            Ok::<_, io::Error>(answer)
        });
        cx.spawn(asked, |asks, cx, answer| {
            assert!(asks.home.in_event_loop(), "the answer is back where the handler lives");
            asks.answered += 1;
            match answer {
                Ok(Ok(answer)) => cx.write_and_flush(format!("{}: {}", asks.answered, answer.escape_ascii())),
                Ok(Err(error)) => cx.fire_error(error),
                Err(error) => cx.fire_error(error), // the task panicked, or its runtime has ended
            }
        });
    }
}

#[test]
fn a_handler_hands_work_to_a_tokio_runtime_and_gets_the_result_on_its_loop() {
    let runtime = runtime();
    let upstream = Server::builder().group(event_loops(1).unwrap()).half_closure(true);
    let upstream = upstream.pipeline(|_| pipeline().serve(echo)).bind("127.0.0.1:0").wait().unwrap();
    let group = event_loops(1).unwrap();
    let (tokio, home, upstream_at) = (runtime.handle().clone(), group.next(), upstream.local_addr().unwrap());
    let server = Server::builder()
        .group(group)
        .pipeline(move |_| {
            let (tokio, home) = (tokio.clone(), home.clone());
            pipeline().app(Asks { tokio, upstream: upstream_at, home, answered: 0 })
        })
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let address = server.local_addr().unwrap();
    let answer = runtime.block_on(async move {
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        let mut answer = [0; 6];
        stream.write_all(b"one").await?;
        stream.read_exact(&mut answer).await?;
        assert_eq!(&answer, b"1: one");
        stream.write_all(b"two").await?;
        stream.read_exact(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    });
    assert_eq!(&answer.unwrap(), b"2: two");
}

#[test]
fn a_runtime_that_ends_under_a_handler_is_an_error_of_its_pipeline() {
    let runtime = runtime();
    let group = event_loops(1).unwrap();
    let (tokio, home) = (runtime.handle().clone(), group.next());
    let server = Server::builder()
        .group(group)
        .pipeline(move |_| {
            let (tokio, home) = (tokio.clone(), home.clone());
            // Nobody answers there: the address is for documentation.
            pipeline().app(Asks { tokio, upstream: ([192, 0, 2, 1], 9).into(), home, answered: 0 })
        })
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    runtime.shutdown_background();
    let mut stream = std::net::TcpStream::connect(server.local_addr().unwrap()).unwrap();
    io::Write::write_all(&mut stream, b"anybody?").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let end = io::Read::read(&mut stream, &mut [0; 16]);
    assert!(matches!(end, Ok(0)) || end.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset));
}
