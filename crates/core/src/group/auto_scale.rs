//! A chooser that uses only as many loops of a group as the load asks for.
//!
//! ```text
//!   every window:  figures of each loop ──▶ utilisation ──▶ Scaler ──▶ the active loops
//!                  by a timer on loop 0, or by `choose` if loop 0 is too busy for it
//!
//!   active loop      takes new channels, in turn
//!   any other loop   takes none; asked in each window to give its thread back, which it does once it is empty
//! ```
//!
//! Always true:
//! 1. The timer holds weak handles only, so that a group with a timer pending ends with its last handle as any other.
//! 2. Between two samples at least a window passes, whoever takes them; utilisation counts the time that really passed.
//! 3. Under the lock there is only arithmetic: the clock is read before it, and loops are woken and logs written after it.
//!
//! Not here: the decision (`scaler`).

use super::{
    Chooser, RoundRobin,
    scaler::{Load, Scaler, Settings},
};
use crate::{
    EventLoop, WeakEventLoop,
    clock::{Clock, SystemClock},
    error::InvalidArgument,
    sync::{Arc, AtomicUsize, Mutex, Ordering, lock},
    task_error::tell,
};
use std::{
    fmt,
    time::{Duration, Instant},
};

/// Hands out the loops of a group in turn, but only as many as the load asks for.
///
/// Once in each window it looks at how busy each loop was. If loops have been busy for a while, more take part; if loops
/// have been idle for a while and host nothing, they get no new channels and give their threads back. Channels never
/// move from one loop to another. A loop that takes part again gets a thread with its first task.
///
/// The samples are taken on the group's first loop. So that one is always active, and has a thread from the beginning.
///
/// Cheap to clone: keep a clone to ask for its [`figures`](Self::figures). It serves one group.
///
/// ```
/// use netwright_core::{AutoScale, EventLoopGroup};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), netwright_core::BuildError> {
/// let scale = AutoScale::builder().min(1).max(4).window(Duration::from_millis(500)).build()?;
/// let group = EventLoopGroup::builder().loops(8).chooser(scale.clone()).build()?;
///
/// let event_loop = group.next(); // one of the four that may be active
/// assert!(group.iter().take(4).any(|active| active == event_loop));
/// assert_eq!(scale.figures().active, 4); // until they turn out to be idle
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AutoScale {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    clock: Box<dyn Clock>,
    turn: RoundRobin,
    /// How often sampling was started: only the last one goes on.
    started: AtomicUsize,
    /// `None` before the group is built.
    state: Mutex<Option<State>>,
}

struct State {
    scaler: Scaler,
    meters: Vec<Meter>,
    utilisation: Vec<f64>,
    sampled_at: Instant,
}

impl AutoScale {
    /// Between one loop and all of them, with every setting at its default.
    #[allow(clippy::new_without_default)] // as for EventLoop
    pub fn new() -> Self {
        Self::builder().build().expect("the defaults are valid")
    }

    /// Sets up how many loops there may be, and when their number changes.
    pub fn builder() -> AutoScaleBuilder {
        AutoScaleBuilder { settings: Settings::default(), clock: Box::new(SystemClock) }
    }

    /// What the last sample said. Before the group is built there is nothing to say.
    pub fn figures(&self) -> AutoScaleFigures {
        match &*lock(&self.inner.state) {
            Some(state) => AutoScaleFigures {
                active: state.scaler.active().len(),
                utilisation: state.utilisation.clone(),
            },
            None => AutoScaleFigures { active: 0, utilisation: Vec::new() },
        }
    }

    fn sample_if_due(&self, loops: &[EventLoop]) {
        let now = self.inner.clock.now();
        let sampled = match &mut *lock(&self.inner.state) {
            Some(state) => state.sample_if_due(loops, now, self.inner.settings.window),
            None => None,
        };
        let Some(Sampled { before, active, inactive }) = sampled else { return };
        if active != before {
            tell(|| {
                tracing::debug!(before, active, first = %loops[0].name(), "the number of active loops changed");
            });
        }
        for event_loop in inactive {
            // A loop that shuts down waits for silence, and the request would break it.
            if !event_loop.is_shutting_down() {
                event_loop.suspend_if_idle();
            }
        }
    }

    fn start_sampling(&self, loops: &[EventLoop]) {
        let started = self.inner.started.fetch_add(1, Ordering::Relaxed) + 1;
        self.clone().keep_sampling(&loops[0], loops.iter().map(EventLoop::downgrade).collect(), started);
    }

