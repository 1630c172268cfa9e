//! Where streams end, and what may follow.

use super::*;
use netwright_codec::DecompressError;

/// Formats whose streams may follow each other as if they were one.
const CHAINED: [&str; 3] = ["gzip", "lz4", "zstd"];

#[test]
fn streams_in_a_row_are_one_where_the_format_has_it_so() {
    let (one, two) = (text(1, 300), text(2, 400));
    for &format in Format::all() {
        let first = packed(format, &[&one]);
        let wire = [&first[..], &packed(format, &[&two])].concat();
        for pieces in [wire.chunks(wire.len()), wire.chunks(1)] {
            let came = unpacked(both_ways(format), pieces);
            if CHAINED.contains(&format.name()) || format.name() == "snappy" {
                assert!(
                    came.bytes == [&one[..], &two].concat() && came.errors.is_empty(),
                    "{format}: {:?}",
                    came.errors
                );
            } else {
                assert!(came.bytes == one, "{format}: the first is whole");
                let at = first.len();
                assert_eq!(came.errors, [format!("{format}: ended before byte {at}, and more bytes follow")]);
            }
        }
        let came = unpacked(both_ways(format).chained(true), [&wire[..]]);
        assert!(
            came.bytes == [&one[..], &two].concat() && came.errors.is_empty(),
            "{format}: {:?}",
            came.errors
        );
        if format.name() != "snappy" {
            let came = unpacked(both_ways(format).chained(false), [&wire[..]]);
            assert!(came.bytes == one && came.errors.len() == 1, "{format}: {:?}", came.errors);
        }
    }
}

#[test]
fn what_follows_a_stream_and_is_none_is_an_error() {
    let message = text(3, 300);
    for &format in Format::all() {
        let mut wire = packed(format, &[&message]);
        wire.extend(b"something else");
        let came = unpacked(both_ways(format), [&wire[..]]);
        assert_eq!(came.errors.len(), 1, "{format}: {:?}", came.errors);
        // The state machine tells where the stream ended before it complains.
        if format.name() != "snappy" {
            let (mut decompressor, mut out) = (Decompressor::new(format).chained(false), BytesMut::new());
            let step = decompressor.decompress(&wire, &mut out, 1000).unwrap();
            assert_eq!((step.taken, step.state), (wire.len() - 14, State::Done), "{format}");
            let error = decompressor.decompress(&wire[step.taken..], &mut out, 1000).unwrap_err();
            assert_eq!(error, DecompressError::Trailing { format, at: step.taken as u64 });
            assert!(out == message, "an error adds nothing");
            let error = decompressor.decompress(b"", &mut out, 1000).unwrap_err();
            assert_eq!(error, DecompressError::AfterError { format });
        }
    }
}

#[test]
fn a_broken_stream_closes_the_channel_once_and_nothing_more_comes_of_it() {
    for &format in Format::all() {
        let (mut channel, came) = channel(both_ways(format));
        channel.write_inbound([0xff; 64]);
        assert!(!channel.is_open(), "{format}");
        assert!(matches!(channel.channel().close_cause(), Some(CloseCause::Fault(_))), "{format}");
        let came = came.borrow();
        assert_eq!(came.errors.len(), 1, "{format}: {:?}", came.errors);
        assert!(came.errors[0].starts_with(&format!("{format}: ")), "{}", came.errors[0]);
        assert!(came.faults[0].as_error().downcast_ref::<DecompressError>().is_some(), "{format}: typed");
    }
}

#[test]
fn the_end_of_input_is_the_end_of_the_stream() {
    let message = text(4, 3000);
    for &format in Format::all() {
        let wire = packed(format, &[&message]);
        let (mut whole, came) = channel(both_ways(format));
        whole.write_inbound(&wire).close_input();
        assert!(came.borrow().input_closed && came.borrow().errors.is_empty() && whole.is_open(), "{format}");

        let (mut cut, came) = channel(both_ways(format));
        cut.write_inbound(&wire[..wire.len() - 1]).close_input();
        assert_eq!(came.borrow().errors.len(), 1, "{format}");
        assert!(came.borrow().input_closed, "{format}: told behind the error");
        assert!(!cut.is_open(), "{format}");
    }
}

#[test]
#[cfg(feature = "zlib")]
fn a_dictionary_that_is_not_here_is_an_error_of_its_own() {
    // FDICT is set, and 4 bytes of its number follow.
    let came = unpacked(both_ways(Format::Zlib), [&[0x78, 0xbb, 1, 2, 3, 4, 0][..]]);
    assert_eq!(came.errors, ["zlib: made with a dictionary that is not here"]);
}

#[test]
#[cfg(feature = "lz4")]
fn frames_of_lz4_that_are_to_be_skipped_are() {
    let mut wire = vec![0x53, 0x2a, 0x4d, 0x18, 5, 0, 0, 0, 1, 2, 3, 4, 5];
    wire.extend(packed(Format::Lz4, &[b"hello"]));
    for pieces in [wire.chunks(wire.len()), wire.chunks(1)] {
        let came = unpacked(both_ways(Format::Lz4), pieces);
        assert!(came.bytes == b"hello" && came.errors.is_empty(), "{:?}", came.errors);
    }
}

#[test]
#[cfg(feature = "zstd")]
fn frames_of_zstd_that_are_to_be_skipped_are() {
    let mut wire = vec![0x53, 0x2a, 0x4d, 0x18, 5, 0, 0, 0, 1, 2, 3, 4, 5];
    wire.extend(packed(Format::Zstd, &[b"hello"]));
    for pieces in [wire.chunks(wire.len()), wire.chunks(1)] {
        let came = unpacked(both_ways(Format::Zstd), pieces);
        assert!(came.bytes == b"hello" && came.errors.is_empty(), "{:?}", came.errors);
    }
}

#[test]
#[cfg(feature = "snappy")]
fn chunks_of_snappy_that_are_to_be_skipped_are_however_long() {
    let mut wire = packed(Format::Snappy, &[b"hel"]);
    wire.extend([0xfe, 0, 0, 2]); // 128 KiB of padding
    wire.extend([0; 128 * 1024]);
    wire.extend([0x80, 1, 0, 0, 0]);
    wire.extend(&packed(Format::Snappy, &[b"lo"])[10..]);
    let came = unpacked(both_ways(Format::Snappy), wire.chunks(1000));
    assert!(came.bytes == b"hello" && came.errors.is_empty(), "{:?}", came.errors);
}
