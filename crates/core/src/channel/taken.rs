//! What single stages have taken of their channel, so that it can be given back when they leave.
//!
//! Always true: a stage gives back what it took and no more, by itself or when it leaves; so a stage that forgets to, or
//! says it twice, holds up nobody else's messages and writes.

/// What a stage can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Delivery: the stage can take no more for now.
    Hold,
    /// The transport's reads: the stage has bytes enough for now.
    HoldInput,
    /// It needs what the peer sends, whoever has asked for messages.
    Insist,
    /// Room to write, in bytes.
    Pending,
    /// Everybody's turn, until what it has under way on workers is back.
    Away,
}

#[derive(Debug)]
struct Entry {
    stage: u32,
    what: What,
    amount: usize,
}

/// What all stages of a channel have taken. Few do at all, and those little at a time.
#[derive(Debug, Default)]
pub(super) struct Taken {
    entries: List,
    /// What a stage on a worker has let go before the loop heard that it was taken.
    early: List,
}

#[derive(Debug, Default)]
struct List(Vec<Entry>);

impl List {
    fn add(&mut self, stage: u32, what: What, amount: usize) {
        match self.0.iter_mut().find(|entry| entry.stage == stage && entry.what == what) {
            Some(entry) => entry.amount += amount,
            None => self.0.push(Entry { stage, what, amount }),
        }
    }

    /// How much of it there was.
    fn sub(&mut self, stage: u32, what: What, amount: usize) -> usize {
        let Some(index) = self.0.iter().position(|entry| entry.stage == stage && entry.what == what) else {
            return 0;
        };
        let amount = amount.min(self.0[index].amount);
        self.0[index].amount -= amount;
        if self.0[index].amount == 0 {
            self.0.swap_remove(index);
        }
        amount
    }
}

impl Taken {
    /// How much of it is taken now: less than that, if some was let go already.
    pub(super) fn take(&mut self, stage: u32, what: What, amount: usize) -> usize {
        let amount = amount - self.early.sub(stage, what, amount);
        if amount > 0 {
            self.entries.add(stage, what, amount);
        }
        amount
    }

    /// How much of it the stage may give back.
    pub(super) fn give_back(&mut self, stage: u32, what: What, amount: usize) -> usize {
        self.entries.sub(stage, what, amount)
    }

    /// The same for what a guard lets go, wherever it is. If the stage is on a worker, what it took there may be on its way here.
    pub(super) fn let_go(&mut self, stage: u32, what: What, amount: usize) -> usize {
        let back = self.give_back(stage, what, amount);
        let away = self.entries.0.iter().any(|entry| entry.stage == stage && entry.what == What::Away);
        if back < amount && away {
            self.early.add(stage, what, amount - back);
        }
        back
    }

    /// Something that a stage from this number on has taken and not given back.
    pub(super) fn give_back_next(&mut self, from: u32) -> Option<(What, usize)> {
        self.early.0.retain(|entry| entry.stage < from);
        let index = self.entries.0.iter().position(|entry| entry.stage >= from)?;
        let entry = self.entries.0.swap_remove(index);
        Some((entry.what, entry.amount))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stage_gives_back_what_it_took_and_no_more() {
        let mut taken = Taken::default();
        taken.take(1, What::Pending, 10);
        taken.take(1, What::Pending, 5);
        taken.take(2, What::Hold, 1);
        assert_eq!(taken.give_back(1, What::Pending, 12), 12);
        assert_eq!(taken.give_back(1, What::Pending, 12), 3);
        assert_eq!(taken.give_back(1, What::Hold, 1), 0);
        assert_eq!(taken.give_back_next(3), None);
        assert_eq!(taken.give_back_next(2), Some((What::Hold, 1)));
        assert_eq!(taken.give_back_next(0), None);
    }

    #[test]
    fn what_a_stage_on_a_worker_lets_go_before_it_is_known_to_be_taken_is_not_taken() {
        let mut taken = Taken::default();
        assert_eq!(taken.let_go(1, What::Hold, 1), 0, "of a stage that is gone");
        assert_eq!(taken.take(1, What::Hold, 1), 1);
        taken.give_back(1, What::Hold, 1);

        taken.take(1, What::Away, 1);
        assert_eq!(taken.let_go(1, What::Hold, 1), 0);
        assert_eq!(taken.take(1, What::Hold, 2), 1);
        assert_eq!(taken.let_go(1, What::Hold, 1), 1);
    }
}
