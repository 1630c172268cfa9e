//! What a channel has accepted and the transport has not yet taken.
//!
//! ```text
//!   advance ◀──┐                      flush ──▶             ┌── push
//!              │                        ▼                   ▼
//!            [w0'][w1][file][w2]       [w3][w4]
//!              └── may be sent          └── waits for a flush, may still be cancelled
//!   gather: w0' w1, then the file alone, then w2
//! ```
//! Always true between calls:
//! 1. The first `flushed` entries may be sent. Their promises are claimed, and the first of them has bytes left: what
//!    is empty, or sent to its end, leaves as soon as it is first.
//! 2. `queued` is the sum of [`ENTRY_OVERHEAD`] and the bytes in memory that are left, over all entries. Together with
//!    `outside` it decides on which side of the water marks we are; the user's bits come on top.
//! 3. Messages leave in the order in which they came, and each promise completes once: after its message's last byte
//!    was taken, or with the error that ended the queue. By then the message is released and the counts are right again.
//! 4. Bytes that are lent to the transport belong to the first message, and count as if they were still in it.
//! 5. A queue that has ended takes nothing in and reports no change of writability.
//!
//! Not here: the system calls and how often to try (transports), when to flush and who hears of writability (channels).
//! Loop thread only.

use super::{
    cause::{WriteError, WritePromise},
    envelope::Envelope,
    file_region::FileRegion,
    line::Line,
    outgoing::Outgoing,
    water_marks::WaterMarks,
};
use crate::{error::InvalidArgument, task_error::discard};
use bytes::{Buf, Bytes};
use std::{fmt, io::IoSlice, mem};

/// What a message costs besides its bytes, so that a flood of tiny or empty messages counts too. Netty's figure; an
/// entry with its promise and the bookkeeping of its `Bytes` takes about that much.
pub const ENTRY_OVERHEAD: usize = 96;

/// Pieces in one gathering write: what Linux takes at most (`IOV_MAX`).
pub const GATHER_PIECES_MAX: usize = 1024;

/// Bytes in one gathering write: no system takes more at once, and Windows has no room for longer pieces.
pub const GATHER_BYTES_MAX: usize = i32::MAX as usize;

/// Room for entries that an empty queue keeps. Larger bursts pay one reallocation for more than this many messages;
/// idle connections do not pay for the largest burst they ever had.
const ENTRIES_KEPT: usize = 64;

/// What [`Outbound::gather`] found.
///
/// ```
/// use netwright_core::{GATHER_BYTES_MAX, Outbound, WaterMarks, WritePromise};
/// use bytes::Bytes;
/// use std::io::IoSlice;
///
/// let mut outbound = Outbound::new(WaterMarks::default());
/// for word in ["hello, ", "world"] {
///     outbound.push(Bytes::from(word).into(), WritePromise::default());
/// }
/// outbound.flush();
/// let mut slices = [IoSlice::new(&[]); 8];
/// let gathered = outbound.gather(&mut slices, GATHER_BYTES_MAX);
/// assert_eq!((gathered.pieces, gathered.bytes), (2, 12)); // for one `writev`
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Gathered {
    /// How many slices were filled in, from the first on.
    pub pieces: usize,
    /// How many bytes these are together.
    pub bytes: usize,
}

struct Entry {
    /// What is left to be sent.
    rest: Outgoing,
    promise: WritePromise,
}

impl Entry {
    /// Whether there is something to send and nobody who waits for it.
    fn is_plain(&self) -> bool {
        !self.promise.is_tracked() && !self.rest.is_empty()
    }

    /// Whether it is so many bytes, and nobody waits for them.
    fn is_plain_of(&self, len: usize) -> bool {
        !self.promise.is_tracked() && matches!(&self.rest, Outgoing::Bytes(bytes) if bytes.len() == len)
    }

    /// What it adds to the pending bytes.
    fn charge(&self) -> usize {
        self.rest.held() + ENTRY_OVERHEAD
    }
}

