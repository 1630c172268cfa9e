//! Why nobody took the first bytes.

use std::{error::Error, fmt, time::Duration};

/// How many of the first bytes an error shows.
const SHOWN: usize = 16;

/// Why [`Detect`](super::Detect) found no protocol for a connection.
///
/// ```
/// use netwright_core::{EmbeddedChannel, CloseCause, detect::{Detect, DetectError, prefix}, pipeline};
///
/// let mut channel = EmbeddedChannel::<(), _>::with_joint(pipeline().joint(|switch| {
///     let ssh = || pipeline().handle(|_, _| {}).sealed();
///     pipeline().last(Detect::new(switch).rule(prefix("SSH-2.0-"), ssh))
/// }));
/// channel.write_inbound("hello");
/// let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { panic!() };
/// assert!(matches!(fault.downcast_ref(), Some(DetectError::NoMatch { read: 5, .. })));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DetectError {
    /// The bytes are of no protocol that is spoken here.
    NoMatch {
        /// How many there were.
        read: usize,
        /// The first of them.
        start: Vec<u8>,
    },
    /// So many bytes left it open which protocol it is.
    TooLong {
        /// How many may be looked at.
        limit: usize,
    },
    /// The bytes that would tell did not come in time.
    TooLate {
        /// How long was waited for them.
        deadline: Duration,
        /// How many came.
        read: usize,
    },
    /// The peer sent no more before it was clear.
    CutShort {
        /// How many came.
        read: usize,
    },
    /// Something was written before it was known who has to encode it.
    NotYet,
}

impl DetectError {
    pub(super) fn no_match(bytes: &[u8]) -> Self {
        Self::NoMatch { read: bytes.len(), start: bytes[..bytes.len().min(SHOWN)].to_vec() }
    }
}

impl fmt::Display for DetectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMatch { read, start } => {
                write!(f, "no protocol that is spoken here begins like these {read} bytes: ")?;
                write!(f, "{}", start.escape_ascii())
            }
            Self::TooLong { limit } => {
                write!(f, "which protocol it is was still open after {limit} bytes, the limit")
            }
            Self::TooLate { deadline, read } => {
                write!(
                    f,
                    "which protocol it is was still open after {deadline:?}, the deadline, with {read} bytes"
                )
            }
            Self::CutShort { read } => {
                write!(
                    f,
                    "the peer sent {read} bytes and no more, and they leave it open which protocol it is"
                )
            }
            Self::NotYet => f.write_str("nothing can be written before it is known which protocol it is"),
        }
    }
}

impl Error for DetectError {}
