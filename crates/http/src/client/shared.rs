//! The connections of one origin that speak HTTP/2, and who waits for a stream.
//!
//! ```text
//!   find ──▶ a connection with a stream free ─────────────────────────▶ that stream
//!        ├─▶ it is known that the origin speaks HTTP/1.1 ─────────────▶ a connection of its own, from the pool
//!        ├─▶ nobody makes a connection, and there may be one more ────▶ make one; when it is known what it speaks, the others go on
//!        └─▶ wait: for a stream, for what a new connection speaks, or for its failure
//! ```
//! Always true:
//! 1. One connection is made at a time until it is known what the origin speaks, and from then on if that is HTTP/2.
//! 2. A connection has as many streams as requests have leases of it, and never more than the server takes.
//! 3. Who comes later does not get ahead of those who wait.
//! 4. Nothing is dropped, and nobody woken, under the lock.

use super::{
    WebClientError,
    ask::Ask,
    lease::{Lease, Shared, StreamLease},
    room::Room,
};
use netwright_core::{Channel, ChannelState, EventLoop, Promise, Promised, promise};
use netwright_transport::Pooled;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

/// A connection of this age gets no other stream: names lead elsewhere after a while, and loads shift.
const AGE_MAX: Duration = Duration::from_secs(30 * 60);

/// The connections of one origin that speak HTTP/2.
#[derive(Debug)]
pub(super) struct SharedConnections {
    connections_max: usize,
    clock: EventLoop,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest connection spoke HTTP/1.1.
    is_http1: bool,
    /// Somebody makes a connection.
    opening: bool,
    connections: Vec<Arc<Shared>>,
    waiting: VecDeque<(u64, Promise<(), WebClientError>)>,
    /// Numbers who waits.
    last: u64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("connections", &self.connections.len()).finish_non_exhaustive()
    }
}

/// What somebody who has a request is to do.
pub(super) enum Found {
    Stream(Lease),
    /// Ask the pool for a connection, and say what became of it.
    Connect(Option<Opening>),
    Wait(Waiting),
}

/// What there is to see.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SharedFigures {
    pub(super) connections: usize,
    /// Of these, those without a stream.
    pub(super) idle: usize,
    pub(super) streams: usize,
    pub(super) waiting: usize,
}

