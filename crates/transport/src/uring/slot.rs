//! One registration: what flies for it, what has arrived for it, and what its source was told.
//!
//! ```text
//!   name of an operation:   [ kind: 8 | generation: 24 | index: 32 ]
//! ```

use bytes::BytesMut;
use netwright_core::driver::{Ready, Token};
use socket2::{SockAddr, Socket};
use std::{
    collections::VecDeque,
    io,
    os::fd::{AsRawFd, RawFd},
};

pub(super) type Descriptor = RawFd;

/// What an operation is for. Of each kind, at most one flies for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Receive,
    Send,
    Watch,
    Readable,
    Room,
    Accept,
    Connect,
    Close,
    /// Not for a slot: what asks the kernel to cancel another.
    Cancel,
    /// Not for a slot: a wake-up by another thread.
    Wake,
    /// For a slot, but named by its place in the table of zero-copy sends.
    ZeroCopy,
    /// Not for a slot: named by its place in the table of file operations.
    File,
}

impl Kind {
    pub(super) const OF_SLOTS: [Self; 8] = [
        Self::Receive,
        Self::Send,
        Self::Watch,
        Self::Readable,
        Self::Room,
        Self::Accept,
        Self::Connect,
        Self::Close,
    ];

    const ALL: [Self; 12] = [
        Self::Receive,
        Self::Send,
        Self::Watch,
        Self::Readable,
        Self::Room,
        Self::Accept,
        Self::Connect,
        Self::Close,
        Self::Cancel,
        Self::Wake,
        Self::ZeroCopy,
        Self::File,
    ];
}

/// Some kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) fn has(self, kind: Kind) -> bool {
        self.0 & bit(kind) != 0
    }
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub(super) fn insert(&mut self, kind: Kind) {
        self.0 |= bit(kind);
    }
    pub(super) fn remove(&mut self, kind: Kind) {
        self.0 &= !bit(kind);
    }
}

fn bit(kind: Kind) -> u8 {
    1_u8.checked_shl(kind as u32).unwrap_or(0)
}

/// Names one registration of one ring, and nothing once it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) index: u32,
    pub(super) generation: u32,
}

pub(super) const GENERATIONS: u32 = 1 << 24;

impl Key {
    pub(super) fn name(self, kind: Kind) -> u64 {
        u64::from(self.index) | u64::from(self.generation) << 32 | (kind as u64) << 56
    }

    pub(super) fn of(name: u64) -> (Self, Option<Kind>) {
        let generation = (name >> 32) as u32 & (GENERATIONS - 1);
        (Self { index: name as u32, generation }, Kind::ALL.get((name >> 56) as usize).copied())
    }
}

/// One registration.
pub(super) struct Slot {
    pub(super) generation: u32,
    /// What the kernel has, or is about to get.
    pub(super) flying: Kinds,
    /// What of it was asked to be cancelled.
    pub(super) cancelled: Kinds,
    /// What its source has to be told.
    pub(super) told: Ready,
    /// On the list of slots that are looked at when the turn ends.
    pub(super) dirty: bool,
    /// On the list of slots that have something to tell.
    pub(super) touched: bool,
    /// Whom to tell. None: the source has gone, and the slot waits for its last completions.
    pub(super) token: Option<Token>,
    /// Closed with the slot (rule 5). None, if the descriptor is somebody else's.
    pub(super) socket: Option<Socket>,
    pub(super) role: Role,
}

pub(super) enum Role {
    /// In nobody's use; the next such place.
    Free(u32),
    Stream(Stream),
    Listener(Box<Listener>),
    Connecting(Connecting),
    /// A descriptor that is not ours, and the events that are waited for.
    Watched(Descriptor, u32),
    /// The source that is told how file operations ended.
    Files,
}

/// Where something is that only busy streams have, so that an idle one is small; or nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seat(u32);

impl Seat {
    pub(super) fn is_nowhere(self) -> bool {
        self == Self::default()
    }
}

