//! Several loops as one: where channels get their loop from.

mod auto_scale;
mod chooser;
mod scaler;

pub use auto_scale::{AutoScale, AutoScaleBuilder, AutoScaleFigures};
pub use chooser::{Chooser, LeastLoaded, RoundRobin};

use crate::{
    clock::SystemClock,
    driver::{DriverSeed, ParkSeed},
    error::{BuildError, InvalidArgument, LoopError},
    event_loop::{EventLoop, LoopConfig, Patience, Rejection, Shared, Termination},
    promise::promise,
};
use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// More loops than any machine has cores for: a typing error, not a wish.
const LOOPS_MAX: usize = 4096;

/// A fixed number of event loops, and the rule by which the next one is picked.
///
/// Cheap to clone. When the last handle to a loop of the group is gone, that loop ends.
///
/// ```
/// use netwright_core::EventLoopGroup;
///
/// let group = EventLoopGroup::new(2)?;
/// let (a, b, c) = (group.next(), group.next(), group.next());
/// assert!(a != b && a == c);
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
#[derive(Clone)]
pub struct EventLoopGroup {
    inner: Arc<Inner>,
}

struct Inner {
    loops: Vec<EventLoop>,
    chooser: Box<dyn Chooser>,
    termination: Termination,
}

impl EventLoopGroup {
    /// A group of `loops` loops with every setting at its default.
    pub fn new(loops: usize) -> Result<Self, BuildError> {
        Self::builder().loops(loops).build()
    }

    /// Sets up a group.
    pub fn builder() -> EventLoopGroupBuilder {
        EventLoopGroupBuilder {
            loops: None,
            config: LoopConfig::default(),
            pinned: false,
            driver: Box::new(|_| Ok(Box::new(ParkSeed::new()))),
            chooser: Box::new(RoundRobin::new()),
        }
    }

    /// The next loop, by the group's chooser.
    #[allow(clippy::should_implement_trait)] // a group is not an iterator; this is what Netty calls it
    pub fn next(&self) -> EventLoop {
        let loops = &self.inner.loops;
        loops[self.inner.chooser.choose(loops) % loops.len()].clone()
    }

    /// All loops, in a fixed order.
    pub fn iter(&self) -> std::slice::Iter<'_, EventLoop> {
        self.inner.loops.iter()
    }

    /// How many loops there are: at least one.
    #[allow(clippy::len_without_is_empty)] // a group is never empty
    pub fn len(&self) -> usize {
        self.inner.loops.len()
    }

    /// Asks all loops to end, as [`EventLoop::shutdown_gracefully`] does for one.
    pub fn shutdown_gracefully(
        &self,
        quiet: Duration,
        timeout: Duration,
    ) -> Result<Termination, InvalidArgument> {
        let patience = Patience::new(quiet, timeout)?;
        for event_loop in self {
            event_loop.shut_down(patience);
        }
        Ok(self.termination())
    }

    /// Resolves when every loop has ended: to the first error, if one ended by an error.
    pub fn termination(&self) -> Termination {
        self.inner.termination.clone()
    }
}

impl<'a> IntoIterator for &'a EventLoopGroup {
    type Item = &'a EventLoop;
    type IntoIter = std::slice::Iter<'a, EventLoop>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for EventLoopGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

type DriverFactory = Box<dyn FnMut(usize) -> io::Result<Box<dyn DriverSeed>>>;

/// Sets up an [`EventLoopGroup`]. What is said of one loop in [`EventLoopBuilder`](crate::EventLoopBuilder) holds for
/// each loop of the group.
///
/// ```
/// use netwright_core::{EventLoopGroup, LeastLoaded};
/// use std::time::Duration;
///
/// let group = EventLoopGroup::builder()
///     .loops(2)
///     .name("worker") // worker-0, worker-1
///     .chooser(LeastLoaded::new())
///     .io_ratio(80)
///     .task_time_cap(Duration::from_millis(10))
///     .build()?;
/// assert_eq!(group.len(), 2);
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct EventLoopGroupBuilder {
    loops: Option<usize>,
    config: LoopConfig,
    pinned: bool,
    driver: DriverFactory,
    chooser: Box<dyn Chooser>,
}

impl EventLoopGroupBuilder {
    /// How many loops. Default: one for each core that the process may use.
    pub fn loops(mut self, loops: usize) -> Self {
        self.loops = Some(loops);
        self
    }

