//! How a channel ends: who is told, in which order, and what becomes of messages that nobody asks for.

use super::{
    super::{CloseCause, Outbound, Parcel, WriteError, WritePromise, core::Delivered},
    HOST, HostOf,
    inside::{Inside, Rest},
    pipe::{AnyPipe, Entry},
};
use crate::{pipeline::Inbound, world};

impl<Q: AnyPipe<M> + ?Sized, M: Parcel> HostOf<Q, M> {
    /// The socket is closed. Tells everybody, in order: writers, whoever waits for the end, the pipeline. Returns whether it
    /// [is finished](Self::is_finished) with that.
    pub fn closed(&mut self, cause: CloseCause) -> bool {
        self.inside.closed(self.pipe.as_any(), cause)
    }

    /// Drops the messages of a channel that has ended and that nobody has asked for, and tells the pipeline of the end. For
    /// whoever wants it gone: its loop shuts down, or it is closed once more.
    pub fn forsake(&mut self) {
        self.inside.forsake(self.pipe.as_any());
    }
}

/// Nobody waits for a channel whose loop has let it go.
impl<Q: AnyPipe<M> + ?Sized, M: Parcel> Drop for HostOf<Q, M> {
    fn drop(&mut self) {
        M::see_to(&mut self.inside, self.pipe.as_any(), Rest::LetGo);
    }
}

impl<M: Parcel> Inside<M> {
    fn closed(&mut self, pipe: &mut dyn AnyPipe<M>, cause: CloseCause) -> bool {
        if self.ended {
            return self.is_finished(pipe);
        }
        // A stage nearer to the wire may close behind messages that are still to be read: that is no reason to drop them.
        let unwanted = self.core.wishes.wants_no_more || matches!(cause, CloseCause::ShutDown);
        let said_full = self.core.account.said_full();
        self.tell_outside(pipe, &cause);
        if self.was_active {
            let waiting = said_full || self.core.demand.is_paused() && pipe.run(self, Entry::Hold);
            self.let_go_on();
            if waiting {
                // Whoever paused until there is room would wait for ever, and the end behind what is held with it.
                pipe.run(self, Entry::Event(Inbound::Writability(true)));
            }
            pipe.run(self, Entry::Event(Inbound::Inactive(cause)));
        }
        if unwanted {
            self.forsake(pipe);
            return self.is_finished(pipe);
        }
        self.look_again_later(pipe)
    }

    pub(super) fn forsake(&mut self, pipe: &mut dyn AnyPipe<M>) {
        if !self.ended || self.silent || !pipe.is_holding() {
            return;
        }
        let before = self.core.unrest.lost_so_far();
        self.core.demand.forsake();
        self.core.unrest.waits();
        self.settle(pipe);
        let dropped = self.core.unrest.lost_so_far() - before;
        if dropped > 0 {
            tracing::debug!(channel = %self.core.id, dropped, "messages that nobody had asked for when the channel ended");
        }
    }

    /// The channel has ended and holds messages: are they still asked for?
    #[cold]
    pub(super) fn look_after_end(&mut self, pipe: &mut dyn AnyPipe<M>) {
        if !self.core.unrest.delivered.take(Delivered::SINCE_LOOK) && !pipe.is_busy() {
            tracing::warn!(
                channel = %self.core.id,
                after = ?self.forsaken_after.time(),
                "nobody asks for the messages of a channel whose peer has gone, dropping them"
            );
            return self.forsake(pipe);
        }
        self.look_again_later(pipe);
    }

    /// Unless it is finished, which it returns.
    fn look_again_later(&mut self, pipe: &dyn AnyPipe<M>) -> bool {
        let finished = self.is_finished(pipe);
        if !finished {
            self.core.unrest.delivered.take(Delivered::SINCE_LOOK);
            if let Some(time) = self.forsaken_after.time() {
                self.core.arm(HOST, time);
            }
        }
        finished
    }

    /// Nobody who has a handle finds the channel on its loop any more.
    pub(super) fn leave(&self, pipe: &dyn AnyPipe<M>) {
        match pipe.outside(self) {
            Some(outside) => outside.leave(),
            None => self.core.leave_side(),
        }
    }

    /// Whether nothing is left to do: the channel has ended and its pipeline knows everything.
    pub(super) fn is_finished(&self, pipe: &(impl AnyPipe<M> + ?Sized)) -> bool {
        self.ended && (self.silent || !pipe.is_holding() && !pipe.is_busy())
    }

    /// Tells everybody but the pipeline of the end.
    fn tell_outside(&mut self, pipe: &dyn AnyPipe<M>, cause: &CloseCause) {
        self.ended = true;
        match self.line.is_empty() {
            true => self.core.account.end_with(cause),
            false => Outbound::of(&mut self.core.account, &mut self.line)
                .fail_all(WriteError::Closed(cause.clone())),
        }
        self.core.end_inlet(cause);
        if let Some(outside) = pipe.outside(self) {
            outside.close(cause.clone());
        }
        self.core.end_families(cause);
        if !self.core.wishes.close_done.is_empty() {
            self.core.wishes.close_done.take().for_each(WritePromise::succeed);
        }
        if !self.core.wishes.shut_down_done.is_empty() {
            let late = self.core.wishes.shut_down_done.take();
            late.for_each(|done| done.fail(WriteError::Closed(cause.clone())));
        }
    }

    pub(super) fn let_go_of(&mut self, pipe: &dyn AnyPipe<M>) {
        if !self.ended {
            self.tell_outside(pipe, &CloseCause::ShutDown);
        }
        self.core.disarm_all();
        self.leave(pipe);
        if world::is_active() {
            self.look_at_books();
        }
    }

    /// What a channel that has gone still counts: nothing, whatever has become of it.
    #[cold]
    fn look_at_books(&mut self) {
        let outbound = self.outbound();
        let (messages, unsent) = (outbound.len(), outbound.unsent_bytes());
        if messages > 0 || unsent > 0 {
            let id = self.core.id;
            world::flaw(|| {
                format!("channel {id} has gone, and {messages} messages and {unsent} bytes still wait in it")
            });
        }
    }
}
