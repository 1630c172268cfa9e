//! Whoever breaks the protocol is told so, whatever it broke and whenever.

use crate::{
    faults::fault_of,
    rogue::{instead, rogue, send_something},
    support::*,
};
use netwright_core::CloseCause;
use netwright_tls::{
    Acceptor, Connector, Roots, Tls, TlsError, TlsLimits,
    rustls::{self, AlertDescription, PeerIncompatible},
};

/// What the peer of a broken conversation heard.
fn heard(end: &End) -> Option<AlertDescription> {
    match end.channel.channel().close_cause()? {
        CloseCause::Fault(fault) => match fault.downcast_ref()? {
            TlsError::Protocol(rustls::Error::AlertReceived(alert)) => Some(*alert),
            _ => None,
        },
        _ => None,
    }
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut record = vec![kind, 3, 3, (content.len() >> 8) as u8, content.len() as u8];
    record.extend(content);
    record
}

const CHANGE: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

const EARLY_CHANGE: &str = "an early change of ciphers";
const ALERT_UNEXPECTED: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];

fn offences() -> Vec<(&'static str, Vec<u8>)> {
    let begun = |kind, content: &[u8]| [record(HANDSHAKE, &[1, 0, 1, 0, 3]), record(kind, content)].concat();
    vec![
        ("data", record(DATA, &[1, 2, 3, 4, 5])),
        (EARLY_CHANGE, record(CHANGE, &[1])),
        ("a change to something else", record(CHANGE, &[2])),
        ("changes without end", record(CHANGE, &[1]).repeat(40)),
        ("data within a message", begun(DATA, &[1, 2, 3, 4, 5])),
        ("a change within a message", begun(CHANGE, &[1])),
        ("an unknown record", record(99, &[1])),
        ("empty records without end", record(DATA, &[]).repeat(40)),
        ("a record that is too long", record(DATA, &[0; 20_000])),
    ]
}

#[test]
fn every_break_of_the_protocol_is_answered_with_an_alert_at_any_step() {
    for (number, version) in VERSIONS.into_iter().enumerate() {
        for (offence, bytes) in offences() {
            for (to_server, flights) in [(true, 0), (true, 1), (true, 2), (false, 0), (false, 1), (false, 2)]
            {
                let (acceptor, connector) = of_version(version); // anew: a session that is resumed has other flights
                let (client, server) = pair_of(&acceptor, &connector);
                let (mut victim, mut other) = if to_server { (server, client) } else { (client, server) };
                if !to_server {
                    other.channel.write_inbound(victim.channel.outbound_bytes());
                }
                for _ in 0..flights {
                    victim.channel.write_inbound(other.channel.outbound_bytes());
                    other.channel.write_inbound(victim.channel.outbound_bytes());
                }
                if number == 1 && to_server && flights == 1 && offence == EARLY_CHANGE {
                    continue; // in the handshake of TLS 1.3 it means nothing, and is allowed
                }
                victim.channel.write_inbound(&bytes);
                other.channel.write_inbound(victim.channel.outbound_bytes());
                let case =
                    format!("{offence}, TLS 1.{}, to server {to_server}, flights {flights}", number + 2);
                let fault = fault_of(&victim);
                assert!(heard(&other).is_some(), "{case}: {fault} is kept from the peer");
                assert_eq!(victim.log.count("error"), 1, "{case}: {:?}", victim.log.lines());
            }
        }
    }
}

#[test]
fn a_hello_that_is_interrupted_is_an_unexpected_message() {
    for (offence, bytes) in
        offences().into_iter().filter(|(offence, _)| offence.ends_with("within a message"))
    {
        for size in [1, 7, 1000] {
            let mut server: End = End::new(Tls::server(&acceptor()));
            for piece in bytes.chunks(size) {
                server.channel.write_inbound(piece);
            }
            assert_eq!(server.channel.outbound_bytes(), ALERT_UNEXPECTED, "{offence} in pieces of {size}");
            assert!(matches!(fault_of(&server), TlsError::Protocol(rustls::Error::PeerMisbehaved(_))));
        }
    }
}

#[test]
fn a_handshake_message_that_is_too_long_is_answered_with_an_alert() {
    let mut limits = TlsLimits::default();
    limits.handshake_max = 10_000;
    for version in VERSIONS {
        let (acceptor, _) = of_version(version);
        let roots = Roots::of(certificate()).unwrap();
        let connector = Connector::builder().roots(roots).versions(version).limits(limits).build().unwrap();
        let (mut client, mut server) = pair_of(&acceptor, &connector);
        server.channel.write_inbound(client.channel.outbound_bytes());
        // The beginning of a ServerHello of 64 KiB.
        client.channel.write_inbound(record(HANDSHAKE, &[&[2, 0, 255, 255][..], &[3; 12_000]].concat()));
        server.channel.write_inbound(client.channel.outbound_bytes());
        assert!(matches!(fault_of(&client), TlsError::HandshakeTooLong { limit: "handshake_max", .. }));
        assert_eq!(heard(&server), Some(AlertDescription::DecodeError));
    }
}

