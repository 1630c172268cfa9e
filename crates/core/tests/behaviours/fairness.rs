//! Threads that submit without a pause hold up neither timers nor I/O nor what the loop gives itself to do; and a source that
//! has itself called again and again holds up nobody else.
//!
//! A turn of a loop on a clock that stands still runs one batch of tasks, whatever the speed of the machine. So these tests
//! count turns and tasks, and no time.

use super::*;
use netwright_core::{
    LocalLoop, ManualClock, ManualLoop,
    driver::{Event, Source},
};
use std::{
    cell::Cell,
    future::poll_fn,
    rc::Rc,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::Poll,
    thread,
};

/// More than the loop runs in all the turns of a test.
const BACKLOG: usize = 100_000;
const TURNS: usize = 100;

/// Submits tasks that count themselves, from another thread.
fn fill(handle: &EventLoop, ran: &Arc<AtomicUsize>) {
    let (handle, ran) = (handle.clone(), ran.clone());
    thread::spawn(move || {
        for _ in 0..BACKLOG {
            let ran = ran.clone();
            handle.execute(move || _ = ran.fetch_add(1, Ordering::Relaxed)).unwrap();
        }
    })
    .join()
    .unwrap();
}

fn manual() -> (ManualLoop, ManualClock) {
    let clock = ManualClock::new();
    (ManualLoop::with_clock(EventLoop::builder(), clock.clone()).unwrap(), clock)
}

/// Keeps itself busy: asks to be called again in each call.
struct Restless(Rc<Cell<usize>>);

impl Source for Restless {
    fn ready(&mut self, event: Event) {
        self.0.set(self.0.get() + 1);
        LocalLoop::current().unwrap().call(event.token);
    }
    fn shut_down(&mut self) {}
}

#[test]
fn a_timer_that_is_due_runs_in_its_turn_whatever_waits_from_outside() {
    let (mut manual, clock) = manual();
    let (ran, ticks) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = ticks.clone();
    let tick = move || _ = counted.fetch_add(1, Ordering::Relaxed);
    let _timer = manual.handle().schedule_at_fixed_rate(ms(1), ms(1), tick).unwrap();
    manual.run_until_idle();
    fill(manual.handle(), &ran);
    for turn in 1..=TURNS {
        clock.advance(ms(1));
        manual.run_once();
        assert_eq!(ticks.load(Ordering::Relaxed), turn);
    }
    assert!(ran.load(Ordering::Relaxed) > 0, "and the tasks go on as well");
}

