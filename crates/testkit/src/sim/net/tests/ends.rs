//! How connections end, and what is told to whom.

use super::*;

#[test]
fn an_end_comes_behind_what_was_written_and_the_other_way_stays_open() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.send(client, b"last words").unwrap();
    world.net.shut_down_output(world.now, client).unwrap();
    assert_eq!(world.send(client, b"more"), Err(Failure::BrokenPipe));
    assert_eq!(world.net.unacknowledged(client), 11, "the end counts, as the system counts it");
    world.pass(ms(10));
    assert_eq!(world.news(), [News::Readable(server), News::Ended(server)]);
    assert!(world.net.look(server).read_closed);
    assert_eq!(world.receive(server).as_deref(), Ok(&b"last words"[..]));
    assert_eq!(
        (world.receive(server).as_deref(), world.receive(server).as_deref()),
        (Ok(&[][..]), Ok(&[][..]))
    );
    world.send(server, b"reply").unwrap();
    world.pass(ms(10));
    assert_eq!(world.receive(client).as_deref(), Ok(&b"reply"[..]));
    assert_eq!(world.net.account(client).unwrap().0.ending, Ending::Finished);
    assert_eq!(world.net.check(), Ok(()));
}

#[test]
fn what_was_written_is_sent_after_a_close() {
    let mut world = World::of_two();
    world.net.limits_mut(B).receive_buffer = 1_000;
    let (client, server, _) = world.connected();
    world.send(client, &[1; 20_000]).unwrap();
    world.close(client);
    let mut read = 0;
    for _ in 0..200 {
        read += world.read_all(server).len();
        world.pass(ms(25));
    }
    assert_eq!((read, world.receive(server).as_deref()), (20_000, Ok(&[][..])));
    assert_eq!(world.net.check(), Ok(()));
}

#[test]
fn a_closed_socket_cannot_be_used() {
    let mut world = World::of_two();
    let (client, ..) = world.connected();
    world.close(client);
    assert_eq!(
        (world.send(client, b"x"), world.receive(client)),
        (Err(Failure::NotOpen), Err(Failure::NotOpen))
    );
    assert_eq!(world.net.close(world.now, client, false), Err(Failure::NotOpen));
    assert_eq!(world.net.outcome(StreamId(999)), Some(Err(Failure::NotOpen)));
}

#[test]
fn a_close_with_bytes_unread_is_a_reset() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.send(client, b"unread").unwrap();
    world.pass(ms(10));
    world.close(server);
    world.pass(ms(10));
    assert_eq!(world.news().last(), Some(&News::Broken(client)));
    assert_eq!(world.net.look(client).error, Some(Failure::ConnectionReset));
    assert_eq!(world.receive(client), Err(Failure::ConnectionReset), "told once");
    assert_eq!(world.receive(client).as_deref(), Ok(&[][..]));
    assert_eq!(world.send(client, b"x"), Err(Failure::BrokenPipe));
}

#[test]
fn a_write_to_who_has_closed_is_answered_by_a_reset() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.close(server);
    world.pass(ms(10));
    assert_eq!(world.send(client, b"too late"), Ok(8), "who has sent its end may still read");
    world.pass(ms(20));
    assert_eq!(world.send(client, b"x"), Err(Failure::BrokenPipe));
    assert_eq!(world.receive(client).as_deref(), Ok(&[][..]), "the end came before the reset");
}

#[test]
fn a_reset_that_meets_a_writer_is_told_to_it_first() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.net.close(world.now, server, true).unwrap();
    world.pass(ms(10));
    assert_eq!(world.send(client, b"x"), Err(Failure::ConnectionReset));
    assert_eq!(world.send(client, b"x"), Err(Failure::BrokenPipe));
    assert_eq!(world.net.take_error(client), None, "an error is told once");
}

#[test]
fn an_error_can_be_taken_without_reading_or_writing() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.net.close(world.now, server, true).unwrap();
    world.pass(ms(10));
    assert_eq!(world.net.take_error(client), Some(Failure::ConnectionReset));
    assert_eq!(world.receive(client).as_deref(), Ok(&[][..]));
}

