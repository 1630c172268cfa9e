//! Connections that grow old, and those that are made before anybody asks.
//!
//! ```text
//!   idle, in the order in which they came back:  [a] [b] [c] [d]
//!                                                 └ idle too long: leave, but for the last `min_idle`
//!   whichever is too old leaves, also when it comes back from a loan
//!   fewer than `min_idle` are idle, or than a warm-up wants are there: spare connects; one that fails, or that ends at once, is tried again after a pause
//! ```
//! Always true:
//! 1. There is one timer for the whole pool, and none before something is idle or a spare connect has failed. It is armed for the first thing that may
//!    be due, or earlier, so that a return arms one only if nothing is armed.
//! 2. A spare connect that fails costs nobody who waits anything: they have attempts of their own, or get one then.
//! 3. A warm-up ends: when so many connections are there, with the first error, or with the pool.
//! 4. Peers that take connections and end them at once are connected to no more often than those that refuse them.

use super::{
    PoolError,
    inner::{Inner, Resting, State},
    pooled::Member,
};
use crate::bootstrap::ConnectError;
use netwright_core::{CloseCause, Promise, Promised, Scheduled, promise, world};
use std::{
    sync::{Arc, MutexGuard},
    time::{Duration, Instant},
};

/// The first pause behind a spare connect that has failed; each further one is twice as long.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// And none is longer.
const RETRY_LONGEST: Duration = Duration::from_secs(60);
/// A spare connection that ends sooner counts as one that was not made.
const STANDS: Duration = RETRY_FIRST;

/// What a pool does without being asked.
#[derive(Default)]
pub(super) struct Upkeep {
    timer: Option<(Instant, Scheduled<()>)>,
    warming: Vec<Warming>,
    /// How often in a row spare connects have failed, those together that failed before the next pause was over.
    failures: u32,
    /// The last failure was a connection that came about and ended at once, so that the next one that comes about says nothing.
    short_lived: bool,
    /// Until then none is begun to keep connections ready.
    pause_until: Option<Instant>,
}

/// Somebody waits for so many connections to be there.
struct Warming {
    target: usize,
    promise: Promise<usize, PoolError>,
}

impl Upkeep {
    /// A connect has succeeded.
    pub(super) fn connected(&mut self) {
        if !self.short_lived {
            (self.failures, self.pause_until) = (0, None);
        }
    }

    /// A connection was lent, or has stood for a while.
    pub(super) fn stood(&mut self) {
        if std::mem::take(&mut self.short_lived) {
            self.failures = 0;
        }
    }

    pub(super) fn end(self) {
        if let Some((_, timer)) = self.timer {
            timer.cancel();
        }
        for warming in self.warming {
            warming.promise.fail(PoolError::Closed);
        }
    }
}

