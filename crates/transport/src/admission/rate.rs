//! How fast connections may come: a bucket of tokens, kept as one moment.
//!
//! ```text
//!   now ────────────┬──────────────────┬────▶        each connection moves `full_at` on by one interval
//!                   └── earliest       └── full_at   `earliest` lies burst - 1 intervals before it: nobody comes sooner
//! ```
//! So a bucket is eight bytes, is filled without a timer, and is forgotten when it is full: it then differs from none in nothing.

use std::{fmt, time::Duration};

/// How fast connections are accepted: so many in a time, and how many of them at once.
///
/// ```
/// use netwright_transport::AcceptRate;
/// use std::time::Duration;
///
/// let rate = AcceptRate::per_second(100).burst(20);
/// assert_eq!(rate.to_string(), "100 in 1s, 20 at once");
/// assert_eq!(AcceptRate::new(6, Duration::from_secs(60)).to_string(), "6 in 60s, 6 at once");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptRate {
    count: u32,
    per: Duration,
    burst: u32,
}

impl AcceptRate {
    /// So many in this time, and as many at once. With a count of zero nobody comes; a time of zero is taken for a nanosecond.
    pub const fn new(count: u32, per: Duration) -> Self {
        let burst = if count > 0 { count } else { 1 };
        Self { count, per, burst }
    }

    /// So many in a second.
    pub const fn per_second(count: u32) -> Self {
        Self::new(count, Duration::from_secs(1))
    }

    /// How many may come at once after a quiet time: at least one. Default: as many as come in the time that the rate is given for.
    pub const fn burst(mut self, connections: u32) -> Self {
        self.burst = if connections > 0 { connections } else { 1 };
        self
    }

    /// From one connection to the next, in nanoseconds; none: there is no next.
    fn interval(&self) -> Option<u64> {
        let nanoseconds = u64::try_from(self.per.as_nanos()).unwrap_or(u64::MAX);
        Some((nanoseconds / u64::from(std::num::NonZeroU32::new(self.count)?.get())).max(1))
    }
}

impl fmt::Display for AcceptRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:?}, {} at once", self.count, self.per, self.burst)
    }
}

/// What is left of a rate. Moments are nanoseconds since any beginning.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    full_at: u64,
}

/// How long one who finds a bucket empty for ever looks away at a time: the rate may be changed.
const NEVER: Duration = Duration::from_secs(3600);

impl Bucket {
    /// How long it is until another one may come: none if one may now.
    pub(super) fn wait(&self, rate: &AcceptRate, now: u64) -> Option<Duration> {
        let Some(interval) = rate.interval() else { return Some(NEVER) };
        let earliest = self.full_at.saturating_sub(interval.saturating_mul(u64::from(rate.burst - 1)));
        (earliest > now).then(|| Duration::from_nanos(earliest - now))
    }

    /// One comes. If there was a [wait](Self::wait), those behind it wait longer.
    pub(super) fn take(&mut self, rate: &AcceptRate, now: u64) {
        self.full_at = self.full_at.max(now).saturating_add(rate.interval().unwrap_or(0));
    }

    /// Whether it differs from a new one.
    pub(super) fn is_full(&self, now: u64) -> bool {
        self.full_at <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// How many of those who try every `step` come within `time`.
    fn come(rate: AcceptRate, time: u64, step: u64) -> u64 {
        let (mut bucket, mut came) = (Bucket::default(), 0);
        for now in (0..time).step_by(step as usize) {
            if bucket.wait(&rate, now).is_none() {
                bucket.take(&rate, now);
                came += 1;
            }
        }
        came
    }

    #[test]
    fn over_ten_seconds_as_many_come_as_the_rate_says_and_one_burst() {
        for (rate, burst) in [(100, 1), (100, 20), (1, 5), (3, 3), (7, 1)] {
            let came = come(AcceptRate::per_second(rate).burst(burst), 10 * SECOND, 100_000);
            let expected = u64::from(rate) * 10 + u64::from(burst) - 1;
            assert!(came.abs_diff(expected) <= 1, "{rate} with {burst}: {came}, not {expected}");
        }
    }

    #[test]
    fn the_wait_that_is_told_is_exactly_long_enough() {
        let rate = AcceptRate::new(3, Duration::from_secs(2)).burst(2);
        let (mut bucket, mut now) = (Bucket::default(), 5 * SECOND);
        for _ in 0..20 {
            if let Some(wait) = bucket.wait(&rate, now) {
                let there = now + wait.as_nanos() as u64;
                assert!(bucket.wait(&rate, there - 1).is_some() && bucket.wait(&rate, there).is_none());
                now = there;
            }
            bucket.take(&rate, now);
        }
    }

    #[test]
    fn a_rate_of_zero_lets_nobody_come_and_the_ends_of_what_numbers_can_say_are_no_panic() {
        assert_eq!(come(AcceptRate::per_second(0), SECOND, 1_000_000), 0);
        for (count, per, burst) in [
            (u32::MAX, Duration::ZERO, 0),
            (1, Duration::MAX, u32::MAX),
            (0, Duration::ZERO, 0),
            (u32::MAX, Duration::MAX, u32::MAX),
        ] {
            let (rate, mut bucket) = (AcceptRate::new(count, per).burst(burst), Bucket::default());
            for now in [0, 1, u64::MAX / 2, u64::MAX, 0] {
                let _ = bucket.wait(&rate, now);
                bucket.take(&rate, now);
            }
        }
    }
}
