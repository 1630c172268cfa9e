//! Listeners whose loops are chosen by what fails: the server goes on, and counts what it refused.

#[allow(unused)]
mod support;

use netwright_core::{EventLoop, EventLoopGroup, pipeline};
use netwright_transport::{Backend, Server};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};
use support::{Soon, wait_until};

/// Says what it hears, on every connection.
fn echo(acceptors: EventLoopGroup, workers: EventLoopGroup) -> Server {
    Server::builder()
        .acceptors(acceptors)
        .group(workers)
        .pipeline(|_| pipeline().handle(|cx, bytes: bytes::BytesMut| cx.write_and_flush(bytes.freeze())))
        .bind("127.0.0.1:0")
        .soon()
        .unwrap()
}

fn talk(server: &Server) {
    let mut stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
    stream.write_all(b"ping").unwrap();
    let mut heard = [0; 4];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"ping");
}

#[test]
fn a_chooser_that_panics_costs_neither_the_listener_nor_the_connection() {
    for backend in [Backend::Readiness, Backend::Uring, Backend::Blocking] {
        let chooser = |_: &[EventLoop]| -> usize {
            std::panic::resume_unwind(Box::new("on purpose")) // without the hook: the output stays readable
        };
        let Ok(workers) = backend.group().loops(2).chooser(chooser).build() else { continue };
        let server = echo(backend.event_loops(1).unwrap(), workers);
        for _ in 0..4 {
            talk(&server);
        }
        let panics = server.group().figures().chooser_panics;
        assert!(panics >= 4, "{panics} panics, on {backend:?}");
        assert_eq!((server.figures().accepted, server.figures().refused), (4, 0));
    }
}

#[test]
fn connections_that_no_loop_can_take_are_counted_as_refused_and_the_listener_goes_on() {
    let workers = Backend::Readiness.event_loops(1).unwrap();
    let server = echo(Backend::Readiness.event_loops(1).unwrap(), workers.clone());
    talk(&server);
    workers.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5)).unwrap().wait().unwrap();
    for refused in 1..=2 {
        let mut stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
        assert!(!matches!(stream.read(&mut [0]), Ok(1..)), "nobody answers");
        wait_until(|| server.figures().refused_ended == refused, || format!("{:?}", server.figures()));
    }
    assert_eq!(server.figures().accepted, 3);
}
