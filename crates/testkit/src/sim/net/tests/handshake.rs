//! Listening, connecting, accepting.

use super::*;

#[test]
fn a_handshake_takes_a_round_trip_and_half_a_one_more_until_it_is_accepted() {
    let mut world = World::of_two();
    let listener = world.listen(B, "0.0.0.0:80");
    let client = world.connect(A, "10.0.0.2:80");
    assert_eq!(world.net.accept(world.now, listener), Err(Failure::WouldBlock));
    world.pass(ms(19));
    assert_eq!((world.net.outcome(client), world.send(client, b"x")), (None, Err(Failure::WouldBlock)));
    world.pass(ms(1));
    assert_eq!((world.net.outcome(client), world.news()), (Some(Ok(())), vec![News::Outcome(client)]));
    world.pass(ms(10));
    assert_eq!(world.news(), [News::Acceptable(listener)]);
    let (server, peer) = world.net.accept(world.now, listener).unwrap();
    assert_eq!(Some(peer), world.net.local_address(client));
    assert_eq!(world.net.local_address(server), Some(address("10.0.0.2:80")));
    assert_eq!(world.net.peer_address(client), Some(address("10.0.0.2:80")));
}

#[test]
fn where_nobody_listens_a_connection_is_refused() {
    let mut world = World::of_two();
    let client = world.connect(A, "10.0.0.2:81");
    world.pass(ms(20));
    assert_eq!(world.net.outcome(client), Some(Err(Failure::ConnectionRefused)));
    assert_eq!(world.news(), [News::Outcome(client)]);
}

#[test]
fn a_host_that_is_down_is_silence_until_the_system_gives_up() {
    let mut world = World::of_two();
    world.net.crash(world.now, B);
    let client = world.connect(A, "10.0.0.2:80");
    world.pass(ms(126_999));
    assert_eq!(world.net.outcome(client), None);
    world.pass(ms(1));
    assert_eq!(world.net.outcome(client), Some(Err(Failure::TimedOut)));
    let at: Vec<_> =
        world.traced("SYN").iter().map(|line| line[..line.find('.').unwrap()].to_owned()).collect();
    assert_eq!(at, ["0", "1", "3", "7", "15", "31", "63"]);
    let nobody = world.connect(A, "10.9.9.9:80");
    world.pass(secs(127));
    assert_eq!(world.net.outcome(nobody), Some(Err(Failure::TimedOut)));
}

#[test]
fn a_full_backlog_drops_the_handshake_which_is_tried_again() {
    let mut world = World::of_two();
    let how = Listen { backlog: Some(1), ..Listen::at(address("0.0.0.0:80")) };
    let listener = world.net.listen(world.now, B, how).unwrap();
    let clients = [world.connect(A, "10.0.0.2:80"), world.connect(A, "10.0.0.2:80")];
    world.pass(ms(500));
    assert_eq!(clients.map(|client| world.net.outcome(client)), [Some(Ok(())), None]);
    assert!(world.net.accept(world.now, listener).is_ok());
    world.pass(secs(1));
    assert_eq!(world.net.outcome(clients[1]), Some(Ok(())));
}

#[test]
fn a_slow_accept_shows_a_connection_later_than_it_came() {
    let mut world = World::of_two();
    world.net.limits_mut(B).accept_delay = secs(2)..=secs(3);
    let listener = world.listen(B, "0.0.0.0:80");
    let client = world.connect(A, "10.0.0.2:80");
    world.pass(secs(2));
    assert_eq!(world.net.outcome(client), Some(Ok(())), "the handshake is the system's affair");
    assert!(!world.net.can_accept(listener));
    world.pass(secs(2));
    assert!(world.net.can_accept(listener));
}

#[test]
fn a_lost_third_segment_of_the_handshake_is_made_up_for() {
    let mut world = World::of_two();
    let listener = world.listen(B, "0.0.0.0:80");
    world.connect(A, "10.0.0.2:80");
    world.pass(ms(15));
    world.net.cut(world.now, A, B);
    world.pass(ms(500));
    assert!(!world.net.can_accept(listener));
    world.net.heal(world.now);
    world.pass(secs(2));
    assert!(world.net.can_accept(listener), "the SYN-ACK was sent again, and answered");
}

