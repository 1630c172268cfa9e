//! The driver contract, with drivers that misbehave on purpose.

use super::*;
use netwright_core::{
    BuildError, EventLoopGroup, LocalLoop, LoopError, ManualClock, ManualLoop, RefusedWhy,
    driver::{Driver, DriverSeed, DriverWaker, Event, Events, ParkSeed, Ready, Source, Token},
};
use std::{
    io,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// What the test tells the driver, and what the driver tells the test.
#[derive(Default)]
struct Script {
    /// Return from every poll at once and with nothing.
    spin: AtomicBool,
    fail_poll: AtomicBool,
    keep_failing: AtomicBool,
    /// So many polls are ended by a signal.
    interrupts: AtomicUsize,
    polls: AtomicUsize,
    fail_rebuild: AtomicBool,
    panic: AtomicBool,
    ready: Mutex<Vec<u64>>,
    rebuilt: AtomicUsize,
}

/// A parking driver with a script. Registrations are the tokens that it was told to report.
struct Scripted {
    script: Arc<Script>,
    park: Box<dyn Driver>,
    registered: Vec<u64>,
}

struct ScriptedSeed {
    script: Arc<Script>,
    park: ParkSeed,
}

fn scripted(script: &Arc<Script>) -> ScriptedSeed {
    ScriptedSeed { script: script.clone(), park: ParkSeed::new() }
}

impl DriverSeed for ScriptedSeed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        self.park.waker()
    }
    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        let park = Box::new(self.park).start()?;
        Ok(Box::new(Scripted { script: self.script, park, registered: Vec::new() }))
    }
}

impl Driver for Scripted {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()> {
        let script = &self.script;
        assert!(!script.panic.load(Ordering::Relaxed), "on purpose: the driver panics");
        script.polls.fetch_add(1, Ordering::Relaxed);
        let left = script.interrupts.load(Ordering::Relaxed);
        if left > 0 {
            script.interrupts.store(left - 1, Ordering::Relaxed);
            return Err(io::ErrorKind::Interrupted.into());
        }
        if script.fail_poll.swap(false, Ordering::Relaxed) || script.keep_failing.load(Ordering::Relaxed) {
            return Err(io::Error::other("on purpose: poll failed"));
        }
        for token in script.ready.lock().unwrap().drain(..) {
            self.registered.push(token);
            events.push(Event { token: Token::from_u64(token), ready: Ready::READ });
        }
        let timeout = if script.spin.load(Ordering::Relaxed) { Some(Duration::ZERO) } else { timeout };
        let timeout = if events.is_empty() { timeout } else { Some(Duration::ZERO) };
        self.park.poll(timeout, events)
    }

    fn rebuild(&mut self) -> io::Result<usize> {
        if self.script.fail_rebuild.load(Ordering::Relaxed) {
            return Err(io::Error::other("on purpose: rebuild failed"));
        }
        self.script.spin.store(false, Ordering::Relaxed);
        self.script.rebuilt.fetch_add(1, Ordering::Relaxed);
        // After a rebuild everything counts as new.
        self.script.ready.lock().unwrap().append(&mut self.registered);
        Ok(self.script.ready.lock().unwrap().len())
    }

    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
        Err(self)
    }
}

