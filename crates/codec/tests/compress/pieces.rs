//! How a stream is split does not show in what comes of it.

use super::*;
use netwright_testkit::verify::chunks;

#[test]
fn what_one_side_writes_the_other_reads() {
    for &format in Format::all() {
        for len in [1, 2, 100, 4096, 70_000, 300_000] {
            let message = text(len as u64, len);
            let ((mut here, _), (mut there, came)) = (channel(both_ways(format)), channel(both_ways(format)));
            here.write_outbound(message.clone());
            let wire = here.outbound_bytes();
            for piece in chunks(len as u64, 20_000, &wire) {
                there.write_inbound(piece);
            }
            assert!(came.borrow().bytes == message, "{format}, {len} bytes");
            assert!(came.borrow().longest <= 16 * 1024, "{format}: pieces are bounded");
            assert!(there.is_open() && came.borrow().errors.is_empty());
        }
    }
}

#[test]
fn a_stream_may_be_split_anywhere() {
    let message = text(1, 700);
    for &format in Format::all() {
        let wire = packed(format, &[&message[..300], &message[300..]]);
        for split in 0..=wire.len() {
            let (before, behind) = wire.split_at(split);
            let came = unpacked(both_ways(format), [before, behind]);
            assert!(
                came.bytes == message && came.errors.is_empty(),
                "{format} at {split}: {:?}",
                came.errors
            );
        }
    }
}

#[test]
fn a_stream_may_come_byte_by_byte_and_in_random_pieces() {
    let message = text(2, 20_000);
    for &format in Format::all() {
        let wire = packed(format, &[&message[..10], &message[10..10_000], &message[10_000..]]);
        let came = unpacked(both_ways(format), wire.chunks(1));
        assert!(came.bytes == message && came.errors.is_empty(), "{format}: {:?}", came.errors);
        for seed in 0..20 {
            let came = unpacked(both_ways(format), chunks(seed, 5000, &wire));
            assert!(
                came.bytes == message && came.errors.is_empty(),
                "{format}, seed {seed}: {:?}",
                came.errors
            );
        }
    }
}

#[test]
fn a_stream_that_is_cut_off_anywhere_gives_a_beginning_and_an_error() {
    let message = text(3, 500);
    for &format in Format::all() {
        let wire = packed(format, &[&message[..250], &message[250..]]);
        let mut whole_before_the_end = 0;
        for cut in 1..wire.len() {
            let came = unpacked(both_ways(format), [&wire[..cut]]);
            assert!(message.starts_with(&came.bytes), "{format} cut at {cut}");
            match &came.errors[..] {
                [error] => assert_eq!(*error, format!("{format}: ended in the middle, after {cut} bytes")),
                [] => whole_before_the_end += 1,
                more => panic!("{format} cut at {cut}: {more:?}"),
            }
        }
        // Snappy has no end: between its three chunks it may be over.
        let expected = if format.name() == "snappy" { 2 } else { 0 };
        assert_eq!(whole_before_the_end, expected, "{format}");
        assert!(unpacked(both_ways(format), []).errors.is_empty(), "{format}: no byte is no stream");
    }
}

#[test]
fn the_state_machine_makes_no_more_than_it_is_asked_for() {
    let message = text(4, 3000);
    for &format in Format::all() {
        let wire = packed(format, &[&message]);
        for room in [1, 7, 1000, 2999, 3000, 3001] {
            let (mut decompressor, mut out, mut rest) =
                (Decompressor::new(format), BytesMut::new(), &wire[..]);
            loop {
                let before = out.len();
                let step = decompressor.decompress(rest, &mut out, room).unwrap();
                rest = &rest[step.taken..];
                assert!(out.len() - before <= room, "{format}: {room}");
                match step.state {
                    State::OutputFull => assert_eq!(out.len() - before, room, "{format}"),
                    State::NeedInput => break assert_eq!(format.name(), "snappy", "only this has no end"),
                    State::Done => break,
                }
            }
            assert!(out == message && rest.is_empty(), "{format}: {room}");
            decompressor.finish().unwrap();
            assert_eq!((decompressor.total_in(), decompressor.total_out()), (wire.len() as u64, 3000));
        }
    }
}

#[test]
fn the_state_machine_compresses_into_any_room() {
    let message = text(5, 3000);
    for &format in Format::all() {
        for room in [1, 2, 100, 1000] {
            let (mut compressor, mut out) = (Compressor::new(format), BytesMut::new());
            let mut drive = |mut input: &[u8], flush: Flush| loop {
                let before = out.len();
                let step = compressor.compress(input, flush, &mut out, room).unwrap();
                input = &input[step.taken..];
                assert!(out.len() - before <= room, "{format}: {room}");
                if step.state != State::OutputFull {
                    assert!(input.is_empty());
                    break step.state;
                }
            };
            assert_eq!(drive(&message[..1000], Flush::None), State::NeedInput);
            assert_eq!(drive(&message[1000..2000], Flush::Sync), State::NeedInput);
            assert_eq!(drive(&message[2000..], Flush::None), State::NeedInput);
            assert_eq!(drive(&[], Flush::Finish), State::Done);
            let came = unpacked(both_ways(format), [&out[..]]);
            assert!(came.bytes == message && came.errors.is_empty(), "{format}, {room}: {:?}", came.errors);
            assert!(compressor.compress(b"more", Flush::None, &mut out, 10).is_err(), "it is over");
        }
    }
}

#[test]
fn a_flush_that_was_begun_is_completed_before_there_is_more_input() {
    for &format in Format::all() {
        let (first, second) = (text(6, 2000), text(7, 2000));
        let (mut compressor, mut out) = (Compressor::new(format), BytesMut::new());
        let step = compressor.compress(&first, Flush::Sync, &mut out, 10).unwrap();
        assert_eq!(step.state, State::OutputFull, "{format}");
        let taken = step.taken;
        let rest = [&first[taken..], &second].concat();
        let step = compressor.compress(&rest, Flush::Finish, &mut out, usize::MAX).unwrap();
        assert_eq!((step.taken, step.state), (rest.len(), State::Done), "{format}");
        assert!(unpacked(both_ways(format), [&out[..]]).bytes == [first, second].concat(), "{format}");
    }
}

#[test]
fn while_delivery_is_paused_nothing_is_unpacked() {
    for &format in Format::all() {
        let message = vec![7; 200_000];
        let wire = packed(format, &[&message]);
        let (mut channel, came) = channel(both_ways(format));
        channel.channel().pause();
        channel.run().write_inbound(&wire);
        for pieces in 0..5 {
            assert_eq!(came.borrow().pieces, pieces, "{format}: one piece for each request");
            channel.channel().request();
            channel.run();
        }
        assert!(came.borrow().bytes.len() <= 5 * 16 * 1024);
        channel.channel().resume();
        channel.run();
        assert!(came.borrow().bytes == message, "{format}");
    }
}