/// The queue between a channel and its transport.
///
/// ```
/// use netwright_core::{Outbound, WaterMarks, WritePromise};
/// use std::io::IoSlice;
///
/// let mut outbound = Outbound::new(WaterMarks::default());
/// outbound.push(b"hello, ".as_slice().into(), WritePromise::untracked());
/// outbound.push(b"world".as_slice().into(), WritePromise::untracked());
/// assert!(!outbound.has_flushed());
/// outbound.flush();
///
/// let mut slices = [IoSlice::new(&[]); 64];
/// let gathered = outbound.gather(&mut slices, 4096);
/// assert_eq!((gathered.pieces, gathered.bytes), (2, 12));
/// // writev(&slices[..gathered.pieces]) took 9 bytes
/// outbound.advance(9);
/// assert_eq!(outbound.first_bytes().unwrap(), "rld");
/// ```
pub struct Outbound {
    entries: Line<Entry>,
    /// How many entries, from the front, may be sent.
    flushed: usize,
    queued: usize,
    /// Bytes on their way to this queue from other threads.
    outside: usize,
    /// Bytes of the first message that the transport has in its hands and has not reported as taken.
    lent: usize,
    /// All bytes that the transport has taken so far.
    taken: u64,
    marks: WaterMarks,
    /// Above the high mark, or not yet below the low one since.
    above: bool,
    /// The bits that a user has set to "not writable".
    user_bits: u32,
    /// What [`Outbound::take_flip`] said last.
    reported: bool,
    /// Why nothing is taken in any more.
    ended: Option<Box<WriteError>>,
    /// An empty message is something to send.
    keeps_empty: bool,
}

impl Outbound {
    /// An empty queue, writable.
    pub fn new(marks: WaterMarks) -> Self {
        Self {
            entries: Line::new(),
            flushed: 0,
            queued: 0,
            outside: 0,
            lent: 0,
            taken: 0,
            marks,
            above: false,
            user_bits: 0,
            reported: true,
            ended: None,
            keeps_empty: false,
        }
    }

    /// From now on an empty message waits to be sent like any other: for transports that keep boundaries.
    pub fn keep_empty_messages(&mut self) {
        self.keeps_empty = true;
    }

    /// How many messages are in the queue, flushed or not.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no message is in the queue, flushed or not.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the transport has something to send.
    pub fn has_flushed(&self) -> bool {
        self.flushed > 0
    }

    /// What counts against the water marks: bytes in memory, a charge per message, and what is on its way from other
    /// threads.
    pub fn pending_bytes(&self) -> usize {
        self.queued.saturating_add(self.outside)
    }

    /// How many bytes the transport has taken since the channel began.
    pub fn taken_bytes(&self) -> u64 {
        self.taken
    }

    /// How many bytes the transport may send, those of files included. Walks along the flushed messages.
    pub fn flushed_bytes(&self) -> u64 {
        let lent = self.lent as u64;
        self.entries.iter().take(self.flushed).fold(lent, |sum, entry| sum.saturating_add(entry.rest.len()))
    }
}

/// The channel's side.
impl Outbound {
    /// Puts a message behind the others. It waits for a [`flush`](Self::flush); until then it can be cancelled.
    ///
    /// If the queue has ended, `message` is released and `promise` fails at once.
    #[inline(always)]
    pub fn push(&mut self, message: Outgoing, promise: WritePromise) {
        if self.ended.is_some() {
            return self.refuse(message, promise);
        }
        let rest = match message {
            Outgoing::Bytes(bytes) if self.keeps_empty && bytes.is_empty() => Envelope::new(bytes).into(),
            message => message,
        };
        let entry = Entry { rest, promise };
        self.queued += entry.charge();
        self.entries.push_back(entry);
        self.look_at_marks();
    }

    #[cold]
    fn refuse(&self, message: Outgoing, promise: WritePromise) {
        drop(message);
        if promise.is_tracked()
            && let Some(error) = self.ended.as_deref()
        {
            promise.fail(error.clone());
        }
    }

    /// Everything pushed so far may be sent, and can no longer be cancelled; what was cancelled before vanishes.
    ///
    /// Empty messages that nothing precedes are complete with this.
    #[inline]
    pub fn flush(&mut self) {
        if self.flushed == 0 && self.entries.only().is_some_and(Entry::is_plain) {
            self.flushed = 1; // nearly always: one message, which nobody can have cancelled
        } else {
            self.flush_all();
        }
    }

