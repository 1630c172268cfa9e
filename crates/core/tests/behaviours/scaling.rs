//! Groups whose number of active loops follows the load.
//!
//! The clock that ends a window is moved by hand, and the choice after it takes the sample; the timer that samples in
//! real time would need an hour.

use super::*;
use netwright_core::{
    AutoScale, AutoScaleBuilder, EventLoopGroup, LocalLoop, ManualClock,
    driver::{Driver, DriverSeed, DriverWaker, Event, Events, ParkSeed, Source},
};
use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

const WINDOW: Duration = Duration::from_secs(3600);

struct Scaled {
    group: EventLoopGroup,
    scale: AutoScale,
    clock: ManualClock,
    asleep: Vec<Arc<AtomicBool>>,
}

impl Scaled {
    /// A group whose loops all have a thread.
    fn new(loops: usize, settings: impl FnOnce(AutoScaleBuilder) -> AutoScaleBuilder) -> Self {
        let clock = ManualClock::new();
        let builder = AutoScale::builder().window(WINDOW).patience(1).clock(clock.clone());
        let scale = settings(builder).build().unwrap();
        let asleep: Vec<Arc<AtomicBool>> = (0..loops).map(|_| Arc::default()).collect();
        let flags = asleep.clone();
        let group = EventLoopGroup::builder()
            .loops(loops)
            .driver(move |index| {
                Ok(Watched {
                    inner: Box::new(ParkSeed::new()) as Box<dyn DriverSeed>,
                    asleep: flags[index].clone(),
                })
            })
            .chooser(scale.clone())
            .build()
            .unwrap();
        for event_loop in &group {
            on(&event_loop, || ());
        }
        Self { group, scale, clock, asleep }
    }

    fn nth(&self, index: usize) -> EventLoop {
        self.group.iter().nth(index).unwrap()
    }

    /// A window passes in which no loop has anything to do. Returns how many loops are active after it.
    fn idle_window(&self) -> usize {
        self.window_with_busy(&[])
    }

    /// A window passes in which only these loops are at work.
    fn window_with_busy(&self, busy: &[usize]) -> usize {
        for (index, asleep) in self.asleep.iter().enumerate() {
            eventually("a loop without work sleeps", || {
                busy.contains(&index) || asleep.load(Ordering::Acquire) || !self.nth(index).has_thread()
            });
        }
        self.clock.advance(WINDOW);
        self.group.next();
        self.scale.figures().active
    }

    fn has_thread(&self) -> Vec<bool> {
        self.group.iter().map(|event_loop| event_loop.has_thread()).collect()
    }

    /// The indices of the loops that a number of choices hand out.
    fn handed_out(&self) -> Vec<usize> {
        let chosen: Vec<EventLoop> = (0..3 * self.group.len()).map(|_| self.group.next()).collect();
        (0..self.group.len()).filter(|&index| chosen.contains(&self.nth(index))).collect()
    }
}

/// The parking driver or its seed, and whether its loop sleeps.
struct Watched<T> {
    inner: T,
    asleep: Arc<AtomicBool>,
}

impl DriverSeed for Watched<Box<dyn DriverSeed>> {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        self.inner.waker()
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(Watched { inner: self.inner.start()?, asleep: self.asleep }))
    }
}

impl Driver for Watched<Box<dyn Driver>> {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()> {
        self.asleep.store(timeout != Some(Duration::ZERO), Ordering::Release);
        let polled = self.inner.poll(timeout, events);
        self.asleep.store(false, Ordering::Release);
        polled
    }

    fn rebuild(&mut self) -> io::Result<usize> {
        self.inner.rebuild()
    }

    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
        let Self { inner, asleep } = *self;
        match inner.suspend() {
            Ok(inner) => Ok(Box::new(Watched { inner, asleep })),
            Err(inner) => Err(Box::new(Watched { inner, asleep })),
        }
    }
}

struct Quiet;

impl Source for Quiet {
    fn ready(&mut self, _: Event) {}

    fn shut_down(&mut self) {
        // Nothing to close: the loop drops what is left when it ends.
    }
}

#[test]
fn an_idle_group_shrinks_to_its_minimum_and_the_loops_beyond_it_give_their_threads_back() {
    let scaled = Scaled::new(4, |scale| scale.min(2));
    let active = [(); 4].map(|()| scaled.idle_window());
    assert_eq!(active, [3, 2, 2, 2]);
    eventually("the loops beyond the minimum have no thread", || {
        scaled.has_thread() == [true, true, false, false]
    });
    assert_eq!(scaled.handed_out(), [0, 1]);
}

#[test]
fn only_active_loops_are_handed_out_and_each_in_its_turn() {
    let scaled = Scaled::new(4, |scale| scale.max(3));
    assert_eq!(scaled.handed_out(), [0, 1, 2]);
    scaled.idle_window();
    assert_eq!(scaled.handed_out(), [0, 1]);
    let (a, b, c) = (scaled.group.next(), scaled.group.next(), scaled.group.next());
    assert!(a != b && a == c);
    scaled.idle_window();
    assert_eq!(scaled.handed_out(), [0]);
}

