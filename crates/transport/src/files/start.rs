//! Where an operation is carried out: by the ring of this thread's loop, or by workers.

use super::{FileError, operation::Operation};
use netwright_core::{RefusedWhy, Workers};
use std::sync::{Arc, Mutex, PoisonError};

/// Begins an operation.
pub(super) fn start(operation: Operation) {
    #[cfg(target_os = "linux")]
    let Some(operation) = crate::uring::start_on_ring(operation) else { return };
    start_on_workers(operation);
}

/// Hands an operation to workers. If they do not take it, it fails, but for a close, which is then done here.
pub(crate) fn start_on_workers(operation: Operation) {
    let workers = match operation.workers().cloned().map_or_else(|| Workers::common().cloned(), Ok) {
        Ok(workers) => workers,
        Err(error) => return refuse(operation, Err(error.to_string())),
    };
    // Shared, because a task that is refused comes back as a closure.
    let operation = Arc::new(Mutex::new(Some(operation)));
    let take = |place: &Mutex<Option<Operation>>| place.lock().unwrap_or_else(PoisonError::into_inner).take();
    let theirs = operation.clone();
    let refused = workers.execute(move || {
        if let Some(operation) = take(&theirs) {
            operation.run();
        }
    });
    if let Err(refused) = refused
        && let Some(operation) = take(&operation)
    {
        refuse(operation, Ok(refused.why));
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
