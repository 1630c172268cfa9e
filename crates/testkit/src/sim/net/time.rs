//! The time of a simulation.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

/// Nanoseconds since the start of a simulation.
///
/// ```
/// use netwright_testkit::sim::Time;
/// use std::time::Duration;
///
/// let later = Time::START + Duration::from_millis(1_500);
/// assert_eq!((later - Time::START, later.to_string()), (Duration::from_millis(1_500), "1.500000000".into()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The start of the simulation.
    pub const START: Self = Self(0);

    /// The last moment to which a simulation goes on, some 290 years after its start: far enough from the end of what can be counted that nothing which is added
    /// to a moment ever runs over.
    pub const LAST: Self = Self(u64::MAX / 2);
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(nanoseconds(wait)))
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

pub(super) fn nanoseconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)
}
