//! What single stages take of a channel, and give back at the latest when they leave.

use super::{super::taken::What, Asked, ChannelCore};
use std::sync::PoisonError;

impl ChannelCore {
    pub(crate) fn hold(&mut self, stage: u32) {
        self.take(stage, What::Hold, 1, || Asked::Hold);
    }

    pub(crate) fn release(&mut self, stage: u32) {
        self.give_back(stage, What::Hold, 1, || Asked::Release);
    }

    pub(crate) fn hold_input(&mut self, stage: u32) {
        self.take(stage, What::HoldInput, 1, || Asked::HoldInput);
    }

    pub(crate) fn release_input(&mut self, stage: u32) {
        self.give_back(stage, What::HoldInput, 1, || Asked::ReleaseInput);
    }

    pub(crate) fn insist(&mut self, stage: u32) {
        self.take(stage, What::Insist, 1, || Asked::Insist);
    }

    pub(crate) fn desist(&mut self, stage: u32) {
        self.give_back(stage, What::Insist, 1, || Asked::Desist);
    }

    pub(crate) fn add_pending(&mut self, stage: u32, bytes: usize) {
        self.take(stage, What::Pending, bytes, || Asked::AddPending(bytes));
    }

    pub(crate) fn sub_pending(&mut self, stage: u32, bytes: usize) {
        self.give_back(stage, What::Pending, bytes, || Asked::SubPending(bytes));
    }

    fn take(&mut self, stage: u32, what: What, amount: usize, asked: impl FnOnce() -> Asked) {
        self.ask(asked);
        self.extras.get_or_insert_default().taken.take(stage, what, amount);
        match what {
            What::Hold => self.demand.hold(),
            What::HoldInput => self.demand.hold_input(),
            What::Insist => {
                self.demand.insist();
                self.waiting_inside = true;
            }
            What::Pending => self.account.expect_from_outside(amount),
            What::Away => self.demand.depart(),
        }
    }

    fn give_back(&mut self, stage: u32, what: What, amount: usize, asked: impl FnOnce() -> Asked) {
        self.ask(asked);
        let amount = self.extras.as_mut().map_or(0, |extras| extras.taken.give_back(stage, what, amount));
        self.given_back(what, amount);
    }

    pub(super) fn given_back(&mut self, what: What, amount: usize) {
        match what {
            _ if amount == 0 => {}
            What::Hold => {
                (0..amount).for_each(|_| self.demand.release());
                self.waiting_inside = true;
            }
            What::HoldInput => (0..amount).for_each(|_| self.demand.release_input()),
            What::Insist => (0..amount).for_each(|_| self.demand.desist()),
            What::Away => {
                (0..amount).for_each(|_| self.demand.arrive());
                self.waiting_inside = true;
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
        if std::mem::take(&mut self.wishes.tail_ended) {
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
