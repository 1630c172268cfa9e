//! Damaged streams end in bytes or in one error: no panic, no spinning, and the same however they are split.

use super::*;
use netwright_codec::{DecompressError, DecompressLimits};
use netwright_testkit::verify::{damaged, hostile_lengths};

/// Runs a state machine over a stream in pieces. Fails if it goes on for longer than there can be something to do.
pub(super) fn run(format: Format, stream: &[u8], piece: usize) -> (Vec<u8>, Result<(), DecompressError>) {
    let limits = DecompressLimits::default().total(1 << 20);
    let (mut decompressor, mut out) = (Decompressor::new(format).limits(limits), BytesMut::new());
    let mut calls = 0;
    for mut rest in stream.chunks(piece) {
        loop {
            calls += 1;
            assert!(calls < 10_000 + 2 * stream.len(), "{format} goes on for ever");
            match decompressor.decompress(rest, &mut out, 4096) {
                Ok(step) => {
                    rest = &rest[step.taken..];
                    assert!(
                        step.state != State::NeedInput || rest.is_empty(),
                        "{format} asks for what it has"
                    );
                    if rest.is_empty() && step.state != State::OutputFull {
                        break;
                    }
                }
                Err(error) => return (out.to_vec(), Err(error)),
            }
        }
    }
    (out.to_vec(), decompressor.finish())
}

#[track_caller]
pub(super) fn same_however_split(format: Format, stream: &[u8], what: &str) -> bool {
    let (bytes, result) = run(format, stream, stream.len().max(1));
    let (one_by_one, other) = run(format, stream, 1);
    assert_eq!(
        result.is_ok(),
        other.is_ok(),
        "{format}, {what}: {result:?} of the whole, {other:?} byte by byte"
    );
    if result.is_ok() {
        assert!(bytes == one_by_one, "{format}, {what}");
    }
    result.is_ok()
}

/// How often random damage is tried: `NETWRIGHT_SEEDS`, or few enough for every day.
fn seeds() -> u64 {
    std::env::var("NETWRIGHT_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(300)
}

#[test]
fn random_damage() {
    let (short, long) = (text(1, 300), text(2, 5000));
    for &format in Format::all() {
        let streams = [
            packed(format, &[&short[..100], &short[100..]]),
            packed(format, &[&long]),
            packed(format, &[&[0; 9000]]),
        ];
        let mut broken = 0u64;
        let seeds = seeds();
        for seed in 0..seeds {
            let stream = damaged(seed, &streams[seed as usize % 3]);
            broken += u64::from(!same_however_split(format, &stream, &format!("seed {seed}")));
        }
        // Formats without a checksum take some of it for data.
        assert!(broken > seeds / 2, "{format}: {broken} of {seeds} were found out");
    }
}

#[test]
fn numbers_at_their_bounds_near_the_front() {
    for &format in Format::all() {
        let stream = packed(format, &[&text(3, 200)]);
        for (index, hostile) in hostile_lengths(&stream).iter().enumerate() {
            same_however_split(format, hostile, &format!("number {index}"));
        }
    }
}

#[test]
fn noise() {
    for &format in Format::all() {
        let mut numbers = Numbers::new(9);
        for round in 0..300 {
            let head = packed(format, &[b"hello"]);
            let head = &head[..numbers.below(head.len())];
            let noise = (0..numbers.below(200)).map(|_| numbers.next_u64() as u8);
            let stream: Vec<u8> = head.iter().copied().chain(noise).collect();
            same_however_split(format, &stream, &format!("round {round}"));
        }
    }
}

#[test]
fn every_bit_of_a_checked_stream_matters() {
    for &format in Format::all() {
        if !["gzip", "zlib", "zstd", "lz4", "snappy"].contains(&format.name()) {
            continue;
        }
        let message = text(4, 60);
        let stream = packed(format, &[&message]);
        for bit in 0..8 * stream.len() {
            let mut flipped = stream.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (bytes, result) = run(format, &flipped, flipped.len());
            // A few bits say nothing of the content: names and times in headers, chunks that become padding.
            assert!(result.is_err() || bytes == message || format.name() == "snappy", "{format}: bit {bit}");
        }
    }
}
