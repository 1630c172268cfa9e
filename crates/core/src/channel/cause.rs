//! Who ended a channel and why, what an error in a pipeline is, and why a write was not carried out.

use super::LeastRate;
use crate::promise::{Promise, PromiseError, Promised, promise};
use std::{error::Error, fmt, io, rc::Rc, sync::Arc, time::Duration};

/// An error on its way through a pipeline. Cheap to clone, so that everybody who is concerned can have it.
///
/// ```
/// use netwright_core::Fault;
/// use std::num::ParseIntError;
///
/// let fault = Fault::from("x".parse::<u32>().unwrap_err());
/// assert!(fault.downcast_ref::<ParseIntError>().is_some());
/// assert_eq!(Fault::new("no such order").to_string(), "no such order");
/// ```
#[derive(Clone)]
pub struct Fault(Arc<dyn Error + Send + Sync>);

impl Fault {
    /// Wraps an error.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(error.into()))
    }

    /// The error itself, if it is of this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    /// The error as a trait object.
    pub fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(Arc::new(error))
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Why a channel ended.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().handle(|_, bytes| assert!(bytes.len() < 4, "too much")));
/// channel.write_inbound("hello");
/// match channel.channel().close_cause() {
///     Some(CloseCause::Panicked(message)) => assert_eq!(message, "too much"),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CloseCause {
    /// Our side asked for it.
    Requested,
    /// The peer closed its side in order.
    PeerClosed,
    /// The system reported an error on the connection: a reset, a broken pipe, a dead network.
    Io(Arc<io::Error>),
    /// An error in the pipeline that no handler took care of.
    Fault(Fault),
    /// A handler panicked with this message.
    Panicked(String),
    /// Nothing came, or nothing could be sent, for this long.
    TimedOut(Duration),
    /// The peer did not take what waited for it as fast as it has to.
    TooSlow(LeastRate),
    /// The channel's event loop, or its server, was shut down.
    ShutDown,
    /// A conversation was broken off with this code of its protocol, as a stream of HTTP/2 is: by the peer, or by us
    /// ([`Channel::reset`](crate::Channel::reset)). Where the protocol has no codes, it is an end like any other.
    Reset(u64),
}

impl CloseCause {
    /// The cause behind an error of the system.
    pub fn io(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl fmt::Display for CloseCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => f.write_str("closed by our side"),
            Self::PeerClosed => f.write_str("closed by the peer"),
            Self::Io(error) => write!(f, "connection failed: {error}"),
            Self::Fault(fault) => write!(f, "unhandled error: {fault}"),
            Self::Panicked(message) => write!(f, "a handler panicked: {message}"),
            Self::TimedOut(time) => write!(f, "timed out after {time:?}"),
            Self::TooSlow(rate) => {
                write!(f, "the peer was too slow in taking what waited for it: less than {rate}")
            }
            Self::ShutDown => f.write_str("the event loop was shut down"),
            Self::Reset(code) => write!(f, "reset with code {code}"),
        }
    }
}

impl Error for CloseCause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error.as_ref()),
            Self::Fault(fault) => Some(fault.as_error()),
            _ => None,
        }
    }
}

impl From<Fault> for CloseCause {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// For `?` behind a write in an async tail: a write that failed because the channel has ended gives the cause of that end.
impl From<WriteError> for CloseCause {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Closed(cause) => cause,
            WriteError::Fault(fault) => Self::Fault(fault),
            other => Self::Fault(Fault::new(other)),
        }
    }
}

thread_local! {
    /// The end that comes every day, kept once for each thread: a conversation that ends in order allocates nothing for that.
    static REQUESTED: Rc<CloseCause> = Rc::new(CloseCause::Requested);
}

impl CloseCause {
    /// The cause in the room of a pointer.
    pub(super) fn kept(self) -> Rc<Self> {
        match self {
            Self::Requested => REQUESTED.try_with(Rc::clone).unwrap_or_else(|_| Rc::new(self)),
            other => Rc::new(other),
        }
    }
}