    /// Arms the timer anew after each sample, until the group is gone or its loops have changed.
    fn keep_sampling(self, first: &EventLoop, loops: Vec<WeakEventLoop>, started: usize) {
        let window = self.inner.settings.window;
        let refused = first.schedule(window, move || {
            let alive: Option<Vec<EventLoop>> = loops.iter().map(WeakEventLoop::upgrade).collect();
            if let Some(alive) = alive
                && self.inner.started.load(Ordering::Relaxed) == started
            {
                self.sample_if_due(&alive);
                self.keep_sampling(&alive[0], loops, started);
            }
        });
        if let Err(error) = refused
            && !first.is_shutting_down()
        {
            tell(|| {
                tracing::warn!(event_loop = %first.name(), %error, "loops are sampled only when one is chosen");
            });
        }
    }
}

impl Chooser for AutoScale {
    fn choose(&self, loops: &[EventLoop]) -> usize {
        self.sample_if_due(loops);
        match &*lock(&self.inner.state) {
            Some(state) => {
                let active = state.scaler.active();
                let first = self.inner.turn.next_of(active.len());
                let mut in_turn = active[first..].iter().chain(&active[..first]);
                *in_turn.find(|&&index| !loops[index].is_shutting_down()).unwrap_or(&active[first])
            }
            None => self.inner.turn.next_of(loops.len()),
        }
    }

    fn attach(&self, loops: &[EventLoop]) -> Result<(), InvalidArgument> {
        let state = State {
            scaler: Scaler::new(self.inner.settings, loops.len())?,
            meters: loops.iter().map(Meter::read).collect(),
            utilisation: vec![0.0; loops.len()],
            sampled_at: self.inner.clock.now(),
        };
        {
            let mut place = lock(&self.inner.state);
            if place.is_some() {
                let value = "an AutoScale that serves a group already";
                return Err(InvalidArgument::new("chooser", value, "a new AutoScale for each group"));
            }
            *place = Some(state);
        }
        self.start_sampling(loops);
        Ok(())
    }

    fn replaced(&self, loops: &[EventLoop], _index: usize) {
        self.start_sampling(loops);
    }
}

impl fmt::Debug for AutoScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AutoScale")
            .field("settings", &self.inner.settings)
            .field("figures", &self.figures())
            .finish_non_exhaustive()
    }
}

/// What is to be done after a sample, without the lock.
struct Sampled<'a> {
    before: usize,
    active: usize,
    inactive: Vec<&'a EventLoop>,
}

impl State {
    fn sample_if_due<'a>(
        &mut self,
        loops: &'a [EventLoop],
        now: Instant,
        window: Duration,
    ) -> Option<Sampled<'a>> {
        let passed = now.saturating_duration_since(self.sampled_at);
        if passed < window || loops.len() != self.meters.len() {
            return None;
        }
        self.sampled_at = now;
        let mut loads = Vec::with_capacity(loops.len());
        for (event_loop, meter) in loops.iter().zip(&mut self.meters) {
            let before = std::mem::replace(meter, Meter::read(event_loop));
            let utilisation = meter.utilisation_since(&before, passed);
            loads.push(Load { utilisation, sources: meter.sources });
        }
        self.utilisation = loads.iter().map(|load| load.utilisation).collect();
        let before = self.scaler.active().len();
        let active = self.scaler.observe(&loads);
        let inactive = (0..loops.len()).filter(|&index| !self.scaler.is_active(index));
        Some(Sampled { before, active, inactive: inactive.map(|index| &loops[index]).collect() })
    }
}

/// What a sample reads of one loop.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Meter {
    busy: Duration,
    iterations: u64,
    /// Grows while a loop looks out for something to do without a pause.
    polling: Duration,
    awake: bool,
    sources: u64,
}

impl Meter {
    fn read(event_loop: &EventLoop) -> Self {
        let figures = event_loop.figures();
        Self {
            busy: figures.time_io + figures.time_tasks,
            iterations: figures.iterations,
            polling: figures.time_polling,
            awake: event_loop.is_awake(),
            sources: figures.sources,
        }
    }

    /// The share of the time `passed` that the loop did not wait.
    ///
    /// A turn's time is counted at its end. A loop that was in the midst of the same turn at both ends of the window has
    /// counted nothing and yet done nothing but work.
    fn utilisation_since(&self, before: &Self, passed: Duration) -> f64 {
        let same_turn = self.iterations == before.iterations && self.polling == before.polling;
        if self.awake && before.awake && same_turn {
            return 1.0;
        }
        let busy = self.busy.saturating_sub(before.busy);
        (busy.as_secs_f64() / passed.as_secs_f64()).min(1.0) // a turn that began in an earlier window
    }
}

