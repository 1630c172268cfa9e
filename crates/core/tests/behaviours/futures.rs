//! Futures on loops.

use super::*;
use netwright_core::{ManualLoop, RefusedWhy, TaskError, promise};
use std::{
    future::poll_fn,
    rc::Rc,
    task::{Poll, Waker},
    thread,
};

#[test]
fn a_future_runs_on_its_loop_and_its_output_can_be_awaited_elsewhere() {
    let event_loop = EventLoop::new();
    let expected = event_loop.clone();
    let mut joined = event_loop.spawn(async move { EventLoop::current() == Some(expected) }).unwrap();
    assert_eq!(joined.wait(), Ok(true));
}

#[test]
fn a_future_that_is_not_send_runs_where_it_was_spawned() {
    let event_loop = EventLoop::new();
    let sum = on(&event_loop, || {
        let numbers = Rc::new(vec![1, 2, 3]);
        EventLoop::current().unwrap().spawn_local(async move { numbers.iter().sum::<i32>() }).unwrap()
    });
    let mut sum = sum;
    assert_eq!(sum.wait(), Ok(6));
    let refused = event_loop.spawn_local(async {}).unwrap_err();
    assert_eq!(refused.why, RefusedWhy::OffLoop);
}

#[test]
fn a_waker_works_from_any_thread_and_several_wakes_before_a_poll_are_one() {
    let mut manual = ManualLoop::new();
    let stored = Arc::new(Mutex::new(None::<Waker>));
    let (polls, inner) = (Arc::new(Mutex::new(0)), stored.clone());
    let counted = polls.clone();
    let done = manual
        .handle()
        .spawn(poll_fn(move |cx| {
            *inner.lock().unwrap() = Some(cx.waker().clone());
            let mut polls = counted.lock().unwrap();
            *polls += 1;
            if *polls == 2 { Poll::Ready(()) } else { Poll::Pending }
        }))
        .unwrap();
    manual.run_until_idle();
    let waker = stored.lock().unwrap().take().unwrap();
    thread::spawn(move || {
        waker.wake_by_ref();
        waker.wake();
    })
    .join()
    .unwrap();
    manual.run_until_idle();
    assert!(done.is_done());
    assert_eq!(*polls.lock().unwrap(), 2);
}

#[test]
fn a_future_that_wakes_itself_does_not_starve_its_neighbours() {
    let mut manual = ManualLoop::new();
    let log = Log::default();
    let selfish = manual
        .handle()
        .spawn(poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }))
        .unwrap();
    manual.handle().execute(log.writer("neighbour")).unwrap();
    manual.run_once();
    assert_eq!(log.take(), ["neighbour"]);
    assert!(selfish.abort());
    manual.run_until_idle();
    assert_eq!(manual.handle().figures().futures, 0);
}

#[test]
fn a_future_that_wakes_itself_cannot_keep_a_loop_from_ending() {
    let mut manual = ManualLoop::new();
    let mut endless = manual
        .handle()
        .spawn(poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }))
        .unwrap();
    manual.run_once();
    drop(manual);
    assert_eq!(endless.wait(), Err(TaskError::Abandoned));
}

#[test]
fn an_aborted_future_is_dropped_and_its_handle_says_cancelled() {
    let event_loop = EventLoop::new();
    let value = Arc::new(());
    let held = value.clone();
    let mut joined = event_loop
        .spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        })
        .unwrap();
    assert!(joined.abort());
    assert!(!joined.abort(), "aborted before");
    assert_eq!(joined.wait(), Err(TaskError::Cancelled));
    on(&event_loop, || ());
    eventually("the future is dropped", || Arc::strong_count(&value) == 1);
}

#[test]
fn a_panicking_future_tells_its_handle_and_leaves_the_loop_healthy() {
    quiet_panics();
    let event_loop = EventLoop::new();
    let mut joined = event_loop.spawn(async { panic!("on purpose") }).unwrap();
    assert_eq!(joined.wait(), Err::<(), _>(TaskError::Panicked("on purpose".to_owned())));
    assert_eq!(on(&event_loop, || 7), 7);
    assert_eq!(event_loop.figures().panics, 1);
}

#[test]
fn a_future_that_is_still_waiting_when_its_loop_ends_is_dropped_there() {
    struct DroppedOn(mpsc::Sender<Option<String>>);
    impl Drop for DroppedOn {
        fn drop(&mut self) {
            let _ = self.0.send(thread::current().name().map(str::to_owned));
        }
    }
    let event_loop = EventLoop::builder().name("home").build().unwrap();
    let (send, receive) = mpsc::channel();
    let guard = DroppedOn(send);
    let mut joined = event_loop
        .spawn(async move {
            std::future::pending::<()>().await;
            drop(guard);
        })
        .unwrap();
    on(&event_loop, || ());
    event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
    assert_eq!(receive.recv_timeout(PATIENCE).unwrap().as_deref(), Some("home"));
    assert_eq!(joined.wait(), Err(TaskError::Abandoned));
}

#[test]
fn a_promise_completed_elsewhere_wakes_the_future_that_awaits_it() {
    let event_loop = EventLoop::new();
    let (promise, promised) = promise::<u32, TaskError>();
    let mut joined = event_loop.spawn(async move { promised.await.map(|n| n + 1) }).unwrap();
    on(&event_loop, || ());
    promise.succeed(41);
    assert_eq!(joined.wait(), Ok(Ok(42)));
}

#[test]
fn an_abort_overtaking_the_arrival_of_its_future_still_ends_it() {
    let mut manual = ManualLoop::new();
    let log = Log::default();
    let run = log.writer("ran");
    let joined = manual.handle().spawn(async move { run() }).unwrap();
    assert!(joined.abort());
    manual.run_until_idle();
    assert_eq!(log.take().len(), 0);
    assert_eq!(manual.handle().figures().futures, 0);
}
