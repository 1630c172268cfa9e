//! How a loop waits while its driver cannot: for a task, or until it is time to try the driver again.
//!
//! The thread parks. Whoever wakes the loop uses the driver's waker, which may wake nobody now, and ends the nap as well.

use crate::sync::lock;
use std::{
    sync::{
        Mutex,
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
        *lock(&self.thread) = Some(thread::current());
        self.taken.store(true, Ordering::Release);
        Lying { nap: self }
    }

    /// From any thread.
    pub(super) fn end(&self) {
        if self.taken.load(Ordering::Acquire)
            && let Some(thread) = &*lock(&self.thread)
        {
            thread.unpark();
        }
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
        *lock(&self.nap.thread) = None;
    }
}
