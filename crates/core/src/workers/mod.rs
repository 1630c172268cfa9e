//! Threads for handlers that block, so that event loops never have to.
//!
//! ```text
//!   Workers ── execute ──────────────► any thread, any order
//!      ├── lane() ── execute ────────► any thread, one at a time, in order
//!      ├── execute_keyed(key) ───────► the lane that the key falls on
//!      └── schedule(delay) ──────────► any thread, when its time has come
//!
//!   open ── shutdown_gracefully, or the last handle dropped ──► closed ── last task over ──► ended
//! ```
//! Always true:
//! 1. A task is accepted or handed back ([`Refused`]), and an accepted task runs, once, even through a shutdown; only
//!    its own promise can cancel it. A task for later is dropped by a shutdown that comes before its time, and its promise says
//!    so; one that has not begun is dropped by [`shutdown_now`](Workers::shutdown_now).
//! 2. The tasks of a lane run one at a time, in the order of acceptance. Lanes run side by side.
//! 3. A panic costs its own task and nothing else.
//! 4. No thread outlives its work: without handles, and without tasks, the threads end.
//!
//! Netty's counterpart is a `DefaultEventExecutorGroup` behind `NonStickyEventExecutorGroup`: order belongs to the lane
//! and not to a thread, so one slow connection does not hold up those that happen to share its thread.
//!
//! | file | what |
//! | --- | --- |
//! | `builder` | threads, names, limits |
//! | `lane` | order, fairness, keys |
//! | `pool` | the lock, the ready queue, the threads |
//! | `sleepers` | who sleeps, who was called |
//! | `driven` | the threads of a pool that a world drives |
//! | `job` | one accepted task, with or without a promise |
//! | `timers` | tasks for later, once or again and again |
//! | `termination` | waiting for the end |
//!
//! Not here: I/O (event loops), CPU-bound parallelism (a work-stealing pool does that better).

mod builder;
mod driven;
mod error;
mod job;
mod lane;
#[cfg(all(test, not(loom)))]
mod later_tests;
#[cfg(all(test, loom))]
mod loom_tests;
mod pool;
mod sleepers;
mod termination;
#[cfg(all(test, not(loom)))]
mod tests;
mod timers;

use std::{fmt, hash::Hash, time::Duration};

pub use self::{
    builder::WorkersBuilder,
    driven::{Worked, WorkersBody},
    error::{ShutdownError, WorkersError},
    lane::Lane,
    termination::WorkersTermination,
};
use self::{
    job::{Plain, Reporting},
    lane::{KeyedLanes, LaneQueue},
    pool::Pool,
    timers::{Repeating, Ticket},
};
use crate::{
    event_loop::{Period, Scheduled},
    promise::{Promised, promise},
    refused::{Refused, RefusedWhy},
    sync::Arc,
    task_error::TaskError,
    world::{self, Common},
};

/// A pool of threads for work that blocks: file systems, databases, old libraries, heavy computing now and then.
///
/// A handle: clones are the same pool. When the last handle is gone, [`Lane`]s included, the pool takes care of
/// itself: what was accepted still runs, then the threads end.
///
/// Tasks have no order among each other unless they share a [`lane`](Self::lane) or a
/// [key](Self::execute_keyed). All threads start when the pool is built.
///
/// ```
/// use std::time::Duration;
/// use netwright_core::{TaskError, Workers};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workers = Workers::new(4)?;
///
/// let mut sum = workers.submit(|| (1..=10).sum::<u32>())?;
/// assert_eq!(sum.wait()?, 55);
///
/// let mut broken = workers.submit(|| -> u32 { panic!("no such row") })?;
/// assert_eq!(broken.wait(), Err(TaskError::Panicked("no such row".into())));
///
/// workers.shutdown_gracefully(Duration::from_secs(15)).wait()?;
/// assert_eq!(workers.figures().completed, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Workers {
    handle: Arc<Handle>,
}

/// What a user holds of a pool. The workers hold the pool itself, so that this one's end closes it.
struct Handle {
    pool: Arc<Pool>,
    keyed: KeyedLanes,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.pool.close();
    }
}

impl Workers {
    /// A pool of that many threads, otherwise as [`builder`](Self::builder) makes it.
    ///
    /// # Errors
    /// As [`WorkersBuilder::build`]; in particular `threads` is at least 1.
    pub fn new(threads: usize) -> Result<Self, WorkersError> {
        Self::builder().threads(threads).build()
    }

    /// Two threads per core, called `workers-0` and so on, with at most 65,536 tasks waiting, unless told otherwise.
    pub fn builder() -> WorkersBuilder {
        WorkersBuilder::new()
    }

