//! From the loop that accepts to the loop that hosts.
//!
//! ```text
//!   accepted ─▶ the next loop, by the group's chooser ── has ended, or too many wait for it ─▶ the one behind it ─▶ …
//!                    │                                                                                       │
//!                    └─▶ its inbox ─▶ adopted: a channel                       none left: reset, and counted ◀┘
//!                              └─▶ the loop ends first: reset, and counted
//! ```
//! Before any of that a connection takes a seat, which it keeps until its channel has ended; if none is left (`connections_max`), it is refused.
//!
//! Always true: a connection is adopted once, or refused with a reset and counted once, whichever way it is lost: one that
//! is dropped on its way is refused by that.

use super::{
    hosts::Homes,
    observer::{Refusal, Watch},
};
use crate::{
    blocking::Lease,
    live::{Live, Seat},
    socket::ListenerFigures,
    stream::Carried,
};
use netwright_core::{Address, EventLoop, LocalLoop, RefusedWhy, internal::catch};
use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Makes a channel of an accepted connection, on the loop of the calling thread.
pub(super) type Adopt =
    Arc<dyn Fn(&LocalLoop, Carried, Address, Option<Lease>, Seat) -> io::Result<()> + Send + Sync>;

/// What an acceptor does with its connections.
pub(super) struct Handover {
    pub(super) local: LocalLoop,
    /// Where connections live; none: where they are accepted.
    pub(super) hosts: Option<Homes>,
    pub(super) figures: Arc<ListenerFigures>,
    pub(super) live: Live,
    /// How many connections there may be at a time.
    pub(super) connections_max: usize,
    pub(super) adopt: Adopt,
    pub(super) waiting: Waiting,
    pub(super) watch: Option<Arc<Watch>>,
}

impl Handover {
    pub(super) fn accepted(&mut self, connection: Carried, peer: Address) {
        let parcel = Parcel {
            connection: Some((connection, peer)),
            seat: self.live.seat(self.connections_max),
            lease: None,
            adopt: self.adopt.clone(),
            figures: self.figures.clone(),
            place: None,
            watch: self.watch.clone(),
        };
        if parcel.seat.is_none() {
            return parcel.refuse(Refusal::Full { connections_max: self.connections_max });
        }
        match &self.hosts {
            None => parcel.unpack(&self.local),
            Some(hosts) => hand_over(parcel, hosts, &self.local, &mut self.waiting),
        }
    }
}

fn hand_over(mut parcel: Parcel, hosts: &Homes, local: &LocalLoop, waiting: &mut Waiting) {
    let first = match hosts.next() {
        Ok((first, lease)) => {
            parcel.lease = lease;
            first
        }
        Err(error) => return parcel.refuse(Refusal::NoThread(error)),
    };
    if first.in_event_loop() {
        return parcel.unpack(local);
    }
    let parcel = Arc::new(Mutex::new(Some(parcel)));
    let mut stalled = false;
    let mut take = |target: &EventLoop| match offer(&parcel, target, waiting) {
        Offer::Taken => true,
        Offer::Ended => false,
        Offer::Stalled => {
            stalled = true;
            false
        }
    };
    if take(&first) || hosts.others(&first).iter().any(take) {
        return;
    }
    let parcel = lock(&parcel).take();
    match parcel {
        Some(parcel) if stalled => parcel.refuse(Refusal::Stalled { waiting_max: waiting.max }),
        parcel => drop(parcel),
    }
}

fn offer(parcel: &Arc<Mutex<Option<Parcel>>>, target: &EventLoop, waiting: &mut Waiting) -> Offer {
    if target.in_event_loop() {
        unpack(parcel);
        return Offer::Taken;
    }
    if target.is_shutting_down() {
        return Offer::Ended;
    }
    let Some(place) = waiting.take_place(target) else { return Offer::Stalled };
    let left = lock(parcel).as_mut().and_then(|parcel| parcel.place.replace(place));
    drop(left); // the place before another loop, which did not take it
    let on_its_way = parcel.clone();
    match target.execute(move || unpack(&on_its_way)) {
        Ok(()) => Offer::Taken,
        Err(refused) if matches!(refused.why, RefusedWhy::Full { .. }) => Offer::Stalled,
        Err(_) => Offer::Ended,
    }
}

