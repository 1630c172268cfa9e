//! Whoever listens to the log may panic: what was to be logged is lost, and nothing else.
//!
//! Alone in its process: the subscriber is everybody's.
#![cfg(not(loom))]

use netwright_core::{
    EventLoop, EventLoopGroup, LoopError, PromiseError, Promised, Workers,
    driver::{Driver, DriverSeed, DriverWaker, Events, ParkSeed},
    promise,
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tracing::{
    Event, Metadata, Subscriber,
    span::{Attributes, Id, Record},
};

const PATIENCE: Duration = Duration::from_secs(60);

static TOLD: AtomicUsize = AtomicUsize::new(0);

struct Panics;

impl Subscriber for Panics {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn event(&self, _: &Event<'_>) {
        TOLD.fetch_add(1, Ordering::Relaxed);
        std::panic::resume_unwind(Box::new("the subscriber panics")); // without the hook: the output stays readable
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn panic_quietly() {
    std::panic::resume_unwind(Box::new("on purpose"));
}

/// Fails its first poll, and then parks.
struct FailsOnce(Box<dyn Driver>, Arc<AtomicBool>);

struct FailsOnceSeed(ParkSeed, Arc<AtomicBool>);

impl DriverSeed for FailsOnceSeed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        self.0.waker()
    }
    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        let Self(park, failed) = *self;
        Ok(Box::new(FailsOnce(Box::new(park).start()?, failed)))
    }
}

impl Driver for FailsOnce {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()> {
        if !self.1.swap(true, Ordering::Relaxed) {
            return Err(io::Error::other("on purpose"));
        }
        self.0.poll(timeout, events)
    }
    fn rebuild(&mut self) -> io::Result<usize> {
        self.0.rebuild()
    }
    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
        Err(self)
    }
}

fn answers(event_loop: &EventLoop) -> bool {
    let mut answer = event_loop.spawn(async { 7 }).unwrap();
    let (promise, mut promised) = promise::<i32, PromiseError>();
    event_loop.execute(move || promise.succeed(7)).unwrap();
    answer.wait() == Ok(7) && promised.wait() == Ok(7)
}

#[test]
fn a_subscriber_that_panics_ends_no_loop_no_worker_and_no_promise() {
    tracing::subscriber::set_global_default(Panics).unwrap();

    let event_loop = EventLoop::new();
    event_loop.execute(panic_quietly).unwrap();
    let _ = event_loop.schedule(Duration::ZERO, panic_quietly).unwrap().wait();
    let _ = event_loop.spawn(async { panic_quietly() }).unwrap().wait();
    assert!(answers(&event_loop), "a loop that has contained panics goes on");
    assert_eq!(event_loop.figures().panics, 3);

    let failed = Arc::new(AtomicBool::new(false));
    let failing = EventLoop::builder().driver(FailsOnceSeed(ParkSeed::new(), failed)).build().unwrap();
    assert!(answers(&failing), "a loop whose driver has failed goes on");

    let group = EventLoopGroup::builder().loops(2).chooser(|_: &[EventLoop]| {
        panic_quietly();
        0
    });
    assert!(answers(&group.build().unwrap().next()), "a group whose chooser panics goes on");

    let workers = Workers::new(1).unwrap();
    workers.execute(panic_quietly).unwrap();
    assert_eq!(workers.submit(|| 7).unwrap().wait(), Ok(7));

    let told = Promised::<u32>::ready(Ok(1));
    told.listen(|_| panic_quietly());

    for event_loop in [event_loop, failing] {
        let end = event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
        assert!(matches!(end.wait_timeout(PATIENCE), Some(Ok(()))));
    }

    // A loop that dies, and says so.
    struct Stillborn(ParkSeed);
    impl DriverSeed for Stillborn {
        fn waker(&self) -> Arc<dyn DriverWaker> {
            self.0.waker()
        }
        fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
            Err(io::Error::other("on purpose"))
        }
    }
    let dead = EventLoop::builder().driver(Stillborn(ParkSeed::new())).build().unwrap();
    let _ = dead.execute(|| ());
    let end = dead.termination().wait_timeout(PATIENCE);
    assert!(matches!(end, Some(Err(LoopError::Start(_)))), "{end:?}");

    assert!(TOLD.load(Ordering::Relaxed) >= 6, "the subscriber was asked");
}
