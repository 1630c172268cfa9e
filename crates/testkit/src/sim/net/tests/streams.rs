//! Bytes there and back: order, room, pieces.

use super::*;

#[test]
fn bytes_arrive_after_the_latency_and_who_waited_is_told() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    assert_eq!(world.receive(server), Err(Failure::WouldBlock));
    assert_eq!(world.send(client, b"hello"), Ok(5));
    world.pass(ms(9));
    assert_eq!((world.news(), world.receive(server)), (vec![], Err(Failure::WouldBlock)));
    assert_eq!(world.net.unacknowledged(client), 5);
    world.pass(ms(1));
    assert_eq!(world.news(), [News::Readable(server)]);
    assert_eq!(world.receive(server).as_deref(), Ok(&b"hello"[..]));
    world.pass(ms(10));
    assert_eq!((world.net.unacknowledged(client), world.news()), (0, vec![]));
    assert_eq!(world.net.check(), Ok(()));
}

#[test]
fn a_reader_that_does_not_read_stops_the_sender_and_one_that_reads_lets_it_go_on() {
    let mut world = World::of_two();
    world.net.limits_mut(A).send_buffer = 4_000;
    world.net.limits_mut(B).receive_buffer = 1_000;
    let (client, server, _) = world.connected();
    assert_eq!(world.send(client, &[7; 10_000]), Ok(4_000), "as much as the buffer has room for");
    assert_eq!(world.send(client, &[7; 6_000]), Err(Failure::WouldBlock));
    world.pass(secs(30));
    assert_eq!(world.net.unacknowledged(client), 3_000, "the receive buffer is full");
    assert_eq!(world.send(client, &[7; 6_000]), Ok(1_000), "only what was acknowledged makes room");
    world.news();
    let mut read = 0;
    for _ in 0..20 {
        read += world.read_all(server).len();
        world.pass(secs(1));
    }
    assert_eq!(read, 5_000);
    assert!(world.news().contains(&News::Writable(client)));
    assert!(world.net.look(client).write);
}

#[test]
fn a_closed_window_does_not_end_the_connection_however_long_it_lasts() {
    let mut world = World::of_two();
    world.net.limits_mut(B).receive_buffer = 10;
    let (client, server, _) = world.connected();
    world.send(client, &[1; 100]).unwrap();
    world.pass(secs(24 * 3_600));
    assert!(world.net.look(client).error.is_none());
    let mut read = 0;
    for _ in 0..200 {
        read += world.read_all(server).len();
        world.pass(secs(1));
    }
    assert_eq!(read, 100);
}

#[test]
fn a_lost_window_update_is_found_by_a_probe() {
    let mut world = World::of_two();
    world.net.limits_mut(B).receive_buffer = 10;
    let (client, server, _) = world.connected();
    world.send(client, &[1; 20]).unwrap();
    world.pass(ms(100));
    world.net.cut(world.now, B, A);
    assert_eq!(world.read_all(server).len(), 10);
    world.pass(secs(5));
    world.net.heal(world.now);
    world.pass(secs(20));
    assert_eq!(world.read_all(server).len(), 10);
}

#[test]
fn pieces_are_drawn_and_every_byte_comes_once_and_in_order() {
    let mut world = World::of_two();
    world.net.limits_mut(A).short_sends = 0.5;
    world.net.limits_mut(B).short_receives = 0.5;
    let (client, server, _) = world.connected();
    let message: Vec<u8> = (0..400_000u32).map(|n| (n % 251) as u8).collect();
    let (mut sent, mut read, mut pieces) = (0, Vec::new(), Vec::new());
    while read.len() < message.len() {
        match world.send(client, &message[sent..]) {
            Ok(n) => sent += n,
            Err(failure) => assert_eq!(failure, Failure::WouldBlock),
        }
        world.pass(ms(3));
        if let Ok(bytes) = world.receive(server) {
            pieces.push(bytes.len());
            read.extend_from_slice(&bytes);
        }
    }
    assert!(read == message && pieces.len() > 10, "{pieces:?}");
    assert_eq!(world.net.check(), Ok(()));
    let (written, _) = world.net.account(client).unwrap();
    assert_eq!((written.written, written.read), (400_000, 400_000));
    assert_eq!(written.written_hash, written.read_hash);
}

#[test]
fn who_wrote_less_than_they_had_is_told_when_they_may_go_on() {
    let mut world = World::of_two();
    world.net.limits_mut(A).short_sends = 1.0;
    let (client, ..) = world.connected();
    let mut left = 1_000;
    while left > 0 {
        left -= world.send(client, &vec![1; left]).unwrap();
        world.pass(ms(1));
        assert_eq!(world.news().contains(&News::Writable(client)), left > 0);
    }
}

#[test]
fn a_short_receive_says_that_there_is_more() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.send(client, b"abcdef").unwrap();
    world.pass(ms(10));
    let first = world.net.receive(world.now, server, 4).unwrap();
    assert_eq!((&first.bytes[..], first.more), (&b"abcd"[..], true));
    let second = world.net.receive(world.now, server, 4).unwrap();
    assert_eq!((&second.bytes[..], second.more), (&b"ef"[..], false));
    world.news();
    world.send(client, b"g").unwrap();
    world.pass(ms(10));
    assert_eq!(world.news(), [News::Readable(server)], "`more: false` counts as waiting");
}

#[test]
fn a_slow_link_carries_its_rate_and_no_more() {
    let mut world = World::of_two();
    world.net.link_mut(A, B).rate = Some(10_000);
    let (client, server, _) = world.connected();
    assert_eq!(world.send(client, &[1; 20_000]), Ok(20_000));
    world.pass(ms(10) + secs(1));
    assert!(world.read_all(server).len() <= 10_000);
    world.pass(secs(1));
    world.read_all(server);
    assert_eq!(world.net.account(client).unwrap().0.read, 20_000);
    assert_eq!(
        world.traced("data").iter().filter(|line| line.contains("arrives")).count(),
        2,
        "nothing twice"
    );
}

#[test]
fn buffers_of_a_connection_may_be_made_larger() {
    let mut world = World::of_two();
    world.net.limits_mut(B).receive_buffer = 100;
    let (client, server, _) = world.connected();
    world.net.set_buffers(client, Some(500), None).unwrap();
    world.net.set_buffers(server, None, Some(1_000)).unwrap();
    assert_eq!(world.send(client, &[1; 1_000]), Ok(500));
    world.pass(secs(1));
    assert_eq!(world.read_all(server).len(), 500, "more than what the handshake had promised");
}
