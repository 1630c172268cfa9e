//! What a client that reconnects tells, and why it has no connection.

use netwright_core::{CloseCause, PromiseError};
use netwright_transport::ConnectError;
use std::{fmt, time::Duration};

/// What has happened to a client that [reconnects](super::Reconnect).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ReconnectEvent<'a> {
    /// An attempt begins.
    Connecting {
        /// To where.
        address: &'a str,
    },
    /// It has failed.
    Failed {
        /// Where nobody was reached.
        address: &'a str,
        /// Why.
        error: ConnectError,
        /// How many attempts have failed in a row.
        failures: u32,
    },
    /// There is a connection.
    Connected {
        /// To where.
        address: &'a str,
    },
    /// The connection has ended.
    Lost {
        /// To where it was.
        address: &'a str,
        /// Why.
        cause: CloseCause,
        /// How long it stood.
        stood: Duration,
    },
    /// Nothing happens for so long, then comes the next attempt.
    Waiting {
        /// How long.
        pause: Duration,
    },
    /// No further attempt will be made.
    Over {
        /// Why.
        error: ReconnectError,
    },
}

/// Why a client that [reconnects](super::Reconnect) has no connection, or has not sent a message.
///
/// A message that was not sent tells by a [`WriteError::Fault`](netwright_core::WriteError) that holds one of these.
///
/// ```
/// use netwright_core::{WriteError, pipeline};
/// use netwright_handler::{Reconnect, ReconnectError};
/// use netwright_transport::Client;
///
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// let reconnect = Reconnect::to(&client, "local:nobody-is-here").start()?;
/// match reconnect.send("hello").wait() {
///     Err(WriteError::Fault(fault)) => {
///         assert!(matches!(fault.downcast_ref(), Some(ReconnectError::NotConnected)));
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), netwright_transport::ConnectError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ReconnectError {
    /// There is no connection at present.
    NotConnected,
    /// There is no connection at present, and as many messages wait for one as may.
    TooManyWaiting {
        /// How many may wait.
        max_waiting: usize,
    },
    /// So many attempts have failed in a row.
    GaveUp {
        /// How many.
        failures: u32,
        /// Why the last one did. `None`: a connection was made, but did not stand.
        last: Option<ConnectError>,
    },
    /// It was stopped.
    Stopped,
    /// The loop that it lived on has ended.
    LoopEnded,
    /// Whoever waited for a connection changed their mind.
    Cancelled,
    /// Waiting was asked for on a loop's own thread.
    WouldBlockLoop,
}

impl fmt::Display for ReconnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected => f.write_str("not connected"),
            Self::TooManyWaiting { max_waiting } => {
                write!(f, "not connected, and too many messages wait already: at most {max_waiting} may")
            }
            Self::GaveUp { failures, last: Some(error) } => {
                write!(f, "gave up after {failures} failures in a row: {error}")
            }
            Self::GaveUp { failures, last: None } => {
                write!(f, "gave up after {failures} failures in a row: no connection stood long enough")
            }
            Self::Stopped => f.write_str("the client was stopped"),
            Self::LoopEnded => f.write_str("the event loop has ended"),
            Self::Cancelled => f.write_str("the wait for a connection was cancelled"),
            Self::WouldBlockLoop => {
                f.write_str("waiting here would block an event loop; await it or wait elsewhere")
            }
        }
    }
}

impl std::error::Error for ReconnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::GaveUp { last: Some(error), .. } => Some(error),
            _ => None,
        }
    }
}

impl From<PromiseError> for ReconnectError {
    fn from(error: PromiseError) -> Self {
        match error {
            PromiseError::Cancelled => Self::Cancelled,
            PromiseError::WouldBlockLoop => Self::WouldBlockLoop,
            _ => Self::LoopEnded,
        }
    }
}
