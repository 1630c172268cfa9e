//! DecompressLimits, on by default: the error names limit and value.

use super::*;
use netwright_codec::{DecompressError, DecompressLimits};

/// So many zeros, without ever having them in memory.
fn bomb(format: Format, len: usize) -> Vec<u8> {
    let (mut compressor, mut out, zeros) = (Compressor::new(format), BytesMut::new(), vec![0; 1 << 20]);
    for _ in 0..len >> 20 {
        compressor.compress(&zeros, Flush::None, &mut out, usize::MAX).unwrap();
    }
    compressor.compress(&[], Flush::Finish, &mut out, usize::MAX).unwrap();
    out.to_vec()
}

fn error(stage: Compression, wire: &[u8]) -> (DecompressError, usize) {
    let (mut channel, came) = channel(stage);
    channel.write_inbound(wire);
    assert!(!channel.is_open());
    let came = came.take();
    let [fault] = &came.faults[..] else { panic!("{:?}", came.errors) };
    (fault.as_error().downcast_ref::<DecompressError>().unwrap().clone(), came.bytes.len())
}

#[test]
fn the_total_is_limited() {
    let limits = DecompressLimits::default().total(100_000);
    for &format in Format::all() {
        let wire = packed(format, &[&[0; 100_000]]);
        let came = unpacked(both_ways(format).limits(limits), [&wire[..]]);
        assert!(came.bytes.len() == 100_000 && came.errors.is_empty(), "{format}: {:?}", came.errors);

        let wire = packed(format, &[&[0; 100_001]]);
        let (error, came) = error(both_ways(format).limits(limits), &wire);
        assert_eq!(error, DecompressError::Total { format, limit: 100_000, got: 100_001 });
        assert!(came <= 100_000, "{format}");
        assert_eq!(
            error.to_string(),
            format!("{format}: 100001 bytes or more come out, the limit is 100000")
        );
    }
}

#[test]
fn the_total_is_over_all_streams_in_a_row() {
    for &format in Format::all() {
        let one = packed(format, &[&[0; 1000]]);
        let limits = DecompressLimits::default().total(50_000);
        let (error, _) = error(both_ways(format).chained(true).limits(limits), &one.repeat(51));
        assert_eq!(error, DecompressError::Total { format, limit: 50_000, got: 50_001 });
    }
}

#[test]
fn the_ratio_is_limited_after_a_grace() {
    for &format in Format::all() {
        let wire = bomb(format, 2 << 20);
        let limits = DecompressLimits::default().ratio(10).grace(100_000);
        let (error, came) = error(both_ways(format).limits(limits), &wire);
        let DecompressError::Ratio { limit: 10, output, input, .. } = error else { panic!("{error}") };
        assert!(output > 100_000 && output > 10 * input, "{error}");
        assert!(came <= 1 << 20, "{format}: found soon, after {came} bytes");

        let limits = limits.ratio(u64::MAX);
        let came = unpacked(both_ways(format).limits(limits), [&wire[..]]);
        assert!(came.bytes.len() == 2 << 20 && came.errors.is_empty(), "{format}: {:?}", came.errors);
        let limits = limits.ratio(10).grace(2 << 20);
        let came = unpacked(both_ways(format).limits(limits), [&wire[..]]);
        assert!(came.bytes.len() == 2 << 20 && came.errors.is_empty(), "{format}: {:?}", came.errors);
    }
}

#[test]
fn by_default_a_bomb_of_any_format_that_can_be_one_is_found() {
    for &format in Format::all() {
        // Of LZ4 255 and of Snappy 21 bytes can be made of one: no bomb without the total.
        if ["brotli", "zstd"].contains(&format.name()) {
            let (error, came) = error(both_ways(format), &bomb(format, 8 << 20));
            assert!(matches!(error, DecompressError::Ratio { limit: 1000, .. }), "{error}");
            assert!(came <= 2 << 20, "{format}: {came} bytes came before");
        }
    }
}

#[test]
#[cfg(any(feature = "zstd", feature = "brotli", feature = "lz4"))]
fn the_window_is_limited() {
    let message = text(1, 1000);
    let limits = DecompressLimits::default().window(32 * 1024);
    for &format in Format::all() {
        let wire = packed(format, &[&message]);
        let wanted = match format.name() {
            "zstd" | "brotli" => 2 << 20,
            "lz4" => 64 * 1024,
            _ => continue,
        };
        let (error, came) = error(both_ways(format).limits(limits), &wire);
        assert_eq!(error, DecompressError::Window { format, limit: 32 * 1024, got: wanted });
        assert_eq!(came, 0);
        assert_eq!(
            error.to_string(),
            format!("{format}: a window of {wanted} bytes is asked for, the limit is 32768")
        );
    }
}

/// A frame of zstd with this byte for its window, and five bytes in it.
#[cfg(feature = "zstd")]
fn with_window(byte: u8) -> Vec<u8> {
    let (magic, block) = ([0x28, 0xb5, 0x2f, 0xfd, 0x00], [5 << 3 | 1, 0, 0]);
    [&magic[..], &[byte], &block, b"hello"].concat()
}

