//! Bytes come back as they were sent, whatever their sizes and however many connections there are.

use super::{
    Behaviour, Need, Setup, behaviour,
    support::{Random, Soon, expect, expect_end, pattern, round_trip, script},
};
use bytes::Bytes;
use std::{
    io::{Read, Write},
    thread,
};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(random_sizes_come_back_byte_for_byte).shows(&[49]),
    behaviour!(one_byte_at_a_time_comes_back).shows(&[49]),
    behaviour!(a_stream_that_is_sent_and_read_at_once_comes_back).shows(&[49]),
    behaviour!(a_client_of_ours_gets_its_bytes_back).shows(&[49]),
    behaviour!(many_connections_at_once_do_not_mix).shows(&[49]),
    behaviour!(many_short_connections_never_get_what_belongs_to_another)
        .shows(&[66])
        .needs(&[Need::HalfClosure]),
    behaviour!(descriptor_numbers_that_a_client_gets_again_never_cross_its_channels).shows(&[66]),
];

fn random_sizes_come_back_byte_for_byte(setup: Setup) {
    let running = setup.echo();
    let mut random = Random::new();
    let mut stream = running.dial();
    for _ in 0..60 {
        let size = match random.below(4) {
            0 => 1 + random.below(16),
            1 => 1 + random.below(2_000),
            2 => 65_530 + random.below(12), // around what one read takes
            _ => 1 + random.below(100_000),
        };
        let message = random.bytes(size);
        round_trip(&mut stream, &message);
    }
}

fn one_byte_at_a_time_comes_back(setup: Setup) {
    let running = setup.echo();
    let mut stream = running.dial();
    for byte in 0..=255_u8 {
        round_trip(&mut stream, &[byte]);
    }
}

/// The sender does not wait for answers, so both directions are full at times.
fn a_stream_that_is_sent_and_read_at_once_comes_back(setup: Setup) {
    const LEN: usize = 4 << 20;
    let running = setup.echo();
    let mut stream = running.dial();
    let mut writer = stream.try_clone().unwrap();
    let sender = thread::spawn(move || {
        let mut random = Random::new();
        let (data, mut at) = (pattern(LEN), 0);
        while at < data.len() {
            let end = data.len().min(at + 1 + random.below(50_000));
            writer.write_all(&data[at..end]).unwrap();
            at = end;
        }
    });
    let mut got = vec![0; LEN];
    stream.read_exact(&mut got).unwrap();
    sender.join().unwrap();
    assert!(got == pattern(LEN));
}

fn a_client_of_ours_gets_its_bytes_back(setup: Setup) {
    let running = setup.echo();
    let (script, events) = script();
    let client = setup.client(script);
    let channel = client.connect(running.address()).soon().unwrap();
    events.active();
    let mut random = Random::new();
    for _ in 0..40 {
        let size = 1 + random.below(100_000);
        let message = random.bytes(size);
        channel.send(Bytes::from(message.clone())).soon().unwrap();
        events.read(&message);
    }
}

fn many_connections_at_once_do_not_mix(setup: Setup) {
    const CONNECTIONS: usize = 200;
    let running = setup.echo();
    let mut random = Random::new();
    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| running.dial()).collect();
    for _ in 0..3 {
        let messages: Vec<_> = streams
            .iter()
            .map(|_| {
                let size = 1 + random.below(3_000);
                random.bytes(size)
            })
            .collect();
        for (stream, message) in streams.iter_mut().zip(&messages) {
            stream.write_all(message).unwrap();
        }
        for (stream, message) in streams.iter_mut().zip(&messages) {
            expect(stream, message);
        }
    }
    assert_eq!(running.server.figures().accepted, CONNECTIONS as u64);
    assert_eq!(running.server.figures().open, CONNECTIONS);
    drop(streams);
    running.wait_for_open(0);
}

/// The system gives out the numbers of closed descriptors again at once: an event that is left from the connection
/// before must not reach the next one.
fn many_short_connections_never_get_what_belongs_to_another(setup: Setup) {
    const PEERS: u32 = 3;
    const ROUNDS: u32 = 150;
    let running = setup.echo();
    let peers: Vec<_> = (0..PEERS)
        .map(|peer| {
            let address = running.address().clone();
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    let mut stream = setup.dial(&address);
                    let own: Vec<u8> = (peer * ROUNDS + round).to_le_bytes().repeat(50);
                    match round % 3 {
                        0 => round_trip(&mut stream, &own),
                        1 => {
                            stream.write_all(&own).unwrap();
                            drop(stream); // with the answer on its way: a reset
                        }
                        _ => {
                            round_trip(&mut stream, &own);
                            stream.shut_down().unwrap();
                            expect_end(&mut stream);
                        }
                    }
                }
            })
        })
        .collect();
    peers.into_iter().for_each(|peer| peer.join().unwrap());
    running.wait_for_open(0);
    assert_eq!(running.server.figures().accepted, u64::from(PEERS * ROUNDS));
}

fn descriptor_numbers_that_a_client_gets_again_never_cross_its_channels(setup: Setup) {
    let running = setup.echo();
    let (script, events) = script();
    let client = setup.client(script);
    for round in 0..150_u32 {
        let own: Vec<u8> = round.to_le_bytes().repeat(50);
        let channel = client.connect(running.address()).soon().unwrap();
        assert_eq!(events.active(), channel);
        channel.write_and_flush(Bytes::from(own.clone()));
        events.read(&own);
        channel.close().soon();
        events.end();
    }
    running.wait_for_open(0);
}
