//! How a loop waits while its driver cannot: for a task, or until it is time to try the driver again.
//!
//! The thread parks. Whoever wakes the loop uses the driver's waker, which may wake nobody now, and ends the nap as well.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

#[derive(Default)]
pub(crate) struct Nap {
    /// Spares who wakes a loop that does not nap, which is all but always, the lock.
    taken: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Nap {
    /// To be called before the loop announces that it sleeps: who finds it asleep has to find its thread here.
    pub(super) fn lie_down(&self) -> Lying<'_> {
        *self.thread() = Some(thread::current());
        self.taken.store(true, Ordering::Release);
        Lying { nap: self }
    }

    /// From any thread.
    pub(super) fn end(&self) {
        if self.taken.load(Ordering::Acquire)
            && let Some(thread) = &*self.thread()
        {
            thread.unpark();
        }
    }

    fn thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that is about to nap, or naps.
pub(super) struct Lying<'a> {
    nap: &'a Nap,
}

impl Lying<'_> {
    /// Sleeps for `time`, or less: somebody may have ended the nap already, or another.
    pub(super) fn sleep(&self, time: Duration) {
        thread::park_timeout(time);
    }
}

impl Drop for Lying<'_> {
    fn drop(&mut self) {
        self.nap.taken.store(false, Ordering::Release);
        *self.nap.thread() = None;
    }
}
