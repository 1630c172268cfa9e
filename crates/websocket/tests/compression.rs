//! permessage-deflate between two of our own ends, and by hand.
//!
//! Behaviour 98: fragments, empty messages, several blocks, a last block before the end, messages that are not compressed
//! between such that are.

mod common;

use bytes::Bytes;
use common::*;
use flate2::{Compress, Compression, FlushCompress};
use netwright_core::{EmbeddedChannel, pipeline};
use netwright_websocket::{
    Agreed, Config, Deflate, Message, WebSocket, deflate,
    frame::{Opcode, Role},
};

/// Both ends, with what they agree to.
fn pair(server: Deflate, client: Deflate) -> (Channel, Channel, Agreed) {
    let (agreed, reply) = deflate::accept(&server, [&*deflate::offer(&client)]).expect("an agreement");
    let seen = deflate::check(Some(&client), [&*reply]).unwrap().unwrap();
    assert_eq!(agreed, seen);
    let quiet = Config::default().ping_after(None);
    let server = WebSocket::server(quiet.clone().deflate(server)).agreed(Some(agreed));
    let client = WebSocket::client(quiet.deflate(client)).agreed(Some(agreed));
    (EmbeddedChannel::new(pipeline().add(server)), EmbeddedChannel::new(pipeline().add(client)), agreed)
}

/// A server's end that agreed to this.
fn compressed_server(config: Config, agreed: Agreed) -> Channel {
    EmbeddedChannel::new(pipeline().add(WebSocket::server(config).agreed(Some(agreed))))
}

fn quiet() -> Config {
    Config::default().ping_after(None).deflate(Deflate::default())
}

fn packed(engine: &mut Compress, message: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(message.len() * 9 / 8 + 100);
    engine.compress_vec(message, &mut packed, FlushCompress::Sync).unwrap();
    packed.truncate(packed.len() - 4);
    packed
}

fn engine() -> Compress {
    Compress::new(Compression::default(), false)
}

fn sentence(n: usize) -> String {
    format!("event loops own channels, channels own pipelines: {n}; ").repeat(10)
}

#[test]
fn messages_come_through_in_every_agreement() {
    for takeover in [false, true] {
        for bits in [9, 10, 12, 15] {
            let deflate = Deflate::default().takeover(takeover).window_bits(bits).min(0);
            let (mut server, mut client, agreed) = pair(deflate.clone(), deflate);
            assert_eq!((agreed.server_max_window_bits, agreed.client_no_context_takeover), (bits, !takeover));
            let mut lens = Vec::new();
            for n in 0..20 {
                let message = Message::from(sentence(n));
                client.write_outbound(message.clone());
                let wire = client.outbound_bytes();
                lens.push(wire.len());
                server.write_inbound(wire);
                assert_eq!(server.read_inbound().as_ref(), Some(&message));
                server.write_outbound(message.clone());
                feed(&mut client, server.outbound_bytes().chunks(7));
                assert_eq!(client.read_inbound(), Some(message));
            }
            assert!(lens[0] < 150, "compressed to {}", lens[0]);
            assert_eq!(takeover, lens[19] < lens[0] * 3 / 4, "a context helps: {lens:?}");
        }
    }
}

#[test]
fn messages_of_all_lengths_come_through() {
    let deflate = Deflate::default().takeover(true).min(0);
    let (mut server, mut client, _) = pair(deflate.clone(), deflate);
    let mut noise = 1u32;
    for len in [0, 1, 2, 10, 100, 255, 256, 1000, 16_384, 65_536, 300_000, 1024 * 1024] {
        for kind in 0..2 {
            let bytes: Vec<u8> = (0..len)
                .map(|_| {
                    noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (noise >> 24) as u8 * kind
                })
                .collect();
            let message = Message::from(bytes);
            client.write_outbound(message.clone());
            server.write_inbound(client.outbound_bytes());
            assert_eq!(server.read_inbound(), Some(message), "{len} bytes, kind {kind}");
        }
    }
}

