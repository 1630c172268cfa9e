//! Why a message is not a value, or a value no message.

use netwright_core::Fault;
use std::{error::Error, fmt};

/// Why the bytes of a message are not a value of the wanted type, or a value cannot be written.
///
/// It concerns one message: the stage reports it as [recoverable](crate::DecodeError::recoverable).
///
/// ```
/// use netwright_codec::serial::SerialError;
///
/// let error = SerialError::malformed("decimal", 3, "not a number".into());
/// assert!(error.to_string().contains("not a number"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SerialError {
    /// It nests deeper than allowed.
    TooDeep {
        /// Which format it is in.
        format: &'static str,
        /// How many levels are allowed.
        limit: usize,
        /// How many it has at least.
        got: usize,
    },
    /// It claims so many values that they cannot be meant: more than it has bytes, and each of them of no length.
    TooMany {
        /// Which format it is in.
        format: &'static str,
        /// How many values a message of its length may have.
        limit: usize,
        /// How many it has at least.
        got: usize,
    },
    /// There are bytes behind the value.
    Trailing {
        /// Which format it is in.
        format: &'static str,
        /// How many bytes the value has.
        used: usize,
        /// How many bytes the message has.
        len: usize,
    },
    /// It is broken, cut short, or of another type.
    Malformed {
        /// Which format it should be in.
        format: &'static str,
        /// How many bytes it has.
        len: usize,
        /// What the format's own parser says.
        reason: Fault,
    },
    /// The value cannot be expressed in this format.
    NotWritable {
        /// In which format.
        format: &'static str,
        /// What the format's own writer says.
        reason: Fault,
    },
}

impl SerialError {
    /// A message of `len` bytes is broken, cut short, or of another type.
    #[cold]
    pub fn malformed(format: &'static str, len: usize, reason: Box<dyn Error + Send + Sync>) -> Self {
        Self::Malformed { format, len, reason: Fault::new(reason) }
    }

    /// A value cannot be expressed in this format.
    #[cold]
    pub fn not_writable(format: &'static str, reason: Box<dyn Error + Send + Sync>) -> Self {
        Self::NotWritable { format, reason: Fault::new(reason) }
    }
}

impl fmt::Display for SerialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep { format, limit, got } => {
                write!(f, "a {format} message of {got} levels or more, the limit is {limit}")
            }
            Self::TooMany { format, limit, got } => {
                write!(f, "a {format} message of {got} values or more, the limit for its length is {limit}")
            }
            Self::Trailing { format, used, len } => {
                write!(f, "a {format} message of {len} bytes ends after {used} of them")
            }
            Self::Malformed { format, len, reason } => {
                write!(f, "{len} bytes are not the {format} message that was expected: {reason}")
            }
            Self::NotWritable { format, reason } => {
                write!(f, "the value cannot be written as {format}: {reason}")
            }
        }
    }
}

impl Error for SerialError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Malformed { reason, .. } | Self::NotWritable { reason, .. } => Some(reason.as_error()),
            _ => None,
        }
    }
}