impl SharedConnections {
    /// None yet. Whatever loop it is, it knows the time.
    pub(super) fn new(connections_max: usize, clock: EventLoop) -> Arc<Self> {
        Arc::new(Self { connections_max, clock, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn connections_max(&self) -> usize {
        self.connections_max
    }

    /// What to do for a request. `waited` is the number of one that has waited before.
    pub(super) fn find(self: &Arc<Self>, waited: Option<u64>) -> Found {
        let mut state = self.lock();
        let gone = state.take_unusable(self.clock.now());
        let found = if state.is_http1 {
            Found::Connect(None)
        } else if waited.is_none() && !state.waiting.is_empty() {
            Found::Wait(state.wait(self, None))
        } else if let Some(connection) = state.connections.iter().find(|connection| connection.free() > 0) {
            connection.open.fetch_add(1, Ordering::AcqRel);
            Found::Stream(Lease::Stream(StreamLease::new(connection.clone(), false)))
        } else if state.may_open(self.connections_max) {
            state.opening = true;
            Found::Connect(Some(Opening { owner: Some(self.clone()) }))
        } else {
            Found::Wait(state.wait(self, waited))
        };
        drop(state);
        drop(gone);
        found
    }

    /// A new connection speaks HTTP/2. A stream of it is for whoever made it.
    pub(super) fn add(self: &Arc<Self>, pooled: Pooled<Ask>, room: Arc<Room>) -> Lease {
        let channel: Channel<Ask> = (*pooled).clone();
        let connection = Arc::new(Shared::new(pooled, room, self.clock.now(), Arc::downgrade(self)));
        let mut state = self.lock();
        state.is_http1 = false;
        state.connections.push(connection.clone());
        drop(state);
        let (ended, owner) = (Arc::downgrade(&connection), Arc::downgrade(self));
        channel.on_close(move |_| {
            if let Some(ended) = ended.upgrade() {
                ended.let_go();
            }
            if let Some(owner) = owner.upgrade() {
                owner.has_room();
            }
        });
        self.has_room();
        Lease::Stream(StreamLease::new(connection, true))
    }

    /// Streams, or connections, may be free: as many as there are for go on.
    pub(super) fn has_room(&self) {
        let mut state = self.lock();
        let gone = state.take_unusable(self.clock.now());
        let mut places: usize = state.connections.iter().map(|connection| connection.free()).sum();
        places = places.saturating_add(usize::from(state.may_open(self.connections_max)));
        let count = if state.is_http1 { usize::MAX } else { places }.min(state.waiting.len());
        let woken: Vec<_> = state.waiting.drain(..count).collect();
        drop(state);
        drop(gone);
        for (_, promise) in woken {
            promise.succeed(());
        }
    }

    /// Whether nobody uses any of them, and whether there are any.
    pub(super) fn figures(&self) -> SharedFigures {
        let mut state = self.lock();
        let gone = state.take_unusable(self.clock.now());
        let figures = SharedFigures {
            connections: state.connections.len(),
            idle: state.connections.iter().filter(|connection| connection.open() == 0).count(),
            streams: state.connections.iter().map(|connection| connection.open()).sum(),
            waiting: state.waiting.len(),
        };
        drop(state);
        drop(gone);
        figures
    }

    /// What came of a new connection.
    fn opened(&self, is_http1: bool, failed: Option<&WebClientError>) {
        let mut state = self.lock();
        state.opening = false;
        state.is_http1 |= is_http1;
        // Who waits for this connection alone has waited in vain.
        let vain = match failed {
            Some(error) if state.connections.is_empty() => {
                Some((std::mem::take(&mut state.waiting), error.clone()))
            }
            _ => None,
        };
        drop(state);
        for ((_, promise), error) in vain
            .into_iter()
            .flat_map(|(all, error)| all.into_iter().map(move |waiting| (waiting, error.clone())))
        {
            promise.fail(error);
        }
        self.has_room();
    }
}

impl State {
    /// Whether somebody may make a connection: not while one is made, or has not said what it takes.
    fn may_open(&self, most: usize) -> bool {
        let known = self.connections.iter().all(|connection| connection.room.is_known());
        !self.opening && known && self.connections.len() < most
    }

    /// Takes out what gets no other stream; to be dropped without the lock.
    fn take_unusable(&mut self, now: Instant) -> Vec<Arc<Shared>> {
        let usable = |connection: &Arc<Shared>| {
            let channel = connection.channel();
            connection.room.is_usable()
                && channel.state() == ChannelState::Active
                && !channel.is_closing()
                && now.saturating_duration_since(connection.since) < AGE_MAX
        };
        if self.connections.iter().all(usable) {
            return Vec::new();
        }
        let (kept, gone) = std::mem::take(&mut self.connections).into_iter().partition(usable);
        self.connections = kept;
        gone
    }

    fn wait(&mut self, owner: &Arc<SharedConnections>, waited: Option<u64>) -> Waiting {
        let (promise, promised) = promise();
        let number = waited.unwrap_or_else(|| {
            self.last += 1;
            self.last
        });
        let place = self.waiting.partition_point(|(other, _)| *other < number);
        self.waiting.insert(place, (number, promise));
        Waiting { number, promised, owner: owner.clone(), over: false }
    }
}

/// Somebody makes a connection, and says what came of it; who forgets that has failed.
pub(super) struct Opening {
    owner: Option<Arc<SharedConnections>>,
}

impl Opening {
    /// There is one.
    pub(super) fn succeeded(mut self, is_http1: bool) {
        if let Some(owner) = self.owner.take() {
            owner.opened(is_http1, None);
        }
    }

    /// There is none, for anybody.
    pub(super) fn failed(mut self, error: &WebClientError) {
        if let Some(owner) = self.owner.take() {
            owner.opened(false, Some(error));
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(owner) = self.owner.take() {
            owner.opened(false, None);
        }
    }
}

/// A place among those who wait.
pub(super) struct Waiting {
    pub(super) number: u64,
    promised: Promised<(), WebClientError>,
    owner: Arc<SharedConnections>,
    over: bool,
}

impl Waiting {
    /// Until it may be worth to look again.
    ///
    /// # Errors
    /// The connection that was waited for could not be made.
    pub(super) async fn woken(mut self) -> Result<u64, WebClientError> {
        let woken = (&mut self.promised).await;
        self.over = true;
        woken.map(|()| self.number)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut state = self.owner.lock();
        let place = state.waiting.iter().position(|(number, _)| *number == self.number);
        let left = place.and_then(|place| state.waiting.remove(place));
        drop(state);
        if left.is_none() {
            self.owner.has_room(); // it was woken and does not go on: another one does
        }
    }
}
