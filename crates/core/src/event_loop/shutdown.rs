//! When a loop that was asked to shut down may leave.
//!
//! ```text
//!   shutdown asked          task        task                     no task for `quiet`: leave
//!   ├───────────────────────┼───────────┼─────────── quiet ──────┤
//!   └──────────────────────────── timeout at the latest ─────────────────────┤  leave anyway
//! ```
//!
//! Pure decisions: the clock and the facts arrive as arguments.

use crate::error::InvalidArgument;
use std::time::{Duration, Instant};

/// How patient a shutdown is. The first request counts; later ones wait for the same end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    pub(crate) quiet: Duration,
    pub(crate) timeout: Duration,
}

impl Patience {
    pub(crate) const NONE: Self = Self { quiet: Duration::ZERO, timeout: Duration::ZERO };

    pub(crate) fn new(quiet: Duration, timeout: Duration) -> Result<Self, InvalidArgument> {
        if timeout < quiet {
            let expected = format!("at least the quiet period of {quiet:?}");
            return Err(InvalidArgument::new("timeout", format!("{timeout:?}"), expected));
        }
        Ok(Self { quiet, timeout })
    }
}

/// A shutdown under way.
#[derive(Debug)]
pub(crate) struct Leaving {
    patience: Patience,
    asked: Instant,
    last_task: Instant,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Look again after this time, or sooner if something happens.
    Stay(Duration),
    /// Leave, unless a task comes in at the last moment.
    Leave,
    /// The timeout is over: leave in any case.
    LeaveNow,
}

impl Leaving {
    pub(crate) fn begin(patience: Patience, now: Instant) -> Self {
        Self { patience, asked: now, last_task: now }
    }

    /// `busy`: something is still to be done (tasks waiting, sources not yet closed).
    pub(crate) fn decide(&mut self, now: Instant, ran_tasks: bool, busy: bool) -> Decision {
        if ran_tasks {
            self.last_task = now;
        }
        let left = self.patience.timeout.saturating_sub(now.saturating_duration_since(self.asked));
        if left.is_zero() && (busy || !self.patience.timeout.is_zero()) {
            return Decision::LeaveNow;
        }
        if busy {
            return Decision::Stay(left);
        }
        let quiet_left = self.patience.quiet.saturating_sub(now.saturating_duration_since(self.last_task));
        if quiet_left.is_zero() { Decision::Leave } else { Decision::Stay(quiet_left.min(left)) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn leaving(quiet: u64, timeout: u64) -> (Leaving, Instant) {
        let now = Instant::now();
        (Leaving::begin(Patience::new(ms(quiet), ms(timeout)).unwrap(), now), now)
    }

    #[test]
    fn with_no_quiet_period_it_leaves_as_soon_as_nothing_waits() {
        let (mut leaving, start) = leaving(0, 1000);
        assert_eq!(leaving.decide(start, true, true), Decision::Stay(ms(1000)));
        assert_eq!(leaving.decide(start, true, false), Decision::Leave);
    }

    #[test]
    fn a_task_restarts_the_quiet_period() {
        let (mut leaving, start) = leaving(100, 1000);
        assert_eq!(leaving.decide(start, false, false), Decision::Stay(ms(100)));
        assert_eq!(leaving.decide(start + ms(90), true, false), Decision::Stay(ms(100)));
        assert_eq!(leaving.decide(start + ms(180), false, false), Decision::Stay(ms(10)));
        assert_eq!(leaving.decide(start + ms(190), false, false), Decision::Leave);
    }

    #[test]
    fn the_timeout_ends_it_although_tasks_keep_coming() {
        let (mut leaving, start) = leaving(100, 250);
        for at in [90, 180, 240] {
            assert!(matches!(leaving.decide(start + ms(at), true, true), Decision::Stay(_)));
        }
        assert_eq!(leaving.decide(start + ms(250), true, true), Decision::LeaveNow);
    }

    #[test]
    fn a_timeout_below_the_quiet_period_is_refused_with_both_values() {
        let error = Patience::new(ms(2), ms(1)).unwrap_err().to_string();
        assert_eq!(error, "timeout is 1ms, but must be at least the quiet period of 2ms");
    }
}
