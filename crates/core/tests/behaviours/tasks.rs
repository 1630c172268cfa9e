//! Tasks: order, limits, wake-ups, tail tasks, panics.

use super::*;
use netwright_core::{Clock, ManualClock, ManualLoop, RefusedWhy, Rejection, TaskKind};
use std::{rc::Rc, thread};

#[test]
fn the_thread_starts_with_the_first_task_and_bears_the_loops_name() {
    let event_loop = EventLoop::builder().name("lazybones").build().unwrap();
    assert!(!event_loop.has_thread());
    assert_eq!(on(&event_loop, || thread::current().name().map(str::to_owned)).as_deref(), Some("lazybones"));
    assert!(event_loop.has_thread());
}

#[test]
fn tasks_of_one_thread_run_in_order_also_when_they_flood_the_loop() {
    for event_loop in [EventLoop::new(), EventLoop::builder().task_ring(1).build().unwrap()] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let release = block(&event_loop);
        for n in 0..5_000 {
            let seen = seen.clone();
            event_loop.execute(move || seen.lock().unwrap().push(n)).unwrap();
        }
        drop(release);
        on(&event_loop, || ());
        assert!(seen.lock().unwrap().iter().copied().eq(0..5_000));
    }
}

#[test]
fn a_task_submitted_on_the_loop_runs_after_one_that_another_thread_submitted_before() {
    let event_loop = EventLoop::new();
    let log = Log::default();
    let (inner_loop, inner_log) = (event_loop.clone(), log.clone());
    on(&event_loop, move || {
        let (other_loop, other_log) = (inner_loop.clone(), inner_log.clone());
        thread::spawn(move || other_loop.execute(other_log.writer("from outside")).unwrap()).join().unwrap();
        inner_loop.execute(inner_log.writer("from the loop")).unwrap();
        inner_loop.execute_local(inner_log.writer("local")).unwrap();
        inner_log.add("running");
    });
    on(&event_loop, || ());
    assert_eq!(log.take(), ["running", "from outside", "from the loop", "local"]);
}

#[test]
fn what_is_not_send_runs_on_its_loop_and_is_refused_elsewhere() {
    let mut manual = ManualLoop::new();
    let handle = manual.handle().clone();
    let refused = handle.execute_local(|| ()).unwrap_err();
    assert_eq!(refused.why, RefusedWhy::OffLoop);
    let shared = Rc::new(std::cell::Cell::new(0));
    let inner = shared.clone();
    manual.enter(|| handle.execute_local(move || inner.set(7)).unwrap());
    manual.run_until_idle();
    assert_eq!(shared.get(), 7);
}

#[test]
fn a_loop_knows_whether_it_is_the_current_one() {
    let (one, other) = (EventLoop::new(), EventLoop::new());
    assert_eq!(EventLoop::current(), None);
    let (a, b) = (one.clone(), other.clone());
    on(&one, move || {
        assert!(a.in_event_loop() && !b.in_event_loop());
        assert_eq!(EventLoop::current(), Some(a));
    });
    assert!(!one.in_event_loop());
}

#[test]
fn beyond_the_limit_a_task_comes_back_in_the_error_and_later_there_is_room_again() {
    let event_loop = EventLoop::builder().max_pending_tasks(2).build().unwrap();
    let release = block(&event_loop); // the running task holds its place until it ends
    event_loop.execute(|| ()).unwrap();
    let refused = event_loop.execute(|| ()).unwrap_err();
    assert_eq!(refused.why, RefusedWhy::Full { limit: 2 });
    assert_eq!(refused.to_string(), "task refused: the queue is full, its limit is 2 pending tasks");
    let task = refused.into_task();
    drop(release);
    eventually("a place becomes free", || event_loop.execute(task).is_ok());
}

#[test]
fn the_limit_counts_what_the_loop_submits_to_itself() {
    let mut manual =
        ManualLoop::with_clock(EventLoop::builder().max_pending_tasks(2), ManualClock::new()).unwrap();
    let handle = manual.handle().clone();
    manual.enter(|| {
        handle.execute(|| ()).unwrap();
        handle.execute_local(|| ()).unwrap();
        assert_eq!(handle.execute(|| ()).unwrap_err().why, RefusedWhy::Full { limit: 2 });
    });
    assert_eq!(handle.execute(|| ()).unwrap_err().why, RefusedWhy::Full { limit: 2 });
    manual.run_until_idle();
    handle.execute(|| ()).unwrap();
    assert_eq!(handle.figures().tasks_pending, 1);
}