    /// The loops are called `name-0`, `name-1` and so on. Default: `netwright-loop`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.config.name = name.into();
        self
    }

    /// Makes the driver of each loop, by index. An error ends the building.
    pub fn driver<S: DriverSeed>(mut self, mut make: impl FnMut(usize) -> io::Result<S> + 'static) -> Self {
        self.driver = Box::new(move |index| Ok(Box::new(make(index)?)));
        self
    }

    /// How the next loop is picked: [`RoundRobin`] (the default), [`LeastLoaded`], [`AutoScale`], or a function of
    /// the loops.
    pub fn chooser(mut self, chooser: impl Chooser) -> Self {
        self.chooser = Box::new(chooser);
        self
    }

    /// Binds loop 0 to the first core that the process may use, loop 1 to the second, and so on round.
    pub fn pin_to_cores(mut self, pinned: bool) -> Self {
        self.pinned = pinned;
        self
    }

    /// See [`EventLoopBuilder::max_pending_tasks`](crate::EventLoopBuilder::max_pending_tasks).
    pub fn max_pending_tasks(mut self, limit: usize) -> Self {
        self.config.max_pending_tasks = limit;
        self
    }

    /// See [`EventLoopBuilder::rejection`](crate::EventLoopBuilder::rejection).
    pub fn rejection(mut self, policy: Rejection) -> Self {
        self.config.rejection = policy;
        self
    }

    /// See [`EventLoopBuilder::task_ring`](crate::EventLoopBuilder::task_ring).
    pub fn task_ring(mut self, places: usize) -> Self {
        self.config.task_ring = places;
        self
    }

    /// See [`EventLoopBuilder::io_ratio`](crate::EventLoopBuilder::io_ratio).
    pub fn io_ratio(mut self, percent: u8) -> Self {
        self.config.io_ratio = percent;
        self
    }

    /// See [`EventLoopBuilder::task_time_cap`](crate::EventLoopBuilder::task_time_cap).
    pub fn task_time_cap(mut self, cap: Duration) -> Self {
        self.config.task_time_cap = cap;
        self
    }

    /// See [`EventLoopBuilder::rebuild_after`](crate::EventLoopBuilder::rebuild_after).
    pub fn rebuild_after(mut self, premature_wakeups: u32) -> Self {
        self.config.rebuild_after = premature_wakeups;
        self
    }

    /// The group. If the driver of one loop cannot be made, the loops before it are shut down.
    pub fn build(mut self) -> Result<EventLoopGroup, BuildError> {
        let count = match self.loops {
            Some(count) => count,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        if !(1..=LOOPS_MAX).contains(&count) {
            return Err(InvalidArgument::new("loops", count, format!("between 1 and {LOOPS_MAX}")).into());
        }
        let cores: Vec<usize> = match self.pinned {
            true => core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect(),
            false => Vec::new(),
        };
        let mut loops = Vec::with_capacity(count);
        for index in 0..count {
            let mut config = self.config.clone();
            config.name = format!("{}-{index}", self.config.name);
            config.pin_to_core = (!cores.is_empty()).then(|| cores[index % cores.len()]);
            config.validate()?;
            // On an error the loops made so far are dropped here, and that shuts them down.
            let seed = (self.driver)(index).map_err(|error| BuildError::Driver { index, error })?;
            loops.push(EventLoop::new_handle(Shared::new(config, Arc::new(SystemClock), seed)));
        }
        self.chooser.attach(&loops)?;
        let termination = all_ended(&loops);
        Ok(EventLoopGroup { inner: Arc::new(Inner { loops, chooser: self.chooser, termination }) })
    }
}

/// Completes with the last loop.
fn all_ended(loops: &[EventLoop]) -> Termination {
    let (promise, promised) = promise::<(), LoopError>();
    let state = Arc::new(Mutex::new((loops.len(), Ok(()), Some(promise))));
    for event_loop in loops {
        let state = state.clone();
        event_loop.termination().listen(move |end| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let (left, how, promise) = &mut *state;
            *left -= 1;
            if how.is_ok() {
                *how = end.clone();
            }
            let finished =
                if *left == 0 { promise.take().map(|promise| (promise, how.clone())) } else { None };
            drop(state);
            if let Some((promise, how)) = finished {
                promise.complete(how);
            }
        });
    }
    promised.shared()
}