struct Recorder(Log, &'static str);

impl Source for Recorder {
    fn ready(&mut self, event: Event) {
        self.0.add(format!("{} {:?}", self.1, event.ready));
    }
    fn shut_down(&mut self) {
        self.0.add(format!("{} closes", self.1));
    }
}

#[test]
fn a_driver_that_wakes_up_for_nothing_is_rebuilt_and_keeps_its_registrations() {
    let (script, log) = (Arc::new(Script::default()), Log::default());
    let event_loop = EventLoop::builder().driver(scripted(&script)).rebuild_after(512).build().unwrap();
    let recorder = Recorder(log.clone(), "source");
    let token = on(&event_loop, move || LocalLoop::current().unwrap().register(recorder).unwrap());
    script.ready.lock().unwrap().push(token.to_u64());
    on(&event_loop, || ()); // a turn, so that the driver knows the registration
    eventually("the first event", || !log.take().is_empty());

    script.spin.store(true, Ordering::Relaxed);
    on(&event_loop, || ());
    eventually("the rebuild", || script.rebuilt.load(Ordering::Relaxed) == 1);
    eventually("the source hears again", || log.take() == ["source {\"READ\"}"]);
    let figures = event_loop.figures();
    assert_eq!(figures.rebuilds, 1);
    assert!(figures.premature_wakeups >= 512, "{figures:?}");
    assert_eq!(on(&event_loop, || 7), 7);
}

#[test]
fn with_a_limit_of_zero_the_driver_is_never_rebuilt() {
    let script = Arc::new(Script::default());
    let event_loop = EventLoop::builder().driver(scripted(&script)).rebuild_after(0).build().unwrap();
    script.spin.store(true, Ordering::Relaxed);
    on(&event_loop, || ());
    eventually("many premature wake-ups", || event_loop.figures().premature_wakeups > 2000);
    assert_eq!(event_loop.figures().rebuilds, 0);
}

#[test]
fn an_unparked_thread_is_not_a_premature_wake_up_and_does_not_spin() {
    let event_loop = EventLoop::new();
    let thread = on(&event_loop, std::thread::current);
    for _ in 0..1000 {
        thread.unpark();
    }
    on(&event_loop, || ());
    assert_eq!(event_loop.figures().rebuilds, 0);
    assert!(event_loop.figures().premature_wakeups < 512);
}

#[test]
fn a_failing_poll_rebuilds_the_driver() {
    let script = Arc::new(Script::default());
    let event_loop = EventLoop::builder().driver(scripted(&script)).build().unwrap();
    on(&event_loop, || ());
    script.fail_poll.store(true, Ordering::Relaxed);
    on(&event_loop, || ());
    eventually("the rebuild", || {
        on(&event_loop, || ());
        event_loop.figures().rebuilds == 1
    });
}

#[test]
fn no_wake_up_is_lost_across_rebuilds() {
    let script = Arc::new(Script::default());
    let event_loop = EventLoop::builder().driver(scripted(&script)).build().unwrap();
    for n in 0..500 {
        script.fail_poll.store(true, Ordering::Relaxed);
        assert_eq!(on(&event_loop, move || n), n);
    }
}

/// A loop on a clock moved by hand, whose driver fails from now on.
fn failing(rebuilds_too: bool) -> (Arc<Script>, ManualLoop, ManualClock) {
    let (script, clock) = (Arc::new(Script::default()), ManualClock::new());
    let builder = EventLoop::builder().driver(scripted(&script));
    let mut manual = ManualLoop::with_clock(builder, clock.clone()).unwrap();
    manual.run_once();
    script.polls.store(0, Ordering::Relaxed);
    script.keep_failing.store(true, Ordering::Relaxed);
    script.fail_rebuild.store(rebuilds_too, Ordering::Relaxed);
    (script, manual, clock)
}

#[test]
fn a_driver_that_keeps_failing_is_tried_again_after_growing_pauses_while_tasks_and_timers_go_on() {
    for rebuilds_too in [false, true] {
        let (script, mut manual, clock) = failing(rebuilds_too);
        let (handle, log) = (manual.handle().clone(), Log::default());
        let recorder = Recorder(log.clone(), "source");
        let token = manual.enter(|| LocalLoop::current().unwrap().register(recorder).unwrap());
        let ticks = Arc::new(AtomicUsize::new(0));
        let counted = ticks.clone();
        let tick = move || _ = counted.fetch_add(1, Ordering::Relaxed);
        let _timer = handle.schedule_at_fixed_rate(ms(1), ms(1), tick).unwrap();
        for turn in 1..=60_000 {
            clock.advance(ms(1));
            let ran = Log::default();
            handle.execute(ran.writer("task")).unwrap();
            manual.run_once();
            assert_eq!(ran.take(), ["task"]);
            assert!(ticks.load(Ordering::Relaxed) + 1 >= turn, "timers go on");
        }
        // 1, 2, 4 … 512 ms, and then once in a second.
        let polls = script.polls.load(Ordering::Relaxed);
        assert!((60..=75).contains(&polls), "{polls} polls in a minute, neither a spin nor given up");
        assert_eq!(handle.figures().poll_failures, polls as u64);

        script.keep_failing.store(false, Ordering::Relaxed);
        script.ready.lock().unwrap().push(token.to_u64());
        clock.advance(ms(1000));
        manual.run_once();
        assert_eq!(log.take(), ["source {\"READ\"}"], "within a second after the fault is over");
        script.polls.store(0, Ordering::Relaxed);
        manual.run_once();
        assert_eq!(script.polls.load(Ordering::Relaxed), 1, "and everything is as before");
    }
}

#[test]
fn a_loop_whose_driver_keeps_failing_shuts_down_when_it_is_told_to() {
    let (_script, mut manual, _) = failing(true);
    manual.run_once();
    manual.handle().shutdown_gracefully(Duration::ZERO, ms(1000)).unwrap();
    manual.run_once();
    assert!(manual.handle().is_terminated());

    let script = Arc::new(Script::default());
    script.keep_failing.store(true, Ordering::Relaxed);
    let event_loop = EventLoop::builder().driver(scripted(&script)).build().unwrap();
    for n in 0..100 {
        assert_eq!(on(&event_loop, move || n), n, "a task ends the pause");
    }
    assert_eq!(event_loop.schedule(ms(1), || 7).unwrap().wait(), Ok(7), "and so does a timer");
    let end = event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
    end.wait_timeout(PATIENCE).expect("the loop ends").unwrap();
}

#[test]
fn a_poll_that_a_signal_ends_is_neither_a_failure_nor_a_premature_wake_up() {
    let script = Arc::new(Script::default());
    let event_loop = EventLoop::builder().driver(scripted(&script)).rebuild_after(512).build().unwrap();
    script.interrupts.store(5_000, Ordering::Relaxed);
    on(&event_loop, || ());
    eventually("the signals are over", || script.interrupts.load(Ordering::Relaxed) == 0);
    on(&event_loop, || ());
    let figures = event_loop.figures();
    assert_eq!((figures.premature_wakeups, figures.rebuilds, figures.poll_failures), (0, 0, 0));
}

#[test]
fn a_panicking_driver_fails_the_termination() {
    quiet_panics();
    let script = Arc::new(Script::default());
    let event_loop = EventLoop::builder().driver(scripted(&script)).build().unwrap();
    let log = Log::default();
    script.panic.store(true, Ordering::Relaxed);
    event_loop.execute(log.writer("accepted")).unwrap();
    let end = event_loop.termination().wait();
    assert!(matches!(&end, Err(LoopError::Panicked(text)) if text.contains("the driver panics")), "{end:?}");
    assert_eq!(log.take(), ["accepted"], "what was accepted ran all the same");
}

#[test]
fn a_source_is_closed_by_the_shutdown_and_its_loop_waits_for_it_until_the_timeout() {
    let log = Log::default();
    let mut manual = ManualLoop::new();
    let token =
        manual.enter(|| LocalLoop::current().unwrap().register(Recorder(log.clone(), "source")).unwrap());
    manual.handle().shutdown_gracefully(Duration::ZERO, ms(100)).unwrap();
    manual.run_once();
    assert_eq!(log.take(), ["source closes"]);
    assert!(!manual.handle().is_terminated());
    manual.enter(|| LocalLoop::current().unwrap().deregister(token));
    manual.run_once();
    assert!(manual.handle().is_terminated());
}

#[test]
fn a_source_is_refused_by_a_loop_that_shuts_down() {
    let mut manual = ManualLoop::new();
    manual.handle().shutdown_gracefully(ms(10), ms(10)).unwrap();
    let refused = manual.enter(|| LocalLoop::current().unwrap().register(Recorder(Log::default(), "late")));
    assert_eq!(refused.unwrap_err(), RefusedWhy::ShutDown);
}

#[test]
fn a_source_that_panics_is_dropped_and_its_neighbours_go_on() {
    struct Fragile(Arc<()>);
    impl Source for Fragile {
        fn ready(&mut self, _: Event) {
            panic!("on purpose: {} references", Arc::strong_count(&self.0));
        }
        fn shut_down(&mut self) {}
    }
    quiet_panics();
    let (script, log, alive) = (Arc::new(Script::default()), Log::default(), Arc::new(()));
    let builder = EventLoop::builder().driver(scripted(&script));
    let mut manual = ManualLoop::with_clock(builder, ManualClock::new()).unwrap();
    let tokens = manual.enter(|| {
        let local = LocalLoop::current().unwrap();
        [
            local.register(Fragile(alive.clone())).unwrap(),
            local.register(Recorder(log.clone(), "neighbour")).unwrap(),
        ]
    });
    script.ready.lock().unwrap().extend(tokens.map(Token::to_u64));
    manual.run_once();
    assert_eq!(log.take(), ["neighbour {\"READ\"}"]);
    assert_eq!(Arc::strong_count(&alive), 1);
    assert_eq!(manual.handle().figures().sources, 1);
}

#[test]
fn a_source_may_leave_while_it_runs_and_a_stale_event_finds_nobody() {
    struct Leaver(Log, Option<Token>);
    impl Source for Leaver {
        fn ready(&mut self, event: Event) {
            self.0.add("leaves");
            assert!(LocalLoop::current().unwrap().deregister(event.token));
            self.1 = Some(event.token); // still alive during its own call
        }
        fn shut_down(&mut self) {}
    }
    let (script, log) = (Arc::new(Script::default()), Log::default());
    let builder = EventLoop::builder().driver(scripted(&script));
    let mut manual = ManualLoop::with_clock(builder, ManualClock::new()).unwrap();
    let token = manual.enter(|| LocalLoop::current().unwrap().register(Leaver(log.clone(), None)).unwrap());
    script.ready.lock().unwrap().extend([token.to_u64(), token.to_u64()]);
    manual.run_once();
    assert_eq!(log.take(), ["leaves"]);
    // The place is taken again, but the old token does not name the newcomer.
    let newcomer =
        manual.enter(|| LocalLoop::current().unwrap().register(Recorder(log.clone(), "newcomer")).unwrap());
    assert_ne!(newcomer, token);
    script.ready.lock().unwrap().push(token.to_u64());
    manual.run_once();
    assert_eq!(log.take().len(), 0);
}

#[test]
fn a_group_whose_third_driver_fails_shuts_the_first_two_down() {
    let dropped = Arc::new(AtomicUsize::new(0));
    struct Counted(Arc<AtomicUsize>, ParkSeed);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    impl DriverSeed for Counted {
        fn waker(&self) -> Arc<dyn DriverWaker> {
            self.1.waker()
        }
        fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
            Box::new(ParkSeed::new()).start()
        }
    }
    let count = dropped.clone();
    let group = EventLoopGroup::builder().loops(4).driver(move |index| match index {
        2 => Err(io::Error::other("no more descriptors")),
        _ => Ok(Counted(count.clone(), ParkSeed::new())),
    });
    let error = group.build().unwrap_err();
    assert!(matches!(error, BuildError::Driver { index: 2, .. }));
    assert_eq!(error.to_string(), "the driver of loop 2 could not be set up: no more descriptors");
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
}

