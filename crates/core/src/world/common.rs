//! What a process has once, and each process of a world once as well.

use crate::workers::Workers;
use std::sync::{Mutex, PoisonError};

/// The things of which a process has one: made when they are first asked for. A world has one of these for each process that it plays.
///
/// ```
/// let common = netwright_core::world::Common::default();
/// common.end(); // nothing had been made
/// ```
#[derive(Default)]
pub struct Common {
    workers: Mutex<Option<Workers>>,
}

impl Common {
    /// The [common workers](Workers::common).
    pub(crate) fn workers<E>(&self, make: impl FnOnce() -> Result<Workers, E>) -> Result<Workers, E> {
        if let Some(workers) = &*self.lock() {
            return Ok(workers.clone());
        }
        let made = make()?; // asks the world, which may hold locks of its own
        Ok(self.lock().get_or_insert(made).clone())
    }

    /// Lets go of everything: the process is over.
    pub fn end(&self) {
        let workers = self.lock().take();
        drop(workers);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Workers>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
