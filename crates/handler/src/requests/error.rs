//! Why a request has no reply, and whether it is safe to ask again.

use netwright_core::{CloseCause, PromiseError};
use std::{fmt, time::Duration};

/// Why a request has no reply.
///
/// ```
/// use netwright_core::CloseCause;
/// use netwright_handler::RequestError;
///
/// let cut = |written| RequestError::Closed { cause: CloseCause::PeerClosed, written };
/// assert!(cut(true).may_have_been_written()); // the peer may have acted on it
/// assert!(!cut(false).may_have_been_written()); // safe to ask again, whatever it does
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RequestError {
    /// The reply did not come in time.
    TimedOut {
        /// How long it could have taken.
        limit: Duration,
        /// Whether the request may have reached the peer.
        written: bool,
    },
    /// As many requests wait as may.
    TooManyWaiting {
        /// How many may wait.
        max_waiting: usize,
    },
    /// The connection has ended, or is about to.
    Closed {
        /// Why.
        cause: CloseCause,
        /// Whether the request may have reached the peer.
        written: bool,
    },
    /// A request of the same id is in flight, or was given up and its reply may still come; or no id is free.
    IdInUse,
    /// There is no connection, and requests do not wait for one.
    NotConnected,
    /// Whoever asked changed their mind.
    Cancelled,
    /// The stage that waited for the reply has gone: its pipeline broke down or was exchanged.
    Abandoned,
    /// Waiting was asked for on a loop's own thread.
    WouldBlockLoop,
}

impl RequestError {
    /// Whether the peer may have got the request, so that asking again may do something twice. If not, it was never handed to the connection.
    pub fn may_have_been_written(&self) -> bool {
        match self {
            Self::TimedOut { written, .. } | Self::Closed { written, .. } => *written,
            Self::TooManyWaiting { .. } | Self::IdInUse | Self::NotConnected => false,
            Self::Cancelled | Self::Abandoned | Self::WouldBlockLoop => true,
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fate = |written: &bool| match written {
            true => "the request may have been received",
            false => "the request was not sent",
        };
        match self {
            Self::TimedOut { limit, written } => write!(f, "no reply within {limit:?}; {}", fate(written)),
            Self::TooManyWaiting { max_waiting } => {
                write!(f, "too many requests wait already: at most {max_waiting} may")
            }
            Self::Closed { cause, written } => write!(f, "no reply: {cause}; {}", fate(written)),
            Self::IdInUse => f.write_str("the id of the request is in use, or none is free"),
            Self::NotConnected => f.write_str("not connected"),
            Self::Cancelled => f.write_str("the request was cancelled"),
            Self::Abandoned => f.write_str("the stage that waited for the reply has gone"),
            Self::WouldBlockLoop => {
                f.write_str("waiting here would block an event loop; await it or wait elsewhere")
            }
        }
    }
}

impl std::error::Error for RequestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Closed { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

impl From<PromiseError> for RequestError {
    fn from(error: PromiseError) -> Self {
        match error {
            PromiseError::Cancelled => Self::Cancelled,
            PromiseError::WouldBlockLoop => Self::WouldBlockLoop,
            _ => Self::Abandoned,
        }
    }
}

/// A reply came that no request waits for: the peer and we have lost each other, and the connection ends.
///
/// ```
/// use netwright_codec::{LineFrames, Utf8};
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
/// use netwright_handler::{Requests, UnmatchedReply};
///
/// let lines = || pipeline().add(LineFrames::max(100)).add(Utf8::strict());
/// let mut channel = EmbeddedChannel::of(lines().last(Requests::<String, String>::in_order()));
/// channel.write_inbound("nobody asked\n");
/// match channel.finish().cause {
///     Some(CloseCause::Fault(fault)) => assert!(fault.downcast_ref::<UnmatchedReply>().is_some()),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnmatchedReply {
    /// Requests that were in flight when it came.
    pub in_flight: usize,
}

impl fmt::Display for UnmatchedReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a reply to no request, while {} were in flight", self.in_flight)
    }
}

impl std::error::Error for UnmatchedReply {}

/// Most numbers that requests could have belong to some that were given up, and whose replies never came: the connection ends, for the next
/// one has all of them again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NumbersUsedUp {
    /// How many requests were given up and not answered since.
    pub unanswered: usize,
}

impl fmt::Display for NumbersUsedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no number is left for a request: {} that were given up have got no reply", self.unanswered)
    }
}

impl std::error::Error for NumbersUsedUp {}
