//! Timers, on a clock moved by hand: none of these tests sleeps.

use super::*;
use netwright_core::{Clock, ManualClock, ManualLoop, RefusedWhy, TaskError, time};
use std::time::Instant;

fn manual() -> (ManualLoop, ManualClock) {
    let clock = ManualClock::new();
    (ManualLoop::with_clock(EventLoop::builder(), clock.clone()).unwrap(), clock)
}

#[test]
fn a_timer_is_never_early_and_resolves_to_its_result() {
    let (mut manual, _) = manual();
    let mut timer = manual.handle().schedule(ms(10), || 42).unwrap();
    manual.advance(ms(9) + Duration::from_nanos(999_999));
    assert!(!timer.is_done());
    manual.advance(Duration::from_millis(1));
    assert_eq!(timer.wait(), Ok(42));
}

#[test]
fn timers_run_by_deadline_and_in_the_order_of_arming_when_equal() {
    let (mut manual, _) = manual();
    let log = Log::default();
    let mut timers = Vec::new();
    for (delay, name) in [(20, "late"), (10, "first"), (5, "early"), (10, "second"), (100_000, "last")] {
        timers.push(manual.handle().schedule(ms(delay), log.writer(name)).unwrap());
    }
    manual.advance(ms(200_000));
    assert_eq!(log.take(), ["early", "first", "second", "late", "last"]);
}

