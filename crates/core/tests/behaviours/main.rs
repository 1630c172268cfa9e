//! The event loop's behaviours, as people who know Netty expect them.
//!
//! | no. | behaviour | test |
//! | --- | --- | --- |
//! | 1 | shutting down a loop that never started ends it | `shutdown::a_loop_that_never_started_ends_at_once_and_without_a_thread` |
//! | 2 | tasks queued before a shutdown run | `shutdown::tasks_queued_before_a_shutdown_all_run` |
//! | 3 | tasks during the quiet period prolong it | `shutdown::the_loop_stays_until_no_task_came_for_the_quiet_period` |
//! | 4 | the timeout ends it although tasks keep coming | `shutdown::after_the_timeout_tasks_are_refused_although_they_keep_coming` |
//! | 5 | no quiet period, no delay | `shutdown::with_no_quiet_period_the_loop_ends_as_soon_as_nothing_waits` |
//! | 6 | registering on a loop that ends fails | `driver::a_source_is_refused_by_a_loop_that_shuts_down` |
//! | 7 | fixed rate catches up after a stall | `timers::a_fixed_rate_task_catches_up_after_a_stall_and_stops_when_cancelled` |
//! | 8 | fixed delay counts from the end of a run | `timers::a_fixed_delay_counts_from_the_end_of_each_run` |
//! | 9 | past, zero and huge times are safe | `timers::a_deadline_in_the_past_runs_now_and_a_huge_delay_never`, `timers::a_period_of_zero_is_refused_by_name` (a negative delay cannot be written: `Duration` has no sign) |
//! | 10 | schedule and cancel from another thread leaves nothing | `timers::timers_cancelled_from_another_thread_leave_nothing_behind` |
//! | 11 | tail tasks run after the turn, and can be removed | `tasks::a_tail_task_runs_once_at_the_end_of_the_turn`, `tasks::a_removed_tail_task_does_not_run` |
//! | 12 | a lazy task does not wake the loop | `tasks::a_lazy_task_waits_for_the_next_wake_up` |
//! | 13 | a failing poll is tried again and again; a loop that dies fails its termination | `driver::a_driver_that_keeps_failing_is_tried_again_after_growing_pauses_while_tasks_and_timers_go_on`, `driver::a_panicking_driver_fails_the_termination` |
//! | 14 | a task in the race with shutdown runs or is refused | `shutdown::a_task_in_the_race_with_shutdown_runs_or_is_refused`; all schedules: loom model in `event_loop::inbox` |
//! | 15 | waiting for several results on the loop is refused | there is no `invokeAll`; every blocking wait: `shutdown::waiting_for_a_loop_on_a_loop_is_an_error` |
//! | 16 | suspension waits for timers; a submit ends it | `suspend::a_loop_with_a_timer_is_not_suspended`, `suspend::a_task_gives_a_suspended_loop_a_new_thread` |
//! | 17 | a loop with a registration is never suspended | `suspend::a_loop_with_a_source_is_not_suspended` |
//! | 18 | scaling stays between its bounds and reports utilisation | `group::scaler` and `group::auto_scale` unit tests, `scaling::an_idle_group_shrinks_to_its_minimum_and_the_loops_beyond_it_give_their_threads_back`, `scaling::a_busy_group_grows_again_up_to_its_maximum_and_a_task_gives_the_newcomer_a_thread` |
//! | 19 | a manual loop belongs to one thread | moot: `ManualLoop` is not `Send` and needs `&mut` (compile-fail example in its documentation) |
//! | 20 | a rebuild keeps registrations and loses no wake-up | `driver::a_driver_that_wakes_up_for_nothing_is_rebuilt_and_keeps_its_registrations`, `driver::a_failing_poll_rebuilds_the_driver`, `driver::no_wake_up_is_lost_across_rebuilds` |
//! | 21 | listeners in order, bounded recursion | `promise` unit tests |
//! | 22 | waiting on the own loop is an error; a cancelled result says so | `promise` unit tests, `futures::an_aborted_future_is_dropped_and_its_handle_says_cancelled` |
//! | 23 | order per lane under contention | `workers` unit tests |
//! | 24 | the wheel is never early, frees what is cancelled, limits, and stops cleanly | `timer::wheel` unit tests, `timers::a_full_loop_refuses_a_timer_and_hands_it_back`, `timers::timers_of_a_loop_that_ends_tell_their_handles` |
//! | 25 | a task's result is promised, its panic reported, its refusal an error with the task in it | `asking::a_submitted_task_promises_what_it_returns_from_any_thread_and_from_the_loop_itself` and those behind it |
//! | 26 | a loop knows its group, a channel its loop; neither keeps the other | `asking::a_loop_knows_its_group_and_keeps_neither_it_nor_its_siblings`, `asking::a_channel_and_an_async_tail_know_the_loop_that_they_live_on` |
//! | 27 | whoever likes wakes the poller or has it rebuilt | `asking::a_sleeping_loop_that_is_woken_runs_lazy_tasks_and_sees_a_clock_that_was_moved`, `driver::a_rebuild_that_somebody_asks_for_moves_the_registrations_and_says_how_many`; all schedules: loom model in `event_loop::requests` |
//! | 28 | shut down now drops what has not begun, and says so | `asking::a_loop_that_ends_now_drops_what_it_has_not_begun_and_tells_every_promise` and those behind it |
//! | 29 | a factory makes the threads: stacks, hooks, a spawner of one's own; what fails is named and nothing is left | `threads::the_hooks_run_on_each_thread_the_first_before_any_task_and_the_last_before_the_end_is_told` and those behind it; all schedules: loom model in `threads` |
//! | 30 | a loop sleeps, spins for a while or spins; what ends its wait is the same | `waiting::tasks_timers_events_and_the_end_reach_a_loop_however_it_waits` and those behind it; all schedules: loom models in `event_loop::inbox` |
#![cfg(not(loom))]

mod asking;
mod driver;
mod endings;
mod fairness;
mod futures;
mod groups;
mod scaling;
mod shutdown;
mod suspend;
mod tasks;
mod threads;
mod timers;
mod waiting;

use netwright_core::EventLoop;
use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Longer than any healthy step of a test takes; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, entry: impl ToString) {
        self.0.lock().unwrap().push(entry.to_string());
    }

    fn writer(&self, entry: impl ToString) -> impl Fn() + Send + 'static {
        let (log, entry) = (self.clone(), entry.to_string());
        move || log.add(&entry)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Runs `f` on the loop and waits for what it returns.
fn on<R: Send + 'static>(event_loop: &EventLoop, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    event_loop.execute(move || drop(send.send(f()))).unwrap();
    receive.recv_timeout(PATIENCE).expect("the loop runs tasks")
}

/// Keeps a loop busy until the returned sender is used or dropped.
fn block(event_loop: &EventLoop) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel();
    let (started, has_started) = mpsc::channel();
    event_loop
        .execute(move || {
            started.send(()).unwrap();
            let _ = released.recv();
        })
        .unwrap();
    has_started.recv_timeout(PATIENCE).unwrap();
    release
}

/// Waits until `done` holds, letting other threads run. Fails after [`PATIENCE`].
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::yield_now();
    }
}

/// Panics that a test provokes on purpose should not fill its output.
fn quiet_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let payload = info.payload();
            let text = payload
                .downcast_ref::<&str>()
                .copied()
                .or(payload.downcast_ref::<String>().map(String::as_str));
            if !text.is_some_and(|text| text.starts_with("on purpose")) {
                loud(info);
            }
        }));
    });
}
