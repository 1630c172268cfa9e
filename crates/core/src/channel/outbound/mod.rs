//! What a channel has accepted and the transport has not yet taken.
//!
//! ```text
//!   advance ◀──┐                      flush ──▶             ┌── push
//!              │                        ▼                   ▼
//!            [w0'][w1][file][w2]       [w3][w4]                        the line: of bytes, or of messages of any type
//!              └── may be sent          └── waits for a flush, may still be cancelled
//!   gather: w0' w1, then the file alone, then w2
//!            └───────────── charged to the account ─────────┘          the account: marks, flips, the end
//! ```
//! | file | what it is |
//! | --- | --- |
//! | `mod` | [`Outbound`], line and account in one hand; what is the same for all messages |
//! | `account` | figures that every stage may see |
//! | `line` | messages in order, with their promises |
//! | `parcel` | what the line has to know of a message: [`Parcel`], [`Weighed`] |
//! | `byte_line` | the line of bytes and files: gathering, parts of messages, bytes that are lent |
//!
//! Always true between calls:
//! 1. The first `flushed` entries may be sent. Their promises are claimed, and the first of them has something left: what
//!    is empty, or sent to its end, leaves as soon as it is first.
//! 2. The account is charged with the sum of [`ENTRY_OVERHEAD`] and the bytes in memory that are left, over all entries, and
//!    knows how much of what was flushed is left.
//! 3. Messages leave in the order in which they came, and each promise completes once: after its message's last byte
//!    was taken, or with the error that ended the queue. By then the message is released and the counts are right again.
//! 4. Bytes that are lent to the transport belong to the first message, and count as if they were still in it.
//! 5. A queue that has ended takes nothing in and reports no change of writability.
//!
//! Not here: the system calls and how often to try (transports), when to flush and who hears of writability (channels).
//! Loop thread only.

mod account;
mod byte_line;
mod line;
mod parcel;

use super::{
    cause::{WriteError, WritePromise},
    outgoing::Outgoing,
    water_marks::WaterMarks,
    weight::Weight,
};
use crate::{error::InvalidArgument, task_error::discard};
pub(crate) use account::Account;
pub use byte_line::Gathered;
use line::Entry;
pub(crate) use line::MessageLine;
pub use line::OutboundQueue;
pub use parcel::{Pack, Parcel, Weighed};
use std::{fmt, mem};

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

/// The queue between a channel and its transport: a line of messages, and the account that it is charged to.
///
/// `M` is what waits: bytes and files for transports of bytes; for whoever drives a channel of other messages, such
/// as a stage that has several conversations in one connection, [`Weighed`] messages.
///
/// ```
/// use netwright_core::{OutboundQueue, WaterMarks, WritePromise};
/// use std::io::IoSlice;
///
/// let mut queue = OutboundQueue::new(WaterMarks::default()); // a channel has one: `Host::outbound`
/// let mut outbound = queue.outbound();
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
pub struct Outbound<'a, M = Outgoing> {
    account: &'a mut Account,
    line: &'a mut MessageLine<M>,
}

impl<'a, M> Outbound<'a, M> {
    #[inline(always)]
    pub(crate) fn of(account: &'a mut Account, line: &'a mut MessageLine<M>) -> Self {
        Self { account, line }
    }

    /// How many messages are in the queue, flushed or not.
    pub fn len(&self) -> usize {
        self.line.entries.len()
    }

    /// Whether no message is in the queue, flushed or not.
    pub fn is_empty(&self) -> bool {
        self.line.entries.is_empty()
    }

    /// Whether the transport has something to send.
    pub fn has_flushed(&self) -> bool {
        self.line.has_flushed()
    }

    /// What counts against the water marks: bytes in memory, a charge per message, and what is on its way from other
    /// threads.
    pub fn pending_bytes(&self) -> usize {
        self.account.pending_bytes()
    }

    /// How many bytes the transport has taken since the channel began.
    pub fn taken_bytes(&self) -> u64 {
        self.account.taken_bytes()
    }

