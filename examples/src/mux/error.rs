//! Everything that a peer can do wrong, and why a stream is not opened.

use netwright::channel::ChildError;
use std::{error::Error, fmt};

/// What a peer has done wrong. Its connection ends with it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MuxError {
    /// A frame is longer than it may be.
    FrameTooLong {
        /// As its head says.
        length: usize,
        /// [`MuxLimits::frame`](super::MuxLimits::frame).
        limit: usize,
    },
    /// No frame is of this kind.
    UnknownKind(u8),
    /// A frame of this kind has another length.
    WrongLength {
        /// Its kind.
        kind: u8,
        /// As its head says.
        length: usize,
        /// What it has to be.
        expected: usize,
    },
    /// A stream that only we may open, or none at all.
    WrongNumber(u32),
    /// More bytes than were granted.
    TooMuch {
        /// The stream.
        stream: u32,
        /// Bytes of the frame.
        sent: usize,
        /// What was left of its credit.
        granted: usize,
    },
    /// More credit than can be counted.
    CreditOverflow(u32),
    /// Bytes behind the end of their stream.
    BehindTheEnd(u32),
}

impl fmt::Display for MuxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrameTooLong { length, limit } => {
                write!(f, "a frame of {length} bytes, of which {limit} are allowed")
            }
            Self::UnknownKind(kind) => write!(f, "no frame is of kind {kind}"),
            Self::WrongLength { kind, length, expected } => {
                write!(f, "a frame of kind {kind} has {expected} bytes, not {length}")
            }
            Self::WrongNumber(stream) => write!(f, "stream {stream} is not the peer's to open"),
            Self::TooMuch { stream, sent, granted } => {
                write!(f, "{sent} bytes on stream {stream}, which had credit for {granted}")
            }
            Self::CreditOverflow(stream) => write!(f, "too much credit for stream {stream}"),
            Self::BehindTheEnd(stream) => write!(f, "stream {stream} had ended"),
        }
    }
}

impl Error for MuxError {}

/// Why a stream was not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// So many are open, and no more may be.
    TooMany(usize),
    /// The connection finishes what it has.
    ShuttingDown,
    /// There are no numbers left.
    NoNumbers,
    /// There is no channel for it.
    Child(ChildError),
    /// The connection has gone before.
    Gone,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(limit) => write!(f, "{limit} streams are open, and no more may be"),
            Self::ShuttingDown => f.write_str("the connection shuts down"),
            Self::NoNumbers => f.write_str("the numbers of streams are used up"),
            Self::Child(why) => write!(f, "the stream cannot be opened: {why}"),
            Self::Gone => f.write_str("the connection has gone"),
        }
    }
}

impl Error for OpenError {}

impl From<netwright::promise::PromiseError> for OpenError {
    fn from(_: netwright::promise::PromiseError) -> Self {
        Self::Gone
    }
}
