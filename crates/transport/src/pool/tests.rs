use super::*;
use bytes::Bytes;
use bytes::BytesMut;
use netwright_core::{EmbeddedChannel, ManualLoop, Outgoing, Promise, pipeline, promise};
use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

mod upkeep;

type Connection = EmbeddedChannel<Infallible, Outgoing>;

fn connection() -> Connection {
    EmbeddedChannel::new(pipeline().handle(|_, _| ()))
}

/// Connects that the test carries out by hand.
#[derive(Clone, Default)]
struct Attempts(Arc<Mutex<VecDeque<Attempt>>>);

type Attempt = Promise<Channel, ConnectError>;

impl Attempts {
    fn connector(&self) -> impl Fn() -> Promised<Channel, ConnectError> + Send + Sync + 'static {
        let attempts = self.0.clone();
        move || {
            let (promise, promised) = promise();
            attempts.lock().unwrap().push_back(promise);
            promised
        }
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn next(&self) -> Attempt {
        self.0.lock().unwrap().pop_front().expect("a connect is under way")
    }

    /// The oldest connect succeeds.
    fn succeed(&self) -> Connection {
        let connection = connection();
        self.next().succeed(connection.channel().clone());
        connection
    }

    fn fail(&self) {
        self.next().fail(ConnectError::Refused(std::net::SocketAddr::from(([127, 0, 0, 1], 9)).into()));
    }
}

fn pool(manual: &ManualLoop, attempts: &Attempts, limit: usize) -> PoolBuilder<Outgoing> {
    Pool::with(manual.handle().clone(), attempts.connector()).max_connections(limit)
}

fn taken<W: Send + 'static>(acquire: &mut Promised<Pooled<W>, PoolError>) -> Pooled<W> {
    acquire.try_take().expect("the acquire is answered").expect("with a connection")
}

fn refused<W: Send + 'static>(acquire: &mut Promised<Pooled<W>, PoolError>) -> PoolError {
    acquire.try_take().expect("the acquire is answered").expect_err("with an error")
}

/// `(idle, in use, connecting, waiting, created)`
fn figures<W: Send + 'static>(pool: &Pool<W>) -> (usize, usize, usize, usize, u64) {
    let figures = pool.figures();
    (figures.idle, figures.in_use, figures.connecting, figures.waiting, figures.created)
}

#[test]
fn a_connection_is_made_when_it_is_asked_for_and_used_again_after_that() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 2).build().unwrap();
    assert_eq!((figures(&pool), attempts.len()), ((0, 0, 0, 0, 0), 0));
    let mut acquire = pool.acquire();
    assert_eq!(figures(&pool), (0, 0, 1, 1, 0));
    let mut peer = attempts.succeed();
    let pooled = taken(&mut acquire);
    assert_eq!((figures(&pool), pooled.id()), ((0, 1, 0, 0, 1), peer.channel().id()));
    pooled.write_and_flush(Bytes::from("hello"));
    assert_eq!(peer.outbound_bytes(), b"hello");
    drop(pooled);
    assert_eq!(figures(&pool), (1, 0, 0, 0, 1));
    let again = taken(&mut pool.acquire());
    assert_eq!((again.id(), figures(&pool)), (peer.channel().id(), (0, 1, 0, 0, 1)));
}

#[test]
fn the_connection_that_came_back_last_is_lent_first() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 3).build().unwrap();
    let mut acquires = [pool.acquire(), pool.acquire(), pool.acquire()];
    let peers = [attempts.succeed(), attempts.succeed(), attempts.succeed()];
    let [a, b, c] = acquires.each_mut().map(taken);
    let ids = peers.each_ref().map(|peer| peer.channel().id());
    drop(b);
    drop(c);
    drop(a);
    let lent = [pool.acquire(), pool.acquire(), pool.acquire()].each_mut().map(taken);
    assert_eq!(lent.each_ref().map(|pooled| pooled.id()), [ids[0], ids[2], ids[1]]);
}

#[test]
fn a_full_pool_lets_acquires_wait_and_serves_them_in_order() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 1).build().unwrap();
    let mut first = pool.acquire();
    let _peer = attempts.succeed();
    let first = taken(&mut first);
    let (mut second, mut third) = (pool.acquire(), pool.acquire());
    assert_eq!((figures(&pool), attempts.len()), ((0, 1, 0, 2, 1), 0));
    drop(first);
    assert!(second.is_done() && !third.is_done());
    drop(taken(&mut second));
    drop(taken(&mut third));
    assert_eq!(figures(&pool), (1, 0, 0, 0, 1));
}

