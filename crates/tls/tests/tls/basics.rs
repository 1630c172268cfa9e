//! The handshake, data both ways, demand.

use crate::support::*;
use bytes::Bytes;
use netwright_core::{HostSettings, WriteError};
use netwright_tls::{Tls, rustls::ProtocolVersion};

#[test]
fn both_ends_shake_hands_and_data_goes_both_ways_in_either_version() {
    for (version, expected) in [(TLS12, ProtocolVersion::TLSv1_2), (TLS13, ProtocolVersion::TLSv1_3)] {
        for size in [1, 2, 3, 7, 100, 1000, usize::MAX] {
            let (acceptor, connector) = of_version(version);
            let (mut client, mut server) = pair_of(&acceptor, &connector);
            pump_in(&mut client, &mut server, size);
            assert_eq!(client.agreed().version, expected);
            assert_eq!(server.agreed().version, expected);
            assert_eq!(server.agreed().server_name.as_deref(), Some("localhost"));
            assert_eq!(client.agreed().peer_certificates, certificate().chain());
            assert!(!client.agreed().resumed && server.agreed().peer_certificates.is_empty());
            client.send("from the client");
            server.send("from the server");
            pump_in(&mut client, &mut server, size);
            assert_eq!(client.received(), b"from the server");
            assert_eq!(server.received(), b"from the client");
            assert_eq!(server.log.lines(), ["active", "handshake", "read 15"]);
        }
    }
}

#[test]
fn every_place_to_cut_the_handshake_is_a_good_one() {
    for version in VERSIONS {
        let (acceptor, connector) = of_version(version);
        let mut cut = 1;
        loop {
            let (mut client, mut server) = pair_of(&acceptor, &connector);
            client.send("hello");
            let mut carried = 0;
            let mut longest = 0;
            while !server.log.has("read") {
                let there = client.channel.outbound_bytes();
                longest = longest.max(there.len());
                let (first, rest) = there.split_at(cut.min(there.len()));
                server.channel.write_inbound(first).write_inbound(rest);
                let back = server.channel.outbound_bytes();
                longest = longest.max(back.len());
                let (first, rest) = back.split_at(cut.min(back.len()));
                client.channel.write_inbound(first).write_inbound(rest);
                carried += 1;
                assert!(carried < 10, "cut at {cut}");
            }
            assert_eq!(server.received(), b"hello");
            cut += 13;
            if cut > longest {
                break;
            }
        }
    }
}

#[test]
fn what_is_written_before_the_handshake_is_sent_after_it_in_order() {
    let (mut client, mut server) = pair();
    let first = client.channel.channel().write_tracked(Bytes::from("first "));
    client.send("second ");
    server.send("from the server");
    assert!(!first.is_done());
    pump(&mut client, &mut server);
    client.send("third");
    pump(&mut client, &mut server);
    assert_eq!(server.received(), b"first second third");
    assert_eq!(client.received(), b"from the server");
    assert!(first.is_done());
}

#[test]
fn what_waits_for_the_handshake_counts_as_pending() {
    let (mut client, mut server) = pair();
    assert!(client.channel.channel().is_writable());
    client.send(vec![1; 100_000]);
    assert!(!client.channel.channel().is_writable());
    pump(&mut client, &mut server);
    assert!(client.channel.channel().is_writable());
    assert_eq!(server.received().len(), 100_000);
}

#[test]
fn a_write_that_is_cancelled_before_it_is_flushed_is_not_sent() {
    let (mut client, mut server) = open_pair();
    let kept = client.channel.channel().write_tracked(Bytes::from("kept"));
    let mut gone = client.channel.channel().write_tracked(Bytes::from("gone"));
    client.channel.run();
    assert!(gone.cancel());
    client.send(" sent");
    pump(&mut client, &mut server);
    assert_eq!(server.received(), b"kept sent");
    assert!(kept.is_done());
    assert!(matches!(gone.try_take(), Some(Err(WriteError::Cancelled))));
}

#[test]
fn much_data_arrives_unchanged_in_any_pieces() {
    let data: Vec<u8> = (0..300_000_u32).map(|number| (number * 7 / 3) as u8).collect();
    for version in VERSIONS {
        for size in [1000, 16_384, 16_500, 65_536, usize::MAX] {
            let (acceptor, connector) = of_version(version);
            let (mut client, mut server) = pair_of(&acceptor, &connector);
            pump(&mut client, &mut server);
            for piece in data.chunks(70_001) {
                client.send(piece.to_vec());
                server.send(piece.to_vec());
            }
            pump_in(&mut client, &mut server, size);
            assert!(server.received() == data, "to the server, in pieces of {size}");
            assert!(client.received() == data, "to the client, in pieces of {size}");
        }
    }
}

#[test]
fn small_messages_of_one_flush_share_a_record() {
    let (mut client, mut server) = open_pair();
    for _ in 0..100 {
        client.channel.channel().write(Bytes::from_static(b"0123456789"));
    }
    client.channel.channel().flush();
    let sent = client.channel.run().outbound_bytes();
    assert!(sent.len() < 1000 + 100 * 10, "{} bytes for 1,000", sent.len());
    server.channel.write_inbound(sent);
    assert_eq!(server.received().len(), 1000);
}

#[test]
fn while_nobody_asks_records_stay_encrypted_and_asking_for_one_decrypts_one() {
    let mut settings = HostSettings::default();
    settings.auto_read = false;
    let mut client: End = End::new(Tls::client(&connector(), "localhost").unwrap());
    let mut server: End = End::with(Tls::server(&acceptor()), settings, true);
    pump(&mut client, &mut server);
    server.agreed(); // though nobody asked for a message
    assert!(!server.channel.wants_read());
    for number in 0..3 {
        client.send(vec![number; 10]);
    }
    pump(&mut client, &mut server);
    assert!(!server.log.has("read"), "{:?}", server.log.lines());
    for asked in 1..=3 {
        server.channel.channel().request();
        server.channel.run();
        assert_eq!(server.log.count("read"), asked);
    }
    assert_eq!(server.received().len(), 30);
}

#[test]
fn writing_while_undecrypted_records_wait_is_possible() {
    let mut settings = HostSettings::default();
    settings.auto_read = false;
    for version in VERSIONS {
        let (acceptor, connector) = of_version(version);
        let mut client: End = End::new(Tls::client(&connector, "localhost").unwrap());
        let mut server: End = End::with(Tls::server(&acceptor), settings, true);
        pump(&mut client, &mut server);
        client.send(vec![1; 40_000]);
        let sent = client.channel.outbound_bytes();
        server.channel.channel().request();
        server.channel.run().write_inbound(&sent[..30_000]); // a record, and a part of the next
        server.send("meanwhile");
        pump(&mut client, &mut server);
        assert_eq!(client.received(), b"meanwhile");
        server.channel.channel().resume();
        server.channel.run().write_inbound(&sent[30_000..]);
        assert_eq!(server.received(), vec![1; 40_000]);
    }
}

#[test]
fn a_stage_itself_is_small() {
    let size = size_of::<Tls>();
    println!("{size} bytes");
    assert!(size <= 320, "{size} bytes");
}
