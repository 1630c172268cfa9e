//! A place among those who wait for a channel, on any thread: for its end, or for room.

use super::handle::WritesTo;
use crate::arena::Key;
use std::task::{Context, Poll};

/// Where somebody's waker is kept. Nothing of it stays behind when the wait is given up.
pub(super) struct Waiting<W> {
    way: WritesTo<W>,
    key: Option<Key>,
}

impl<W> Waiting<W> {
    pub(super) fn new(way: WritesTo<W>) -> Self {
        Self { way, key: None }
    }

    pub(super) fn way(&self) -> &WritesTo<W> {
        &self.way
    }

    /// What `look` finds, or a wake-up when there may be something.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        look: impl Fn(&WritesTo<W>) -> Option<T>,
    ) -> Poll<T> {
        if let Some(found) = look(&self.way) {
            return Poll::Ready(found); // those who need not wait leave nothing behind
        }
        self.way.register(&mut self.key, cx.waker());
        // Look again: what changes after we have registered wakes us, what changed before would not.
        look(&self.way).map_or(Poll::Pending, Poll::Ready)
    }
}

impl<W> Drop for Waiting<W> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.way.unregister(key);
        }
    }
}
