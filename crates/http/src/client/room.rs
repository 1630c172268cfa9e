//! How many streams a connection takes: told by the connection on its loop, looked at by all who want one.

use super::shared::SharedConnections;
use crate::codec::Capacity;
use std::sync::{
    Weak,
    atomic::{AtomicUsize, Ordering},
};

/// How many streams a connection takes.
#[derive(Debug)]
pub(super) struct Room {
    state: AtomicUsize,
    owner: Weak<SharedConnections>,
}

/// The server has not said it yet.
const UNKNOWN: usize = usize::MAX;
/// The connection takes no other stream.
const OVER: usize = usize::MAX - 1;

impl Room {
    pub(super) fn new(owner: Weak<SharedConnections>) -> Self {
        Self { state: AtomicUsize::new(UNKNOWN), owner }
    }

    /// What the connection says.
    pub(super) fn tell(&self, capacity: Capacity) {
        match capacity {
            Capacity::Streams(streams) => {
                let streams = streams.min(OVER - 1);
                let keep = |state| (state != OVER).then_some(streams);
                let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, keep);
            }
            Capacity::Over => self.is_over(),
        }
        if let Some(owner) = self.owner.upgrade() {
            owner.has_room();
        }
    }

    /// The connection takes no other stream.
    pub(super) fn is_over(&self) {
        self.state.store(OVER, Ordering::Release);
    }

    /// How many it takes. Until the server has said it, whoever made the connection is alone on it.
    pub(super) fn streams(&self) -> usize {
        match self.state.load(Ordering::Acquire) {
            UNKNOWN | OVER => 0,
            streams => streams,
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.state.load(Ordering::Acquire) != UNKNOWN
    }

    pub(super) fn is_usable(&self) -> bool {
        self.state.load(Ordering::Acquire) != OVER
    }
}
