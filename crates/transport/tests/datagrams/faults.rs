//! What goes wrong with one datagram costs that datagram, not the channel.

use crate::support::*;
use bytes::Bytes;
use netwright_core::{Address, Envelope, FileRegion, Promised, WriteError, pipeline};
use netwright_transport::{BindError, ConnectError, DatagramError, DatagramSocket, Datagrams, ResolveError};
use std::{fs::File, net::SocketAddr};

#[track_caller]
fn why(error: &WriteError) -> &DatagramError {
    match error {
        WriteError::Fault(fault) => fault.downcast_ref().expect("an error of datagrams"),
        other => panic!("expected a fault, got {other}"),
    }
}

#[test]
fn a_port_where_nobody_receives_is_an_event_once_and_the_channel_lives_on() {
    let dead = dead_port();
    let channel = connect(probe(), dead);
    channel.channel.send(Bytes::from("anybody there?")).wait().unwrap();
    match channel.events.next() {
        Seen::Unreachable(unreachable) => {
            assert_eq!(unreachable.to, Some(Address::Ip(dead)));
            assert_eq!(unreachable.to_string(), format!("nobody receives at {dead}"));
        }
        other => panic!("expected the event, got {other:?}"),
    }
    channel.settle();
    channel.events.nothing();
    channel.assert_quiet();

    // Somebody moves in, and the same channel reaches them.
    let peer = std::net::UdpSocket::bind(dead).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    channel.channel.send(Bytes::from("and now?")).wait().unwrap();
    expect(&peer, channel.addr(), b"and now?");
    peer.send_to(b"yes", channel.addr()).unwrap();
    assert_eq!(channel.events.read().bytes, b"yes");
    assert_eq!(DatagramSocket::of(&channel.channel).unwrap().figures().undelivered, 1);
}

#[test]
fn a_factory_or_a_resolver_that_panics_is_what_is_reported_and_not_the_end_of_the_loop() {
    fn factory() -> Probe {
        panic!("no pipeline")
    }
    let broken = Datagrams::builder().pipeline(|| pipeline().app(factory())).unwrap();
    let error = broken.bind(ANY_PORT).wait().unwrap_err();
    assert!(matches!(&error, BindError::Panicked(panic) if panic == "no pipeline"), "{error:?}");
    let error = broken.bind_shared(ANY_PORT).wait().unwrap_err();
    assert!(matches!(&error, BindError::Panicked(panic) if panic == "no pipeline"), "{error:?}");
    let error = broken.connect(dead_port()).wait().unwrap_err();
    assert!(matches!(&error, ConnectError::Panicked(panic) if panic == "no pipeline"), "{error:?}");

    let resolve = |_: &str| -> Promised<Vec<SocketAddr>, ResolveError> { panic!("no resolver") };
    let lost = Datagrams::builder().resolver(resolve).pipeline(|| pipeline().app(probe().0)).unwrap();
    let error = lost.bind("somewhere:1").wait().unwrap_err().to_string();
    assert!(error.contains("somewhere:1") && error.contains("panicked: no resolver"), "{error}");
    let error = lost.connect("somewhere:1").wait().unwrap_err().to_string();
    assert!(error.contains("somewhere:1") && error.contains("panicked: no resolver"), "{error}");
}

#[test]
fn an_event_that_nobody_reads_for_is_told_also_while_paused() {
    let dead = dead_port();
    let channel = connect_with(probe(), dead, |builder| builder.auto_read(false));
    channel.channel.write_and_flush(Bytes::from("anybody there?"));
    assert!(matches!(channel.events.next(), Seen::Unreachable(_)));
    channel.settle();
    channel.events.nothing();
    channel.assert_quiet();
}

#[test]
fn a_write_to_a_dead_port_goes_out_although_the_one_before_was_not_delivered() {
    let channel = connect(probe(), dead_port());
    for _ in 0..20 {
        channel.channel.send(Bytes::from("x")).wait().unwrap();
    }
    assert!(matches!(channel.events.next(), Seen::Unreachable(_)));
    let figures = DatagramSocket::of(&channel.channel).unwrap().figures();
    assert_eq!((figures.sent, figures.refused), (20, 0));
}

#[test]
fn a_bound_channel_hears_of_dead_ports_with_their_addresses_if_it_asked_for_that_and_else_not_at_all() {
    let (dead, alive) = ([dead_port(), dead_port()], peer());
    for asked in [false, true] {
        let channel = bind_with(probe(), ANY_PORT, |builder| builder.report_undelivered(asked));
        for address in [dead[0], alive.local_addr().unwrap(), dead[1]] {
            channel.channel.send(to(address, b"hello")).wait().unwrap();
        }
        expect(&alive, channel.addr(), b"hello");
        if asked {
            let told = [channel.events.next(), channel.events.next()].map(|seen| match seen {
                Seen::Unreachable(unreachable) => unreachable.to,
                other => panic!("expected the event, got {other:?}"),
            });
            assert_eq!(told, dead.map(|address| Some(Address::Ip(address))));
        }
        channel.settle();
        channel.events.nothing();
        alive.send_to(b"still there?", channel.addr()).unwrap();
        assert_eq!(channel.events.read().bytes, b"still there?");
        channel.assert_quiet();
    }
}

