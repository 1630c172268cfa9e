//! Why there is no TLS connection, or none any more.

use crate::pem::PemError;
use netwright_core::{CloseCause, Fault, PromiseError};
use std::{error::Error, fmt, sync::Arc, time::Duration};

/// What went wrong with TLS. Cheap to clone: whoever waits for the handshake and the pipeline hear the same.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
/// use netwright_tls::{Acceptor, Certificate, Tls, TlsError};
///
/// let acceptor = Acceptor::new(&Certificate::self_signed(["localhost"])?)?;
/// let mut channel = EmbeddedChannel::new(pipeline().add(Tls::server(&acceptor)).handle(|cx, bytes| cx.write(bytes.freeze())));
/// channel.write_inbound("GET / HTTP/1.1\r\n\r\n"); // somebody who forgot the s of https
/// let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { panic!() };
/// assert!(matches!(fault.downcast_ref(), Some(TlsError::NotTls { .. })), "{fault}");
/// # Ok::<(), TlsError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TlsError {
    /// The peer does not speak TLS: its first bytes are these.
    NotTls {
        /// At most the first eight.
        first: Vec<u8>,
    },
    /// The handshake was not done in time.
    HandshakeTimedOut {
        /// The setting.
        limit: Duration,
    },
    /// The peer's handshake messages are too long, or never end.
    HandshakeTooLong {
        /// Which setting: `hello_max` or `handshake_max`.
        limit: &'static str,
        /// Bytes that may wait for the rest of their message.
        max: usize,
        /// Bytes that wait.
        got: usize,
    },
    /// A part of a record came, and the rest did not in time.
    RecordTimedOut {
        /// The setting.
        limit: Duration,
        /// Bytes that came.
        got: usize,
    },
    /// The protocol was broken, a certificate was refused, the peer sent an alert: rustls says which.
    Protocol(rustls::Error),
    /// The connection ended before the handshake was done.
    ClosedInHandshake(CloseCause),
    /// The connection ended without a `close_notify`: what came may not be all that the peer sent.
    Truncated {
        /// Bytes of a record whose end never came.
        unfinished: usize,
    },
    /// Whoever was asked for a certificate had none.
    Resolver(Fault),
    /// The handshake was to run on workers, and they did not take it or lost it.
    Workers(String),
    /// None of the protocols that the application knows was agreed on.
    NoProtocol {
        /// What was agreed on, if anything.
        agreed: Option<Vec<u8>>,
    },
    /// This is no name of a server.
    ServerName(String),
    /// A message with a target or with descriptors cannot be encrypted.
    NotBytes,
    /// A certificate, a key or a root could not be read.
    Pem(Arc<PemError>),
    /// The settings do not fit together.
    Settings(String),
    /// Whoever was to say how the handshake went is gone.
    Abandoned(PromiseError),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTls { first } => {
                write!(f, "the peer does not speak TLS: its first bytes are \"{}\"", first.escape_ascii())
            }
            Self::HandshakeTimedOut { limit } => write!(f, "the TLS handshake took longer than {limit:?}"),
            Self::RecordTimedOut { limit, got } => {
                write!(f, "a TLS record had begun, and after {limit:?} there were {got} bytes of it")
            }
            Self::HandshakeTooLong { limit, max, got } => {
                write!(f, "{got} bytes of a TLS handshake wait for their end, {limit} is {max}")
            }
            Self::Protocol(error) => write!(f, "TLS: {error}"),
            Self::ClosedInHandshake(cause) => write!(f, "the connection ended in the TLS handshake: {cause}"),
            Self::Truncated { unfinished: 0 } => {
                f.write_str("the peer ended the connection without a close_notify: there may have been more")
            }
            Self::Truncated { unfinished } => {
                write!(
                    f,
                    "the peer ended the connection within a TLS record, of which {unfinished} bytes came"
                )
            }
            Self::Resolver(fault) => write!(f, "no certificate for this client: {fault}"),
            Self::Workers(why) => write!(f, "the TLS handshake found no worker: {why}"),
            Self::NoProtocol { agreed: None } => f.write_str("no application protocol was agreed on"),
            Self::NoProtocol { agreed: Some(name) } => {
                write!(f, "nobody handles the application protocol \"{}\"", name.escape_ascii())
            }
            Self::ServerName(name) => write!(f, "{name:?} is no name of a server"),
            Self::NotBytes => {
                f.write_str("a message with a target or with descriptors cannot go through TLS")
            }
            Self::Pem(error) => error.fmt(f),
            Self::Settings(what) => f.write_str(what),
            Self::Abandoned(error) => write!(f, "the TLS handshake was abandoned: {error}"),
        }
    }
}

impl Error for TlsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Protocol(error) => Some(error),
            Self::ClosedInHandshake(cause) => Some(cause),
            Self::Resolver(fault) => Some(fault.as_error()),
            Self::Pem(error) => Some(error.as_ref()),
            Self::Abandoned(error) => Some(error),
            _ => None,
        }
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Protocol(error)
    }
}

impl From<PemError> for TlsError {
    fn from(error: PemError) -> Self {
        Self::Pem(Arc::new(error))
    }
}

impl From<PromiseError> for TlsError {
    fn from(error: PromiseError) -> Self {
        Self::Abandoned(error)
    }
}
