//! Refusals in the log: the first of a kind with its peer, then how many there were, once a second. A line for each would be an attack on the log.

use crate::bootstrap::Refusal;
use netwright_core::{Address, EventLoop, LocalLoop, world};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Between two lines of a kind.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    /// By what they are called.
    kinds: Mutex<BTreeMap<&'static str, Kind>>,
}

#[derive(Debug, Default)]
struct Kind {
    /// Until then refusals of this kind are only counted.
    silent_until: Option<Instant>,
    unsaid: u64,
}

impl RefusalLog {
    pub(super) fn note(self: &Arc<Self>, peer: &Address, why: &Refusal) {
        let now = LocalLoop::turn_time_here().unwrap_or_else(world::now);
        let mut kinds = self.lock();
        let kind = kinds.entry(why.kind()).or_default();
        if kind.silent_until.is_some_and(|until| now < until) {
            kind.unsaid += 1;
            return;
        }
        kind.silent_until = now.checked_add(PAUSE);
        let unsaid = std::mem::take(&mut kind.unsaid);
        drop(kinds); // whoever subscribes to the log is foreign code
        tracing::warn!(%peer, %why, unsaid, "an accepted connection was refused");
        self.sum_up_later(why.kind());
    }

    /// Tells how many there were when the pause is over.
    fn sum_up_later(self: &Arc<Self>, kind: &'static str) {
        let log = Arc::downgrade(self);
        let sum_up = move || {
            if let Some(log) = log.upgrade() {
                log.sum_up(kind);
            }
        };
        // Without a loop, or on one that ends, the next refusal tells.
        if let Some(here) = EventLoop::current() {
            drop(here.schedule(PAUSE, sum_up));
        }
    }

    fn sum_up(self: &Arc<Self>, name: &'static str) {
        let mut kinds = self.lock();
        let unsaid = kinds.get_mut(name).map_or(0, |kind| std::mem::take(&mut kind.unsaid));
        if unsaid == 0 {
            return; // the next one is told with its peer
        }
        if let Some(kind) = kinds.get_mut(name) {
            kind.silent_until = LocalLoop::turn_time_here().unwrap_or_else(world::now).checked_add(PAUSE);
        }
        drop(kinds);
        tracing::warn!(unsaid, why = name, "further accepted connections were refused");
        self.sum_up_later(name);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Kind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright_core::ManualLoop;

    #[test]
    fn of_a_flood_the_first_is_told_and_the_others_are_counted_until_the_second_is_over() {
        let (log, peer) = (Arc::new(RefusalLog::default()), "192.0.2.7:4711".parse().unwrap());
        let (full, stalled) = (Refusal::Full { connections_max: 1 }, Refusal::Stalled { waiting_max: 1 });
        let mut manual = ManualLoop::new();
        let unsaid = || log.lock().values().map(|kind| kind.unsaid).collect::<Vec<_>>();
        manual.enter(|| (0..1000).for_each(|_| log.note(&peer, &full)));
        manual.enter(|| log.note(&peer, &stalled));
        assert_eq!(unsaid(), [999, 0]);
        manual.advance(PAUSE);
        assert_eq!(unsaid(), [0, 0]);
        manual.enter(|| log.note(&peer, &full));
        assert_eq!(unsaid().iter().sum::<u64>(), 1, "a line is a second away from the last one");
        manual.advance(PAUSE);
        manual.advance(PAUSE);
        manual.enter(|| log.note(&peer, &full));
        assert_eq!(unsaid(), [0, 0], "after a quiet time one is told at once");
        drop(log);
        manual.advance(PAUSE); // nobody is left to be told
    }

    #[test]
    fn without_a_loop_refusals_are_counted_too() {
        let (log, peer) = (Arc::new(RefusalLog::default()), "192.0.2.7:4711".parse().unwrap());
        (0..3).for_each(|_| log.note(&peer, &Refusal::LoopsEnded));
        assert_eq!(log.lock().values().next().unwrap().unsaid, 2);
    }
}
