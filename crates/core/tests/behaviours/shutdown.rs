//! How loops and groups end.

use super::*;
use netwright_core::{EventLoopGroup, LoopError, ManualLoop, RefusedWhy};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

#[test]
fn a_loop_that_never_started_ends_at_once_and_without_a_thread() {
    let event_loop = EventLoop::new();
    let end = event_loop.shutdown_gracefully(ms(2000), ms(15_000)).unwrap();
    assert!(event_loop.is_terminated() && !event_loop.has_thread());
    end.wait().unwrap();
    assert_eq!(event_loop.execute(|| ()).unwrap_err().why, RefusedWhy::ShutDown);
}

#[test]
fn tasks_queued_before_a_shutdown_all_run() {
    let (event_loop, log) = (EventLoop::new(), Log::default());
    let release = block(&event_loop);
    for n in 1..=3 {
        event_loop.execute(log.writer(n)).unwrap();
    }
    let end = event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
    assert!(event_loop.is_shutting_down() && !event_loop.is_terminated());
    drop(release);
    end.wait().unwrap();
    assert_eq!(log.take(), ["1", "2", "3"]);
}

#[test]
fn the_loop_stays_until_no_task_came_for_the_quiet_period() {
    let mut manual = ManualLoop::new();
    let handle = manual.handle().clone();
    handle.shutdown_gracefully(ms(1000), ms(15_000)).unwrap();
    for _ in 0..20 {
        manual.advance(ms(100));
        handle.execute(|| ()).unwrap();
    }
    manual.advance(ms(999));
    assert!(handle.is_shutting_down() && !handle.is_terminated());
    manual.advance(ms(1));
    assert!(handle.is_terminated());
}

#[test]
fn after_the_timeout_tasks_are_refused_although_they_keep_coming() {
    let mut manual = ManualLoop::new();
    let handle = manual.handle().clone();
    manual.run_once();
    handle.shutdown_gracefully(ms(2000), ms(2000)).unwrap();
    manual.run_once();
    for _ in 0..19 {
        manual.advance(ms(100));
        handle.execute(|| ()).unwrap();
    }
    manual.advance(ms(100));
    assert!(handle.is_terminated());
    assert_eq!(handle.execute(|| ()).unwrap_err().why, RefusedWhy::ShutDown);
}

#[test]
fn with_no_quiet_period_the_loop_ends_as_soon_as_nothing_waits() {
    let mut manual = ManualLoop::new();
    let (handle, log) = (manual.handle().clone(), Log::default());
    let (inner, inner_log) = (handle.clone(), log.clone());
    handle.execute(move || inner.execute(inner_log.writer("second")).unwrap()).unwrap();
    handle.shutdown_gracefully(Duration::ZERO, ms(15_000)).unwrap();
    manual.run_until_idle();
    assert!(handle.is_terminated());
    assert_eq!(log.take(), ["second"], "a task that a task submitted runs as well");
}

#[test]
fn a_second_shutdown_changes_nothing() {
    let mut manual = ManualLoop::new();
    let handle = manual.handle().clone();
    handle.shutdown_gracefully(ms(500), ms(500)).unwrap();
    handle.shutdown_gracefully(Duration::ZERO, Duration::ZERO).unwrap();
    manual.advance(ms(499));
    assert!(!handle.is_terminated());
    manual.advance(ms(1));
    assert!(handle.is_terminated());
}

#[test]
fn a_timeout_shorter_than_the_quiet_period_is_refused_by_name() {
    let event_loop = EventLoop::new();
    let error = event_loop.shutdown_gracefully(ms(2), ms(1)).unwrap_err();
    assert_eq!(error.argument, "timeout");
    assert!(!event_loop.is_shutting_down());
}

#[test]
fn a_task_in_the_race_with_shutdown_runs_or_is_refused() {
    for _ in 0..200 {
        let event_loop = EventLoop::new();
        on(&event_loop, || ());
        let (accepted, run) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let run = run.clone();
                        if event_loop.execute(move || _ = run.fetch_add(1, Ordering::Relaxed)).is_ok() {
                            accepted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
        });
        assert_eq!(accepted.into_inner(), run.load(Ordering::Relaxed));
    }
}

