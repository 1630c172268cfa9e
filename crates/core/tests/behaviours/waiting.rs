//! How loops wait: asleep, looking out for a while, or looking out for ever. What ends a wait is the same for all.

use super::*;
use netwright_core::{
    AutoScale, EventLoopBuilder, EventLoopGroup, LocalLoop, ManualClock, ManualLoop, WaitStrategy,
    driver::{Driver, DriverSeed, DriverWaker, Event, Events, ParkSeed, Ready, Source, Token},
};
use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

/// What a driver saw, and what it is to bring.
#[derive(Default)]
struct Script {
    /// Polls that may wait, and polls that may not.
    waiting: AtomicUsize,
    looking: AtomicUsize,
    /// So many polls are ended by a signal.
    interrupts: AtomicUsize,
    fail: AtomicUsize,
    ready: Mutex<Vec<u64>>,
    rebuilt: AtomicUsize,
}

struct Counting {
    script: Arc<Script>,
    park: Box<dyn Driver>,
}

struct CountingSeed(Arc<Script>, ParkSeed);

impl DriverSeed for CountingSeed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        self.1.waker()
    }
    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(Counting { script: self.0, park: Box::new(self.1).start()? }))
    }
}

/// Takes one off, if there is one.
fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

impl Driver for Counting {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()> {
        let script = &self.script;
        let kind = if timeout == Some(Duration::ZERO) { &script.looking } else { &script.waiting };
        kind.fetch_add(1, Ordering::Relaxed);
        if take_one(&script.interrupts) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if take_one(&script.fail) {
            return Err(io::Error::other("on purpose: poll failed"));
        }
        for token in script.ready.lock().unwrap().drain(..) {
            events.push(Event { token: Token::from_u64(token), ready: Ready::READ });
        }
        let timeout = if events.is_empty() { timeout } else { Some(Duration::ZERO) };
        self.park.poll(timeout, events)
    }
    fn rebuild(&mut self) -> io::Result<usize> {
        self.script.rebuilt.fetch_add(1, Ordering::Relaxed);
        Ok(0)
    }
    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
        Err(self)
    }
}

fn counting(wait: WaitStrategy) -> (EventLoop, Arc<Script>) {
    let script = Arc::new(Script::default());
    let seed = CountingSeed(script.clone(), ParkSeed::new());
    (EventLoop::builder().driver(seed).wait_strategy(wait).build().unwrap(), script)
}

/// Long enough that no test sees it end.
const LONG: WaitStrategy = WaitStrategy::SpinThenBlock(Duration::from_secs(600));
const SPINS: [WaitStrategy; 2] = [WaitStrategy::Spin, LONG];
const ALL: [WaitStrategy; 4] =
    [WaitStrategy::Block, WaitStrategy::SpinThenBlock(Duration::from_micros(200)), LONG, WaitStrategy::Spin];

struct Telling(mpsc::Sender<Ready>);

impl Source for Telling {
    fn ready(&mut self, event: Event) {
        self.0.send(event.ready).unwrap();
    }
    fn shut_down(&mut self) {} // stays until the shutdown's timeout
}

#[test]
fn tasks_timers_events_and_the_end_reach_a_loop_however_it_waits() {
    for wait in ALL {
        let (event_loop, script) = counting(wait);
        let (send, told) = mpsc::channel();
        let token = on(&event_loop, move || LocalLoop::current().unwrap().register(Telling(send)).unwrap());
        for round in 0..50 {
            assert_eq!(event_loop.submit(move || round).unwrap().wait(), Ok(round), "{wait:?}");
        }
        let begun = std::time::Instant::now();
        event_loop.schedule(ms(2), || ()).unwrap().wait().unwrap();
        assert!(begun.elapsed() >= ms(2), "{wait:?}: never early");
        script.ready.lock().unwrap().push(token.to_u64());
        event_loop.wake();
        assert_eq!(told.recv_timeout(PATIENCE), Ok(Ready::READ), "{wait:?}");
        let end = event_loop.shutdown_gracefully(ms(1), ms(5)).unwrap();
        end.wait_timeout(PATIENCE).expect("it ends").unwrap();
    }
}

#[test]
fn a_loop_that_spins_never_sleeps_and_is_never_sent_a_wake_up() {
    for wait in SPINS {
        let (event_loop, script) = counting(wait);
        for _ in 0..100 {
            on(&event_loop, || ());
        }
        let before = script.looking.load(Ordering::Relaxed);
        eventually("it goes on looking", || script.looking.load(Ordering::Relaxed) > before + 1000);
        on(&event_loop, || ());
        let figures = event_loop.figures();
        assert_eq!((figures.wakeups_sent, script.waiting.load(Ordering::Relaxed)), (0, 0), "{wait:?}");
        assert_eq!(figures.premature_wakeups, 0, "{wait:?}");
    }
}

