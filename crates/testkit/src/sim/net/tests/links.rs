//! Links: delays, losses, cuts.

use super::*;

#[test]
fn what_is_lost_is_sent_again_after_times_that_double() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    let start = world.now;
    world.net.take_trace();
    world.net.cut(world.now, A, B);
    world.send(client, b"x").unwrap();
    world.pass(secs(4));
    let mut at = Vec::new();
    for record in world.net.take_trace() {
        if let Happened::Lost { signal: "data", .. } = record.what {
            at.push((record.at - start).as_millis());
        }
    }
    assert_eq!(at, [0, 200, 600, 1_400, 3_000]);
    world.net.heal(world.now);
    world.pass(secs(3));
    assert_eq!(world.receive(server).as_deref(), Ok(&b"x"[..]));
}

#[test]
fn a_sender_whose_bytes_nobody_acknowledges_gives_up() {
    for own in [None, Some(secs(20))] {
        let mut world = World::of_two();
        let (client, server, _) = world.connected();
        if let Some(own) = own {
            world.net.set_give_up(client, own).unwrap();
        }
        world.net.cut(world.now, A, B);
        world.send(client, b"x").unwrap();
        world.pass(own.unwrap_or(secs(15 * 60)) - ms(1));
        assert_eq!(world.net.look(client).error, None);
        world.pass(ms(1));
        assert_eq!(world.news(), [News::Broken(client)]);
        assert_eq!(world.receive(client), Err(Failure::TimedOut));
        assert_eq!(
            world.net.look(server),
            Readiness { write: true, ..Readiness::default() },
            "knows nothing"
        );
    }
}

#[test]
fn a_cut_of_the_way_back_lets_bytes_arrive_and_the_sender_give_up() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.net.cut(world.now, B, A);
    world.send(client, b"x").unwrap();
    world.pass(secs(16 * 60));
    assert_eq!(world.receive(server).as_deref(), Ok(&b"x"[..]), "once, though it came many times");
    assert_eq!(world.receive(server), Err(Failure::WouldBlock));
    assert_eq!(world.receive(client), Err(Failure::TimedOut));
}

#[test]
fn a_stream_stays_in_order_over_a_link_that_loses_and_delays() {
    for seed in 0..20 {
        let mut world = World::of_two();
        world.net.chance = Chance::seed(seed);
        let (client, server, _) = world.connected();
        *world.net.default_link_mut() = Link::default().latency(ms(5)).jitter(ms(50)).loss(0.2);
        let (mut sent, mut read) = (0, 0);
        for _ in 0..100_000 {
            if sent < 300 && world.send(client, &[sent as u8; 100]) == Ok(100) {
                sent += 1;
            }
            world.pass(ms(10));
            read += world.read_all(server).len();
            if read == 30_000 {
                break;
            }
        }
        assert_eq!((read, world.net.check()), (30_000, Ok(())), "seed {seed}");
    }
}

#[test]
fn two_losses_in_one_flight_cost_one_wait() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    for n in 0..10 {
        let cut = n == 2 || n == 6;
        world.net.paths.set_cut(A, B, cut);
        world.send(client, &[n; 10]).unwrap();
    }
    world.net.heal(world.now);
    world.pass(ms(300));
    assert_eq!(world.read_all(server).len(), 100);
}

#[test]
fn what_was_on_its_way_when_the_link_was_cut_is_lost() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.send(client, b"x").unwrap();
    world.pass(ms(5));
    world.net.cut(world.now, A, B);
    world.pass(ms(50));
    world.net.mend(world.now, A, B);
    world.pass(ms(100));
    assert_eq!(world.receive(server), Err(Failure::WouldBlock));
    world.pass(ms(100));
    assert_eq!(world.receive(server).as_deref(), Ok(&b"x"[..]));
}

#[test]
fn a_link_of_a_pair_goes_before_the_default_and_may_change() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    world.net.link_mut(A, B).latency = secs(1);
    world.send(client, b"slow").unwrap();
    world.net.link_mut(A, B).latency = ms(1);
    world.send(client, b"fast").unwrap();
    world.pass(ms(150));
    assert_eq!(world.receive(server), Err(Failure::WouldBlock), "a stream does not overtake itself");
    world.pass(ms(850));
    assert_eq!(world.read_all(server), b"slowfast");
    world.send(server, b"back").unwrap();
    world.pass(ms(10));
    assert_eq!(world.read_all(client), b"back", "the other direction has the default");
}

#[test]
fn a_slow_link_is_not_taken_for_a_loss() {
    let mut world = World::of_two();
    world.net.link_mut(A, B).rate = Some(1_000);
    let (client, server, _) = world.connected();
    (0..40).for_each(|n| assert_eq!(world.send(client, &[n; 500]), Ok(500)));
    world.pass(secs(30));
    assert_eq!(world.read_all(server).len(), 20_000);
    let again = world.traced("data").len() - 40;
    assert!(again <= 2, "{again} were sent again");
}

#[test]
fn a_silent_peer_is_asked_and_given_up_if_it_does_not_answer() {
    let mut world = World::of_two();
    let (client, server, _) = world.connected();
    let keepalive = Keepalive { idle: secs(60), interval: secs(10), probes: 3 };
    world.net.set_keepalive(world.now, client, Some(keepalive)).unwrap();
    world.pass(secs(3_600));
    assert_eq!(world.net.look(client).error, None, "the peer's system answers");
    world.net.cut(world.now, A, B);
    world.pass(secs(100));
    assert_eq!(world.receive(client), Err(Failure::TimedOut));
    assert_eq!(world.receive(server), Err(Failure::WouldBlock));
}
