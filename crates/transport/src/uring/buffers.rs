//! What the kernel receives into: buffers of the loop, offered to it by a ring of addresses.
//!
//! ```text
//!   buffer 7:  [ piece | piece | free ……………………… ]     the kernel has the free part; a piece is split off per receive
//!              [ piece | piece | piece | piece |··]     too little is left: if nobody holds a piece, it is whole again,
//!                                                       else it is lent out, and a fresh one takes its place
//!
//!   ring:      [7][2][5][ ][ ][ ][ ][ ]                 entries are addresses: any memory can take a number's place
//!               └ provided ┘          the kernel takes from the front, we add at the end
//! ```
//! Always true between turns:
//! 1. Each number below `count` is either provided or idle, never both.
//! 2. The free part of a provided buffer is the kernel's: nothing here touches it (rule 2 of the module's header).
//! 3. Nothing that was received is copied, and what somebody keeps pins no more than the buffer it lies in, which is shared
//!    with what came next.
//!
//! The ring has room for as many entries as there may ever be, so growing is adding entries, and shrinking is not adding
//! them again. Buffers that were lent out are looked at again when a fresh one is needed, oldest first.

use super::{UringSettings, ring::Ring};
use bytes::BytesMut;
use io_uring::types::BufRingEntry;
use std::{
    cell::UnsafeCell,
    collections::VecDeque,
    io,
    sync::atomic::{AtomicU16, Ordering},
};

const PAGE: usize = 4096;
/// With less than this part of a buffer left, a fresh one is better than short receives.
const ROOM_PART: usize = 4;
/// After so many turns that needed no more than a quarter of the buffers, there are half as many.
const CALM_TURNS: u32 = 4096;
/// Buffers that are there from the beginning for those that are lent out.
const SPARE: usize = 4;
/// How many lent buffers are looked at before a fresh one is taken.
const LOOKS: usize = 2;

#[repr(C, align(4096))]
struct Page([u8; PAGE]);

/// The ring of entries: memory that the kernel reads and, at its own places, writes.
struct Entries {
    pages: Box<[UnsafeCell<Page>]>,
    mask: u16,
    tail: u16,
}

impl Entries {
    fn new(count: u16) -> Self {
        let pages = (usize::from(count) * size_of::<BufRingEntry>()).div_ceil(PAGE);
        let page = || UnsafeCell::new(Page([0; PAGE]));
        Self { pages: (0..pages).map(|_| page()).collect(), mask: count - 1, tail: 0 }
    }

    fn first(&self) -> *mut BufRingEntry {
        self.pages.as_ptr().cast::<BufRingEntry>().cast_mut()
    }

