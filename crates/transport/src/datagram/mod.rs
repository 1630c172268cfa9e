//! Datagrams: UDP and Unix datagram sockets, each message one datagram.
//!
//! ```text
//!   Datagrams ── bind, connect ──▶ DatagramChannel ── host: pipeline (reads Datagram), outbound queue
//!                                     │
//!                                     └─ open::DatagramSocket ── system ── Mailbox, one for each loop ── batch: recvmmsg, sendmmsg
//!                                                             │                                          single: recvfrom, sendto elsewhere
//!                                                             └─ that of a network in the system's place
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `channel` | when to receive, send and close |
//! | `carrier` | what a channel's socket can do, whosever it is |
//! | `system` | that of the system |
//! | `mailbox` | the loop's buffers, and from what the system wrote to datagrams |
//! | `batch` | many datagrams by one system call; the only `unsafe` here |
//! | `single` | the same, one by one, where the platform has no such calls |
//! | `socket` | what may be asked of a channel's socket while it lives: multicast groups, figures |
//! | `news` | what can go wrong without ending a channel |
//!
//! Not here: how channels come about (`bootstrap::datagrams`), options (`options`).

#[cfg(any(target_os = "linux", target_os = "android"))]
mod batch;
pub(crate) mod carrier;
mod channel;
mod mailbox;
mod news;
#[cfg(any(test, not(any(target_os = "linux", target_os = "android"))))]
#[cfg_attr(any(target_os = "linux", target_os = "android"), allow(dead_code, reason = "only tested here"))]
mod single;
mod socket;
mod system;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
use single as batch;

pub(crate) use channel::{Opening, open};
pub use news::{DatagramError, PortUnreachable, Truncated, Undelivered};
pub use socket::{DatagramFigures, DatagramSocket, Multicast, MulticastError};
pub(crate) use system::Bound;

use crate::attributes::Attributes;
use bytes::{Bytes, BytesMut};
use netwright_core::{Address, Envelope, HostSettings, Outgoing, Special};
#[cfg(unix)]
use {
    crate::socket::unix::PeerCredentials,
    std::{os::fd::OwnedFd, sync::Arc},
};

/// A datagram that has arrived: what a datagram pipeline reads.
///
/// What it writes is an [`Envelope`], or anything else that can be sent: on a connected channel plain bytes will do.
///
/// ```
/// use netwright_transport::Datagram;
/// use bytes::BytesMut;
/// use std::net::SocketAddr;
///
/// let from: SocketAddr = "127.0.0.1:4711".parse()?;
/// let datagram = Datagram::new(from, BytesMut::from("ping"));
/// let answer = datagram.answer("pong");
/// assert_eq!(answer.to, Some(from.into()));
/// assert_eq!(datagram.into_answer().bytes, "ping"); // the same bytes back
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Datagram {
    /// Who sent it; the address to answer to.
    pub from: Address,
    /// What it holds. May be empty.
    pub bytes: BytesMut,
    /// Descriptors that came along: only on Unix sockets, and only if they were
    /// [asked for](crate::DatagramsBuilder::descriptors).
    #[cfg(unix)]
    pub descriptors: Vec<OwnedFd>,
    /// Which process sent it, by the system's word: only on Unix sockets, and only if it was
    /// [asked for](crate::DatagramsBuilder::credentials).
    #[cfg(unix)]
    pub credentials: Option<PeerCredentials>,
}

impl Datagram {
    /// A datagram from this address, with nothing but bytes.
    pub fn new(from: impl Into<Address>, bytes: BytesMut) -> Self {
        Self {
            from: from.into(),
            bytes,
            #[cfg(unix)]
            descriptors: Vec::new(),
            #[cfg(unix)]
            credentials: None,
        }
    }

    /// An answer to whoever sent it.
    pub fn answer(&self, bytes: impl Into<Bytes>) -> Envelope {
        Envelope::to(self.from.clone(), bytes)
    }

    /// The same bytes back to whoever sent them.
    pub fn into_answer(self) -> Envelope {
        Envelope::to(self.from, self.bytes)
    }
}

/// What a codec needs of it: who sent it, and what it holds. Descriptors that came along are closed.
impl From<Datagram> for (Address, BytesMut) {
    fn from(datagram: Datagram) -> Self {
        (datagram.from, datagram.bytes)
    }
}

/// How a datagram channel behaves.
#[derive(Debug, Clone)]
pub(crate) struct DatagramSettings {
    pub(crate) host: HostSettings,
    /// What every channel has attached from the start.
    pub(crate) attributes: Attributes,
    /// The longest datagram that is taken.
    pub(crate) receive_max: usize,
    /// The most descriptors that are taken with one datagram.
    pub(crate) descriptors_max: usize,
    /// Who sent a datagram is to be told.
    pub(crate) credentials: bool,
    /// Have the system join what arrives together.
    pub(crate) join_received: bool,
    /// Have the system cut what is sent together.
    pub(crate) cut_sent: bool,
    /// Hear about undelivered datagrams of an unconnected channel.
    pub(crate) report_undelivered: bool,
}

/// What to receive into a slot.
#[derive(Debug, Clone, Copy)]
struct Ask {
    /// At most so many bytes.
    limit: usize,
    /// Who sent it is to be told.
    names: bool,
    /// Room for what comes along, where the system tells of it.
    #[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
    control: usize,
}

/// What came along with a datagram.
#[derive(Debug, Default)]
struct Extra {
    /// Datagrams of this length were joined. 0: none were.
    segment: usize,
    #[cfg(unix)]
    descriptors: Vec<OwnedFd>,
    #[cfg(unix)]
    credentials: Option<PeerCredentials>,
    /// More came along than there was room for.
    cut: bool,
}

/// What can be sent by a channel's socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendRules {
    pub(crate) connected: bool,
    /// Descriptors can go along.
    pub(crate) unix: bool,
    /// The system cuts what is sent together.
    pub(crate) segments: bool,
}

/// One message as its socket is told of it.
struct Whereto<'a> {
    bytes: &'a Bytes,
    to: Option<&'a Address>,
    #[cfg(unix)]
    descriptors: &'a [Arc<OwnedFd>],
}

impl SendRules {
    /// `None` if a message cannot be sent here; [`DatagramError::of`] says why.
    fn whereto<'a>(&self, message: &'a Outgoing) -> Option<Whereto<'a>> {
        let whereto = match message {
            Outgoing::Bytes(bytes) => Whereto {
                bytes,
                to: None,
                #[cfg(unix)]
                descriptors: &[],
            },
            Outgoing::Special(Special::Envelope(envelope)) => Whereto {
                bytes: &envelope.bytes,
                to: envelope.to.as_ref(),
                #[cfg(unix)]
                descriptors: &envelope.descriptors,
            },
            Outgoing::Special(Special::File(_)) => return None,
        };
        #[cfg(unix)]
        if !self.unix && !whereto.descriptors.is_empty() {
            return None;
        }
        (self.connected || whereto.to.is_some()).then_some(whereto)
    }
}
