//! What TLS may allocate and hold on its loop's thread, once everything has grown to its size.
//!
//! rustls itself allocates the plaintext of each record that it decrypts and the ciphertext of each that it encrypts; beyond
//! that there is nothing.

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, EmbeddedChannel, EventLoop, Outgoing, pipeline};
use netwright_testkit::{CountingAllocator, allocations_so_far, bytes_in_use};
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
    type Write = Outgoing;
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
            let before = allocations_on(&event_loop);
            echo(MESSAGES);
            let each = (allocations_on(&event_loop) - before) as f64 / MESSAGES as f64;
            println!("{versions:?}: {each} allocations for a message of {size} bytes");
            // The plaintext and the ciphertext; for a large message also the piece that is sent, and what completes a record
            // that came in two reads.
            let allowed = if size <= 4096 { 2.01 } else { 6.01 };
            assert!(each <= allowed, "{each} allocations for a message of {size} bytes");
        }
    }
}

#[test]
fn an_idle_connection_keeps_no_buffer_whatever_went_through_it() {
    const PAIRS: usize = 20;
    let certificate = Certificate::self_signed(["localhost"]).unwrap();
    let acceptor = Acceptor::new(&certificate).unwrap();
    let connector = Connector::builder().roots(Roots::of(&certificate).unwrap()).build().unwrap();
    let pair = || {
        let client = EmbeddedChannel::new(pipeline().add(Tls::client(&connector, "localhost").unwrap()));
        let server = EmbeddedChannel::new(pipeline().add(Tls::server(&acceptor)));
        (client, server)
    };
    type End = EmbeddedChannel<BytesMut, Outgoing>;
    let talk = |(client, server): &mut (End, End), size: usize| {
        client.write_outbound(Bytes::from(vec![1; size]));
        server.write_outbound(Bytes::from(vec![2; size]));
        loop {
            let (there, back) = (client.outbound_bytes(), server.outbound_bytes());
            if there.is_empty() && back.is_empty() {
                break;
            }
            // Cut in the middle of a record: what is not whole is kept until it is.
            let (first, rest) = there.split_at(there.len() / 2);
            server.write_inbound(first).write_inbound(rest);
            client.write_inbound(back);
        }
        while client.read_inbound().is_some() || server.read_inbound().is_some() {}
    };
    // What the connections of a thread share is there after this.
    let mut first = pair();
    [10, 100, 5_000, 60_000].into_iter().for_each(|size| talk(&mut first, size));
    let before = bytes_in_use();
    let mut pairs: Vec<_> = (0..PAIRS).map(|_| pair()).collect();
    pairs.iter_mut().for_each(|pair| talk(pair, 10));
    let shaken = bytes_in_use();
    for size in [100, 5_000, 60_000, 60_000] {
        pairs.iter_mut().for_each(|pair| talk(pair, size));
    }
    pairs.iter_mut().for_each(|pair| talk(pair, 10));
    let after = bytes_in_use();
    let (each, grown) = ((shaken - before) / 2 / PAIRS as i64, (after - shaken) / 2 / PAIRS as i64);
    println!("{each} bytes for one end with its loop, {grown} more when data went through");
    assert!(grown < 100, "each end keeps {grown} bytes more than after its handshake");
    let used = bytes_in_use();
    for _ in 0..3 {
        pairs.iter_mut().for_each(|pair| talk(pair, 60_000));
    }
    assert!((bytes_in_use() - used).abs() < 10_000, "and from there on nothing is added");
}
