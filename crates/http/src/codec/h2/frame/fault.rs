//! What can be wrong with a frame, and who has to end because of it.

use crate::codec::h2::code::ErrorCode;
use std::fmt;

/// A frame that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameError {
    pub(crate) code: ErrorCode,
    /// The stream that has to be reset; what follows can be decoded. `None`: the connection has to end.
    pub(crate) stream: Option<u32>,
    pub(crate) why: FrameFault,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameFault {
    /// Longer than we said that we take.
    TooLong,
    /// A length that a frame of its kind cannot have.
    Length,
    /// On stream 0, though it says something about a stream.
    NoStream,
    /// On a stream, though it says something about the connection.
    OnStream,
    /// More padding than payload.
    Padding,
    /// A window that is to grow by nothing.
    NoIncrement,
    /// Something else within a block of fields, or the rest of one that did not begin.
    Continuation,
    /// A setting with a value that it cannot have.
    Setting(u16),
    /// More settings than anybody has.
    TooManySettings,
}

impl FrameError {
    #[cold]
    pub(super) fn connection(code: ErrorCode, why: FrameFault) -> Self {
        Self { code, stream: None, why }
    }

    #[cold]
    pub(super) fn stream(code: ErrorCode, stream: u32, why: FrameFault) -> Self {
        Self { code, stream: Some(stream), why }
    }
}

impl FrameFault {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::TooLong => "a frame is longer than allowed",
            Self::Length => "a frame has a length that its kind cannot have",
            Self::NoStream => "a frame of a stream is on stream 0",
            Self::OnStream => "a frame of the connection is on a stream",
            Self::Padding => "a frame has more padding than payload",
            Self::NoIncrement => "a window is to grow by nothing",
            Self::Continuation => "a block of fields is interrupted, or goes on without having begun",
            Self::Setting(_) => "a setting has a value that it cannot have",
            Self::TooManySettings => "a frame has too many settings",
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.why.text())?;
        if let FrameFault::Setting(id) = self.why {
            write!(f, " ({id:#x})")?;
        }
        match self.stream {
            Some(stream) => write!(f, ", stream {stream}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FrameError {}