#[test]
fn what_had_arrived_before_a_reset_is_read_unless_the_host_discards_it() {
    for discards in [0.0, 1.0] {
        let mut world = World::of_two();
        world.net.limits_mut(A).reset_discards = discards;
        let (client, server, _) = world.connected();
        world.send(server, b"here before").unwrap();
        world.pass(ms(10));
        world.net.close(world.now, server, true).unwrap();
        world.pass(ms(10));
        if discards == 0.0 {
            assert_eq!(world.receive(client).as_deref(), Ok(&b"here before"[..]));
        }
        assert_eq!(world.receive(client), Err(Failure::ConnectionReset));
        assert_eq!(world.net.check(), Ok(()), "what a reset takes away is no violation");
    }
}

#[test]
fn an_end_behind_bytes_that_a_reset_takes_away_is_not_told() {
    let mut world = World::of_two();
    world.net.limits_mut(A).reset_discards = 1.0;
    let (client, server, _) = world.connected();
    world.send(server, b"unread").unwrap();
    world.close(server);
    world.pass(ms(10));
    world.net.reset(world.now, client).unwrap();
    assert_eq!(world.receive(client), Err(Failure::ConnectionReset));
    assert_eq!(world.net.check(), Ok(()));
}

#[test]
fn who_is_accepted_after_a_reset_finds_out_by_reading() {
    let mut world = World::of_two();
    let listener = world.listen(B, "0.0.0.0:80");
    let client = world.connect(A, "10.0.0.2:80");
    world.pass(ms(30));
    world.net.close(world.now, client, true).unwrap();
    world.pass(ms(30));
    let (server, _) = world.net.accept(world.now, listener).expect("it stays in the queue");
    assert_eq!(world.receive(server), Err(Failure::ConnectionReset));
}

#[test]
fn both_ends_may_close_at_the_same_time() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.close(client);
    world.close(server);
    world.pass(secs(1));
    assert_eq!([A, B].map(|host| world.net.host(host).connections.len()), [1, 1], "both wait");
    world.pass(secs(60));
    assert_eq!([A, B].map(|host| world.net.host(host).connections.len()), [0, 0]);
    assert_eq!((world.net.next_due(), world.traced("RST")), (None, vec![]));
}

#[test]
fn nothing_is_left_of_a_connection_that_ended() {
    let mut world = World::of_two();
    let (client, server, listener) = world.connected();
    world.send(client, b"x").unwrap();
    world.pass(ms(10));
    world.read_all(server);
    world.close(client);
    world.pass(ms(10));
    world.close(server);
    world.net.close_listener(world.now, listener).unwrap();
    world.pass(secs(61));
    assert!(world.net.streams.iter().all(Option::is_none) && world.net.listeners.iter().all(Option::is_none));
    assert!([A, B].iter().all(|host| world.net.open_sockets(*host).is_empty()));
    assert_eq!(world.net.next_due(), None);
}

#[test]
fn a_peer_that_never_ends_is_not_waited_for_after_a_close() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.close(client);
    world.pass(secs(61));
    assert!(world.net.host(A).connections.is_empty());
    assert_eq!(world.send(server, b"anybody?"), Ok(8));
    world.pass(ms(30));
    assert_eq!(world.net.look(server).error, Some(Failure::BrokenPipe));
}

#[test]
fn a_peer_that_never_has_room_is_not_waited_for_without_end_after_a_close() {
    let mut world = World::of_two();
    world.net.limits_mut(B).receive_buffer = 10;
    let (client, server, _) = world.connected();
    world.send(client, &[1; 100]).unwrap();
    world.close(client);
    world.pass(secs(20 * 60));
    assert!(world.net.host(A).connections.is_empty());
    assert_eq!(world.net.look(server).error, Some(Failure::ConnectionReset));
}

#[test]
fn a_connect_that_is_given_up_leaves_nothing_open() {
    let mut world = World::of_two();
    let listener = world.listen(B, "0.0.0.0:80");
    let client = world.connect(A, "10.0.0.2:80");
    world.pass(ms(5));
    world.close(client);
    world.pass(secs(200));
    assert!(world.net.host(A).connections.is_empty() && world.net.host(B).connections.is_empty());
    assert!(!world.net.can_accept(listener), "its SYN-ACK was answered by a reset");
}
