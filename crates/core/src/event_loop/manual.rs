//! A loop that the caller's thread drives, turn by turn: for embedding into another loop, and for tests and simulation
//! with a clock moved by hand.

use super::{EventLoop, EventLoopBuilder, driven::Driven, runner::Wait, shared::Shared};
use crate::{
    clock::{Clock, ManualClock, SystemClock},
    error::BuildError,
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
    /// Before the handle: the last handle of a loop asks it to end.
    driven: Driven,
    handle: EventLoop,
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
        let driven = Driven::owned(&shared)
            .map_err(|error| BuildError::Driver { index: 0, error: std::io::Error::other(error) })?;
        shared.inbox.started();
        Ok(Self { driven, handle: EventLoop::new_handle(shared), clock })
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
        self.driven.turn_once()
    }

    /// One turn that waits for something to do, at most for `most`, in real time.
    pub fn run_waiting(&mut self, most: Duration) -> bool {
        self.driven.turn(Wait::AtMost(Some(most)))
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
        while !self.driven.is_over() {
            let now = clock.now();
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(now));
            let next = self.driven.next_look();
            let step = next.map_or(left, |next| next.saturating_duration_since(now).min(left));
            clock.advance(step);
            self.run_until_idle();
            if step == left {
                break;
            }
        }
    }

    /// Runs `f` as if on the loop: [`EventLoop::current`] is this loop, and `execute_local` works.
    pub fn enter<R>(&mut self, f: impl FnOnce() -> R) -> R {
        self.driven.enter(f)
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