/// The ClientHello of somebody who speaks nothing newer than this version, in records with so many bytes.
fn old_hello(minor: u8, size: usize) -> Vec<u8> {
    let mut body = vec![3, minor];
    body.extend([7; 32]); // random
    body.extend([0, 0, 4, 0xc0, 0x13, 0, 0x2f, 1, 0]); // no session, two suites, no compression
    body.extend([0, 14, 0, 0, 0, 10, 0, 8, 0, 0, 5]); // a name
    body.extend(b"a.org");
    let mut message = vec![1, 0, 0, body.len() as u8];
    message.extend(body);
    message.chunks(size).flat_map(|piece| record(HANDSHAKE, piece)).collect()
}

#[test]
fn a_client_without_any_version_of_ours_is_told_that_it_is_the_version() {
    let with_resolver = Acceptor::builder()
        .certificate(certificate())
        .resolve_async(|_| async { Ok(netwright_tls::Resolved::Default) })
        .build()
        .unwrap();
    for acceptor in [acceptor(), with_resolver] {
        for minor in [0, 1, 2] {
            for size in [1, 6, 1000] {
                let mut server: End = End::new(Tls::server(&acceptor));
                server.channel.write_inbound(old_hello(minor, size));
                let out = server.channel.outbound_bytes();
                assert_eq!(out[..1], [21], "an alert");
                assert_eq!(
                    out[5..],
                    [2, AlertDescription::ProtocolVersion.into()],
                    "3.{minor} in {size}s: {out:?}"
                );
                let TlsError::Protocol(error) = fault_of(&server) else { panic!() };
                assert_eq!(error, PeerIncompatible::Tls12NotOffered.into());
            }
        }
        // What TLS 1.2 would need is a matter of its own.
        let mut server: End = End::new(Tls::server(&acceptor));
        server.channel.write_inbound(old_hello(3, 1000));
        assert_eq!(server.channel.outbound_bytes()[5..], [2, AlertDescription::HandshakeFailure.into()]);
    }
}

/// Types and contents.
type Records = Vec<(u8, Vec<u8>)>;

/// Records that only somebody with the right keys can send, and what their sender is to hear.
fn encrypted_offences() -> Vec<(&'static str, Records, AlertDescription)> {
    const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
    let (unexpected, undecodable) = (AlertDescription::UnexpectedMessage, AlertDescription::DecodeError);
    vec![
        ("a record without a type", vec![(0, vec![])], unexpected),
        ("nothing but padding", vec![(0, vec![0; 100])], unexpected),
        ("a change of ciphers, encrypted", vec![(CHANGE, vec![1])], unexpected),
        ("empty records without end", vec![(DATA, vec![]); 40], unexpected),
        ("half a message, then data", vec![(HANDSHAKE, vec![24, 0, 0]), (DATA, vec![1; 100])], undecodable),
        ("half a message, then no type", vec![(HANDSHAKE, vec![24, 0, 0]), (0, vec![0; 9])], undecodable),
        ("a message without end", vec![(HANDSHAKE, vec![24, 255, 255, 255])], undecodable),
        (
            "warnings without end",
            vec![(ALERT, vec![1, AlertDescription::UserCanceled.into()]); 40],
            undecodable,
        ),
        ("new keys without end", vec![(HANDSHAKE, KEY_UPDATE.repeat(150))], unexpected),
    ]
}

#[test]
fn breaks_of_the_protocol_under_encryption_are_answered_with_an_alert_under_encryption() {
    for (offence, records, expected) in encrypted_offences() {
        let (mut client, mut server) = (rogue(), End::new(Tls::server(&acceptor())));
        pump(&mut client, &mut server);
        client.agreed();
        let records: Vec<_> = records.iter().map(|(kind, content)| (*kind, &content[..])).collect();
        instead(&records);
        for _ in &records {
            send_something(&mut client);
        }
        instead(&[]);
        pump(&mut client, &mut server);
        assert_eq!(heard(&client), Some(expected), "{offence}: {:?}", server.channel.channel().close_cause());
        assert!(matches!(fault_of(&server), TlsError::Protocol(_)), "{offence}");
        assert_eq!(server.log.count("error"), 1, "{offence}");
    }
}

#[test]
fn the_same_holds_for_the_last_flight_of_the_handshake() {
    for (kind, content) in [(0, &[][..]), (0, &[0; 30]), (DATA, &[1; 30]), (CHANGE, &[1])] {
        let (mut client, mut server) = (rogue(), End::new(Tls::server(&acceptor())));
        server.channel.write_inbound(client.channel.outbound_bytes());
        instead(&[(kind, content)]);
        client.channel.write_inbound(server.channel.outbound_bytes());
        instead(&[]);
        pump(&mut client, &mut server);
        let heard = heard(&client);
        assert_eq!(heard, Some(AlertDescription::UnexpectedMessage), "{kind}: {:?}", fault_of(&server));
    }
}

#[test]
fn no_alert_follows_a_goodbye() {
    let acceptor = Acceptor::builder().certificate(certificate()).half_closure(true).build().unwrap();
    let (mut client, mut server) = (rogue(), End::new(Tls::server(&acceptor)));
    pump(&mut client, &mut server);
    server.channel.channel().shut_down_output();
    server.channel.run().outbound_bytes();
    instead(&[(0, &[])]);
    send_something(&mut client);
    server.channel.write_inbound(client.channel.outbound_bytes());
    assert!(matches!(fault_of(&server), TlsError::Protocol(_)));
    assert!(server.channel.outbound_bytes().is_empty());
}
