//! TLS, both sides: the handshake, and records that do not end.

use crate::{
    embedded::subject,
    row::{
        Drip::{Byte, Nothing, Takes},
        Limit::Ours,
        Seen, Subject, Table, at, between, cut, never, rows, timed_out,
    },
    wire::{self, much},
};
use bytes::{Bytes, BytesMut};
use netwright::{
    CloseCause, EmbeddedChannel, Outgoing, Workers,
    http::HttpServer,
    pipeline,
    pipeline::observe,
    tls::{Acceptor, Certificate, Connector, Resolved, Roots, Tls, TlsError},
};
use std::{
    future::pending,
    io::{Read, Write},
    net::TcpStream,
    sync::{OnceLock, mpsc},
    time::Duration,
};

pub(crate) const TABLE: Table = (
    "tls",
    rows! {
        nothing_has_come_of_a_client ["tls/src/handler.rs Phase::Hello"]
            by server(|_| Vec::new()) => "TlsLimits::handshake_deadline" at(10), too_late, Nothing("a byte begins a hello");
        within_the_head_of_a_record []
            by server(|hello| hello[..3].to_vec()) => "TlsLimits::handshake_deadline" at(10), too_late, Nothing("few bytes end it");
        within_a_hello []
            by server(|hello| hello[..60].to_vec()) => "TlsLimits::handshake_deadline" at(10), too_late, Byte(0);
        a_certificate_is_looked_for ["tls/src/handler.rs Phase::Resolving"]
            by resolving() => "TlsLimits::handshake_deadline" at(10), too_late, Byte(0);
        a_worker_has_the_handshake ["tls/src/handler.rs Phase::Away"]
            by away() => "TlsLimits::handshake_deadline" at(10), too_late, Byte(0);
        the_server_has_answered ["tls/src/handler.rs Phase::Handshaking"]
            by server(<[u8]>::to_vec) => "TlsLimits::handshake_deadline" at(10), too_late, Nothing("a byte begins a record");
        within_a_record_of_the_handshake []
            by server(|hello| [hello, RECORD].concat()) => "TlsLimits::handshake_deadline" at(10), too_late, Byte(0);
        nothing_has_come_of_a_server []
            by client(|_| Vec::new()) => "TlsLimits::handshake_deadline" at(10), too_late, Nothing("a byte begins a record");
        within_the_servers_hello []
            by client(|answer| answer[..60].to_vec()) => "TlsLimits::handshake_deadline" at(10), too_late, Nothing("its bytes are a hello");
        behind_the_servers_hello []
            by client(|answer| [&answer[..record(answer)], RECORD].concat()) => "TlsLimits::handshake_deadline" at(10), too_late, Byte(0);
        not_begun_before_the_first_word_in_clear ["tls/src/handler.rs Phase::Idle"]
            by before_start_tls() => "application" Ours("it asks for TLS"), never, Nothing("the application's protocol answers");
        open_and_nothing_comes ["tls/src/handler.rs Phase::Open"]
            by open(b"") => "application" Ours("it knows how long"), never, Nothing("a byte begins a record");
        within_a_record []
            by open(RECORD) => "TlsLimits::record_deadline" at(60), record_too_late, Byte(0);
        the_peers_close_notify_is_waited_for []
            by half_closed() => "application" Ours("it has only shut its output down"), never, Nothing("a byte begins a record");
        answers_wait_for_a_peer_that_has_said_goodbye []
            by goodbye() => "TlsLimits::answers_deadline" at(60), closed_by_peer, Nothing("nothing is read any more");
        within_a_record_before_a_request []
            by http(b"", RECORD) => "http::HttpLimits::idle_time" at(60), timed_out::<60>, Byte(0);
        within_a_record_of_headers []
            by http(b"GET / HTTP/1.1\r\n", RECORD) => "http::HttpLimits::head_time" at(10), told, Byte(0);
        within_a_record_of_a_body []
            by http(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", RECORD) => "http::HttpLimits::body_time" at(10), told, Byte(0);
        a_message_waits_to_be_taken []
            by speaks() => "LeastRate" between(60, 140), cut, Takes;
    },
);

/// The beginning of a record of 4 KiB.
const RECORD: &[u8] = &[0x17, 3, 3, 0x10, 0];

// ---- ends ----

fn too_late(seen: &Seen) -> bool {
    let Some(CloseCause::Fault(fault)) = &seen.cause else { return false };
    let limit = Duration::from_secs(10);
    matches!(fault.downcast_ref(), Some(TlsError::HandshakeTimedOut { limit: over }) if *over == limit)
}

fn record_too_late(seen: &Seen) -> bool {
    let cause = seen.cause.as_ref().map(|cause| format!("{cause:?}"));
    cause.is_some_and(|cause| cause.starts_with("Fault(RecordTimedOut { limit: 60s, "))
}

fn closed_by_peer(seen: &Seen) -> bool {
    matches!(seen.cause, Some(CloseCause::PeerClosed))
}

/// A record was sent: what is in it is what HTTP has to say, whose lines show it in clear.
fn told(seen: &Seen) -> bool {
    seen.sent.starts_with(&[0x17, 3, 3]) && seen.sent.len() > 100
}

// ---- ways ----

fn certificate() -> &'static Certificate {
    static CERTIFICATE: OnceLock<Certificate> = OnceLock::new();
    CERTIFICATE.get_or_init(|| Certificate::self_signed(["localhost"]).unwrap())
}

fn acceptor() -> Acceptor {
    Acceptor::new(certificate()).unwrap()
}