#[test]
fn a_driver_that_cannot_start_fails_the_termination_and_every_accepted_task_learns_of_it() {
    struct Stillborn(ParkSeed);
    impl DriverSeed for Stillborn {
        fn waker(&self) -> Arc<dyn DriverWaker> {
            self.0.waker()
        }
        fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
            Err(io::Error::other("on purpose: no start"))
        }
    }
    let event_loop = EventLoop::builder().driver(Stillborn(ParkSeed::new())).build().unwrap();
    let mut timer = event_loop.schedule(ms(1), || ()).unwrap();
    assert_eq!(timer.wait(), Err(netwright_core::TaskError::Abandoned));
    let end = event_loop.termination().wait();
    assert!(matches!(end, Err(LoopError::Start(_))), "{end:?}");
}

#[test]
fn a_rebuild_that_somebody_asks_for_moves_the_registrations_and_says_how_many() {
    let (script, log) = (Arc::new(Script::default()), Log::default());
    let event_loop = EventLoop::builder().driver(scripted(&script)).build().unwrap();
    let recorder = Recorder(log.clone(), "source");
    let token = on(&event_loop, move || LocalLoop::current().unwrap().register(recorder).unwrap());
    script.ready.lock().unwrap().push(token.to_u64());
    event_loop.wake();
    eventually("the source is called", || !log.take().is_empty());
    assert_eq!(event_loop.rebuild().unwrap().wait().unwrap().unwrap(), 1);
    eventually("what is ready is told anew", || !log.take().is_empty());
    assert_eq!((script.rebuilt.load(Ordering::Relaxed), event_loop.figures().rebuilds), (1, 1));
}