#[test]
fn an_address_is_taken_once_unless_it_is_shared() {
    let mut world = World::of_two();
    world.listen(B, "0.0.0.0:80");
    let mut listen = |at: &str, shared, only_v6| {
        let how = Listen { shared, only_v6, ..Listen::at(address(at)) };
        world.net.listen(world.now, B, how).err()
    };
    for at in ["0.0.0.0:80", "10.0.0.2:80", "127.0.0.1:80", "[::]:80"] {
        assert_eq!(listen(at, true, false), Some(Failure::AddressInUse), "{at}");
    }
    assert_eq!(listen("[::]:80", false, true), None, "of the other family only");
    assert_eq!(listen("10.0.0.2:81", false, false), None);
    assert_eq!(listen("127.0.0.1:81", false, false), None, "another address");
    assert_eq!(listen("10.0.0.1:82", false, false), Some(Failure::AddressNotAvailable), "another host's");
    assert_eq!((listen("0.0.0.0:83", true, false), listen("0.0.0.0:83", true, false)), (None, None));
}

#[test]
fn a_socket_for_both_families_shows_mapped_addresses() {
    let mut world = World::of_two();
    let listener = world.listen(B, "[::]:80");
    for to in ["10.0.0.2:80", "[fd00::2]:80", "[::ffff:10.0.0.2]:80"] {
        world.connect(A, to);
        world.pass(ms(30));
    }
    let mut accepted = || world.net.accept(world.now, listener).unwrap().1.ip().to_string();
    assert_eq!([accepted(), accepted(), accepted()], ["::ffff:10.0.0.1", "fd00::1", "::ffff:10.0.0.1"]);
}

#[test]
fn an_exact_address_goes_before_an_unspecified_one() {
    let mut world = World::of_two();
    let how = |at| Listen { shared: true, ..Listen::at(address(at)) };
    let [any, exact] =
        ["0.0.0.0:80", "10.0.0.2:80"].map(|at| world.net.listen(world.now, B, how(at)).unwrap());
    world.connect(A, "10.0.0.2:80");
    world.pass(ms(30));
    assert_eq!((world.net.can_accept(any), world.net.can_accept(exact)), (false, true));
}

#[test]
fn a_shared_port_spreads_connections() {
    let mut world = World::of_two();
    let how = Listen { shared: true, ..Listen::at(address("0.0.0.0:80")) };
    let listeners = [(); 4].map(|()| world.net.listen(world.now, B, how).unwrap());
    (0..100).for_each(|_| {
        world.connect(A, "10.0.0.2:80");
    });
    world.pass(ms(30));
    for listener in listeners {
        let count = std::iter::from_fn(|| world.net.accept(world.now, listener).ok()).count();
        assert!((10..=40).contains(&count), "{count}");
    }
}

#[test]
fn a_host_reaches_itself_by_its_loopback() {
    let mut world = World::of_two();
    let listener = world.listen(A, "127.0.0.1:0");
    let port = world.net.listens_at(listener).unwrap().port();
    assert!((32_768..=60_999).contains(&port));
    let client = world.connect(A, &format!("127.0.0.1:{port}"));
    let other = world.connect(B, &format!("127.0.0.1:{port}"));
    world.pass(ms(1));
    assert_eq!(world.net.outcome(client), Some(Ok(())));
    assert_eq!(
        world.net.outcome(other),
        Some(Err(Failure::ConnectionRefused)),
        "the loopback of B is another"
    );
    let (server, peer) = world.net.accept(world.now, listener).unwrap();
    assert!(peer.ip().is_loopback());
    world.send(server, b"me").unwrap();
    world.pass(ms(1));
    assert_eq!(world.receive(client).as_deref(), Ok(&b"me"[..]));
}

