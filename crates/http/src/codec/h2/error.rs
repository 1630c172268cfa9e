//! Why a stream was reset, or a connection ended, by us.

use super::{code::ErrorCode, frame::FrameError, hpack::HpackError};
use std::{borrow::Cow, error::Error, fmt};

/// What a peer did that HTTP/2 does not allow, or that we do not bear: its stream is reset, or its connection ends.
///
/// ```
/// use netwright_http::{HttpError, http2::Http2Error};
///
/// fn is_about_a_stream(error: &HttpError) -> bool {
///     matches!(error, HttpError::Http2(Http2Error { stream: Some(_), .. }))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Http2Error {
    /// What the peer is told.
    pub code: ErrorCode,
    /// Which stream it concerns. `None`: all of the connection.
    pub stream: Option<u32>,
    /// What happened.
    pub why: Cow<'static, str>,
}

impl Http2Error {
    #[cold]
    pub(crate) fn connection(code: ErrorCode, why: impl Into<Cow<'static, str>>) -> Self {
        Self { code, stream: None, why: why.into() }
    }

    #[cold]
    pub(crate) fn stream(code: ErrorCode, stream: u32, why: impl Into<Cow<'static, str>>) -> Self {
        Self { code, stream: Some(stream), why: why.into() }
    }
}

impl From<FrameError> for Http2Error {
    fn from(error: FrameError) -> Self {
        Self { code: error.code, stream: error.stream, why: error.why.text().into() }
    }
}

impl From<HpackError> for Http2Error {
    fn from(error: HpackError) -> Self {
        Self::connection(ErrorCode::COMPRESSION_ERROR, error.to_string())
    }
}

impl fmt::Display for Http2Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stream {
            Some(stream) => write!(f, "HTTP/2 stream {stream}: {}, {}", self.code, self.why),
            None => write!(f, "HTTP/2: {}, {}", self.code, self.why),
        }
    }
}

impl Error for Http2Error {}
