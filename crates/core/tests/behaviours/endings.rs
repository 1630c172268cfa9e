//! Loops end, whatever they host: futures that always wake themselves, sources that always call themselves, values that
//! panic when they are dropped, drivers that panic when they start.

use super::*;
use netwright_core::{
    LocalLoop, LoopError, ManualLoop, RefusedWhy, TaskError, Workers,
    driver::{Driver, DriverSeed, DriverWaker, Event, ParkSeed, Source},
};
use std::{
    future::{pending, poll_fn},
    io,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
};

/// Panics when it is dropped, and counts that.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("on purpose: dropped");
    }
}

fn bombs() -> (Arc<AtomicUsize>, impl Fn() -> Bomb) {
    quiet_panics();
    let dropped = Arc::new(AtomicUsize::new(0));
    let made = dropped.clone();
    (dropped, move || Bomb(made.clone()))
}

/// The end of a loop whose time for the shutdown is over before it comes to what is submitted: behind more tasks than it
/// runs in its last turn.
fn accepted_at_the_last_moment(submit: impl FnOnce(&EventLoop)) -> Result<(), LoopError> {
    let event_loop = EventLoop::new();
    let release = block(&event_loop);
    let end = event_loop.shutdown_gracefully(Duration::ZERO, Duration::ZERO).unwrap();
    for _ in 0..1000 {
        event_loop.execute(|| ()).unwrap();
    }
    submit(&event_loop);
    drop(release);
    end.wait_timeout(PATIENCE).expect("the loop ends")
}

#[test]
fn a_future_that_always_wakes_itself_does_not_keep_a_loop_that_took_it_during_its_shutdown() {
    let mut outcome = None;
    let end = accepted_at_the_last_moment(|event_loop| {
        let restless = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        outcome = Some(event_loop.spawn(restless).unwrap());
    });
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(outcome.unwrap().wait(), Err(TaskError::Abandoned));
}

#[test]
fn a_future_that_panics_when_dropped_does_not_keep_a_loop_that_took_it_during_its_shutdown() {
    let (dropped, bomb) = bombs();
    let end = accepted_at_the_last_moment(|event_loop| {
        for bomb in [bomb(), bomb()] {
            let waits = async move {
                let _bomb = bomb;
                pending::<()>().await;
            };
            let _ = event_loop.spawn(waits).unwrap();
        }
    });
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
}

#[test]
fn a_source_that_always_calls_itself_does_not_keep_a_loop_whose_time_is_over() {
    struct Restless;
    impl Source for Restless {
        fn ready(&mut self, event: Event) {
            LocalLoop::current().unwrap().call(event.token);
        }
        fn shut_down(&mut self) {}
    }
    let event_loop = EventLoop::new();
    on(&event_loop, || {
        let local = LocalLoop::current().unwrap();
        let token = local.register(Restless).unwrap();
        local.call(token);
    });
    let end = event_loop.shutdown_gracefully(Duration::ZERO, ms(1)).unwrap();
    end.wait_timeout(PATIENCE).expect("the loop ends").unwrap();
}

#[test]
fn futures_timers_tail_tasks_and_sources_whose_drops_all_panic_cost_nobody_but_themselves() {
    struct Armed(#[allow(dead_code)] Bomb);
    impl Source for Armed {
        fn ready(&mut self, _: Event) {}
        fn shut_down(&mut self) {}
    }
    let (dropped, bomb) = bombs();
    let mut manual = ManualLoop::new();
    let handle = manual.handle().clone();
    for _ in 0..2 {
        let (a, b, c, d, e) = (bomb(), bomb(), bomb(), bomb(), bomb());
        let waits = async move {
            let _bomb = a;
            pending::<()>().await;
        };
        let _ = handle.spawn(waits).unwrap();
        let _ = handle.schedule(ms(3_600_000), move || drop(b)).unwrap();
        let repeat = move || _ = &c;
        let _ = handle.schedule_at_fixed_rate(ms(3_600_000), ms(1), repeat).unwrap();
        let tail = move || _ = &d;
        let _ = handle.after_every_iteration(tail).unwrap();
        manual.enter(|| LocalLoop::current().unwrap().register(Armed(e)).unwrap());
    }
    manual.run_once();
    let end = handle.termination();
    drop(manual);
    end.wait().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 10);
    assert_eq!(handle.figures().panics, 10);
}