#[test]
fn a_loop_that_hosts_a_source_stays_active_until_the_source_is_gone() {
    let scaled = Scaled::new(4, |scale| scale.ramp_down_max(4));
    let host = scaled.nth(2);
    let token = on(&host, || LocalLoop::current().unwrap().register(Quiet).unwrap());
    assert_eq!(scaled.idle_window(), 2);
    assert_eq!(scaled.handed_out(), [0, 2]);
    assert!(host.has_thread());
    assert!(on(&host, move || LocalLoop::current().unwrap().deregister(token)));
    assert_eq!(scaled.idle_window(), 1);
    eventually("the loop has no thread", || !host.has_thread());
}

#[test]
fn a_loop_that_is_taken_out_with_a_timer_pending_keeps_its_thread_until_the_timer_is_gone() {
    let scaled = Scaled::new(2, |scale| scale);
    let last = scaled.nth(1);
    let timer = last.schedule(WINDOW, || ()).unwrap();
    assert_eq!(scaled.idle_window(), 1);
    on(&last, || ()); // whatever was asked of it before this, it has done by now
    assert!(last.has_thread());
    assert!(timer.cancel());
    on(&last, || ());
    assert_eq!(scaled.idle_window(), 1);
    eventually("the loop has no thread", || !last.has_thread());
}

#[test]
fn a_busy_group_grows_again_up_to_its_maximum_and_a_task_gives_the_newcomer_a_thread() {
    let scaled = Scaled::new(3, |scale| scale.max(2));
    assert_eq!(scaled.idle_window(), 1);
    eventually("only the first loop has a thread", || scaled.has_thread() == [true, false, false]);

    let release = block(&scaled.nth(0));
    scaled.window_with_busy(&[0]); // the sample that finds it at work; the next one finds it at the same work
    assert_eq!(scaled.window_with_busy(&[0]), 2);
    assert_eq!(scaled.scale.figures().utilisation, [1.0, 0.0, 0.0]);
    assert_eq!(scaled.handed_out(), [0, 1]);
    on(&scaled.nth(1), || ());
    assert_eq!(scaled.has_thread(), [true, true, false]);

    let release_other = block(&scaled.nth(1));
    let active = [(); 4].map(|()| scaled.window_with_busy(&[0, 1]));
    assert_eq!(active[1..], [2, 2, 2]);
    assert_eq!(scaled.scale.figures().utilisation, [1.0, 1.0, 0.0]);
    drop((release, release_other));
}

#[test]
fn an_idle_group_shrinks_although_nobody_asks_it_for_a_loop() {
    let scale = AutoScale::builder().window(ms(1)).patience(1).build().unwrap();
    let group = EventLoopGroup::builder().loops(3).chooser(scale.clone()).build().unwrap();
    for event_loop in &group {
        on(&event_loop, || ());
    }
    eventually("one loop is active, and no other has a thread", || {
        scale.figures().active == 1 && group.iter().filter(|event_loop| event_loop.has_thread()).count() == 1
    });
    assert!(group.iter().next().unwrap().has_thread());
}

#[test]
fn a_group_that_scales_ends_with_its_last_handle_although_its_sampling_is_under_way() {
    for window in [ms(1), WINDOW] {
        let scale = AutoScale::builder().window(window).build().unwrap();
        let group = EventLoopGroup::builder().loops(2).chooser(scale.clone()).build().unwrap();
        on(&group.next(), || ());
        let end = group.termination();
        drop(group);
        eventually("all loops end", || end.is_done());
    }
}

#[test]
fn the_sampling_stops_when_the_group_is_gone_although_its_first_loop_lives_on() {
    let scale = AutoScale::builder().window(ms(1)).build().unwrap();
    let group = EventLoopGroup::builder().loops(2).chooser(scale).build().unwrap();
    let first = group.iter().next().unwrap().clone();
    drop(group);
    eventually("no timer keeps the first loop from being suspended", || {
        first.suspend_if_idle();
        !first.has_thread()
    });
    on(&first, || ());
}

#[test]
fn a_group_that_cannot_be_scaled_as_asked_is_not_built() {
    let build = |scale: &AutoScale| EventLoopGroup::builder().loops(2).chooser(scale.clone()).build();
    let too_many = AutoScale::builder().min(3).build().unwrap();
    assert_eq!(
        build(&too_many).unwrap_err().to_string(),
        "min is 3, but must be at most the number of loops, which is 2"
    );
    let scale = AutoScale::new();
    let _group = build(&scale).unwrap();
    assert_eq!(
        build(&scale).unwrap_err().to_string(),
        "chooser is an AutoScale that serves a group already, but must be a new AutoScale for each group"
    );
    let refused = AutoScale::builder().min(2).max(1).build().unwrap_err();
    assert_eq!((refused.argument, refused.value.as_str()), ("min", "2"));
}

#[test]
fn a_weak_handle_gives_the_loop_back_only_as_long_as_another_handle_exists() {
    let event_loop = EventLoop::new();
    let weak = event_loop.downgrade();
    let again = weak.upgrade().unwrap();
    drop(event_loop);
    on(&again, || ());
    let end = again.termination();
    drop(again);
    assert!(weak.upgrade().is_none());
    eventually("the loop ends", || end.is_done());
}
