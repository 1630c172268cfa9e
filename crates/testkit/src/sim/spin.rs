//! Whether a loop spins: goes on and on although nobody gives it anything to do.
//!
//! What a loop does counts as work if somebody else caused it: an event, a task or a call that came from outside since its last turn, bytes that it moved.
//! A loop that has none of that and does not come to rest keeps itself busy, as does one whose timers are due when they are armed: by a source or a future
//! that calls itself, by a repetition that never catches up.

use netwright_core::{LoopFigures, world::Turned};

/// So many turns without anything from outside and without a rest are a loop that spins: about a fifth of a second of the simulation.
pub(super) const SPIN_TURNS: u32 = 20_000;

/// So many turns are forgiven for each that had something from outside: what one message causes may take a while.
const FORGIVEN: u32 = 1_000;

/// Watches one loop.
#[derive(Default)]
pub(super) struct Watch {
    /// Turns that count, so far.
    turns: u32,
    /// What had been submitted and had not run when the last turn ended.
    pending: u64,
    /// Timers that were due when they were armed.
    at_once: u64,
    /// One of them since the last rest: then that is none.
    goaded: bool,
}

impl Watch {
    /// Before a turn: whether somebody has given the loop something to do since the last one.
    pub(super) fn was_given(&self, figures: &LoopFigures) -> bool {
        figures.tasks_pending > self.pending
    }

    /// After a turn, which `worked` if somebody else was the reason for it. True if the loop spins; told once in a while.
    pub(super) fn turned(&mut self, worked: bool, turned: Turned, figures: &LoopFigures) -> bool {
        self.pending = figures.tasks_pending;
        self.goaded |= figures.timers_at_once > self.at_once;
        self.at_once = figures.timers_at_once;
        match turned {
            _ if worked => self.turns = self.turns.saturating_sub(FORGIVEN),
            Turned::Asleep if !std::mem::take(&mut self.goaded) => self.turns = 0,
            Turned::Busy | Turned::Asleep => self.turns += 1,
            Turned::Over => {}
        }
        if self.turns < SPIN_TURNS {
            return false;
        }
        self.turns = 0;
        true
    }
}
