//! How much one channel reads before others get their turn.
//!
//! So many reads, or so much time: what a read brings may be one message or thousands, and a handler may take long for each
//! of them. The clock is looked at after reads that brought much, and only if there is more to be read: who gets its messages one
//! by one never pays for it.

use netwright_core::LocalLoop;
use std::time::{Duration, Instant};

/// Reads in one turn.
const READS: u32 = 16;

/// Time in one turn, from the first look at the clock: no more than a timer's tick.
const TIME: Duration = Duration::from_millis(1);

/// Bytes between two looks at the clock.
const LOOK_AFTER: usize = 16 * 1024;

/// What a channel has had of a turn.
#[derive(Debug, Default)]
pub(super) struct Share {
    reads: u32,
    /// Since the last look at the clock.
    bytes: usize,
    /// Known from the first look on.
    until: Option<Instant>,
    spent: bool,
}

impl Share {
    /// A read has brought so much, and there may be more. True if that was the last one for this turn.
    #[inline]
    pub(super) fn read(&mut self, bytes: usize, local: &LocalLoop) -> bool {
        self.reads += 1;
        self.bytes += bytes;
        self.spent = self.reads >= READS || self.bytes >= LOOK_AFTER && self.is_late(local);
        self.spent
    }

    #[inline(never)]
    fn is_late(&mut self, local: &LocalLoop) -> bool {
        self.bytes = 0;
        let now = local.now();
        now >= *self.until.get_or_insert(now + TIME)
    }

    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright_core::{EventLoop, ManualClock, ManualLoop};

    /// Reads of this size until the share is spent, when each takes so long.
    fn reads(size: usize, each: Duration) -> u32 {
        let clock = ManualClock::new();
        let mut manual = ManualLoop::with_clock(EventLoop::builder(), clock.clone()).unwrap();
        manual.enter(|| {
            let (local, mut share) = (LocalLoop::current().unwrap(), Share::default());
            while !share.is_spent() {
                clock.advance(each);
                share.read(size, &local);
            }
            share.reads
        })
    }

    #[test]
    fn reads_that_take_no_time_are_counted() {
        assert_eq!(reads(64 * 1024, Duration::ZERO), READS);
        assert_eq!(reads(1, Duration::ZERO), READS);
    }

    #[test]
    fn reads_that_take_long_spend_the_share_by_their_time() {
        assert_eq!(reads(64 * 1024, Duration::from_millis(3)), 2);
        assert_eq!(reads(64 * 1024, TIME / 4), 5);
    }

    #[test]
    fn small_reads_do_not_cost_a_look_at_the_clock() {
        assert_eq!(reads(LOOK_AFTER / 32, Duration::from_millis(3)), READS);
    }
}
