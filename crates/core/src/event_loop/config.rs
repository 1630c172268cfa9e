//! How a loop is set up, and what it is when nothing is said.

use super::{EventLoop, WaitStrategy, budget::Budget, inbox, shared::Shared};
use crate::{
    clock::{Clock, SystemClock},
    driver::{DriverSeed, ParkSeed},
    error::{BuildError, InvalidArgument},
    threads::ThreadFactory,
};
use std::{sync::Arc, time::Duration};

/// What a submitter gets when `max_pending_tasks` tasks wait already.
///
/// ```
/// use netwright_core::{EventLoop, Rejection};
/// use std::time::Duration;
///
/// let patient = Rejection::BackOff { retries: 3, pause: Duration::from_millis(1) };
/// let event_loop = EventLoop::builder().max_pending_tasks(1000).rejection(patient).build()?;
/// event_loop.execute(|| println!("there was room"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// An error with the task in it, at once.
    Error,
    /// The submitter pauses and tries again, then gets the error. On the loop's own thread: the error at once, because
    /// a loop that waits for itself waits for ever.
    BackOff {
        /// How often to try again.
        retries: u32,
        /// How long to pause before each try.
        pause: Duration,
    },
}

/// 32 MiB of waiting tasks: whoever has more to wait does not mind an allocation.
const TASK_RING_MAX: usize = 1 << 20;

/// The settings that the loops of a group share.
#[derive(Debug, Clone)]
pub(crate) struct LoopConfig {
    pub(crate) name: String,
    pub(crate) max_pending_tasks: usize,
    pub(crate) task_ring: usize,
    pub(crate) rejection: Rejection,
    pub(crate) io_ratio: u8,
    pub(crate) task_time_cap: Duration,
    pub(crate) rebuild_after: u32,
    pub(crate) pin_to_core: Option<usize>,
    pub(crate) threads: ThreadFactory,
    pub(crate) wait: WaitStrategy,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            name: "netwright-loop".to_owned(),
            max_pending_tasks: inbox::UNLIMITED,
            task_ring: inbox::RING_LEN,
            rejection: Rejection::Error,
            io_ratio: 50,
            // Long enough for any sane batch, short enough that a flood of tasks cannot look like a dead server.
            task_time_cap: Duration::from_millis(100),
            rebuild_after: 512,
            pin_to_core: None,
            threads: ThreadFactory::new(),
            wait: WaitStrategy::Block,
        }
    }
}

impl LoopConfig {
    pub(crate) fn validate(&self) -> Result<(), InvalidArgument> {
        self.budget()?;
        self.threads.validate()?;
        if self.max_pending_tasks == 0 {
            return Err(InvalidArgument::new("max_pending_tasks", 0, "at least 1"));
        }
        if !(1..=TASK_RING_MAX).contains(&self.task_ring) {
            let expected = format!("between 1 and {TASK_RING_MAX}");
            return Err(InvalidArgument::new("task_ring", self.task_ring, expected));
        }
        if self.name.contains('\0') {
            let value = format!("{:?}", self.name);
            return Err(InvalidArgument::new("name", value, "free of NUL, as a thread's name has to be"));
        }
        match self.pin_to_core {
            Some(core) => known_core(core).map(drop),
            None => Ok(()),
        }
    }

    pub(crate) fn budget(&self) -> Result<Budget, InvalidArgument> {
        Budget::new(self.io_ratio, self.task_time_cap)
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.max_pending_tasks < inbox::UNLIMITED
    }
}

/// The core with this number, if this process may run on it.
pub(crate) fn known_core(core: usize) -> Result<core_affinity::CoreId, InvalidArgument> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    cores.iter().copied().find(|known| known.id == core).ok_or_else(|| {
        let ids: Vec<usize> = cores.iter().map(|known| known.id).collect();
        InvalidArgument::new("pin_to_core", core, format!("one of the cores {ids:?}"))
    })
}

/// Sets up one [`EventLoop`]; [`EventLoopGroup`](crate::EventLoopGroup) sets up several.
///
/// ```
/// use netwright_core::EventLoop;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), netwright_core::BuildError> {
/// let event_loop = EventLoop::builder()
///     .name("ticker")
///     .max_pending_tasks(10_000)
///     .io_ratio(80)
///     .task_time_cap(Duration::from_millis(20))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct EventLoopBuilder {
    config: LoopConfig,
    seed: Option<Box<dyn DriverSeed>>,
}

