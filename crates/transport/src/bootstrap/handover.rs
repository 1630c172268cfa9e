//! From the loop that accepts to the loop that hosts.
//!
//! ```text
//!   accepted ─▶ the next loop, by the group's chooser ── has ended, or too many wait for it ─▶ the one behind it ─▶ …
//!                    │                                                                                       │
//!                    └─▶ its inbox ─▶ adopted: a channel                       none left: reset, and counted ◀┘
//!                              └─▶ the loop ends first: reset, and counted
//! ```
//! Before any of that a connection passes the gate ([`Gate`]), where it takes a seat, which it keeps until its channel has ended; or it is refused there.
//!
//! Always true: a connection is adopted once, or refused with a reset and counted once, whichever way it is lost: one that
//! is dropped on its way is refused by that.

use super::{
    deciding::Deciding,
    hosts::Homes,
    observer::{Refusal, Watch},
    refusals::Refusals,
};
use crate::{
    admission::{Gate, Incoming},
    live::{Belongings, Live, Seat},
    socket::{ListenerFigures, Welcome},
    stream::Carried,
};
use netwright_core::{Address, EventLoop, LocalLoop, RefusedWhy, internal::catch};
use std::{
    cell::RefCell,
    io,
    rc::Rc,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Makes a channel of an accepted connection, on the loop of the calling thread.
pub(super) type Adopt =
    Arc<dyn Fn(&LocalLoop, Carried, Address, Belongings, Seat) -> io::Result<()> + Send + Sync>;

/// What an acceptor does with its connections.
pub(super) struct Handover {
    /// Where it listens.
    pub(super) at: Address,
    pub(super) figures: Arc<ListenerFigures>,
    pub(super) live: Live,
    pub(super) gate: Arc<Gate>,
    pub(super) adopt: Adopt,
    pub(super) onward: Onward,
    pub(super) deciding: Deciding,
    pub(super) watch: Option<Arc<Watch>>,
}

/// Where connections go that may come in.
#[derive(Clone)]
pub(super) struct Onward {
    pub(super) local: LocalLoop,
    /// Where connections live; none: where they are accepted.
    pub(super) hosts: Option<Homes>,
    pub(super) waiting: Waiting,
}

impl Handover {
    pub(super) fn accepted(&mut self, connection: Carried, peer: Address) -> Welcome {
        self.gate.accepted();
        let passed = self.gate.judge(&connection, &peer, &self.live);
        let incoming = (passed.is_ok() && self.gate.asks()).then(|| Incoming {
            at: self.at.clone(),
            #[cfg(unix)]
            credentials: connection.credentials(&peer),
            peer: peer.clone(),
        });
        let (passed, refused) = match passed {
            Ok(passed) => (Some(passed), None),
            Err(why) => (None, Some(why)),
        };
        let (seat, counted) = passed.unzip();
        let parcel = Parcel {
            connection: Some((connection, peer)),
            seat,
            belongings: Belongings { lease: None, counted: counted.flatten() },
            adopt: self.adopt.clone(),
            figures: self.figures.clone(),
            gate: self.gate.clone(),
            place: None,
            watch: self.watch.clone(),
        };
        let refuse = |parcel: Parcel, why| {
            parcel.refuse(why);
            Welcome::SentAway
        };
        if let Some(why) = refused {
            return refuse(parcel, why);
        }
        let Some(incoming) = incoming else {
            self.onward.send(parcel);
            return Welcome::In;
        };
        if let Err(why) = self.gate.ask(&incoming) {
            return refuse(parcel, why);
        }
        match self.gate.decider() {
            None => self.onward.send(parcel),
            Some(decider) => match self.gate.undecided() {
                Err(why) => return refuse(parcel, why),
                Ok(place) => {
                    let decision = (decider.clone(), incoming, place);
                    self.deciding.hold(&self.onward.local, parcel, self.onward.clone(), decision);
                }
            },
        }
        Welcome::In
    }
}

impl Onward {
    /// Sends a connection to the loop that is to host it. On the loop that accepts.
    pub(super) fn send(&self, parcel: Parcel) {
        match &self.hosts {
            None => parcel.unpack(&self.local),
            Some(hosts) => hand_over(parcel, hosts, &self.local, &self.waiting),
        }
    }
}

fn hand_over(mut parcel: Parcel, hosts: &Homes, local: &LocalLoop, waiting: &Waiting) {
    let first = match hosts.next() {
        Ok((first, lease)) => {
            parcel.belongings.lease = lease;
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

fn offer(parcel: &Arc<Mutex<Option<Parcel>>>, target: &EventLoop, waiting: &Waiting) -> Offer {
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

/// How many wait for one loop.
type Line = (EventLoop, Arc<AtomicUsize>);

/// How many connections wait for each loop that one acceptor hands some to. Clones are the same.
#[derive(Clone)]
pub(super) struct Waiting {
    loops: Rc<RefCell<Vec<Line>>>,
    /// How many may wait for one.
    max: usize,
}

impl Waiting {
    pub(super) fn at_most(max: usize) -> Self {
        Self { loops: Rc::default(), max }
    }

    /// A place in the line for a loop; none, if it is full.
    fn take_place(&self, target: &EventLoop) -> Option<OnItsWay> {
        let mut loops = self.loops.borrow_mut();
        let known = loops.iter().position(|(known, _)| known == target);
        let index = known.unwrap_or_else(|| {
            loops.retain(|(known, _)| !known.is_terminated());
            loops.push((target.clone(), Arc::default()));
            loops.len() - 1
        });
        let waiting = &loops[index].1;
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
pub(super) struct Parcel {
    connection: Option<(Carried, Address)>,
    /// None: all are taken, and it is refused.
    seat: Option<Seat>,
    /// The thread that it gets for itself, if so, and what it counts for.
    belongings: Belongings,
    adopt: Adopt,
    figures: Arc<ListenerFigures>,
    gate: Arc<Gate>,
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
        let (from, belongings) = (peer.clone(), std::mem::take(&mut self.belongings));
        let entered = Refusals::of(&self.figures, &self.gate).enter();
        // A panic in the user's factory costs this connection, not the listener that may be calling.
        let adopted = catch(|| (self.adopt)(local, connection, peer, belongings, seat));
        drop(entered);
        match adopted {
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

    pub(super) fn refuse(mut self, why: Refusal) {
        self.refuse_with(why);
    }

    /// The peer learns that it was refused, and whoever looks at the figures or looks on.
    fn refuse_with(&mut self, why: Refusal) {
        let Some((connection, peer)) = self.connection.take() else { return };
        (self.seat, self.belongings) = (None, Belongings::default()); // before the peer knows, who may come again at once
        self.gate.log(&peer, &why);
        why.count(&self.figures); // first: the peer may look when it knows
        self.gate.send_away(connection, &peer, &why);
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
