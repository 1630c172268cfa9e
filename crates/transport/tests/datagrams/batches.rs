//! Many datagrams at once: in order, none twice, with and without the system's help.

use crate::support::*;
use bytes::Bytes;
use netwright_transport::{DatagramSocket, DatagramsBuilder};

const TOTAL: u32 = 10_000;
/// As many as surely fit in everybody's buffers.
const WINDOW: u32 = 100;

/// Sends numbered datagrams to an echo, a window of them at a time, and expects them back in order.
fn ten_thousand(set_up: impl FnOnce(DatagramsBuilder) -> DatagramsBuilder, length: usize) {
    let echo = bind_with(echo(), ANY_PORT, set_up);
    let peer = peer();
    peer.connect(echo.addr()).unwrap();
    let mut room = vec![0; length + 1];
    for window in 0..TOTAL / WINDOW {
        let numbers = window * WINDOW..(window + 1) * WINDOW;
        for number in numbers.clone() {
            let mut bytes = vec![0; length];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            peer.send(&bytes).unwrap();
        }
        for number in numbers {
            assert_eq!(peer.recv(&mut room).unwrap(), length);
            assert_eq!(room[..4], number.to_be_bytes(), "in order, and each once");
        }
    }
    echo.settle(); // the last answer may be here before it is counted there
    let figures = DatagramSocket::of(&echo.channel).unwrap().figures();
    assert_eq!((figures.received, figures.sent), (TOTAL.into(), TOTAL.into()));
    assert_eq!((figures.truncated, figures.refused, figures.undelivered), (0, 0, 0));
    echo.assert_quiet();
}

#[test]
fn ten_thousand_datagrams_come_back_in_order() {
    ten_thousand(|builder| builder, 64);
}

#[test]
fn ten_thousand_datagrams_come_back_in_order_when_the_system_does_not_cut_them() {
    ten_thousand(|builder| builder.cut_sent(false), 64);
}

#[test]
fn ten_thousand_datagrams_come_back_in_order_when_the_system_cuts_and_joins() {
    ten_thousand(|builder| builder.cut_sent(true).join_received(true), 100);
}

/// Sends runs of all kinds from a channel that has the system cut them to one that has it join them.
#[test]
fn runs_that_the_system_cuts_and_joins_arrive_as_they_were_written() {
    let receiver = bind_with(probe(), ANY_PORT, |builder| builder.join_received(true));
    let sender = connect_with(probe(), receiver.addr(), |builder| builder.cut_sent(true));
    // Equal lengths, a shorter end of a run, empty ones between, longer than the one before, more than one run holds.
    let mut lengths = vec![500, 500, 500, 20, 20, 0, 0, 30, 40, 40, 40, 1, 1400];
    lengths.extend([1200; 50]);
    lengths.extend([8; 70]);
    for round in 0..3 {
        for (index, &length) in lengths.iter().enumerate() {
            sender.channel.write(Bytes::from(vec![(index + round) as u8; length]));
        }
        sender.channel.flush();
        for (index, &length) in lengths.iter().enumerate() {
            let received = receiver.events.read();
            assert_eq!(received.bytes.len(), length, "number {index}");
            assert!(received.bytes.iter().all(|&byte| byte == (index + round) as u8), "number {index}");
            assert_eq!(received.from, sender.addr().to_string());
        }
    }
    sender.settle();
    let figures = DatagramSocket::of(&sender.channel).unwrap().figures();
    assert_eq!(figures.sent, 3 * lengths.len() as u64);
    let figures = DatagramSocket::of(&receiver.channel).unwrap().figures();
    assert_eq!(figures.received, 3 * lengths.len() as u64);
}

#[test]
fn joined_datagrams_are_measured_one_by_one() {
    let receiver = bind_with(probe(), ANY_PORT, |builder| builder.join_received(true).receive_max(100));
    let sender = connect(probe(), receiver.addr());
    for length in [100, 100, 100, 101, 101, 60] {
        sender.channel.write(Bytes::from(vec![1; length]));
    }
    sender.channel.flush();
    for _ in 0..3 {
        assert_eq!(receiver.events.read().bytes.len(), 100);
    }
    for _ in 0..2 {
        match receiver.events.next() {
            Seen::Truncated(truncated) => assert_eq!((truncated.length, truncated.limit), (101, 100)),
            other => panic!("expected the event, got {other:?}"),
        }
    }
    assert_eq!(receiver.events.read().bytes.len(), 60);
}

#[test]
fn runs_for_several_targets_are_not_mixed_up() {
    let sender = bind_with(probe(), ANY_PORT, |builder| builder.cut_sent(true));
    let peers = [peer(), peer()];
    for number in 0..60_u8 {
        let target = &peers[usize::from(number / 3 % 2)]; // three for the one, three for the other
        sender.channel.write(to(target.local_addr().unwrap(), &[number; 10]));
    }
    sender.channel.flush();
    for number in 0..60_u8 {
        expect(&peers[usize::from(number / 3 % 2)], sender.addr(), &[number; 10]);
    }
}

#[test]
fn a_burst_that_the_socket_cannot_hold_waits_for_room_and_every_write_is_answered() {
    let receiver = std::net::UdpSocket::bind(ANY_PORT).unwrap();
    let options = netwright_transport::DatagramOptions::new().send_buffer_size(4096);
    let sender = connect_with(probe(), receiver.local_addr().unwrap(), |builder| builder.options(options));
    let written: Vec<_> =
        (0..2000).map(|_| sender.channel.write_tracked(Bytes::from(vec![7; 1400]))).collect();
    sender.channel.flush();
    for mut written in written {
        written.wait().unwrap();
    }
    assert_eq!(DatagramSocket::of(&sender.channel).unwrap().figures().sent, 2000);
    sender.settle(); // the last write is answered before the channel says that there is room
    assert!(sender.channel.is_writable());
    sender.assert_quiet();
}