impl Default for Seat {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

/// What busy streams have, by place; places that were left are taken again, the last one first.
pub(super) struct Pool<T> {
    list: Vec<T>,
    free: Vec<Seat>,
}

impl<T: Default> Pool<T> {
    pub(super) fn new() -> Self {
        Self { list: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(super) fn put(&mut self, value: T) -> Seat {
        match self.free.pop() {
            Some(place) => {
                self.list[place.0 as usize] = value;
                place
            }
            None => {
                self.list.push(value);
                Seat(self.list.len() as u32 - 1) // at most one for each slot, whose index fits
            }
        }
    }

    #[inline]
    pub(super) fn get(&mut self, place: Seat) -> Option<&mut T> {
        self.list.get_mut(place.0 as usize)
    }

    #[inline]
    pub(super) fn take(&mut self, place: &mut Seat) -> T {
        let place = std::mem::take(place);
        match self.list.get_mut(place.0 as usize) {
            Some(value) => {
                self.free.push(place);
                std::mem::take(value)
            }
            None => T::default(),
        }
    }
}

/// How a stream's input ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The peer sends no more.
    Closed,
    Failed(i32),
}

#[derive(Default)]
pub(super) struct Stream {
    pub(super) wants_read: bool,
    /// So much comes that the source receives by itself, when it is told that there is something.
    pub(super) bulk: bool,
    /// While nobody reads, the peer's end has been told.
    pub(super) end_told: bool,
    pub(super) end: Option<End>,
    /// Where what has arrived is.
    pub(super) inbox: Seat,
    /// Where what is being sent is.
    pub(super) sending: Seat,
    /// The source waits for room to go on sending.
    pub(super) waits_for_room: bool,
    /// The source closes when the send under way has ended, and is told of that however it ends.
    pub(super) closing: bool,
    /// What became of the last send, until the source asks.
    pub(super) sent: Option<i32>,
}

/// Accepted connections; those that nobody fetches are closed with it.
#[derive(Default)]
pub(super) struct Listener {
    pub(super) wants: bool,
    pub(super) accepted: VecDeque<Socket>,
    pub(super) error: Option<i32>,
}

pub(super) struct Connecting {
    /// On the heap, because the kernel reads it (rule 1).
    pub(super) address: Box<SockAddr>,
    /// The connect itself was begun on another ring: here only its end is waited for.
    pub(super) begun: bool,
    pub(super) result: Option<i32>,
}

/// Bytes that may wait for one source before its receive rests.
const INBOX_MAX: usize = 1 << 20;

/// Bytes that have arrived and were not received by their source.
#[derive(Default)]
pub(super) struct Inbox {
    first: BytesMut,
    /// Boxed, because an idle connection has none.
    #[allow(clippy::box_collection)]
    rest: Option<Box<VecDeque<BytesMut>>>,
    bytes: usize,
}

impl Inbox {
    pub(super) fn push(&mut self, bytes: BytesMut) {
        self.bytes += bytes.len();
        match &mut self.rest {
            Some(rest) => rest.push_back(bytes),
            None if self.first.is_empty() => self.first = bytes,
            None => self.rest = Some(Box::new(VecDeque::from([bytes]))),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<BytesMut> {
        if self.bytes == 0 {
            return None;
        }
        let piece = match &mut self.rest {
            Some(rest) if self.first.is_empty() => rest.pop_front().unwrap_or_default(),
            _ => std::mem::take(&mut self.first),
        };
        self.bytes -= piece.len();
        if self.bytes == 0 {
            self.rest = None;
        }
        Some(piece)
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether so much waits that no more is received.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= INBOX_MAX
    }
}

impl Slot {
    pub(super) fn descriptor(&self) -> Descriptor {
        match (&self.role, &self.socket) {
            (Role::Watched(descriptor, _), _) => *descriptor,
            (_, Some(socket)) => socket.as_raw_fd(),
            _ => -1,
        }
    }

    pub(super) fn stream(&mut self) -> io::Result<&mut Stream> {
        match &mut self.role {
            Role::Stream(stream) => Ok(stream),
            _ => Err(gone()),
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.token.is_none()
    }
}

pub(super) fn gone() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotConnected,
        "the registration has ended, or the driver has left this thread",
    )
}