#[test]
fn sources_and_futures_that_keep_themselves_busy_go_on_in_each_turn_whatever_waits_from_outside() {
    let (mut manual, _) = manual();
    let (ran, calls, polls) = (Arc::new(AtomicUsize::new(0)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let polled = polls.clone();
    manual.enter(|| {
        let local = LocalLoop::current().unwrap();
        let token = local.register(Restless(calls.clone())).unwrap();
        local.call(token);
        let busy = poll_fn(move |cx| {
            polled.set(polled.get() + 1);
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let _ = local.spawn(busy).unwrap();
    });
    manual.run_once();
    fill(manual.handle(), &ran);
    for _ in 0..TURNS {
        let before = (calls.get(), polls.get(), ran.load(Ordering::Relaxed));
        manual.run_once();
        assert!(calls.get() > before.0, "the source was called");
        assert!(polls.get() > before.1, "the future was polled");
        assert!(ran.load(Ordering::Relaxed) > before.2, "tasks from outside ran");
    }
}

#[test]
fn a_source_that_calls_itself_again_waits_for_the_next_turn() {
    let (mut manual, clock) = manual();
    let (calls, others, ticks) =
        (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = ticks.clone();
    let tick = move || _ = counted.fetch_add(1, Ordering::Relaxed);
    let _timer = manual.handle().schedule_at_fixed_rate(ms(1), ms(1), tick).unwrap();
    manual.run_until_idle();
    manual.enter(|| {
        let local = LocalLoop::current().unwrap();
        for calls in [&calls, &others] {
            let token = local.register(Restless(calls.clone())).unwrap();
            local.call(token);
        }
    });
    for turn in 1..=TURNS {
        clock.advance(ms(1));
        assert!(manual.run_once(), "there is something to do");
        assert_eq!((calls.get(), others.get()), (turn, turn), "each has its turn between two of the other");
        assert_eq!(ticks.load(Ordering::Relaxed), turn, "and so has the timer");
    }
    assert_eq!(manual.handle().figures().tasks_pending, 2, "the calls that are to come");
}

#[test]
fn a_source_that_calls_itself_again_does_not_keep_a_loop_from_ending() {
    let (mut manual, _) = manual();
    let calls = Rc::new(Cell::new(0));
    manual.enter(|| {
        let local = LocalLoop::current().unwrap();
        let token = local.register(Restless(calls.clone())).unwrap();
        local.call(token);
    });
    manual.run_once();
    drop(manual);
    assert_eq!(calls.get(), 2, "once in its turn, and what was accepted is run");
}

/// How many of the tasks, each of which takes three milliseconds, run in the next turn.
fn long_tasks_in_one_turn(manual: &mut ManualLoop, clock: &ManualClock) -> usize {
    let ran = Rc::new(Cell::new(0));
    for _ in 0..1000 {
        let (ran, clock) = (ran.clone(), clock.clone());
        let task = move || {
            ran.set(ran.get() + 1);
            clock.advance(ms(3));
        };
        manual.enter(|| manual_handle().execute_local(task).unwrap());
    }
    manual.run_once();
    ran.get()
}

fn manual_handle() -> EventLoop {
    LocalLoop::current().unwrap().handle()
}

#[test]
fn a_turn_ends_when_its_tasks_have_taken_long_however_few_they_were() {
    let (mut manual, clock) = manual();
    assert_eq!(long_tasks_in_one_turn(&mut manual, &clock), 1);
}

#[test]
fn tasks_that_take_long_are_noticed_soon_after_tiny_ones() {
    let (mut manual, clock) = manual();
    manual.enter(|| (0..64).for_each(|_| manual_handle().execute_local(|| ()).unwrap()));
    manual.run_once(); // a full batch of tiny ones: the clock is looked at less often
    let ran = long_tasks_in_one_turn(&mut manual, &clock);
    assert!(ran <= 16, "{ran} tasks of three milliseconds in one turn");
}

#[test]
fn every_turn_ends_and_runs_the_timers_that_are_due_while_threads_submit_without_a_pause() {
    let (mut manual, clock) = manual();
    let (ran, ticks, stop) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let counted = ticks.clone();
    let tick = move || _ = counted.fetch_add(1, Ordering::Relaxed);
    let _timer = manual.handle().schedule_at_fixed_rate(ms(1), ms(1), tick).unwrap();
    manual.run_until_idle();
    fill(manual.handle(), &ran);
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let (handle, stop) = (manual.handle().clone(), stop.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    handle.execute(|| ()).unwrap();
                }
            })
        })
        .collect();
    let run = |manual: &mut ManualLoop| {
        for turn in 1..=TURNS {
            clock.advance(ms(1));
            let before = manual.handle().figures().tasks_run;
            manual.run_once();
            assert_eq!(ticks.load(Ordering::Relaxed), turn);
            assert!(manual.handle().figures().tasks_run - before <= 64, "a batch, and then the next turn");
        }
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&mut manual)));
    stop.store(true, Ordering::Relaxed);
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    outcome.unwrap();
}

#[test]
fn tasks_of_the_loop_and_of_other_threads_run_in_the_order_in_which_they_were_submitted() {
    let (mut manual, _) = manual();
    let (handle, log) = (manual.handle().clone(), Log::default());
    let outside = |entry: &'static str| {
        let (handle, log) = (handle.clone(), log.clone());
        thread::spawn(move || handle.execute(log.writer(entry)).unwrap()).join().unwrap();
    };
    let inside = |manual: &mut ManualLoop, entry: &'static str| {
        manual.enter(|| handle.execute_local(log.writer(entry)).unwrap());
    };
    inside(&mut manual, "1");
    outside("2");
    inside(&mut manual, "3");
    outside("4");
    inside(&mut manual, "5");
    inside(&mut manual, "6");
    outside("7");
    let spawned = log.clone();
    let future = async move { spawned.add("8") };
    let _ = manual.enter(|| handle.spawn_local(future)).unwrap();
    outside("9");
    manual.run_until_idle();
    assert_eq!(log.take(), ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    assert_eq!(handle.figures().tasks_pending, 0);
}

#[test]
fn a_limit_counts_a_task_of_the_loop_behind_tasks_from_outside_once() {
    let builder = EventLoop::builder().max_pending_tasks(3);
    let mut manual = ManualLoop::with_clock(builder, ManualClock::new()).unwrap();
    let (handle, log) = (manual.handle().clone(), Log::default());
    let outside = handle.clone();
    let written = log.clone();
    thread::spawn(move || outside.execute(written.writer("outside")).unwrap()).join().unwrap();
    manual.enter(|| handle.execute_local(log.writer("inside")).unwrap());
    assert_eq!(handle.figures().tasks_pending, 2);
    handle.execute(log.writer("third")).unwrap();
    assert!(handle.execute(|| ()).is_err(), "three wait");
    manual.run_until_idle();
    assert_eq!(log.take(), ["outside", "inside", "third"]);
    assert_eq!(handle.figures().tasks_pending, 0);
}