#[test]
fn one_rebuild_is_the_answer_to_all_who_have_asked_for_it() {
    let script = Arc::new(Script::default());
    let event_loop = EventLoop::builder().driver(scripted(&script)).build().unwrap();
    let release = block(&event_loop);
    let asked: Vec<_> = (0..10).map(|_| event_loop.rebuild().unwrap()).collect();
    drop(release);
    for mut promised in asked {
        assert_eq!(promised.wait().unwrap().unwrap(), 0);
    }
    assert_eq!(script.rebuilt.load(Ordering::Relaxed), 1);
    let inner = event_loop.clone();
    let mut from_inside = on(&event_loop, move || inner.rebuild().unwrap());
    from_inside.wait().unwrap().unwrap();
    assert_eq!(script.rebuilt.load(Ordering::Relaxed), 2);
}

#[test]
fn a_rebuild_that_fails_says_why_and_the_old_driver_goes_on() {
    let script = Arc::new(Script::default());
    script.fail_rebuild.store(true, Ordering::Relaxed);
    let event_loop = EventLoop::builder().driver(scripted(&script)).build().unwrap();
    let error = event_loop.rebuild().unwrap().wait().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "on purpose: rebuild failed");
    assert_eq!(on(&event_loop, || 1), 1);
    event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
    assert_eq!(event_loop.rebuild().err(), Some(RefusedWhy::ShutDown));
}
