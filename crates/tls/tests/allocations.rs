//! What TLS may allocate and hold on its loop's thread, once everything has grown to its size.
//!
//! rustls itself allocates the plaintext of each record that it decrypts and the ciphertext of each that it encrypts; beyond
//! that there is nothing.

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, EventLoop, pipeline};
use netwright_testkit::{CountingAllocator, allocations_so_far};
use netwright_tls::{
    Acceptor, Certificate, Connector, Roots, Tls,
    rustls::{ClientConnection, Stream},
};
use netwright_transport::{Backend, Server};
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const PATIENCE: Duration = Duration::from_secs(60);
const MESSAGES: u64 = 1000;

struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

/// How often the loop's thread has allocated so far. Asking for it allocates nothing there.
fn allocations_on(event_loop: &EventLoop) -> u64 {
    const NOT_YET: u64 = u64::MAX;
    let answer = Arc::new(AtomicU64::new(NOT_YET));
    let inner = answer.clone();
    event_loop.execute(move || inner.store(allocations_so_far(), Ordering::Release)).unwrap();
    let start = Instant::now();
    loop {
        match answer.load(Ordering::Acquire) {
            NOT_YET => {
                assert!(start.elapsed() < PATIENCE, "the loop runs no task");
                std::thread::yield_now();
            }
            count => return count,
        }
    }
}

#[test]
fn an_echoed_message_allocates_what_rustls_does_and_nothing_else() {
    let certificate = Certificate::self_signed(["localhost"]).unwrap();
    for versions in [netwright_tls::rustls::ALL_VERSIONS, &[&netwright_tls::rustls::version::TLS12]] {
        let acceptor = Acceptor::builder().certificate(&certificate).versions(versions).build().unwrap();
        let server = Server::builder()
            .group(Backend::Readiness.event_loops(1).unwrap())
            .pipeline(move |_| pipeline().add(Tls::server(&acceptor)).app(Echo))
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let connector = Connector::builder().roots(Roots::of(&certificate).unwrap()).build().unwrap();
        let mut tls =
            ClientConnection::new(connector.config().clone(), "localhost".try_into().unwrap()).unwrap();
        let mut socket = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut stream = Stream::new(&mut tls, &mut socket);
        for size in [64, 4000, 15_000] {
            let (sent, mut back) = (vec![7; size], vec![0; size]);
            let mut echo = |messages| {
                for _ in 0..messages {
                    stream.write_all(&sent).unwrap();
                    stream.read_exact(&mut back).unwrap();
                    assert!(back == sent);
                }
            };
            echo(100);
            let event_loop = server.group().iter().next().unwrap();
            let before = allocations_on(event_loop);
            echo(MESSAGES);
            let each = (allocations_on(event_loop) - before) as f64 / MESSAGES as f64;
            println!("{versions:?}: {each} allocations for a message of {size} bytes");
            // The plaintext and the ciphertext; for a large message also the piece that is sent, and what completes a record
            // that came in two reads.
            let allowed = if size <= 4096 { 2.01 } else { 6.01 };
            assert!(each <= allowed, "{each} allocations for a message of {size} bytes");
        }
    }
}