#[test]
fn timers_whose_drops_panic_do_not_disturb_a_graceful_shutdown() {
    let (dropped, bomb) = bombs();
    let event_loop = EventLoop::new();
    for bomb in [bomb(), bomb(), bomb()] {
        let _ = event_loop.schedule(ms(3_600_000), move || drop(bomb)).unwrap();
    }
    on(&event_loop, || ());
    let end = event_loop.shutdown_gracefully(ms(1), PATIENCE).unwrap();
    end.wait_timeout(PATIENCE).expect("the loop ends").unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
}

#[test]
fn tasks_that_a_stillborn_loop_cannot_run_are_dropped_one_by_one_although_their_drops_panic() {
    let (dropped, bomb) = bombs();
    let event_loop = EventLoop::builder().driver(PanicsAtStart(ParkSeed::new())).build().unwrap();
    for bomb in [bomb(), bomb()] {
        // The second may find the loop gone already: then it comes back, and is dropped under the test's own eyes.
        if let Err(refused) = event_loop.execute(move || drop(bomb)) {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(refused)));
        }
    }
    let _ = event_loop.termination().wait_timeout(PATIENCE).expect("the loop ends");
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
}

struct PanicsAtStart(ParkSeed);

impl DriverSeed for PanicsAtStart {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        self.0.waker()
    }
    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        panic!("on purpose: no start");
    }
}

#[test]
fn a_driver_that_panics_when_it_starts_fails_the_termination_and_every_accepted_task_learns_of_it() {
    quiet_panics();
    let event_loop = EventLoop::builder().driver(PanicsAtStart(ParkSeed::new())).build().unwrap();
    let mut timer = event_loop.schedule(ms(1), || ()).unwrap();
    let end = event_loop.termination().wait_timeout(PATIENCE).expect("the loop ends");
    assert!(matches!(&end, Err(LoopError::Panicked(text)) if text.contains("no start")), "{end:?}");
    assert_eq!(timer.wait(), Err(TaskError::Abandoned));
    assert_eq!(event_loop.execute(|| ()).unwrap_err().why, RefusedWhy::ShutDown);
}

#[test]
fn a_seed_that_panics_when_dropped_does_not_keep_a_loop_that_never_started_from_its_end() {
    struct Fragile(ParkSeed, #[allow(dead_code)] Bomb);
    impl DriverSeed for Fragile {
        fn waker(&self) -> Arc<dyn DriverWaker> {
            self.0.waker()
        }
        fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
            Box::new(self.0).start()
        }
    }
    let (dropped, bomb) = bombs();
    let event_loop = EventLoop::builder().driver(Fragile(ParkSeed::new(), bomb())).build().unwrap();
    event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
    assert!(event_loop.is_terminated());
    event_loop.termination().wait().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn tasks_results_and_cancelled_tasks_whose_drops_panic_cost_workers_nothing() {
    let (dropped, bomb) = bombs();
    let workers = Workers::new(1).unwrap();
    let mut cancelled = Vec::new();
    {
        let (started, has_started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        workers
            .execute(move || {
                started.send(()).unwrap();
                let _ = released.recv();
            })
            .unwrap();
        has_started.recv_timeout(PATIENCE).unwrap();
        for _ in 0..2 {
            let (captured, result) = (bomb(), bomb());
            cancelled.push(workers.submit(move || drop(captured)).unwrap());
            drop(workers.submit(move || result).unwrap()); // nobody wants what it returns
        }
        assert!(cancelled.iter().all(netwright_core::Promised::cancel));
        drop(release);
    }
    workers.shutdown_gracefully(PATIENCE).wait().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 4);
}
