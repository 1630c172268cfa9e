//! Why there is no WebSocket: because of what was asked for, or because of what the server answered.

use crate::deflate::BadExtension;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version, uri::InvalidUri};
use netwright_http::{BadAuthority, ReplyHead};
use std::{error::Error, fmt, sync::Arc, time::Duration};

/// How many bytes of a reply that is no WebSocket are kept.
pub const REJECTION_MAX: usize = 64 * 1024;

/// Why no WebSocket can be asked for like this.
///
/// ```
/// use netwright_websocket::{BadRequest, Request};
///
/// assert!(matches!(Request::new("http://example.test/"), Err(BadRequest::Scheme(_))));
/// let error = Request::new("ws://example.test:70000/").unwrap_err();
/// assert_eq!(error.to_string(), "the port 70000 is none, the limit is 65535");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BadRequest {
    /// This is no address.
    Url(InvalidUri),
    /// The scheme is not `ws` or `wss`, or there is no host.
    Scheme(String),
    /// The port is not a number, or too high for one.
    Port {
        /// What stands where the port should.
        port: String,
        /// The highest port.
        limit: u16,
    },
    /// What stands before the path is not a host and a port. Names and passwords do not belong there, but into a
    /// [header](super::Request::header).
    Host(BadAuthority),
    /// There is no such header, or it is one that the handshake itself sets.
    Header(String),
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(error) => write!(f, "not an address: {error}"),
            Self::Scheme(url) => write!(f, "{url:?} does not begin with ws:// or wss:// and a host"),
            Self::Port { port, limit } => write!(f, "the port {port} is none, the limit is {limit}"),
            Self::Host(error) => write!(f, "not a host and a port: {error}"),
            Self::Header(name) => write!(f, "the header {name:?} cannot be set"),
        }
    }
}

impl Error for BadRequest {}

/// Why a server and a client did not come to a WebSocket.
///
/// ```
/// use netwright_websocket::HandshakeError;
///
/// let error = HandshakeError::Http(http::Version::HTTP_10);
/// assert!(error.to_string().contains("HTTP/1.0"), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The server answered with another status than 101: with what.
    Rejected(Arc<Rejection>),
    /// The server agreed in an HTTP that is older than 1.1.
    Http(Version),
    /// The reply does not say that the connection becomes a WebSocket.
    NotUpgraded,
    /// The reply does not prove that the server has understood.
    Proof,
    /// The server chose a subprotocol that was not offered.
    Protocol(String),
    /// The server agreed to an extension that was not offered so.
    Extension(BadExtension),
    /// The reply did not come in time.
    TimedOut(Duration),
    /// The request is one for `wss`, and the connection is not encrypted. Nothing was sent.
    NotSecure,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(rejection) => rejection.fmt(f),
            Self::Http(version) => {
                write!(f, "the server agreed to a WebSocket in {version:?}, which cannot change the protocol")
            }
            Self::NotUpgraded => {
                f.write_str("the server's reply does not say that it speaks WebSocket from now on")
            }
            Self::Proof => f.write_str("the server's Sec-WebSocket-Accept does not fit our key"),
            Self::Protocol(protocol) => {
                write!(f, "the server chose the subprotocol {protocol:?}, which was not offered")
            }
            Self::Extension(error) => error.fmt(f),
            Self::TimedOut(time) => write!(f, "the server did not agree to a WebSocket within {time:?}"),
            Self::NotSecure => f.write_str("a wss request was about to be sent without TLS"),
        }
    }
}

impl Error for HandshakeError {}

impl From<Rejection> for HandshakeError {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(Arc::new(rejection))
    }
}

/// A server's reply that is no WebSocket: its head, and what came of its body.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
/// use netwright_websocket::{HandshakeError, Request};
///
/// let request = Request::new("ws://example.test/").unwrap();
/// let client = request.pipeline(|socket, _, _| pipeline().add(socket).handle(|_, _| {}));
/// let mut channel = EmbeddedChannel::<(), _>::with_joint(client);
/// channel.write_inbound("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 4\r\n\r\nwho?");
/// let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { panic!() };
/// let Some(HandshakeError::Rejected(rejection)) = fault.downcast_ref() else { panic!() };
/// assert_eq!((rejection.status.as_u16(), &rejection.body[..]), (401, &b"who?"[..]));
/// assert_eq!(rejection.headers["www-authenticate"], "Basic");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, at most [`REJECTION_MAX`] bytes of it.
    pub body: Bytes,
    /// Whether that is all of it: it was not too long, and came in time.
    pub complete: bool,
}

impl Rejection {
    /// A head whose body is still to come.
    pub(super) fn of(reply: &ReplyHead) -> Self {
        Self { status: reply.status, headers: reply.headers.clone(), body: Bytes::new(), complete: false }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered a request for a WebSocket with {}", self.status)
    }
}