    /// How many bytes the transport may send and has not taken, those of files included.
    pub fn unsent_bytes(&self) -> u64 {
        self.account.unsent_bytes()
    }

    /// Whether more should be pushed: not while too much is pending, nor while a user's bit forbids it, nor ever again
    /// once the queue has ended.
    pub fn is_writable(&self) -> bool {
        self.account.is_writable()
    }

    /// Sets a user's own condition: the channel is writable only while all of them are.
    ///
    /// # Errors
    /// `bit` is not one of 1 to 31.
    pub fn set_user_writability(&mut self, bit: u32, writable: bool) -> Result<(), InvalidArgument> {
        self.account.set_user_writability(bit, writable)
    }

    /// What a user's own condition was last set to; true at first.
    pub fn user_writability(&self, bit: u32) -> bool {
        self.account.user_writability(bit)
    }

    /// The water marks in force.
    pub fn water_marks(&self) -> WaterMarks {
        self.account.water_marks()
    }

    /// Replaces the water marks. Between the new ones, the channel stays what it was.
    pub fn set_water_marks(&mut self, marks: WaterMarks) {
        self.account.set_water_marks(marks);
    }

    /// Why nothing is taken in any more, if so.
    pub fn ended(&self) -> Option<&WriteError> {
        self.account.ended()
    }
}

/// The channel's side.
impl<M: Parcel> Outbound<'_, M> {
    /// Puts a message behind the others. It waits for a [`flush`](Self::flush); until then it can be cancelled.
    ///
    /// If the queue has ended, `message` is released and `promise` fails at once.
    #[inline(always)]
    pub fn push(&mut self, message: M, promise: WritePromise) {
        if self.account.has_ended() {
            return M::refuse(self, message, promise);
        }
        if !self.line.entries.is_empty() {
            return M::push_behind(self, message, promise);
        }
        let entry = Entry { rest: message, promise };
        self.account.charge(entry.charge());
        self.line.entries.push_first(entry);
    }

    fn push_behind(&mut self, message: M, promise: WritePromise) {
        let entry = Entry { rest: message, promise };
        self.account.charge(entry.charge());
        self.line.entries.push_back(entry);
    }

    fn refuse(&self, message: M, promise: WritePromise) {
        drop(message);
        if promise.is_tracked()
            && let Some(error) = self.account.ended()
        {
            promise.fail(error.clone());
        }
    }

    /// Everything pushed so far may be sent, and can no longer be cancelled; what was cancelled before vanishes.
    ///
    /// Empty messages that nothing precedes are complete with this.
    #[inline]
    pub fn flush(&mut self) {
        if self.line.flushed == 0
            && let Some(only) = self.line.entries.only()
            && only.is_plain()
        {
            // Nearly always: one message, which nobody can have cancelled.
            self.account.may_be_sent(only.rest.left());
            self.line.flushed = 1;
        } else {
            M::flush_all(self);
        }
    }

    fn flush_all(&mut self) {
        #[cfg(feature = "_planted")]
        if crate::planted::Bug::ReorderedWrite.is_planted() && self.line.flushed > 0 {
            self.line.entries.swap_last_two(self.line.flushed);
        }
        let (mut cancelled, mut released) = (0, 0);
        for entry in self.line.entries.iter_mut().skip(self.line.flushed) {
            if entry.promise.claim() {
                self.account.may_be_sent(entry.rest.left());
            } else {
                cancelled += 1;
                released += entry.charge();
            }
        }
        self.line.flushed = self.line.entries.len() - cancelled;
        if cancelled > 0 {
            self.account.discharge(released);
            // What was flushed is claimed, so it is not cancelled either.
            self.line.entries.retain(|entry| !entry.promise.is_cancelled());
            self.give_room_back();
        }
        self.complete_finished();
    }

    /// Ends the queue: everything in it fails with `error`, in order, and so does everything that is pushed later.
    ///
    /// The first error stays the one for later pushes, except that a close comes on top of an output that was shut down.
    pub fn fail_all(&mut self, error: WriteError) {
        self.account.end(error.clone());
        let entries = mem::take(&mut self.line.entries);
        self.line.flushed = 0;
        self.line.lent = 0;
        self.account.emptied();
        for Entry { rest, promise } in entries {
            discard(rest);
            if promise.is_tracked() {
                promise.fail(error.clone());
            }
        }
    }
}

