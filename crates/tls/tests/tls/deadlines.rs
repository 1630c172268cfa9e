//! Every state in which a peer can leave a connection, and the deadline that ends it.
//!
//! | state | deadline |
//! | --- | --- |
//! | nothing has come, a part of the ClientHello, one byte after the other | `handshake_deadline` |
//! | somebody is asked for a certificate, a worker has the connection | `handshake_deadline` |
//! | the answer to our hello, the last flight, part of a message; the peer does not take our flight | `handshake_deadline` |
//! | a record, or a message of several, that has begun | `record_deadline` |
//! | answers that wait for a peer that has ended its side | `answers_deadline` |
//! | answers that wait for any other peer | not here: transports have a least rate for what they send |
//! | nothing has begun, in one direction or in both | not here: what lies behind knows whether something is due |
//!
//! We never wait for a `close_notify`: a close says ours and ends. Who ends only its output goes on reading.

use crate::{
    rogue::{instead, rogue, send_something},
    support::*,
};
use netwright_core::{HostSettings, Workers};
use netwright_tls::{Acceptor, Connector, Roots, Tls};
use std::{future::pending, sync::mpsc, time::Duration};

const HANDSHAKE: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(1);

/// A server in a state, and for how long its peer may leave it there. What else must stay alive comes along.
type State = (&'static str, Duration, fn() -> (End, Box<dyn std::any::Any>));

fn server() -> End {
    End::new(Tls::server(&acceptor()))
}

fn hello() -> Vec<u8> {
    End::new(Tls::client(&connector(), "localhost").unwrap()).channel.outbound_bytes()
}

/// An open connection whose client has sent a part of this.
fn open_with_part_of(send: impl FnOnce(&mut End)) -> End {
    let (mut client, mut server) = (rogue(), server());
    pump(&mut client, &mut server);
    send(&mut client);
    let bytes = client.channel.outbound_bytes();
    server.channel.write_inbound(&bytes[..bytes.len() - 1]);
    server
}

fn states() -> Vec<State> {
    vec![
        ("nothing has come", HANDSHAKE, || (server(), Box::new(()))),
        ("a part of the hello has come", HANDSHAKE, || {
            let mut server = server();
            server.channel.write_inbound(&hello()[..50]);
            (server, Box::new(()))
        }),
        ("the hello comes byte by byte", HANDSHAKE, || {
            let mut server = server();
            for byte in &hello()[..50] {
                server.channel.write_inbound([*byte]);
            }
            (server, Box::new(()))
        }),
        ("somebody looks for a certificate", HANDSHAKE, || {
            let acceptor = Acceptor::builder().resolve_async(|_| pending()).build().unwrap();
            let mut server: End = End::new(Tls::server(&acceptor));
            server.channel.write_inbound(hello());
            (server, Box::new(()))
        }),
        ("a worker has it", HANDSHAKE, || {
            let workers = Workers::new(1).unwrap();
            let (let_go, held) = mpsc::channel::<()>();
            drop(workers.submit(move || held.recv()));
            let acceptor =
                Acceptor::builder().certificate(certificate()).handshakes_on(&workers).build().unwrap();
            let mut server: End = End::new(Tls::server(&acceptor));
            server.channel.write_inbound(hello());
            (server, Box::new((let_go, workers)))
        }),
        ("the last flight is missing", HANDSHAKE, || {
            let mut server = server();
            server.channel.write_inbound(hello()).outbound_bytes();
            (server, Box::new(()))
        }),
        ("our flight is not taken", HANDSHAKE, || {
            let mut server = server();
            server.channel.block_output(true).write_inbound(hello());
            (server, Box::new(()))
        }),
        ("a client's hello is not answered", HANDSHAKE, || {
            (End::new(Tls::client(&connector(), "localhost").unwrap()), Box::new(()))
        }),
        ("a client has a part of the answer", HANDSHAKE, || {
            let mut client: End = End::new(Tls::client(&connector(), "localhost").unwrap());
            let mut server = server();
            let answer = server.channel.write_inbound(client.channel.outbound_bytes()).outbound_bytes();
            client.channel.write_inbound(&answer[..answer.len() - 1]);
            (client, Box::new(server))
        }),
        ("a record has begun", MINUTE, || (open_with_part_of(|client| client.send("data")), Box::new(()))),
        ("a message in two records has begun", MINUTE, || {
            let server = open_with_part_of(|client| {
                instead(&[(22, &[24, 0, 0])]);
                send_something(client);
                client.send("x");
            });
            (server, Box::new(()))
        }),
        ("answers are not taken by a peer that has ended", MINUTE, || {
            let (mut client, mut server) = open_pair();
            server.channel.block_output(true);
            server.send(vec![7; 1_000_000]);
            drop(client.channel.channel().close());
            server.channel.write_inbound(client.channel.run().outbound_bytes());
            (server, Box::new(()))
        }),
    ]
}

#[test]
fn every_state_has_its_deadline() {
    for (state, deadline, reach) in states() {
        let (mut end, _kept) = reach();
        assert!(end.channel.is_open(), "{state}");
        end.channel.advance(deadline - MOMENT);
        assert!(end.channel.is_open(), "{state}: cut before {deadline:?}");
        end.channel.advance(MOMENT);
        assert!(!end.channel.is_open(), "{state}: still open after {deadline:?}");
    }
}

#[test]
fn bytes_that_come_one_by_one_do_not_make_a_record_last() {
    let (mut client, mut server) = open_pair();
    client.send(vec![0; 1000]);
    for byte in &client.channel.outbound_bytes()[..120] {
        server.channel.write_inbound([*byte]).advance(Duration::from_secs(1));
    }
    assert!(!server.channel.is_open());
    assert!(server.log.has("a TLS record had begun"), "{:?}", server.log.lines());
}

#[test]
fn records_that_are_completed_in_time_may_begin_for_ever() {
    let (mut client, mut server) = open_pair();
    let mut received = 0;
    for _ in 0..20 {
        client.send("half, and half");
        let record = client.channel.outbound_bytes();
        let (one, other) = record.split_at(record.len() / 2);
        server.channel.write_inbound(one).advance(MINUTE - MOMENT).write_inbound(other);
        received += server.received().len();
    }
    assert_eq!((received, server.channel.is_open()), (20 * 14, true));
    server.channel.advance(MINUTE * 60);
    assert!(server.channel.is_open(), "nothing has begun");
}

#[test]
fn a_record_that_nobody_wants_to_read_does_not_have_to_come() {
    let mut client: End = End::new(Tls::client(&connector(), "localhost").unwrap());
    let mut server: End = End::with(Tls::server(&acceptor()), HostSettings::default(), true);
    pump(&mut client, &mut server);
    client.send("half");
    let record = client.channel.outbound_bytes();
    server.channel.write_inbound(&record[..10]);
    server.channel.channel().pause();
    server.channel.advance(MINUTE * 3);
    assert!(server.channel.is_open());
    server.channel.channel().resume();
    server.channel.write_inbound(&record[10..]);
    assert_eq!(server.received(), b"half");
}

#[test]
fn limits_of_ones_own_hold_for_both_sides() {
    let mut limits = netwright_tls::TlsLimits::default();
    limits.record_deadline = Duration::from_secs(3);
    let acceptor = Acceptor::builder().certificate(certificate()).limits(limits).build().unwrap();
    let connector =
        Connector::builder().roots(Roots::of(certificate()).unwrap()).limits(limits).build().unwrap();
    for to_server in [true, false] {
        let (mut client, mut server) = pair_of(&acceptor, &connector);
        pump(&mut client, &mut server);
        let (from, to) = if to_server { (&mut client, &mut server) } else { (&mut server, &mut client) };
        from.send("half");
        to.channel.write_inbound(&from.channel.outbound_bytes()[..10]).advance(limits.record_deadline);
        assert!(!to.channel.is_open());
    }
}
