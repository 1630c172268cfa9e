//! The buffers into which a loop receives all its datagrams, and what becomes of what the system wrote there.
//!
//! ```text
//!   slots   [ 64 KiB ][ 64 KiB ]…      one for each datagram of a call; only pages that were used take memory
//!              │ short: copied            │ long, or several joined by the system: handed on as it is
//!              ▼                          ▼
//!   chunk   [a][b][c] free …            a piece of its own; the slot gets its room back, or fresh room
//! ```
//! A datagram may have 64 KiB and mostly has a thousandth of it. Handing out slots would pin a page and a slot for each
//! datagram that a handler keeps. So short ones are copied next to each other, which costs nanoseconds beside the
//! microsecond of the system, and a slot that nobody was given stays warm in the cache.
//!
//! Always true:
//! 1. No buffer belongs to a channel: an idle one holds none.
//! 2. A datagram is taken out before the next call, so nothing that came along with it can be forgotten.
//!
//! Datagrams of a network that stands in for the system's need no slots: they wait as they are.

use super::{
    Ask, Datagram, Extra,
    batch::{BATCH_MAX, ReceiveBatch, SendBatch},
};
use bytes::BytesMut;
use netwright_core::Address;
use socket2::Socket;
use std::{cell::Cell, collections::VecDeque, io};

/// Room of one slot, unless a channel asks for more: every UDP datagram fits.
const SLOT_LEN: usize = 64 * 1024;
/// Datagrams up to this length are copied.
const COPY_MAX: usize = 2048;
/// Where they are copied to.
const CHUNK_LEN: usize = 64 * 1024;

/// A loop's buffers and arrays for datagrams.
pub(super) struct Mailbox {
    /// That were not received from the system.
    pushed: VecDeque<Datagram>,
    slots: Vec<BytesMut>,
    chunk: BytesMut,
    receive: ReceiveBatch,
    /// Up to which length the last ones were received.
    limit: usize,
    pub(super) send: SendBatch,
}

thread_local! {
    static MAILBOX: Cell<Option<Box<Mailbox>>> = const { Cell::new(None) };
}

impl Mailbox {
    /// That of this thread's loop. Whoever asks while it is lent gets another one.
    pub(super) fn borrow() -> Box<Self> {
        MAILBOX.take().unwrap_or_else(|| Box::new(Self::new()))
    }

    pub(super) fn give_back(self: Box<Self>) {
        MAILBOX.set(Some(self));
    }

    fn new() -> Self {
        Self {
            pushed: VecDeque::new(),
            slots: Vec::new(),
            chunk: BytesMut::new(),
            receive: ReceiveBatch::new(),
            limit: 0,
            send: SendBatch::new(),
        }
    }

    /// Receives at most `count` datagrams; says how many.
    pub(super) fn receive(&mut self, socket: &Socket, ask: &Ask, count: usize) -> io::Result<usize> {
        let count = count.min(BATCH_MAX);
        if self.slots.len() < count {
            self.slots.resize_with(count, BytesMut::new);
        }
        for slot in &mut self.slots[..count] {
            slot.clear();
            if slot.capacity() < ask.limit && !slot.try_reclaim(ask.limit.max(SLOT_LEN)) {
                *slot = BytesMut::with_capacity(ask.limit.max(SLOT_LEN));
            }
        }
        self.limit = ask.limit;
        let _ = self.chunk.try_reclaim(CHUNK_LEN); // all of it, if nobody kept a piece
        self.receive.receive(socket, &mut self.slots[..count], ask)
    }

    /// One has come that the system knows nothing of.
    pub(super) fn push(&mut self, datagram: Datagram) {
        self.pushed.push_back(datagram);
    }

    /// The next of those.
    #[inline]
    pub(super) fn pushed(&mut self) -> Option<Datagram> {
        self.pushed.pop_front()
    }

    /// How long a datagram was that [`receive`](Self::receive) brought, also beyond what was received of it.
    pub(super) fn length(&self, index: usize) -> usize {
        self.receive.length(index)
    }

    /// Up to which length datagrams were received.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Who sent it.
    pub(super) fn from(&self, index: usize) -> Option<Address> {
        self.receive.from(index)
    }

    /// What came along with it.
    pub(super) fn extra(&mut self, index: usize) -> Extra {
        self.receive.extra(index)
    }

    /// What it holds, once.
    #[inline]
    pub(super) fn bytes(&mut self, index: usize) -> BytesMut {
        let slot = &mut self.slots[index];
        if slot.len() > COPY_MAX {
            return slot.split();
        }
        if self.chunk.capacity() < slot.len() {
            self.chunk = BytesMut::with_capacity(CHUNK_LEN);
        }
        self.chunk.extend_from_slice(slot);
        self.chunk.split()
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))] // many by one call
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn pair() -> (UdpSocket, Socket) {
        let (ours, theirs) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        theirs.connect(ours.local_addr().unwrap()).unwrap();
        (theirs, ours.into())
    }

    const ASK: Ask = Ask { limit: 65_535, names: true, control: 0 };

    #[test]
    fn datagrams_come_one_by_one_with_their_sender_and_length_whatever_their_size() {
        let (peer, socket) = pair();
        let mut mailbox = Mailbox::new();
        let sizes = [0, 1, COPY_MAX, COPY_MAX + 1, 60_000, 3];
        for size in sizes {
            peer.send(&vec![size as u8; size]).unwrap();
        }
        let received = mailbox.receive(&socket, &ASK, 10).unwrap();
        assert_eq!(received, sizes.len());
        for (index, size) in sizes.into_iter().enumerate() {
            assert_eq!(mailbox.from(index).unwrap(), peer.local_addr().unwrap());
            assert_eq!(mailbox.length(index), size);
            let bytes = mailbox.bytes(index);
            assert!(bytes.len() == size && bytes.iter().all(|&byte| byte == size as u8), "{size}");
        }
        let error = mailbox.receive(&socket, &ASK, 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn no_more_are_received_than_asked_for_and_the_length_of_a_cut_one_is_told() {
        let (peer, socket) = pair();
        let mut mailbox = Mailbox::new();
        for size in [100, 11, 10] {
            peer.send(&vec![7; size]).unwrap();
        }
        let ask = Ask { limit: 10, ..ASK };
        assert_eq!(mailbox.receive(&socket, &ask, 2).unwrap(), 2);
        assert_eq!((mailbox.length(0), mailbox.bytes(0).len()), (100, 10));
        assert_eq!((mailbox.length(1), mailbox.bytes(1).len()), (11, 10));
        assert_eq!(mailbox.receive(&socket, &ask, 2).unwrap(), 1);
        assert_eq!((mailbox.length(0), mailbox.bytes(0).len()), (10, 10));
    }

    #[test]
    fn what_is_kept_stays_as_it_is() {
        let (peer, socket) = pair();
        let mut mailbox = Mailbox::new();
        let mut kept = Vec::new();
        for round in 0..200_u8 {
            for size in [1000, 5000] {
                peer.send(&vec![round; size]).unwrap();
            }
            assert_eq!(mailbox.receive(&socket, &ASK, 4).unwrap(), 2);
            kept.extend([mailbox.bytes(0), mailbox.bytes(1)]);
        }
        for (index, piece) in kept.iter().enumerate() {
            assert!(piece.iter().all(|&byte| usize::from(byte) == index / 2), "{index}");
        }
    }
}
