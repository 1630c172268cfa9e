//! Descriptors that go along with the bytes of a Unix stream.
//!
//! ```text
//!   Envelope { bytes, descriptors } ── sendmsg, SCM_RIGHTS ──▶ peer        with the first byte; a rest goes without
//!   peer ── recvmsg ──▶ ReceivedDescriptors (at most `max` wait) ──▶ take, by the handler that reads the bytes
//! ```
//! Always true:
//! 1. Descriptors are taken only by a channel that asked for them. To all others the system gives none: what a peer sends
//!    along is closed by the system when the bytes are read without room for it.
//! 2. They are in the queue before the bytes that they came with are delivered, in the order in which they were sent.
//! 3. Whatever goes wrong, each is either in the queue or closed.

use crate::{
    scratch::Scratch,
    stream::EnvelopeError,
    sys::{CLOSE_ON_EXEC, NO_SIGNAL, close_on_exec},
};
use bytes::BytesMut;
use netwright_core::{Fault, Outbound, WriteError};
use rustix::{
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    },
};
use socket2::Socket;
use std::{
    cell::RefCell,
    collections::VecDeque,
    fmt,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What Linux passes at once at most (`SCM_MAX_FD`).
const AT_ONCE_MAX: usize = 253;

/// What one read takes at most.
const READ_LEN: usize = 64 * 1024;

/// Descriptors that the peer sent along with its bytes and that nobody has taken yet: an attribute of channels that were
/// set up with `receive_descriptors`.
///
/// Those that came with a message are there when the message is read. Who keeps a handle to the channel keeps what was not
/// taken.
///
/// ```
/// use netwright_core::{AppContext, Application};
/// use netwright_transport::ReceivedDescriptors;
/// use bytes::{Bytes, BytesMut};
///
/// struct Takes;
///
/// impl Application for Takes {
///     type Read = BytesMut;
///     type Write = Bytes;
///
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
///         if let Some(received) = cx.channel().attribute::<ReceivedDescriptors>() {
///             for descriptor in received.take() {
///                 drop(std::fs::File::from(descriptor)); // what came along with this message
///             }
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct ReceivedDescriptors {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    waiting: Mutex<VecDeque<OwnedFd>>,
    max: usize,
}

impl ReceivedDescriptors {
    pub(crate) fn new(max: usize) -> Self {
        Self { inner: Arc::new(Inner { waiting: Mutex::default(), max }) }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<OwnedFd>> {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that wait, in the order in which they were sent.
    pub fn take(&self) -> Vec<OwnedFd> {
        self.lock().drain(..).collect()
    }

    /// The one that has waited longest: for protocols that say how many belong to a message.
    pub fn take_first(&self) -> Option<OwnedFd> {
        self.lock().pop_front()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why a channel that receives descriptors was closed; found in the error of its
/// [`CloseCause::Io`](netwright_core::CloseCause::Io).
///
/// ```
/// use netwright_core::CloseCause;
/// use netwright_transport::DescriptorError;
///
/// fn lost_some(cause: &CloseCause) -> bool {
///     let CloseCause::Io(error) = cause else { return false };
///     let why = error.get_ref().and_then(|why| why.downcast_ref());
///     matches!(why, Some(DescriptorError::TooMany { .. } | DescriptorError::Lost))
/// }
/// assert!(!lost_some(&CloseCause::PeerClosed));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptorError {
    /// More came than may wait; those that came last were closed.
    TooMany {
        /// How many waited.
        waiting: usize,
        /// How many came.
        got: usize,
        /// How many may wait.
        limit: usize,
    },
    /// The system could not give us all that were sent, for instance because the process has too many.
    Lost,
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { waiting, got, limit } => write!(
                f,
                "the peer sent {got} descriptors while {waiting} waited to be taken, but receive_descriptors allows {limit}"
            ),
            Self::Lost => f.write_str("the system could not hand over all descriptors that the peer sent"),
        }
    }
}

impl std::error::Error for DescriptorError {}

// ---- sending ----

/// Sends the envelope at the front, whose descriptors go along with the first of its bytes. Returns how many bytes were
/// offered and how many were taken; an envelope that cannot be sent fails alone.
#[cold]
#[inline(never)]
pub(crate) fn send_envelope(socket: &Socket, outbound: &mut Outbound) -> io::Result<(usize, usize)> {
    let Some(envelope) = outbound.first_envelope() else { return Ok((0, 0)) };
    let (count, offered) = (envelope.descriptors.len(), envelope.bytes.len());
    let refused = if let Some(to) = envelope.to.clone() {
        Some(EnvelopeError::Target { to })
    } else if offered == 0 {
        Some(EnvelopeError::NoBytes { count })
    } else if count > AT_ONCE_MAX {
        Some(EnvelopeError::TooManyDescriptors { count, limit: AT_ONCE_MAX })
    } else {
        None
    };
    if let Some(error) = refused {
        outbound.fail_first(error.into_write_error());
        return Ok((0, 0));
    }
    let descriptors: Vec<_> = envelope.descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE_MAX))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    along.push(SendAncillaryMessage::ScmRights(&descriptors));
    match rustix::net::sendmsg(socket, &[IoSlice::new(&envelope.bytes)], &mut along, NO_SIGNAL) {
        Ok(taken) => {
            outbound.open_first_envelope(); // they are on their way; the rest of the bytes goes without
            Ok((offered, taken))
        }
        // Too many are under way already, or one is of a kind that cannot be passed: the stream itself is well.
        Err(error @ (Errno::TOOMANYREFS | Errno::INVAL | Errno::BADF)) => {
            outbound.fail_first(WriteError::Fault(Fault::from(io::Error::from(error))));
            Ok((0, 0))
        }
        Err(error) => Err(error.into()),
    }
}

