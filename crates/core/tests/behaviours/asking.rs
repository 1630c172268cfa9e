//! What a loop can be asked for beside tasks: a result, its group, a look round, a new poller, and to end now.

use super::*;
use netwright_core::{
    CloseCause, EmbeddedChannel, EventLoopGroup, LocalLoop, ManualClock, ManualLoop, Peer, RefusedWhy,
    TaskError,
    driver::{Event, Source},
    pipeline,
};
use std::sync::atomic::{AtomicUsize, Ordering};

// ---- submit ----

#[test]
fn a_submitted_task_promises_what_it_returns_from_any_thread_and_from_the_loop_itself() {
    let event_loop = EventLoop::new();
    assert_eq!(event_loop.submit(|| 6 * 7).unwrap().wait(), Ok(42));
    let inner = event_loop.clone();
    let mut from_inside = on(&event_loop, move || inner.submit(|| "inside").unwrap());
    assert_eq!(from_inside.wait(), Ok("inside"));
}

#[test]
fn submitted_tasks_run_in_order_with_others() {
    let (mut manual, log) = (ManualLoop::new(), Log::default());
    manual.handle().execute(log.writer("first")).unwrap();
    drop(manual.handle().submit(log.writer("second")).unwrap());
    manual.handle().execute(log.writer("third")).unwrap();
    manual.run_until_idle();
    assert_eq!(log.take(), ["first", "second", "third"]);
}

#[test]
fn a_submitted_task_that_panics_says_so_and_is_counted() {
    quiet_panics();
    let event_loop = EventLoop::new();
    let mut broken = event_loop.submit(|| -> u32 { panic!("on purpose: no such row") }).unwrap();
    assert_eq!(broken.wait(), Err(TaskError::Panicked("on purpose: no such row".to_owned())));
    assert_eq!(event_loop.figures().panics, 1);
    assert_eq!(event_loop.submit(|| 1).unwrap().wait(), Ok(1), "the loop goes on");
}

