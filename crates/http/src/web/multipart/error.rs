//! Why a form is not read.

use http::StatusCode;
use std::{error::Error, fmt};

/// Why a multipart body cannot be read any further.
///
/// ```
/// use netwright_http::web::Multipart;
///
/// let error = Multipart::of("text/plain").unwrap_err();
/// println!("{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MultipartError {
    /// The content type is another one, or its boundary is not one.
    Type(String),
    /// The body is not written as the format wants it.
    Grammar(&'static str),
    /// A part's head is wrong.
    Head(String),
    /// There are more parts than [`FormLimits::fields`](crate::web::FormLimits::fields).
    TooManyParts {
        /// The limit.
        limit: usize,
    },
    /// Something is longer than it may be.
    TooLong {
        /// What.
        what: &'static str,
        /// How many bytes it may have.
        limit: u64,
        /// How many it has, at least.
        got: u64,
    },
    /// The body ended before the form did.
    Truncated {
        /// How many parts had begun.
        parts: usize,
        /// How many bytes were understood.
        bytes: u64,
    },
    /// It was used after an error.
    AfterError,
}

impl MultipartError {
    /// What to answer: 415 for another type, 413 for what is too large, 400 for the rest.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Type(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooManyParts { .. } | Self::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl fmt::Display for MultipartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(what) => write!(f, "multipart: {what}"),
            Self::Grammar(what) => write!(f, "multipart: {what}"),
            Self::Head(what) => write!(f, "multipart: a part's head: {what}"),
            Self::TooManyParts { limit } => write!(f, "multipart: more than {limit} parts"),
            Self::TooLong { what, limit, got } => {
                write!(f, "multipart: {what} has {got} bytes or more, the limit is {limit}")
            }
            Self::Truncated { parts, bytes } => {
                write!(f, "multipart: the body ended in the middle, after {parts} parts and {bytes} bytes")
            }
            Self::AfterError => f.write_str("multipart: used after an error"),
        }
    }
}

impl Error for MultipartError {}
