//! What a compressing stage sends, and when.

use super::*;
use netwright_codec::compress;
use netwright_core::WriteError;

/// What of a stream can be read by now.
fn readable(format: Format, wire: &[u8]) -> Vec<u8> {
    let (mut out, mut decompressor, mut rest) = (BytesMut::new(), Decompressor::new(format), wire);
    loop {
        let step = decompressor.decompress(rest, &mut out, 1 << 20).unwrap();
        rest = &rest[step.taken..];
        if step.state != State::OutputFull {
            return out.to_vec();
        }
    }
}

#[test]
fn after_a_flush_everything_can_be_read_and_nothing_is_sent_before() {
    for &format in Format::all() {
        let (mut channel, _) = channel(both_ways(format));
        let mut wire = Vec::new();
        let mut written: Vec<u8> = Vec::new();
        for round in 0..20 {
            for part in 0..3 {
                let message = text(3 * round + part, 1 + 40 * round as usize);
                written.extend(&message);
                channel.channel().write(message);
            }
            channel.run();
            assert!(channel.read_outbound().is_none(), "{format}: gathered until the flush");
            channel.channel().flush();
            wire.extend(channel.outbound_bytes());
            assert!(readable(format, &wire) == written, "{format}, flush {round}");
        }
        channel.channel().flush();
        assert!(channel.read_outbound().is_none(), "{format}: nothing new, nothing sent");
    }
}

#[test]
fn what_is_written_in_bulk_leaves_in_pieces_before_the_flush() {
    let mut numbers = Numbers::new(1);
    let noise: Vec<u8> = std::iter::repeat_with(|| numbers.next_u64() as u8).take(300_000).collect();
    for &format in Format::all() {
        let (mut channel, _) = channel(both_ways(format));
        channel.write_outbound(noise.clone());
        let mut wire = Vec::new();
        while let Some(piece) = channel.read_outbound() {
            assert!(piece.len() <= 16 * 1024, "{format}: {}", piece.len());
            wire.extend(piece);
        }
        assert!(wire.len() < noise.len() + noise.len() / 100, "{format}: noise hardly grows");
        assert!(readable(format, &wire) == noise, "{format}");
    }
}

#[test]
fn a_close_ends_the_stream_first() {
    for &format in Format::all() {
        for close in ["whole", "half"] {
            let (mut channel, _) = channel(both_ways(format));
            channel.channel().write(b"hello");
            match close {
                "whole" => drop(channel.channel().close()),
                _ => drop(channel.channel().shut_down_output_tracked()),
            }
            let wire = channel.outbound_bytes();
            assert_eq!(channel.is_open(), close == "half", "{format}");
            let came = unpacked(both_ways(format), [&wire[..]]);
            assert_eq!((came.bytes, came.errors), (b"hello".to_vec(), vec![]), "{format}, {close}");
        }
    }
}

#[test]
fn after_the_end_of_the_stream_nothing_can_be_written_and_nothing_is_sent_twice() {
    for &format in Format::all() {
        let (mut channel, _) = channel(both_ways(format));
        channel.write_outbound(b"hello");
        let mut written = channel.channel().shut_down_output_tracked();
        channel.run();
        assert_eq!(written.try_take().map(|result| result.is_ok()), Some(true));
        let wire = channel.outbound_bytes();
        let mut late = channel.channel().send(b"late");
        channel.run();
        assert!(matches!(late.try_take(), Some(Err(WriteError::OutputShutDown))), "{format}");
        drop(channel.channel().close());
        assert!(channel.outbound_bytes().is_empty(), "{format}: ended once");
        assert!(unpacked(both_ways(format), [&wire[..]]).errors.is_empty());
    }
}

#[test]
fn a_channel_on_which_nothing_was_written_sends_nothing() {
    for &format in Format::all() {
        let (mut channel, _) = channel(both_ways(format));
        channel.channel().flush();
        channel.write_outbound(Bytes::new());
        drop(channel.channel().close());
        assert!(channel.outbound_bytes().is_empty(), "{format}");
    }
}

#[test]
fn a_promise_completes_when_its_bytes_have_left() {
    for &format in Format::all() {
        let (mut channel, _) = channel(both_ways(format));
        channel.block_output(true);
        let mut messages: Vec<_> = (0..3).map(|_| channel.channel().write_tracked(b"hello")).collect();
        let mut empty = channel.channel().write_tracked(Bytes::new());
        channel.run();
        assert!(messages.iter().all(|message| !message.is_done()), "{format}: not flushed");
        channel.channel().flush();
        channel.run();
        assert!(messages.iter().all(|message| !message.is_done()), "{format}: not sent");
        channel.block_output(false);
        assert!(messages.iter_mut().all(|message| matches!(message.try_take(), Some(Ok(())))), "{format}");
        assert!(matches!(empty.try_take(), Some(Ok(()))), "{format}");
        assert!(readable(format, &channel.outbound_bytes()) == b"hellohellohello");
    }
}

#[test]
fn a_promise_whose_bytes_were_not_flushed_fails_with_the_end_of_the_channel() {
    for &format in Format::all() {
        let (mut channel, _) = channel(both_ways(format));
        let mut message = channel.channel().write_tracked(b"hello");
        channel.run();
        channel.close_by_peer();
        assert!(
            matches!(message.try_take(), Some(Err(WriteError::Closed(CloseCause::PeerClosed)))),
            "{format}"
        );
    }
}

#[test]
fn one_way_alone_is_a_stage_too() {
    for &format in Format::all() {
        let mut here = EmbeddedChannel::new(pipeline().add(compress(Compressor::new(format))));
        here.write_inbound(b"plain").write_outbound(b"hello");
        assert_eq!(here.read_inbound().unwrap(), "plain");
        let mut there =
            EmbeddedChannel::new(pipeline().add(netwright_codec::decode(Decompressor::new(format))));
        there.write_inbound(here.outbound_bytes()).write_outbound(b"plain");
        assert_eq!(there.read_inbound().unwrap(), "hello");
        assert_eq!(there.outbound_bytes(), b"plain");
    }
}

#[test]
fn a_stage_that_leaves_ends_its_stream_and_its_successor_writes_in_the_clear() {
    for &format in Format::all() {
        let mut channel = EmbeddedChannel::<(), _>::with_joint(pipeline().joint(move |switch| {
            let goodbye = pipeline().add(both_ways(format)).handle(move |cx, _| {
                cx.write("goodbye"); // and no flush
                switch.to(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes)).sealed());
            });
            goodbye.sealed()
        }));
        channel.write_inbound(packed(format, &[b"go"]));
        let sent = channel.outbound_bytes();
        let came = unpacked(both_ways(format), [&sent[..]]);
        assert_eq!(
            (&came.bytes[..], &came.errors[..]),
            (&b"goodbye"[..], &[][..]),
            "{format}: whole, with its end"
        );
        channel.write_inbound("clear");
        assert_eq!(channel.outbound_bytes(), b"clear", "{format}");
    }
}