#[test]
#[cfg(feature = "zstd")]
fn the_window_of_zstd_is_limited_to_the_byte() {
    let format = Format::Zstd;
    let refused = |limit, byte, got| {
        let wire = with_window(byte);
        for wire in [&wire[..], &wire[..6]] {
            let (error, came) =
                error(both_ways(format).limits(DecompressLimits::default().window(limit)), wire);
            assert_eq!((error, came), (DecompressError::Window { format, limit, got }, 0));
        }
    };
    let allowed = |limit, byte| {
        let wire = with_window(byte);
        let came =
            unpacked(both_ways(format).limits(DecompressLimits::default().window(limit)), wire.chunks(1));
        assert!(came.bytes == b"hello" && came.errors.is_empty(), "{limit}: {:?}", came.errors);
    };
    refused(100, 0, 1 << 10); // less than the least
    refused(1023, 0, 1 << 10);
    allowed(1024, 0);
    refused(1151, 1, 1152); // none is a power of two
    allowed(1152, 1);
    allowed(1 << 30, (28 - 10) << 3); // 256 MiB
    refused((1 << 28) - 1, (28 - 10) << 3, 1 << 28);
}

#[test]
#[cfg(feature = "zstd")]
fn a_window_that_no_machine_keeps_is_refused_with_the_limit_that_is_real() {
    // 2 TiB and more; the library keeps up to 2 GiB, on a small machine up to 1 GiB.
    let (error, _) = error(
        both_ways(Format::Zstd).limits(DecompressLimits::default().window(u64::MAX)),
        &with_window(0xff),
    );
    let DecompressError::Window { limit, got, .. } = error else { panic!("{error}") };
    assert!(limit <= 1 << 31 && got == (1 << 41) + 7 * (1 << 38), "{error}");
}

#[test]
#[cfg(feature = "zstd")]
fn a_single_segment_of_zstd_needs_no_more_window_than_it_has_bytes() {
    // Its length of one byte, or of eight behind a dictionary's number of four, which is zero: none.
    let short = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 5 << 3 | 1, 0, 0][..], b"hello"].concat();
    let long =
        [&[0x28, 0xb5, 0x2f, 0xfd, 0xe3, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5 << 3 | 1, 0, 0][..], b"hello"]
            .concat();
    for wire in [short, long] {
        let limited = |limit| both_ways(Format::Zstd).limits(DecompressLimits::default().window(limit));
        for pieces in [wire.len(), 1] {
            let came = unpacked(limited(5), wire.chunks(pieces));
            assert!(came.bytes == b"hello" && came.errors.is_empty(), "{:?}", came.errors);
        }
        let (error, _) = error(limited(4), &wire);
        assert_eq!(error, DecompressError::Window { format: Format::Zstd, limit: 4, got: 5 });
    }
}

#[test]
#[cfg(feature = "zstd")]
fn every_frame_of_zstd_in_a_row_is_held_to_the_window_and_frames_to_skip_have_none() {
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 0xff, 0xff, 0xff];
    let limits = DecompressLimits::default().window(1024);
    let wire = [&skipped[..], &with_window(0), &skipped, &with_window(0)].concat();
    for pieces in [wire.len(), 1] {
        let came = unpacked(both_ways(Format::Zstd).limits(limits), wire.chunks(pieces));
        assert!(came.bytes == b"hellohello" && came.errors.is_empty(), "{:?}", came.errors);
    }
    let (error, _) = error(both_ways(Format::Zstd).limits(limits), &[wire, with_window(1)].concat());
    assert_eq!(error, DecompressError::Window { format: Format::Zstd, limit: 1024, got: 1152 });
}

#[test]
#[cfg(feature = "brotli")]
fn a_large_window_of_brotli_that_no_rfc_knows_is_refused() {
    // 0x11 and a number of 6 bits: up to 1 GiB.
    let came = unpacked(both_ways(Format::Brotli), [&[0x11, 30, 0, 0, 0, 0][..]]);
    assert_eq!(came.errors.len(), 1, "{:?}", came.errors);
}

#[test]
fn levels_and_windows_that_a_format_does_not_have_are_refused_by_name() {
    for &format in Format::all() {
        let refused = |level| Compressor::new(format).level(level).unwrap_err().to_string();
        assert!(
            refused(23).starts_with(&format!("the level of {format} is 23, but must be ")),
            "{}",
            refused(23)
        );
        let (levels, windows) = match format.name() {
            "gzip" | "zlib" | "deflate" => (0..=9, None),
            "zstd" => (-7..=22, Some(1 << 10)),
            "brotli" => (0..=11, Some(1 << 24)),
            _ => {
                assert!(refused(0).ends_with("left out: the format has none"));
                continue;
            }
        };
        for level in levels {
            // The strongest levels are slow; a few bytes show that they are taken.
            let mut compressor = Compressor::new(format).level(level).unwrap();
            let mut out = BytesMut::new();
            let message = text(8, 2000);
            compressor.compress(&message, Flush::Finish, &mut out, usize::MAX).unwrap();
            assert!(unpacked(both_ways(format), [&out[..]]).bytes == message, "{format} at {level}");
        }
        let window = |bytes| Compressor::new(format).window(bytes).map_err(|error| error.to_string());
        match windows {
            Some(bytes) => assert!(window(bytes).is_ok() && window(bytes + 1).is_err() && window(0).is_err()),
            None => assert!(window(1 << 15).unwrap_err().ends_with("left out: the format has a fixed one")),
        }
    }
}
