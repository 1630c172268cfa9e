//! What can go wrong without ending a channel: writes that fail, and events that tell of the rest.
//!
//! A datagram channel has no single peer whose fault could end it. What concerns one message fails that message's write;
//! what concerns none travels through the pipeline as an [`Event`](netwright_core::Event), for whoever wants to know.

use super::SendRules;
use crate::sys::{descriptors_along, errors::is_too_long};
use netwright_core::{Address, Outgoing, Special};
use std::{error::Error, fmt, io, sync::Arc};

/// Why one datagram was not sent. The channel lives on.
///
/// A tracked write fails with [`WriteError::Fault`](netwright_core::WriteError::Fault) of this.
///
/// ```
/// use netwright_transport::DatagramError;
///
/// let error = DatagramError::TooLong { length: 100_000 };
/// assert!(error.to_string().contains("100000 bytes"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DatagramError {
    /// It is longer than the system sends as one.
    TooLong {
        /// How many bytes it has.
        length: usize,
    },
    /// It has no target, and its channel is not connected.
    NoTarget {
        /// How many bytes it has.
        length: usize,
    },
    /// A region of a file, which is no datagram.
    File {
        /// How many bytes it has.
        length: u64,
    },
    /// Descriptors were to go along, which only Unix sockets can do.
    Descriptors {
        /// How many they were.
        count: usize,
    },
    /// The target is no address that a socket can have.
    Target {
        /// The target.
        to: Address,
    },
    /// The system refused it.
    Refused {
        /// The target; `None`: whom the channel is connected to.
        to: Option<Address>,
        /// What the system said.
        error: Arc<io::Error>,
    },
}

impl DatagramError {
    /// Why a message cannot be offered to the system at all.
    pub(super) fn of(message: &Outgoing, rules: &SendRules) -> Self {
        match message {
            Outgoing::Special(Special::File(region)) => Self::File { length: region.remaining() },
            Outgoing::Bytes(bytes) => Self::NoTarget { length: bytes.len() },
            Outgoing::Special(Special::Envelope(envelope)) => {
                let count = descriptors_along(envelope);
                if !rules.unix && count > 0 {
                    return Self::Descriptors { count };
                }
                match &envelope.to {
                    Some(to) => Self::Target { to: to.clone() },
                    None => Self::NoTarget { length: envelope.bytes.len() },
                }
            }
        }
    }

    /// Why the system refused a message.
    pub(super) fn refused(message: &Outgoing, error: io::Error) -> Self {
        if is_too_long(&error) {
            return Self::TooLong { length: message.len() as usize }; // it is in memory, so it fits
        }
        let to = match message {
            Outgoing::Special(Special::Envelope(envelope)) => envelope.to.clone(),
            _ => None,
        };
        Self::Refused { to, error: Arc::new(error) }
    }
}

impl fmt::Display for DatagramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { length } => {
                write!(f, "a datagram of {length} bytes is longer than the system sends as one")
            }
            Self::NoTarget { length } => write!(
                f,
                "a datagram of {length} bytes has no target, and its channel is not connected: write an `Envelope::to`"
            ),
            Self::File { length } => write!(f, "a file region of {length} bytes is no datagram"),
            Self::Descriptors { count } => {
                write!(f, "{count} descriptors cannot go along: only Unix sockets pass them")
            }
            Self::Target { to } => write!(f, "{to} is no address that a datagram can be sent to"),
            Self::Refused { to: Some(to), error } => write!(f, "no datagram could be sent to {to}: {error}"),
            Self::Refused { to: None, error } => write!(f, "no datagram could be sent to the peer: {error}"),
        }
    }
}

impl Error for DatagramError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused { error, .. } => Some(error.as_ref()),
            _ => None,
        }
    }
}

/// An event: nobody receives at that port, a datagram that was sent there told us.
///
/// ```
/// use netwright_core::{AppContext, Application, Event};
/// use netwright_transport::{Datagram, PortUnreachable};
/// use bytes::Bytes;
///
/// struct Asks;
///
/// impl Application for Asks {
///     type Read = Datagram;
///     type Write = Bytes;
///
///     fn read(&mut self, _: &mut AppContext<'_, Self>, _: Datagram) {}
///     fn event(&mut self, cx: &mut AppContext<'_, Self>, event: Event) {
///         if let Some(unreachable) = event.get::<PortUnreachable>() {
///             println!("{unreachable}");
///             cx.close();
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortUnreachable {
    /// Where the datagram went, if the system says so.
    pub to: Option<Address>,
}

impl fmt::Display for PortUnreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.to {
            Some(to) => write!(f, "nobody receives at {to}"),
            None => f.write_str("nobody receives at a port that a datagram was sent to"),
        }
    }
}

/// An event: a datagram that was sent did not arrive, for another reason than a port where nobody receives.
///
/// ```
/// use netwright_core::Event;
/// use netwright_transport::Undelivered;
///
/// fn report(event: &Event) {
///     if let Some(undelivered) = event.get::<Undelivered>() {
///         eprintln!("{undelivered}");
///     }
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Undelivered {
    /// Where it went, if the system says so.
    pub to: Option<Address>,
    /// What the system says.
    pub error: Arc<io::Error>,
}

impl Undelivered {
    /// For a [`DatagramSocket`](crate::open::DatagramSocket). `ConnectionRefused` is told as [`PortUnreachable`].
    pub fn new(to: Option<Address>, error: io::Error) -> Self {
        Self { to, error: Arc::new(error) }
    }
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.to {
            Some(to) => write!(f, "a datagram for {to} did not arrive: {}", self.error),
            None => write!(f, "a datagram did not arrive: {}", self.error),
        }
    }
}

/// An event: a datagram that did not fit was dropped.
///
/// ```
/// use netwright_core::Event;
/// use netwright_transport::Truncated;
///
/// fn report(event: &Event) {
///     if let Some(Truncated { from, length, limit, .. }) = event.get() {
///         eprintln!("{length} bytes from {from} are more than {limit}");
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Truncated {
    /// Who sent it.
    pub from: Address,
    /// How many bytes it had; where the system does not say, one more than the limit.
    pub length: usize,
    /// How many bytes are taken at most.
    pub limit: usize,
    /// More descriptors came along than are taken; all are closed.
    pub descriptors: bool,
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, length, limit, .. } = self;
        if self.descriptors {
            return write!(f, "a datagram from {from} was dropped: too many descriptors came along");
        }
        write!(f, "a datagram of {length} bytes from {from} was dropped: at most {limit} are taken")
    }
}