/// The setters of a builder that has a [`LoopConfig`] in its field `config`: of one loop, and of a group of them.
macro_rules! loop_setters {
    () => {
        /// How many tasks may wait. Default: no limit.
        pub fn max_pending_tasks(mut self, limit: usize) -> Self {
            self.config.max_pending_tasks = limit;
            self
        }

        /// What happens beyond that limit. Default: [`Rejection::Error`].
        pub fn rejection(mut self, policy: Rejection) -> Self {
            self.config.rejection = policy;
            self
        }

        /// How many tasks may wait without an allocation; each place takes 32 bytes for the life of the loop. A loop that serves
        /// one channel needs few. Default: 1,024.
        pub fn task_ring(mut self, places: usize) -> Self {
            self.config.task_ring = places;
            self
        }

        /// The share of a turn's time, in percent, that is meant for I/O: after I/O took 8 ms, tasks may take 2 ms at a
        /// ratio of 80. 100: no share is kept for I/O. From 1 to 100; default: 50.
        pub fn io_ratio(mut self, percent: u8) -> Self {
            self.config.io_ratio = percent;
            self
        }

        /// What tasks may take in one turn whatever the ratio. Default: 100 ms.
        pub fn task_time_cap(mut self, cap: Duration) -> Self {
            self.config.task_time_cap = cap;
            self
        }

        /// After how many polls in a row that end early and bring nothing the driver is replaced. 0: never. Default: 512.
        pub fn rebuild_after(mut self, premature_wakeups: u32) -> Self {
            self.config.rebuild_after = premature_wakeups;
            self
        }

        /// How a loop waits when it has nothing to do. Default: [`WaitStrategy::Block`].
        pub fn wait_strategy(mut self, wait: WaitStrategy) -> Self {
            self.config.wait = wait;
            self
        }
    };
}
pub(crate) use loop_setters;

impl EventLoopBuilder {
    pub(super) fn new() -> Self {
        Self { config: LoopConfig::default(), seed: None }
    }

    /// The loop's name, and that of its thread. Default: `netwright-loop`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.config.name = name.into();
        self
    }

    /// What waits for I/O. Default: nothing does, the loop runs tasks and timers only ([`ParkSeed`]).
    pub fn driver(mut self, seed: impl DriverSeed) -> Self {
        self.seed = Some(Box::new(seed));
        self
    }

    loop_setters!();

    /// Binds the loop's thread to one core.
    pub fn pin_to_core(mut self, core: usize) -> Self {
        self.config.pin_to_core = Some(core);
        self
    }

    /// How the loop's thread is made. Default: as the system does, with the first task. A [`ManualLoop`](crate::ManualLoop) has no
    /// thread to make.
    pub fn thread_factory(mut self, threads: ThreadFactory) -> Self {
        self.config.threads = threads;
        self
    }

    /// The loop. Its thread starts with the first task, or now if it has a [factory](Self::thread_factory).
    pub fn build(self) -> Result<EventLoop, BuildError> {
        let (config, seed) = self.into_parts()?;
        made(config, Arc::new(SystemClock), seed)
    }

    pub(super) fn into_parts(self) -> Result<(LoopConfig, Box<dyn DriverSeed>), BuildError> {
        self.config.validate()?;
        Ok((self.config, self.seed.unwrap_or_else(|| Box::new(ParkSeed::new()))))
    }
}

/// A loop of checked settings, with a thread if it has a factory of its own.
pub(crate) fn made(
    config: LoopConfig,
    clock: Arc<dyn Clock>,
    seed: Box<dyn DriverSeed>,
) -> Result<EventLoop, BuildError> {
    let early = config.threads.is_set();
    let event_loop = EventLoop::new_handle(Shared::here(config, clock, seed));
    if early {
        let thread = || event_loop.name().to_owned();
        event_loop.shared().start_early().map_err(|error| BuildError::Thread { thread: thread(), error })?;
    }
    Ok(event_loop)
}