#[test]
fn without_an_address_of_the_family_there_is_no_way() {
    let mut world = World::of_two();
    let v4 = world.net.add_host("c", &[ip("10.0.0.3")]);
    assert_eq!((world.net.host_name(v4), world.net.addresses(v4)), ("c", &[ip("10.0.0.3")][..]));
    let to = address("[fd00::2]:80");
    assert_eq!(world.net.connect(world.now, v4, to, None), Err(Failure::NetworkUnreachable));
}

#[test]
fn descriptors_are_bounded_for_all_kinds_of_sockets() {
    let mut world = World::of_two();
    world.net.limits_mut(B).descriptors = 2;
    let listener = world.listen(B, "0.0.0.0:80");
    let first = world.connect(A, "10.0.0.2:80");
    world.connect(A, "10.0.0.2:80");
    world.pass(ms(30));
    let (server, _) = world.net.accept(world.now, listener).unwrap();
    assert_eq!(world.net.accept(world.now, listener), Err(Failure::TooManyDescriptors));
    let udp = DatagramSettings::at(address("0.0.0.0:0"));
    assert_eq!(world.net.bind(world.now, B, udp), Err(Failure::TooManyDescriptors));
    assert_eq!(
        world.net.connect(world.now, B, address("10.0.0.1:1"), None),
        Err(Failure::TooManyDescriptors)
    );
    assert_eq!(world.net.open_sockets(B).len(), 2);
    world.close(server);
    assert!(world.net.accept(world.now, listener).is_ok(), "the second one has waited");
    assert_eq!(world.net.open_sockets(A).len(), 2);
    world.close(first);
    assert_eq!(world.net.open_sockets(A).len(), 1);
    let left = [(A, 1), (B, 2)].map(|(host, sockets)| Violation::LeftOpen { host, sockets });
    assert_eq!((world.net.check(), world.net.check_closed()), (Ok(()), Err(left.to_vec())));
}

#[test]
fn ports_run_out_and_come_back_after_time_wait() {
    let mut world = World::of_two();
    world.net.limits_mut(A).ports = 40_000..=40_001;
    let listener = world.listen(B, "0.0.0.0:80");
    let clients = [world.connect(A, "10.0.0.2:80"), world.connect(A, "10.0.0.2:80")];
    world.pass(ms(30));
    let again = |world: &mut World| world.net.connect(world.now, A, address("10.0.0.2:80"), None);
    assert_eq!(again(&mut world), Err(Failure::AddressNotAvailable));
    let elsewhere = world.net.connect(world.now, A, address("10.0.0.2:81"), None);
    assert!(elsewhere.is_ok(), "a port is taken for one peer only");
    for client in clients {
        let (server, _) = world.net.accept(world.now, listener).unwrap();
        world.close(client);
        world.pass(ms(30));
        world.close(server);
    }
    world.pass(secs(59));
    assert_eq!(again(&mut world), Err(Failure::AddressNotAvailable));
    world.pass(secs(2));
    assert!(again(&mut world).is_ok());
}

#[test]
fn who_closes_second_does_not_wait() {
    let mut world = World::of_two();
    world.net.limits_mut(A).ports = 40_000..=40_000;
    let (client, server, _) = world.connected();
    world.close(server);
    world.pass(ms(30));
    world.close(client);
    world.pass(ms(30));
    world.connect(A, "10.0.0.2:80");
    world.pass(ms(30));
    assert_eq!(world.net.outcome(StreamId(2)), Some(Ok(())), "B kept its side, and lets it be used again");
}

#[test]
fn closing_a_listener_resets_who_was_not_accepted() {
    let mut world = World::of_two();
    let listener = world.listen(B, "0.0.0.0:80");
    let client = world.connect(A, "10.0.0.2:80");
    world.pass(ms(30));
    world.net.close_listener(world.now, listener).unwrap();
    world.pass(ms(10));
    assert_eq!(world.receive(client), Err(Failure::ConnectionReset));
    world.listen(B, "0.0.0.0:80");
}