#[test]
fn a_waiter_takes_what_comes_first_be_it_a_release_or_a_connect() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 2).build().unwrap();
    let mut first = pool.acquire();
    let _one = attempts.succeed();
    let first = taken(&mut first);
    let mut second = pool.acquire();
    drop(first);
    let _second = taken(&mut second);
    assert_eq!(figures(&pool), (0, 1, 1, 0, 1), "the connect that it started goes on");
    let _two = attempts.succeed();
    assert_eq!(figures(&pool), (1, 1, 0, 0, 2), "and is there for the next one");
}

#[test]
fn one_waiter_too_many_is_refused_with_both_limits_in_the_text() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 1).max_waiting(1).build().unwrap();
    let _connects = pool.acquire();
    let _waits = pool.acquire();
    let error = refused(&mut pool.acquire());
    assert!(matches!(error, PoolError::TooManyWaiting { max_waiting: 1, max_connections: 1 }));
    assert_eq!(error.to_string(), "all 1 connections are taken, and 1 wait already, the limit of the pool");
}

#[test]
fn an_acquire_times_out_and_the_text_names_time_and_limit() {
    let (mut manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 1).acquire_timeout(Duration::from_secs(5)).build().unwrap();
    let mut first = pool.acquire();
    let _peer = attempts.succeed();
    let first = taken(&mut first);
    let mut late = pool.acquire();
    manual.advance(Duration::from_millis(4999));
    assert!(!late.is_done());
    manual.advance(Duration::from_millis(1));
    let error = refused(&mut late);
    assert_eq!(
        error.to_string(),
        "no connection became free within 5s: of at most 1, 1 are in use and 0 are being connected"
    );
    assert_eq!(pool.figures().waiting, 0);
    drop(first);
    assert_eq!(pool.figures().idle, 1, "nobody waits for it any more");
}

#[test]
fn an_acquire_that_was_served_leaves_no_timer_behind_and_zero_means_no_limit() {
    let (mut manual, attempts) = (ManualLoop::new(), Attempts::default());
    let timed = pool(&manual, &attempts, 1).build().unwrap();
    let mut acquire = timed.acquire();
    let _peer = attempts.succeed();
    let pooled = taken(&mut acquire);
    manual.run_until_idle();
    assert_eq!(manual.handle().figures().timers_pending, 0);
    drop(pooled);
    let patient = pool(&manual, &attempts, 1).acquire_timeout(Duration::ZERO).build().unwrap();
    let acquire = patient.acquire();
    manual.advance(Duration::from_secs(1_000_000));
    assert!(!acquire.is_done());
}

#[test]
fn an_acquire_fails_when_the_loop_of_its_timeouts_has_ended() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 1).build().unwrap();
    drop(manual);
    assert!(matches!(refused(&mut pool.acquire()), PoolError::LoopEnded));
}

#[test]
fn a_failed_connect_fails_the_first_in_line_and_the_next_one_gets_its_own_attempt() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 1).build().unwrap();
    let (mut first, mut second) = (pool.acquire(), pool.acquire());
    assert_eq!(attempts.len(), 1);
    attempts.fail();
    assert!(matches!(refused(&mut first), PoolError::Connect(ConnectError::Refused(_))));
    assert!(!second.is_done());
    let _peer = attempts.succeed();
    drop(taken(&mut second));
    assert_eq!(figures(&pool), (1, 0, 0, 0, 1));
}

#[test]
fn thousands_of_connects_that_fail_at_once_fail_their_waiters_and_not_the_stack() {
    let manual = ManualLoop::new();
    let hold = Arc::new(Attempts::default());
    let (first, calls) = (hold.clone(), AtomicUsize::new(0));
    let connect = move || match calls.fetch_add(1, Ordering::Relaxed) {
        0 => first.connector()(),
        _ => Promised::ready(Err(ConnectError::Cancelled)),
    };
    let pool = Pool::with(manual.handle().clone(), connect).max_connections(1).build().unwrap();
    let mut acquires: Vec<_> = (0..20_000).map(|_| pool.acquire()).collect();
    hold.fail();
    assert!(acquires.iter_mut().all(|acquire| matches!(refused(acquire), PoolError::Connect(_))));
    assert_eq!(figures(&pool), (0, 0, 0, 0, 0));
}

