//! Loops that give their thread back while nothing lives on them.

use super::*;
use netwright_core::{
    LocalLoop,
    driver::{Event, Source},
};
use std::thread;

/// Asks for suspension and waits until the loop has looked at the request.
fn ask(event_loop: &EventLoop) {
    event_loop.suspend_if_idle();
    event_loop.suspend_if_idle();
}

#[test]
fn an_idle_loop_gives_its_thread_back() {
    let event_loop = EventLoop::new();
    on(&event_loop, || ());
    eventually("the thread is given back", || {
        ask(&event_loop);
        !event_loop.has_thread()
    });
    assert!(!event_loop.is_terminated());
}

#[test]
fn a_task_gives_a_suspended_loop_a_new_thread() {
    let event_loop = EventLoop::new();
    let first = on(&event_loop, || thread::current().id());
    eventually("the thread is given back", || {
        ask(&event_loop);
        !event_loop.has_thread()
    });
    let second = on(&event_loop, || thread::current().id());
    assert_ne!(first, second);
    assert!(event_loop.has_thread());
    event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
}

#[test]
fn a_suspended_loop_can_be_shut_down() {
    let event_loop = EventLoop::new();
    on(&event_loop, || ());
    eventually("the thread is given back", || {
        ask(&event_loop);
        !event_loop.has_thread()
    });
    event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
    assert!(event_loop.is_terminated());
}

#[test]
fn a_loop_with_a_timer_is_not_suspended() {
    let event_loop = EventLoop::new();
    let thread = on(&event_loop, || thread::current().id());
    let timer = event_loop.schedule(Duration::from_secs(3600), || ()).unwrap();
    ask(&event_loop);
    assert_eq!(on(&event_loop, || thread::current().id()), thread);
    assert!(timer.cancel());
    eventually("the thread is given back once the timer is gone", || {
        ask(&event_loop);
        !event_loop.has_thread()
    });
}

#[test]
fn a_loop_with_a_source_is_not_suspended() {
    struct Quiet;
    impl Source for Quiet {
        fn ready(&mut self, _: Event) {}
        fn shut_down(&mut self) {}
    }
    let event_loop = EventLoop::new();
    let (thread, token) =
        on(&event_loop, || (thread::current().id(), LocalLoop::current().unwrap().register(Quiet).unwrap()));
    ask(&event_loop);
    assert_eq!(on(&event_loop, || thread::current().id()), thread);
    assert_eq!(event_loop.figures().sources, 1);
    assert!(on(&event_loop, move || LocalLoop::current().unwrap().deregister(token)));
    eventually("the thread is given back once the source is gone", || {
        ask(&event_loop);
        !event_loop.has_thread()
    });
}

#[test]
fn no_task_is_lost_while_a_loop_is_suspended_again_and_again() {
    let event_loop = EventLoop::new();
    for n in 0..500 {
        event_loop.suspend_if_idle();
        assert_eq!(on(&event_loop, move || n), n);
    }
}

#[test]
fn a_loop_that_is_leaving_keeps_its_thread_to_the_end() {
    let event_loop = EventLoop::new();
    let thread = on(&event_loop, || thread::current().id());
    event_loop.shutdown_gracefully(PATIENCE, PATIENCE).unwrap();
    // Without a thread nobody would end it when its time has come.
    for _ in 0..100 {
        ask(&event_loop);
        assert_eq!(on(&event_loop, || thread::current().id()), thread);
    }
    event_loop.shutdown_now();
    assert_eq!(event_loop.termination().wait_timeout(PATIENCE).map(|end| end.is_ok()), Some(true));
}