// ---- receiving ----

thread_local! {
    /// `recvmsg` wants memory that is initialised; channels that receive descriptors share this and pay for a copy.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::default();
}

/// The next bytes, with what came along in the queue. They end where descriptors came, so there may be more however few
/// they are.
#[inline(never)] // so that those who receive none have no room for them on their stack
pub(crate) fn receive(
    socket: &Socket,
    scratch: &Scratch,
    received: &ReceivedDescriptors,
) -> io::Result<BytesMut> {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.is_empty() {
            *buffer = vec![0; READ_LEN].into();
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE_MAX))];
        let mut along = RecvAncillaryBuffer::new(&mut space);
        let (bytes, _) = scratch.fill(|room| {
            let len = room.len().min(buffer.len());
            let pieces = &mut [IoSliceMut::new(&mut buffer[..len])];
            let got = rustix::net::recvmsg(socket, pieces, &mut along, CLOSE_ON_EXEC)?;
            keep(received, &mut along, got.flags)?;
            for (place, byte) in room.iter_mut().zip(&buffer[..got.bytes]) {
                place.write(*byte);
            }
            Ok(got.bytes)
        })?;
        Ok(bytes)
    })
}

fn keep(
    received: &ReceivedDescriptors,
    along: &mut RecvAncillaryBuffer<'_>,
    flags: ReturnFlags,
) -> io::Result<()> {
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in along.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    descriptors.iter().try_for_each(close_on_exec)?;
    let refused = |error| Err(io::Error::new(io::ErrorKind::InvalidData, error));
    if flags.contains(ReturnFlags::CTRUNC) {
        return refused(DescriptorError::Lost);
    }
    if descriptors.is_empty() {
        return Ok(());
    }
    let (mut waiting, limit) = (received.lock(), received.inner.max);
    if waiting.len() + descriptors.len() > limit {
        return refused(DescriptorError::TooMany { waiting: waiting.len(), got: descriptors.len(), limit });
    }
    waiting.extend(descriptors);
    Ok(())
}
