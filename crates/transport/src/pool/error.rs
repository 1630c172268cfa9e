//! Why a pool has no connection to give.

use crate::bootstrap::ConnectError;
use netwright_core::{CloseCause, PromiseError};
use std::{error::Error, fmt, time::Duration};

/// Why an acquire failed.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, ConnectError, Pool, PoolError};
///
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// let pool = Pool::to(&client, "local:nobody-listens").build()?;
/// assert!(matches!(pool.acquire().wait(), Err(PoolError::Connect(ConnectError::Refused(_)))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PoolError {
    /// A new connection could not be made.
    Connect(ConnectError),
    /// A connection that was made for a [warm-up](super::Pool::warm_up) ended at once, before anybody used it: why.
    Ended(CloseCause),
    /// None became free in time.
    TimedOut {
        /// How long was waited.
        waited: Duration,
        /// How many connections the pool may have.
        max_connections: usize,
        /// How many of them were on loan at the end.
        in_use: usize,
        /// How many of them were being connected.
        connecting: usize,
    },
    /// As many wait already as may wait.
    TooManyWaiting {
        /// How many may wait.
        max_waiting: usize,
        /// How many connections the pool may have.
        max_connections: usize,
    },
    /// The pool was closed.
    Closed,
    /// Whoever asked for the connection changed their mind.
    Cancelled,
    /// The loop that runs the pool's timeouts has ended.
    LoopEnded,
    /// Waiting was asked for on a loop's own thread.
    WouldBlockLoop,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Ended(cause) => write!(f, "a connection ended before anybody used it: {cause}"),
            Self::TimedOut { waited, max_connections, in_use, connecting } => write!(
                f,
                "no connection became free within {waited:?}: of at most {max_connections}, {in_use} are in use and \
                 {connecting} are being connected"
            ),
            Self::TooManyWaiting { max_waiting, max_connections } => write!(
                f,
                "all {max_connections} connections are taken, and {max_waiting} wait already, the limit of the pool"
            ),
            Self::Closed => f.write_str("the connection pool is closed"),
            Self::Cancelled => f.write_str("the acquire was cancelled"),
            Self::LoopEnded => f.write_str("the event loop that runs the pool's timeouts has ended"),
            Self::WouldBlockLoop => {
                f.write_str("waiting here would block an event loop; await it or wait elsewhere")
            }
        }
    }
}

impl Error for PoolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Connect(error) => Some(error),
            Self::Ended(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<PromiseError> for PoolError {
    fn from(error: PromiseError) -> Self {
        match error {
            PromiseError::WouldBlockLoop => Self::WouldBlockLoop,
            PromiseError::Cancelled => Self::Cancelled,
            _ => Self::Closed, // only a pool that is gone leaves an acquire without an answer
        }
    }
}