    /// The workers of the whole process, for whoever has none of his own: made when first asked for, as
    /// [`builder`](Self::builder) makes them, and never ended.
    ///
    /// # Errors
    /// The system had no threads for them; asking again tries again.
    pub fn common() -> Result<Self, WorkersError> {
        static COMMON: std::sync::OnceLock<Common> = std::sync::OnceLock::new();
        let make = || Self::builder().name("common").build();
        match world::current() {
            Some(world) => world.common().workers(make),
            None => COMMON.get_or_init(Common::default).workers(make),
        }
    }

    /// Runs `task` on any thread, in no order with others.
    ///
    /// # Errors
    /// The task comes back if the pool is full or shut down; see [`Refused`].
    pub fn execute<F>(&self, task: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.handle
            .pool
            .push(None, Box::new(Plain { task }))
            .map_err(|(job, why)| Refused::new(job.task, why))
    }

    /// Runs `task` on any thread and promises what it returns, or that it panicked.
    ///
    /// A task must not block on the promise of another task of the same pool: with every thread waiting like that,
    /// none is left to do the work. A task that is [cancelled](Promised::cancel) before it starts is dropped when its
    /// time comes, and counts as pending until then. Dropping the promise does not stop the task.
    ///
    /// # Errors
    /// The task comes back if the pool is full or shut down; see [`Refused`].
    pub fn submit<F, T>(&self, task: F) -> Result<Promised<T, TaskError>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (promise, promised) = promise();
        match self.handle.pool.push(None, Box::new(Reporting { task, promise })) {
            Ok(()) => Ok(promised),
            Err((job, why)) => Err(Refused::new(job.task, why)),
        }
    }

    /// Runs `task` on any thread after `delay`, and promises what it returns: never early, late by some two milliseconds and what
    /// the threads are busy with. A delay too long to be named never ends.
    ///
    /// The time is that of the pool's [clock](WorkersBuilder::clock), which is the system's; a thread of the pool that has nothing
    /// to do keeps it, so a timer costs no thread and no event loop. Until then the task counts against
    /// [`max_pending`](WorkersBuilder::max_pending). A shutdown drops what is not due by then, and the handle says
    /// [`TaskError::Abandoned`].
    ///
    /// ```
    /// use netwright_core::{TaskError, Workers};
    /// use std::time::Duration;
    ///
    /// let workers = Workers::new(2)?;
    /// let mut soon = workers.schedule(Duration::from_millis(1), || 6 * 7)?;
    /// assert_eq!(soon.wait(), Ok(42));
    ///
    /// let mut never = workers.schedule(Duration::from_secs(3600), || ())?;
    /// assert!(never.cancel());
    /// assert_eq!(never.wait(), Err(TaskError::Cancelled));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The task comes back if the pool is full or shut down; see [`Refused`].
    pub fn schedule<F, T>(&self, delay: Duration, task: F) -> Result<Scheduled<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let pool = &self.handle.pool;
        let deadline = pool.clock.now().checked_add(delay);
        let (promise, promised) = promise();
        let ticket = Ticket::new(pool);
        match pool.schedule(deadline, &ticket, Box::new(Reporting { task, promise })) {
            Ok(()) => Ok(Scheduled::new(promised, ticket)),
            Err((job, why)) => Err(Refused::new(job.task, why)),
        }
    }

    /// Runs `task` every `period`, counted from deadline to deadline, one run at a time. After a stall the runs that were missed
    /// follow one another without a pause. A panic ends it.
    ///
    /// # Errors
    /// The task comes back if the period is zero, or the pool is full or shut down; see [`Refused`].
    pub fn schedule_at_fixed_rate<F: FnMut() + Send + 'static>(
        &self,
        initial: Duration,
        period: Duration,
        task: F,
    ) -> Result<Scheduled<()>, Refused<F>> {
        self.repeat(initial, Period::Rate(period), task)
    }

    /// Runs `task` again and again with a pause of `delay` after the end of each run. A panic ends it.
    ///
    /// # Errors
    /// The task comes back if the delay is zero, or the pool is full or shut down; see [`Refused`].
    pub fn schedule_with_fixed_delay<F: FnMut() + Send + 'static>(
        &self,
        initial: Duration,
        delay: Duration,
        task: F,
    ) -> Result<Scheduled<()>, Refused<F>> {
        self.repeat(initial, Period::Delay(delay), task)
    }

    fn repeat<F: FnMut() + Send + 'static>(
        &self,
        initial: Duration,
        period: Period,
        task: F,
    ) -> Result<Scheduled<()>, Refused<F>> {
        if period.is_zero() {
            return Err(Refused::new(task, RefusedWhy::ZeroPeriod));
        }
        let pool = &self.handle.pool;
        let deadline = pool.clock.now().checked_add(initial);
        let (promise, promised) = promise();
        let ticket = Ticket::new(pool);
        let job = Box::new(Repeating { task, period, deadline, ticket: ticket.clone(), promise });
        match pool.schedule(deadline, &ticket, job) {
            Ok(()) => Ok(Scheduled::new(promised, ticket)),
            Err((job, why)) => Err(Refused::new(job.task, why)),
        }
    }

    /// A new lane: its tasks run one at a time, in order. It costs some memory, no thread.
    pub fn lane(&self) -> Lane {
        Lane { handle: Arc::clone(&self.handle), queue: Arc::new(LaneQueue::new()) }
    }

    /// The lane that `key` falls on: one of a fixed set, 16 per thread, the same one for equal keys.
    ///
    /// Different keys may fall on the same lane, and then wait for each other as if they were equal; where that
    /// matters, keep a [`lane`](Self::lane) of your own. Which keys meet differs from pool to pool.
    pub fn lane_for<K: Hash + ?Sized>(&self, key: &K) -> Lane {
        Lane { handle: Arc::clone(&self.handle), queue: Arc::clone(self.handle.keyed.of(key)) }
    }

    /// Runs `task` after every task that was accepted before it for an equal key; see [`lane_for`](Self::lane_for).
    ///
    /// # Errors
    /// The task comes back if the pool is full or shut down; see [`Refused`].
    pub fn execute_keyed<K, F>(&self, key: &K, task: F) -> Result<(), Refused<F>>
    where
        K: Hash + ?Sized,
        F: FnOnce() + Send + 'static,
    {
        let lane = self.handle.keyed.of(key);
        let pushed = self.handle.pool.push(Some(lane), Box::new(Plain { task }));
        pushed.map_err(|(job, why)| Refused::new(job.task, why))
    }

    /// Accepts no more tasks, runs those accepted, then ends the threads.
    ///
    /// The termination resolves with that end, or with [`ShutdownError::Overdue`] if tasks are left when `timeout`
    /// has passed. The timeout bounds the wait and not the work: a thread cannot be stopped from outside, and a task
    /// that was accepted is not dropped, so the rest still runs and [`termination`](Self::termination) tells when it
    /// is over. A process that does not care may exit. `Duration::MAX` waits for ever.
    ///
    /// A second call gives the same termination; its timeout is ignored. May be called from anywhere, a task of this
    /// pool included: it does not block.
    pub fn shutdown_gracefully(&self, timeout: Duration) -> WorkersTermination {
        let pool = &self.handle.pool;
        Pool::shut_down(pool, timeout);
        WorkersTermination::new(pool, &pool.shutdown)
    }

    /// Accepts no more tasks and drops those that have not begun, so that their promises say [`TaskError::Abandoned`]; then ends the
    /// threads. Tasks that run cannot be stopped and come to their end, and what waits behind one of them in its lane is dropped
    /// by then. The termination resolves with the last of them.
    ///
    /// ```
    /// use netwright_core::Workers;
    ///
    /// let workers = Workers::new(1)?;
    /// workers.shutdown_now().wait()?;
    /// assert!(workers.execute(|| ()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_now(&self) -> WorkersTermination {
        self.handle.pool.end_now();
        self.termination()
    }

    /// Resolves when the pool has really ended, however long that takes; it starts nothing itself.
    pub fn termination(&self) -> WorkersTermination {
        let pool = &self.handle.pool;
        WorkersTermination::new(pool, &pool.ended)
    }

    /// What the pool is doing at this moment.
    pub fn figures(&self) -> WorkersFigures {
        self.handle.pool.figures()
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pool = &self.handle.pool;
        f.debug_struct("Workers").field("name", &pool.name()).field("figures", &pool.figures()).finish()
    }
}

/// A pool at one moment. `pending + scheduled + running + completed + panics + cancelled` is the number of tasks ever accepted,
/// each run of one that repeats by itself, and a task whose result has arrived is counted by then.
///
/// ```
/// use netwright_core::Workers;
///
/// let workers = Workers::new(2)?;
/// workers.submit(|| ())?.wait()?;
/// let figures = workers.figures();
/// assert_eq!((figures.threads, figures.pending, figures.panics), (2, 0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkersFigures {
    /// Tasks that wait for a thread.
    pub pending: usize,
    /// Tasks that wait for their time.
    pub scheduled: usize,
    /// Tasks that run now.
    pub running: usize,
    /// Tasks that returned.
    pub completed: u64,
    /// Tasks that panicked.
    pub panics: u64,
    /// Tasks that were cancelled before they started, and those that the end of the pool left no time for.
    pub cancelled: u64,
    /// Threads that have not ended, busy or not.
    pub threads: usize,
}
