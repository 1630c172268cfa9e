//! How much may wait to be sent.

use crate::error::InvalidArgument;

/// How many bytes may pile up: above `high` a channel is not writable, below `low` it is again.
///
/// ```
/// use netwright_core::WaterMarks;
///
/// assert_eq!(WaterMarks::default(), WaterMarks::new(32 * 1024, 64 * 1024).unwrap());
/// assert_eq!(
///     WaterMarks::new(10, 5).unwrap_err().to_string(),
///     "the low water mark is 10, but must be at most the high one, 5"
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaterMarks {
    low: usize,
    high: usize,
}

impl WaterMarks {
    /// Marks at these many bytes.
    ///
    /// # Errors
    /// `low` is 0 or above `high`.
    pub fn new(low: usize, high: usize) -> Result<Self, InvalidArgument> {
        let refused = |expected: String| Err(InvalidArgument::new("the low water mark", low, expected));
        if low == 0 {
            // Nothing is below 0: once unwritable, a channel would stay so for ever.
            return refused("at least 1".into());
        }
        if low > high {
            return refused(format!("at most the high one, {high}"));
        }
        Ok(Self { low, high })
    }

    /// Strictly below this many bytes a channel is writable again.
    pub fn low(self) -> usize {
        self.low
    }

    /// Above this many bytes a channel is not writable.
    pub fn high(self) -> usize {
        self.high
    }
}

/// 32 KiB and 64 KiB.
impl Default for WaterMarks {
    fn default() -> Self {
        Self { low: 32 * 1024, high: 64 * 1024 }
    }
}
