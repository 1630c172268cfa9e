//! What a bomb may cost: memory by the format's window, not by what comes out.

#![cfg(feature = "_compress")]

use bytes::BytesMut;
use netwright_codec::{Compressor, DecompressLimits, Decompressor, Flush, Format, State, decode};
use netwright_core::{EmbeddedChannel, pipeline};
use netwright_testkit::{CountingAllocator, peak_during};
use std::{cell::Cell, rc::Rc};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// What the bombs unpack to: more than anything that may be kept.
const LEN: u64 = 8 << 20;

fn bomb(format: Format) -> Vec<u8> {
    let (mut compressor, mut out, zeros) = (Compressor::new(format), BytesMut::new(), vec![0; 1 << 20]);
    for _ in 0..LEN >> 20 {
        compressor.compress(&zeros, Flush::None, &mut out, usize::MAX).unwrap();
    }
    let step = compressor.compress(&[], Flush::Finish, &mut out, usize::MAX).unwrap();
    assert_eq!(step.state, State::Done);
    out.to_vec()
}

/// What a stage may hold: its window, tables, a piece, and for LZ4 and Snappy a block in and out. zstd's own memory is not
/// Rust's and does not count here; its unit tests ask the library.
fn bound(format: Format) -> u64 {
    match format.name() {
        "brotli" => 4 << 20, // the ring is the window of 2 MiB and some, and the tables grow once
        _ => 512 << 10,
    }
}

#[test]
fn a_bomb_that_nobody_limits_is_never_in_memory() {
    for &format in Format::all() {
        let bomb = bomb(format);
        let limits = DecompressLimits::default().ratio(u64::MAX);
        let (peak, came) = peak_during(|| {
            let came = Rc::new(Cell::new(0));
            let counter = came.clone();
            let stage = decode(Decompressor::new(format).limits(limits));
            let mut channel = EmbeddedChannel::new(
                pipeline()
                    .add(stage)
                    .handle(move |_, piece: BytesMut| counter.set(counter.get() + piece.len() as u64)),
            );
            for read in bomb.chunks(16 << 10) {
                channel.write_inbound(read);
            }
            assert!(channel.is_open(), "{format}");
            came.get()
        });
        assert_eq!(came, LEN, "{format}");
        assert!(peak < bound(format), "{format}: {peak} bytes in use, {} would do", bound(format));
        println!("{format}: {} bytes unpack to {LEN} with at most {peak} in use", bomb.len());
    }
}

#[test]
fn a_bomb_that_nobody_asks_for_is_not_unpacked() {
    for &format in Format::all() {
        let bomb = bomb(format);
        let read = &bomb[..bomb.len().min(16 << 10)];
        let limits = DecompressLimits::default().ratio(u64::MAX);
        let stage = decode(Decompressor::new(format).limits(limits));
        let mut channel = EmbeddedChannel::new(pipeline().add(stage));
        channel.channel().pause();
        channel.run();
        let (peak, ()) = peak_during(|| assert!(channel.write_inbound(read).is_open()));
        assert!(peak < 64 << 10, "{format}: {peak} bytes for a read that waits");
        assert!(channel.read_inbound().is_none());
        channel.channel().request();
        let (peak, piece) = peak_during(|| channel.run().read_inbound().unwrap());
        assert!(
            piece.len() <= 16 << 10 && peak < bound(format),
            "{format}: {} bytes, {peak} in use",
            piece.len()
        );
        assert!(channel.read_inbound().is_none(), "{format}: one for each request");
    }
}

#[test]
fn a_header_that_claims_much_gets_little() {
    let claims: &[(&str, &[u8])] = &[
        // A frame with blocks of 4 MiB, and one of which nothing has come but its length.
        ("lz4", &[0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73, 0x00, 0x00, 0x40, 0x00, 1, 2, 3]),
        // A chunk of 76,000 bytes.
        ("snappy", b"\xff\x06\x00\x00sNaPpY\x00\xe0\x28\x01"),
    ];
    for (name, bytes) in claims {
        let Some(&format) = Format::all().iter().find(|format| format.name() == *name) else { continue };
        let mut decompressor = Decompressor::new(format);
        let (peak, step) = peak_during(|| decompressor.decompress(bytes, &mut BytesMut::new(), 1 << 20));
        assert_eq!(step.unwrap().state, State::NeedInput, "{format}");
        assert!(peak < 256 << 10, "{format}: {peak} bytes in use for {} that came", bytes.len());
    }
}
