//! Compression on workers: what comes out is what comes out on the loop, whatever the format.

use super::{both_ways, packed, text};
use netwright_codec::{Compressor, Decompressor, Format, compress, decode};
use netwright_core::{EmbeddedChannel, SendHandler, Workers, pipeline};

/// Lets the workers finish.
fn settle<R: 'static, W: 'static>(channel: &mut EmbeddedChannel<R, W>) {
    while channel.run().is_busy() {
        std::thread::yield_now();
    }
}

#[test]
fn every_format_goes_both_ways_on_workers() {
    let workers = Workers::new(2).unwrap();
    for &format in Format::all() {
        let message = text(7, 100_000);
        let stages = || pipeline().add_on(&workers, both_ways(format));
        let (mut here, mut there) = (EmbeddedChannel::new(stages()), EmbeddedChannel::new(stages()));
        here.write_outbound(message.clone());
        settle(&mut here);
        settle(&mut there);
        there.write_inbound(here.outbound_bytes());
        settle(&mut there);
        let came: Vec<u8> = std::iter::from_fn(|| there.read_inbound()).flatten().collect();
        assert!(came == message, "{format}: {} bytes", came.len());
    }
}

#[test]
fn a_stream_that_ends_with_its_channel_is_ended_on_workers_too() {
    let workers = Workers::new(1).unwrap();
    for &format in Format::all() {
        let mut channel =
            EmbeddedChannel::new(pipeline().add_on(&workers, compress(Compressor::new(format))));
        channel.write_outbound("hello");
        drop(channel.channel().close());
        settle(&mut channel);
        assert!(!channel.is_open());
        assert_eq!(channel.outbound_bytes(), packed(format, &[b"hello"]), "{format}");
    }
}

#[test]
fn each_stage_may_go_to_another_thread() {
    fn may<H: SendHandler>(_: H) {}
    for &format in Format::all() {
        may(both_ways(format));
        may(compress(Compressor::new(format)));
        may(decode(Decompressor::new(format)));
    }
}
