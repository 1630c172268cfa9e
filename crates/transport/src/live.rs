//! The connections of a server that are open now, and their end.
//!
//! ```text
//!   phase:  open ─▶ draining ─▶ over ─▶ now        what the server wants of all its connections
//!                      └──────────┴───────┴─ each is called, looks at the phase, and does what it has not done yet
//! ```
//! Always true:
//! 1. Whoever changes the phase calls all that are open; one that comes later finds it when it begins. So every connection sees it.
//! 2. A connection is known by its place on its loop alone: nobody needs a handle to it, so most have none.

use crate::{admission::Counted, blocking::Lease};
use netwright_core::{EventLoop, Promise, PromiseError, Promised, SourceCaller, promise};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
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

/// What is wanted of all connections of a server; each includes those before it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    #[default]
    Open,
    /// They are told that the server wants to end.
    Draining,
    /// They are closed: nobody waits for them any more.
    Over,
    /// They are closed without a word.
    Now,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Open, Self::Draining, Self::Over, Self::Now];
}

#[derive(Default)]
struct State {
    channels: Places,
    waiting: Vec<Promise<ServerShutdown, PromiseError>>,
    /// Who waits for the last one, however long it takes.
    until_empty: Vec<Promise<ServerShutdown, PromiseError>>,
    /// How many were closed because it was over.
    cut: usize,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// Changed under the lock, read without it.
    phase: AtomicU8,
    /// Seats that are taken: by connections that are open, and by those on their way to their loops.
    seats: AtomicUsize,
    cut_slow: AtomicU64,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Ordering::Acquire))]
    }

    /// Goes on to a later phase, if it is later; all that are open look.
    fn go_on_to(&self, phase: Phase, state: &State) {
        if self.phase() < phase {
            self.phase.store(phase as u8, Ordering::Release);
            state.channels.call_all();
        }
    }
}

/// A place among the connections of a server, from the accept to the end of the channel. Given back when it is dropped.
pub(crate) struct Seat(Live);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.inner.seats.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Seat {
    /// Counts a connection as open until the guard is dropped. Whoever has it looks at its [news](Guard::news) from the start.
    pub(crate) fn enter(self, channel: SourceCaller) -> Guard {
        let live = &*self.0.inner;
        let mut state = live.lock();
        let place = state.channels.insert(channel);
        state.cut += usize::from(live.phase() >= Phase::Over);
        drop(state);
        Guard { seat: Some(self), place, heard: Phase::Open, belongings: None }
    }
}

/// Open connections.
#[derive(Clone, Default)]
pub(crate) struct Live {
    inner: Arc<Inner>,
}

impl Live {
    /// A seat for one connection more; none if as many as there may be are taken.
    pub(crate) fn seat(&self, max: usize) -> Option<Seat> {
        let one_more = |taken: usize| (taken < max).then_some(taken + 1);
        let taken = self.inner.seats.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.is_ok().then(|| Seat(self.clone()))
    }

    /// How many were cut because their peer was too slow.
    pub(crate) fn cut_slow(&self) -> u64 {
        self.inner.cut_slow.load(Ordering::Relaxed)
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.lock().channels.len
    }

    /// Tells the connections that the server wants to end, and those that still come.
    pub(crate) fn warn(&self) {
        let state = self.inner.lock();
        self.inner.go_on_to(Phase::Draining, &state);
    }

    /// Tells the connections, and resolves when the last one has ended; at the deadline the rest is closed.
    pub(crate) fn drain(
        &self,
        timer: &EventLoop,
        deadline: Duration,
    ) -> Promised<ServerShutdown, PromiseError> {
        let (promise, promised) = promise();
        let mut state = self.inner.lock();
        if state.channels.len == 0 {
            self.inner.go_on_to(Phase::Over, &state);
            drop(state);
            promise.succeed(ServerShutdown { cut: 0 });
            return promised;
        }
        state.waiting.push(promise);
        drop(state);
        self.warn();
        let live = self.clone();
        match timer.schedule(deadline, move || live.end(Phase::Over)) {
            // Once it is over nothing stays behind for the rest of the time.
            Ok(at_deadline) => promised.listen(move |_| {
                at_deadline.cancel();
            }),
            Err(_) => self.end(Phase::Over), // the loop is ending, and its channels with it
        }
        promised
    }

    /// Closes all that are open, and those that still come, without asking their stages.
    pub(crate) fn cut_now(&self) {
        self.end(Phase::Now);
    }

    fn end(&self, phase: Phase) {
        let mut state = self.inner.lock();
        let cut = state.channels.len;
        if self.inner.phase() < Phase::Over {
            state.cut += cut;
        }
        self.inner.go_on_to(phase, &state);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for promise in waiting {
            promise.succeed(ServerShutdown { cut });
        }
    }

    /// Resolves when none is open, with the number of those that were [cut](Self::cut_now).
    pub(crate) fn when_empty(&self, promise: Promise<ServerShutdown, PromiseError>) {
        let mut state = self.inner.lock();
        if state.channels.len > 0 {
            return state.until_empty.push(promise);
        }
        let cut = state.cut;
        drop(state);
        promise.succeed(ServerShutdown { cut });
    }
}

/// How each connection is called.
#[derive(Default)]
struct Places {
    list: Vec<Place>,
    /// The first free place, if one lies within the list.
    free: Option<u32>,
    len: usize,
}

