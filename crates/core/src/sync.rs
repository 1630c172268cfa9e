//! The atomics, locks and threads that our own concurrent code uses: `std`'s, or loom's when a model is checked.
//!
//! Everything that two threads touch at once goes through here, so that the code that loom explores is the code that
//! ships. `RUSTFLAGS="--cfg loom"` switches over.

#[cfg(not(loom))]
pub(crate) use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Locks and carries on if another thread panicked while holding the lock: what our locks guard is valid between any
/// two statements, so poison carries no news.
#[cfg(not(loom))]
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// See the `std` version.
#[cfg(loom)]
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