    /// Adds an entry that the kernel sees after [`publish`](Self::publish).
    #[allow(unsafe_code)]
    fn add(&mut self, number: u16, buffer: &mut BytesMut) {
        let room = buffer.spare_capacity_mut();
        let (address, len) = (room.as_mut_ptr() as u64, u32::try_from(room.len()).unwrap_or(u32::MAX));
        // SAFETY: masked, the index is within the pages, which are zeroed at first and aligned. The kernel reads an entry only
        // after the tail has passed it, so nobody looks at this one now; the tail itself shares memory with the first
        // entry's last field, which `BufRingEntry` does not write.
        let entry = unsafe { &mut *self.first().add(usize::from(self.tail & self.mask)) };
        entry.set_addr(address);
        entry.set_len(len);
        entry.set_bid(number);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Lets the kernel see what was added.
    #[allow(unsafe_code)]
    fn publish(&mut self) {
        // SAFETY: the address is that of the tail, two aligned bytes in the first page, which nobody else writes.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.first()).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

/// A buffer that needs no further allocation when it is split.
fn spare(len: usize) -> BytesMut {
    let mut buffer = BytesMut::zeroed(1);
    buffer.reserve(len - 1);
    drop(buffer.split());
    buffer
}

/// The buffers of one loop.
pub(super) struct Buffers {
    entries: Entries,
    /// By number; none where a number is not in use.
    buffers: Vec<Option<BytesMut>>,
    /// Numbers that the kernel does not have, the one left last at the end.
    idle: Vec<u16>,
    /// Used up, and held by somebody: each a handle to the whole.
    lent: VecDeque<BytesMut>,
    len: usize,
    /// How many the kernel is to have.
    count: usize,
    min: usize,
    max: usize,
    provided: usize,
    /// What came back since the last turn, and the most of the turns since the last look.
    taken: usize,
    peak: usize,
    turns: u32,
    /// A receive found nothing since the last turn.
    short: bool,
    exhausted: u64,
}

impl Buffers {
    pub(super) fn new(settings: &UringSettings) -> Self {
        let &UringSettings { buffer_len: len, buffers_min: min, buffers_max: max, .. } = settings;
        Self {
            entries: Entries::new(max),
            buffers: (0..max).map(|_| None).collect(),
            idle: (0..max).rev().collect(),
            lent: VecDeque::new(),
            len,
            count: usize::from(min),
            min: usize::from(min),
            max: usize::from(max),
            provided: 0,
            taken: 0,
            peak: 0,
            turns: 0,
            short: false,
            exhausted: 0,
        }
    }

    /// Tells a ring about these entries. The ring has to be dropped before them.
    #[allow(unsafe_code)]
    pub(super) fn register(&self, ring: &Ring) -> io::Result<()> {
        // SAFETY: the pages are on the heap and never reallocated; whoever owns a ring and its buffers drops the ring first.
        unsafe { ring.register_buffers(self.entries.first(), self.max as u16) } // no more than 32,768: see the settings
    }

    /// Goes on as the buffers of the ring that `fresh` is registered with. Called when nothing flies on the old one.
    pub(super) fn move_to(&mut self, fresh: Self) {
        self.entries = fresh.entries;
        self.idle = fresh.idle;
        self.provided = 0;
    }

    /// The kernel has put `filled` bytes into the buffer of that number: they are split off.
    #[allow(unsafe_code)]
    pub(super) fn take(&mut self, number: u16, filled: usize) -> BytesMut {
        self.come_back(number);
        let Some(Some(buffer)) = self.buffers.get_mut(usize::from(number)) else { return BytesMut::new() };
        let room = buffer.capacity();
        assert!(filled <= room, "the kernel reports {filled} bytes in {room} bytes of room");
        // SAFETY: the buffer is empty, as `provide` saw to, and its room was the kernel's until the completion that was just
        // reaped (rule 2), which says that so many bytes were written to its start.
        unsafe { buffer.set_len(filled) };
        let piece = buffer.split();
        if self.provided >= self.count {
            self.buffers[usize::from(number)] = None; // there are to be fewer
        }
        piece
    }

    /// The kernel has given a number back.
    pub(super) fn come_back(&mut self, number: u16) {
        debug_assert!(!self.idle.contains(&number), "buffer {number} was not the kernel's");
        self.provided = self.provided.saturating_sub(1);
        self.taken += 1;
        self.idle.push(number);
    }

    /// A receive found no buffer.
    pub(super) fn note_exhausted(&mut self) {
        self.exhausted += 1;
        self.short = true;
    }

    /// Between turns: gives the kernel as many as it should have.
    #[inline]
    pub(super) fn provide(&mut self) {
        if self.provided == self.count && !self.short {
            return;
        }
        self.adapt();
        while self.provided < self.count
            && let Some(number) = self.idle.pop()
        {
            let mut buffer = match self.buffers[usize::from(number)].take() {
                Some(buffer) => self.with_room(buffer),
                None => self.another(),
            };
            self.entries.add(number, &mut buffer);
            self.buffers[usize::from(number)] = Some(buffer);
            self.provided += 1;
        }
        if self.turns == 1 && self.lent.is_empty() {
            self.lent.extend((0..SPARE).map(|_| spare(self.len)));
        }
        self.entries.publish();
    }

    fn adapt(&mut self) {
        self.peak = self.peak.max(std::mem::take(&mut self.taken));
        self.turns += 1;
        if std::mem::take(&mut self.short) {
            self.count = (self.count * 2).min(self.max);
            (self.turns, self.peak) = (0, 0);
        } else if self.turns >= CALM_TURNS {
            if self.peak < self.count / 4 {
                self.count = (self.count / 2).max(self.min); // the kernel keeps what it has until it is used
                self.idle.iter().for_each(|number| self.buffers[usize::from(*number)] = None);
            }
            (self.turns, self.peak) = (0, 0);
        }
    }

    /// This buffer, if enough of it is free, or another.
    #[inline]
    fn with_room(&mut self, mut buffer: BytesMut) -> BytesMut {
        if buffer.try_reclaim(self.len) || buffer.capacity() >= self.len / ROOM_PART {
            return buffer;
        }
        let other = self.another();
        self.lent.push_back(buffer);
        other
    }

    #[cold]
    fn another(&mut self) -> BytesMut {
        for _ in 0..LOOKS {
            let Some(mut oldest) = self.lent.pop_front() else { break };
            if oldest.try_reclaim(self.len) {
                return oldest;
            }
            if self.lent.len() < self.count {
                self.lent.push_back(oldest); // somebody keeps it for long: later
            }
        }
        BytesMut::with_capacity(self.len)
    }

    // ---- figures ----

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn provided(&self) -> usize {
        self.provided
    }

    pub(super) fn exhausted(&self) -> u64 {
        self.exhausted
    }

    /// How many that were used up somebody still holds a piece of.
    pub(super) fn lent(&mut self) -> usize {
        let len = self.len;
        self.lent.iter_mut().filter_map(|buffer| (!buffer.try_reclaim(len)).then_some(())).count()
    }
}
