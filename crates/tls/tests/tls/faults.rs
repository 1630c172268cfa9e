//! Peers that do what they must not.

use crate::support::*;
use bytes::Bytes;
use netwright_core::{CloseCause, EmbeddedChannel, WriteError, pipeline};
use netwright_tls::{
    Acceptor, Connector, Roots, Tls, TlsError, TlsLimits,
    rustls::{self, AlertDescription, PeerMisbehaved},
};
use std::time::Duration;

pub(crate) fn fault_of(end: &End) -> TlsError {
    match end.channel.channel().close_cause() {
        Some(CloseCause::Fault(fault)) => fault.downcast_ref::<TlsError>().expect("an error of TLS").clone(),
        other => panic!("closed because {other:?}"),
    }
}

#[test]
fn plain_bytes_get_an_alert_a_cause_that_shows_them_and_the_end() {
    for size in [1, 3, 100] {
        let mut server: End = End::new(Tls::server(&acceptor()));
        for piece in b"GET / HTTP/1.1\r\n\r\n".chunks(size) {
            server.channel.write_inbound(piece);
        }
        assert_eq!(server.channel.outbound_bytes(), [21, 3, 3, 0, 2, 2, 10]);
        assert!(!server.channel.is_open());
        let TlsError::NotTls { first } = fault_of(&server) else { panic!("{:?}", fault_of(&server)) };
        assert!(b"GET / HTTP/1.1".starts_with(&first) && !first.is_empty());
        assert_eq!(server.log.count("error"), 1);
        assert!(matches!(server.failure(), TlsError::NotTls { .. }));
    }
    let mut client: End = End::new(Tls::client(&connector(), "localhost").unwrap());
    client.channel.outbound_bytes();
    client.channel.write_inbound(b"HTTP/1.1 400 Bad Request\r\n");
    assert_eq!(client.failure().to_string(), "the peer does not speak TLS: its first bytes are \"HTTP/1.1\"");
    assert!(!client.channel.is_open());
}

#[test]
fn a_handshake_that_takes_ten_seconds_fails_and_closes() {
    for mut end in
        [End::new(Tls::server(&acceptor())), End::new(Tls::client(&connector(), "localhost").unwrap())]
    {
        end.channel.advance(Duration::from_millis(9_999));
        assert!(end.channel.is_open() && !end.handshake.is_done());
        let mut waiting = end.channel.channel().send(Bytes::from("never sent"));
        end.channel.advance(Duration::from_millis(1));
        assert!(!end.channel.is_open());
        assert_eq!(end.failure().to_string(), "the TLS handshake took longer than 10s");
        assert!(matches!(fault_of(&end), TlsError::HandshakeTimedOut { .. }));
        assert_eq!(end.log.count("error"), 1);
        assert!(matches!(waiting.try_take(), Some(Err(WriteError::Fault(_)))));
    }
    let (mut client, mut server) = open_pair();
    client.channel.advance(Duration::from_secs(3600));
    server.channel.advance(Duration::from_secs(3600));
    assert!(client.channel.is_open() && server.channel.is_open(), "the deadline is for the handshake only");
}

#[test]
fn a_refused_certificate_is_one_error_on_each_side_and_queued_writes_fail() {
    for version in VERSIONS {
        let stranger = netwright_tls::Certificate::self_signed(["localhost"]).unwrap();
        let acceptor = Acceptor::builder().certificate(stranger).versions(version).build().unwrap();
        let (_, connector) = of_version(version);
        let (mut client, mut server) = pair_of(&acceptor, &connector);
        let mut waiting = client.channel.channel().send(Bytes::from("secret"));
        pump(&mut client, &mut server);
        assert!(matches!(client.failure(), TlsError::Protocol(rustls::Error::InvalidCertificate(_))));
        let received = |error| matches!(error, TlsError::Protocol(rustls::Error::AlertReceived(_)));
        assert!(received(fault_of(&server)), "{:?}", fault_of(&server));
        for end in [&client, &server] {
            assert!(!end.channel.is_open());
            assert_eq!(end.log.count("error"), 1, "{:?}", end.log.lines());
        }
        assert!(matches!(waiting.try_take(), Some(Err(WriteError::Fault(_)))));
    }
}

