//! A loop that the caller's thread drives, turn by turn: for embedding into another loop, and for tests and simulation
//! with a clock moved by hand.

use super::{
    EventLoop, EventLoopBuilder,
    runner::{Runner, Wait},
    shared::Shared,
};
use crate::{
    clock::{Clock, ManualClock, SystemClock},
    error::{BuildError, LoopError},
    task_error::catch,
};
use std::{fmt, sync::Arc, time::Duration};

/// An event loop without a thread of its own.
///
/// It belongs to the thread that made it and cannot be sent away, so driving it from the wrong thread, or from two, does
/// not compile:
///
/// ```compile_fail
/// let manual = netwright_core::ManualLoop::new();
/// std::thread::spawn(move || drop(manual));
/// ```
///
/// With a clock moved by hand, hours pass in no time and always in the same way:
///
/// ```
/// use netwright_core::ManualLoop;
/// use std::time::Duration;
///
/// let mut manual = ManualLoop::new();
/// let tea = manual.handle().schedule(Duration::from_secs(240), || "ready").unwrap();
/// manual.advance(Duration::from_secs(239));
/// assert!(!tea.is_done());
/// manual.advance(Duration::from_secs(1));
/// assert!(tea.is_done());
/// ```
pub struct ManualLoop {
    runner: Option<Runner>,
    handle: EventLoop,
    shared: Arc<Shared>,
    clock: Option<ManualClock>,
}

impl ManualLoop {
    /// A loop for tasks and timers on a clock moved by hand.
    #[allow(clippy::new_without_default)] // as for EventLoop
    pub fn new() -> Self {
        Self::with_clock(EventLoop::builder(), ManualClock::new()).expect("the defaults are valid")
    }

    /// A loop with its own settings on a clock moved by hand.
    pub fn with_clock(builder: EventLoopBuilder, clock: ManualClock) -> Result<Self, BuildError> {
        Self::build(builder, Arc::new(clock.clone()), Some(clock))
    }

    /// A loop with its own settings on the system's clock, to embed into a thread that has other things to do as well.
    pub fn embedded(builder: EventLoopBuilder) -> Result<Self, BuildError> {
        Self::build(builder, Arc::new(SystemClock), None)
    }

    fn build(
        builder: EventLoopBuilder,
        time: Arc<dyn Clock>,
        clock: Option<ManualClock>,
    ) -> Result<Self, BuildError> {
        let (config, seed) = builder.into_parts()?;
        let shared = Shared::new(config, time, seed);
        let runner = Runner::start(&shared, false)
            .map_err(|error| BuildError::Driver { index: 0, error: std::io::Error::other(error) })?;
        shared.inbox.started();
        Ok(Self { runner: Some(runner), handle: EventLoop::new_handle(shared.clone()), shared, clock })
    }

    /// The handle that every thread may use.
    pub fn handle(&self) -> &EventLoop {
        &self.handle
    }

    /// The clock, if it is moved by hand.
    pub fn clock(&self) -> Option<&ManualClock> {
        self.clock.as_ref()
    }

    /// One turn without waiting. Returns whether anything was done.
    pub fn run_once(&mut self) -> bool {
        self.turn(Wait::Never)
    }

    /// One turn that waits for something to do, at most for `most`, in real time.
    pub fn run_waiting(&mut self, most: Duration) -> bool {
        self.turn(Wait::AtMost(Some(most)))
    }

    /// Turns until nothing is left to do now. Something that always makes new work, such as a recurring tail task, makes
    /// this go on for ever.
    pub fn run_until_idle(&mut self) {
        while self.run_once() {}
    }

    /// Moves the clock forward and runs everything that becomes due on the way, each thing at its own time.
    ///
    /// # Panics
    /// If the loop runs on the system's clock, which nobody can move.
    pub fn advance(&mut self, by: Duration) {
        let clock = self.clock.clone().expect("a loop on the system's clock cannot be advanced");
        let end = clock.now().checked_add(by);
        self.run_until_idle();
        while let Some(local) = self.runner.as_ref().map(Runner::local) {
            let now = clock.now();
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(now));
            let step = [local.until_next_timer(local.moment()), self.runner.as_ref().and_then(Runner::stay)]
                .into_iter()
                .flatten()
                .min()
                .map_or(left, |step| step.min(left));
            clock.advance(step);
            self.run_until_idle();
            if step == left {
                break;
            }
        }
    }

    /// Runs `f` as if on the loop: [`EventLoop::current`] is this loop, and `execute_local` works.
    pub fn enter<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let entered = self.runner.as_ref().map(|runner| runner.local().enter());
        let result = f();
        drop(entered);
        result
    }

    fn turn(&mut self, wait: Wait) -> bool {
        let Some(runner) = self.runner.as_mut() else { return false };
        let entered = runner.local().enter();
        let turned = catch(|| runner.turn(wait)).unwrap_or_else(|message| Err(LoopError::Panicked(message)));
        let finished = runner.end().is_some();
        drop(entered);
        match turned {
            Ok(busy) if !finished => busy,
            Ok(_) => self.finish(Ok(())),
            Err(error) => self.finish(Err(error)),
        }
    }

    fn finish(&mut self, how: Result<(), LoopError>) -> bool {
        if let Some(runner) = self.runner.take() {
            let entered = runner.local().enter();
            runner.finish();
            drop(entered);
            self.shared.terminate(how);
        }
        false
    }
}

impl Drop for ManualLoop {
    /// Runs what was accepted, refuses the rest, and ends the loop.
    fn drop(&mut self) {
        self.finish(Ok(()));
    }
}

impl fmt::Debug for ManualLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualLoop")
            .field("handle", &self.handle)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
