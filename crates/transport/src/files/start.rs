//! Where an operation is carried out: by the ring of this thread's loop, or by workers.

use super::{FileError, operation::Operation};
use netwright_core::{RefusedWhy, Workers};
use std::sync::{Arc, Mutex, PoisonError};

/// Begins an operation.
pub(super) fn start(operation: Operation) {
    #[cfg(all(target_os = "linux", feature = "uring"))]
    let Some(operation) = crate::uring::start_on_ring(operation) else { return };
    start_on_workers(operation);
}

/// Hands an operation to workers. If they do not take it, or end before its turn, it fails, but for a close, which is then done here.
pub(crate) fn start_on_workers(operation: Operation) {
    let workers = match operation.workers().cloned().map_or_else(Workers::common, Ok) {
        Ok(workers) => workers,
        Err(error) => return refuse(operation, Err(error.to_string())),
    };
    // Shared, because a task that is refused comes back as a closure.
    let ours = Arc::new(Handed(Mutex::new(Some(operation))));
    let theirs = Accepted(ours.clone());
    let refused = workers.execute(move || {
        if let Some(operation) = theirs.0.take() {
            operation.run();
        }
    });
    if let Err(refused) = refused
        && let Some(operation) = ours.take()
    {
        refuse(operation, Ok(refused.why));
    }
}

/// An operation that somebody may begin.
struct Handed(Mutex<Option<Operation>>);

impl Handed {
    fn take(&self) -> Option<Operation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What workers hold of an operation. They drop it without a word if they end before its turn, and whoever waits is to know of what.
struct Accepted(Arc<Handed>);

impl Drop for Accepted {
    fn drop(&mut self) {
        if let Some(operation) = self.0.take() {
            refuse(operation, Ok(RefusedWhy::ShutDown));
        }
    }
}

#[cold]
fn refuse(mut operation: Operation, why: Result<RefusedWhy, String>) {
    if operation.is_close() {
        return operation.run();
    }
    let (action, path) = (operation.work.action(), operation.work.path().clone());
    operation.tell(Err(match why {
        Ok(why) => FileError::Refused { action, path, why },
        Err(why) => FileError::NoWorkers { action, path, why },
    }));
}
