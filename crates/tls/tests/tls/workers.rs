//! Handshakes on other threads.

use crate::support::*;
use netwright_core::{EmbeddedChannel, Workers, pipeline};
use netwright_tls::{Acceptor, Connector, Roots, Tls, TlsError};
use std::time::Duration;

/// Carries bytes until both ends are done with the handshake, or one has failed.
fn pump_until_done(client: &mut End, server: &mut End, size: usize) {
    while !(client.handshake.is_done() && server.handshake.is_done()) {
        pump_in(client, server, size);
        if client.handshake.peek().is_some_and(|result| result.is_err()) {
            return;
        }
        client.channel.run();
        server.channel.run();
        std::thread::yield_now();
    }
}

#[test]
fn handshakes_run_on_workers_and_everything_stays_in_order() {
    let workers = Workers::new(2).unwrap();
    for version in VERSIONS {
        for size in [1, 10, 1000, usize::MAX] {
            let acceptor = Acceptor::builder()
                .certificate(certificate())
                .versions(version)
                .handshakes_on(&workers)
                .build()
                .unwrap();
            let connector = Connector::builder()
                .roots(Roots::of(certificate()).unwrap())
                .versions(version)
                .handshakes_on(&workers)
                .build()
                .unwrap();
            let (mut client, mut server) = pair_of(&acceptor, &connector);
            client.send("first ");
            server.send("from the server");
            pump_until_done(&mut client, &mut server, size);
            client.send("second");
            pump(&mut client, &mut server);
            assert_eq!(server.received(), b"first second");
            assert_eq!(client.received(), b"from the server");
            assert_eq!(server.log.lines()[..2], ["active", "handshake"]);
        }
    }
    assert!(workers.figures().completed > 0);
}

#[test]
fn while_the_handshake_is_away_nothing_is_read_and_the_deadline_still_counts() {
    let workers = Workers::new(1).unwrap();
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let _busy = workers.submit(move || wait.recv().is_ok()).unwrap();
    let acceptor = Acceptor::builder().certificate(certificate()).handshakes_on(&workers).build().unwrap();
    let (mut client, mut server) = pair_of(&acceptor, &connector());
    pump(&mut client, &mut server);
    assert!(!server.channel.wants_read(), "the connection is away");
    server.channel.advance(Duration::from_secs(10));
    assert!(matches!(server.failure(), TlsError::HandshakeTimedOut { .. }));
    assert!(!server.channel.is_open());
    release.send(()).unwrap();
}

#[test]
fn workers_that_take_nothing_any_more_fail_the_handshake() {
    let workers = Workers::new(1).unwrap();
    let acceptor = Acceptor::builder().certificate(certificate()).handshakes_on(&workers).build().unwrap();
    let _ = workers.shutdown_gracefully(Duration::ZERO);
    let (mut client, mut server) = pair_of(&acceptor, &connector());
    pump(&mut client, &mut server);
    assert!(matches!(server.failure(), TlsError::Workers(_)), "{}", server.failure());
    assert!(!server.channel.is_open() && !client.channel.is_open());
}

#[test]
fn the_whole_stage_can_live_on_a_worker() {
    let workers = Workers::new(1).unwrap();
    let stages = pipeline().add_on(&workers, Tls::server(&acceptor()));
    let mut server = EmbeddedChannel::new(stages.handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
    let mut client: End = End::new(Tls::client(&connector(), "localhost").unwrap());
    let message = vec![5; 1_000_000];
    client.send(message.clone());
    let mut received = Vec::new();
    while received.len() < message.len() {
        for piece in client.channel.outbound_bytes().chunks(50_000) {
            server.write_inbound(piece);
        }
        let back = server.run().outbound_bytes();
        client.channel.write_inbound(back);
        received.extend(client.received());
        assert!(client.channel.is_open() && server.is_open(), "{:?}", client.log.lines());
        std::thread::yield_now();
    }
    assert!(received == message);
}
