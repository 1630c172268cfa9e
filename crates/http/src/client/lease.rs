//! What a request has of a connection: all of it, or one of its streams.

use super::{ask::Ask, room::Room, shared::SharedConnections};
use netwright_core::{Channel, CloseCause};
use netwright_transport::Pooled;
use std::{
    ops::Deref,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

/// What a request has of a connection until its reply has come.
pub(super) enum Lease {
    /// All of it: HTTP/1.1.
    Whole(Pooled<Ask>),
    /// One stream, beside others: HTTP/2.
    Stream(StreamLease),
}

impl Lease {
    /// Whether nobody has used the connection before.
    pub(super) fn is_fresh(&self) -> bool {
        match self {
            Self::Whole(pooled) => pooled.is_fresh(),
            Self::Stream(stream) => stream.first,
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Nobody is to use the connection any more. Of a shared one only the stream is given back: what becomes of it is for those to say
    /// who share it.
    pub(super) fn discard(self) {
        if let Self::Whole(pooled) = self {
            pooled.discard();
        }
    }

    /// The connection took no stream: it gets no other one.
    pub(super) fn is_of_no_use(&self) {
        if let Self::Stream(stream) = self {
            stream.connection.room.is_over();
        }
    }

    /// Why the connection ended, if it did.
    pub(super) fn ended_by(&self) -> CloseCause {
        self.close_cause().unwrap_or(CloseCause::Requested)
    }
}

impl Deref for Lease {
    type Target = Channel<Ask>;

    fn deref(&self) -> &Channel<Ask> {
        match self {
            Self::Whole(pooled) => pooled,
            Self::Stream(stream) => stream.connection.channel(),
        }
    }
}

impl From<Pooled<Ask>> for Lease {
    fn from(pooled: Pooled<Ask>) -> Self {
        Self::Whole(pooled)
    }
}

/// One stream of a shared connection.
pub(super) struct StreamLease {
    connection: Arc<Shared>,
    /// It is the first one.
    first: bool,
}

impl StreamLease {
    /// For a stream that is counted already.
    pub(super) fn new(connection: Arc<Shared>, first: bool) -> Self {
        Self { connection, first }
    }
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        self.connection.open.fetch_sub(1, Ordering::AcqRel);
        if let Some(owner) = self.connection.owner.upgrade() {
            owner.has_room();
        }
    }
}

/// A connection that many requests use at a time. It is on loan from its pool for as long as anybody has it, and closed then; or until it
/// ends, because replies that came before are read for as long as their readers need.
pub(super) struct Shared {
    channel: Channel<Ask>,
    pooled: Mutex<Option<Pooled<Ask>>>,
    pub(super) room: Arc<Room>,
    pub(super) since: Instant,
    /// Streams that requests have.
    pub(super) open: AtomicUsize,
    owner: Weak<SharedConnections>,
}

impl Shared {
    /// With one stream, for whoever has made it.
    pub(super) fn new(
        pooled: Pooled<Ask>,
        room: Arc<Room>,
        since: Instant,
        owner: Weak<SharedConnections>,
    ) -> Self {
        let channel = (*pooled).clone();
        Self { channel, pooled: Mutex::new(Some(pooled)), room, since, open: AtomicUsize::new(1), owner }
    }

    pub(super) fn channel(&self) -> &Channel<Ask> {
        &self.channel
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// How many streams more it takes.
    pub(super) fn free(&self) -> usize {
        self.room.streams().saturating_sub(self.open())
    }

    /// Gives its place in the pool to another connection.
    pub(super) fn let_go(&self) {
        let pooled = self.pooled.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(pooled) = pooled {
            pooled.discard();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.let_go();
    }
}
