//! How long tasks may run before the loop looks at I/O again.
//!
//! Tasks get time in proportion to what I/O took, and never more than a cap. But in every turn a batch of [`BATCH`] tasks
//! runs, whatever the budget, unless they take longer than [`LEAST`].

use super::moment::Moment;
use crate::error::InvalidArgument;
use std::time::Duration;

/// Tasks between two looks at the budget.
pub(crate) const BATCH: usize = 64;

/// Tiny tasks between two looks at the clock, which is not free: all but nothing for each of them, and soon enough when
/// others come that are not tiny.
pub(crate) const LOOK_AFTER: usize = 16;
const _: () = assert!(BATCH.is_multiple_of(LOOK_AFTER));

/// What a batch may take whatever the budget: no more than a timer's tick.
const LEAST: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    io_ratio: u8,
    /// In nanoseconds.
    cap: u64,
}

impl Budget {
    pub(crate) fn new(io_ratio: u8, cap: Duration) -> Result<Self, InvalidArgument> {
        if !(1..=100).contains(&io_ratio) {
            return Err(InvalidArgument::new("io_ratio", io_ratio, "between 1 and 100"));
        }
        if cap.is_zero() {
            return Err(InvalidArgument::new("task_time_cap", "0 ns", "longer than zero"));
        }
        Ok(Self { io_ratio, cap: u64::try_from(cap.as_nanos()).unwrap_or(u64::MAX) })
    }

    /// When tasks that begin at `start` have to end, even if it is in the middle of a batch.
    pub(crate) fn latest_end(self, start: Moment, io: u64) -> Moment {
        start.after(Duration::from_nanos(self.allowance(io)).max(LEAST))
    }

    /// Whether tasks that took so many nanoseconds have had their share after I/O took `io`.
    pub(crate) fn is_spent(self, took: u64, io: u64) -> bool {
        took >= self.allowance(io)
    }

    /// What tasks may take after I/O took `io`, both in nanoseconds.
    fn allowance(self, io: u64) -> u64 {
        let ratio = u64::from(self.io_ratio);
        if ratio == 100 {
            return self.cap;
        }
        io.checked_mul(100 - ratio).map_or(self.cap, |time| (time / ratio).min(self.cap))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const CAP: Duration = Duration::from_millis(100);

    fn allowance(ratio: u8, io_ms: u64) -> Duration {
        Duration::from_nanos(Budget::new(ratio, CAP).unwrap().allowance(io_ms * 1_000_000))
    }

    #[test]
    fn tasks_get_their_share_of_the_time_that_io_took() {
        assert_eq!(allowance(50, 8), Duration::from_millis(8));
        assert_eq!(allowance(80, 8), Duration::from_millis(2));
        assert_eq!(allowance(20, 8), Duration::from_millis(32));
        assert_eq!(allowance(50, 0), Duration::ZERO);
    }

    #[test]
    fn the_cap_holds_for_every_ratio() {
        assert_eq!(allowance(1, 50), CAP);
        assert_eq!(allowance(100, 0), CAP);
        assert_eq!(Budget::new(1, CAP).unwrap().allowance(u64::MAX), CAP.as_nanos() as u64);
        assert!(
            Budget::new(50, CAP).unwrap().is_spent(8, 8) && !Budget::new(50, CAP).unwrap().is_spent(7, 8)
        );
    }

    #[test]
    fn a_ratio_that_cannot_work_is_refused_by_name_and_value() {
        for ratio in [0, 101] {
            let error = Budget::new(ratio, CAP).unwrap_err().to_string();
            assert_eq!(error, format!("io_ratio is {ratio}, but must be between 1 and 100"));
        }
        let error = Budget::new(50, Duration::ZERO).unwrap_err().to_string();
        assert_eq!(error, "task_time_cap is 0 ns, but must be longer than zero");
    }
}
