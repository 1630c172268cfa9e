//! The end of a pool, as something to wait for.
//!
//! Always true: waiting never blocks a thread that the end itself depends on, nor an event loop.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    error::ShutdownError,
    pool::{Pool, is_worker_of},
};
use crate::{promise::SharedPromised, sync::Arc};

/// Resolves when a pool has ended: every accepted task has run and every thread has left its work.
///
/// Await it, from any runtime or loop, or [`wait`](Self::wait) for it on a thread that may block. It keeps no pool
/// alive. From [`Workers::shutdown_gracefully`](super::Workers::shutdown_gracefully) it also resolves, with
/// [`ShutdownError::Overdue`], when the time given there has passed.
///
/// ```
/// use netwright_core::Workers;
/// use std::time::Duration;
///
/// let workers = Workers::new(2)?;
/// workers.execute(|| println!("still runs"))?;
/// workers.shutdown_gracefully(Duration::from_secs(15)).wait()?; // or `.await`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct WorkersTermination {
    outcome: SharedPromised<(), ShutdownError>,
    /// Only to recognise its workers. Handles keep a pool open, this does not.
    pool: Arc<Pool>,
}

impl WorkersTermination {
    pub(super) fn new(pool: &Arc<Pool>, outcome: &SharedPromised<(), ShutdownError>) -> Self {
        Self { outcome: outcome.clone(), pool: Arc::clone(pool) }
    }

    /// Blocks until the pool has ended.
    ///
    /// # Errors
    /// [`ShutdownError::WouldBlockWorker`] on a worker of this pool and [`ShutdownError::WouldBlockLoop`] on an event
    /// loop, both at once; [`ShutdownError::Overdue`] as described above.
    pub fn wait(&self) -> Result<(), ShutdownError> {
        if is_worker_of(&self.pool) {
            return Err(ShutdownError::WouldBlockWorker);
        }
        self.outcome.wait()
    }

    /// Like [`wait`](Self::wait), for at most `timeout`. `None`: not yet.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Result<(), ShutdownError>> {
        if is_worker_of(&self.pool) {
            return Some(Err(ShutdownError::WouldBlockWorker));
        }
        self.outcome.wait_timeout(timeout)
    }
}

impl Future for WorkersTermination {
    type Output = Result<(), ShutdownError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome).poll(cx)
    }
}

impl fmt::Debug for WorkersTermination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkersTermination").field("workers", &self.pool.name()).finish_non_exhaustive()
    }
}