#[test]
fn a_datagram_that_is_too_long_fails_alone_and_says_its_length() {
    let sender = bind(probe());
    let peer = peer();
    let there = peer.local_addr().unwrap();
    let before = sender.channel.write_tracked(to(there, b"before"));
    let mut long = sender.channel.write_tracked(to(there, &[0; 70_000]));
    let after = sender.channel.write_tracked(to(there, b"after"));
    sender.channel.flush();
    let error = long.wait().unwrap_err();
    assert!(matches!(why(&error), DatagramError::TooLong { length: 70_000 }), "{error}");
    let expected =
        "the message could not be written: a datagram of 70000 bytes is longer than the system sends as one";
    assert_eq!(error.to_string(), expected);
    for (mut written, bytes) in [(before, b"before".as_slice()), (after, b"after")] {
        written.wait().unwrap();
        expect(&peer, sender.addr(), bytes);
    }
    assert_eq!(DatagramSocket::of(&sender.channel).unwrap().figures().refused, 1);
}

#[test]
fn a_message_without_target_fails_on_a_channel_that_is_not_connected() {
    let sender = bind(probe());
    let error = sender.channel.send(Bytes::from("whereto?")).wait().unwrap_err();
    assert!(matches!(why(&error), DatagramError::NoTarget { length: 8 }), "{error}");
    let error = sender.channel.send(Bytes::new()).wait().unwrap_err();
    assert!(matches!(why(&error), DatagramError::NoTarget { length: 0 }), "{error}");
    assert!(error.to_string().ends_with("its channel is not connected: write an `Envelope::to`"), "{error}");
}

#[test]
fn what_no_socket_can_send_fails_by_itself_and_what_comes_behind_is_sent() {
    let sender = bind(probe());
    let peer = peer();
    let there = peer.local_addr().unwrap();
    let file = FileRegion::new(File::open("Cargo.toml").unwrap(), 0, 10);
    let descriptor = Envelope::to(there, "x").with_descriptor(File::open("Cargo.toml").unwrap());
    let local: Address = "local:nowhere".parse().unwrap();
    let nowhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut writes = [
        sender.channel.write_tracked(file),
        sender.channel.write_tracked(descriptor),
        sender.channel.write_tracked(Envelope::to(local, "x")),
        sender.channel.write_tracked(to(nowhere, b"x")),
    ];
    sender.channel.send(to(there, b"fine")).wait().unwrap();
    expect(&peer, sender.addr(), b"fine");
    let errors: Vec<_> = writes.iter_mut().map(|written| written.wait().unwrap_err()).collect();
    assert!(matches!(why(&errors[0]), DatagramError::File { length: 10 }), "{}", errors[0]);
    assert!(matches!(why(&errors[1]), DatagramError::Descriptors { count: 1 }), "{}", errors[1]);
    assert!(matches!(why(&errors[2]), DatagramError::Target { .. }), "{}", errors[2]);
    assert!(matches!(why(&errors[3]), DatagramError::Refused { to: Some(_), .. }), "{}", errors[3]);
}

#[test]
fn a_datagram_that_does_not_fit_is_dropped_and_told_with_both_lengths() {
    let receiver = bind_with(probe(), ANY_PORT, |builder| builder.receive_max(10));
    let peer = peer();
    for length in [10, 11, 60_000, 3] {
        peer.send_to(&vec![1; length], receiver.addr()).unwrap();
    }
    assert_eq!(receiver.events.read().bytes.len(), 10);
    for expected in [11, 60_000] {
        match receiver.events.next() {
            Seen::Truncated(truncated) => {
                assert_eq!((truncated.length, truncated.limit), (expected, 10));
                assert_eq!(truncated.from, peer.local_addr().unwrap());
            }
            other => panic!("expected the event, got {other:?}"),
        }
    }
    assert_eq!(receiver.events.read().bytes.len(), 3);
    assert_eq!(DatagramSocket::of(&receiver.channel).unwrap().figures().truncated, 2);
}

#[test]
fn a_handler_that_panics_costs_its_own_channel_and_no_other_of_the_loop() {
    let (builder, group) = builder();
    let (application, events) = probe_with(|_, datagram| assert_ne!(&datagram.bytes[..], b"boom"));
    let all = datagrams(builder, application);
    let (first, second) = (all.bind(ANY_PORT).wait().unwrap(), all.bind(ANY_PORT).wait().unwrap());
    (0..2).for_each(|_| events.active());
    let peer = peer();
    peer.send_to(b"boom", first.local_addr().unwrap()).unwrap();
    first.closed().wait().unwrap();
    peer.send_to(b"fine", second.local_addr().unwrap()).unwrap();
    assert_eq!(events.read().bytes, b"fine");
    settle(&group);
    assert_quiet(&group);
}

#[test]
fn channels_that_come_and_go_leave_no_descriptor_behind() {
    let (builder, _group) = builder();
    let all = datagrams(builder, echo().0);
    let peer = peer();
    // By name, because other tests of this process open sockets too: none of ours may stay.
    let mut inodes = Vec::new();
    for round in 0..200 {
        let channel = match round % 2 {
            0 => all.bind(ANY_PORT).wait().unwrap(),
            _ => all.connect(peer.local_addr().unwrap()).wait().unwrap(),
        };
        let socket = DatagramSocket::of(&channel).unwrap();
        inodes.push((channel.local_addr().unwrap(), socket));
        channel.close().wait().unwrap();
    }
    for (address, socket) in inodes {
        // A port that is free again has no socket left, although somebody still holds the channel's handle.
        becomes_free(address);
        let group = netwright_transport::Multicast::group([224, 0, 0, 251].into());
        assert!(socket.join(&group).unwrap_err().to_string().ends_with("the channel is closed"));
    }
}
