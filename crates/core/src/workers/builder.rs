//! How many threads, what they are called, how much may wait.

use std::{fmt, time::Duration};

use super::{
    Handle, Workers,
    driven::WorkersBody,
    error::WorkersError,
    lane::KeyedLanes,
    pool::{Joined, Pool},
};
use crate::{
    clock::{Clock, SystemClock},
    event_loop::SHUTDOWN_TIMEOUT,
    sync::{Arc, Mutex, lock, thread},
    task_error::tell,
    threads::ThreadFactory,
    world::{self, World, WorldClock},
};

/// Threads per core unless told otherwise: handlers that block leave their core idle about half the time, so two keep
/// it busy. Work that blocks nearly all the time (a slow database) wants more, which only its owner can know.
const THREADS_PER_CORE: usize = 2;

/// Linux's default `pid_max`: a stock machine cannot start more, so a larger number is a slip of the pen.
const THREADS_MAX: usize = 32_768;

/// Tasks that may wait unless told otherwise. Blocking work of 1 ms on 16 threads drains this many in about four
/// seconds: whoever waits longer has given up. With closures of some 100 bytes that is a few megabytes.
const PENDING_MAX_DEFAULT: usize = 65_536;

/// Builds [`Workers`]; from [`Workers::builder`].
///
/// ```
/// use netwright_core::Workers;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workers = Workers::builder().threads(2).name("database").max_pending(1_000).build()?;
/// let name = workers.submit(|| std::thread::current().name().map(str::to_owned))?.wait()?;
/// assert!(name.unwrap().starts_with("database-"));
///
/// let error = Workers::builder().max_pending(0).build().unwrap_err();
/// assert!(error.to_string().starts_with("max_pending = 0: allowed is 1 to "));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a builder makes no pool until it is built"]
pub struct WorkersBuilder {
    threads: Option<usize>,
    name: String,
    pending_max: usize,
    clock: std::sync::Arc<dyn Clock>,
    factory: ThreadFactory,
}

impl WorkersBuilder {
    pub(super) fn new() -> Self {
        Self {
            threads: None,
            name: "workers".to_owned(),
            pending_max: PENDING_MAX_DEFAULT,
            clock: std::sync::Arc::new(SystemClock),
            factory: ThreadFactory::new(),
        }
    }

    /// The number of threads, 1 to 32,768. Default: two per core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// What the threads are called: `name-0`, `name-1`, … Default: `workers`. Linux shows the first 15 bytes only.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many accepted tasks may wait for a thread, over all lanes together, at least 1. Running ones do not count, and those
    /// that wait for their [time](Workers::schedule) do.
    /// Default: 65,536. Beyond it tasks are refused; `usize::MAX` means no limit but memory.
    pub fn max_pending(mut self, tasks: usize) -> Self {
        self.pending_max = tasks;
        self
    }

