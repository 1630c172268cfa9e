//! How fast something may pass.

use std::{fmt, num::NonZeroU64, str::FromStr};

/// How much may pass in a second, bytes or messages: a number that is not zero, or [unlimited](Self::unlimited).
///
/// A rate of nothing would hold a channel for ever, so there is none: [`TryFrom`] and [`FromStr`] refuse it. In words, `k`, `m` and `g` are thousands,
/// millions and thousands of millions, and `ki`, `mi` and `gi` powers of 1024.
///
/// ```
/// use netwright_handler::shape::Rate;
///
/// let rate: Rate = "100k".parse()?;
/// assert_eq!(rate, Rate::try_from(100_000)?);
/// assert_eq!(rate.to_string(), "100k");
/// assert_eq!("0".parse::<Rate>().unwrap_err().to_string(), "a rate of 0 would let nothing pass: the least is 1 a second");
/// # Ok::<(), netwright_handler::shape::RateError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    per_second: Option<NonZeroU64>,
    burst: Option<u64>,
}

impl Rate {
    /// So much in a second.
    pub const fn per_second(amount: NonZeroU64) -> Self {
        Self { per_second: Some(amount), burst: None }
    }

    /// As much as there is.
    pub const fn unlimited() -> Self {
        Self { per_second: None, burst: None }
    }

    /// How much may be saved up while nothing passes, to pass at once later. By default what passes in 50 ms: 0.5 % of ten seconds, and more than timers are
    /// late on a loop that is busy. With less than what passes in a few milliseconds, channels that are called late stay below their rate.
    #[must_use]
    pub const fn burst(mut self, amount: u64) -> Self {
        self.burst = Some(amount);
        self
    }

    /// How much may pass in a second, if there is a limit.
    pub const fn limit(self) -> Option<NonZeroU64> {
        self.per_second
    }

    /// What may be saved up.
    pub(super) fn saved_at_most(self) -> u64 {
        match (self.burst, self.per_second) {
            (Some(burst), _) => burst,
            (None, Some(rate)) => rate.get() / 20,
            (None, None) => 0,
        }
    }
}

/// Why something is no [`Rate`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateError {
    /// Nothing would ever pass.
    Zero,
    /// No number with one of the units.
    Unreadable(String),
    /// More than 2⁶⁴ - 1 a second.
    TooMuch(String),
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("a rate of 0 would let nothing pass: the least is 1 a second"),
            Self::Unreadable(text) => {
                write!(f, "{text:?} is no rate: it is a number with k, m, g, ki, mi, gi or nothing behind it")
            }
            Self::TooMuch(text) => write!(f, "a rate of {text} is above {}", u64::MAX),
        }
    }
}

impl std::error::Error for RateError {}

impl TryFrom<u64> for Rate {
    type Error = RateError;

    fn try_from(per_second: u64) -> Result<Self, RateError> {
        NonZeroU64::new(per_second).map(Self::per_second).ok_or(RateError::Zero)
    }
}

impl From<NonZeroU64> for Rate {
    fn from(per_second: NonZeroU64) -> Self {
        Self::per_second(per_second)
    }
}

const UNITS: [(&str, u64); 6] =
    [("gi", 1 << 30), ("mi", 1 << 20), ("ki", 1 << 10), ("g", 1_000_000_000), ("m", 1_000_000), ("k", 1_000)];

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let lower = text.to_ascii_lowercase();
        let (digits, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| Some((lower.strip_suffix(name)?, *unit)))
            .unwrap_or((&lower, 1));
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(RateError::Unreadable(shortened(text)));
        }
        let amount = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        Self::try_from(amount.ok_or_else(|| RateError::TooMuch(shortened(text)))?)
    }
}

/// As much of a text as belongs into an error.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// As it is read, but for what may be saved up.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(rate) = self.per_second else { return f.write_str("unlimited") };
        let whole = UNITS.iter().rev().filter(|(_, unit)| rate.get().is_multiple_of(*unit));
        match whole.max_by_key(|(_, unit)| *unit) {
            Some((name, unit)) => write!(f, "{}{name}", rate.get() / unit),
            None => rate.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_as_it_is_written() {
        for text in ["1", "999", "1k", "1ki", "64ki", "20m", "3g", "1gi", "18446744073709551615"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        assert_eq!("5M".parse::<Rate>().unwrap(), Rate::try_from(5_000_000).unwrap());
    }

    #[test]
    fn what_is_no_rate_is_named() {
        for text in ["", "k", "-1", "1.5m", "+3", "1kk", "ten", "1 k"] {
            assert_eq!(text.parse::<Rate>(), Err(RateError::Unreadable(text.into())), "{text}");
        }
        assert_eq!("000".parse::<Rate>(), Err(RateError::Zero));
        assert_eq!("0k".parse::<Rate>(), Err(RateError::Zero));
        for text in ["18446744073709551616", "18446744073709551615k"] {
            assert_eq!(text.parse::<Rate>(), Err(RateError::TooMuch(text.into())), "{text}");
        }
        assert!("x".repeat(10_000).parse::<Rate>().unwrap_err().to_string().len() < 200);
    }
}
