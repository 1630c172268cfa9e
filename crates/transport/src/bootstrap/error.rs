//! Why there is no listener, or no connection. Every text names the address.

use crate::{blocking::ThreadError, open::SchemeError, proxy::ProxyError, resolve::ResolveError};
use netwright_core::{Address, AddressError, PromiseError, Promised, Refused, RefusedWhy, promise};
use std::{fmt, io, sync::Arc, time::Duration};

/// Why a server does not listen.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{BindError, Server};
///
/// let listen = || Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("local:taken");
/// let _first = listen().wait()?;
/// assert!(matches!(listen().wait(), Err(BindError::InUse(_))));
/// # Ok::<(), BindError>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum BindError {
    /// The address is taken.
    InUse(Address),
    /// The name has no address.
    Resolve(ResolveError),
    /// No transport is known by the scheme of the address, or what stands behind the scheme is no name.
    Scheme(SchemeError),
    /// The system refused.
    Io {
        /// Where the server was to listen.
        address: Address,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// A setting cannot work.
    Setup(String),
    /// The function that makes the pipeline panicked, with these words.
    Panicked(String),
    /// The event loop ended before the server listened.
    LoopEnded,
    /// The event loop has too much to do already, or has no thread: what it says of it.
    NotTaken(RefusedWhy),
    /// Waiting was asked for on a loop's own thread.
    WouldBlockLoop,
}

impl BindError {
    pub(super) fn io(address: Address, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::AddrInUse => Self::InUse(address),
            _ => Self::Io { address, error: Arc::new(error) },
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(address) => write!(f, "cannot listen on {address}: the address is in use"),
            Self::Resolve(error) => error.fmt(f),
            Self::Scheme(error) => error.fmt(f),
            Self::Io { address, error } => write!(f, "cannot listen on {address}: {error}"),
            Self::Setup(text) => f.write_str(text),
            Self::Panicked(panic) => write!(f, "the function that makes the pipeline panicked: {panic}"),
            Self::LoopEnded => f.write_str("the event loop ended before the server listened"),
            Self::NotTaken(why) => write!(f, "the event loop did not take it: {why}"),
            Self::WouldBlockLoop => {
                f.write_str("waiting here would block an event loop; await it or wait elsewhere")
            }
        }
    }
}

/// By hand, because what is derived is compiled again in every crate that makes a `Box<dyn Error>` of it, with all errors inside.
impl fmt::Debug for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(address) => f.debug_tuple("InUse").field(address).finish(),
            Self::Resolve(error) => f.debug_tuple("Resolve").field(error).finish(),
            Self::Scheme(error) => f.debug_tuple("Scheme").field(error).finish(),
            Self::Io { address, error } => {
                f.debug_struct("Io").field("address", address).field("error", error).finish()
            }
            Self::Setup(text) => f.debug_tuple("Setup").field(text).finish(),
            Self::Panicked(panic) => f.debug_tuple("Panicked").field(panic).finish(),
            Self::LoopEnded => f.write_str("LoopEnded"),
            Self::NotTaken(why) => f.debug_tuple("NotTaken").field(why).finish(),
            Self::WouldBlockLoop => f.write_str("WouldBlockLoop"),
        }
    }
}

impl std::error::Error for BindError {}

impl From<RefusedWhy> for BindError {
    fn from(why: RefusedWhy) -> Self {
        match why {
            RefusedWhy::ShutDown => Self::LoopEnded,
            why => Self::NotTaken(why),
        }
    }
}

impl From<PromiseError> for BindError {
    fn from(error: PromiseError) -> Self {
        match error {
            PromiseError::WouldBlockLoop => Self::WouldBlockLoop,
            _ => Self::LoopEnded,
        }
    }
}

/// Of datagrams, which have no schemes but those of sockets.
impl From<AddressError> for BindError {
    fn from(error: AddressError) -> Self {
        Self::Setup(error.to_string())
    }
}

impl From<SchemeError> for BindError {
    fn from(error: SchemeError) -> Self {
        Self::Scheme(error)
    }
}

impl From<ResolveError> for BindError {
    fn from(error: ResolveError) -> Self {
        Self::Resolve(error)
    }
}