    fn flush_all(&mut self) {
        let (mut cancelled, mut released) = (0, 0);
        for entry in self.entries.iter_mut().skip(self.flushed) {
            if !entry.promise.claim() {
                cancelled += 1;
                released += entry.charge();
            }
        }
        self.flushed = self.entries.len() - cancelled;
        if cancelled > 0 {
            self.discharge(released);
            // What was flushed is claimed, so it is not cancelled either.
            self.entries.retain(|entry| !entry.promise.is_cancelled());
            self.give_room_back();
        }
        self.complete_finished();
    }

    /// Ends the queue: everything in it fails with `error`, in order, and so does everything that is pushed later.
    ///
    /// The first error stays the one for later pushes, except that a close comes on top of
    /// [`shut_down_output`](Self::shut_down_output).
    pub fn fail_all(&mut self, error: WriteError) {
        if matches!(self.ended.as_deref(), None | Some(WriteError::OutputShutDown)) {
            self.ended = Some(Box::new(error.clone()));
        }
        let entries = mem::take(&mut self.entries);
        self.flushed = 0;
        self.lent = 0;
        self.discharge(self.queued);
        for Entry { rest, promise } in entries {
            discard(rest);
            if promise.is_tracked() {
                promise.fail(error.clone());
            }
        }
    }

    /// Nothing is taken in any more: later pushes fail with [`WriteError::OutputShutDown`], and writability changes are
    /// not reported. What is in the queue can still be flushed and sent; who does not want that calls
    /// [`fail_all`](Self::fail_all).
    pub fn shut_down_output(&mut self) {
        self.ended.get_or_insert_with(|| Box::new(WriteError::OutputShutDown));
    }

    /// Why nothing is taken in any more, if so.
    pub fn ended(&self) -> Option<&WriteError> {
        self.ended.as_deref()
    }
}

/// Writability.
impl Outbound {
    /// Whether more should be pushed: not while too much is pending, nor while a user's bit forbids it, nor ever again
    /// once the queue has ended.
    pub fn is_writable(&self) -> bool {
        self.ended.is_none() && !self.above && self.user_bits == 0
    }

    /// The new state, if writability has changed since this was last asked. A change there and back is none.
    #[inline]
    pub fn take_flip(&mut self) -> Option<bool> {
        if !self.has_flip() {
            return None;
        }
        self.reported = !self.reported;
        Some(self.reported)
    }

    /// Whether [`take_flip`](Self::take_flip) has something to say.
    #[inline]
    pub(super) fn has_flip(&self) -> bool {
        let writable = !self.above && self.user_bits == 0;
        writable != self.reported && self.ended.is_none()
    }

    /// Whether there is room, and everybody knows: the usual state.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.reported && self.is_writable()
    }

    /// Whether [`take_flip`](Self::take_flip) last said that there is no room.
    pub fn said_full(&self) -> bool {
        !self.reported
    }

    /// Sets a user's own condition: the channel is writable only while all of them are.
    ///
    /// # Errors
    /// `bit` is not one of 1 to 31.
    pub fn set_user_writability(&mut self, bit: u32, writable: bool) -> Result<(), InvalidArgument> {
        if !(1..=31).contains(&bit) {
            return Err(InvalidArgument::new("the user's writability bit", bit, "one of 1 to 31"));
        }
        if writable {
            self.user_bits &= !(1 << bit);
        } else {
            self.user_bits |= 1 << bit;
        }
        Ok(())
    }

    /// What a user's own condition was last set to; true at first.
    pub fn user_writability(&self, bit: u32) -> bool {
        1_u32.checked_shl(bit).is_none_or(|mask| self.user_bits & mask == 0)
    }

    /// Another thread has written `bytes` that have not arrived here yet. They count as pending.
    pub fn expect_from_outside(&mut self, bytes: usize) {
        self.outside = self.outside.saturating_add(bytes);
        self.look_at_marks();
    }

    /// `bytes` of those from other threads have arrived, or never will.
    pub fn arrived_from_outside(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.outside, "{bytes} bytes arrived, but {} were announced", self.outside);
        self.outside = self.outside.saturating_sub(bytes);
        self.look_at_marks();
    }

    /// The water marks in force.
    pub fn water_marks(&self) -> WaterMarks {
        self.marks
    }

    /// Replaces the water marks. Between the new ones, the channel stays what it was.
    pub fn set_water_marks(&mut self, marks: WaterMarks) {
        self.marks = marks;
        self.look_at_marks();
    }

    fn look_at_marks(&mut self) {
        let pending = self.pending_bytes();
        if pending > self.marks.high() {
            self.above = true;
        } else if pending < self.marks.low() {
            self.above = false;
        }
    }

    fn discharge(&mut self, bytes: usize) {
        self.queued -= bytes;
        self.look_at_marks();
    }
}