#[test]
fn thousands_who_gave_up_waiting_pass_the_connection_on_and_not_down_the_stack() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 1).acquire_timeout(Duration::ZERO).build().unwrap();
    let mut first = pool.acquire();
    let _peer = attempts.succeed();
    let first = taken(&mut first);
    for _ in 0..20_000 {
        drop(pool.acquire());
    }
    let mut last = pool.acquire();
    drop(first);
    drop(taken(&mut last));
    assert_eq!(figures(&pool), (1, 0, 0, 0, 1));
}

#[test]
fn a_cancelled_acquire_leaves_the_line_at_once() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 1).build().unwrap();
    let (mut first, second, mut third) = (pool.acquire(), pool.acquire(), pool.acquire());
    assert!(second.cancel());
    assert_eq!(pool.figures().waiting, 2);
    let _peer = attempts.succeed();
    drop(taken(&mut first));
    drop(taken(&mut third));
    assert_eq!(figures(&pool), (1, 0, 0, 0, 1));
}

#[test]
fn an_unhealthy_connection_is_not_offered_again_be_it_found_on_release_or_on_acquire() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let healthy = Arc::new(AtomicBool::new(true));
    let check = healthy.clone();
    let pool = pool(&manual, &attempts, 1).healthy(move |_| check.load(Ordering::Relaxed)).build().unwrap();
    let mut acquire = pool.acquire();
    let mut one = attempts.succeed();
    healthy.store(false, Ordering::Relaxed);
    drop(taken(&mut acquire));
    assert_eq!(figures(&pool), (0, 0, 0, 0, 1));
    assert!(!one.run().is_open(), "found on release, and closed");

    healthy.store(true, Ordering::Relaxed);
    let mut acquire = pool.acquire();
    let mut two = attempts.succeed();
    drop(taken(&mut acquire));
    assert_eq!(pool.figures().idle, 1);
    healthy.store(false, Ordering::Relaxed);
    let mut acquire = pool.acquire();
    assert!(!two.run().is_open(), "found on acquire, and closed");
    let three = attempts.succeed();
    assert_eq!(taken(&mut acquire).id(), three.channel().id(), "a new one is not checked");
}

#[test]
fn with_the_check_on_release_off_it_is_found_on_acquire() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 1).healthy(|_| false).check_on_release(false).build().unwrap();
    let mut acquire = pool.acquire();
    let mut peer = attempts.succeed();
    drop(taken(&mut acquire));
    assert_eq!(figures(&pool), (1, 0, 0, 0, 1));
    let _acquire = pool.acquire();
    assert!(!peer.run().is_open());
    assert_eq!(figures(&pool), (0, 0, 1, 1, 1));
}

#[test]
fn with_the_check_on_release_off_whoever_waits_gets_no_connection_that_has_ended_or_is_not_healthy() {
    for (healthy, kill) in [(true, true), (false, false)] {
        let (manual, attempts) = (ManualLoop::new(), Attempts::default());
        let pool =
            pool(&manual, &attempts, 1).healthy(move |_| healthy).check_on_release(false).build().unwrap();
        let mut acquire = pool.acquire();
        let mut ended = attempts.succeed();
        let lent = taken(&mut acquire);
        let mut waits = pool.acquire();
        if kill {
            ended.close_by_peer();
        }
        drop(lent);
        assert!(!waits.is_done(), "it is not lent on");
        let new = attempts.succeed();
        assert_eq!(taken(&mut waits).id(), new.channel().id());
        ended.run();
    }
}