#[test]
fn a_spinning_loop_sees_events_that_nobody_wakes_it_for() {
    for wait in SPINS {
        let (event_loop, script) = counting(wait);
        let (send, told) = mpsc::channel();
        let token = on(&event_loop, move || LocalLoop::current().unwrap().register(Telling(send)).unwrap());
        script.ready.lock().unwrap().push(token.to_u64());
        assert_eq!(told.recv_timeout(PATIENCE), Ok(Ready::READ), "{wait:?}");
    }
}

#[test]
fn a_loop_that_spins_for_a_while_sleeps_afterwards_and_is_woken_again() {
    let (event_loop, script) = counting(WaitStrategy::SpinThenBlock(Duration::from_micros(100)));
    for _ in 0..20 {
        let slept = script.waiting.load(Ordering::Relaxed);
        on(&event_loop, || ());
        eventually("it sleeps", || script.waiting.load(Ordering::Relaxed) > slept);
    }
    eventually("somebody had to wake it", || {
        on(&event_loop, || ());
        event_loop.figures().wakeups_sent > 0
    });
    assert!(script.looking.load(Ordering::Relaxed) > 20, "and it has looked before");
    assert_eq!(event_loop.figures().premature_wakeups, 0);
    let (blocking, script) = counting(WaitStrategy::SpinThenBlock(Duration::ZERO));
    on(&blocking, || ());
    eventually("no time to look is no look", || script.waiting.load(Ordering::Relaxed) > 0);
}

#[test]
fn signals_and_failures_are_the_same_to_a_loop_that_spins() {
    for wait in SPINS {
        let (event_loop, script) = counting(wait);
        script.interrupts.store(1000, Ordering::Relaxed);
        on(&event_loop, || ());
        eventually("the signals are over", || script.interrupts.load(Ordering::Relaxed) == 0);
        on(&event_loop, || ());
        let figures = event_loop.figures();
        assert_eq!(
            (figures.premature_wakeups, figures.poll_failures, figures.rebuilds),
            (0, 0, 0),
            "{wait:?}"
        );
        script.fail.store(3, Ordering::Relaxed);
        eventually("it is tried again", || script.rebuilt.load(Ordering::Relaxed) == 3);
        on(&event_loop, || ());
        assert_eq!(event_loop.figures().poll_failures, 3, "{wait:?}");
    }
}

#[test]
fn a_spinning_loop_is_suspended_rebuilt_and_ended_now_as_any_other() {
    for wait in SPINS {
        let event_loop = EventLoop::builder().wait_strategy(wait).build().unwrap();
        on(&event_loop, || ());
        eventually("the thread is given back", || {
            event_loop.suspend_if_idle();
            !event_loop.has_thread()
        });
        on(&event_loop, || ());
        event_loop.rebuild().unwrap().wait().unwrap().unwrap();
        event_loop.shutdown_now().wait_timeout(PATIENCE).expect("it ends").unwrap();
    }
    let event_loop = EventLoop::builder().wait_strategy(WaitStrategy::Spin).build().unwrap();
    let end = event_loop.termination();
    on(&event_loop, || ());
    drop(event_loop);
    end.wait_timeout(PATIENCE).expect("it ends with its last handle").unwrap();
}

#[test]
fn a_loop_driven_by_hand_waits_no_longer_than_it_is_told_to_also_by_a_clock_that_stands_still() {
    let spin = |builder: EventLoopBuilder| builder.wait_strategy(WaitStrategy::Spin);
    let mut manual = ManualLoop::with_clock(spin(EventLoop::builder()), ManualClock::new()).unwrap();
    assert!(!manual.run_waiting(ms(2)));
    let mut embedded = ManualLoop::embedded(spin(EventLoop::builder())).unwrap();
    let begun = std::time::Instant::now();
    assert!(!embedded.run_waiting(ms(2)));
    assert!(begun.elapsed() >= ms(2));
    embedded.handle().execute(|| ()).unwrap();
    assert!(embedded.run_waiting(PATIENCE));
}

#[test]
fn a_spinning_loop_that_has_nothing_to_do_does_not_count_as_busy() {
    let clock = ManualClock::new();
    let scale = AutoScale::builder().window(ms(1000)).patience(1).clock(clock.clone()).build().unwrap();
    let builder = EventLoopGroup::builder().loops(2).chooser(scale.clone()).wait_strategy(WaitStrategy::Spin);
    let group = builder.build().unwrap();
    for event_loop in &group {
        on(&event_loop, || ());
    }
    eventually("idle loops are idle", || {
        let before: Vec<_> = group.iter().map(|event_loop| event_loop.figures().time_polling).collect();
        for (event_loop, before) in group.iter().zip(before) {
            eventually("time is counted as it passes", || {
                !event_loop.has_thread() || event_loop.figures().time_polling > before
            });
        }
        clock.advance(ms(1000));
        drop(group.next());
        scale.figures().utilisation.iter().all(|share| *share < 0.25)
    });
}
