//! What a peer's abuse costs it: one bucket of points for each connection, in place of a counter for each kind of attack.
//!
//! ```text
//!   100 a second ──▶ [ 1,000 points ] ──▶ resets, empty frames, pings, settings …      empty: the connection ends
//!   work that was of use earns some back
//! ```

use std::time::Instant;

/// What something costs.
pub(crate) mod price {
    /// A stream was reset, or had to be: work was done for nothing (Rapid Reset, MadeYouReset).
    pub(crate) const RESET: u32 = 10;
    /// A frame that carries nothing.
    pub(crate) const EMPTY: u32 = 10;
    /// A frame that has us work, and may be needed: pings, settings, priorities, unknown ones, credit, few bytes that nobody reads.
    pub(crate) const FRAME: u32 = 1;
    /// What a request that was answered to its end earns.
    pub(crate) const ANSWERED: u32 = 10;
    /// What a frame of data that could be sent earns: it is what credit and pings are for.
    pub(crate) const SENT: u32 = 1;
    /// The same for a long one: some peers answer each with credit for its stream and for the connection.
    pub(crate) const SENT_MUCH: u32 = 2;
}

/// The bucket of a connection.
#[derive(Debug)]
pub(crate) struct Points {
    left: u32,
    most: u32,
    a_second: u32,
    /// Until when what flows in by time is counted. Looked at only when points are short.
    filled: Option<Instant>,
}

impl Points {
    pub(crate) fn new(most: u32, a_second: u32) -> Self {
        Self { left: most, most, a_second, filled: None }
    }

    /// Takes points. False if there are not so many.
    #[inline]
    #[must_use]
    pub(crate) fn charge(&mut self, points: u32, now: impl FnOnce() -> Instant) -> bool {
        if self.left < points || self.filled.is_none() {
            self.fill(now());
        }
        match self.left.checked_sub(points) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    #[inline]
    pub(crate) fn earn(&mut self, points: u32) {
        self.left = (self.left + points).min(self.most);
    }

    #[cold]
    fn fill(&mut self, now: Instant) {
        let since = self.filled.get_or_insert(now);
        let passed = now.saturating_duration_since(*since).as_millis();
        let points = passed * u128::from(self.a_second) / 1000;
        if points > 0 {
            self.left = u32::try_from(points).unwrap_or(u32::MAX).saturating_add(self.left).min(self.most);
            *since = now;
        }
    }

    /// How many there are.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn points_are_used_up_come_back_by_time_and_by_work() {
        let start = Instant::now();
        let mut points = Points::new(1000, 100);
        for _ in 0..100 {
            assert!(points.charge(price::RESET, || start));
        }
        assert!(!points.charge(price::RESET, || start));
        assert!(!points.charge(price::RESET, || start + Duration::from_millis(99)));
        assert!(points.charge(price::RESET, || start + Duration::from_millis(200)));
        points.earn(price::ANSWERED);
        assert!(points.charge(price::RESET, || start + Duration::from_millis(200)));
    }

    #[test]
    fn never_more_than_the_bucket_holds() {
        let start = Instant::now();
        let mut points = Points::new(20, 100);
        points.earn(1000);
        assert!(points.charge(20, || start));
        assert!(!points.charge(21, || start + Duration::from_secs(1000)));
        assert_eq!(points.left(), 20);
    }

    #[test]
    fn short_looks_lose_no_time() {
        let start = Instant::now();
        let mut points = Points::new(1, 100);
        assert!(points.charge(1, || start));
        for micros in (0..9_000).step_by(100) {
            assert!(!points.charge(1, || start + Duration::from_micros(micros)));
        }
        assert!(points.charge(1, || start + Duration::from_millis(10)));
    }
}
