//! Several loops as one: where channels get their loop from.

mod auto_scale;
mod chooser;
mod members;
mod scaler;

pub use auto_scale::{AutoScale, AutoScaleBuilder, AutoScaleFigures};
pub use chooser::{Chooser, LeastLoaded, RoundRobin};

use crate::{
    clock::{Clock, SystemClock},
    driver::{DriverSeed, ParkSeed},
    error::{BuildError, InvalidArgument},
    event_loop::{
        EventLoop, LoopConfig, Patience, Rejection, SHUTDOWN_TIMEOUT, Termination, WaitStrategy,
        loop_setters, made,
    },
    task_error::{catch, tell},
    threads::ThreadFactory,
    world,
};
use members::{Members, Recipe};
use std::{
    fmt, io,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// More loops than any machine has cores for: a typing error, not a wish.
const LOOPS_MAX: usize = 4096;

/// A fixed number of event loops, and the rule by which the next one is picked.
///
/// Cheap to clone. When the last handle to a loop of the group is gone, that loop ends.
///
/// A loop that dies, because its driver panics or cannot start, takes its channels with it. It is not picked any more, and a
/// new one takes its place ([`replace_dead`](EventLoopGroupBuilder::replace_dead)).
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

pub(crate) struct Inner {
    members: Arc<Members>,
    /// For when the chooser has no good answer.
    fallback: RoundRobin,
    chooser_panics: AtomicU64,
    len: usize,
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
            clock: Arc::new(SystemClock),
            pinned: false,
            driver: Box::new(|_| Ok(Box::new(ParkSeed::new()))),
            chooser: Box::new(RoundRobin::new()),
            replace_dead: true,
        }
    }

    /// The next loop, by the group's chooser. One that has ended or is about to is passed over, unless all are. A chooser that
    /// panics is told in the log, and the loops are taken in turn meanwhile.
    #[allow(clippy::should_implement_trait)] // a group is not an iterator; this is what Netty calls it
    pub fn next(&self) -> EventLoop {
        let inner = &*self.inner;
        let loops = inner.members.loops();
        let chosen = match catch(|| inner.members.chooser.choose(&loops)) {
            Ok(index) => &loops[index % loops.len()],
            Err(panic) => &loops[self.chooser_panicked(&panic)],
        };
        if chosen.is_shutting_down() { self.next_alive(chosen) } else { chosen.clone() }
    }

    #[cold]
    fn chooser_panicked(&self, panic: &str) -> usize {
        self.inner.chooser_panics.fetch_add(1, Ordering::Relaxed);
        tell(|| tracing::error!(panic, "a chooser panicked; the next loop in turn is taken"));
        self.inner.fallback.next_of(self.len())
    }

    #[cold]
    fn next_alive(&self, chosen: &EventLoop) -> EventLoop {
        self.inner.members.fill_vacancies();
        let loops = self.inner.members.loops();
        let first = self.inner.fallback.next_of(loops.len());
        let mut others = loops[first..].iter().chain(&loops[..first]);
        others.find(|event_loop| !event_loop.is_shutting_down()).unwrap_or(chosen).clone()
    }

    /// All loops, in a fixed order, as they are now: one that dies later may be replaced.
    pub fn iter(&self) -> std::vec::IntoIter<EventLoop> {
        self.inner.members.loops().to_vec().into_iter()
    }

    /// How many loops there are: at least one.
    #[allow(clippy::len_without_is_empty)] // a group is never empty
    pub fn len(&self) -> usize {
        self.inner.len
    }

    /// What has become of the group. What its loops do is in [their figures](EventLoop::figures).
    pub fn figures(&self) -> GroupFigures {
        let inner = &*self.inner;
        GroupFigures {
            alive: inner.members.loops().iter().filter(|event_loop| !event_loop.is_terminated()).count(),
            died: inner.members.died.load(Ordering::Relaxed),
            replaced: inner.members.replaced.load(Ordering::Relaxed),
            chooser_panics: inner.chooser_panics.load(Ordering::Relaxed),
        }
    }

    /// Asks all loops to end, as [`EventLoop::shutdown_gracefully`] does for one.
    pub fn shutdown_gracefully(
        &self,
        quiet: Duration,
        timeout: Duration,
    ) -> Result<Termination, InvalidArgument> {
        let patience = Patience::new(quiet, timeout)?;
        self.inner.members.end(|event_loop| event_loop.shared().shut_down(patience));
        Ok(self.termination())
    }

    /// Ends all loops now, as [`EventLoop::shutdown_now`] does one.
    ///
    /// ```
    /// use netwright_core::EventLoopGroup;
    ///
    /// let group = EventLoopGroup::new(2)?;
    /// group.shutdown_now().wait()?;
    /// assert_eq!(group.figures().alive, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_now(&self) -> Termination {
        self.inner.members.end(|event_loop| event_loop.shared().shut_down_now());
        self.termination()
    }

    /// Resolves when every loop has ended: to the first error, if one ended by an error and was not replaced.
    pub fn termination(&self) -> Termination {
        self.inner.members.termination()
    }
}

/// A group as its own loops know it: they do not keep it.
#[derive(Clone)]
pub(crate) struct WeakGroup(Weak<Inner>);

impl WeakGroup {
    pub(crate) fn upgrade(&self) -> Option<EventLoopGroup> {
        self.0.upgrade().map(|inner| EventLoopGroup { inner })
    }
}