    /// Where [timers](Workers::schedule) get the time from. Default: the system. With a [`ManualClock`](crate::ManualClock) time passes
    /// by hand; threads that sleep do not see that it was moved, so whoever moves it gives them a task.
    ///
    /// ```
    /// use netwright_core::{ManualClock, Workers};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let workers = Workers::builder().threads(1).clock(clock.clone()).build()?;
    /// let mut tea = workers.schedule(Duration::from_secs(240), || "ready")?;
    /// clock.advance(Duration::from_secs(240));
    /// workers.execute(|| ())?; // looks at the clock
    /// assert_eq!(tea.wait()?, "ready");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = std::sync::Arc::new(clock);
        self
    }

    /// How the threads are made. Default: as the system does.
    ///
    /// ```
    /// use netwright_core::{ThreadFactory, Workers};
    ///
    /// let small = ThreadFactory::new().stack_size(128 * 1024);
    /// let workers = Workers::builder().threads(2).thread_factory(small).build()?;
    /// workers.submit(|| ())?.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thread_factory(mut self, threads: ThreadFactory) -> Self {
        self.factory = threads;
        self
    }

    /// Starts the threads, all of them now: a machine that cannot carry them says so here and not under load.
    ///
    /// # Errors
    /// [`WorkersError::Argument`], [`WorkersError::Threads`] and [`WorkersError::Name`] name what was given and what is allowed.
    /// [`WorkersError::Start`]: a thread did not start. Of those before it, the ones that had begun have ended again when this
    /// returns, unless a hook of the [factory](Self::thread_factory) holds them for more than 15 s; the others never begin.
    pub fn build(self) -> Result<Workers, WorkersError> {
        self.build_within(SHUTDOWN_TIMEOUT)
    }

    /// `patience`: how long to wait for threads that have begun, if another does not start.
    pub(super) fn build_within(self, patience: Duration) -> Result<Workers, WorkersError> {
        let threads = self.threads.unwrap_or_else(threads_default);
        check("threads", threads, THREADS_MAX)?;
        check("max_pending", self.pending_max, usize::MAX)?;
        self.factory.validate().map_err(WorkersError::Threads)?;
        if self.name.contains('\0') {
            return Err(WorkersError::Name { got: self.name });
        }

        if let Some(world) = world::current() {
            return Ok(self.build_in(&world, threads));
        }
        let pool = Arc::new(Pool::new(self.name, self.pending_max, self.clock, false));
        let (mut places, mut started) = (Vec::with_capacity(threads), Vec::with_capacity(threads));
        for index in 0..threads {
            let thread = format!("{}-{index}", pool.name());
            let place = Joining::new(&pool);
            places.push(place.clone());
            let (name, factory) = (thread.clone(), self.factory.clone());
            let work = move || {
                // A thread that comes after all was given up.
                let Some(joined) = place.take() else { return };
                factory.begins(&name);
                joined.work(&name);
                factory.ends(&name);
                drop(joined);
            };
            // One that never comes is a thread that has left.
            match self.factory.start(&thread, work, |_| ()) {
                Ok(handle) => started.extend(handle),
                Err(source) => {
                    give_up(&pool, &places, started, patience);
                    return Err(WorkersError::Start { thread, source });
                }
            }
        }
        Ok(Workers { handle: Arc::new(Handle { pool, keyed: KeyedLanes::new(threads) }) })
    }
}

impl WorkersBuilder {
    /// Workers without threads, which that world drives.
    fn build_in(self, world: &std::sync::Arc<dyn World>, threads: usize) -> Workers {
        let clock = std::sync::Arc::new(WorldClock(world.clone()));
        let pool = Arc::new(Pool::new(self.name, self.pending_max, clock, true));
        let handle = Arc::new(Handle { pool: pool.clone(), keyed: KeyedLanes::new(threads) });
        world.take_workers(WorkersBody::new(&pool, threads, self.factory));
        Workers { handle }
    }
}

impl fmt::Debug for WorkersBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkersBuilder")
            .field("threads", &self.threads)
            .field("name", &self.name)
            .field("max_pending", &self.pending_max)
            .field("thread_factory", &self.factory)
            .finish_non_exhaustive()
    }
}

/// A worker's place in the pool until its thread begins.
#[derive(Clone)]
struct Joining(Arc<Mutex<Option<Joined>>>);

impl Joining {
    fn new(pool: &Arc<Pool>) -> Self {
        Self(Arc::new(Mutex::new(Some(Pool::join(pool)))))
    }

    fn take(&self) -> Option<Joined> {
        lock(&self.0).take()
    }
}

/// Ends a pool that has not got all of its threads. Those that have begun had nothing to run and end at once, unless a hook holds
/// them; a spawner of one's own may have the others begin whenever it likes, so nobody waits for them.
fn give_up(pool: &Pool, places: &[Joining], started: Vec<thread::JoinHandle<()>>, patience: Duration) {
    pool.close();
    places.iter().for_each(|place| drop(place.take()));
    match pool.ended.wait_timeout(patience) {
        // What is left of each is its way out; and a body cannot panic.
        Some(Ok(())) => started.into_iter().for_each(|handle| drop(handle.join())),
        Some(Err(_)) => {} // on an event loop nobody waits
        None => tell(|| {
            let threads = pool.figures().threads;
            tracing::warn!(workers = %pool.name(), threads, "threads of workers that could not be built have not ended in time");
        }),
    }
}

fn check(name: &'static str, got: usize, max: usize) -> Result<(), WorkersError> {
    if (1..=max).contains(&got) { Ok(()) } else { Err(WorkersError::Argument { name, got, min: 1, max }) }
}

fn threads_default() -> usize {
    world::cores().saturating_mul(THREADS_PER_CORE).min(THREADS_MAX)
}
