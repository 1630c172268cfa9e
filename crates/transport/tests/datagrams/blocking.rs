//! The same channels on a loop whose thread blocks in `poll(2)`, which repeats its events until they are used up.

use crate::support::*;
use bytes::Bytes;
use netwright_core::EventLoopGroup;
use netwright_transport::{BlockingSeed, DatagramOptions, DatagramSocket, DatagramsBuilder};

fn on_poll(builder: DatagramsBuilder) -> DatagramsBuilder {
    builder.group(EventLoopGroup::builder().loops(1).driver(|_| BlockingSeed::new()).build().unwrap())
}

#[test]
fn datagrams_are_answered_and_an_idle_channel_does_not_spin() {
    let echo = bind_with(echo(), ANY_PORT, on_poll);
    let peer = peer();
    for bytes in [&b"hello"[..], b"", &[1; 9000]] {
        peer.send_to(bytes, echo.addr()).unwrap();
        expect(&peer, echo.addr(), bytes);
    }
    echo.assert_quiet();
}

#[test]
fn while_paused_nothing_is_read_and_nothing_spins() {
    let running = bind_with(probe(), ANY_PORT, |builder| on_poll(builder).auto_read(false));
    let peer = peer();
    for number in 0..20_u8 {
        peer.send_to(&[number], running.addr()).unwrap();
    }
    running.assert_quiet();
    running.events.nothing();
    assert_eq!(DatagramSocket::of(&running.channel).unwrap().figures().received, 0);
    running.channel.request();
    assert_eq!(running.events.read().bytes, [0]);
    running.assert_quiet();
    running.events.nothing();
    running.channel.resume();
    for number in 1..20_u8 {
        assert_eq!(running.events.read().bytes, [number]);
    }
    running.assert_quiet();
}

#[test]
fn a_dead_port_is_an_event_once_paused_or_not() {
    for auto_read in [true, false] {
        let channel = connect_with(probe(), dead_port(), |builder| on_poll(builder).auto_read(auto_read));
        channel.channel.write_and_flush(Bytes::from("anybody there?"));
        assert!(matches!(channel.events.next(), Seen::Unreachable(_)));
        channel.assert_quiet();
        channel.events.nothing();
    }
}

#[test]
fn reported_errors_are_fetched_until_none_is_left() {
    let channel = bind_with(probe(), ANY_PORT, |builder| on_poll(builder).report_undelivered(true));
    let dead = dead_port();
    for _ in 0..50 {
        channel.channel.write(to(dead, b"x"));
    }
    channel.channel.flush();
    assert!(matches!(channel.events.next(), Seen::Unreachable(_)));
    channel.assert_quiet();
    let peer = peer();
    peer.send_to(b"still there?", channel.addr()).unwrap();
    loop {
        match channel.events.next() {
            Seen::Unreachable(unreachable) => assert_eq!(unreachable.to.unwrap(), dead),
            Seen::Read(received) => break assert_eq!(received.bytes, b"still there?"),
            other => panic!("expected an event or the datagram, got {other:?}"),
        }
    }
}

#[test]
fn a_burst_waits_for_room() {
    let receiver = std::net::UdpSocket::bind(ANY_PORT).unwrap();
    let options = DatagramOptions::new().send_buffer_size(4096);
    let set_up = |builder| on_poll(builder).options(options);
    let sender = connect_with(probe(), receiver.local_addr().unwrap(), set_up);
    let written: Vec<_> =
        (0..1000).map(|_| sender.channel.write_tracked(Bytes::from(vec![7; 1400]))).collect();
    sender.channel.flush();
    for mut written in written {
        written.wait().unwrap();
    }
    sender.assert_quiet();
}