#[test]
fn back_off_waits_for_room_off_the_loop_and_not_on_it() {
    let policy = Rejection::BackOff { retries: u32::MAX, pause: Duration::from_micros(10) };
    let event_loop = EventLoop::builder().max_pending_tasks(1).rejection(policy).build().unwrap();
    let release = block(&event_loop);
    let submitter = {
        let event_loop = event_loop.clone();
        thread::spawn(move || event_loop.execute(|| ()).is_ok())
    };
    drop(release);
    assert!(submitter.join().unwrap(), "the submitter waited until there was room");
    let inner = event_loop.clone();
    let why = loop {
        // The place of the submitter's task has to be free again before this one finds room.
        if event_loop.figures().tasks_pending == 0 {
            break on(&event_loop, move || inner.execute(|| ()).map_err(|refused| refused.why));
        }
        thread::yield_now();
    };
    assert_eq!(why, Err(RefusedWhy::Full { limit: 1 }));
}

#[test]
fn a_sleeping_loop_is_woken_once_for_many_tasks() {
    let event_loop = EventLoop::new();
    on(&event_loop, || ());
    let release = block(&event_loop);
    let before = event_loop.figures().wakeups_sent;
    for _ in 0..100 {
        event_loop.execute(|| ()).unwrap();
    }
    assert_eq!(event_loop.figures().wakeups_sent, before, "the loop is awake: nobody wakes it");
    drop(release);
    on(&event_loop, || ());
    let figures = event_loop.figures();
    assert!(figures.wakeups_saved >= 100, "{figures:?}");
}

#[test]
fn a_lazy_task_waits_for_the_next_wake_up() {
    let event_loop = EventLoop::new();
    let log = Log::default();
    on(&event_loop, || ());
    // Only a loop that has fallen asleep shows the difference: two turns without anything to do mean that it has.
    let asleep = |event_loop: &EventLoop| {
        let before = event_loop.figures();
        before.tasks_pending == 0 && before.tasks_run >= 1
    };
    eventually("the loop is idle", || asleep(&event_loop));
    let sent = event_loop.figures().wakeups_sent;
    event_loop.execute_lazy(log.writer("lazy")).unwrap();
    assert_eq!(event_loop.figures().wakeups_sent, sent, "a lazy task wakes nobody");
    event_loop.execute(log.writer("eager")).unwrap();
    on(&event_loop, || ());
    assert_eq!(log.take(), ["lazy", "eager"]);
}

#[test]
fn a_tail_task_runs_once_at_the_end_of_the_turn() {
    let mut manual = ManualLoop::new();
    let (handle, log) = (manual.handle().clone(), Log::default());
    handle.execute(log.writer("task 1")).unwrap();
    manual.enter(|| handle.after_iteration(log.writer("tail")).unwrap());
    handle.execute(log.writer("task 2")).unwrap();
    manual.run_once();
    assert_eq!(log.take(), ["task 1", "task 2", "tail"]);
    handle.execute(log.writer("task 3")).unwrap();
    manual.run_until_idle();
    assert_eq!(log.take(), ["task 3"]);
}

#[test]
fn a_recurring_tail_task_runs_after_every_turn_until_it_is_removed() {
    let mut manual = ManualLoop::new();
    let (handle, log) = (manual.handle().clone(), Log::default());
    let tail = manual.enter(|| handle.after_every_iteration(log.writer("tail")).unwrap());
    manual.run_once();
    manual.run_once();
    assert_eq!(log.take(), ["tail", "tail"]);
    assert!(tail.remove());
    assert!(!tail.remove(), "removed before");
    manual.run_until_idle();
    assert_eq!(log.take().len(), 0);
}

#[test]
fn a_removed_tail_task_does_not_run() {
    let mut manual = ManualLoop::new();
    let (handle, log) = (manual.handle().clone(), Log::default());
    let on_loop = manual.enter(|| handle.after_iteration(log.writer("tail")).unwrap());
    let from_outside = handle.after_iteration(log.writer("tail")).unwrap();
    assert!(on_loop.remove() && from_outside.remove());
    manual.run_until_idle();
    assert_eq!(log.take().len(), 0);
}

#[test]
fn a_tail_task_added_by_a_tail_task_waits_for_the_next_turn() {
    let mut manual = ManualLoop::new();
    let (handle, log) = (manual.handle().clone(), Log::default());
    let (inner, inner_log) = (handle.clone(), log.clone());
    let _tail = manual.enter(|| {
        handle.after_iteration(move || {
            inner_log.add("first");
            let _second = inner.after_iteration(inner_log.writer("second")).unwrap();
        })
    });
    manual.run_once();
    assert_eq!(log.take(), ["first"]);
    manual.run_once();
    assert_eq!(log.take(), ["second"]);
}

#[test]
fn tasks_yield_to_io_after_a_batch_when_io_took_no_time() {
    let mut manual = ManualLoop::new();
    for _ in 0..200 {
        manual.handle().execute(|| ()).unwrap();
    }
    manual.run_once();
    assert_eq!(manual.handle().figures().tasks_run, 64, "one batch, then a look at I/O");
    manual.run_until_idle();
    assert_eq!(manual.handle().figures().tasks_run, 200);
}

