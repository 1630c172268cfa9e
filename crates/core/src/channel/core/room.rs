//! Whether there is room to write, as stages see it, and who has to be told that there is again.

use super::{
    super::{
        CloseCause, ENTRY_OVERHEAD, WriteError,
        weight::{Weight, at_first_sight, is_known},
    },
    ChannelCore,
};

/// Since when a stage has read a message, as several look at it: one byte, which each message sets at once.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Delivered(u8);

impl Delivered {
    /// Since what was written was last flushed for a pause.
    pub(crate) const SINCE_FLUSH: u8 = 1;
    /// Since somebody was last told of room that there is after the end.
    pub(crate) const SINCE_ROOM: u8 = 2;
    /// Since somebody last looked whether a channel that has ended still goes on.
    pub(crate) const SINCE_LOOK: u8 = 4;
    /// In the call that is under way, so that what is written may be an answer.
    pub(crate) const IN_CALL: u8 = 8;

    #[inline]
    pub(crate) fn mark(&mut self) {
        self.0 = u8::MAX;
    }

    /// What is written in this call answers a message that came before it.
    pub(crate) fn mark_call(&mut self) {
        self.0 |= Self::IN_CALL;
    }

    pub(crate) fn is(self, since: u8) -> bool {
        self.0 & since != 0
    }

    pub(crate) fn take(&mut self, since: u8) -> bool {
        let was = self.is(since);
        self.0 &= !since;
        was
    }
}

impl ChannelCore {
    /// Whether there is room, counting what this very call has written: a loop that writes while there is room ends.
    pub(crate) fn is_writable(&self) -> bool {
        // Behind a close there is no room, and none before the end: who waits for it would be told for ever.
        if !self.account.is_writable() || self.has_output_ended() {
            return self.has_ended() && self.has_room_for(self.unsettled);
        }
        self.has_room_for(self.account.pending_bytes() + self.unsettled)
    }

    fn has_room_for(&self, pending: usize) -> bool {
        self.asks_for_room.set(true);
        let room = pending <= self.account.water_marks().high();
        if !room {
            self.told_full.set(true);
        }
        room
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
        self.unsettled > 0
            && self.delivered.is(Delivered::IN_CALL)
            && self.account.ended().is_none()
            && !self.account.is_writable()
    }

    #[inline]
    pub(crate) fn count_write<W: 'static>(&mut self, weight: Weight<W>, msg: &W) {
        // Finding out what messages hold may take a while, and is done for those who ask: whoever never does need not wait for it.
        let asks = !is_known::<W>() && self.asks_for_room.get();
        let size = if asks { weigh(weight, msg) } else { at_first_sight(msg) };
        self.unsettled += size + ENTRY_OVERHEAD;
    }

    /// Everything that was written has reached the queue. True if somebody was told that there is no room and the queue
    /// has room after all. Once the channel has ended, that is said once for each message: who writes whenever there is
    /// room would go on for ever.
    pub(in crate::channel) fn writes_settled(&mut self) -> bool {
        let written = std::mem::take(&mut self.unsettled);
        if self.has_ended() {
            // Whoever has written that much may wait for room, whether it has asked or not.
            let full = self.told_full.get() || written > self.account.water_marks().high();
            return full && self.delivered.take(Delivered::SINCE_ROOM) && {
                self.told_full.set(false);
                true
            };
        }
        self.told_full.get()
            && self.account.is_writable()
            && !self.has_output_ended()
            && self.told_full.replace(false)
    }

    /// What was asked for is carried out: whether nothing more follows from it, as nearly always.
    #[inline]
    pub(in crate::channel) fn comes_to_rest(&mut self) -> bool {
        let rest = (self.account.is_calm() || self.unsettled == 0 && self.account.ended().is_some())
            && !self.told_full.get()
            && !self.waiting_inside
            && !self.demand.is_paused();
        if rest {
            self.call_over();
        }
        rest
    }

    /// A call and all that follows from it is over.
    #[inline]
    pub(in crate::channel) fn call_over(&mut self) {
        self.unsettled = 0;
        self.delivered.take(Delivered::IN_CALL);
    }

    /// The queue itself has news: nobody waits for ours any more.
    pub(in crate::channel) fn told_by_queue(&self) {
        self.told_full.set(false);
    }
}

/// Apart, so that the call of somebody else's function is not in the way of those who need none.
#[cold]
fn weigh<W: 'static>(weight: Weight<W>, msg: &W) -> usize {
    weight.of_message(msg)
}
