//! Connections that grow old, and those that are made before anybody asks: on a clock that is moved by hand.

use super::*;
use netwright_core::{CloseCause, EventLoopGroup, ManualClock};
use std::sync::mpsc;

const SECOND: Duration = Duration::from_secs(1);

/// `count` connections that are idle, the first of `peers` for the longest time, with a second between them.
fn idle(
    manual: &mut ManualLoop,
    attempts: &Attempts,
    pool: &Pool<Outgoing>,
    count: usize,
) -> Vec<Connection> {
    let mut acquires: Vec<_> = (0..count).map(|_| pool.acquire()).collect();
    let peers = (0..count).map(|_| attempts.succeed()).collect();
    for acquire in &mut acquires {
        drop(taken(acquire));
        manual.advance(SECOND);
    }
    peers
}

fn open(peers: &mut [Connection]) -> Vec<bool> {
    peers.iter_mut().map(|peer| peer.run().is_open()).collect()
}

#[test]
fn a_connection_that_nobody_uses_for_its_time_is_closed_and_not_before() {
    let (mut manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 3).idle_timeout(SECOND * 10).build().unwrap();
    assert_eq!(manual.handle().figures().timers_pending, 0, "nothing is armed before something is idle");
    let mut peers = idle(&mut manual, &attempts, &pool, 3);
    assert_eq!(manual.handle().figures().timers_pending, 1, "one for all");
    manual.advance(SECOND * 6 + Duration::from_millis(999));
    assert_eq!(open(&mut peers), [true, true, true]);
    for gone in 1..=3 {
        manual.advance(if gone == 1 { Duration::from_millis(1) } else { SECOND });
        assert_eq!(open(&mut peers).iter().filter(|open| **open).count(), 3 - gone);
        assert_eq!(figures(&pool), (3 - gone, 0, 0, 0, 3));
    }
    assert_eq!(manual.handle().figures().timers_pending, 0, "nor behind the last one");
}

#[test]
fn a_connection_that_is_used_now_and_then_stays() {
    let (mut manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 2).idle_timeout(SECOND * 10).max_age(Duration::ZERO).build().unwrap();
    let mut peers = idle(&mut manual, &attempts, &pool, 2);
    for _ in 0..20 {
        manual.advance(SECOND * 8);
        drop(taken(&mut pool.acquire()));
    }
    // The one that came back last is used, and the other one grew old.
    assert_eq!(open(&mut peers), [false, true]);
    let lent = taken(&mut pool.acquire());
    manual.advance(SECOND * 1000);
    assert_eq!(open(&mut peers), [false, true], "one on loan does not wait");
    drop(lent);
}

#[test]
fn an_old_connection_is_closed_where_it_waits_or_when_it_comes_back_up_to_a_tenth_early() {
    let (mut manual, attempts) = (ManualLoop::new(), Attempts::default());
    let builder = pool(&manual, &attempts, 40).idle_timeout(Duration::ZERO).max_age(SECOND * 1000);
    let pool = builder.build().unwrap();
    let mut acquires: Vec<_> = (0..40).map(|_| pool.acquire()).collect();
    let mut peers: Vec<_> = (0..40).map(|_| attempts.succeed()).collect();
    let mut lent: Vec<_> = acquires.iter_mut().map(taken).collect();
    let on_loan = lent.split_off(20);
    drop(lent);
    manual.advance(SECOND * 899);
    assert!(open(&mut peers).iter().all(|open| *open));
    let mut left = vec![20];
    for _ in 0..10 {
        manual.advance(SECOND * 10);
        left.push(pool.figures().idle);
    }
    manual.advance(SECOND);
    assert_eq!(pool.figures().idle, 0);
    assert!(left[5] > 0 && left[5] < 20, "they do not all end together: {left:?}");
    assert!(open(&mut peers[20..]).iter().all(|open| *open), "nobody is disturbed");
    drop(on_loan);
    assert!(open(&mut peers).iter().all(|open| !*open));
    assert_eq!(figures(&pool), (0, 0, 0, 0, 40));
}