#[test]
fn with_a_ratio_of_100_tasks_run_until_the_cap() {
    let clock = ManualClock::new();
    let builder = EventLoop::builder().io_ratio(100).task_time_cap(ms(10));
    let mut manual = ManualLoop::with_clock(builder, clock.clone()).unwrap();
    for _ in 0..1000 {
        let clock = clock.clone();
        manual.handle().execute(move || clock.advance(Duration::from_micros(100))).unwrap();
    }
    manual.run_once();
    assert_eq!(
        manual.handle().figures().tasks_run,
        100,
        "and no longer, though it is in the middle of a batch"
    );
    assert_eq!(manual.handle().figures().time_tasks, ms(10));
}

#[test]
fn a_hundred_thousand_panicking_tasks_leave_a_healthy_loop() {
    quiet_panics();
    let event_loop = EventLoop::new();
    for _ in 0..100_000 {
        event_loop.execute(|| panic!("on purpose")).unwrap();
    }
    assert_eq!(on(&event_loop, || 7), 7);
    assert_eq!(event_loop.figures().panics, 100_000);
}

#[test]
fn a_task_whose_value_panics_when_dropped_is_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose, in drop");
        }
    }
    quiet_panics();
    let event_loop = EventLoop::new();
    let bomb = Bomb;
    event_loop.execute(move || drop(bomb)).unwrap();
    assert_eq!(on(&event_loop, || 7), 7);
    assert_eq!(event_loop.figures().panics, 1);
}

#[test]
fn the_longest_task_is_known_with_its_kind() {
    let clock = ManualClock::new();
    let mut manual = ManualLoop::with_clock(EventLoop::builder(), clock.clone()).unwrap();
    let (short, long) = (clock.clone(), clock.clone());
    manual.handle().execute(move || short.advance(ms(3))).unwrap();
    let _timer = manual.handle().schedule(ms(1), move || long.advance(ms(30))).unwrap();
    manual.advance(ms(5));
    let longest = manual.handle().figures().longest_task.unwrap();
    assert_eq!((longest.time, longest.kind), (ms(30), TaskKind::Timer));
    assert!(clock.now() >= manual.handle().now());
}

#[test]
fn impossible_settings_are_refused_by_name() {
    let error = |builder: netwright_core::EventLoopBuilder| builder.build().unwrap_err().to_string();
    assert_eq!(
        error(EventLoop::builder().max_pending_tasks(0)),
        "max_pending_tasks is 0, but must be at least 1"
    );
    assert_eq!(error(EventLoop::builder().task_ring(0)), "task_ring is 0, but must be between 1 and 1048576");
    assert_eq!(error(EventLoop::builder().io_ratio(101)), "io_ratio is 101, but must be between 1 and 100");
    assert!(
        error(EventLoop::builder().pin_to_core(9999)).starts_with("pin_to_core is 9999, but must be one of")
    );
    assert!(error(EventLoop::builder().name("a\0b")).contains("free of NUL"));
}

#[test]
#[cfg(target_os = "linux")] // elsewhere the list is that of the process, not of the thread
fn a_pinned_loop_runs_on_its_core() {
    let event_loop = EventLoop::builder().pin_to_core(0).build().unwrap();
    let cores = on(&event_loop, || core_affinity::get_core_ids().unwrap_or_default());
    assert_eq!(cores.iter().map(|core| core.id).collect::<Vec<_>>(), [0]);
}

#[test]
#[cfg(target_os = "linux")] // elsewhere the list is that of the process, not of the thread
fn a_loop_pinned_to_one_core_gets_there_although_its_first_task_comes_from_another() {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let [first, .., last] = &cores[..] else {
        println!("skipped: one core only");
        return;
    };
    let (starter, pinned) = (
        EventLoop::builder().pin_to_core(first.id).build().unwrap(),
        EventLoop::builder().pin_to_core(last.id).build().unwrap(),
    );
    let (send, receive) = mpsc::channel();
    let target = pinned.clone();
    on(&starter, move || {
        target
            .execute(move || send.send(core_affinity::get_core_ids().unwrap_or_default()).unwrap())
            .unwrap();
    });
    let there = receive.recv_timeout(PATIENCE).unwrap();
    assert_eq!(there.iter().map(|core| core.id).collect::<Vec<_>>(), [last.id]);
}

#[test]
fn a_loop_whose_first_tasks_come_from_many_threads_at_once_starts_once_and_runs_them_all() {
    for _ in 0..500 {
        let event_loop = EventLoop::new();
        let (barrier, ran) = (std::sync::Barrier::new(4), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let ran = ran.clone();
                    barrier.wait();
                    event_loop
                        .execute(move || _ = ran.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                        .unwrap();
                });
            }
        });
        event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
        assert_eq!(ran.load(std::sync::atomic::Ordering::Relaxed), 4);
    }
}