enum Place {
    Taken(SourceCaller),
    /// And the next one.
    Free(Option<u32>),
}

impl Places {
    fn insert(&mut self, channel: SourceCaller) -> u32 {
        self.len += 1;
        let Some(free) = self.free else {
            self.list.push(Place::Taken(channel));
            return self.list.len() as u32 - 1; // each is a descriptor, of which there are fewer
        };
        let place = std::mem::replace(&mut self.list[free as usize], Place::Taken(channel));
        self.free = match place {
            Place::Free(next) => next,
            Place::Taken(_) => None,
        };
        free
    }

    fn remove(&mut self, place: u32) -> Option<SourceCaller> {
        match std::mem::replace(self.list.get_mut(place as usize)?, Place::Free(self.free)) {
            Place::Taken(channel) => {
                self.free = Some(place);
                self.len -= 1;
                Some(channel)
            }
            Place::Free(_) => None,
        }
    }

    fn call_all(&self) {
        for place in &self.list {
            if let Place::Taken(channel) = place {
                channel.call();
            }
        }
    }
}

/// Dropped with its channel: leaves the list, and gives back a thread that was the channel's alone.
#[derive(Default)]
pub(crate) struct Guard {
    seat: Option<Seat>,
    place: u32,
    /// Up to where the channel has done what is wanted.
    heard: Phase,
    /// Boxed, because most channels have none.
    belongings: Option<Box<Belongings>>,
}

/// What a connection of a server has beside its seat, given back with its channel.
#[derive(Default)]
pub(crate) struct Belongings {
    /// A thread that is the channel's alone.
    pub(crate) lease: Option<Lease>,
    /// What it counts for where it comes from.
    pub(crate) counted: Option<Counted>,
}

impl Guard {
    /// What is wanted of the channel that has not been told before.
    pub(crate) fn news(&mut self) -> Option<Phase> {
        let phase = self.seat.as_ref()?.0.inner.phase();
        if phase == self.heard {
            return None;
        }
        self.heard = phase;
        Some(phase)
    }

    /// The channel is cut because its peer is too slow.
    pub(crate) fn count_slow(&self) {
        if let Some(seat) = &self.seat {
            seat.0.inner.cut_slow.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn with(mut self, belongings: Belongings) -> Self {
        let some = belongings.lease.is_some() || belongings.counted.is_some();
        self.belongings = some.then(|| Box::new(belongings));
        self
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        if let Some(belongings) = &mut self.belongings {
            belongings.counted = None; // likewise before anybody sees that the connection has gone
        }
        let live = seat.0.inner.clone();
        let mut state = live.lock();
        let gone = state.channels.remove(self.place);
        drop(seat); // while it is locked: whoever sees that the connection has gone can have its seat
        let last = state.channels.len == 0;
        let (waiting, until_empty) = match last {
            true => (std::mem::take(&mut state.waiting), std::mem::take(&mut state.until_empty)),
            false => (Vec::new(), Vec::new()),
        };
        if !waiting.is_empty() {
            live.go_on_to(Phase::Over, &state);
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

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use netwright_core::{
        LocalLoop, ManualLoop,
        driver::{Event, Source},
    };

    /// A connection that notes what was wanted of it.
    struct Noting {
        guard: Guard,
        heard: Arc<Mutex<Vec<Phase>>>,
    }

    impl Source for Noting {
        fn ready(&mut self, _: Event) {
            self.heard.lock().unwrap().extend(self.guard.news());
        }
        fn shut_down(&mut self) {}
    }

    #[test]
    fn every_connection_hears_once_what_is_wanted_of_it_also_if_it_comes_late_and_places_are_used_again() {
        let (live, heard) = (Live::default(), Arc::new(Mutex::new(Vec::new())));
        let mut manual = ManualLoop::new();
        let enter = |manual: &mut ManualLoop| {
            manual.enter(|| {
                let local = LocalLoop::current().unwrap();
                let place = local.place().unwrap();
                let token = place.token();
                let guard = live.seat(usize::MAX).unwrap().enter(local.caller(token));
                place.fill(Box::new(Noting { guard, heard: heard.clone() }));
                local.call(token);
                token
            })
        };
        let first = enter(&mut manual);
        enter(&mut manual);
        manual.run_until_idle();
        assert_eq!((live.len(), heard.lock().unwrap().len()), (2, 0));

        live.warn();
        live.warn();
        manual.run_until_idle();
        assert_eq!(*heard.lock().unwrap(), [Phase::Draining; 2]);
        manual.enter(|| LocalLoop::current().unwrap().deregister(first));
        assert_eq!(live.len(), 1);
        enter(&mut manual);
        manual.run_until_idle();
        assert_eq!(*heard.lock().unwrap(), [Phase::Draining; 3], "one that comes late");
        assert_eq!(live.inner.lock().channels.list.len(), 2, "in the place of the one that left");

        live.cut_now();
        manual.run_until_idle();
        assert_eq!(heard.lock().unwrap()[3..], [Phase::Now; 2]);
        let (promise, mut empty) = promise();
        live.when_empty(promise);
        drop(manual);
        assert_eq!(empty.try_take(), Some(Ok(ServerShutdown { cut: 2 })));
    }

    #[test]
    fn a_place_and_a_guard_take_no_more_room_than_they_had() {
        assert_eq!((size_of::<Place>(), size_of::<Guard>()), (16, 24));
    }
}