#[test]
fn short_messages_are_sent_as_they_are_and_those_that_would_grow() {
    let (mut server, _, _) = pair(Deflate::default(), Deflate::default());
    let noise: Vec<u8> =
        std::iter::successors(Some(1u32), |n| Some(n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)))
            .map(|n| (n >> 24) as u8)
            .take(300)
            .collect();
    server
        .write_outbound(Message::from("short"))
        .write_outbound(Message::from(noise))
        .write_outbound(Message::from(sentence(1)));
    let sent = frames_of(Role::Server, &server.outbound_bytes());
    let compressed: Vec<bool> = sent.iter().map(|(_, compressed, _)| *compressed).collect();
    assert_eq!(compressed, [false, false, true]);
}

#[test]
fn a_compressed_message_may_come_in_fragments_of_any_size() {
    let message = sentence(1);
    let packed = packed(&mut engine(), message.as_bytes());
    for size in [1, 2, 7, packed.len()] {
        let mut channel = compressed_server(quiet(), Agreed::default());
        let pieces: Vec<&[u8]> = packed.chunks(size).collect();
        for (n, piece) in pieces.iter().enumerate() {
            let opcode = if n == 0 { Opcode::Text } else { Opcode::Continuation };
            channel.write_inbound(raw(n + 1 == pieces.len(), n == 0, opcode, piece, Some(KEY)));
            channel.write_inbound(frame(Opcode::Ping, "between"));
        }
        assert_eq!(channel.read_inbound(), Some(Message::from(message.clone())));
    }
    // An empty last fragment.
    let mut channel = compressed_server(quiet(), Agreed::default());
    channel.write_inbound(raw(false, true, Opcode::Text, &packed, Some(KEY)));
    channel.write_inbound(frame(Opcode::Continuation, ""));
    assert_eq!(channel.read_inbound(), Some(Message::from(message)));
}

#[test]
fn empty_messages_several_blocks_and_a_last_block_are_understood() {
    let mut channel = compressed_server(quiet(), Agreed::default());
    let compressed = |payload: &[u8]| raw(true, true, Opcode::Text, payload, Some(KEY));
    channel.write_inbound(compressed(&[0]));
    assert_eq!(channel.read_inbound(), Some(Message::from("")));
    // The examples of RFC 7692: one block, with a shared window, without compression, with a last block, two blocks.
    channel.write_inbound(compressed(&[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]));
    channel.write_inbound(compressed(&[0xf2, 0x00, 0x11, 0x00, 0x00]));
    channel.write_inbound(compressed(&[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00]));
    channel.write_inbound(compressed(&[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00]));
    channel.write_inbound(compressed(&[
        0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00,
    ]));
    channel.write_inbound(frame(Opcode::Text, "Hello"));
    for n in 0..6 {
        assert_eq!(channel.read_inbound(), Some(Message::from("Hello")), "message {n}");
    }
}

#[test]
fn messages_that_are_not_compressed_leave_the_context_alone() {
    let mut engine = engine();
    let mut channel = compressed_server(quiet(), Agreed::default());
    for n in 0..5 {
        channel.write_inbound(raw(
            true,
            true,
            Opcode::Text,
            &packed(&mut engine, sentence(n).as_bytes()),
            Some(KEY),
        ));
        channel.write_inbound(frame(Opcode::Binary, "plain"));
        assert_eq!(channel.read_inbound(), Some(Message::from(sentence(n))));
        assert_eq!(channel.read_inbound(), Some(Message::Binary(Bytes::from_static(b"plain"))));
    }
}

#[test]
fn messages_that_repeat_themselves_come_through_however_small_they_become() {
    const MAX: usize = 64 << 20;
    for len in [(1 << 20) + 1, 3_000_000, MAX] {
        let packed = packed(&mut engine(), &vec![b'x'; len]);
        let mut channel = compressed_server(quiet().max_message(MAX), Agreed::default());
        channel.write_inbound(raw(true, true, Opcode::Text, &packed, Some(KEY)));
        let message = channel.read_inbound().map(|message| message.payload().len());
        assert_eq!(message, Some(len), "of {} bytes, a ratio of {}", packed.len(), len / packed.len());
    }
}

/// Bytes in which nothing repeats itself.
fn noise(len: usize) -> Vec<u8> {
    let next =
        |n: &u64| Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    std::iter::successors(Some(1u64), next).map(|n| (n >> 56) as u8).take(len).collect()
}

