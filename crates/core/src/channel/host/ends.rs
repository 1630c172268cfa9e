//! How a channel ends: who is told, in which order, and what becomes of messages that nobody asks for.

use super::{
    super::{
        CloseCause, Outbound, Pack, Parcel, WriteError, WritePromise, core::Delivered, shared::ChannelShared,
    },
    HOST, Host,
};
use crate::pipeline::{Inbound, Next, Segment};
use std::sync::Arc;

impl<P, W, R, M> Host<P, W, R, M>
where
    P: Segment<R, W>,
    W: 'static,
    R: 'static,
    M: Pack<W>,
{
    /// The socket is closed. Tells everybody, in order: writers, whoever waits for the end, the pipeline.
    pub fn closed(&mut self, cause: CloseCause) {
        if self.ended {
            return;
        }
        // A stage nearer to the wire may close behind messages that are still to be read: that is no reason to drop them.
        let unwanted = self.core.wishes.wants_no_more || matches!(cause, CloseCause::ShutDown);
        let said_full = self.core.account.said_full();
        self.tell_outside(&cause);
        if self.was_active {
            let mut waiting = said_full;
            if !said_full && self.core.demand.is_paused() {
                self.run(|root, core| waiting = root.would_hold_up(core));
            }
            self.let_go_on();
            if waiting {
                // Whoever paused until there is room would wait for ever, and the end behind what is held with it.
                self.run(|root, core| root.event(core, Inbound::Writability(true)));
            }
            self.run(|root, core| root.event(core, Inbound::Inactive(cause)));
        }
        if unwanted {
            self.forsake();
        } else {
            self.look_again_later();
        }
    }

    /// Drops the messages of a channel that has ended and that nobody has asked for, and tells the pipeline of the end. For
    /// whoever wants it gone: its loop shuts down, or it is closed once more.
    pub fn forsake(&mut self) {
        if !self.ended || self.silent || !self.root.is_holding() {
            return;
        }
        let before = self.core.unhandled_messages;
        self.core.demand.forsake();
        self.core.waiting_inside = true;
        self.settle();
        let dropped = self.core.unhandled_messages - before;
        if dropped > 0 {
            tracing::debug!(channel = %self.core.id, dropped, "messages that nobody had asked for when the channel ended");
        }
    }

    /// The channel has ended and holds messages: are they still asked for?
    #[cold]
    pub(super) fn look_after_end(&mut self) {
        if !self.core.delivered.take(Delivered::SINCE_LOOK) && !self.root.is_busy() {
            tracing::warn!(
                channel = %self.core.id,
                after = ?self.forsaken_after.time(),
                "nobody asks for the messages of a channel whose peer has gone, dropping them"
            );
            return self.forsake();
        }
        self.look_again_later();
    }

    fn look_again_later(&mut self) {
        if !self.is_finished() {
            self.core.delivered.take(Delivered::SINCE_LOOK);
            if let Some(time) = self.forsaken_after.time() {
                self.core.arm(HOST, time);
            }
        }
    }
}

impl<P: Segment<R, W>, W: 'static, R: 'static, M: Parcel> Host<P, W, R, M> {
    /// What the channel shares with its handles, if there are any by now.
    #[inline]
    pub(super) fn shared(&self) -> Option<&Arc<ChannelShared<P::Tail>>> {
        match self.shared.get() {
            None => self.look_for_shared(),
            known => known,
        }
    }

    /// A stage of a child may have asked for a handle since this was asked last.
    #[inline(never)]
    fn look_for_shared(&self) -> Option<&Arc<ChannelShared<P::Tail>>> {
        let made = self.core.own_handle()?;
        Some(self.shared.get_or_init(|| made))
    }

    /// Nobody who has a handle finds the channel on its loop any more.
    pub(super) fn leave(&self) {
        match self.shared() {
            Some(shared) => shared.leave(),
            None => self.core.leave_side(),
        }
    }

    /// Tells everybody but the pipeline of the end.
    fn tell_outside(&mut self, cause: &CloseCause) {
        self.ended = true;
        Outbound::of(&mut self.core.account, &mut self.line).fail_all(WriteError::Closed(cause.clone()));
        self.core.end_inlet(cause);
        if let Some(shared) = self.shared() {
            shared.close(cause.clone());
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
}

/// Nobody waits for a channel whose loop has let it go.
impl<P: Segment<R, W>, W: 'static, R: 'static, M: Parcel> Drop for Host<P, W, R, M> {
    fn drop(&mut self) {
        if !self.ended {
            self.tell_outside(&CloseCause::ShutDown);
        }
        self.core.disarm_all();
        self.leave();
    }
}
