//! Where a loop gets the time from: the system, or a clock that is moved by hand.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// A source of monotonic time.
///
/// ```
/// use netwright_core::{Clock, ManualClock, SystemClock};
/// use std::time::{Duration, Instant};
///
/// fn is_late(clock: &impl Clock, deadline: Instant) -> bool {
///     clock.now() > deadline
/// }
///
/// let clock = ManualClock::new();
/// let deadline = clock.now() + Duration::from_secs(60);
/// clock.advance(Duration::from_secs(61));
/// assert!(is_late(&clock, deadline) && !is_late(&SystemClock, deadline));
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The present moment; never before an earlier answer.
    fn now(&self) -> Instant;
}

/// The system's monotonic clock.
///
/// ```
/// use netwright_core::{Clock, SystemClock};
///
/// assert!(SystemClock.now() <= SystemClock.now());
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// A clock that stands still until it is moved: time in tests and simulations.
///
/// Clones share the same time.
///
/// ```
/// use netwright_core::{Clock, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now() - before, Duration::from_secs(3600));
/// ```
#[derive(Clone)]
pub struct ManualClock {
    origin: Instant,
    moved_ns: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that shows the present moment and stays there.
    pub fn new() -> Self {
        Self { origin: Instant::now(), moved_ns: Arc::default() }
    }

    /// Moves the clock forward. It stops at 584 years after its start.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let _ = self
            .moved_ns
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |moved| Some(moved.saturating_add(by)));
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.origin + Duration::from_nanos(self.moved_ns.load(Ordering::Acquire))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moved = Duration::from_nanos(self.moved_ns.load(Ordering::Relaxed));
        f.debug_struct("ManualClock").field("moved", &moved).finish()
    }
}