/// What a loop says to a connection.
enum Offer {
    Taken,
    Ended,
    Stalled,
}

fn lock(parcel: &Mutex<Option<Parcel>>) -> MutexGuard<'_, Option<Parcel>> {
    parcel.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unpack(parcel: &Mutex<Option<Parcel>>) {
    let parcel = lock(parcel).take();
    if let (Some(parcel), Some(local)) = (parcel, LocalLoop::current()) {
        parcel.unpack(&local);
    }
}

/// How many connections wait for each loop that one acceptor hands some to.
pub(super) struct Waiting {
    loops: Vec<(EventLoop, Arc<AtomicUsize>)>,
    /// How many may wait for one.
    max: usize,
}

impl Waiting {
    pub(super) fn at_most(max: usize) -> Self {
        Self { loops: Vec::new(), max }
    }

    /// A place in the line for a loop; none, if it is full.
    fn take_place(&mut self, target: &EventLoop) -> Option<OnItsWay> {
        let known = self.loops.iter().position(|(known, _)| known == target);
        let index = known.unwrap_or_else(|| {
            self.loops.retain(|(known, _)| !known.is_terminated());
            self.loops.push((target.clone(), Arc::default()));
            self.loops.len() - 1
        });
        let waiting = &self.loops[index].1;
        if waiting.load(Ordering::Relaxed) >= self.max {
            return None; // only this thread adds to it
        }
        waiting.fetch_add(1, Ordering::Relaxed);
        Some(OnItsWay(waiting.clone()))
    }
}

/// Given back when it is dropped.
struct OnItsWay(Arc<AtomicUsize>);

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection on its way.
struct Parcel {
    connection: Option<(Carried, Address)>,
    /// None: all are taken, and it is refused.
    seat: Option<Seat>,
    /// The thread that it gets for itself, if so.
    lease: Option<Lease>,
    adopt: Adopt,
    figures: Arc<ListenerFigures>,
    place: Option<OnItsWay>,
    watch: Option<Arc<Watch>>,
}

impl Parcel {
    /// Makes a channel of it, on the loop of the calling thread.
    fn unpack(mut self, local: &LocalLoop) {
        if local.handle().is_shutting_down() {
            return; // it takes no channel any more
        }
        self.place = None;
        let Some(seat) = self.seat.take() else { return };
        let Some((connection, peer)) = self.connection.take() else { return };
        let (from, lease) = (peer.clone(), self.lease.take());
        // A panic in the user's factory costs this connection, not the listener that may be calling.
        match catch(|| (self.adopt)(local, connection, peer, lease, seat)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(peer = %from, %error, "an accepted connection could not be set up");
                self.tell(from, Refusal::Setup(Arc::new(error)));
            }
            Err(panic) => {
                tracing::error!(peer = %from, panic, "making the pipeline of an accepted connection panicked");
                self.tell(from, Refusal::Panicked(panic));
            }
        }
    }

    fn refuse(mut self, why: Refusal) {
        self.refuse_with(why);
    }

    /// The peer learns that it was refused, and whoever looks at the figures or looks on.
    fn refuse_with(&mut self, why: Refusal) {
        let Some((connection, peer)) = self.connection.take() else { return };
        self.seat = None; // before the peer knows, who may come again at once
        tracing::warn!(%peer, %why, "an accepted connection was refused");
        why.count(&self.figures); // first: the peer may look when it knows
        connection.reset();
        self.tell(peer, why);
    }

    fn tell(&mut self, peer: Address, why: Refusal) {
        if let Some(watch) = self.watch.take() {
            watch.refused(peer, why);
        }
    }
}

/// On its way no more, and not adopted: its loop has ended.
impl Drop for Parcel {
    fn drop(&mut self) {
        self.refuse_with(Refusal::LoopsEnded);
    }
}
