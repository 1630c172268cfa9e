//! Connections that are being opened on this thread's loop, so that a cancel from another thread finds its own.

use std::{cell::RefCell, collections::BTreeMap};

thread_local! {
    /// How each of them is given up.
    static ATTEMPTS: RefCell<BTreeMap<u64, Box<dyn FnOnce()>>> = RefCell::default();
}

/// An attempt that can be given up until this is dropped.
pub(super) struct Attempt(u64);

impl Attempt {
    /// One that is begun; see [`on_abandon`](Self::on_abandon).
    pub(super) fn new(id: u64) -> Self {
        Self(id)
    }

    /// What is to be done if it is given up.
    pub(super) fn on_abandon(id: u64, give_up: impl FnOnce() + 'static) {
        ATTEMPTS.with_borrow_mut(|attempts| attempts.insert(id, Box::new(give_up)));
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let _ = ATTEMPTS.try_with(|attempts| {
            let removed = attempts.try_borrow_mut().ok().and_then(|mut attempts| attempts.remove(&self.0));
            drop(removed); // it holds what others made
        });
    }
}

/// Gives an attempt of the calling thread's loop up; nobody is told.
pub(super) fn abandon(id: u64) {
    let give_up = ATTEMPTS.with_borrow_mut(|attempts| attempts.remove(&id));
    if let Some(give_up) = give_up {
        give_up();
    }
}
