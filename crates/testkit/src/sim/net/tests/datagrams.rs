//! Datagrams.

use super::*;

impl World {
    fn bind(&mut self, host: HostId, at: &str) -> DatagramId {
        self.net.bind(self.now, host, DatagramSettings::at(address(at))).expect("binds")
    }

    fn send_to(&mut self, id: DatagramId, bytes: &'static [u8], to: &str) -> Result<(), Failure> {
        self.net.send_to(self.now, id, Bytes::from_static(bytes), Some(address(to)))
    }

    fn received(&mut self, id: DatagramId) -> Vec<Bytes> {
        std::iter::from_fn(|| self.net.receive_from(id).ok()).map(|datagram| datagram.bytes).collect()
    }
}

#[test]
fn a_datagram_arrives_whole_and_tells_from_whom_and_to_which_address() {
    let mut world = World::of_two();
    let [a, b] = [world.bind(A, "0.0.0.0:0"), world.bind(B, "0.0.0.0:53")];
    assert_eq!(world.net.receive_from(b), Err(Failure::WouldBlock));
    world.send_to(a, b"question", "10.0.0.2:53").unwrap();
    world.send_to(a, b"", "10.0.0.2:53").unwrap();
    world.pass(ms(10));
    assert_eq!(world.news(), [News::Datagram(b)]);
    let got = world.net.receive_from(b).unwrap();
    let port = world.net.bound_to(a).unwrap().port();
    assert_eq!((got.from, got.to), (address(&format!("10.0.0.1:{port}")), address("10.0.0.2:53")));
    assert_eq!((&got.bytes[..], world.net.receive_from(b).unwrap().bytes.len()), (&b"question"[..], 0));
}

#[test]
fn datagrams_are_lost_doubled_and_overtaken_as_often_as_the_link_says() {
    let run = |link: Link| {
        let mut world = World::of_two();
        *world.net.default_link_mut() = link.latency(ms(10)).jitter(Duration::ZERO);
        let [a, b] = [world.bind(A, "0.0.0.0:0"), world.bind(B, "0.0.0.0:53")];
        world.net.limits_mut(B).receive_buffer = 1 << 20;
        let mut order = Vec::new();
        for n in 0..1_000u32 {
            let bytes = Bytes::copy_from_slice(&n.to_be_bytes());
            world.net.send_to(world.now, a, bytes, Some(address("10.0.0.2:53"))).unwrap();
            world.pass(ms(1));
            order.extend(world.received(b));
        }
        world.pass(secs(1));
        order.extend(world.received(b));
        let sorted = order.is_sorted();
        (order.len(), sorted)
    };
    assert_eq!(run(Link::default()), (1_000, true));
    let (lossy, sorted) = run(Link::default().loss(0.3));
    assert!((600..800).contains(&lossy) && sorted, "{lossy}");
    let (doubled, sorted) = run(Link::default().duplication(0.5));
    assert!((1_400..1_600).contains(&doubled) && sorted, "{doubled}");
    assert_eq!(run(Link::default().reordering(0.1)), (1_000, false));
}

#[test]
fn what_finds_no_room_is_dropped_and_counted() {
    let mut world = World::of_two();
    world.net.limits_mut(B).receive_buffer = 1_000;
    let [a, b] = [world.bind(A, "0.0.0.0:0"), world.bind(B, "0.0.0.0:53")];
    (0..5).for_each(|_| world.send_to(a, &[0; 400], "10.0.0.2:53").unwrap());
    world.pass(ms(10));
    assert_eq!((world.received(b).len(), world.net.dropped(b)), (2, 3));
    world.send_to(a, &[0; 2_000], "10.0.0.2:53").unwrap();
    world.pass(ms(10));
    assert_eq!(world.received(b).len(), 1, "one has room, however large it is");
}

#[test]
fn a_full_queue_of_a_slow_link_drops() {
    let mut world = World::of_two();
    *world.net.link_mut(A, B) = Link::default().rate(1_000).queue(1_000);
    let [a, b] = [world.bind(A, "0.0.0.0:0"), world.bind(B, "0.0.0.0:53")];
    (0..5).for_each(|_| world.send_to(a, &[0; 400], "10.0.0.2:53").unwrap());
    world.pass(secs(5));
    assert_eq!(world.received(b).len(), 2);
    assert_eq!(world.traced("queue full").len(), 3);
}

#[test]
fn a_datagram_too_large_for_the_link_is_an_error_or_vanishes() {
    let mut world = World::of_two();
    *world.net.default_link_mut() = Link::default().mtu(100);
    let [a, b] = [world.bind(A, "0.0.0.0:0"), world.bind(B, "0.0.0.0:53")];
    assert_eq!(world.send_to(a, &[0; 101], "10.0.0.2:53"), Err(Failure::MessageTooLong));
    assert_eq!(world.send_to(a, &[0; 100], "10.0.0.2:53"), Ok(()));
    world.net.default_link_mut().oversized = Oversized::Drop;
    assert_eq!(world.send_to(a, &[0; 101], "10.0.0.2:53"), Ok(()));
    world.pass(secs(1));
    assert_eq!(world.received(b).len(), 1);
}