/// The transport's side.
impl Outbound {
    /// The first flushed message, if it is bytes. Enough when only one is flushed; cheap to clone, for a transport that
    /// has to hold on to what the kernel reads.
    pub fn first_bytes(&self) -> Option<&Bytes> {
        match self.first_flushed()? {
            Outgoing::Bytes(bytes) => Some(bytes),
            Outgoing::File(_) | Outgoing::Envelope(_) => None,
        }
    }

    /// The first flushed message, if it is a file region. What was sent of it is reported to
    /// [`advance`](Self::advance) here, not to the region.
    pub fn first_file(&self) -> Option<&FileRegion> {
        match self.first_flushed()? {
            Outgoing::File(region) => Some(region),
            Outgoing::Bytes(_) | Outgoing::Envelope(_) => None,
        }
    }

    /// The first flushed message, if it is an envelope.
    pub fn first_envelope(&self) -> Option<&Envelope> {
        match self.first_flushed()? {
            Outgoing::Envelope(envelope) => Some(envelope),
            Outgoing::Bytes(_) | Outgoing::File(_) => None,
        }
    }

    /// Lends out the first flushed message, if it is bytes, to a transport that moves them on as they are. They count
    /// until they are reported to [`advance`](Self::advance), at least one at a time; until then nothing else can be had
    /// from the queue.
    pub fn lend_first(&mut self) -> Option<Bytes> {
        if self.flushed == 0 || self.lent > 0 {
            return None;
        }
        let Outgoing::Bytes(bytes) = &mut self.entries.iter_mut().next()?.rest else { return None };
        self.lent = bytes.len();
        Some(mem::take(bytes))
    }

    /// The first flushed message becomes plain bytes if it is an envelope: what went along with them has been sent, so
    /// that a rest of the bytes goes without.
    pub fn open_first_envelope(&mut self) {
        if self.flushed > 0
            && let Some(entry) = self.entries.iter_mut().next()
            && let Outgoing::Envelope(envelope) = &mut entry.rest
        {
            entry.rest = Outgoing::Bytes(mem::take(&mut envelope.bytes));
        }
    }

    /// All flushed messages in order, for a transport that keeps their boundaries.
    pub fn messages(&self) -> impl Iterator<Item = &Outgoing> {
        self.entries.iter().take(self.flushed).map(|entry| &entry.rest)
    }

    /// The transport has sent the first flushed message as a whole.
    pub fn first_sent(&mut self) {
        self.complete_first();
        self.complete_finished();
    }