/// Why a write, a flush or a close was not carried out.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, WriteError, pipeline};
/// use bytes::Bytes;
///
/// let mut embedded = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
/// let channel = embedded.channel().clone();
/// embedded.close_by_peer();
/// let result = channel.send(Bytes::from("too late")).wait();
/// assert!(matches!(result, Err(WriteError::Closed(CloseCause::PeerClosed))));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum WriteError {
    /// The channel was closed before the bytes were on their way.
    Closed(CloseCause),
    /// Our side had announced that it sends no more.
    OutputShutDown,
    /// The write was cancelled before it was flushed.
    Cancelled,
    /// The message could not be encoded or sent.
    Fault(Fault),
    /// A file to be sent failed. The channel lives on, unless a part of the file had been sent.
    File(Arc<io::Error>),
    /// The message was dropped on its way, by a handler that did not pass it on.
    Abandoned,
    /// The segment of the pipeline that took such messages has been exchanged for another one.
    Exchanged,
    /// Waiting was asked for on a loop's own thread.
    WouldBlockLoop,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(cause) => write!(f, "the channel is closed: {cause}"),
            Self::OutputShutDown => f.write_str("the output side of the channel was shut down"),
            Self::Cancelled => f.write_str("the write was cancelled before it was flushed"),
            Self::Fault(fault) => write!(f, "the message could not be written: {fault}"),
            Self::File(error) => write!(f, "the file could not be sent: {error}"),
            Self::Abandoned => f.write_str("the message was dropped by a handler"),
            Self::Exchanged => {
                f.write_str("the segment of the pipeline that took such messages has been exchanged")
            }
            Self::WouldBlockLoop => {
                f.write_str("waiting here would block an event loop; await it or wait elsewhere")
            }
        }
    }
}

impl Error for WriteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Closed(cause) => Some(cause),
            Self::Fault(fault) => Some(fault.as_error()),
            Self::File(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl From<PromiseError> for WriteError {
    fn from(error: PromiseError) -> Self {
        match error {
            PromiseError::Cancelled => Self::Cancelled,
            PromiseError::WouldBlockLoop => Self::WouldBlockLoop,
            PromiseError::Abandoned => Self::Abandoned,
        }
    }
}

/// What a tracked write resolves to.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Written, pipeline};
/// use bytes::Bytes;
///
/// let mut embedded = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
/// let mut written: Written = embedded.channel().send(Bytes::from("hello"));
/// embedded.run();
/// assert!(written.wait().is_ok()); // the transport has taken it all
/// ```
pub type Written = Promised<(), WriteError>;

/// Tells whoever wrote a message what became of it. Most writes are not tracked, and then it is nothing at all.
///
/// ```
/// use netwright_core::{WriteError, WritePromise};
///
/// let (done, mut written) = WritePromise::tracked();
/// done.succeed();
/// assert!(written.wait().is_ok());
///
/// let (forgotten, mut written) = WritePromise::tracked();
/// drop(forgotten); // a handler that does not pass a message on
/// assert!(matches!(written.wait(), Err(WriteError::Abandoned)));
/// ```
#[derive(Debug, Default)]
#[must_use = "a promise that is dropped reports the message as abandoned"]
pub struct WritePromise(Option<Promise<(), WriteError>>);

impl WritePromise {
    /// For a write that nobody tracks: costs nothing.
    pub const fn untracked() -> Self {
        Self(None)
    }

    /// For a write that somebody tracks.
    pub fn tracked() -> (Self, Written) {
        let (promise, written) = promise();
        (Self(Some(promise)), written)
    }

    /// The message is on its way.
    pub fn succeed(self) {
        if let Some(promise) = self.0 {
            promise.succeed(());
        }
    }

    /// The message will not be sent.
    pub fn fail(self, error: WriteError) {
        if let Some(promise) = self.0 {
            promise.fail(error);
        }
    }

    /// Whether whoever wrote it has changed their mind.
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(Promise::is_cancelled)
    }

    /// From now on the write cannot be cancelled. False if it was.
    pub fn claim(&mut self) -> bool {
        self.0.as_mut().is_none_or(Promise::claim)
    }

    /// Whether anybody wants to know.
    pub fn is_tracked(&self) -> bool {
        self.0.is_some()
    }
}
