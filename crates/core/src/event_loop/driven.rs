//! A loop that is driven from outside, turn by turn: by its owner (`manual`), or by a world.

use super::{
    figures::LoopFigures,
    runner::{End, Runner, Wait},
    shared::Shared,
};
use crate::{error::LoopError, task_error::catch};
use std::{sync::Arc, time::Instant};

/// The part of a loop that its thread would have. Dropped, the loop ends: what was accepted runs, the rest is refused.
pub(crate) struct Driven {
    /// Gone when the loop is over.
    runner: Option<Runner>,
    shared: Arc<Shared>,
    /// Whether it has a name as a thread has one, and gives it back when it is suspended.
    owns_thread: bool,
}

impl Driven {
    /// In place of the loop's thread.
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Self, LoopError> {
        let driven = Self::new(shared, true)?;
        shared.count_panic(shared.config.threads.begins(&shared.config.name));
        Ok(driven)
    }

    /// For a loop that belongs to whoever drives it.
    pub(crate) fn owned(shared: &Arc<Shared>) -> Result<Self, LoopError> {
        Self::new(shared, false)
    }

    fn new(shared: &Arc<Shared>, owns_thread: bool) -> Result<Self, LoopError> {
        Ok(Self { runner: Some(Runner::start(shared, owns_thread)?), shared: shared.clone(), owns_thread })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn is_over(&self) -> bool {
        self.runner.is_none()
    }

    pub(crate) fn figures(&self) -> LoopFigures {
        self.shared.figures.snapshot(self.shared.inbox.pending())
    }

    /// Whether something waits that needs no event.
    pub(crate) fn has_tasks(&self) -> bool {
        self.runner.as_ref().is_some_and(|runner| {
            let local = runner.local();
            local.has_tasks() || local.tail.has_pending()
        })
    }

    /// When it has to be looked at again, if nothing else happens: for a timer, or because it leaves.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        let runner = self.runner.as_ref()?;
        let local = runner.local();
        let now = local.moment();
        let left = [local.until_next_timer(now), runner.stay()].into_iter().flatten().min()?;
        local.instant(now).checked_add(left)
    }

    /// One turn without waiting. Returns whether anything was done.
    pub(crate) fn turn_once(&mut self) -> bool {
        self.turn(Wait::Never)
    }

    pub(crate) fn turn(&mut self, wait: Wait) -> bool {
        let Some(runner) = self.runner.as_mut() else { return false };
        let entered = runner.local().enter();
        let turned = catch(|| runner.turn(wait)).unwrap_or_else(|message| Err(LoopError::Panicked(message)));
        let end = runner.end();
        drop(entered);
        match (turned, end) {
            (Ok(busy), None) => busy,
            (Ok(_), Some(End::Suspended)) => self.give_back(),
            (Ok(_), Some(End::Finished)) => self.finish(Ok(())),
            (Err(error), _) => self.finish(Err(error)),
        }
    }

    /// Runs `f` as if on the loop.
    pub(crate) fn enter<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let entered = self.runner.as_ref().map(|runner| runner.local().enter());
        let result = f();
        drop(entered);
        result
    }

    /// It has nothing to do, and is driven again when it has.
    fn give_back(&mut self) -> bool {
        self.runner = None;
        self.shared.count_panic(self.shared.config.threads.ends(&self.shared.config.name));
        false
    }

    pub(crate) fn finish(&mut self, how: Result<(), LoopError>) -> bool {
        if let Some(runner) = self.runner.take() {
            let entered = runner.local().enter();
            runner.finish();
            drop(entered);
            if self.owns_thread {
                self.shared.inbox.close();
                self.shared.count_panic(self.shared.config.threads.ends(&self.shared.config.name));
            }
            self.shared.terminate(how);
        }
        false
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.finish(Ok(()));
    }
}