#[test]
fn messages_up_to_the_limit_come_through_although_compression_makes_them_longer() {
    const MAX: usize = 100_000;
    // Stored blocks, and codes that take nine bits for some bytes: what becomes longer by the most.
    for level in [Compression::none(), Compression::fast(), Compression::best()] {
        for len in [MAX - 250, MAX - 1, MAX] {
            let packed = packed(&mut Compress::new(level, false), &noise(len));
            let mut channel = compressed_server(quiet().max_message(MAX), Agreed::default());
            channel.write_inbound(raw(true, true, Opcode::Binary, &packed, Some(KEY)));
            channel.write_inbound(raw(false, true, Opcode::Binary, &packed[..10], Some(KEY)));
            channel.write_inbound(frame(Opcode::Continuation, &packed[10..]));
            for way in ["one frame", "fragments"] {
                let message = channel.read_inbound().map(|message| message.payload().len());
                assert_eq!(message, Some(len), "{len} of {MAX} bytes as {} in {way}", packed.len());
            }
        }
        let packed = packed(&mut Compress::new(level, false), &noise(MAX + 1));
        let mut channel = compressed_server(quiet().max_message(MAX), Agreed::default());
        channel.write_inbound(raw(true, true, Opcode::Binary, &packed, Some(KEY)));
        assert_eq!(close_code(&mut channel), 1009, "one byte too many");
    }
    // What is not compressed is as long as it says.
    for frame in [frame(Opcode::Binary, vec![0; MAX + 1]), fragment(Opcode::Binary, vec![0; MAX + 1])] {
        let mut channel = compressed_server(quiet().max_message(MAX), Agreed::default());
        channel.write_inbound(&frame[..14]);
        assert_eq!(close_code(&mut channel), 1009);
    }
}

#[test]
fn a_message_is_refused_while_it_becomes_too_big() {
    let bomb = packed(&mut engine(), &vec![0; 50 * 1024 * 1024]);
    assert!(bomb.len() < 60_000);
    let mut channel = compressed_server(quiet(), Agreed::default());
    channel.write_inbound(raw(false, true, Opcode::Binary, &bomb, Some(KEY)));
    assert_eq!(close_code(&mut channel), 1009);
    let mut channel = compressed_server(
        quiet().max_message(100 << 20).deflate(Deflate::default().ratio(100, 10_000)),
        Agreed::default(),
    );
    channel.write_inbound(raw(false, true, Opcode::Binary, &bomb, Some(KEY)));
    assert_eq!(close_code(&mut channel), 1009);
    assert!(
        channel
            .advance(netwright_websocket::LINGER)
            .channel()
            .close_cause()
            .unwrap()
            .to_string()
            .contains("limit is 100")
    );
}

#[test]
fn what_is_not_deflated_or_not_utf8_is_refused_with_1007() {
    for payload in [&b"\xff\xff\xff\xff"[..], b"\x07", b"\xf2\x00\x11\x00\x01"] {
        let mut channel = compressed_server(quiet(), Agreed::default());
        channel.write_inbound(raw(true, true, Opcode::Binary, payload, Some(KEY)));
        assert_eq!(close_code(&mut channel), 1007, "{payload:x?}");
    }
    let mut channel = compressed_server(quiet(), Agreed::default());
    let wrong = [sentence(1).as_bytes(), b"\xff"].concat();
    channel.write_inbound(raw(true, true, Opcode::Text, &packed(&mut engine(), &wrong), Some(KEY)));
    assert_eq!(close_code(&mut channel), 1007);
}

#[test]
fn a_peer_whose_window_is_too_small_for_us_gets_plain_messages() {
    let (agreed, reply) =
        deflate::accept(&Deflate::default(), ["permessage-deflate; server_max_window_bits=8"]).unwrap();
    assert!(reply.contains("server_max_window_bits=8"));
    let mut channel = compressed_server(quiet(), agreed);
    channel.write_outbound(Message::from(sentence(1)));
    let sent = frames_of(Role::Server, &channel.outbound_bytes());
    assert_eq!(sent, [(Opcode::Text, false, sentence(1).into_bytes())]);
}
