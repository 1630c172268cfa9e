//! How long to wait before the next attempt: longer each time, and not the same for everybody.

use netwright_core::world;
use std::time::Duration;

/// Nobody tries again without any pause, whatever is set.
const LEAST: Duration = Duration::from_millis(1);

/// Pauses that grow: twice as long with each failure, up to a limit, of which a part is left to chance, so that many clients that lost
/// their server at once do not come back at once.
///
/// ```
/// use netwright_handler::Backoff;
/// use std::time::Duration;
///
/// let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5)).jitter(0.5);
/// assert!((50..=100).contains(&backoff.pause(0).as_millis()));
/// assert!((200..=400).contains(&backoff.pause(2).as_millis()));
/// assert!((2_500..=5_000).contains(&backoff.pause(1_000).as_millis()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[doc(alias = "exponential backoff")]
pub struct Backoff {
    first: Duration,
    most: Duration,
    jitter: f64,
}

impl Backoff {
    /// From `first`, doubled with each failure, up to `most`. Never less than a millisecond.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, jitter: Self::default().jitter }
    }

    /// Which part of a pause is left to chance: between none of it (0) and all of it (1). Default: half of it.
    pub fn jitter(mut self, part: f64) -> Self {
        self.jitter = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
        self
    }

    /// The pause after so many failures in a row before this one. Drawn by the [world](netwright_core::world)'s chance where there is one, so that a simulation goes
    /// the same way each time.
    pub fn pause(&self, failures: u32) -> Duration {
        let chance = (world::random() >> 11) as f64 / (1_u64 << 53) as f64; // from 0 up to, and without, 1
        self.pause_by(failures, chance)
    }

    fn pause_by(&self, failures: u32, chance: f64) -> Duration {
        let doubled = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        let full = self.first.saturating_mul(doubled).min(self.most);
        // As a number with a fraction the longest of all durations is one too much.
        let drawn = full.as_secs_f64() * (1.0 - self.jitter * chance);
        Duration::try_from_secs_f64(drawn).unwrap_or(full).clamp(LEAST, full.max(LEAST))
    }
}

/// From 200 ms to 30 s, half of which is left to chance.
impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(200), most: Duration::from_secs(30), jitter: 0.5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_chance_shortens_them() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60)).jitter(0.25);
        let secs = |failures, chance| backoff.pause_by(failures, chance).as_secs_f64();
        assert_eq!(
            [0, 1, 2, 5, 6, 31, 32, u32::MAX].map(|failures| secs(failures, 0.0)),
            [1.0, 2.0, 4.0, 32.0, 60.0, 60.0, 60.0, 60.0]
        );
        assert_eq!(secs(3, 0.5), 7.0);
        assert!(secs(3, 0.999_999) >= 6.0);
    }

    #[test]
    fn no_setting_makes_a_pause_of_nothing_or_panics() {
        for (first, most) in [
            (Duration::ZERO, Duration::ZERO),
            (Duration::MAX, Duration::ZERO),
            (Duration::ZERO, Duration::MAX),
        ] {
            for jitter in [0.0, 1.0, -3.0, 7.0, f64::NAN, f64::INFINITY] {
                assert_eq!(Backoff::new(first, most).jitter(jitter).pause(40), LEAST);
            }
        }
        for chance in [0.0, 1e-30, 0.5] {
            let longest = Backoff::new(Duration::MAX, Duration::MAX).jitter(1.0).pause_by(40, chance);
            assert!(longest >= Duration::MAX / 3, "{longest:?}");
        }
    }
}
