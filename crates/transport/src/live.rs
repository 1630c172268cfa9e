//! The connections of a server that are open now, and their end.

use crate::blocking::Lease;
use netwright_core::{
    Channel, ChannelId, CloseCause, Event, EventLoop, Promise, PromiseError, Promised, ShuttingDown, promise,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// What a graceful shutdown came to.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::Server;
/// use std::time::Duration;
///
/// let server = Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("local:ending").wait()?;
/// let end = server.drain(Duration::from_secs(1)).wait()?;
/// println!("{} connections did not finish in time", end.cut);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerShutdown {
    /// Connections that were still open when the deadline came, and were closed.
    pub cut: usize,
}

/// An open connection, whatever it writes.
trait Open: Send {
    fn close(&self, cause: CloseCause);
    fn close_now(&self, cause: CloseCause);
    fn tell_of_shutdown(&self);
}

impl<W: Send + 'static> Open for Channel<W> {
    fn close(&self, cause: CloseCause) {
        drop(self.close_because(cause));
    }

    fn close_now(&self, cause: CloseCause) {
        drop(Channel::close_now(self, cause));
    }

    fn tell_of_shutdown(&self) {
        self.fire_event(Event::new(ShuttingDown));
    }
}

#[derive(Default)]
struct State {
    channels: HashMap<ChannelId, Box<dyn Open>>,
    waiting: Vec<Promise<ServerShutdown, PromiseError>>,
    /// Who waits for the last one, however long it takes.
    until_empty: Vec<Promise<ServerShutdown, PromiseError>>,
    phase: Phase,
    /// How many were closed because it was over.
    cut: usize,
}

/// What becomes of a connection that comes late, because its loop had no time for it.
#[derive(Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Open,
    /// It is told, like all others.
    Draining,
    /// It is closed: nobody waits for it any more.
    Over,
    /// It is closed without a word.
    Now,
}

/// Open connections by number.
#[derive(Clone, Default)]
pub(crate) struct Live(Arc<Books>);

#[derive(Default)]
struct Books {
    state: Mutex<State>,
    /// Seats that are taken: by connections that are open, and by those on their way to their loops.
    seats: AtomicUsize,
    cut_slow: AtomicU64,
}

/// A place among the connections of a server, from the accept to the end of the channel. Given back when it is dropped.
pub(crate) struct Seat(Live);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.0.seats.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Seat {
    /// Counts a connection as open until the guard is dropped.
    pub(crate) fn enter<W: Send + 'static>(self, channel: &Channel<W>) -> Guard {
        self.enter_open(channel.id(), Box::new(channel.clone()), channel)
    }

    fn enter_open(self, id: ChannelId, kept: Box<dyn Open>, channel: &dyn Open) -> Guard {
        let mut state = self.0.lock();
        state.channels.insert(id, kept);
        let phase = state.phase;
        state.cut += usize::from(phase >= Phase::Over);
        drop(state);
        match phase {
            Phase::Open => {}
            Phase::Draining => channel.tell_of_shutdown(),
            Phase::Over => channel.close(CloseCause::ShutDown),
            Phase::Now => channel.close_now(CloseCause::ShutDown),
        }
        Guard { place: Some((self, id)), lease: None }
    }
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for one connection more; none if as many as there may be are taken.
    pub(crate) fn seat(&self, max: usize) -> Option<Seat> {
        let one_more = |taken: usize| (taken < max).then_some(taken + 1);
        let taken = self.0.seats.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.is_ok().then(|| Seat(self.clone()))
    }

    /// How many were cut because their peer was too slow.
    pub(crate) fn cut_slow(&self) -> u64 {
        self.0.cut_slow.load(Ordering::Relaxed)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().channels.len()
    }

    /// Tells the connections that the server wants to end, and those that still come.
    pub(crate) fn warn(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Draining;
            state.channels.values().for_each(|channel| channel.tell_of_shutdown());
        }
    }

    /// Tells the connections, and resolves when the last one has ended; at the deadline the rest is closed.
    pub(crate) fn drain(
        &self,
        timer: &EventLoop,
        deadline: Duration,
    ) -> Promised<ServerShutdown, PromiseError> {
        let (promise, promised) = promise();
        let mut state = self.lock();
        if state.channels.is_empty() {
            state.phase = state.phase.max(Phase::Over);
            drop(state);
            promise.succeed(ServerShutdown { cut: 0 });
            return promised;
        }
        state.waiting.push(promise);
        drop(state);
        self.warn();
        let live = self.clone();
        match timer.schedule(deadline, move || live.cut()) {
            // Once it is over nothing stays behind for the rest of the time.
            Ok(at_deadline) => promised.listen(move |_| {
                at_deadline.cancel();
            }),
            Err(_) => self.cut(), // the loop is ending, and its channels with it
        }
        promised
    }

    fn cut(&self) {
        self.end(Phase::Over, Open::close);
    }

    /// Closes all that are open, and those that still come, without asking their stages.
    pub(crate) fn cut_now(&self) {
        self.end(Phase::Now, Open::close_now);
    }

    fn end(&self, phase: Phase, close: fn(&(dyn Open + 'static), CloseCause)) {
        let mut state = self.lock();
        let cut = state.channels.len();
        if state.phase < Phase::Over {
            state.cut += cut;
        }
        state.phase = state.phase.max(phase);
        for channel in state.channels.values() {
            close(&**channel, CloseCause::ShutDown);
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for promise in waiting {
            promise.succeed(ServerShutdown { cut });
        }
    }

    /// Resolves when none is open, with the number of those that were [cut](Self::cut_now).
    pub(crate) fn when_empty(&self, promise: Promise<ServerShutdown, PromiseError>) {
        let mut state = self.lock();
        if !state.channels.is_empty() {
            return state.until_empty.push(promise);
        }
        let cut = state.cut;
        drop(state);
        promise.succeed(ServerShutdown { cut });
    }
}

/// Dropped with its channel: leaves the list, and gives back a thread that was the channel's alone.
#[derive(Default)]
pub(crate) struct Guard {
    place: Option<(Seat, ChannelId)>,
    /// Boxed, because most channels have none.
    lease: Option<Box<Lease>>,
}

impl Guard {
    /// The channel is cut because its peer is too slow.
    pub(crate) fn count_slow(&self) {
        if let Some((seat, _)) = &self.place {
            seat.0.0.cut_slow.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn with(mut self, lease: Option<Lease>) -> Self {
        self.lease = lease.map(Box::new);
        self
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some((seat, id)) = self.place.take() else { return };
        let live = seat.0.clone();
        let mut state = live.lock();
        let gone = state.channels.remove(&id);
        drop(seat); // while it is locked: whoever sees that the connection has gone can have its seat
        let last = state.channels.is_empty();
        let (waiting, until_empty) = match last {
            true => (std::mem::take(&mut state.waiting), std::mem::take(&mut state.until_empty)),
            false => (Vec::new(), Vec::new()),
        };
        if !waiting.is_empty() {
            state.phase = state.phase.max(Phase::Over);
        }
        let cut = state.cut;
        drop(state);
        drop(gone);
        for promise in waiting {
            promise.succeed(ServerShutdown { cut: 0 });
        }
        for promise in until_empty {
            promise.succeed(ServerShutdown { cut });
        }
    }
}
