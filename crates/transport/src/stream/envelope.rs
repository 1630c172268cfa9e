//! Envelopes on byte streams.

use crate::sys::descriptors_along;
use netwright_core::{Address, Fault, Outbound, WriteError};
use std::fmt;

/// Why an [`Envelope`](netwright_core::Envelope) was not sent; the channel lives on.
///
/// The write's promise fails with [`WriteError::Fault`], from which this can be had by
/// [`downcast_ref`](netwright_core::Fault::downcast_ref).
///
/// ```
/// use netwright_core::{Envelope, Outgoing, WriteError, pipeline};
/// use netwright_transport::{Client, EnvelopeError, Server};
/// use std::net::SocketAddr;
///
/// let server = Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("127.0.0.1:0").wait()?;
/// let client = Client::builder().pipeline(|| pipeline().app(Sends))?;
/// let channel = client.connect(server.address()).wait()?;
/// let elsewhere: SocketAddr = "127.0.0.1:1".parse()?;
/// let result = channel.send(Envelope::to(elsewhere, "hello")).wait();
/// let Err(WriteError::Fault(fault)) = result else { panic!("{result:?}") };
/// assert!(matches!(fault.downcast_ref(), Some(EnvelopeError::Target { .. }))); // a stream has one peer
///
/// struct Sends;
/// impl netwright_core::Application for Sends {
///     type Read = bytes::BytesMut;
///     type Write = Outgoing;
///     fn read(&mut self, _: &mut netwright_core::AppContext<'_, Self>, _: bytes::BytesMut) {}
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// It has a target, but a stream has one peer.
    Target {
        /// The target.
        to: Address,
    },
    /// It has descriptors, which only Unix sockets can pass.
    Descriptors {
        /// How many.
        count: usize,
        /// What carries the channel.
        transport: &'static str,
    },
    /// It has descriptors and no byte that they could go along with.
    NoBytes {
        /// How many descriptors.
        count: usize,
    },
    /// It has more descriptors than the system passes at once.
    TooManyDescriptors {
        /// How many.
        count: usize,
        /// How many are possible.
        limit: usize,
    },
}

impl fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target { to } => {
                write!(f, "the envelope is addressed to {to}, but a stream sends to its one peer only")
            }
            Self::Descriptors { count, transport } => {
                write!(
                    f,
                    "the envelope has {count} descriptors, but {transport} cannot pass them: only Unix sockets can"
                )
            }
            Self::NoBytes { count } => {
                write!(
                    f,
                    "the envelope has {count} descriptors and no bytes, but a stream needs at least one byte"
                )
            }
            Self::TooManyDescriptors { count, limit } => {
                write!(
                    f,
                    "the envelope has {count} descriptors, but the system passes at most {limit} at once"
                )
            }
        }
    }
}

impl std::error::Error for EnvelopeError {}

impl EnvelopeError {
    /// What a write fails with.
    pub(crate) fn into_write_error(self) -> WriteError {
        WriteError::Fault(Fault::new(self))
    }
}

/// Makes the envelope at the front plain bytes, for streams that carry nothing else. What is more than bytes fails, and
/// the next one is at the front.
#[cold]
pub(crate) fn open_envelope(outbound: &mut Outbound, transport: &'static str) {
    let Some(envelope) = outbound.first_envelope() else { return };
    if let Some(to) = envelope.to.clone() {
        return outbound.fail_first(EnvelopeError::Target { to }.into_write_error());
    }
    let count = descriptors_along(envelope);
    if count > 0 {
        return outbound.fail_first(EnvelopeError::Descriptors { count, transport }.into_write_error());
    }
    if envelope.bytes.is_empty() {
        outbound.first_sent();
    } else {
        outbound.open_first_envelope();
    }
}
