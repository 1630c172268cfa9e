//! The loops of a simulation, and when each of them can go on.
//!
//! ```text
//!   later: by time ──── collect(now) ───▶ ready: by number ──── one is drawn, and takes its turn ──▶ filed anew
//! ```
//! Always true between calls: a loop is in one of the two if it could do something by itself, and in none if it sleeps or runs. So nobody walks over loops
//! that have nothing to do, however many there are.

use super::{
    net::Time,
    spin::Watch,
    universe::{HostIndex, Tag},
};
use netwright_core::world::DrivenLoop;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct LoopSlot {
    pub(super) host: HostIndex,
    /// Not here while it runs.
    pub(super) driven: Option<DrivenLoop>,
    /// Until then it is busy with its last turn.
    pub(super) free_at: Time,
    /// It has more to do.
    pub(super) busy: bool,
    pub(super) timer: Option<Time>,
    pub(super) watch: Watch,
    filed: Filed,
}

/// Where a loop is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filed {
    Nowhere,
    Later(Time),
    Ready,
}

impl LoopSlot {
    /// A loop that has not had a turn.
    pub(super) fn new(host: HostIndex, driven: DrivenLoop, free_at: Time) -> Self {
        Self {
            host,
            driven: Some(driven),
            free_at,
            busy: true,
            timer: None,
            watch: Watch::default(),
            filed: Filed::Nowhere,
        }
    }

    /// When it can do something, if nothing else happens.
    fn due(&self) -> Option<Time> {
        self.driven.as_ref()?;
        let wanted = if self.busy { Some(self.free_at) } else { self.timer };
        wanted.map(|at| at.max(self.free_at))
    }
}

#[derive(Default)]
pub(super) struct Loops {
    slots: BTreeMap<Tag, LoopSlot>,
    ready: Vec<Tag>,
    later: BTreeSet<(Time, Tag)>,
}

impl Loops {
    pub(super) fn insert(&mut self, tag: Tag, slot: LoopSlot) {
        self.remove(tag); // of a loop that had given its thread back
        self.slots.insert(tag, slot);
        self.file(tag);
    }

    pub(super) fn remove(&mut self, tag: Tag) -> Option<LoopSlot> {
        let slot = self.slots.remove(&tag)?;
        self.take_out(tag, slot.filed);
        Some(slot)
    }

    /// Changes a loop, if it is there.
    pub(super) fn change<R>(&mut self, tag: Tag, change: impl FnOnce(&mut LoopSlot) -> R) -> Option<R> {
        let result = change(self.slots.get_mut(&tag)?);
        self.file(tag);
        Some(result)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Tag, &LoopSlot)> {
        self.slots.iter().map(|(tag, slot)| (*tag, slot))
    }

    /// Those that can go on by `now`, in the order of their numbers. Time does not go back.
    pub(super) fn collect(&mut self, now: Time) -> &[Tag] {
        while let Some(&(at, tag)) = self.later.first()
            && at <= now
        {
            self.later.pop_first();
            if let Err(place) = self.ready.binary_search(&tag) {
                self.ready.insert(place, tag);
            }
            if let Some(slot) = self.slots.get_mut(&tag) {
                slot.filed = Filed::Ready;
            }
        }
        &self.ready
    }

    /// When the next of those can that cannot yet.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.later.first().map(|(at, _)| *at)
    }

    fn file(&mut self, tag: Tag) {
        let Some(slot) = self.slots.get_mut(&tag) else { return };
        let (before, now) = (slot.filed, slot.due().map_or(Filed::Nowhere, Filed::Later));
        if before == now {
            return;
        }
        slot.filed = now;
        self.take_out(tag, before);
        if let Filed::Later(at) = now {
            self.later.insert((at, tag));
        }
    }

    fn take_out(&mut self, tag: Tag, filed: Filed) {
        match filed {
            Filed::Nowhere => {}
            Filed::Later(at) => drop(self.later.remove(&(at, tag))),
            Filed::Ready => {
                if let Ok(place) = self.ready.binary_search(&tag) {
                    self.ready.remove(place);
                }
            }
        }
    }
}