/// The transport's side, whatever it sends.
impl<M: Parcel> Outbound<'_, M> {
    /// All flushed messages in order, for a transport that keeps their boundaries.
    pub fn messages(&self) -> impl Iterator<Item = &M> {
        self.line.entries.iter().take(self.line.flushed).map(|entry| &entry.rest)
    }

    /// The first flushed message.
    #[inline]
    pub fn first(&self) -> Option<&M> {
        self.line.first_flushed()
    }

    /// The transport has sent the first flushed message as a whole.
    pub fn first_sent(&mut self) {
        self.complete_first();
        self.complete_finished();
    }

    /// Takes the first flushed message out of the queue, with the promise of its write: the transport completes it, when
    /// the message is where it should be. From here on it counts for nothing.
    pub fn take_first(&mut self) -> Option<(M, WritePromise)> {
        let lent = self.line.lent as u64;
        let Entry { rest, promise } = self.pop_flushed()?;
        self.account.sent(rest.left() + lent);
        self.complete_finished();
        Some((rest, promise))
    }

    /// Gives up the first flushed message, for instance a file that turned out too short: it is released, and its
    /// promise fails with `error`. What comes after it stays.
    pub fn fail_first(&mut self, error: WriteError) {
        let lent = self.line.lent as u64;
        if let Some(Entry { rest, promise }) = self.pop_flushed() {
            self.account.given_up(rest.left() + lent);
            discard(rest);
            promise.fail(error);
        }
        self.complete_finished();
    }

    /// Completes what is at the front and has nothing left to send. Each step leaves the queue right, so the next call
    /// goes on where a panic in a message's own drop interrupted.
    fn complete_finished(&mut self) {
        while self.line.lent == 0 && self.first().is_some_and(M::is_sent) {
            self.complete_first();
        }
    }

    fn complete_first(&mut self) {
        let lent = self.line.lent as u64;
        let Some(Entry { rest, promise }) = self.pop_flushed() else { return };
        self.account.sent(rest.left() + lent);
        rest.release(); // first: who waits for the promise may want the memory back
        promise.succeed();
    }

    fn pop_flushed(&mut self) -> Option<Entry<M>> {
        if self.line.flushed == 0 {
            return None;
        }
        let entry = self.line.entries.pop_front()?;
        self.line.flushed -= 1;
        let lent = mem::take(&mut self.line.lent);
        self.account.discharge(entry.charge() + lent);
        self.give_room_back();
        Some(entry)
    }

    #[inline(always)]
    fn give_room_back(&mut self) {
        let entries = &mut self.line.entries;
        if entries.capacity() > ENTRIES_KEPT && entries.is_empty() {
            entries.shrink_to(ENTRIES_KEPT);
        }
    }
}

/// Whoever takes messages apart.
impl<W: 'static> Outbound<'_, Weighed<W>> {
    /// Takes something of the first flushed message, which stays in its place and is weighed anew: what it has become lighter by
    /// counts as sent.
    pub fn change_first<T>(&mut self, weight: Weight<W>, change: impl FnOnce(&mut W) -> T) -> Option<T> {
        if self.line.flushed == 0 {
            return None;
        }
        let first = &mut self.line.entries.iter_mut().next()?.rest;
        let before = first.weight;
        let changed = change(&mut first.message);
        first.weight = weight.of_message(&first.message).min(before); // nothing is put into it
        let lighter = before - first.weight;
        self.account.sent(lighter as u64);
        self.account.discharge(lighter);
        Some(changed)
    }
}

impl<M> fmt::Debug for Outbound<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("messages", &self.len())
            .field("flushed", &self.line.flushed)
            .field("pending_bytes", &self.pending_bytes())
            .field("writable", &self.account.is_writable())
            .field("ended", &self.account.ended())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
