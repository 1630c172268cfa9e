//! What waits in a channel, in figures: how much, whether that is too much, and whether it is over.
//!
//! ```text
//!   pending = queued (in the line) + outside (on its way there)         above the high mark: not writable, until below the low one
//!   unsent  = flushed (all that may be sent so far) − taken (all that was)
//! ```
//! Every channel has an account, whatever its messages are; stages see it, and the line of messages keeps it right.
//!
//! Always true:
//! 1. An account that has ended reports no change of writability.
//! 2. `calm` is what [`look_whether_calm`](Account::look_whether_calm) makes of the other fields: each message asks for it, and they change rarely.
//! 3. What is not above is at most at the high mark: only more can get it there, and less only leads away.

use super::super::{
    cause::{CloseCause, WriteError},
    water_marks::WaterMarks,
};
use crate::error::InvalidArgument;
use std::rc::Rc;

pub(crate) struct Account {
    /// What the messages in the line are charged with.
    queued: usize,
    /// Bytes that count, and are not in the line: on their way from workers, or kept by a stage.
    outside: usize,
    /// All bytes that may be or have been sent, but for those that were given up.
    flushed: u64,
    /// All bytes that the transport has taken so far.
    taken: u64,
    marks: WaterMarks,
    /// There is room, everybody knows, and it is not over: the usual state.
    calm: bool,
    /// Above the high mark, or not yet below the low one since.
    above: bool,
    /// What [`take_flip`](Self::take_flip) said last.
    reported: bool,
    /// Whether something is taken in.
    end: End,
    /// The bits that a user has set to "not writable".
    user_bits: u32,
    /// Why nothing is taken in any more, if that has to be kept.
    why: Option<Rc<WriteError>>,
}

/// Ends that come every day have nothing to keep: a conversation that ends in order pays for neither memory nor counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    Requested,
    PeerClosed,
    /// It is in [`Account::why`].
    Kept,
}

static REQUESTED: WriteError = WriteError::Closed(CloseCause::Requested);
static PEER_CLOSED: WriteError = WriteError::Closed(CloseCause::PeerClosed);

impl Account {
    pub(crate) fn new(marks: WaterMarks) -> Self {
        Self {
            queued: 0,
            outside: 0,
            flushed: 0,
            taken: 0,
            marks,
            calm: true,
            above: false,
            reported: true,
            end: End::NotYet,
            user_bits: 0,
            why: None,
        }
    }

    // ---- how much ----