#[test]
fn a_submitted_task_that_is_cancelled_before_its_turn_does_not_run() {
    let mut manual = ManualLoop::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    let mut promised = manual.handle().submit(move || counter.fetch_add(1, Ordering::Relaxed)).unwrap();
    assert!(promised.cancel());
    manual.run_until_idle();
    assert_eq!(promised.wait(), Err(TaskError::Cancelled));
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

#[test]
fn a_loop_that_is_full_or_has_ended_hands_a_submitted_task_back() {
    let full = ManualLoop::with_clock(EventLoop::builder().max_pending_tasks(1), ManualClock::new()).unwrap();
    full.handle().execute(|| ()).unwrap();
    let refused = full.handle().submit(|| 7).unwrap_err();
    assert_eq!(refused.why, RefusedWhy::Full { limit: 1 });
    assert_eq!(refused.into_task()(), 7);
    let ended = EventLoop::new();
    ended.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
    assert_eq!(ended.submit(|| 7).unwrap_err().why, RefusedWhy::ShutDown);
}

// ---- whose loop it is ----

#[test]
fn a_loop_knows_its_group_and_keeps_neither_it_nor_its_siblings() {
    let group = EventLoopGroup::new(2).unwrap();
    let (first, second) = (group.next(), group.next());
    let parent = first.parent().expect("the group is held");
    assert!(parent.iter().eq(group.iter()));
    drop(parent);
    let end = group.termination();
    let second_end = second.termination();
    drop(second);
    drop(group);
    second_end.wait_timeout(PATIENCE).unwrap().unwrap();
    assert!(first.parent().is_none(), "nobody holds the group any more");
    assert!(!first.is_shutting_down(), "the loop itself is held");
    drop(first);
    end.wait_timeout(PATIENCE).unwrap().unwrap();
}

#[test]
fn a_handle_of_the_group_that_a_loop_gave_is_a_handle_like_any_other() {
    let group = EventLoopGroup::new(1).unwrap();
    let parent = group.next().parent().unwrap();
    drop(group);
    assert_eq!(on(&parent.next(), || 5), 5);
}

#[test]
fn a_channel_and_an_async_tail_know_the_loop_that_they_live_on() {
    let mut embedded = EmbeddedChannel::new(pipeline().serve(|peer: Peer| async move {
        assert!(peer.event_loop().in_event_loop());
        let (reader, writer) = peer.split();
        assert_eq!(reader.event_loop(), writer.event_loop());
        let remind = writer.channel();
        let send = move || remind.write_and_flush(bytes::Bytes::from("a minute is over"));
        drop(writer.event_loop().schedule(Duration::from_secs(60), send).unwrap());
        Err::<(), CloseCause>(writer.closed().await)
    }));
    let channel = embedded.channel().clone();
    assert_eq!(channel.event_loop(), *embedded.event_loop().handle());
    embedded.advance(Duration::from_secs(59));
    assert_eq!(embedded.outbound_bytes(), b"");
    embedded.advance(Duration::from_secs(1));
    assert_eq!(embedded.outbound_bytes(), b"a minute is over");
    drop(embedded);
    assert_eq!(channel.event_loop().execute(|| ()).unwrap_err().why, RefusedWhy::ShutDown);
}

// ---- wake ----

#[test]
fn a_sleeping_loop_that_is_woken_runs_lazy_tasks_and_sees_a_clock_that_was_moved() {
    let clock = ManualClock::new();
    let group = EventLoopGroup::builder().loops(1).clock(clock.clone()).build().unwrap();
    let event_loop = group.next();
    let mut tea = event_loop.schedule(Duration::from_secs(240), || "ready").unwrap();
    on(&event_loop, || ());
    let (done, is_done) = mpsc::channel();
    event_loop.execute_lazy(move || done.send(()).unwrap()).unwrap();
    event_loop.wake();
    is_done.recv_timeout(PATIENCE).unwrap();
    clock.advance(Duration::from_secs(240));
    event_loop.wake();
    assert_eq!(tea.wait(), Ok("ready"));
}

#[test]
fn a_loop_that_is_woken_often_has_one_wake_up_to_see_to() {
    let event_loop = EventLoop::new();
    let release = block(&event_loop);
    (0..10_000).for_each(|_| event_loop.wake());
    assert_eq!(event_loop.figures().tasks_pending, 2, "the task that runs, and one look round");
    drop(release);
    on(&event_loop, || ());
}

#[test]
fn a_wake_up_gives_no_thread_to_a_loop_without_one_and_nothing_to_one_that_has_ended() {
    let event_loop = EventLoop::new();
    event_loop.wake();
    assert!(!event_loop.has_thread());
    on(&event_loop, || ());
    event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
    event_loop.wake();
}

// ---- the end, now ----

/// Closes when it is told to.
struct Telling(Log);

impl Source for Telling {
    fn ready(&mut self, _: Event) {}
    fn shut_down(&mut self) {
        self.0.add("told");
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

#[test]
fn a_loop_that_ends_now_drops_what_it_has_not_begun_and_tells_every_promise() {
    let (event_loop, log) = (EventLoop::new(), Log::default());
    let source = Telling(log.clone());
    on(&event_loop, move || LocalLoop::current().unwrap().register(source).unwrap());
    let release = block(&event_loop);
    let mut submitted: Vec<_> = (0..100).map(|n| event_loop.submit(move || n).unwrap()).collect();
    let mut timer = event_loop.schedule(Duration::ZERO, || 1).unwrap();
    let mut future = event_loop.spawn(async { 2 }).unwrap();
    let mut rebuild = event_loop.rebuild().unwrap();
    let end = event_loop.shutdown_now();
    assert_eq!(
        event_loop.submit(|| 3).unwrap_err().why,
        RefusedWhy::ShutDown,
        "nothing more from this moment"
    );
    assert!(end.wait_timeout(ms(1)).is_none(), "a task that runs comes to its end");
    drop(release);
    end.wait_timeout(PATIENCE).unwrap().unwrap();
    for promised in &mut submitted {
        assert_eq!(promised.wait(), Err(TaskError::Abandoned));
    }
    assert_eq!(timer.wait(), Err(TaskError::Abandoned));
    assert_eq!(future.wait(), Err(TaskError::Abandoned));
    assert_eq!(rebuild.wait().unwrap_err(), TaskError::Abandoned);
    assert_eq!(log.take(), ["told", "dropped"]);
    assert_eq!(
        event_loop.figures().tasks_dropped,
        102,
        "and the two that were on their way to be armed and spawned"
    );
}

#[test]
fn a_task_may_end_its_own_loop_now() {
    let event_loop = EventLoop::new();
    let release = block(&event_loop);
    let inner = event_loop.clone();
    event_loop.execute(move || drop(inner.shutdown_now())).unwrap();
    let mut behind = event_loop.submit(|| ()).unwrap();
    drop(release);
    assert_eq!(behind.wait(), Err(TaskError::Abandoned));
    event_loop.termination().wait_timeout(PATIENCE).unwrap().unwrap();
}

#[test]
fn an_end_now_ends_a_graceful_shutdown_that_takes_too_long() {
    let (event_loop, log) = (EventLoop::new(), Log::default());
    let source = Telling(log.clone()); // never leaves by itself
    on(&event_loop, move || LocalLoop::current().unwrap().register(source).unwrap());
    let graceful = event_loop.shutdown_gracefully(PATIENCE, PATIENCE).unwrap();
    event_loop.shutdown_now().wait_timeout(PATIENCE / 2).unwrap().unwrap();
    assert!(graceful.is_done());
    event_loop.shutdown_now().wait().unwrap(); // again: the same end
}

#[test]
fn a_loop_without_a_thread_and_a_manual_loop_end_now_as_well() {
    let unstarted = EventLoop::new();
    unstarted.shutdown_now().wait_timeout(PATIENCE).unwrap().unwrap();
    assert!(unstarted.is_terminated() && !unstarted.has_thread());
    let mut manual = ManualLoop::new();
    let mut late = manual.handle().submit(|| ()).unwrap();
    let end = manual.handle().shutdown_now();
    manual.run_until_idle();
    assert_eq!(late.wait(), Err(TaskError::Abandoned));
    assert!(end.is_done());
}

#[test]
fn a_task_in_the_race_with_an_end_now_runs_is_dropped_or_is_refused() {
    for _ in 0..100 {
        let event_loop = EventLoop::new();
        let submitter = {
            let event_loop = event_loop.clone();
            std::thread::spawn(move || {
                let mut answered = 0;
                while let Ok(mut promised) = event_loop.submit(|| ()) {
                    let _ = promised.wait(); // hangs if it was lost
                    answered += 1;
                }
                answered
            })
        };
        event_loop.shutdown_now().wait_timeout(PATIENCE).unwrap().unwrap();
        submitter.join().unwrap();
    }
}

#[test]
fn a_group_that_ends_now_ends_all_its_loops_and_replaces_none() {
    let group = EventLoopGroup::new(3).unwrap();
    let mut timers: Vec<_> =
        group.iter().map(|member| member.schedule(Duration::from_secs(3600), || ()).unwrap()).collect();
    group.shutdown_now().wait_timeout(PATIENCE).unwrap().unwrap();
    for timer in &mut timers {
        assert_eq!(timer.wait(), Err(TaskError::Abandoned));
    }
    let figures = group.figures();
    assert_eq!((figures.alive, figures.died, figures.replaced), (0, 0, 0));
}
