//! What single stages take of a channel, and give back at the latest when they leave. There are no flags here: what is taken is in the list of
//! `channel/taken.rs`, and its sums are in `demand` (holds, insists, work on workers) and in the account (kept bytes).

use super::{super::taken::What, Asked, ChannelCore, TailEnded};
use std::sync::PoisonError;

impl ChannelCore {
    /// A stage takes something.
    pub(crate) fn take(&mut self, stage: u32, what: What, amount: usize) {
        self.ask(|| Asked::Take(what, amount));
        match (what, self.extras.get_or_insert_default().taken.take(stage, what, amount)) {
            (_, 0) => {}
            (What::Hold, _) => self.demand.hold(),
            (What::HoldInput, _) => self.demand.hold_input(),
            (What::Insist, _) => {
                self.demand.insist();
                self.unrest.waits();
            }
            (What::Pending, amount) => self.account.expect_from_outside(amount),
            (What::Away, _) => self.demand.depart(),
        }
    }

    /// A stage has done with it.
    pub(crate) fn give_back(&mut self, stage: u32, what: What, amount: usize) {
        self.ask(|| Asked::GiveBack(what, amount));
        let amount = self.extras.as_mut().map_or(0, |extras| extras.taken.give_back(stage, what, amount));
        self.given_back(what, amount);
    }

    /// A guard of a stage was dropped.
    pub(super) fn let_go(&mut self, stage: u32, what: What, amount: usize) {
        let amount = self.extras.as_mut().map_or(0, |extras| extras.taken.let_go(stage, what, amount));
        self.given_back(what, amount);
    }

    /// A guard that was taken by a handle of the channel was dropped.
    pub(in crate::channel) fn let_go_from_outside(&mut self) {
        self.given_back(What::Hold, 1);
    }

    pub(super) fn given_back(&mut self, what: What, amount: usize) {
        match what {
            _ if amount == 0 => {}
            What::Hold => {
                (0..amount).for_each(|_| self.demand.release());
                self.unrest.waits();
            }
            What::HoldInput => (0..amount).for_each(|_| self.demand.release_input()),
            What::Insist => (0..amount).for_each(|_| self.demand.desist()),
            What::Away => {
                (0..amount).for_each(|_| self.demand.arrive());
                self.unrest.waits();
            }
            What::Pending => self.account.arrived_from_outside(amount),
        }
    }

    /// All stages from this number on leave: what they have of the channel they have no more.
    pub(crate) fn forget_stages(&mut self, from: u32) {
        self.drop_tasks(from);
        self.drop_timers(from);
        if let Some(side) = self.side.get()
            && let Some(rare) = side.lock().unwrap_or_else(PoisonError::into_inner).rare_if_any()
        {
            rare.stages.retain(|known| known.stage < from);
        }
        self.forget_families(from);
        if std::mem::take(&mut self.wishes.tail_ended) != TailEnded::Not {
            self.wishes.close_when_flushed = false;
            self.wishes.wants_no_more = false;
        }
        while let Some((what, amount)) =
            self.extras.as_mut().and_then(|extras| extras.taken.give_back_next(from))
        {
            self.given_back(what, amount);
        }
    }
}
