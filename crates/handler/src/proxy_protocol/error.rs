//! What is wrong with a header, or with who sent it.

use netwright_core::Address;
use std::{fmt, time::Duration};

/// Why a connection was closed by [`ProxyProtocol`](super::ProxyProtocol), or a [header](super::ProxyHeader) cannot be written.
///
/// ```
/// use netwright_handler::ProxyProtocolError;
///
/// let error = ProxyProtocolError::TooLong { what: "header", limit: 107, got: 108 };
/// assert_eq!(error.to_string(), "a PROXY header of at least 108 bytes, the limit is 107");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyProtocolError {
    /// Whoever is at the other end is no proxy that is trusted: it sent a header, or headers are required.
    Untrusted {
        /// Who that is, if it is known.
        peer: Option<Address>,
    },
    /// A trusted proxy has to send a header first, and sent something else.
    NoHeader,
    /// The header goes on behind the limit.
    TooLong {
        /// What: the header, or a part of it.
        what: &'static str,
        /// How many bytes there may be.
        limit: usize,
        /// How many there are, or more.
        got: usize,
    },
    /// The header breaks a rule of its version.
    Malformed {
        /// Which.
        why: &'static str,
    },
    /// The checksum in the header is not that of its bytes.
    Checksum {
        /// That of its bytes.
        expected: u32,
        /// The one in the header.
        got: u32,
    },
    /// There is a value with values in it in such a value. They do not nest.
    Nested,
    /// The header was not there in time.
    TooLate {
        /// How long was waited.
        deadline: Duration,
        /// How many bytes of it had come.
        read: usize,
    },
    /// The peer sent no more in the middle of the header.
    Cut {
        /// How many bytes of it had come.
        read: usize,
    },
}

impl fmt::Display for ProxyProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untrusted { peer: Some(peer) } => write!(f, "{peer} is no proxy that is trusted"),
            Self::Untrusted { peer: None } => f.write_str("the peer is no proxy that is trusted"),
            Self::NoHeader => f.write_str("a PROXY header has to come first, and something else came"),
            Self::TooLong { what: "header", limit, got } => {
                write!(f, "a PROXY header of at least {got} bytes, the limit is {limit}")
            }
            Self::TooLong { what, limit, got } => {
                write!(f, "a PROXY header whose {what} has {got} bytes, the limit is {limit}")
            }
            Self::Malformed { why } => write!(f, "a malformed PROXY header: {why}"),
            Self::Checksum { expected, got } => {
                write!(f, "a PROXY header with the checksum {got:08x}, its bytes have {expected:08x}")
            }
            Self::Nested => f.write_str("a PROXY header with values nested in nested values"),
            Self::TooLate { deadline, read } => {
                write!(f, "no PROXY header within {deadline:?}, {read} bytes had come")
            }
            Self::Cut { read } => write!(f, "the peer sent no more after {read} bytes of a PROXY header"),
        }
    }
}

impl std::error::Error for ProxyProtocolError {}

pub(super) const fn malformed<T>(why: &'static str) -> Result<T, ProxyProtocolError> {
    Err(ProxyProtocolError::Malformed { why })
}
