//! Cutting a stream of bytes into messages.

mod line;

pub use line::{LineDecoder, LineEncoder, LineFrames};

use std::fmt;

/// Why a frame could not be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame is longer than allowed. It has been or will be skipped; the next one can be read.
    TooLong {
        /// How long a frame may be.
        limit: usize,
        /// How long this one is, as far as it is known.
        got: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit, got } => write!(f, "a frame of {got} bytes or more, the limit is {limit}"),
        }
    }
}

impl std::error::Error for FrameError {}