#[test]
fn a_fixed_rate_task_catches_up_after_a_stall_and_stops_when_cancelled() {
    let (mut manual, clock) = manual();
    let start = clock.now();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let (task_runs, task_clock) = (runs.clone(), clock.clone());
    let task = manual.handle().schedule_at_fixed_rate(ms(100), ms(100), move || {
        let mut runs = task_runs.lock().unwrap();
        runs.push((task_clock.now() - start).as_millis());
        if runs.len() == 1 {
            task_clock.advance(ms(401)); // the stall
        }
    });
    let task = task.unwrap();
    manual.advance(ms(100));
    manual.advance(ms(199));
    assert_eq!(
        *runs.lock().unwrap(),
        [100, 501, 501, 501, 501, 600, 700],
        "the missed runs follow back to back"
    );
    assert!(task.cancel());
    manual.advance(ms(1000));
    assert_eq!(runs.lock().unwrap().len(), 7);
    assert_eq!(manual.handle().figures().timers_pending, 0);
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_each_run() {
    let (mut manual, clock) = manual();
    let start = clock.now();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let (task_runs, task_clock) = (runs.clone(), clock.clone());
    let _task = manual.handle().schedule_with_fixed_delay(Duration::ZERO, ms(100), move || {
        task_runs.lock().unwrap().push((task_clock.now() - start).as_millis());
        task_clock.advance(ms(30));
    });
    manual.advance(ms(400));
    assert_eq!(*runs.lock().unwrap(), [0, 130, 260, 390]);
}

#[test]
fn a_deadline_in_the_past_runs_now_and_a_huge_delay_never() {
    let (mut manual, clock) = manual();
    let past = clock.now().checked_sub(ms(500)).unwrap_or_else(Instant::now);
    let overdue = manual.handle().schedule_at(past, || ()).unwrap();
    let never = manual.handle().schedule(Duration::MAX, || ()).unwrap();
    let rarely = manual.handle().schedule_at_fixed_rate(ms(1), Duration::MAX, || ()).unwrap();
    manual.run_until_idle();
    assert!(overdue.is_done());
    manual.advance(Duration::from_secs(100 * 365 * 24 * 3600));
    assert!(!never.is_done() && !rarely.is_done());
    assert!(never.cancel() && rarely.cancel());
    manual.run_until_idle();
    assert_eq!(manual.handle().figures().timers_pending, 0);
}

#[test]
fn a_period_of_zero_is_refused_by_name() {
    let (manual, _) = manual();
    let refused = manual.handle().schedule_at_fixed_rate(ms(1), Duration::ZERO, || ()).unwrap_err();
    assert_eq!(refused.to_string(), "task refused: period is 0 ns, but must be longer than zero");
    let refused = manual.handle().schedule_with_fixed_delay(ms(1), Duration::ZERO, || ()).unwrap_err();
    assert_eq!(refused.why, RefusedWhy::ZeroPeriod);
}

#[test]
fn timers_cancelled_from_another_thread_leave_nothing_behind() {
    let event_loop = EventLoop::new();
    let value = Arc::new(());
    let timers: Vec<_> = (0..10_000)
        .map(|_| {
            let value = value.clone();
            event_loop.schedule(Duration::from_secs(3600), move || drop(value)).unwrap()
        })
        .collect();
    assert!(timers.iter().all(|timer| timer.cancel()));
    on(&event_loop, || ());
    assert_eq!(event_loop.figures().timers_pending, 0);
    assert_eq!(Arc::strong_count(&value), 1, "the tasks are freed, not only skipped");
    assert!(timers.iter().all(|timer| !timer.cancel()), "cancelled before");
}

#[test]
fn a_timer_cancelled_by_an_earlier_task_of_the_same_turn_does_not_run() {
    let (mut manual, _) = manual();
    let log = Log::default();
    let second = Arc::new(Mutex::new(None));
    let (cancel, first_log) = (second.clone(), log.clone());
    let _first = manual.handle().schedule(ms(1), move || {
        first_log.add("first");
        let timer: netwright_core::Scheduled<()> = cancel.lock().unwrap().take().unwrap();
        assert!(timer.cancel());
    });
    *second.lock().unwrap() = Some(manual.handle().schedule(ms(1), log.writer("second")).unwrap());
    manual.advance(ms(2));
    assert_eq!(log.take(), ["first"]);
}

#[test]
fn a_panic_ends_a_repeating_task_and_reaches_its_handle() {
    quiet_panics();
    let (mut manual, _) = manual();
    let mut runs = 0;
    let mut task = manual
        .handle()
        .schedule_at_fixed_rate(ms(1), ms(1), move || {
            runs += 1;
            assert!(runs < 3, "on purpose at run {runs}");
        })
        .unwrap();
    let mut once = manual.handle().schedule(ms(1), || -> u8 { panic!("on purpose") }).unwrap();
    quiet_panics();
    manual.advance(ms(10));
    assert_eq!(task.wait(), Err(TaskError::Panicked("on purpose at run 3".to_owned())));
    assert_eq!(once.wait(), Err(TaskError::Panicked("on purpose".to_owned())));
    assert_eq!(manual.handle().figures().panics, 2);
}

#[test]
fn a_full_loop_refuses_a_timer_and_hands_it_back() {
    let builder = EventLoop::builder().max_pending_tasks(1);
    let manual = ManualLoop::with_clock(builder, ManualClock::new()).unwrap();
    manual.handle().execute(|| ()).unwrap();
    let refused = manual.handle().schedule(ms(1), || 7).unwrap_err();
    assert_eq!(refused.why, RefusedWhy::Full { limit: 1 });
    assert_eq!(refused.into_task()(), 7);
}

#[test]
fn timers_of_a_loop_that_ends_tell_their_handles() {
    let (mut manual, _) = manual();
    let mut timer = manual.handle().schedule(ms(10), || ()).unwrap();
    let mut repeating = manual.handle().schedule_at_fixed_rate(ms(10), ms(10), || ()).unwrap();
    manual.run_until_idle();
    manual.handle().shutdown_gracefully(Duration::ZERO, ms(1)).unwrap();
    manual.run_until_idle();
    assert_eq!(timer.wait(), Err(TaskError::Abandoned));
    assert_eq!(repeating.wait(), Err(TaskError::Abandoned));
    assert_eq!(manual.handle().schedule(ms(1), || ()).unwrap_err().why, RefusedWhy::ShutDown);
}

#[test]
fn times_too_long_to_be_named_are_waited_for_and_nothing_panics() {
    let (mut manual, clock) = manual();
    let handle = manual.handle().clone();
    let never = Duration::MAX;
    let mut early = handle
        .spawn(async move {
            let mut interval = time::interval(never);
            time::timeout(ms(1), interval.tick()).await.is_err()
                && time::timeout(ms(1), time::sleep(never)).await.is_err()
                && time::timeout(never, async {}).await.is_ok()
        })
        .unwrap();
    let _repeats = [
        handle.schedule_at_fixed_rate(Duration::ZERO, never, || ()).unwrap(),
        handle.schedule_with_fixed_delay(Duration::ZERO, never, || ()).unwrap(),
        handle.schedule_at_fixed_rate(never, never, || ()).unwrap(),
    ];
    manual.advance(ms(10));
    assert!(early.is_done());
    assert_eq!(early.wait(), Ok(true));
    // A tick that is very late, of an interval whose missed ticks cannot be counted.
    let mut late = handle
        .spawn(async move {
            let mut interval = time::interval(Duration::from_nanos(1));
            interval.tick().await;
            clock.advance(Duration::from_secs(1 << 33));
            interval.tick().await;
            time::timeout(ms(1), interval.tick()).await.is_ok()
        })
        .unwrap();
    manual.advance(ms(10)); // and the future moves the clock further
    manual.advance(ms(10));
    assert!(late.is_done());
    assert_eq!(late.wait(), Ok(true));
    handle.shutdown_gracefully(never, never).unwrap();
    manual.run_once();
    assert!(!handle.is_terminated());
}