#[test]
fn a_name_that_the_certificate_is_not_for_is_refused() {
    let mut client: End = End::new(Tls::client(&connector(), "example.org").unwrap());
    let mut server: End = End::new(Tls::server(&acceptor()));
    pump(&mut client, &mut server);
    assert!(matches!(client.failure(), TlsError::Protocol(rustls::Error::InvalidCertificate(_))));
    assert!(Tls::client(&connector(), "not a name").is_err());
    let anybody = Connector::builder().dangerously_accept_any_certificate().build().unwrap();
    let mut client: End = End::new(Tls::client(&anybody, "example.org").unwrap());
    let mut server: End = End::new(Tls::server(&acceptor()));
    pump(&mut client, &mut server);
    client.agreed();
}

#[test]
fn a_stage_that_leaves_fails_its_futures() {
    let mut tls = Tls::server(&acceptor());
    let handshake = tls.handshake();
    drop(EmbeddedChannel::new(pipeline().add(tls)));
    assert!(handshake.peek().unwrap().is_err());

    let (mut client, _) = pair();
    let mut waiting = client.channel.channel().send(Bytes::from("x"));
    client.channel.close_by_peer();
    assert!(matches!(client.failure(), TlsError::ClosedInHandshake(CloseCause::PeerClosed)));
    assert!(matches!(waiting.try_take(), Some(Err(WriteError::Closed(CloseCause::PeerClosed)))));
    assert_eq!(client.log.count("error"), 1);
    assert_eq!(client.log.lines().last().unwrap(), "inactive: closed by the peer");

    let (client, _) = pair();
    let End { mut channel, handshake, .. } = client;
    drop(channel.channel().close());
    channel.run();
    assert!(matches!(handshake.peek(), Some(Err(TlsError::ClosedInHandshake(CloseCause::Requested)))));
}

#[test]
fn a_peer_without_a_common_version_gets_an_alert() {
    let old = Connector::builder().roots(Roots::of(certificate()).unwrap()).versions(TLS12).build().unwrap();
    let new = Acceptor::builder().certificate(certificate()).versions(TLS13).build().unwrap();
    let (mut client, mut server) = pair_of(&new, &old);
    pump(&mut client, &mut server);
    assert!(matches!(fault_of(&server), TlsError::Protocol(rustls::Error::PeerIncompatible(_))));
    let expected = rustls::Error::AlertReceived(AlertDescription::ProtocolVersion);
    assert!(matches!(fault_of(&client), TlsError::Protocol(error) if error == expected));
}

#[test]
fn an_alert_at_any_step_of_the_handshake_ends_it_with_that_alert() {
    let alert = [21, 3, 3, 0, 2, 2, 40];
    for version in VERSIONS {
        let (acceptor, connector) = of_version(version);
        for step in 0..3 {
            for to_server in [true, false] {
                let (mut client, mut server) = pair_of(&acceptor, &connector);
                for _ in 0..step {
                    let there = client.channel.outbound_bytes();
                    server.channel.write_inbound(there);
                    let back = server.channel.outbound_bytes();
                    client.channel.write_inbound(back);
                }
                let end = if to_server { &mut server } else { &mut client };
                end.channel.outbound_bytes();
                end.channel.write_inbound(alert);
                assert!(!end.channel.is_open(), "step {step}, {version:?}");
                assert_eq!(end.log.count("error"), 1, "step {step}: {:?}", end.log.lines());
            }
        }
    }
}

