//! From the loop that accepts to the loop that hosts.
//!
//! ```text
//!   accepted ─▶ the next loop, by the group's chooser ── has ended, or too many wait for it ─▶ the one behind it ─▶ …
//!                    │                                                                                       │
//!                    └─▶ its inbox ─▶ adopted: a channel                       none left: reset, and counted ◀┘
//!                              └─▶ the loop ends first: reset, and counted
//! ```
//! Always true: a connection is adopted once, or refused with a reset and counted once, whichever way it is lost: one that
//! is dropped on its way is refused by that.

use super::hosts::Hosts;
use crate::{
    blocking::Lease,
    socket::{ListenerFigures, OnAccept},
    stream::Connection,
};
use netwright_core::{Address, EventLoop, LocalLoop, RefusedWhy, internal::catch};
use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// Makes a channel of an accepted connection, on the loop of the calling thread.
pub(super) type Adopt =
    Arc<dyn Fn(&LocalLoop, Connection, Address, Option<Lease>) -> io::Result<()> + Send + Sync>;

/// What an acceptor does with its connections.
pub(super) struct Handover {
    pub(super) local: LocalLoop,
    /// Where connections live; none: where they are accepted.
    pub(super) hosts: Option<Hosts>,
    pub(super) figures: Arc<ListenerFigures>,
    pub(super) adopt: Adopt,
    /// How many may wait for one loop.
    pub(super) waiting_max: usize,
}

impl Handover {
    pub(super) fn start(self) -> OnAccept {
        let mut waiting = Waiting::default();
        Box::new(move |connection, peer| {
            let parcel = Parcel {
                connection: Some((connection, peer)),
                lease: None,
                adopt: self.adopt.clone(),
                figures: self.figures.clone(),
                place: None,
            };
            match &self.hosts {
                None => parcel.unpack(&self.local),
                Some(hosts) => self.hand_over(parcel, hosts, &mut waiting),
            }
        })
    }

    fn hand_over(&self, mut parcel: Parcel, hosts: &Hosts, waiting: &mut Waiting) {
        let first = match hosts.next() {
            Ok((first, lease)) => {
                parcel.lease = lease;
                first
            }
            Err(error) => return parcel.refuse(&error, |figures| &figures.refused),
        };
        if first.in_event_loop() {
            return parcel.unpack(&self.local);
        }
        let parcel = Arc::new(Mutex::new(Some(parcel)));
        let mut stalled = false;
        let mut take = |target: &EventLoop| match self.offer(&parcel, target, waiting) {
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
            Some(parcel) if stalled => {
                parcel.refuse(&"too many wait for every loop", |figures| &figures.refused_stalled);
            }
            parcel => drop(parcel),
        }
    }

    fn offer(&self, parcel: &Arc<Mutex<Option<Parcel>>>, target: &EventLoop, waiting: &mut Waiting) -> Offer {
        if target.in_event_loop() {
            unpack(parcel);
            return Offer::Taken;
        }
        if target.is_shutting_down() {
            return Offer::Ended;
        }
        let Some(place) = waiting.take_place(target, self.waiting_max) else { return Offer::Stalled };
        let left = lock(parcel).as_mut().and_then(|parcel| parcel.place.replace(place));
        drop(left); // the place before another loop, which did not take it
        let on_its_way = parcel.clone();
        match target.execute(move || unpack(&on_its_way)) {
            Ok(()) => Offer::Taken,
            Err(refused) if matches!(refused.why, RefusedWhy::Full { .. }) => Offer::Stalled,
            Err(_) => Offer::Ended,
        }
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
#[derive(Default)]
struct Waiting {
    loops: Vec<(EventLoop, Arc<AtomicUsize>)>,
}

impl Waiting {
    /// A place in the line for a loop; none, if it is full.
    fn take_place(&mut self, target: &EventLoop, limit: usize) -> Option<Place> {
        let known = self.loops.iter().position(|(known, _)| known == target);
        let index = known.unwrap_or_else(|| {
            self.loops.retain(|(known, _)| !known.is_terminated());
            self.loops.push((target.clone(), Arc::default()));
            self.loops.len() - 1
        });
        let waiting = &self.loops[index].1;
        if waiting.load(Ordering::Relaxed) >= limit {
            return None; // only this thread adds to it
        }
        waiting.fetch_add(1, Ordering::Relaxed);
        Some(Place(waiting.clone()))
    }
}

/// Given back when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection on its way.
struct Parcel {
    connection: Option<(Connection, Address)>,
    /// The thread that it gets for itself, if so.
    lease: Option<Lease>,
    adopt: Adopt,
    figures: Arc<ListenerFigures>,
    place: Option<Place>,
}

impl Parcel {
    /// Makes a channel of it, on the loop of the calling thread.
    fn unpack(mut self, local: &LocalLoop) {
        if local.handle().is_shutting_down() {
            return; // it takes no channel any more
        }
        self.place = None;
        let Some((connection, peer)) = self.connection.take() else { return };
        let (from, lease) = (peer.clone(), self.lease.take());
        // A panic in the user's factory costs this connection, not the listener that may be calling.
        match catch(|| (self.adopt)(local, connection, peer, lease)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(peer = %from, %error, "an accepted connection could not be set up")
            }
            Err(panic) => {
                tracing::error!(peer = %from, panic, "making the pipeline of an accepted connection panicked");
            }
        }
    }

    fn refuse(mut self, why: &dyn std::fmt::Display, counter: fn(&ListenerFigures) -> &AtomicU64) {
        self.refuse_with(why, counter);
    }

    /// The peer learns that it was refused, and whoever looks at the figures.
    fn refuse_with(&mut self, why: &dyn std::fmt::Display, counter: fn(&ListenerFigures) -> &AtomicU64) {
        let Some((connection, peer)) = self.connection.take() else { return };
        tracing::warn!(%peer, %why, "an accepted connection was refused");
        counter(&self.figures).fetch_add(1, Ordering::Relaxed); // first: the peer may look when it knows
        connection.reset();
    }
}

/// On its way no more, and not adopted: its loop has ended.
impl Drop for Parcel {
    fn drop(&mut self) {
        self.refuse_with(&"its loop has ended", |figures| &figures.refused_ended);
    }
}