impl IntoIterator for &EventLoopGroup {
    type Item = EventLoop;
    type IntoIter = std::vec::IntoIter<EventLoop>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for EventLoopGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// A group at one moment.
///
/// ```
/// use netwright_core::EventLoopGroup;
///
/// let figures = EventLoopGroup::new(2)?.figures();
/// assert_eq!((figures.alive, figures.died, figures.replaced), (2, 0, 0));
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupFigures {
    /// Loops that have not ended.
    pub alive: usize,
    /// Loops that ended although nobody had asked them to.
    pub died: u64,
    /// Loops that took the place of one that died.
    pub replaced: u64,
    /// How often the chooser panicked.
    pub chooser_panics: u64,
}

type DriverFactory = Box<dyn FnMut(usize) -> io::Result<Box<dyn DriverSeed>> + Send>;

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
    clock: Arc<dyn Clock>,
    pinned: bool,
    driver: DriverFactory,
    chooser: Box<dyn Chooser>,
    replace_dead: bool,
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

    /// Where the loops get the time from. Default: the system. A [`ManualClock`](crate::ManualClock) moves the time of channels
    /// over real connections by hand; loops that wait do not see that it was moved, so whoever moves it gives them a task.
    ///
    /// ```
    /// use netwright_core::{EventLoopGroup, ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let group = EventLoopGroup::builder().loops(1).clock(clock.clone()).build()?;
    /// let mut tea = group.next().schedule(Duration::from_secs(240), || "ready")?;
    /// clock.advance(Duration::from_secs(240));
    /// group.next().execute(|| {})?; // looks at the clock
    /// assert_eq!(tea.wait()?, "ready");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Makes the driver of each loop, by index. An error ends the building. It is called again, on another thread, for a
    /// loop that takes the place of one that died.
    pub fn driver<S: DriverSeed>(
        mut self,
        mut make: impl FnMut(usize) -> io::Result<S> + Send + 'static,
    ) -> Self {
        self.driver = Box::new(move |index| Ok(Box::new(make(index)?)));
        self
    }

    /// How the next loop is picked: [`RoundRobin`] (the default), [`LeastLoaded`], [`AutoScale`], or a function of
    /// the loops.
    pub fn chooser(mut self, chooser: impl Chooser) -> Self {
        self.chooser = Box::new(chooser);
        self
    }

    /// Whether a loop that dies is replaced by a new one in its place. Its channels are gone either way. Default: it is.
    pub fn replace_dead(mut self, replace: bool) -> Self {
        self.replace_dead = replace;
        self
    }

    /// Binds loop 0 to the first core that the process may use, loop 1 to the second, and so on round.
    pub fn pin_to_cores(mut self, pinned: bool) -> Self {
        self.pinned = pinned;
        self
    }

    loop_setters!();

    /// How the loops' threads are made. Default: as the system does, with the first task of each.
    pub fn thread_factory(mut self, threads: ThreadFactory) -> Self {
        self.config.threads = threads;
        self
    }

    /// The group. If the driver of one loop cannot be made, or its thread by a [factory](Self::thread_factory), the loops before it
    /// have ended when this returns.
    pub fn build(self) -> Result<EventLoopGroup, BuildError> {
        let count = match self.loops {
            Some(count) => count,
            None => world::cores(),
        };
        if !(1..=LOOPS_MAX).contains(&count) {
            return Err(InvalidArgument::new("loops", count, format!("between 1 and {LOOPS_MAX}")).into());
        }
        let cores: Vec<usize> = match self.pinned {
            true => core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect(),
            false => Vec::new(),
        };
        let mut recipe = recipe(self.config, self.clock, cores, self.driver)?;
        let mut loops = Vec::with_capacity(count);
        for index in 0..count {
            match recipe(index) {
                Ok(event_loop) => loops.push(event_loop),
                Err(error) => {
                    end_all(loops);
                    return Err(error);
                }
            }
        }
        self.chooser.attach(&loops)?;
        let recipe = self.replace_dead.then_some(recipe);
        let inner = Arc::new_cyclic(|group| Inner {
            members: Members::new(loops, self.chooser, recipe, WeakGroup(group.clone())),
            fallback: RoundRobin::new(),
            chooser_panics: AtomicU64::new(0),
            len: count,
        });
        Ok(EventLoopGroup { inner })
    }
}

/// How to make each loop of a group; `cores`: those to bind them to, if any.
fn recipe(
    config: LoopConfig,
    clock: Arc<dyn Clock>,
    cores: Vec<usize>,
    mut driver: DriverFactory,
) -> Result<Recipe, InvalidArgument> {
    config.validate()?;
    for core in &cores {
        LoopConfig { pin_to_core: Some(*core), ..config.clone() }.validate()?;
    }
    Ok(Box::new(move |index| {
        let mut config = config.clone();
        config.name = format!("{}-{index}", config.name);
        config.pin_to_core = (!cores.is_empty()).then(|| cores[index % cores.len()]);
        let seed = driver(index).map_err(|error| BuildError::Driver { index, error })?;
        made(config, clock.clone(), seed)
    }))
}

/// Ends the loops of a group that cannot be: they have had nothing to do.
fn end_all(loops: Vec<EventLoop>) {
    let ends: Vec<_> = loops.iter().map(EventLoop::shutdown_now).collect();
    drop(loops);
    // On a loop's own thread nobody waits; elsewhere no longer than for what its owner does at the end of each thread.
    ends.iter().for_each(|end| drop(end.wait_timeout(SHUTDOWN_TIMEOUT)));
}