#[test]
fn one_whose_time_is_over_is_not_lent_even_if_no_timer_has_looked() {
    let (clock, attempts) = (ManualClock::new(), Attempts::default());
    let group = EventLoopGroup::builder().clock(clock.clone()).build().unwrap();
    let blocked = mpsc::channel::<()>();
    let timer = group.next();
    let pool = Pool::with(timer.clone(), attempts.connector()).idle_timeout(SECOND).build().unwrap();
    let mut first = pool.acquire();
    let mut old = attempts.succeed();
    drop(taken(&mut first));
    timer.execute(move || _ = blocked.1.recv()).unwrap(); // a loop that does not come to its timers
    clock.advance(SECOND);
    let mut second = pool.acquire();
    assert!(!second.is_done() && !old.run().is_open());
    let new = attempts.succeed();
    assert_eq!(taken(&mut second).id(), new.channel().id());
    drop(blocked.0);
}

#[test]
fn the_least_number_is_kept_ready_while_there_is_room_and_outlives_the_idle_time() {
    let (mut manual, attempts) = (ManualLoop::new(), Attempts::default());
    let builder = pool(&manual, &attempts, 4).min_idle(2).idle_timeout(SECOND * 10);
    let pool = builder.build().unwrap();
    assert_eq!(figures(&pool), (0, 0, 2, 0, 0), "from the beginning on");
    let mut peers = vec![attempts.succeed(), attempts.succeed()];
    let lent: Vec<_> = (0..2).map(|_| taken(&mut pool.acquire())).collect();
    assert_eq!(figures(&pool), (0, 2, 2, 0, 2));
    peers.extend([attempts.succeed(), attempts.succeed()]);
    assert_eq!(figures(&pool), (2, 2, 0, 0, 4));
    let more = taken(&mut pool.acquire());
    assert_eq!(figures(&pool), (1, 3, 0, 0, 4), "there is no room");
    drop((lent, more));
    assert_eq!(figures(&pool), (4, 0, 0, 0, 4));
    manual.advance(SECOND * 10);
    assert_eq!(figures(&pool), (2, 0, 0, 0, 4));
    let one = peers.iter_mut().find_map(|peer| peer.run().is_open().then_some(peer)).unwrap();
    one.close_by_peer();
    assert_eq!(figures(&pool), (1, 0, 1, 0, 4), "one that ends is replaced");
}

#[test]
fn a_spare_connect_that_fails_is_tried_again_later_and_later_and_costs_nobody_anything() {
    let (mut manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 4).min_idle(1).build().unwrap();
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(attempts.len(), 1);
        attempts.fail();
        assert_eq!(attempts.len(), 0, "not at once");
        manual.advance(SECOND * pause - Duration::from_millis(1));
        assert_eq!(attempts.len(), 0, "{pause}");
        manual.advance(Duration::from_millis(1));
    }
    // Somebody waits for the spare one, which fails: another one is begun.
    let mut acquire = pool.acquire();
    attempts.fail();
    assert!(!acquire.is_done());
    let _peer = attempts.succeed();
    drop(taken(&mut acquire));
    assert_eq!(figures(&pool).0, 1);
}

#[test]
fn spare_connects_that_fail_together_make_one_pause() {
    let (mut manual, attempts) = (ManualLoop::new(), Attempts::default());
    let _pool = pool(&manual, &attempts, 4).min_idle(4).build().unwrap();
    for pause in [1, 2, 4] {
        assert_eq!(attempts.len(), 4);
        (0..4).for_each(|_| attempts.fail());
        manual.advance(SECOND * pause - Duration::from_millis(1));
        assert_eq!(attempts.len(), 0, "{pause}");
        manual.advance(Duration::from_millis(1));
    }
}

