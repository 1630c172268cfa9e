//! Nothing is read that nobody asked for: it stays with the system.

use crate::support::*;
use netwright_core::{AppContext, Application, Envelope, pipeline};
use netwright_transport::{Datagram, DatagramSocket};

#[test]
fn while_paused_nothing_is_read_and_what_came_is_delivered_on_resume() {
    let running = bind(probe());
    let peer = peer();
    let socket = DatagramSocket::of(&running.channel).unwrap();
    running.channel.pause();
    running.settle();
    for number in 0..50_u8 {
        peer.send_to(&[number], running.addr()).unwrap();
    }
    running.settle();
    running.events.nothing();
    assert_eq!(socket.figures().received, 0, "it stays with the system");
    running.assert_quiet();
    running.channel.resume();
    for number in 0..50_u8 {
        assert_eq!(running.events.read().bytes, [number]);
    }
    assert_eq!(socket.figures().received, 50);
}

#[test]
fn what_is_asked_for_one_by_one_is_read_one_by_one() {
    let running = bind_with(probe(), ANY_PORT, |builder| builder.auto_read(false));
    let peer = peer();
    let socket = DatagramSocket::of(&running.channel).unwrap();
    for number in 0..10_u8 {
        peer.send_to(&[number], running.addr()).unwrap();
    }
    running.settle();
    running.events.nothing();
    for number in 0..10_u8 {
        running.channel.request();
        assert_eq!(running.events.read().bytes, [number]);
        running.settle();
        running.events.nothing();
        assert_eq!(socket.figures().received, u64::from(number) + 1);
    }
    running.channel.request();
    running.channel.request();
    running.settle();
    running.assert_quiet();
    for number in 10..13_u8 {
        peer.send_to(&[number], running.addr()).unwrap();
    }
    assert_eq!(running.events.read().bytes, [10]);
    assert_eq!(running.events.read().bytes, [11]);
    running.settle();
    running.events.nothing();
}

#[test]
fn a_handler_that_pauses_amid_a_batch_gets_the_rest_in_order_when_it_resumes() {
    let running = bind(probe_with(|cx, _| cx.pause()));
    let peer = peer();
    let total = 40_u8;
    running.channel.pause();
    running.settle();
    for number in 0..total {
        peer.send_to(&[number], running.addr()).unwrap();
    }
    for number in 0..total {
        running.channel.resume();
        assert_eq!(running.events.read().bytes, [number]);
        running.settle();
        running.events.nothing();
    }
    let received = DatagramSocket::of(&running.channel).unwrap().figures().received;
    assert_eq!(received, u64::from(total));
    running.assert_quiet();
}

#[test]
fn each_batch_is_followed_by_read_complete() {
    let running = bind(probe());
    let peer = peer();
    for number in 0..5_u8 {
        peer.send_to(&[number], running.addr()).unwrap();
        assert_eq!(running.events.read().bytes, [number]);
        running.settle();
        assert_eq!(running.events.completions(), 1);
    }
}

#[test]
fn one_channel_in_a_flood_leaves_others_their_turns() {
    /// Has its neighbour's channel called with every datagram, so that it is never idle.
    struct Busy;
    impl Application for Busy {
        type Read = Datagram;
        type Write = Envelope;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
            cx.write_and_flush(datagram.into_answer()); // to itself: a flood without end
        }
    }
    let (builder, group) = builder();
    let busy = builder.group(group.clone()).pipeline(|| pipeline().app(Busy)).unwrap();
    let flooded = busy.bind(ANY_PORT).wait().unwrap();
    let itself = flooded.local_addr().unwrap();
    // A datagram that seems to come from the channel itself goes round for ever.
    for _ in 0..20 {
        flooded.write_and_flush(Envelope::to(itself, "round and round"));
    }
    let (application, events) = echo();
    let others = datagrams(netwright_transport::Datagrams::builder().group(group.clone()), application);
    let calm = others.bind(ANY_PORT).wait().unwrap();
    events.active();
    let peer = peer();
    for number in 0..20_u8 {
        peer.send_to(&[number], calm.local_addr().unwrap()).unwrap();
        expect(&peer, calm.local_addr().unwrap(), &[number]);
    }
    flooded.close().wait().unwrap();
}

/// Events wait behind messages, and a peer that is not there makes as many as we send datagrams.
#[test]
fn a_channel_that_holds_messages_back_keeps_few_events_of_what_was_not_delivered_and_counts_all() {
    const SENT: usize = 2_000;
    const KEPT_MAX: usize = 64;
    for asked in [false, true] {
        let dead = dead_port();
        let (application, events) = probe_with(|cx, _| cx.pause());
        let running = match asked {
            true => bind_with((application, events), ANY_PORT, |builder| builder.report_undelivered(true)),
            false => connect((application, events), dead),
        };
        let channel = &running.channel;
        let counts = DatagramSocket::of(channel).unwrap();
        // Two at once: the first pauses, and the second is held.
        let peer = if asked { peer() } else { std::net::UdpSocket::bind(dead).unwrap() };
        channel.pause();
        running.settle();
        (0..2).for_each(|_| assert_eq!(peer.send_to(b"x", running.addr()).unwrap(), 1));
        channel.resume();
        running.events.read();
        running.settle();
        drop(peer);
        for _ in 0..SENT {
            let message = if asked { to(dead, b"y") } else { bytes::Bytes::from("y").into() };
            channel.send(message).wait().unwrap();
            running.settle();
        }
        let before = counts.figures().undelivered;
        assert!(before > KEPT_MAX as u64, "{:?}", counts.figures());
        running.events.nothing();
        channel.resume();
        running.events.read();
        channel.resume();
        running.settle();
        let told = running.events.unreachable();
        // The kernel may report the last ones only now, when nothing is held any more: those are told as they come.
        let late = (counts.figures().undelivered - before) as usize;
        assert!(
            (1..=KEPT_MAX + late).contains(&told),
            "{told} of {:?} were told, {late} late",
            counts.figures()
        );
        // Nothing is held any more, so the next one is told.
        let message = if asked { to(dead, b"z") } else { bytes::Bytes::from("z").into() };
        channel.send(message).wait().unwrap();
        assert!(matches!(running.events.next(), Seen::Unreachable(_)));
    }
}
