//! Tasks for later, and the end that waits for nothing. Time is moved by hand but for one test.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc::{Sender, channel},
    },
    time::Duration,
};

use super::{
    tests::{LONG, hold, pool, quiet_panic, received},
    *,
};
use crate::ManualClock;

// ---- tasks for later ----

/// A pool whose time is moved by hand.
fn timed(threads: usize) -> (Workers, ManualClock) {
    let clock = ManualClock::new();
    (Workers::builder().threads(threads).clock(clock.clone()).build().unwrap(), clock)
}

/// Has the pool look at its clock, and waits until it has.
fn look(workers: &Workers) {
    workers.submit(|| ()).unwrap().wait().unwrap();
}

/// Waits until every worker sleeps.
fn fall_asleep(workers: &Workers, threads: usize) {
    let start = std::time::Instant::now();
    while workers.handle.pool.asleep() < threads {
        assert!(start.elapsed() < LONG, "{:?}", workers.figures());
        std::thread::yield_now();
    }
}

/// Two tasks of which each returns whether the other ran at the same time.
fn meeting() -> [impl FnOnce() -> bool + Send + 'static; 2] {
    let ((a, to_a), (b, to_b)) = (channel(), channel());
    [(a, to_b), (b, to_a)].map(|(other, me)| {
        move || {
            let _ = other.send(());
            me.recv_timeout(LONG).is_ok()
        }
    })
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_task_for_later_runs_when_its_time_has_come_and_not_before() {
    let (workers, clock) = timed(1);
    let mut later = workers.schedule(HOUR, || "now").unwrap();
    clock.advance(HOUR - Duration::from_millis(1));
    look(&workers);
    look(&workers);
    assert!(!later.is_done());
    assert_eq!(workers.figures().scheduled, 1);
    clock.advance(Duration::from_millis(1));
    look(&workers);
    assert_eq!(later.wait(), Ok("now"));
    let figures = workers.figures();
    assert_eq!((figures.scheduled, figures.pending, figures.running), (0, 0, 0));
}

#[test]
fn on_the_clock_of_the_system_a_sleeping_pool_wakes_up_for_its_next_task_by_itself() {
    for threads in [1, 3] {
        let workers = pool(threads);
        let (at, delay) = (std::time::Instant::now(), Duration::from_millis(3));
        let mut tasks: Vec<_> =
            (0..20).map(|n| workers.schedule(delay * (n % 4), move || n).unwrap()).collect();
        // The next deadline is another one now.
        assert_eq!(workers.schedule(delay, || ()).unwrap().wait(), Ok(()));
        assert!(at.elapsed() >= delay, "never early");
        for (n, task) in (0..).zip(&mut tasks) {
            assert_eq!(task.wait(), Ok(n));
        }
        assert_eq!(workers.figures().threads, threads, "no thread for timers");
    }
}

#[test]
fn tasks_for_later_run_by_their_time_whatever_the_order_in_which_they_were_scheduled() {
    let (workers, clock) = timed(1);
    let (sender, receiver) = channel();
    for hour in [3, 1, 2] {
        let sender = sender.clone();
        drop(workers.schedule(HOUR * hour, move || sender.send(hour).unwrap()).unwrap());
    }
    clock.advance(HOUR * 3);
    look(&workers);
    assert_eq!([received(&receiver), received(&receiver), received(&receiver)], [1, 2, 3]);
}

#[test]
fn tasks_that_are_due_together_run_on_all_workers_that_are_free_the_one_that_watches_the_time_too() {
    let (workers, clock) = timed(2);
    let due = meeting().map(|task| workers.schedule(HOUR, task).unwrap());
    fall_asleep(&workers, 2);
    clock.advance(HOUR);
    workers.execute(|| ()).unwrap(); // looks at the clock
    assert_eq!(due.map(|mut due| due.wait()), [Ok(true), Ok(true)]);
}

#[test]
fn while_a_worker_goes_on_with_its_lane_others_run_what_has_come_due() {
    let (workers, clock) = timed(2);
    let (lane, (opened, gate), (arrived, at_gate)) = (workers.lane(), channel::<()>(), channel());
    let (ran, runs) = channel();
    drop(workers.schedule(HOUR, move || ran.send(()).unwrap()).unwrap());
    lane.execute(move || {
        arrived.send(()).unwrap();
        let _ = gate.recv();
    })
    .unwrap();
    received(&at_gate);
    fall_asleep(&workers, 1);
    let (opened_2, gate_2) = channel::<()>();
    let mut behind = lane.submit(move || gate_2.recv()).unwrap();
    clock.advance(HOUR);
    drop(opened); // the lane's worker looks at the clock, and has the next task of its lane to run
    received(&runs);
    drop(opened_2);
    assert!(behind.wait().unwrap().is_err());
}

#[test]
fn a_cancelled_task_for_later_leaves_nothing_behind() {
    struct Told(Sender<()>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    let (workers, clock) = timed(1);
    let (sender, dropped) = channel();
    let told = Told(sender);
    let mut task = workers.schedule(HOUR, move || drop(told)).unwrap();
    assert!(task.cancel() && !task.cancel());
    dropped.try_recv().expect("what the task held is dropped at once");
    assert_eq!(task.wait(), Err(TaskError::Cancelled));
    let figures = workers.figures();
    assert_eq!((figures.scheduled, figures.cancelled), (0, 1));
    clock.advance(HOUR);
    look(&workers);
    assert_eq!(workers.figures().completed, 1, "the look alone");
}

#[test]
fn a_task_for_later_that_panics_says_so_and_one_in_the_queue_can_still_be_cancelled() {
    let (workers, clock) = timed(1);
    let mut broken = workers.schedule(HOUR, || -> u32 { quiet_panic("no such row") }).unwrap();
    clock.advance(HOUR);
    look(&workers);
    assert_eq!(broken.wait(), Err(TaskError::Panicked("no such row".into())));

    let mut due = workers.schedule(HOUR, || ()).unwrap();
    let gate = hold(&workers);
    clock.advance(HOUR);
    assert!(due.cancel());
    drop(gate);
    look(&workers);
    assert_eq!(due.wait(), Err(TaskError::Cancelled));
}

#[test]
fn tasks_for_later_count_against_the_limit_and_come_back_beyond_it() {
    let clock = ManualClock::new();
    let workers = Workers::builder().threads(1).max_pending(2).clock(clock.clone()).build().unwrap();
    let first = workers.schedule(HOUR, || 1).unwrap();
    let _second = workers.schedule(HOUR, || 2).unwrap();
    let refused = workers.schedule(HOUR, || 3).unwrap_err();
    assert_eq!(refused.why, RefusedWhy::Full { limit: 2 });
    assert_eq!(refused.into_task()(), 3);
    assert_eq!(workers.execute(|| ()).unwrap_err().why, RefusedWhy::Full { limit: 2 });
    first.cancel();
    workers.submit(|| ()).unwrap().wait().unwrap();
}

#[test]
fn a_shutdown_drops_what_is_not_due_and_runs_what_is() {
    let (workers, clock) = timed(1);
    let gate = hold(&workers);
    let mut accepted = workers.submit(|| 1).unwrap();
    let mut later = workers.schedule(HOUR, || 2).unwrap();
    let mut often = workers.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    let ended = workers.shutdown_gracefully(LONG);
    assert_eq!(later.wait(), Err(TaskError::Abandoned), "at once");
    assert_eq!(often.wait(), Err(TaskError::Abandoned));
    clock.advance(HOUR);
    assert_eq!(workers.schedule(HOUR, || ()).unwrap_err().why, RefusedWhy::ShutDown);
    drop(gate);
    ended.wait().unwrap();
    assert_eq!(accepted.wait(), Ok(1));
    let figures = workers.figures();
    assert_eq!((figures.completed, figures.cancelled, figures.scheduled), (2, 2, 0));
}

#[test]
fn when_the_last_handle_goes_what_is_not_due_is_told() {
    let (workers, _clock) = timed(2);
    let mut later = workers.schedule(HOUR, || 2).unwrap();
    let ended = workers.termination();
    drop(workers);
    assert_eq!(later.wait(), Err(TaskError::Abandoned));
    ended.wait().unwrap();
}

#[test]
fn a_fixed_rate_catches_up_and_a_fixed_delay_counts_from_the_end_of_a_run() {
    let (workers, clock) = timed(1);
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    let rate = workers.schedule_at_fixed_rate(HOUR, HOUR, move || _ = counter.fetch_add(1, SeqCst)).unwrap();
    clock.advance(HOUR * 3);
    // One after the other: each is armed when the one before it is over.
    (0..4).for_each(|_| look(&workers));
    assert_eq!(runs.load(SeqCst), 3);
    assert!(rate.cancel());

    runs.store(0, SeqCst);
    let (counter, moved) = (runs.clone(), clock.clone());
    let run = move || {
        counter.fetch_add(1, SeqCst);
        moved.advance(HOUR / 2); // it takes half an hour
    };
    let delay = workers.schedule_with_fixed_delay(HOUR, HOUR, run).unwrap();
    clock.advance(HOUR);
    (0..2).for_each(|_| look(&workers));
    assert_eq!(runs.load(SeqCst), 1);
    clock.advance(HOUR / 2);
    (0..2).for_each(|_| look(&workers));
    assert_eq!(runs.load(SeqCst), 1, "half an hour since the end of the first run");
    clock.advance(HOUR / 2);
    (0..2).for_each(|_| look(&workers));
    assert_eq!(runs.load(SeqCst), 2);
    assert!(delay.cancel());
    assert_eq!(workers.figures().scheduled, 0);
}

#[test]
fn a_repeating_task_ends_by_its_panic_its_cancellation_during_a_run_or_a_period_of_zero() {
    let (workers, clock) = timed(1);
    let mut broken = workers.schedule_at_fixed_rate(HOUR, HOUR, || quiet_panic("enough")).unwrap();
    clock.advance(HOUR);
    look(&workers);
    assert_eq!(broken.wait(), Err(TaskError::Panicked("enough".into())));

    let (arrived, at_gate) = channel();
    let (gate, opened) = channel::<()>();
    let mut held = workers
        .schedule_at_fixed_rate(HOUR, HOUR, move || {
            arrived.send(()).unwrap();
            let _ = opened.recv();
        })
        .unwrap();
    clock.advance(HOUR);
    workers.execute(|| ()).unwrap();
    received(&at_gate);
    assert!(held.cancel());
    drop(gate);
    look(&workers);
    assert_eq!(held.wait(), Err(TaskError::Cancelled));
    assert_eq!(workers.figures().scheduled, 0, "not armed again");
    assert_eq!(
        workers.schedule_with_fixed_delay(HOUR, Duration::ZERO, || ()).unwrap_err().why,
        RefusedWhy::ZeroPeriod
    );
    drop(workers.schedule(Duration::MAX, || ()).unwrap()); // never
}

// ---- the end, now ----

#[test]
fn a_pool_that_ends_now_drops_what_has_not_begun_also_in_lanes_and_tells_every_promise() {
    let workers = pool(1);
    let lane = workers.lane();
    let (arrived, at_gate) = channel();
    let (gate, opened) = channel::<()>();
    let mut running = lane
        .submit(move || {
            arrived.send(()).unwrap();
            let _ = opened.recv();
        })
        .unwrap();
    received(&at_gate);
    let mut behind = lane.submit(|| 1).unwrap();
    let other = workers.lane();
    let mut elsewhere: Vec<_> = (0..3).map(|n| other.submit(move || n).unwrap()).collect();
    let mut plain = workers.submit(|| 2).unwrap();
    let mut later = workers.schedule(LONG, || 3).unwrap();
    let ended = workers.shutdown_now();
    assert_eq!(workers.submit(|| ()).unwrap_err().why, RefusedWhy::ShutDown);
    for promised in &mut elsewhere {
        assert_eq!(promised.wait(), Err(TaskError::Abandoned), "at once");
    }
    assert_eq!(plain.wait(), Err(TaskError::Abandoned));
    assert_eq!(later.wait(), Err(TaskError::Abandoned));
    assert!(ended.wait_timeout(Duration::from_millis(1)).is_none(), "a task that runs comes to its end");
    drop(gate);
    assert_eq!(running.wait(), Ok(()));
    assert_eq!(behind.wait(), Err(TaskError::Abandoned));
    ended.wait().unwrap();
    let figures = workers.figures();
    assert_eq!((figures.completed, figures.cancelled, figures.pending), (1, 6, 0));
}

#[test]
fn an_end_now_makes_a_patient_shutdown_a_short_one() {
    let workers = pool(1);
    let gate = hold(&workers);
    let mut waits = workers.submit(|| ()).unwrap();
    let patient = workers.shutdown_gracefully(Duration::MAX);
    workers.shutdown_now();
    assert_eq!(waits.wait(), Err(TaskError::Abandoned));
    drop(gate);
    patient.wait().unwrap();
}
