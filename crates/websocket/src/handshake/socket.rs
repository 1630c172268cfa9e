//! What a client has of a WebSocket that is open, and why it has none.

use super::{BadRequest, HandshakeError, Opened};
use crate::{Agreed, Message};
use http::HeaderMap;
use netwright_core::{Channel, CloseCause, PromiseError, SharedPromised};
#[cfg(feature = "tls")]
use netwright_tls::TlsError;
use netwright_transport::ConnectError;
use std::{
    convert::Infallible,
    error::Error,
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// A WebSocket that is open: what the server agreed to, and the connection, which others may write to and close.
///
/// The function that was given to [`connect`](super::WebSocketClient::connect) serves it, whether this is kept or not.
///
/// ```
/// use netwright_websocket::{Close, CloseCode, Message, Socket};
///
/// async fn leave(socket: &Socket) {
///     println!("spoke {:?}, compressed: {}", socket.protocol(), socket.deflate().is_some());
///     socket.channel().write_and_flush(Message::from(Close::new(CloseCode::NORMAL, "that was all")));
///     println!("ended: {}", socket.closed().await);
/// }
/// ```
#[derive(Clone)]
pub struct Socket {
    pub(super) channel: Channel<Message>,
    pub(super) opened: Opened,
    pub(super) headers: HeaderMap,
    pub(super) over: SharedPromised<CloseCause, PromiseError>,
}

impl Socket {
    /// What was agreed to.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The subprotocol that the server chose, if it chose one.
    pub fn protocol(&self) -> Option<&str> {
        self.opened.protocol.as_deref()
    }

    /// The compression that the server agreed to, if it did.
    pub fn deflate(&self) -> Option<Agreed> {
        self.opened.deflate
    }

    /// The headers of the reply by which it agreed.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The connection, for others than the function that serves it: addresses, attributes, and messages to be sent.
    pub fn channel(&self) -> &Channel<Message> {
        &self.channel
    }

    /// Says goodbye to the server and closes. The future is that of [`closed`](Self::closed).
    pub fn close(&self) -> SocketClosed {
        drop(self.channel.close());
        self.closed()
    }

    /// The end: a future of its cause, and a blocking wait. It comes when everything is over, also the function that
    /// served it, and says what that function heard: [`ClosedByPeer`](crate::ClosedByPeer), for example, or
    /// [`NoClose`](crate::NoClose).
    pub fn closed(&self) -> SocketClosed {
        SocketClosed { channel: self.channel.clone(), over: self.over.clone() }
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket")
            .field("channel", &self.channel.id())
            .field("opened", &self.opened)
            .finish_non_exhaustive()
    }
}

/// The end of a [`Socket`]: resolves to its cause.
///
/// ```
/// use netwright_core::PromiseError;
/// use netwright_websocket::Socket;
///
/// fn report(socket: &Socket) -> Result<(), PromiseError> {
///     println!("ended: {}", socket.closed().wait()?); // or `.await`
///     Ok(())
/// }
/// ```
pub struct SocketClosed {
    channel: Channel<Message>,
    over: SharedPromised<CloseCause, PromiseError>,
}

impl SocketClosed {
    /// Blocks until it has come.
    ///
    /// # Errors
    /// This is a loop's thread, and it has not come yet.
    pub fn wait(&self) -> Result<CloseCause, PromiseError> {
        match self.over.wait() {
            Err(PromiseError::WouldBlockLoop) => Err(PromiseError::WouldBlockLoop),
            told => Ok(self.cause(told)),
        }
    }

    /// A pipeline that panicked, or whose loop has ended, tells nothing; the channel itself knows that.
    fn cause(&self, told: Result<CloseCause, PromiseError>) -> CloseCause {
        told.unwrap_or_else(|_| self.channel.close_cause().unwrap_or(CloseCause::ShutDown))
    }
}

impl Future for SocketClosed {
    type Output = CloseCause;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CloseCause> {
        let told = ready!(Pin::new(&mut self.over).poll(cx));
        Poll::Ready(self.cause(told))
    }
}

impl fmt::Debug for SocketClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketClosed").field("done", &self.over.is_done()).finish_non_exhaustive()
    }
}

/// Why a client has no WebSocket.
///
/// ```
/// use netwright_websocket::{HandshakeError, OpenError};
///
/// /// What the server has to say about it.
/// fn told(error: &OpenError) -> Option<String> {
///     match error {
///         OpenError::Handshake(HandshakeError::Rejected(reply)) => {
///             Some(format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body)))
///         }
///         _ => None,
///     }
/// }
/// assert_eq!(told(&OpenError::NoTls), None);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// That cannot be asked for. Nothing was tried.
    Request(BadRequest),
    /// `wss` needs TLS: a client that has a connector, by `WebSocketClient::tls` (feature `tls`, in `netwright` `wss`). Nothing was
    /// tried.
    NoTls,
    /// The host may have an address, but TLS has no name for it, so nobody could prove to be it. Nothing was tried.
    #[cfg(feature = "tls")]
    Tls(TlsError),
    /// There is no connection.
    Connect(ConnectError),
    /// There is one, but the server did not agree, or not properly.
    Handshake(HandshakeError),
    /// The connection ended before the server had answered.
    Closed(CloseCause),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::NoTls => f.write_str("a wss address needs TLS, and this client has none"),
            #[cfg(feature = "tls")]
            Self::Tls(error) => write!(f, "a wss address needs TLS: {error}"),
            Self::Connect(error) => error.fmt(f),
            Self::Handshake(error) => error.fmt(f),
            Self::Closed(cause) => write!(f, "the connection ended before there was a WebSocket: {cause}"),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Closed(cause) => Some(cause),
            _ => None, // their texts are the whole text already
        }
    }
}

impl From<BadRequest> for OpenError {
    fn from(error: BadRequest) -> Self {
        Self::Request(error)
    }
}

/// Of a [`Request`](super::Request), which is one already.
impl From<Infallible> for OpenError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<PromiseError> for OpenError {
    fn from(error: PromiseError) -> Self {
        Self::Connect(error.into())
    }
}

impl From<CloseCause> for OpenError {
    fn from(cause: CloseCause) -> Self {
        match &cause {
            CloseCause::Fault(fault) => match fault.downcast_ref::<HandshakeError>() {
                Some(error) => Self::Handshake(error.clone()),
                None => Self::Closed(cause),
            },
            _ => Self::Closed(cause),
        }
    }
}