#[test]
fn a_changed_byte_anywhere_ends_the_connection_without_a_panic() {
    for version in VERSIONS {
        let (acceptor, connector) = of_version(version);
        for place in (0..700).step_by(7) {
            for flight in 0..4 {
                let (mut client, mut server) = pair_of(&acceptor, &connector);
                client.send("data");
                for number in 0..4 {
                    let (from, to) =
                        if number % 2 == 0 { (&mut client, &mut server) } else { (&mut server, &mut client) };
                    let mut bytes = from.channel.outbound_bytes();
                    if number == flight && place < bytes.len() {
                        bytes[place] ^= 0x55;
                    }
                    to.channel.write_inbound(bytes);
                }
                pump(&mut client, &mut server);
                client.channel.close_by_peer();
                server.channel.close_by_peer();
                assert!(client.log.count("error") <= 1 && server.log.count("error") <= 1);
                assert!(client.handshake.is_done() && server.handshake.is_done());
                let received = server.received();
                assert!(received.is_empty() || received == b"data");
            }
        }
    }
}

#[test]
fn a_record_that_was_tampered_with_gets_an_alert_and_nothing_of_it_is_read() {
    for version in VERSIONS {
        let (acceptor, connector) = of_version(version);
        let (mut client, mut server) = pair_of(&acceptor, &connector);
        pump(&mut client, &mut server);
        client.send("good");
        let good = client.channel.outbound_bytes();
        client.send("tampered with");
        let mut bad = client.channel.outbound_bytes();
        let last = bad.len() - 1;
        bad[last] ^= 1;
        server.channel.write_inbound([good, bad].concat());
        assert_eq!(server.received(), b"good");
        assert!(matches!(fault_of(&server), TlsError::Protocol(rustls::Error::DecryptError)));
        pump(&mut client, &mut server);
        let expected = rustls::Error::AlertReceived(AlertDescription::BadRecordMac);
        assert!(matches!(fault_of(&client), TlsError::Protocol(error) if error == expected));
    }
}

#[test]
fn a_record_that_is_too_long_is_refused() {
    let (_, mut server) = open_pair();
    server.channel.write_inbound([23, 3, 3, 0xff, 0xff]).write_inbound(vec![0; 70_000]);
    assert!(!server.channel.is_open());
    assert!(matches!(fault_of(&server), TlsError::Protocol(_)));
}

/// Encrypts handshake messages of our own making: through a client of rustls that lets its keys be seen.
mod renegotiating {
    use super::*;
    use rustls::{
        ClientConfig, ConnectionTrafficSecrets,
        client::UnbufferedClientConnection,
        crypto::cipher::{AeadKey, Iv, MessageEncrypter, OutboundChunks, OutboundPlainMessage},
        unbuffered::ConnectionState,
    };
    use std::sync::Arc;

    /// A TLS 1.2 client by hand, up to its keys.
    pub(super) struct ByHand {
        encrypter: Box<dyn MessageEncrypter>,
        sequence: u64,
    }

    impl ByHand {
        pub(super) fn connect(server: &mut End) -> Self {
            let (_, connector) = of_version(TLS12);
            let mut config = ClientConfig::clone(connector.config());
            config.enable_secret_extraction = true;
            let name = "localhost".try_into().unwrap();
            let mut client = UnbufferedClientConnection::new(Arc::new(config), name).unwrap();
            let mut incoming = Vec::new();
            loop {
                let status = client.process_tls_records(&mut incoming);
                let discard = status.discard;
                let mut done = false;
                match status.state.unwrap() {
                    ConnectionState::EncodeTlsData(mut data) => {
                        let mut buffer = vec![0; 20_000];
                        let len = data.encode(&mut buffer).unwrap();
                        server.channel.write_inbound(&buffer[..len]);
                    }
                    ConnectionState::TransmitTlsData(transmit) => transmit.done(),
                    ConnectionState::BlockedHandshake => {}
                    ConnectionState::WriteTraffic(_) => done = true,
                    other => panic!("{other:?}"),
                }
                incoming.drain(..discard);
                incoming.extend(server.channel.outbound_bytes());
                if done {
                    break;
                }
            }
            let suite = client.negotiated_cipher_suite().unwrap();
            let (secrets, _) = client.dangerous_into_kernel_connection().unwrap();
            let (sequence, secrets) = secrets.tx;
            let (key, iv): (AeadKey, Iv) = match secrets {
                ConnectionTrafficSecrets::Aes256Gcm { key, iv }
                | ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (key, iv),
                ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key, iv),
                _ => panic!("another suite"),
            };
            let rustls::SupportedCipherSuite::Tls12(suite) = suite else { panic!("another version") };
            let iv: &[u8] = iv.as_ref();
            let encrypter = suite.aead_alg.encrypter(key, &iv[..4], &iv[4..]);
            Self { encrypter, sequence }
        }

