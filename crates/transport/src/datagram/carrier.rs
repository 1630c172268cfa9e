//! What carries the datagrams of one channel: a socket of the system, or one of a network that stands in for it.
//!
//! A batch is one call, whichever it is. The system's socket receives into the loop's [`Mailbox`], where datagrams stay until they are
//! delivered one by one; another pushes them as they are.

use super::{Datagram, SendRules, Undelivered, mailbox::Mailbox};
use bytes::Bytes;
use netwright_core::{Address, Outbound, driver::Ready};
use std::io;

/// What sends and receives the datagrams of one channel. Lives on the channel's loop; dropping it deregisters and closes.
///
/// It is told of by events under its channel's [token](crate::open::NetworkDatagrams::token), or is called and says itself what there is
/// ([`look`](Self::look)). What must be true of it: see [`open`](crate::open), whose rules for streams hold here too.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use netwright_core::{Address, SourceCaller, driver::Ready};
/// use netwright_transport::{Datagram, open::{DatagramBatch, DatagramQueue, DatagramSocket}};
/// use std::{collections::VecDeque, io};
///
/// /// A wall: what is sent comes back, whoever it was for.
/// struct Wall {
///     echoes: VecDeque<Bytes>,
///     caller: SourceCaller,
/// }
///
/// impl DatagramSocket for Wall {
///     fn local(&self) -> Option<Address> {
///         None
///     }
///     fn receive(&mut self, batch: &mut DatagramBatch<'_>) -> io::Result<()> {
///         while batch.wanted() > 0 {
///             let Some(echo) = self.echoes.pop_front() else { break };
///             batch.push(Datagram::new(Address::other("wall", "here").unwrap(), BytesMut::from(echo)));
///         }
///         if batch.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
///     }
///     fn send(&mut self, queue: &mut DatagramQueue<'_>) -> io::Result<usize> {
///         let before = self.echoes.len();
///         self.echoes.extend(queue.datagrams().map(|datagram| datagram.bytes.clone()));
///         self.caller.call(); // it is told of what it can receive now
///         Ok(self.echoes.len() - before)
///     }
///     fn look(&mut self) -> Ready {
///         if self.echoes.is_empty() { Ready::NONE } else { Ready::READ }
///     }
/// }
/// ```
pub trait DatagramSocket: 'static {
    /// Where it receives; a port of 0 has become a real one.
    fn local(&self) -> Option<Address>;

    /// Hands over what has arrived, in order, at most as many datagrams as are [wanted](DatagramBatch::wanted). With fewer than that nothing is left, and
    /// an event or a call tells of the next.
    ///
    /// # Errors
    /// `WouldBlock`: nothing. `Interrupted`: is tried again. What became of a datagram that was sent (`ConnectionRefused`: nobody receives at that
    /// port; `HostUnreachable` …) is told as an event of the channel. Anything else ends the channel.
    fn receive(&mut self, batch: &mut DatagramBatch<'_>) -> io::Result<()>;

    /// Sends what is flushed, as far as it is taken now, in order. Returns how many datagrams were taken; 0: the first one cannot be sent by such a
    /// socket at all, and its write fails.
    ///
    /// # Errors
    /// They are about the first one. `WouldBlock`: no room, and an event or a call with [`Ready::WRITE`] tells when there is. `Interrupted`: is tried
    /// again. `ConnectionRefused` is about an earlier one: it is told as an event, and the first is tried again. Anything else fails the write of the
    /// first one; [`datagram_too_long`] says that nothing of that length is sent.
    fn send(&mut self, queue: &mut DatagramQueue<'_>) -> io::Result<usize>;

    /// The next that did not arrive. Asked after an event or a call with [`Ready::ERROR`], until there is none; if there are many, in a later turn,
    /// in which [`look`](Self::look) has to say so.
    ///
    /// # Errors
    /// It is broken: the channel ends.
    fn take_error(&mut self) -> io::Result<Option<Undelivered>> {
        Ok(None)
    }

    /// The loop called without an event of its driver: what is there by other means? Also called when the channel was called for
    /// reasons of its own: nothing may be new.
    fn look(&mut self) -> Ready {
        Ready::NONE
    }

    /// Whether somebody tells when there is room again after a `WouldBlock` of [`send`](Self::send). If not, the channel tries again after a while.
    fn tells_of_room(&self) -> bool {
        true
    }

    /// The channel has done all it could: whether it wants datagrams, and whether it waits for room to send.
    fn settle(&mut self, wants_read: bool, waits_for_room: bool) {
        let _ = (wants_read, waits_for_room);
    }
}

/// What a [`DatagramSocket`] says of a datagram that is longer than it sends as one.
///
/// ```
/// use netwright_transport::open::datagram_too_long;
/// use std::io;
///
/// fn check(len: usize) -> io::Result<()> {
///     if len > 1472 { Err(datagram_too_long()) } else { Ok(()) }
/// }
/// assert!(check(1500).is_err());
/// ```
pub fn datagram_too_long() -> io::Error {
    crate::sys::errors::too_long()
}

/// What one [`DatagramSocket::receive`] brings.
pub struct DatagramBatch<'a> {
    pub(super) mailbox: &'a mut Mailbox,
    /// At most so many, all in all.
    pub(super) want: usize,
    /// So many there are.
    pub(super) count: usize,
}

impl DatagramBatch<'_> {
    /// How many more may be handed over.
    pub fn wanted(&self) -> usize {
        self.want - self.count
    }

    /// Whether none was handed over yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Hands one over. What is longer than the channel takes is dropped by it, and told.
    ///
    /// # Panics
    /// No more are [wanted](Self::wanted).
    pub fn push(&mut self, datagram: Datagram) {
        assert!(self.count < self.want, "no more than {} datagrams are wanted", self.want);
        self.count += 1;
        self.mailbox.push(datagram);
    }
}

/// What is flushed and not sent yet.
pub struct DatagramQueue<'a> {
    pub(super) mailbox: &'a mut Mailbox,
    pub(super) outbound: &'a Outbound<'a>,
    pub(super) rules: &'a SendRules,
}

impl DatagramQueue<'_> {
    /// What can be sent, in order, up to the first one that cannot.
    pub fn datagrams(&self) -> impl Iterator<Item = OutgoingDatagram<'_>> {
        let whereto = self.outbound.messages().map_while(|message| self.rules.whereto(message));
        whereto.map(|whereto| OutgoingDatagram { bytes: whereto.bytes, to: whereto.to })
    }
}

/// A datagram that is to be sent.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct OutgoingDatagram<'a> {
    /// What it holds.
    pub bytes: &'a Bytes,
    /// Where it goes. `None`: to whom the socket is connected.
    pub to: Option<&'a Address>,
}
