//! What a loop may allocate: nothing while idle, one box for each task, nothing to wake a future.
#![cfg(not(loom))]

use netwright_core::{EventLoop, LocalLoop, ManualLoop};
use netwright_testkit::{CountingAllocator, allocations_during};
use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const TASKS: u64 = 10_000;

#[test]
fn an_idle_turn_allocates_nothing() {
    let mut manual = ManualLoop::new();
    let _timer = manual.handle().schedule(Duration::from_secs(60), || ()).unwrap();
    let _tail = manual.handle().after_every_iteration(|| ()).unwrap();
    manual.run_once();
    manual.run_once();
    let (allocations, ()) = allocations_during(|| {
        for _ in 0..1000 {
            manual.run_once();
        }
    });
    assert_eq!(allocations, 0);
}

#[test]
fn a_task_from_another_thread_costs_its_box_and_nothing_else() {
    let mut manual = ManualLoop::new();
    let value = Arc::new(());
    let mut run = || {
        for _ in 0..TASKS / 500 {
            for _ in 0..500 {
                let value = value.clone();
                // Outside `enter` this thread is any other thread.
                manual.handle().execute(move || drop(value)).unwrap();
            }
            while manual.run_once() {}
        }
    };
    run(); // fills what grows once
    let (allocations, ()) = allocations_during(run);
    assert_eq!(allocations, TASKS);
}

#[test]
fn a_task_on_the_loop_costs_its_box_and_nothing_else() {
    fn again(left: u64, value: Arc<()>) {
        if left > 0 {
            EventLoop::current().unwrap().execute_local(move || again(left - 1, value)).unwrap();
        }
    }
    let mut manual = ManualLoop::new();
    let mut run = || {
        manual.enter(|| again(TASKS, Arc::new(())));
        while manual.run_once() {}
    };
    run();
    let (allocations, ()) = allocations_during(run);
    assert!(allocations <= TASKS + 1, "{allocations} for {TASKS} tasks");
}

#[test]
fn waking_and_polling_a_future_allocates_nothing() {
    let mut manual = ManualLoop::new();
    let _endless = manual
        .handle()
        .spawn(poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }))
        .unwrap();
    manual.run_once();
    manual.run_once();
    let (allocations, _) = allocations_during(|| {
        for _ in 0..1000 {
            manual.run_once();
        }
    });
    assert_eq!(allocations, 0);
}

#[test]
fn arming_and_cancelling_a_timer_reuses_its_place_in_the_wheel() {
    let mut manual = ManualLoop::new();
    let (allocations, ()) = manual.enter(|| {
        let local = LocalLoop::current().unwrap();
        let cycle = || assert!(local.schedule(Duration::from_secs(1), || ()).unwrap().cancel());
        cycle();
        allocations_during(|| (0..1000).for_each(|_| cycle()))
    });
    assert!(allocations <= 3 * 1000, "promise, ticket and task: {allocations}");
}