        pub(super) fn handshake_record(&mut self, message: &[u8]) -> Vec<u8> {
            let plain = OutboundPlainMessage {
                typ: rustls::ContentType::Handshake,
                version: rustls::ProtocolVersion::TLSv1_2,
                payload: OutboundChunks::Single(message),
            };
            let record = self.encrypter.encrypt(plain, self.sequence).unwrap().encode();
            self.sequence += 1;
            record
        }
    }
}

/// A ClientHello as short as can be.
fn client_hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]); // random
    body.extend([0, 0, 2, 0xc0, 0x2c, 1, 0]); // no session, one suite, no compression
    let mut message = vec![1, 0, 0, body.len() as u8];
    message.extend(body);
    message
}

#[test]
fn renegotiation_is_refused_and_a_flood_of_it_ends_the_connection() {
    let (acceptor, _) = of_version(TLS12);
    let mut server: End = End::new(Tls::server(&acceptor));
    let mut client = renegotiating::ByHand::connect(&mut server);
    server.agreed();
    let record = client.handshake_record(&client_hello());
    server.channel.write_inbound(record);
    assert!(server.channel.is_open());
    let answer = server.channel.outbound_bytes();
    assert_eq!(answer[0], 21, "a warning that there is no renegotiation: {answer:?}");
    for _ in 0..3 {
        let record = client.handshake_record(&client_hello());
        server.channel.write_inbound(record);
    }
    let expected = rustls::Error::PeerMisbehaved(PeerMisbehaved::TooManyRenegotiationRequests);
    assert!(matches!(fault_of(&server), TlsError::Protocol(error) if error == expected));
    assert_eq!(server.log.count("error"), 1);
}

#[test]
fn a_handshake_message_in_parts_may_lie_around_while_we_write() {
    let (acceptor, _) = of_version(TLS12);
    let mut server: End = End::new(Tls::server(&acceptor));
    let mut client = renegotiating::ByHand::connect(&mut server);
    let hello = client_hello();
    let first = client.handshake_record(&hello[..20]);
    server.channel.write_inbound(first);
    server.send("meanwhile");
    assert_eq!(server.channel.outbound_bytes()[0], 23);
    let second = client.handshake_record(&hello[20..]);
    let (one, two) = second.split_at(9);
    server.channel.write_inbound(one);
    server.send("again");
    server.channel.write_inbound(two);
    let answer = server.channel.outbound_bytes();
    assert!(server.channel.is_open(), "{:?}", server.log.lines());
    assert_eq!(answer[0], 23);
    assert!(answer.windows(3).any(|bytes| bytes == [21, 3, 3]), "the renegotiation was seen and refused");
    // A flood of the smallest parts is cut off.
    let mut long = vec![1, 0, 0xff, 0xff];
    long.extend([0; 60_000]);
    for byte in long {
        let record = client.handshake_record(&[byte]);
        server.channel.write_inbound(record);
        if !server.channel.is_open() {
            break;
        }
    }
    assert!(matches!(fault_of(&server), TlsError::HandshakeTooLong { limit: "handshake_max", .. }));
}