#[test]
fn a_connected_socket_is_told_that_nobody_is_there_and_another_is_not() {
    let mut world = World::of_two();
    let to = address("10.0.0.2:53");
    let how = DatagramSettings { peer: Some(to), ..DatagramSettings::at(address("0.0.0.0:0")) };
    let connected = world.net.bind(world.now, A, how).unwrap();
    let other = world.bind(A, "0.0.0.0:0");
    world.net.send_to(world.now, connected, Bytes::from_static(b"?"), None).unwrap();
    world.send_to(other, b"?", "10.0.0.2:53").unwrap();
    world.pass(ms(20));
    assert_eq!(world.news(), [News::Datagram(connected)]);
    assert_eq!(world.net.receive_from(connected), Err(Failure::ConnectionRefused));
    assert_eq!(world.net.receive_from(other), Err(Failure::WouldBlock));
    assert_eq!(world.net.send_to(world.now, other, Bytes::new(), None), Err(Failure::NotConnected));
    world.net.set_peer(other, Some(to)).unwrap();
    world.net.send_to(world.now, other, Bytes::new(), None).unwrap();
    world.pass(ms(20));
    assert!(world.net.has_datagrams(other), "an error counts, as the system has it");
    assert_eq!(world.net.take_datagram_error(other), Some(Failure::ConnectionRefused));
    assert!(!world.net.has_datagrams(other));
}

#[test]
fn a_connected_socket_hears_its_peer_only_and_goes_before_others() {
    let mut world = World::of_two();
    let how = DatagramSettings {
        peer: Some(address("10.0.0.2:53")),
        shared: true,
        ..DatagramSettings::at(address("0.0.0.0:7"))
    };
    let connected = world.net.bind(world.now, A, how).unwrap();
    let any = world.net.bind(world.now, A, DatagramSettings { peer: None, ..how }).unwrap();
    let [peer, other] = [world.bind(B, "0.0.0.0:53"), world.bind(B, "0.0.0.0:54")];
    world.send_to(peer, b"peer", "10.0.0.1:7").unwrap();
    world.send_to(other, b"other", "10.0.0.1:7").unwrap();
    world.pass(ms(20));
    assert_eq!((world.received(connected), world.received(any)), (vec!["peer".into()], vec!["other".into()]));
}

#[test]
fn a_shared_port_keeps_a_sender_at_one_socket() {
    let mut world = World::of_two();
    let how = DatagramSettings { shared: true, ..DatagramSettings::at(address("0.0.0.0:53")) };
    let sockets = [(); 3].map(|()| world.net.bind(world.now, B, how).unwrap());
    for _ in 0..60 {
        let sender = world.bind(A, "0.0.0.0:0");
        (0..2).for_each(|_| world.send_to(sender, b"x", "10.0.0.2:53").unwrap());
    }
    world.pass(ms(20));
    for socket in sockets {
        let got: Vec<_> =
            std::iter::from_fn(|| world.net.receive_from(socket).ok()).map(|got| got.from).collect();
        assert!(got.len() > 10 && got.chunks(2).all(|pair| pair[0] == pair[1]), "{got:?}");
    }
}

#[test]
fn an_address_is_taken_once_and_free_after_a_close() {
    let mut world = World::of_two();
    let first = world.bind(A, "0.0.0.0:53");
    let how = DatagramSettings::at(address("10.0.0.1:53"));
    assert_eq!(world.net.bind(world.now, A, how), Err(Failure::AddressInUse));
    world.net.unbind(world.now, first).unwrap();
    assert!(world.net.bind(world.now, A, how).is_ok());
    assert_eq!(world.net.unbind(world.now, first), Err(Failure::NotOpen));
}

#[test]
fn a_socket_for_both_families_sends_and_receives_both() {
    let mut world = World::of_two();
    let [both, v4] = [world.bind(A, "[::]:7"), world.bind(B, "0.0.0.0:7")];
    world.send_to(both, b"x", "[::ffff:10.0.0.2]:7").unwrap();
    world.send_to(v4, b"y", "10.0.0.1:7").unwrap();
    assert_eq!(world.send_to(v4, b"y", "[fd00::1]:7"), Err(Failure::NetworkUnreachable));
    world.pass(ms(20));
    assert_eq!(world.net.receive_from(v4).unwrap().from, address("10.0.0.1:7"));
    assert_eq!(world.net.receive_from(both).unwrap().from, address("[::ffff:10.0.0.2]:7"));
}