fn connector() -> Connector {
    Connector::builder().roots(Roots::of(certificate()).unwrap()).build().unwrap()
}

type Embedded = EmbeddedChannel<BytesMut, Outgoing>;

fn speaker(tls: Tls) -> Embedded {
    EmbeddedChannel::new(pipeline().add(tls))
}

fn speaking() -> Embedded {
    speaker(Tls::client(&connector(), "localhost").unwrap())
}

/// A server that has read of a client's hello what this says.
fn server(of: fn(&[u8]) -> Vec<u8>) -> Box<dyn Subject> {
    let mut server = speaker(Tls::server(&acceptor()));
    server.write_inbound(of(&speaking().outbound_bytes()));
    subject(server)
}

/// A client that has read of a server's answer what this says.
fn client(of: fn(&[u8]) -> Vec<u8>) -> Box<dyn Subject> {
    let (mut client, mut server) = (speaking(), speaker(Tls::server(&acceptor())));
    server.write_inbound(client.outbound_bytes());
    client.write_inbound(of(&server.outbound_bytes()));
    subject(client)
}

/// How long the first record is.
fn record(bytes: &[u8]) -> usize {
    5 + usize::from(u16::from_be_bytes([bytes[3], bytes[4]]))
}

fn resolving() -> Box<dyn Subject> {
    let acceptor =
        Acceptor::builder().certificate(certificate()).resolve_async(|_| pending::<Result<Resolved, _>>());
    let mut server = speaker(Tls::server(&acceptor.build().unwrap()));
    server.write_inbound(speaking().outbound_bytes());
    subject(server)
}

/// Something that lives as long as the subject.
struct With<T>(Box<dyn Subject>, #[allow(dead_code, reason = "it is dropped")] T);

impl<T> Subject for With<T> {
    fn send(&mut self, byte: u8) {
        self.0.send(byte);
    }
    fn advance(&mut self, by: Duration) {
        self.0.advance(by);
    }
    fn seen(&mut self) -> Seen {
        self.0.seen()
    }
    fn is_gone(&mut self) -> bool {
        self.0.is_gone()
    }
}

/// The only worker is busy with something else.
fn away() -> Box<dyn Subject> {
    let (workers, (busy, free)) = (Workers::new(1).unwrap(), mpsc::channel::<()>());
    drop(workers.submit(move || free.recv()));
    let acceptor = Acceptor::builder().certificate(certificate()).handshakes_on(&workers).build().unwrap();
    let mut server = speaker(Tls::server(&acceptor));
    server.write_inbound(speaking().outbound_bytes());
    Box::new(With(subject(server), (busy, workers)))
}

fn before_start_tls() -> Box<dyn Subject> {
    subject(speaker(Tls::client(&connector(), "localhost").unwrap().start_tls()))
}

fn shake_hands<R: 'static, W: 'static>(client: &mut Embedded, server: &mut EmbeddedChannel<R, W>) {
    for _ in 0..4 {
        server.write_inbound(client.outbound_bytes());
        client.write_inbound(server.outbound_bytes());
    }
}

fn open(bytes: &[u8]) -> Box<dyn Subject> {
    let (mut client, mut server) = (speaking(), speaker(Tls::server(&acceptor())));
    shake_hands(&mut client, &mut server);
    server.write_inbound(bytes);
    subject(server)
}

fn half_closed() -> Box<dyn Subject> {
    let acceptor = Acceptor::builder().certificate(certificate()).half_closure(true).build().unwrap();
    let (mut client, mut server) = (speaking(), speaker(Tls::server(&acceptor)));
    shake_hands(&mut client, &mut server);
    server.channel().shut_down_output();
    server.run();
    subject(server)
}

fn goodbye() -> Box<dyn Subject> {
    let (mut client, mut server) = (speaking(), speaker(Tls::server(&acceptor())));
    shake_hands(&mut client, &mut server);
    server.block_output(true).write_outbound(much());
    drop(client.channel().close());
    server.write_inbound(client.outbound_bytes());
    subject(server)
}

/// HTTP behind TLS, which has read some words and then these bytes.
fn http(words: &'static [u8], bytes: &[u8]) -> Box<dyn Subject> {
    let tls = Tls::server(&acceptor());
    let (mut client, mut server) =
        (speaking(), EmbeddedChannel::new(pipeline().add(tls).add(HttpServer::new())));
    shake_hands(&mut client, &mut server);
    client.write_outbound(Bytes::from_static(words));
    server.write_inbound(client.outbound_bytes()).write_inbound(bytes);
    subject(server)
}

/// A server whose client shakes hands, says a word, and takes nothing of the answer.
fn speaks() -> Box<dyn Subject> {
    let mut tls = Tls::client(&connector(), "localhost").unwrap();
    let shaken = tls.handshake();
    let mut client = speaker(tls);
    let approach = move |mut peer: &TcpStream| {
        while !shaken.is_done() {
            peer.write_all(&client.outbound_bytes()).unwrap();
            let mut bytes = [0; 4096];
            let read = peer.read(&mut bytes).unwrap();
            client.write_inbound(&bytes[..read]);
        }
        client.write_outbound(Bytes::from("hello"));
        peer.write_all(&client.outbound_bytes()).unwrap();
    };
    let acceptor = acceptor();
    wire::serving_who(approach, move |watch| {
        let front = pipeline().add(observe(watch.onlooker())).add(Tls::server(&acceptor));
        front.handle(|cx, _| cx.write_and_flush(much()))
    })
}