#[test]
fn a_server_whose_handshake_never_ends_is_cut_off() {
    let mut limits = TlsLimits::default();
    limits.handshake_max = 10_000;
    let connector =
        Connector::builder().roots(Roots::of(certificate()).unwrap()).limits(limits).build().unwrap();
    let mut client: End = End::new(Tls::client(&connector, "localhost").unwrap());
    // A ServerHello that claims 60,000 bytes, a piece in each record.
    let mut part = vec![22, 3, 3, 0, 104, 2, 0, 0xea, 0x60];
    part.extend([0; 100]);
    client.channel.write_inbound(&part);
    let mut sent = part.len();
    while client.channel.is_open() {
        let mut more = vec![22, 3, 3, 0, 100];
        more.extend([0; 100]);
        client.channel.write_inbound(&more);
        sent += more.len();
        assert!(sent < 12_000);
    }
    let error = client.failure().to_string();
    assert!(error.contains("handshake_max is 10000"), "{error}");
}

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Changes, drops, doubles and inserts pieces, at every stage of a connection. `NETWRIGHT_FUZZ_SECONDS` says how long.
#[test]
fn whatever_happens_to_the_bytes_both_ends_end_and_read_nothing_wrong() {
    let seconds: u64 = std::env::var("NETWRIGHT_FUZZ_SECONDS").map_or(0, |text| text.parse().unwrap());
    let start = std::time::Instant::now();
    let ends = VERSIONS.map(of_version);
    let data: Vec<u8> = (0..50_000_u32).map(|number| (number % 251) as u8).collect();
    let mut seed = 1;
    while seed <= 300 || start.elapsed().as_secs() < seconds {
        let mut dice = Dice(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let (acceptor, connector) = &ends[dice.below(2)];
        let (mut client, mut server) = pair_of(acceptor, connector);
        client.send(data[..dice.below(data.len())].to_vec());
        server.send(data[..dice.below(data.len())].to_vec());
        let (mut from_client, mut from_server) = (Vec::new(), Vec::new());
        for turn in 0..8 {
            for to_server in [true, false] {
                let (from, to) =
                    if to_server { (&mut client, &mut server) } else { (&mut server, &mut client) };
                let mut bytes = from.channel.outbound_bytes();
                if dice.below(6) == 0 && !bytes.is_empty() {
                    let place = dice.below(bytes.len());
                    match dice.below(4) {
                        0 => bytes[place] ^= 1 << dice.below(8),
                        1 => drop(bytes.drain(place..(place + 1 + dice.below(40)).min(bytes.len()))),
                        2 => bytes.insert(place, dice.below(256) as u8),
                        _ => bytes.extend_from_within(place..),
                    }
                }
                let size = 1 + dice.below(20_000);
                for piece in bytes.chunks(size) {
                    to.channel.write_inbound(piece);
                }
            }
            if turn == 5 {
                let end = if dice.below(2) == 0 { &mut client } else { &mut server };
                drop(end.channel.channel().close());
                end.channel.run();
            }
            from_client.extend(server.received());
            from_server.extend(client.received());
        }
        assert!(data.starts_with(&from_client) && data.starts_with(&from_server), "seed {seed}");
        client.channel.close_by_peer();
        server.channel.close_by_peer();
        for end in [&client, &server] {
            let panicked = end.channel.channel().close_cause();
            assert!(!matches!(panicked, Some(CloseCause::Panicked(_))), "seed {seed}: {panicked:?}");
            assert!(end.log.count("error") <= 1, "seed {seed}: {:?}", end.log.lines());
            assert!(end.handshake.is_done(), "seed {seed}");
        }
        seed += 1;
    }
}

#[test]
fn stages_and_settings_may_cross_threads() {
    fn crosses<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    crosses::<Tls>();
    crosses::<Tls>();
    shared::<Acceptor>();
    shared::<Connector>();
    shared::<TlsError>();
}