#[test]
fn a_connection_whose_end_was_asked_for_is_not_lent_again() {
    use netwright_core::Event;
    struct Leave;
    let ways: [fn(&mut Connection, &Pooled<Outgoing>); 3] = [
        |_, pooled| drop(pooled.close()),
        |_, pooled| drop(pooled.close_when_flushed()),
        |connection, pooled| {
            connection.block_output(true);
            pooled.write_and_flush(Bytes::from("what keeps it"));
            pooled.fire_event(Event::new(Leave));
            connection.run();
            assert_eq!(connection.channel().state(), netwright_core::ChannelState::Active);
        },
    ];
    /// Closes when everything is sent, if it is told to.
    struct Polite;
    impl netwright_core::Application for Polite {
        type Read = BytesMut;
        type Write = Outgoing;
        fn read(&mut self, _: &mut netwright_core::AppContext<'_, Self>, _: BytesMut) {}
        fn event(&mut self, cx: &mut netwright_core::AppContext<'_, Self>, _: Event) {
            cx.close_when_flushed();
        }
    }
    for ask_for_the_end in ways {
        let (manual, attempts) = (ManualLoop::new(), Attempts::default());
        let pool = pool(&manual, &attempts, 1).build().unwrap();
        let mut acquire = pool.acquire();
        let mut leaving = EmbeddedChannel::new(pipeline().app(Polite));
        attempts.next().succeed(leaving.channel().clone());
        let pooled = taken(&mut acquire);
        ask_for_the_end(&mut leaving, &pooled);
        let mut waits = pool.acquire();
        drop(pooled);
        assert!(!waits.is_done(), "it is not lent on");
        let new = attempts.succeed();
        assert_eq!(taken(&mut waits).id(), new.channel().id());
    }
}

#[test]
fn a_loan_says_whether_its_connection_was_made_for_it() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 2).build().unwrap();
    let mut first = pool.acquire();
    let _one = attempts.succeed();
    let first = taken(&mut first);
    assert!(first.is_fresh());
    // Two wait: one for a connect, one for whatever comes first, which is not the new one.
    let (mut second, mut third) = (pool.acquire(), pool.acquire());
    let _two = attempts.succeed();
    assert!(taken(&mut second).is_fresh());
    drop(first);
    assert!(!taken(&mut third).is_fresh());
    assert!(!taken(&mut pool.acquire()).is_fresh(), "one that has waited");
}

#[test]
fn a_timeout_tells_how_many_are_being_connected() {
    let (mut manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 2).acquire_timeout(Duration::from_secs(5)).build().unwrap();
    let mut acquire = pool.acquire();
    manual.advance(Duration::from_secs(5));
    let error = refused(&mut acquire);
    assert!(matches!(error, PoolError::TimedOut { in_use: 0, connecting: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("of at most 2, 0 are in use and 1 are being connected"), "{error}");
}

#[test]
fn a_health_check_or_a_connector_that_panics_costs_the_connection_and_not_the_pool() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 1).healthy(|_| panic!("sick")).build().unwrap();
    let mut acquire = pool.acquire();
    let mut peer = attempts.succeed();
    drop(taken(&mut acquire));
    assert!(!peer.run().is_open());
    assert_eq!(figures(&pool), (0, 0, 0, 0, 1));
    let broken = Pool::<Bytes>::with(manual.handle().clone(), || panic!("broken")).build().unwrap();
    assert!(matches!(refused(&mut broken.acquire()), PoolError::Connect(ConnectError::Setup(_))));
    assert_eq!(figures(&broken), (0, 0, 0, 0, 0));
}

#[test]
fn a_discarded_connection_is_closed_and_its_place_goes_to_a_waiter() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 1).build().unwrap();
    let mut first = pool.acquire();
    let mut one = attempts.succeed();
    let mut second = pool.acquire();
    taken(&mut first).discard();
    assert!(!one.run().is_open());
    assert_eq!((figures(&pool), attempts.len()), ((0, 0, 1, 1, 1), 1));
    let two = attempts.succeed();
    assert_eq!(taken(&mut second).id(), two.channel().id());
}

#[test]
fn a_connection_that_ends_while_idle_leaves_and_one_that_ends_on_loan_does_not_come_back() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 2).build().unwrap();
    let mut acquires = [pool.acquire(), pool.acquire()];
    let mut peers = [attempts.succeed(), attempts.succeed()];
    let [one, two] = acquires.each_mut().map(taken);
    drop(one);
    assert_eq!(figures(&pool), (1, 1, 0, 0, 2));
    peers[0].close_by_peer();
    assert_eq!(figures(&pool), (0, 1, 0, 0, 2));
    peers[1].close_by_peer();
    assert_eq!(figures(&pool), (0, 1, 0, 0, 2), "it is on loan until it is dropped");
    drop(two);
    assert_eq!(figures(&pool), (0, 0, 0, 0, 2));
}