/// Why a client is not connected.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, ConnectError};
///
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// assert!(matches!(client.connect("local:nobody-is-here").wait(), Err(ConnectError::Refused(_))));
/// # Ok::<(), ConnectError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name has no address.
    Resolve(ResolveError),
    /// No transport is known by the scheme of the address, or what stands behind the scheme is no name.
    Scheme(SchemeError),
    /// The peer's system refused: nobody listens there.
    Refused(Address),
    /// No answer came in time.
    TimedOut {
        /// The peer.
        address: Address,
        /// How long was waited.
        limit: Duration,
    },
    /// Another error of the system.
    Io {
        /// The peer.
        address: Address,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// A proxy did not let us through.
    Proxy(Box<ProxyError>),
    /// Every connection has a thread of its own, and there is none for this one.
    NoThread(ThreadError),
    /// A setting cannot work.
    Setup(String),
    /// The function that makes the pipeline panicked, with these words.
    Panicked(String),
    /// Whoever asked for the connection changed their mind.
    Cancelled,
    /// The event loop ended before the connection was there.
    LoopEnded,
    /// The event loop has too much to do already, or has no thread: what it says of it.
    NotTaken(RefusedWhy),
    /// Waiting was asked for on a loop's own thread.
    WouldBlockLoop,
}

impl ConnectError {
    pub(super) fn io(address: Address, limit: Duration, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused(address),
            io::ErrorKind::TimedOut => Self::TimedOut { address, limit },
            _ => Self::Io { address, error: Arc::new(error) },
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => error.fmt(f),
            Self::Scheme(error) => error.fmt(f),
            Self::Refused(address) => write!(f, "connection refused by {address}: nobody listens there"),
            Self::TimedOut { address, limit } => write!(f, "no answer from {address} within {limit:?}"),
            Self::Io { address, error } => write!(f, "cannot connect to {address}: {error}"),
            Self::Proxy(error) => error.fmt(f),
            Self::NoThread(error) => error.fmt(f),
            Self::Setup(text) => f.write_str(text),
            Self::Panicked(panic) => write!(f, "the function that makes the pipeline panicked: {panic}"),
            Self::Cancelled => f.write_str("the connect was cancelled"),
            Self::LoopEnded => f.write_str("the event loop ended before the connection was there"),
            Self::NotTaken(why) => write!(f, "the event loop did not take it: {why}"),
            Self::WouldBlockLoop => {
                f.write_str("waiting here would block an event loop; await it or wait elsewhere")
            }
        }
    }
}

impl std::error::Error for ConnectError {}

impl From<RefusedWhy> for ConnectError {
    fn from(why: RefusedWhy) -> Self {
        match why {
            RefusedWhy::ShutDown => Self::LoopEnded,
            why => Self::NotTaken(why),
        }
    }
}

impl From<PromiseError> for ConnectError {
    fn from(error: PromiseError) -> Self {
        match error {
            PromiseError::WouldBlockLoop => Self::WouldBlockLoop,
            PromiseError::Cancelled => Self::Cancelled,
            _ => Self::LoopEnded,
        }
    }
}

impl From<ProxyError> for ConnectError {
    fn from(error: ProxyError) -> Self {
        Self::Proxy(Box::new(error))
    }
}

/// Likewise.
impl From<AddressError> for ConnectError {
    fn from(error: AddressError) -> Self {
        Self::Setup(error.to_string())
    }
}

impl From<SchemeError> for ConnectError {
    fn from(error: SchemeError) -> Self {
        Self::Scheme(error)
    }
}

impl From<ResolveError> for ConnectError {
    fn from(error: ResolveError) -> Self {
        Self::Resolve(error)
    }
}

/// What was promised, if a loop has taken the future that completes it; else why it has not.
pub(super) fn taken<T: Send + 'static, E: From<RefusedWhy> + From<PromiseError> + Send + 'static, H, F>(
    promised: Promised<T, E>,
    spawned: Result<H, Refused<F>>,
) -> Promised<T, E> {
    match spawned {
        Ok(_) => promised,
        Err(refused) => {
            let (promise, answer) = promise();
            promise.fail(refused.why.into());
            answer
        }
    }
}
