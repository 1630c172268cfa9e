//! Connections that wait on the loop that accepts until somebody has decided about them.
//!
//! ```text
//!   accepted ─▶ held here ─┬─ admitted ─────────────▶ handed over, as any other
//!                          ├─ refused, or a panic ──▶ refused
//!                          ├─ the deadline ─────────▶ refused
//!                          └─ nobody listens any more ▶ refused, when the listener is dropped
//! ```
//! Always true: one that is held has its seat, and a place among the undecided, and gives both back with whatever becomes of it.

use super::{
    handover::{Onward, Parcel},
    observer::Refusal,
};
use crate::admission::{Decider, Incoming, Undecided, Verdict};
use netwright_core::{JoinHandle, LocalLoop, internal::catch, time};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

/// Those that one acceptor holds. Dropped with it: nobody is let in by a listener that is closed.
#[derive(Default)]
pub(super) struct Deciding {
    shared: Rc<Shared>,
    last: u64,
}

#[derive(Default)]
struct Shared {
    closed: Cell<bool>,
    held: RefCell<HashMap<u64, JoinHandle<()>>>,
}

impl Deciding {
    /// Holds a connection until it is decided about, and then sends it on.
    pub(super) fn hold(
        &mut self,
        local: &LocalLoop,
        parcel: Parcel,
        onward: Onward,
        (decider, incoming, place): (Decider, Incoming, Undecided),
    ) {
        let Decider { deadline, ask } = decider;
        let future = match catch(|| ask(incoming)) {
            Ok(future) => future,
            Err(panic) => return parcel.refuse(panicked(&panic)),
        };
        self.last += 1;
        let (number, shared) = (self.last, self.shared.clone());
        let mut held = Held { parcel: Some(parcel), place: Some(place), number, shared, decided: None };
        let decided = async move {
            held.decided = Some(match time::timeout(deadline, future).await {
                Ok(Verdict::Admit) => Ok(()),
                Ok(Verdict::Refuse(reason)) => Err(Refusal::Judged(reason)),
                Err(_) => Err(Refusal::Undecided { deadline }),
            });
            held.send_on(&onward);
        };
        match local.spawn(decided) {
            Ok(handle) if handle.is_done() => {}
            Ok(handle) => drop(self.shared.held.borrow_mut().insert(number, handle)),
            Err(refused) => drop(refused), // the loop ends, and the connection with it
        }
    }
}

/// One that is held. Dropped before it was decided about, it is refused.
struct Held {
    parcel: Option<Parcel>,
    place: Option<Undecided>,
    number: u64,
    shared: Rc<Shared>,
    decided: Option<Result<(), Refusal>>,
}

impl Held {
    fn send_on(&mut self, onward: &Onward) {
        if matches!(self.decided, Some(Ok(()))) && !self.shared.closed.get() {
            self.place = None;
            if let Some(parcel) = self.parcel.take() {
                onward.send(parcel);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let handle = self.shared.held.borrow_mut().remove(&self.number);
        drop(handle);
        self.place = None;
        let Some(parcel) = self.parcel.take() else { return };
        parcel.refuse(match self.decided.take() {
            Some(Err(why)) => why,
            _ if self.shared.closed.get() => Refusal::StoppedListening,
            _ => panicked("its future ended without a word"),
        });
    }
}

impl Drop for Deciding {
    fn drop(&mut self) {
        self.shared.closed.set(true);
        let held = std::mem::take(&mut *self.shared.held.borrow_mut());
        for handle in held.into_values() {
            handle.abort();
        }
    }
}

fn panicked(panic: &str) -> Refusal {
    Refusal::Judged(format!("what decides about it panicked: {panic}").into())
}