#[test]
fn closing_fails_waiters_closes_the_idle_and_gives_connects_up() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 3).build().unwrap();
    let mut acquires = [pool.acquire(), pool.acquire()];
    let mut peers = [attempts.succeed(), attempts.succeed()];
    let [idle, lent] = acquires.each_mut().map(taken);
    let mut connects = (pool.acquire(), pool.acquire());
    drop(idle); // serves the first of the two
    drop(taken(&mut connects.0));
    drop(taken(&mut connects.1));
    let (_again, mut waits, mut too) = (pool.acquire(), pool.acquire(), pool.acquire());
    assert_eq!(figures(&pool), (0, 2, 1, 2, 2));
    pool.close();
    assert!(matches!(refused(&mut waits), PoolError::Closed));
    assert!(matches!(refused(&mut too), PoolError::Closed));
    assert!(attempts.next().is_cancelled());
    assert!(matches!(refused(&mut pool.acquire()), PoolError::Closed));
    assert!(pool.is_closed());
    assert!(peers[1].run().is_open(), "on loan");
    drop(lent);
    assert!(!peers[1].run().is_open(), "closed when it came back");
}

#[test]
fn a_connect_that_succeeds_after_the_close_is_closed() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 1).build().unwrap();
    let _acquire = pool.acquire();
    let mut attempt = attempts.next();
    assert!(attempt.claim(), "from here on it cannot be given up");
    pool.close();
    let mut peer = connection();
    attempt.succeed(peer.channel().clone());
    assert!(!peer.run().is_open());
    assert_eq!(figures(&pool), (0, 0, 0, 0, 0));
}

#[test]
fn the_last_handle_closes_the_pool_and_connections_on_loan_do_not_count() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let pool = pool(&manual, &attempts, 2).build().unwrap();
    let mut acquires = [pool.acquire(), pool.acquire()];
    let mut peers = [attempts.succeed(), attempts.succeed()];
    let [idle, lent] = acquires.each_mut().map(taken);
    drop(idle);
    let other = pool.clone();
    drop(pool);
    assert!(peers[0].run().is_open(), "a clone is left");
    drop(other);
    assert!(!peers[0].run().is_open() && peers[1].run().is_open());
    drop(lent);
    assert!(!peers[1].run().is_open());
}

#[test]
fn a_pool_of_no_connections_is_refused_by_name() {
    let (manual, attempts) = (ManualLoop::new(), Attempts::default());
    let error = pool(&manual, &attempts, 0).build().unwrap_err();
    assert_eq!(error.to_string(), "max_connections is 0, but must be at least 1");
}

#[test]
fn many_threads_share_few_connections_to_a_real_server_and_never_more_than_the_limit() {
    use crate::{Server, event_loops};
    const THREADS: usize = 8;
    const ROUNDS: usize = 50;
    const LIMIT: usize = 3;
    let server = Server::builder()
        .group(event_loops(1).unwrap())
        .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let client = Client::builder().pipeline(|| pipeline().handle(|_, _| ())).unwrap();
    let pool = Pool::to(&client, server.address()).max_connections(LIMIT).build().unwrap();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let pool = pool.clone();
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    let pooled = pool.acquire().wait().unwrap();
                    let figures = pool.figures();
                    assert!(figures.in_use + figures.idle + figures.connecting <= LIMIT);
                    pooled.send(Bytes::from("ping")).wait().unwrap();
                    if round % 20 == 0 {
                        pooled.discard();
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    // A connection may still be on its way for somebody who was served by another one meanwhile.
    while pool.figures().connecting > 0 {
        thread::yield_now();
    }
    let figures = pool.figures();
    assert_eq!((figures.in_use, figures.waiting), (0, 0));
    while server.figures().accepted < figures.created {
        thread::yield_now(); // the system has accepted them, and the server is about to
    }
    assert_eq!(server.figures().accepted, figures.created);
    assert!(figures.created >= (THREADS * ROUNDS / 20) as u64, "every discarded one was replaced");
    pool.close();
    let mut shutdown = server.drain(Duration::from_secs(30));
    assert_eq!(shutdown.wait().unwrap().cut, 0, "closing the pool has closed its connections");
}