    /// What counts against the water marks.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.queued.saturating_add(self.outside)
    }

    /// How many bytes may be sent and are not.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.flushed.wrapping_sub(self.taken)
    }

    /// How many bytes the transport has taken since the channel began.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken
    }

    /// A message is put into the line.
    #[inline]
    pub(super) fn charge(&mut self, bytes: usize) {
        self.queued += bytes;
        if self.pending_bytes() > self.marks.high() {
            self.look_at_marks();
        }
    }

    /// So much of the line is released.
    #[inline]
    pub(super) fn discharge(&mut self, bytes: usize) {
        self.queued -= bytes;
        if self.above {
            self.look_at_marks();
        }
    }

    /// So many bytes may be sent from now on.
    #[inline]
    pub(super) fn may_be_sent(&mut self, bytes: u64) {
        self.flushed = self.flushed.wrapping_add(bytes); // as in all of this: a difference below 2⁶⁴ stays right
    }

    /// So many of them have been.
    #[inline]
    pub(super) fn sent(&mut self, bytes: u64) {
        self.taken += bytes;
    }

    /// So many of them never will be.
    pub(super) fn given_up(&mut self, bytes: u64) {
        self.flushed = self.flushed.wrapping_sub(bytes);
    }

    /// Nothing is left in the line.
    pub(super) fn emptied(&mut self) {
        self.flushed = self.taken;
        self.discharge(self.queued);
    }

    /// So many bytes count that are not in the line.
    pub(crate) fn expect_from_outside(&mut self, bytes: usize) {
        self.outside = self.outside.saturating_add(bytes);
        self.look_at_marks();
    }

    /// `bytes` of those have arrived, or never will.
    pub(crate) fn arrived_from_outside(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.outside, "{bytes} bytes arrived, but {} were announced", self.outside);
        self.outside = self.outside.saturating_sub(bytes);
        self.look_at_marks();
    }

    // ---- whether that is too much ----

    /// Whether more should be written: not while too much is pending, nor while a user's bit forbids it, nor ever again
    /// once it has ended.
    pub(crate) fn is_writable(&self) -> bool {
        !self.has_ended() && !self.above && self.user_bits == 0
    }

    /// The new state, if writability has changed since this was last asked. A change there and back is none.
    #[inline]
    pub(crate) fn take_flip(&mut self) -> Option<bool> {
        if self.is_calm() { None } else { self.take_rare_flip() }
    }

    #[cold]
    fn take_rare_flip(&mut self) -> Option<bool> {
        let writable = !self.above && self.user_bits == 0;
        if writable == self.reported || self.has_ended() {
            return None;
        }
        self.reported = writable;
        self.look_whether_calm();
        Some(writable)
    }

    /// Whether there is room, and everybody knows: the usual state.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        debug_assert_eq!(self.calm, self.reported && self.is_writable());
        self.calm
    }

    /// One of the fields has changed by which it is told.
    fn look_whether_calm(&mut self) {
        self.calm = self.reported && self.is_writable();
    }

    /// Whether [`take_flip`](Self::take_flip) last said that there is no room.
    pub(crate) fn said_full(&self) -> bool {
        !self.reported
    }

    /// Sets a user's own condition: the channel is writable only while all of them are.
    pub(crate) fn set_user_writability(&mut self, bit: u32, writable: bool) -> Result<(), InvalidArgument> {
        if !(1..=31).contains(&bit) {
            return Err(InvalidArgument::new("the user's writability bit", bit, "one of 1 to 31"));
        }
        if writable {
            self.user_bits &= !(1 << bit);
        } else {
            self.user_bits |= 1 << bit;
        }
        self.look_whether_calm();
        Ok(())
    }

    /// What a user's own condition was last set to; true at first.
    pub(crate) fn user_writability(&self, bit: u32) -> bool {
        1_u32.checked_shl(bit).is_none_or(|mask| self.user_bits & mask == 0)
    }

    pub(crate) fn water_marks(&self) -> WaterMarks {
        self.marks
    }

    /// Replaces the water marks. Between the new ones, the channel stays what it was.
    pub(crate) fn set_water_marks(&mut self, marks: WaterMarks) {
        self.marks = marks;
        self.look_at_marks();
    }

    #[inline(never)]
    fn look_at_marks(&mut self) {
        let pending = self.pending_bytes();
        if pending > self.marks.high() {
            self.above = true;
        } else if pending < self.marks.low() {
            self.above = false;
        }
        self.look_whether_calm();
    }

    // ---- whether it is over ----

    /// Whether nothing is taken in any more.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.end != End::NotYet
    }

    /// Why nothing is taken in any more, if so.
    #[inline]
    pub(crate) fn ended(&self) -> Option<&WriteError> {
        match self.end {
            End::NotYet => None,
            End::Requested => Some(&REQUESTED),
            End::PeerClosed => Some(&PEER_CLOSED),
            End::Kept => self.why.as_deref(),
        }
    }

    /// Ends with the channel, of which nothing waits.
    #[inline]
    pub(crate) fn end_with(&mut self, cause: &CloseCause) {
        if !self.may_end() {
            return;
        }
        match cause {
            CloseCause::Requested => self.end = End::Requested,
            CloseCause::PeerClosed => self.end = End::PeerClosed,
            other => return self.keep(WriteError::Closed(other.clone())),
        }
        self.calm = false;
    }

    pub(crate) fn end(&mut self, error: WriteError) {
        if self.may_end() {
            self.keep(error);
        }
    }

    /// The first error stays, except that a close comes on top of an output that was shut down.
    #[inline]
    fn may_end(&self) -> bool {
        !self.has_ended() || matches!(self.why.as_deref(), Some(WriteError::OutputShutDown))
    }

    #[inline(never)]
    fn keep(&mut self, error: WriteError) {
        (self.end, self.why) = (End::Kept, Some(Rc::new(error)));
        self.calm = false;
    }
}