#[test]
fn waiting_for_a_loop_on_a_loop_is_an_error() {
    let (event_loop, other) = (EventLoop::new(), EventLoop::new());
    let (own, others) = (event_loop.termination(), other.termination());
    let (own, others) = on(&event_loop, move || (own.wait(), others.wait()));
    assert!(matches!(own, Err(LoopError::WouldBlockLoop)), "{own:?}");
    assert!(matches!(others, Err(LoopError::WouldBlockLoop)), "{others:?}");
}

#[test]
fn the_end_of_a_loop_can_be_awaited_by_many() {
    let mut manual = ManualLoop::new();
    let awaiter = EventLoop::new();
    let ends = [manual.handle().termination(), manual.handle().termination()];
    let mut awaited = awaiter
        .spawn(async move {
            for end in ends {
                end.await.unwrap();
            }
        })
        .unwrap();
    manual.handle().shutdown_gracefully(Duration::ZERO, ms(1)).unwrap();
    manual.run_until_idle();
    awaited.wait().unwrap();
}

#[test]
fn dropping_every_handle_runs_what_was_accepted_and_ends_the_thread() {
    struct ThreadEnd(mpsc::Sender<&'static str>);
    impl Drop for ThreadEnd {
        fn drop(&mut self) {
            let _ = self.0.send("thread ended");
        }
    }
    thread_local!(static END: std::cell::RefCell<Option<ThreadEnd>> = const { std::cell::RefCell::new(None) });

    let group = EventLoopGroup::new(3).unwrap();
    let (send, receive) = mpsc::channel();
    for event_loop in &group {
        let send = send.clone();
        on(&event_loop, move || END.set(Some(ThreadEnd(send))));
    }
    let last = group.next();
    let accepted = send.clone();
    last.execute(move || accepted.send("accepted task").unwrap()).unwrap();
    let end = group.termination();
    drop((group, send));
    drop(last);
    let mut events: Vec<_> = (0..4).map(|_| receive.recv_timeout(PATIENCE).unwrap()).collect();
    events.sort_unstable();
    assert_eq!(events, ["accepted task", "thread ended", "thread ended", "thread ended"]);
    assert!(end.wait().is_ok());
}

#[test]
fn a_group_ends_when_all_its_loops_have_ended() {
    let group = EventLoopGroup::new(2).unwrap();
    let loops: Vec<_> = group.iter().collect();
    let release = block(&loops[1]);
    let end = group.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
    loops[0].termination().wait().unwrap();
    assert!(!end.is_done());
    drop(release);
    end.wait().unwrap();
    assert!(loops.iter().all(EventLoop::is_terminated));
}

#[test]
fn impossible_groups_are_refused_by_name() {
    assert_eq!(EventLoopGroup::new(0).unwrap_err().to_string(), "loops is 0, but must be between 1 and 4096");
    let error = EventLoopGroup::new(2).unwrap().shutdown_gracefully(ms(1), Duration::ZERO).unwrap_err();
    assert_eq!(error.argument, "timeout");
}

#[test]
fn the_default_group_has_a_loop_for_each_core() {
    let group = EventLoopGroup::builder().build().unwrap();
    assert_eq!(group.len(), thread::available_parallelism().map_or(1, usize::from));
}

#[test]
fn the_users_own_rule_picks_the_loop() {
    let group = EventLoopGroup::builder().loops(3).chooser(|_: &[EventLoop]| 5).build().unwrap();
    assert_eq!(group.next(), group.iter().nth(2).unwrap(), "5 counts modulo 3");
}

#[test]
fn the_least_loaded_loop_is_the_one_with_fewer_tasks_waiting() {
    let builder = EventLoopGroup::builder().loops(2).chooser(netwright_core::LeastLoaded::new());
    let group = builder.build().unwrap();
    let busy = group.iter().next().unwrap();
    let release = block(&busy);
    for _ in 0..4 {
        assert_ne!(group.next(), busy);
    }
    drop(release);
}
