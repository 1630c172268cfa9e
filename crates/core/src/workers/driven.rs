//! Workers that have no threads, because a world drives them.

use super::pool::{Joined, Pool, Turn};
use crate::{sync::Arc, threads::ThreadFactory};
use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    time::Instant,
};

/// The threads of a pool that has none, for the world that drives them. Dropped, the pool ends: what was accepted and has not begun is
/// dropped.
pub struct WorkersBody {
    pool: Arc<Pool>,
    /// Those that have left are gone. One that is locked runs a task, in which it waits for something while the world goes on.
    workers: Vec<Mutex<Option<Worker>>>,
    factory: ThreadFactory,
}

struct Worker {
    name: String,
    joined: Joined,
    turn: Option<Turn>,
}

/// What a worker has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worked {
    /// It has run a task.
    Ran,
    /// There is nothing to do now.
    Idle,
    /// There is nothing to do any more, and it has left.
    Over,
}

impl WorkersBody {
    pub(super) fn new(pool: &Arc<Pool>, threads: usize, factory: ThreadFactory) -> Self {
        let worker = |index| {
            let name = format!("{}-{index}", pool.name());
            factory.begins(&name);
            Mutex::new(Some(Worker { name, joined: Pool::join(pool), turn: None }))
        };
        Self { pool: pool.clone(), workers: (0..threads).map(worker).collect(), factory }
    }

    /// What the pool is called.
    pub fn name(&self) -> &str {
        self.pool.name()
    }

    /// How many workers there are.
    #[allow(clippy::len_without_is_empty)] // there is at least one
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether there may be something to do that there was not when this was last asked.
    pub fn take_news(&self) -> bool {
        self.pool.take_stir()
    }

    /// When there may be something to do, if nothing else happens, by the pool's clock.
    pub fn next_timer(&self) -> Option<Instant> {
        self.pool.next_look()
    }

    /// Whether all workers have left.
    pub fn is_over(&self) -> bool {
        self.workers.iter().all(|worker| try_lock(worker).is_some_and(|worker| worker.is_none()))
    }

    /// Has one of the workers run one task, if there is one for it. One that is within a task already is idle.
    pub fn work(&self, index: usize) -> Worked {
        self.pool.judge_overdue();
        let Some(worker) = self.workers.get(index) else { return Worked::Over };
        let Some(mut place) = try_lock(worker) else { return Worked::Idle };
        let Some(worker) = &mut *place else { return Worked::Over };
        match worker.joined.work_once(&worker.name, &mut worker.turn) {
            Some(true) => Worked::Ran,
            Some(false) => Worked::Idle,
            None => {
                self.factory.ends(&worker.name);
                let left = place.take();
                drop((place, left));
                Worked::Over
            }
        }
    }
}

fn try_lock(worker: &Mutex<Option<Worker>>) -> Option<MutexGuard<'_, Option<Worker>>> {
    match worker.try_lock() {
        Ok(worker) => Some(worker),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Drop for WorkersBody {
    fn drop(&mut self) {
        self.pool.end_now();
        // A worker holds its lane also between two tasks, so what waits there is in no queue.
        for worker in &mut self.workers {
            if let Some(worker) = worker.get_mut().unwrap_or_else(PoisonError::into_inner) {
                worker.joined.let_go(&mut worker.turn);
            }
        }
    }
}

impl fmt::Debug for WorkersBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkersBody")
            .field("name", &self.name())
            .field("workers", &self.len())
            .finish_non_exhaustive()
    }
}
