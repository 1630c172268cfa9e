//! Who of the workers sleeps, and who of them has been called.
//!
//! ```text
//!   idle ── call ──▶ called ── has the lock again ──▶ looks for a task
//!   the timekeeper ── call, if nobody is idle ──▶ called ── … ──▶ looks for a task, and somebody else keeps the time
//! ```
//! Always true between calls (the pool's lock guards it all):
//! 1. A worker that was called counts as coming until it has the lock again, and is not called a second time: the next call is
//!    for another one.
//! 2. Whoever comes looks for a task before it sleeps again. So as many tasks as are ready need as many who come, and no more.
//! 3. A worker may wake up uncalled. Should it take the place of one that was called, the other one comes all the same, and
//!    finds itself uncalled: as many come as are said to, or more.
//! 4. At most one is the timekeeper.

/// The workers of a pool that sleep.
#[derive(Default)]
pub(super) struct Sleepers {
    /// Those that wait for work and have not been called.
    idle: usize,
    /// Those that waited for work and have been called.
    called: usize,
    keeper: Keeper,
}

/// The worker that sleeps until the next deadline.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Keeper {
    #[default]
    Nobody,
    Sleeps,
    Called,
}

/// Whom a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "who is called sleeps until the bell rings"]
pub(super) enum Bell {
    /// One of those that wait for work.
    Work,
    Timekeeper,
}

impl Sleepers {
    /// How many are on their way to look for a task.
    pub(super) fn coming(&self) -> usize {
        self.called + usize::from(self.keeper == Keeper::Called)
    }

    pub(super) fn has_timekeeper(&self) -> bool {
        self.keeper != Keeper::Nobody
    }

    /// Calls one for a task. The timekeeper is the last: another would have to take over. `None`: nobody is left to be called.
    pub(super) fn call(&mut self) -> Option<Bell> {
        if let Some(bell) = self.call_idle() {
            return Some(bell);
        }
        if self.keeper != Keeper::Sleeps {
            return None;
        }
        self.keeper = Keeper::Called;
        Some(Bell::Timekeeper)
    }

    /// Calls one of those that do not keep the time.
    pub(super) fn call_idle(&mut self) -> Option<Bell> {
        self.idle = self.idle.checked_sub(1)?;
        self.called += 1;
        Some(Bell::Work)
    }

    /// Calls one to keep the time, if nobody does and nobody comes: who finds no task keeps it.
    pub(super) fn call_timekeeper(&mut self) -> Option<Bell> {
        if self.has_timekeeper() || self.called > 0 { None } else { self.call_idle() }
    }

    /// How many sleep and have not been called.
    #[cfg(all(test, not(loom)))]
    pub(super) fn asleep(&self) -> usize {
        self.idle + usize::from(self.keeper == Keeper::Sleeps)
    }

    /// A worker begins to wait for work.
    pub(super) fn rests(&mut self) {
        self.idle += 1;
    }

    /// And has the lock again.
    pub(super) fn rested(&mut self) {
        if self.called > 0 {
            self.called -= 1;
        } else {
            self.idle -= 1;
        }
    }

    /// A worker begins to sleep until the next deadline.
    pub(super) fn keeps_time(&mut self) {
        debug_assert!(!self.has_timekeeper());
        self.keeper = Keeper::Sleeps;
    }

    /// And has the lock again.
    pub(super) fn kept_time(&mut self) {
        self.keeper = Keeper::Nobody;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn asleep(idle: usize) -> Sleepers {
        let mut sleepers = Sleepers::default();
        sleepers.keeps_time();
        (0..idle).for_each(|_| sleepers.rests());
        sleepers
    }

    #[test]
    fn who_was_called_is_not_called_again_and_the_timekeeper_is_the_last() {
        let mut sleepers = asleep(2);
        assert_eq!(
            [(); 4].map(|()| sleepers.call()),
            [Some(Bell::Work), Some(Bell::Work), Some(Bell::Timekeeper), None]
        );
        assert_eq!(sleepers.coming(), 3);
        sleepers.kept_time();
        (0..2).for_each(|_| sleepers.rested());
        assert_eq!(sleepers.coming(), 0);
        assert_eq!(sleepers.call(), None, "all of them are awake");
    }

    #[test]
    fn one_that_wakes_up_uncalled_leaves_the_others_to_be_called() {
        let mut sleepers = asleep(2);
        sleepers.rested(); // uncalled
        assert_eq!(sleepers.call(), Some(Bell::Work));
        assert_eq!(sleepers.call(), Some(Bell::Timekeeper));
        assert_eq!(sleepers.coming(), 2);

        let mut sleepers = asleep(2);
        assert_eq!(sleepers.call(), Some(Bell::Work));
        sleepers.rested(); // in place of the one that was called
        assert_eq!(sleepers.coming(), 0);
        sleepers.rested(); // the one that was called
        assert_eq!(sleepers.call(), Some(Bell::Timekeeper), "nobody else sleeps");
    }

    #[test]
    fn nobody_is_called_to_keep_the_time_while_somebody_does_or_comes() {
        let mut sleepers = asleep(2);
        assert_eq!(sleepers.call_timekeeper(), None);
        sleepers.kept_time();
        assert_eq!(sleepers.call_timekeeper(), Some(Bell::Work));
        assert_eq!(sleepers.call_timekeeper(), None, "one comes already");
    }
}
