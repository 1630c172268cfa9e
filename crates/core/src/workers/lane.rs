//! Order where it is wanted: the tasks of one lane run one after the other, on whichever thread is free.
//!
//! ```text
//!   lane a  [a3][a2] ─┐                        ┌ worker-0: a1
//!   lane b  [b2]     ─┼─► ready: a waits its ──┤
//!   no lane           ┘   turn, x is next      └ worker-1: b1
//! ```
//! Always true between calls (the pool's lock guards every lane's queue):
//! 1. `busy` says that the lane is in the ready queue or in the hands of one worker, never both, never two.
//! 2. A lane with tasks is busy. A lane without tasks that is not running is in no queue and costs no thread.
//! 3. Tasks leave from the front, one at a time, and the next leaves only when the one before has ended.
//!
//! Not here: threads and limits (`pool`).

use std::{
    collections::VecDeque,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{
    Handle,
    job::{Job, Plain, Reporting},
};
use crate::{
    promise::{Promised, promise},
    refused::Refused,
    sync::{Arc, Mutex, lock},
    task_error::TaskError,
    world,
};

/// How many tasks of one lane a worker runs in a row before the lane queues up behind the others.
///
/// Going on with the same lane keeps its data in the cache and saves a trip through the ready queue, which pays only
/// for tasks of microseconds; sixteen of those are over before anybody notices. For tasks that block for milliseconds
/// a larger number would only add to the wait of the lanes behind.
pub(super) const LANE_TURN_MAX: usize = 16;

/// An ordered queue in front of a pool: its tasks run one at a time, in the order in which they were accepted.
///
/// Made by [`Workers::lane`](super::Workers::lane), one per connection or per whatever must not overtake itself. An
/// idle lane holds no thread; a busy one moves from thread to thread, and after 16 tasks in a row lets the other
/// lanes go first. What one task wrote, the next one sees, whichever threads they run on. Clones are the same lane.
///
/// Two threads that offer tasks at the same time are ordered by whose call gets there first. A task may offer tasks
/// to its own lane, but must not block on their result: it would wait for a task that waits for it.
///
/// ```
/// use std::sync::mpsc;
/// use netwright_core::Workers;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workers = Workers::new(4)?;
/// let lane = workers.lane();
/// let (sender, receiver) = mpsc::channel();
/// for n in 0..100 {
///     let sender = sender.clone();
///     lane.execute(move || sender.send(n).unwrap())?;
/// }
/// drop(sender);
/// assert!(receiver.iter().eq(0..100));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lane {
    pub(super) handle: Arc<Handle>,
    pub(super) queue: Arc<LaneQueue>,
}

impl Lane {
    /// Runs `task` after every task that this lane accepted before it.
    ///
    /// # Errors
    /// The task comes back if the pool is full or shut down; see [`Refused`].
    pub fn execute<F>(&self, task: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let pushed = self.handle.pool.push(Some(&self.queue), Box::new(Plain { task }));
        pushed.map_err(|(job, why)| Refused::new(job.task, why))
    }

    /// Like [`execute`](Self::execute), and promises what `task` returns, or that it panicked.
    ///
    /// # Errors
    /// The task comes back if the pool is full or shut down; see [`Refused`].
    pub fn submit<F, T>(&self, task: F) -> Result<Promised<T, TaskError>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (promise, promised) = promise();
        match self.handle.pool.push(Some(&self.queue), Box::new(Reporting { task, promise })) {
            Ok(()) => Ok(promised),
            Err((job, why)) => Err(Refused::new(job.task, why)),
        }
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("workers", &self.handle.pool.name()).finish_non_exhaustive()
    }
}

/// What waits in one lane. The pool's lock is held around every call, so this one is never contended: it is there
/// because the compiler cannot know that.
pub(super) struct LaneQueue {
    inner: Mutex<Inner>,
}

struct Inner {
    tasks: VecDeque<Box<dyn Job>>,
    busy: bool,
}

impl LaneQueue {
    pub(super) fn new() -> Self {
        Self { inner: Mutex::new(Inner { tasks: VecDeque::new(), busy: false }) }
    }

    /// Adds a task. True if the lane was idle and the caller now has to put it into the ready queue.
    pub(super) fn push(&self, job: Box<dyn Job>) -> bool {
        let mut inner = lock(&self.inner);
        inner.tasks.push_back(job);
        !std::mem::replace(&mut inner.busy, true)
    }

    /// The next task, for the worker that holds the lane. `None`: the lane is idle now and no longer held.
    pub(super) fn pop(&self) -> Option<Box<dyn Job>> {
        let mut inner = lock(&self.inner);
        let job = inner.tasks.pop_front();
        if job.is_none() {
            inner.busy = false;
            // A burst must not stay paid for: one lane per connection makes many idle lanes.
            inner.tasks.shrink_to(LANE_TURN_MAX);
        }
        job
    }

    /// Whether nothing waits here.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.inner).tasks.is_empty()
    }
}

/// The fixed set of lanes behind [`Workers::execute_keyed`](super::Workers::execute_keyed).
pub(super) struct KeyedLanes {
    lanes: Box<[Arc<LaneQueue>]>,
    /// Seeded per pool: keys often come from peers, who must not be able to aim them all at one lane.
    secret: u64,
}

/// Lanes per thread. At most as many keys as there are threads run at once, so a key that is due shares its lane with
/// a running one in about one case of sixteen; more would cost memory (less than 100 bytes each) and gain little.
const KEYED_LANES_PER_THREAD: usize = 16;

impl KeyedLanes {
    pub(super) fn new(threads: usize) -> Self {
        let lanes = threads * KEYED_LANES_PER_THREAD;
        Self { lanes: (0..lanes).map(|_| Arc::new(LaneQueue::new())).collect(), secret: world::random() }
    }

    /// The lane of `key`: the same for equal keys. Hashing is the caller's code, so no lock may be held.
    pub(super) fn of<K: Hash + ?Sized>(&self, key: &K) -> &Arc<LaneQueue> {
        // The remainder is below the number of lanes, so it fits.
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.secret);
        key.hash(&mut hasher);
        let at = hasher.finish() % self.lanes.len() as u64;
        &self.lanes[at as usize]
    }
}