#[test]
fn a_peer_that_ends_what_is_kept_ready_at_once_is_connected_to_later_and_later() {
    let (mut manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 4).min_idle(2).build().unwrap();
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(attempts.len(), 2);
        for _ in 0..2 {
            attempts.succeed().close_by_peer();
        }
        assert_eq!((attempts.len(), figures(&pool).0), (0, 0), "not at once");
        manual.advance(SECOND * pause - Duration::from_millis(1));
        assert_eq!(attempts.len(), 0, "{pause}");
        manual.advance(Duration::from_millis(1));
    }
    // Whoever asks does not wait for the pause, and one that was used has proved that it stands.
    let mut peers = vec![attempts.succeed(), attempts.succeed()];
    let lent = taken(&mut pool.acquire());
    peers.push(attempts.succeed());
    drop(lent);
    manual.advance(SECOND);
    for peer in &mut peers {
        peer.close_by_peer();
    }
    assert_eq!(attempts.len(), 2, "they stood for a while");
    for _ in 0..2 {
        attempts.succeed().close_by_peer();
    }
    manual.advance(SECOND);
    assert_eq!(attempts.len(), 2, "pauses begin anew");
}

#[test]
fn a_warm_up_ends_when_a_connection_does_so_at_once() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 3).build().unwrap();
    let mut warm = pool.warm_up(2);
    attempts.succeed().close_by_peer();
    let error = warm.try_take().expect("it has ended").unwrap_err();
    assert!(matches!(error, PoolError::Ended(CloseCause::PeerClosed)), "{error}");
    assert_eq!((figures(&pool), attempts.len()), ((0, 0, 1, 0, 1), 1));
}

#[test]
fn a_warm_up_connects_what_is_missing_and_tells_how_many_there_are() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 3).build().unwrap();
    let mut acquire = pool.acquire();
    let _one = attempts.succeed();
    let lent = taken(&mut acquire);
    let (mut three, mut many) = (pool.warm_up(3), pool.warm_up(100));
    assert_eq!(figures(&pool), (0, 1, 2, 0, 1));
    let _two = attempts.succeed();
    assert!(!three.is_done());
    let _three = attempts.succeed();
    assert_eq!(three.try_take().unwrap().unwrap(), 3);
    assert_eq!(many.try_take().unwrap().unwrap(), 3, "as many as there may be");
    assert_eq!((figures(&pool), pool.warm_up(0).try_take().unwrap().unwrap()), ((2, 1, 0, 0, 3), 3));
    drop(lent);
}

#[test]
fn a_warm_up_ends_with_the_first_error_with_its_cancel_and_with_the_pool() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 3).build().unwrap();
    let mut warm = pool.warm_up(2);
    let _one = attempts.succeed();
    attempts.fail();
    assert!(matches!(warm.try_take().unwrap(), Err(PoolError::Connect(ConnectError::Refused(_)))));
    assert_eq!(
        (figures(&pool), attempts.len()),
        ((1, 0, 0, 0, 1), 0),
        "what was connected stays, and nothing is tried"
    );
    let given_up = pool.warm_up(3);
    assert!(given_up.cancel());
    attempts.fail();
    attempts.fail();
    assert_eq!(attempts.len(), 0);
    let mut waits = pool.warm_up(3);
    pool.close();
    assert!(matches!(waits.try_take().unwrap(), Err(PoolError::Closed)));
    assert!(matches!(pool.warm_up(1).try_take().unwrap(), Err(PoolError::Closed)));
}

#[test]
fn a_pool_that_goes_leaves_no_timer_and_one_that_is_made_of_zeros_has_none() {
    let (mut manual, attempts) = (ManualLoop::new(), Attempts::default());
    let first = pool(&manual, &attempts, 3).min_idle(1).build().unwrap();
    let mut peers = idle(&mut manual, &attempts, &first, 2);
    attempts.fail();
    drop(first);
    manual.run_until_idle();
    assert_eq!(manual.handle().figures().timers_pending, 0);
    assert_eq!(open(&mut peers), [false, false]);
    let zeros =
        pool(&manual, &attempts, 3).idle_timeout(Duration::ZERO).max_age(Duration::ZERO).build().unwrap();
    let mut peers = idle(&mut manual, &attempts, &zeros, 2);
    assert_eq!(manual.handle().figures().timers_pending, 0);
    manual.advance(SECOND * 1_000_000);
    assert_eq!(open(&mut peers), [true, true]);
}

#[test]
fn more_to_be_kept_ready_than_there_may_be_is_refused_by_name() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let error = pool(&manual, &attempts, 2).min_idle(3).build().unwrap_err();
    assert_eq!(error.to_string(), "min_idle is 3, but must be at most max_connections, 2");
}
