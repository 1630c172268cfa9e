//! A datagram pipeline without a socket: datagrams in, envelopes out.

use bytes::BytesMut;
use netwright_core::{
    AppContext, Application, CloseCause, EmbeddedChannel, Envelope, HostSettings, WaterMarks, Weight,
    WriteError, pipeline,
};
use netwright_transport::Datagram;
use std::net::SocketAddr;

/// Sends every datagram back to where it came from.
struct Echo;

impl Application for Echo {
    type Read = Datagram;
    type Write = Envelope;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
        cx.write_and_flush(datagram.into_answer());
    }
}

fn from(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn datagram(port: u16, bytes: &[u8]) -> Datagram {
    Datagram::new(from(port), BytesMut::from(bytes))
}

#[test]
fn answers_to_datagrams_are_envelopes_with_their_boundaries_and_targets() {
    let mut channel = EmbeddedChannel::of_messages(pipeline().app(Echo));
    for (port, bytes) in [(1, &b"one"[..]), (2, b""), (1, b"three")] {
        channel.receive(datagram(port, bytes));
        let answer = channel.read_outbound().unwrap();
        assert_eq!((answer.to, &answer.bytes[..]), (Some(from(port).into()), bytes));
    }
    channel.finish().expect_nothing();
}

#[test]
fn envelopes_that_nobody_takes_count_for_their_bytes_and_fail_with_their_channel() {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(1_000, 2_000).unwrap();
    let mut channel = EmbeddedChannel::of_messages_with(pipeline().app(Echo), settings, Weight::unsaid());
    channel.block_output(true).receive(datagram(1, &[7; 500]));
    assert!(channel.channel().is_writable());
    let mut waits = channel.channel().send(Envelope::to(from(2), vec![7; 2_000]));
    channel.run();
    assert!(!channel.channel().is_writable() && waits.try_take().is_none());
    channel.close_by_peer();
    assert!(matches!(waits.try_take(), Some(Err(WriteError::Closed(CloseCause::PeerClosed)))));
    assert!(channel.read_outbound().is_none());
}
