//! Why a request has no reply.

use crate::error::HttpError;
use http::Uri;
use netwright_core::{CloseCause, PromiseError};
use netwright_transport::{ConnectError, PoolError, ProxyError};
use std::{error::Error, fmt, time::Duration};

/// Why a request has no reply.
///
/// ```
/// use netwright_http::client::WebClientError;
/// use std::time::Duration;
///
/// let error = WebClientError::TimedOut { what: "the head", limit: Duration::from_secs(30) };
/// assert!(error.to_string().contains("30s"), "{error}");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum WebClientError {
    /// The URL cannot be used: which, and why.
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The port of a URL is none.
    Port {
        /// What stands for the port.
        port: String,
        /// Where it stands: the host and the port.
        authority: String,
    },
    /// There is no connection.
    Connect(ConnectError),
    /// All connections to this peer are in use, and none became free.
    Pool(PoolError),
    /// The connection ended before the reply was complete.
    Closed(CloseCause),
    /// The server has not looked at the request, again and again or with a body that cannot be sent twice: it takes no more of them just now, or
    /// goes away.
    Refused,
    /// What the server sent, or what was to be sent, is not HTTP.
    Http(HttpError),
    /// No reply came in time.
    TimedOut {
        /// For what: the head, or all of it.
        what: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The server sends us from one place to the next.
    TooManyRedirects {
        /// How many were followed.
        max: usize,
        /// Where the next one leads.
        next: Uri,
    },
    /// A proxy does not let us through: which, and why.
    Proxy(Box<ProxyError>),
    /// TLS cannot be set up.
    Tls(String),
    /// Something that a request needs panicked, with these words.
    Panicked(String),
    /// Whoever asked [changed their mind](super::Asking::cancel).
    Cancelled,
    /// The client's event loop has ended.
    LoopEnded,
    /// Waiting was asked for on a loop's own thread.
    WouldBlockLoop,
}

impl From<HttpError> for WebClientError {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

impl From<PromiseError> for WebClientError {
    fn from(error: PromiseError) -> Self {
        match error {
            PromiseError::WouldBlockLoop => Self::WouldBlockLoop,
            PromiseError::Cancelled => Self::Cancelled,
            _ => Self::LoopEnded,
        }
    }
}

impl From<ConnectError> for WebClientError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Proxy(error) => Self::Proxy(error),
            other => Self::Connect(other),
        }
    }
}

impl From<PoolError> for WebClientError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Connect(error) => error.into(),
            other => Self::Pool(other),
        }
    }
}

impl fmt::Display for WebClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, why } => write!(f, "{url:?} cannot be asked: {why}"),
            Self::Port { port, authority } => {
                write!(
                    f,
                    "{authority:?} cannot be connected to: its port is {port:?}, and ports go from 0 to 65535"
                )
            }
            Self::Connect(error) => write!(f, "{error}"),
            Self::Pool(error) => write!(f, "no connection is free: {error}"),
            Self::Closed(cause) => write!(f, "the connection ended before the reply was complete: {cause}"),
            Self::Refused => f.write_str(
                "the server has not looked at the request, because it takes no more just now, or goes away",
            ),
            Self::Http(error) => write!(f, "{error}"),
            Self::TimedOut { what, limit } => write!(f, "{what} did not come within {limit:?}"),
            Self::TooManyRedirects { max, next } => {
                write!(f, "{max} redirects were followed, which is the limit; the next one leads to {next}")
            }
            Self::Proxy(error) => write!(f, "{error}"),
            Self::Tls(why) => write!(f, "{why}"),
            Self::Panicked(panic) => write!(f, "the request ended in a panic: {panic}"),
            Self::Cancelled => f.write_str("the request was cancelled"),
            Self::LoopEnded => f.write_str("the client's event loop has ended"),
            Self::WouldBlockLoop => {
                f.write_str("waiting here would block an event loop; await it or wait elsewhere")
            }
        }
    }
}

impl Error for WebClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Connect(error) => Some(error),
            Self::Proxy(error) => Some(&**error),
            Self::Pool(error) => Some(error),
            Self::Closed(cause) => Some(cause),
            Self::Http(error) => Some(error),
            _ => None,
        }
    }
}
