//! What can be wrong with a message, and which status says so: [`HttpError`], and of what kind it is.

mod kinds;

pub use kinds::{Framing, Grammar, Limit, Misuse, Within};

use crate::codec::http2::Http2Error;
use http::StatusCode;
use std::{error::Error, fmt, time::Duration};

/// Why a message was refused, or could not be written.
///
/// ```
/// use netwright_http::{HttpError, error::Grammar};
///
/// let error = HttpError::Grammar(Grammar::NoHost);
/// assert_eq!(error.status(), http::StatusCode::BAD_REQUEST);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpError {
    /// The peer broke the grammar; the same bytes would be refused again.
    Grammar(Grammar),
    /// The peer's lengths contradict each other or cannot be.
    Framing(Framing),
    /// More than a limit allows: which one, its value, and what came, as far as it is known.
    TooMuch {
        /// The field of [`HttpLimits`](crate::HttpLimits).
        limit: Limit,
        /// What it is set to.
        max: u64,
        /// What came, or was announced.
        got: u64,
    },
    /// A version that we do not speak.
    Version([u8; 8]),
    /// A transfer coding other than `chunked`.
    Coding(String),
    /// An expectation other than `100-continue`.
    Expectation(String),
    /// The head did not come in time.
    HeadTooSlow {
        /// How long it had.
        time: Duration,
        /// How much of it came.
        got: usize,
    },
    /// The body came too slowly.
    BodyTooSlow {
        /// How long we looked on.
        time: Duration,
        /// The bytes that should have come meanwhile.
        least: u64,
        /// The bytes that came.
        got: u64,
    },
    /// The connection ended in the middle of a message.
    Premature {
        /// Of what.
        within: Within,
    },
    /// Whoever produced a body gave it up.
    Aborted(String),
    /// What was written is not what was announced, or not allowed.
    Misuse(Misuse),
    /// The peer broke the rules of HTTP/2, or a limit of ours that only HTTP/2 has.
    Http2(Http2Error),
}

impl HttpError {
    /// The status that tells the peer of it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Grammar(_) | Self::Framing(_) | Self::Premature { .. } | Self::Http2(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::TooMuch { limit, .. } => match limit {
                Limit::Head | Limit::Headers | Limit::Trailers => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                Limit::Target => StatusCode::URI_TOO_LONG,
                Limit::Body => StatusCode::PAYLOAD_TOO_LARGE,
                Limit::ChunkLine | Limit::Interim | Limit::Unclaimed => StatusCode::BAD_REQUEST,
            },
            Self::Version(_) => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::Coding(_) => StatusCode::NOT_IMPLEMENTED,
            Self::Expectation(_) => StatusCode::EXPECTATION_FAILED,
            Self::HeadTooSlow { .. } | Self::BodyTooSlow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Misuse(_) | Self::Aborted(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<Grammar> for HttpError {
    fn from(what: Grammar) -> Self {
        Self::Grammar(what)
    }
}

impl From<Framing> for HttpError {
    fn from(what: Framing) -> Self {
        Self::Framing(what)
    }
}

impl From<Http2Error> for HttpError {
    fn from(error: Http2Error) -> Self {
        Self::Http2(error)
    }
}

impl From<Misuse> for HttpError {
    fn from(what: Misuse) -> Self {
        Self::Misuse(what)
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grammar(what) => write!(f, "bad HTTP: {what}"),
            Self::Framing(what) => write!(f, "bad HTTP framing: {what}"),
            Self::TooMuch { limit, max, got } => write!(f, "{limit}: the limit is {max}, got {got} or more"),
            Self::Version(bytes) => {
                write!(f, "HTTP version {:?} is not supported", bytes.escape_ascii().to_string())
            }
            Self::Coding(coding) => write!(f, "transfer coding {coding:?} is not supported, only chunked is"),
            Self::Expectation(what) => {
                write!(f, "expectation {what:?} is not supported, only 100-continue is")
            }
            Self::HeadTooSlow { time, got } => {
                write!(f, "the head was not complete after {time:?}: {got} bytes of it came")
            }
            Self::BodyTooSlow { time, least, got } => {
                write!(f, "the body came too slowly: {got} bytes in {time:?}, the limit is {least}")
            }
            Self::Premature { within } => write!(f, "the connection ended {within}"),
            Self::Aborted(why) => write!(f, "the body was given up: {why}"),
            Self::Misuse(what) => write!(f, "{what}"),
            Self::Http2(error) => write!(f, "{error}"),
        }
    }
}

impl Error for HttpError {}
