//! How fast a peer has to take what waits for it.

use crate::error::InvalidArgument;
use std::{fmt, time::Duration};

/// How fast a peer has to take what waits for it, and how far it may be behind before its channel is cut.
///
/// Whoever asks for much and takes nothing pins our memory and the system's. While something waits to be sent, each second
/// puts the peer a second behind, and each byte that it takes brings it forward by what a byte may take. It is cut when it
/// is behind by the grace: after that time if it takes nothing. What it takes in a rush brings it ahead, by the grace at
/// most, because systems tell of what a peer takes in steps: one whose window was full opens it again when a sixteenth of
/// its buffer is free, which may be some hundred kilobytes.
///
/// The default is 240 bytes a second and a grace of a minute, so that who takes nothing has a minute, and who took much and
/// stops has two. No shorter, because of these steps, and because a network that was gone for a while may be tried again only
/// after as long.
///
/// ```
/// use netwright_core::LeastRate;
/// use std::time::Duration;
///
/// let rate = LeastRate::new(1_000, Duration::from_secs(10))?;
/// assert_eq!(rate.to_string(), "1000 B/s, at most 10s behind");
/// assert!(LeastRate::new(0, Duration::from_secs(10)).is_err());
/// # Ok::<(), netwright_core::InvalidArgument>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastRate {
    bytes_per_second: u32,
    grace: Duration,
}

impl LeastRate {
    /// So many bytes in a second, and at most so far behind.
    ///
    /// # Errors
    /// The rate or the grace is 0.
    pub fn new(bytes_per_second: u32, grace: Duration) -> Result<Self, InvalidArgument> {
        if bytes_per_second == 0 {
            return Err(InvalidArgument::new(
                "the least rate",
                0,
                "at least 1 byte a second; no limit is `None`",
            ));
        }
        if grace.is_zero() {
            return Err(InvalidArgument::new("the grace of the least rate", "0 s", "more than that"));
        }
        Ok(Self { bytes_per_second, grace })
    }

    /// How many bytes a second have to be taken.
    pub fn bytes_per_second(self) -> u32 {
        self.bytes_per_second
    }

    /// How far behind a peer may be.
    pub fn grace(self) -> Duration {
        self.grace
    }

    /// How long so many bytes may take.
    fn time_for(self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// 240 bytes a second, and a minute.
impl Default for LeastRate {
    fn default() -> Self {
        Self { bytes_per_second: 240, grace: Duration::from_secs(60) }
    }
}

impl fmt::Display for LeastRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B/s, at most {:?} behind", self.bytes_per_second, self.grace)
    }
}

/// How far a peer is behind, looked at now and then. For transports.
///
/// ```
/// use netwright_core::{LeastRate, Pace};
/// use std::time::Duration;
///
/// let secs = Duration::from_secs;
/// let mut pace = Pace::new(LeastRate::new(100, secs(30))?, 0);
/// assert_eq!(pace.next_look(), secs(10));
/// assert!(pace.look(secs(10), 500)); // 5 seconds' worth: 5 s behind
/// assert!(pace.look(secs(10), 500)); // nothing more: 15 s
/// assert!(pace.look(secs(10), 501));
/// assert_eq!(pace.next_look(), Duration::from_millis(5_010));
/// assert!(!pace.look(pace.next_look(), 501)); // to be cut
/// # Ok::<(), netwright_core::InvalidArgument>(())
/// ```
#[derive(Debug)]
pub struct Pace {
    rate: LeastRate,
    behind: Duration,
    /// Or ahead, by the grace at most: one of both is zero.
    ahead: Duration,
    taken: u64,
}

impl Pace {
    /// Something begins to wait. `taken`: what the peer has taken so far, counted from wherever it is.
    pub fn new(rate: LeastRate, taken: u64) -> Self {
        Self { rate, behind: Duration::ZERO, ahead: Duration::ZERO, taken }
    }

    /// After how long the next look is due.
    pub fn next_look(&self) -> Duration {
        (self.rate.grace / 3).min(self.rate.grace.saturating_sub(self.behind)).max(Duration::from_millis(1))
    }

    /// So much time has passed, and the peer has now taken so much in all. False: it is to be cut.
    ///
    /// A look that comes very late tells more of us than of the peer: not all of that time counts.
    pub fn look(&mut self, passed: Duration, taken: u64) -> bool {
        let brought = self.rate.time_for(taken.saturating_sub(self.taken));
        self.taken = self.taken.max(taken);
        let owed = self.behind + passed.min(self.next_look() + self.rate.grace / 3);
        let earned = self.ahead.saturating_add(brought);
        self.behind = owed.saturating_sub(earned);
        self.ahead = earned.saturating_sub(owed).min(self.rate.grace);
        self.behind < self.rate.grace
    }

    /// The peer has taken all there was.
    pub fn caught_up(&mut self) {
        self.behind = Duration::ZERO;
    }

    /// What the peer is held to.
    pub fn rate(&self) -> LeastRate {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_secs(20);

    #[test]
    fn who_takes_nothing_is_cut_after_the_grace_and_not_before() {
        let mut pace = Pace::new(LeastRate::default(), 7);
        assert!(pace.look(LOOK, 7));
        assert!(pace.look(LOOK, 7));
        assert_eq!(pace.next_look(), LOOK);
        assert!(!pace.look(LOOK, 7));
    }

    #[test]
    fn who_takes_as_much_as_the_rate_stays_whether_evenly_or_in_pieces() {
        let (mut even, mut pieces) = (Pace::new(LeastRate::default(), 0), Pace::new(LeastRate::default(), 0));
        for look in 1..1_000_u64 {
            assert!(even.look(LOOK, look * 4_800), "{look}");
            assert!(pieces.look(LOOK, look / 2 * 9_600), "{look}");
        }
    }

    #[test]
    fn who_takes_a_little_less_than_the_rate_is_cut_in_the_end() {
        let mut pace = Pace::new(LeastRate::default(), 0);
        let cut = (1..1_000_u64).find(|look| !pace.look(LOOK, look * 4_600));
        assert!(cut.is_some_and(|look| look > 20), "{cut:?}");
    }

    #[test]
    fn a_look_that_comes_late_does_not_cut_by_itself() {
        let mut pace = Pace::new(LeastRate::default(), 0);
        assert!(pace.look(Duration::from_secs(3_600), 0));
        assert!(!pace.look(LOOK, 0));
    }

    #[test]
    fn what_was_taken_in_a_rush_counts_for_a_while_and_not_for_ever() {
        let mut pace = Pace::new(LeastRate::default(), 0);
        assert!(pace.look(LOOK, u64::MAX));
        let cut = (1..100).find(|_| !pace.look(LOOK, u64::MAX));
        assert_eq!(cut, Some(6), "a minute ahead, and one of grace");
    }

    #[test]
    fn who_takes_a_step_of_many_bytes_now_and_then_stays() {
        // 3 kB/s, told in steps of 128 KiB.
        let mut pace = Pace::new(LeastRate::default(), 0);
        for look in 1..1_000_u64 {
            assert!(pace.look(LOOK, look * 60_000 / 131_072 * 131_072), "{look}");
        }
    }

    #[test]
    fn who_has_caught_up_begins_anew() {
        let mut pace = Pace::new(LeastRate::default(), 0);
        assert!(pace.look(LOOK, 0) && pace.look(LOOK, 0));
        pace.caught_up();
        assert!(pace.look(LOOK, 0) && pace.look(LOOK, 0) && !pace.look(LOOK, 0));
    }
}
