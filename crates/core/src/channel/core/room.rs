//! Whether there is room to write, as stages see it, and who has to be told that there is again.
//!
//! | what | set by | read by |
//! | --- | --- | --- |
//! | `unsettled`: bytes written in this call that the queue has not seen | `Context::write…` | `is_writable`; the host, when the call is over |
//! | `told_full`: somebody heard that there is no room because of them, or because the output is about to be shut down | `is_writable`; a stage on workers, by what it brings back | the host, which tells it of room; the queue, when it has news itself |
//! | `asks`: a stage has asked for room and may again | `is_writable` | `Context::write…`: are messages weighed |

use super::{
    super::{
        CloseCause, ENTRY_OVERHEAD, WriteError,
        weight::{Weight, at_first_sight, is_known},
    },
    ChannelCore, Delivered, Home,
};
use std::cell::Cell;

/// What was written in the call that is under way, and who was told that there is no room.
#[derive(Debug, Default)]
pub(super) struct Room {
    unsettled: usize,
    told_full: Cell<bool>,
    asks: Cell<bool>,
}

impl Room {
    /// Somebody has to be told when there is room.
    pub(super) fn tell_full(&self) {
        self.told_full.set(true);
    }

    #[inline]
    pub(super) fn is_told_full(&self) -> bool {
        self.told_full.get()
    }
}

impl ChannelCore {
    /// Whether there is room, counting what this very call has written: a loop that writes while there is room ends.
    pub(crate) fn is_writable(&self) -> bool {
        if self.only_refuses() {
            return self.has_room_for(self.room.unsettled);
        }
        // Behind a close there is no room, and none before the end: who waits for it would be told for ever.
        if !self.account.is_writable() || self.has_output_ended() {
            if self.wishes.shut_down_output || matches!(self.home, Home::Away(_)) {
                self.room.tell_full(); // there may never be news from the queue
            }
            return false;
        }
        self.has_room_for(self.account.pending_bytes() + self.room.unsettled)
    }

    fn has_room_for(&self, pending: usize) -> bool {
        self.room.asks.set(true);
        let room = pending <= self.account.water_marks().high();
        if !room {
            self.room.tell_full();
        }
        room
    }

    /// Whether what is written only fails, and at once: the channel has ended, or its output is shut down. So there is room for it.
    pub(super) fn only_refuses(&self) -> bool {
        self.account.has_ended() && (self.has_ended() || !self.has_output_ended())
    }

    /// Whether somebody waits for room, or messages for room for their answers.
    pub(in crate::channel) fn is_waited_for(&self) -> bool {
        self.account.said_full() || self.room.is_told_full() || self.demand.is_full()
    }

    /// Why the channel has ended, if it has: known at once, while `inactive` waits for what is held.
    pub(crate) fn close_cause(&self) -> Option<&CloseCause> {
        match self.account.ended() {
            Some(WriteError::Closed(cause)) => Some(cause),
            _ => None,
        }
    }

    /// Whether the channel has ended. What is written fails, so there is room for it: whoever waits for that goes on.
    pub(crate) fn has_ended(&self) -> bool {
        self.close_cause().is_some()
    }

    /// Whether more waits to be sent than should, and a stage has just added to it in answer to a message.
    pub(in crate::channel) fn has_too_many_answers(&self) -> bool {
        self.room.unsettled > 0
            && self.unrest.delivered.is(Delivered::IN_CALL)
            && !self.account.has_ended()
            && !self.account.is_writable()
    }

    #[inline]
    pub(crate) fn count_write<W: 'static>(&mut self, weight: Weight<W>, msg: &W) {
        // Finding out what messages hold may take a while, and is done for those who ask: whoever never does need not wait for it.
        let asks = !is_known::<W>() && self.room.asks.get();
        let size = if asks { weigh(weight, msg) } else { at_first_sight(msg) };
        self.room.unsettled += size + ENTRY_OVERHEAD;
    }

    /// Everything that was written has reached the queue. True if somebody was told that there is no room and the queue
    /// has room after all. Once writes only fail, that is said once for each message: who writes whenever there is
    /// room would go on for ever.
    pub(in crate::channel) fn writes_settled(&mut self) -> bool {
        let written = std::mem::take(&mut self.room.unsettled);
        if self.only_refuses() {
            // Whoever has written that much may wait for room, whether it has asked or not.
            let full = self.room.is_told_full() || written > self.account.water_marks().high();
            return full && self.unrest.delivered.take(Delivered::SINCE_ROOM) && {
                self.room.told_full.set(false);
                true
            };
        }
        self.room.is_told_full()
            && self.account.is_writable()
            && !self.has_output_ended()
            && self.room.told_full.replace(false)
    }

    /// What was asked for is carried out: whether nothing more follows from it, as nearly always.
    #[inline]
    pub(in crate::channel) fn comes_to_rest(&mut self) -> bool {
        let rest = (self.account.is_calm() || self.room.unsettled == 0 && self.account.has_ended())
            && !self.room.is_told_full()
            && !self.unrest.is_waiting()
            && !self.demand.is_paused();
        if rest {
            self.call_over();
        }
        rest
    }

    /// Whether a message waits inside, and nothing has to be seen to before it is delivered. What was written so far has reached the queue.
    #[inline]
    pub(in crate::channel) fn steps_freely(&mut self) -> bool {
        let free = self.unrest.is_waiting()
            && self.account.is_calm()
            && !self.room.is_told_full()
            && !self.demand.is_full();
        if free {
            self.room.unsettled = 0;
        }
        free
    }

    /// A call and all that follows from it is over.
    #[inline]
    pub(in crate::channel) fn call_over(&mut self) {
        self.room.unsettled = 0;
        self.unrest.delivered.take(Delivered::IN_CALL);
    }

    /// The queue itself has news: nobody waits for ours any more.
    pub(in crate::channel) fn told_by_queue(&self) {
        self.room.told_full.set(false);
    }
}

/// Apart, so that the call of somebody else's function is not in the way of those who need none.
#[cold]
fn weigh<W: 'static>(weight: Weight<W>, msg: &W) -> usize {
    weight.of_message(msg)
}
