//! Faults by order.

use super::*;

#[test]
fn a_crash_tells_nobody_and_who_sends_nothing_never_learns() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.net.crash(world.now, B);
    assert!(world.net.open_sockets(B).is_empty());
    assert_eq!(world.send(server, b"x"), Err(Failure::NotOpen));
    world.pass(secs(24 * 3_600));
    world.net.restart(world.now, B);
    world.pass(secs(24 * 3_600));
    assert_eq!((world.news(), world.receive(client)), (vec![], Err(Failure::WouldBlock)));
}

#[test]
fn after_a_restart_a_half_open_connection_is_reset_by_the_first_segment() {
    let mut world = World::of_two();
    let (client, ..) = world.connected();
    world.net.crash(world.now, B);
    world.send(client, b"x").unwrap();
    world.pass(secs(5));
    assert_eq!(world.net.look(client).error, None);
    world.net.restart(world.now, B);
    world.pass(secs(10));
    assert_eq!(world.receive(client), Err(Failure::ConnectionReset));
}

#[test]
fn a_crashed_host_takes_no_calls_and_listens_again_after_its_restart() {
    let mut world = World::of_two();
    world.listen(B, "0.0.0.0:80");
    world.net.crash(world.now, B);
    let again = |world: &mut World| world.net.listen(world.now, B, Listen::at(address("0.0.0.0:80")));
    assert_eq!(again(&mut world), Err(Failure::HostDown));
    let client = world.connect(A, "10.0.0.2:80");
    world.pass(ms(500));
    world.net.restart(world.now, B);
    assert!(again(&mut world).is_ok());
    world.pass(secs(1));
    assert_eq!(world.net.outcome(client), Some(Ok(())), "the second SYN finds the new listener");
}

#[test]
fn who_reuses_the_port_of_a_half_open_connection_gets_through() {
    let mut world = World::of_two();
    world.net.limits_mut(A).ports = 40_000..=40_000;
    let (_, server, listener) = world.connected();
    world.net.crash(world.now, A);
    world.net.restart(world.now, A);
    let client = world.connect(A, "10.0.0.2:80");
    world.pass(secs(2));
    assert_eq!(world.receive(server), Err(Failure::ConnectionReset), "the old connection is not theirs");
    assert_eq!(world.net.outcome(client), Some(Ok(())));
    assert!(world.net.can_accept(listener));
}

#[test]
fn the_sockets_of_a_killed_program_are_closed_by_its_system() {
    let mut world = World::of_two();
    let (client, server, listener) = world.connected();
    let reset = world.connect(A, "10.0.0.2:80");
    let waits = world.connect(A, "10.0.0.2:80");
    world.pass(ms(30));
    let (unread, _) = world.net.accept(world.now, listener).unwrap();
    world.send(reset, b"unread").unwrap();
    world.send(server, b"bye").unwrap();
    world.pass(ms(10));
    world.net.kill(world.now, B);
    world.pass(ms(10));
    assert_eq!((world.read_all(client), world.receive(client).as_deref()), (b"bye".to_vec(), Ok(&[][..])));
    assert_eq!(world.receive(reset), Err(Failure::ConnectionReset));
    assert_eq!(world.receive(waits), Err(Failure::ConnectionReset), "was never accepted");
    assert_eq!((world.receive(unread), world.net.open_sockets(B).len()), (Err(Failure::NotOpen), 0));
    assert!(world.net.is_up(B));
}

#[test]
fn a_partition_keeps_sets_apart_until_it_is_healed() {
    let mut world = World::of_two();
    let c = world.net.add_host("c", &[ip("10.0.0.3")]);
    world.listen(B, "0.0.0.0:80");
    world.listen(c, "0.0.0.0:80");
    world.net.partition(world.now, &[&[A], &[B]]);
    let [apart, free] = ["10.0.0.2:80", "10.0.0.3:80"].map(|to| world.connect(A, to));
    world.pass(ms(100));
    assert_eq!((world.net.outcome(apart), world.net.outcome(free)), (None, Some(Ok(()))));
    world.net.heal(world.now);
    world.pass(secs(1));
    assert_eq!(world.net.outcome(apart), Some(Ok(())));
}

#[test]
fn a_reset_by_order_is_told_to_both_ends() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.net.reset(world.now, server).unwrap();
    assert_eq!(world.news(), [News::Broken(server), News::Broken(client)]);
    assert_eq!([client, server].map(|id| world.receive(id)), [(); 2].map(|()| Err(Failure::ConnectionReset)));
    assert_eq!(world.net.reset(world.now, server), Err(Failure::NotOpen));
    let others = [world.connect(A, "10.0.0.2:80"), world.connect(A, "10.0.0.2:80")];
    world.pass(ms(30));
    assert_eq!((world.net.reset_between(world.now, A, A), world.net.reset_between(world.now, A, B)), (0, 2));
    assert_eq!(others.map(|id| world.receive(id)), [(); 2].map(|()| Err(Failure::ConnectionReset)));
}