impl<W: Send + 'static> Inner<W> {
    // ---- growing old ----

    /// When a connection that is made now is too old: up to a tenth sooner than said, so that those made together do not end together.
    pub(super) fn dies(&self) -> Option<Instant> {
        let age = self.settings.max_age;
        let sooner = (age / 10).mul_f64(world::random() as f64 / u64::MAX as f64);
        if age.is_zero() { None } else { self.settings.timer.now().checked_add(age - sooner) }
    }

    pub(super) fn is_old(&self, member: &Member<W>) -> bool {
        member.dies.is_some_and(|dies| dies <= self.settings.timer.now())
    }

    /// Whether a connection is of no use any more that is one of so many idle ones.
    pub(super) fn is_over(&self, resting: &Resting<W>, now: Instant, idle: usize) -> bool {
        let unused = idle > self.settings.min_idle && self.unused_at(resting).is_some_and(|due| due <= now);
        unused || resting.member.dies.is_some_and(|dies| dies <= now)
    }

    /// When a connection has been idle for too long.
    fn unused_at(&self, resting: &Resting<W>) -> Option<Instant> {
        let limit = self.settings.idle_timeout;
        if limit.is_zero() { None } else { resting.since.checked_add(limit) }
    }

    /// A connection has just become idle.
    pub(super) fn look_after(self: &Arc<Self>, state: MutexGuard<'_, State<W>>) {
        let dies = state.idle.last().and_then(|resting| resting.member.dies);
        let surplus = state.idle.len() > self.settings.min_idle;
        let unused = state.idle.first().filter(|_| surplus).and_then(|oldest| self.unused_at(oldest));
        let armed = state.upkeep.timer.as_ref().map(|(due, _)| *due);
        drop(state);
        if let Some(due) = dies.into_iter().chain(unused).min()
            && armed.is_none_or(|armed| due < armed)
        {
            self.arm(due);
        }
    }

    fn arm(self: &Arc<Self>, due: Instant) {
        let pool = Arc::downgrade(self);
        let look = move || {
            if let Some(inner) = pool.upgrade() {
                inner.look();
            }
        };
        // A loop that has ended makes no more connections either, as a rule; what is idle is looked at when it is lent.
        let Ok(timer) = self.settings.timer.schedule_at(due, look) else { return };
        let mut state = self.lock();
        let closed = state.closed;
        let later = match &mut state.upkeep.timer {
            _ if closed => Some(timer),
            Some((armed, _)) if *armed <= due => Some(timer), // somebody was faster
            place => place.replace((due, timer)).map(|(_, timer)| timer),
        };
        drop(state);
        if let Some(timer) = later {
            timer.cancel();
        }
    }

    /// The timer is due.
    fn look(self: &Arc<Self>) {
        let now = self.settings.timer.now();
        let mut state = self.lock();
        let timer = state.upkeep.timer.take();
        if state.upkeep.pause_until.is_some_and(|until| until <= now) {
            state.upkeep.pause_until = None;
        }
        let old = |resting: &mut Resting<W>| resting.member.dies.is_some_and(|dies| dies <= now);
        let mut gone: Vec<_> = state.idle.extract_if(.., old).collect();
        let surplus = state.idle.len().saturating_sub(self.settings.min_idle);
        let unused = |resting: &&Resting<W>| self.unused_at(resting).is_some_and(|due| due <= now);
        let unused = state.idle.iter().take(surplus).take_while(unused).count();
        gone.extend(state.idle.drain(..unused));
        let due = self.next_due(&state);
        drop(state);
        drop(timer);
        for resting in gone {
            resting.member.channel.close();
        }
        self.connect_as_needed();
        if let Some(due) = due {
            self.arm(due);
        }
    }

    fn next_due(&self, state: &State<W>) -> Option<Instant> {
        let dies = state.idle.iter().filter_map(|resting| resting.member.dies);
        let surplus = state.idle.len() > self.settings.min_idle;
        let unused = state.idle.first().filter(|_| surplus).and_then(|oldest| self.unused_at(oldest));
        dies.chain(unused).chain(state.upkeep.pause_until).min()
    }

    // ---- being ready ----

    /// Whether there are fewer connections than there should be, whoever waits.
    pub(super) fn lacks(&self, state: &mut State<W>) -> bool {
        state.upkeep.warming.retain(|warming| !warming.promise.is_cancelled());
        let spare = state.attempts.len().saturating_sub(state.waiting.len());
        let ready = state.idle.len() + spare;
        let paused = state.upkeep.pause_until.is_some();
        let warming = state.upkeep.warming.iter().map(|warming| warming.target).max();
        ready < self.settings.min_idle && !paused
            || warming.is_some_and(|target| state.connections() < target)
    }

    /// Connects until so many connections are there, or as many as there may be.
    pub(super) fn warm_up(self: &Arc<Self>, connections: usize) -> Promised<usize, PoolError> {
        let mut state = self.lock();
        if state.closed {
            return Promised::ready(Err(PoolError::Closed));
        }
        let (promise, promised) = promise();
        let target = connections.min(self.settings.max_connections);
        state.upkeep.warming.push(Warming { target, promise });
        drop(state);
        self.connect_as_needed();
        self.tell_warmed();
        promised
    }

    /// Tells those who wait for what is there now.
    pub(super) fn tell_warmed(&self) {
        let mut state = self.lock();
        if state.upkeep.warming.is_empty() {
            return;
        }
        let there = state.idle.len() + state.in_use;
        let done: Vec<_> = state.upkeep.warming.extract_if(.., |warming| warming.target <= there).collect();
        drop(state);
        for warming in done {
            warming.promise.succeed(there);
        }
    }

    /// A connect that was begun for nobody has failed.
    pub(super) fn spare_failed(self: &Arc<Self>, error: ConnectError) {
        self.retry_later(self.lock(), &PoolError::Connect(error));
    }

    /// A connection has ended where it waited.
    pub(super) fn spare_ended(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State<W>>,
        resting: &Resting<W>,
        now: Instant,
    ) {
        if resting.fresh && now.saturating_duration_since(resting.since) < STANDS {
            state.upkeep.short_lived = true;
            let cause = resting.member.channel.close_cause().unwrap_or(CloseCause::PeerClosed);
            self.retry_later(state, &PoolError::Ended(cause));
        } else {
            state.upkeep.stood();
            drop(state);
            self.connect_as_needed();
        }
    }

    fn retry_later(self: &Arc<Self>, mut state: MutexGuard<'_, State<W>>, error: &PoolError) {
        let warming = std::mem::take(&mut state.upkeep.warming);
        let keeps = self.settings.min_idle > 0 && !state.closed;
        let mut due = None;
        if keeps && state.upkeep.pause_until.is_none() {
            let pause = RETRY_FIRST.saturating_mul(1 << state.upkeep.failures.min(6)).min(RETRY_LONGEST);
            state.upkeep.failures = state.upkeep.failures.saturating_add(1);
            due = self.settings.timer.now().checked_add(pause);
            state.upkeep.pause_until = due;
        }
        drop(state);
        for warming in warming {
            warming.promise.fail(error.clone());
        }
        self.connect_as_needed(); // for somebody who has come to wait for this one
        if let Some(due) = due {
            self.arm(due);
        }
    }
}