    /// The flushed pieces in order, none of them empty, as far as the next file region or envelope.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        let rests = self.entries.iter().take(self.flushed).map(|entry| &entry.rest);
        rests.filter(|rest| !rest.is_empty()).map_while(|rest| match rest {
            Outgoing::Bytes(bytes) => Some(bytes),
            Outgoing::File(_) | Outgoing::Envelope(_) => None,
        })
    }

    /// Fills in `slices` with flushed pieces for one gathering write: as far as the next file region, at most
    /// [`GATHER_PIECES_MAX`] of them, and at most `bytes_max` bytes; the last piece is cut there.
    ///
    /// The slices are the caller's, so a call allocates nothing; what was in those not filled in stays.
    pub fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>], bytes_max: usize) -> Gathered {
        let mut gathered = Gathered::default();
        let bytes_max = bytes_max.min(GATHER_BYTES_MAX);
        for (slice, piece) in slices.iter_mut().take(GATHER_PIECES_MAX).zip(self.pieces()) {
            let room = bytes_max - gathered.bytes;
            if room == 0 {
                break;
            }
            let piece = &piece[..piece.len().min(room)];
            *slice = IoSlice::new(piece);
            gathered.pieces += 1;
            gathered.bytes += piece.len();
        }
        gathered
    }

    /// The transport has taken `taken` bytes from the front: messages whose last byte is among them are released and
    /// their promises completed, in order; of the next the rest is kept.
    ///
    /// # Panics
    /// If fewer were flushed.
    #[inline(always)]
    pub fn advance(&mut self, taken: usize) {
        self.taken += taken as u64;
        // Nearly always: one message, taken as a whole, and nobody waits to hear of it.
        if self.flushed == 1 && self.entries.only().is_some_and(|entry| entry.is_plain_of(taken)) {
            let first = self.entries.take_only();
            self.flushed = 0;
            self.discharge(taken + ENTRY_OVERHEAD);
            self.give_room_back();
            if let Some(Entry { rest: Outgoing::Bytes(bytes), promise }) = first {
                drop(bytes);
                promise.succeed();
            }
        } else {
            self.advance_far(taken);
        }
    }

    fn advance_far(&mut self, taken: usize) {
        if self.lent > 0 {
            assert!(
                taken <= self.lent,
                "the transport reports {taken} bytes as taken, but was lent {}",
                self.lent
            );
            self.lent -= taken;
            self.discharge(taken);
            return self.complete_finished();
        }
        let (mut left, mut released) = (taken as u64, 0);
        for entry in self.entries.iter_mut().take(self.flushed) {
            if left == 0 {
                break;
            }
            let here = left.min(entry.rest.len());
            left -= here;
            if let Outgoing::Envelope(envelope) = &mut entry.rest {
                entry.rest = Outgoing::Bytes(mem::take(&mut envelope.bytes)); // sent with what goes along
            }
            match &mut entry.rest {
                Outgoing::Bytes(bytes) => {
                    bytes.advance(here as usize); // no longer than `bytes`, so it fits
                    released += here as usize;
                }
                Outgoing::File(region) => region.advance(here),
                Outgoing::Envelope(_) => {}
            }
        }
        self.discharge(released);
        self.complete_finished();
        assert!(left == 0, "the transport reports {taken} bytes as taken, {left} more than were flushed");
    }

    /// Gives up the first flushed message, for instance a file that turned out too short: it is released, and its
    /// promise fails with `error`. What comes after it stays.
    pub fn fail_first(&mut self, error: WriteError) {
        if let Some(Entry { rest, promise }) = self.pop_flushed() {
            discard(rest);
            promise.fail(error);
        }
        self.complete_finished();
    }

    fn first_flushed(&self) -> Option<&Outgoing> {
        if self.flushed == 0 { None } else { self.entries.first().map(|entry| &entry.rest) }
    }

    /// Completes what is at the front and has nothing left to send. Each step leaves the queue right, so the next call
    /// goes on where a panic in a message's own drop interrupted.
    fn complete_finished(&mut self) {
        while self.lent == 0 && self.first_flushed().is_some_and(Outgoing::is_empty) {
            self.complete_first();
        }
    }

    fn complete_first(&mut self) {
        let Some(Entry { rest, promise }) = self.pop_flushed() else { return };
        // Released first: who waits for the promise may want the memory back.
        match rest {
            Outgoing::Envelope(envelope) => envelope.recycle(),
            rest => drop(rest),
        }
        promise.succeed();
    }

    fn pop_flushed(&mut self) -> Option<Entry> {
        if self.flushed == 0 {
            return None;
        }
        let entry = self.entries.pop_front()?;
        self.flushed -= 1;
        let lent = mem::take(&mut self.lent);
        self.discharge(entry.charge() + lent);
        self.give_room_back();
        Some(entry)
    }

    #[inline(always)]
    fn give_room_back(&mut self) {
        if self.entries.capacity() > ENTRIES_KEPT && self.entries.is_empty() {
            self.entries.shrink_to(ENTRIES_KEPT);
        }
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("messages", &self.len())
            .field("flushed", &self.flushed)
            .field("pending_bytes", &self.pending_bytes())
            .field("writable", &self.is_writable())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
#[path = "outbound_tests.rs"]
mod tests;