/// What an [`AutoScale`] knows about its group.
///
/// ```
/// use netwright_core::{AutoScale, EventLoopGroup};
///
/// let scale = AutoScale::new();
/// let _group = EventLoopGroup::builder().loops(2).chooser(scale.clone()).build()?;
/// let figures = scale.figures();
/// println!("{} loops take channels; busy: {:?}", figures.active, figures.utilisation);
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AutoScaleFigures {
    /// How many loops take new channels.
    pub active: usize,
    /// For each loop of the group, active or not: the share of the last window that it worked, from 0 to 1.
    pub utilisation: Vec<f64>,
}

/// Sets up an [`AutoScale`].
///
/// ```
/// use netwright_core::AutoScale;
/// use std::time::Duration;
///
/// let scale = AutoScale::builder()
///     .min(1)
///     .max(8)
///     .window(Duration::from_secs(1))
///     .scale_down_below(0.2)
///     .scale_up_above(0.8)
///     .patience(5)
///     .build()?;
/// # drop(scale);
/// # Ok::<(), netwright_core::InvalidArgument>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct AutoScaleBuilder {
    settings: Settings,
    clock: Box<dyn Clock>,
}

impl AutoScaleBuilder {
    /// How many loops are always active, at most as many as the group has. Default: 1.
    pub fn min(mut self, loops: usize) -> Self {
        self.settings.min = loops;
        self
    }

    /// How many loops may be active. Default, and upper limit: as many as the group has.
    pub fn max(mut self, loops: usize) -> Self {
        self.settings.max = Some(loops);
        self
    }

    /// The time over which utilisation is measured, at least 1 ms. Default: one second.
    pub fn window(mut self, window: Duration) -> Self {
        self.settings.window = window;
        self
    }

    /// The utilisation below which a loop counts as idle, from 0 (never) to 1. Default: 0.25.
    pub fn scale_down_below(mut self, utilisation: f64) -> Self {
        self.settings.scale_down_below = utilisation;
        self
    }

    /// The utilisation above which a loop counts as busy, from 0 to 1 (never). Default: 0.75.
    pub fn scale_up_above(mut self, utilisation: f64) -> Self {
        self.settings.scale_up_above = utilisation;
        self
    }

    /// How many loops may become active in one window. Default: 1.
    pub fn ramp_up_max(mut self, loops: usize) -> Self {
        self.settings.ramp_up_max = loops;
        self
    }

    /// How many loops may be taken out in one window. Default: 1.
    pub fn ramp_down_max(mut self, loops: usize) -> Self {
        self.settings.ramp_down_max = loops;
        self
    }

    /// For how many windows in a row a loop has to be idle or busy before it counts, at least 1. Default: 3.
    pub fn patience(mut self, windows: u32) -> Self {
        self.settings.patience = windows;
        self
    }

    /// What says that a window has passed. Default: the system's clock. With a
    /// [`ManualClock`](crate::ManualClock), a sample is taken by the first choice after the clock was moved.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// The chooser. Whether the group has enough loops for `min` is found out when the group is built.
    pub fn build(self) -> Result<AutoScale, InvalidArgument> {
        self.settings.validate()?;
        let Self { settings, clock } = self;
        let inner = Inner {
            settings,
            clock,
            turn: RoundRobin::new(),
            started: AtomicUsize::new(0),
            state: Mutex::new(None),
        };
        Ok(AutoScale { inner: Arc::new(inner) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn meter(busy_ms: u64, iterations: u64, awake: bool) -> Meter {
        let (busy, polling) = (Duration::from_millis(busy_ms), Duration::ZERO);
        Meter { busy, iterations, polling, awake, sources: 0 }
    }

    #[test]
    fn utilisation_is_the_share_of_the_time_that_was_spent_on_io_and_tasks() {
        let before = meter(500, 10, false);
        assert_eq!(meter(500, 10, false).utilisation_since(&before, SECOND), 0.0);
        assert_eq!(meter(750, 20, false).utilisation_since(&before, SECOND), 0.25);
        assert_eq!(meter(750, 20, true).utilisation_since(&before, 2 * SECOND), 0.125);
    }

    #[test]
    fn a_turn_longer_than_the_window_is_full_utilisation_while_it_lasts_and_no_more_at_its_end() {
        let before = meter(0, 10, true);
        assert_eq!(meter(0, 10, true).utilisation_since(&before, SECOND), 1.0);
        assert_eq!(meter(4_000, 11, false).utilisation_since(&before, SECOND), 1.0);
    }

    #[test]
    fn a_loop_that_polls_without_a_pause_in_the_same_turn_is_idle() {
        let after = Meter { polling: SECOND, ..meter(0, 10, true) };
        assert_eq!(after.utilisation_since(&meter(0, 10, true), SECOND), 0.0);
    }

    #[test]
    fn a_loop_that_is_just_being_woken_was_idle() {
        assert_eq!(meter(0, 10, true).utilisation_since(&meter(0, 10, false), SECOND), 0.0);
    }
}
