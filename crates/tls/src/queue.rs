//! What was written and not encrypted yet: until the flush, until the handshake is done, until there is room for more of a
//! file.
//!
//! ```text
//!   take ◀── [file][m1][m2]   |   [m3] ◀── push
//!             flushed             waits for a flush, may be cancelled
//! ```

use netwright_core::{Outgoing, WriteError, WritePromise};
use std::{cell::RefCell, collections::VecDeque};

pub(crate) struct Entry {
    pub(crate) message: Outgoing,
    pub(crate) done: WritePromise,
    /// What it was counted as while it waited.
    pub(crate) counted: usize,
}

#[derive(Default)]
pub(crate) struct Queue {
    entries: VecDeque<Entry>,
    flushed: usize,
}

/// Places that an empty queue leaves to the next one on its thread.
const KEPT: usize = 64;

thread_local! {
    static SPARE: RefCell<VecDeque<Entry>> = const { RefCell::new(VecDeque::new()) };
}

impl Queue {
    pub(crate) fn push(&mut self, entry: Entry) {
        if self.entries.capacity() == 0 {
            self.entries = SPARE.take();
        }
        self.entries.push_back(entry);
    }

    pub(crate) fn flush(&mut self) {
        self.flushed = self.entries.len();
    }

    pub(crate) fn has_flushed(&self) -> bool {
        self.flushed > 0
    }

    /// The next message that may be sent.
    pub(crate) fn take(&mut self) -> Option<Entry> {
        if self.flushed == 0 {
            return None;
        }
        self.flushed -= 1;
        let entry = self.entries.pop_front();
        if self.entries.is_empty() && self.entries.capacity() <= KEPT {
            SPARE.replace(std::mem::take(&mut self.entries));
        }
        entry
    }

    /// The rest of a message, to be sent before all others.
    pub(crate) fn put_back(&mut self, entry: Entry) {
        self.flushed += 1;
        self.entries.push_front(entry);
    }

    /// None of these will be sent. Gives how many bytes they were counted as.
    pub(crate) fn fail_all(&mut self, error: &WriteError) -> usize {
        self.flushed = 0;
        let mut counted = 0;
        for Entry { message, done, counted: bytes } in std::mem::take(&mut self.entries) {
            counted += bytes;
            drop(message);
            done.fail(error.clone());
        }
        counted
    }
}
