//! What a transport asks of its channel.

use super::{
    super::{CloseCause, HalfClosure, Outbound, Parcel, WriteError, WritePromise, core::TailEnded},
    HostOf,
    pipe::AnyPipe,
};
use crate::pipeline::Op;
use std::rc::Rc;

impl<Q: AnyPipe<M> + ?Sized, M: Parcel> HostOf<Q, M> {
    /// Whether the pipeline wants bytes.
    pub fn wants_read(&self) -> bool {
        !self.inside.ended && self.inside.core.demand.takes_input() && self.inside.core.wishes.close.is_none()
    }

    /// Whether a close was asked for and has not been carried out: what arrives now has nobody left to read it.
    pub fn is_closing(&self) -> bool {
        self.inside.ended || self.inside.core.wishes.close.is_some()
    }

    /// How many messages the pipeline wants at most: none while it is paused, as many as there are while it flows.
    pub fn wanted(&self) -> usize {
        if self.wants_read() { self.inside.core.demand.messages() } else { 0 }
    }

    /// Whether something should be sent now; asked once for each wish.
    pub fn take_flush(&mut self) -> bool {
        std::mem::take(&mut self.inside.core.wishes.flush)
    }

    /// Whether the pipeline wants anything of its transport.
    #[inline]
    pub(in crate::channel) fn has_wishes(&self) -> bool {
        self.inside.core.wishes.are_any()
    }

    /// Whether something should be sent now.
    pub(in crate::channel) fn has_flush(&self) -> bool {
        self.inside.core.wishes.flush
    }

    /// What is flushed and not sent yet should be tried again: the socket has room, or it is this channel's turn.
    pub fn wants_flush_again(&mut self) {
        self.inside.core.wishes.flush |= self.inside.line.has_flushed();
    }

    /// What waits to be sent.
    #[inline(always)]
    pub fn outbound(&mut self) -> Outbound<'_, M> {
        self.inside.outbound()
    }

    /// The transport took something out of [`outbound`](Self::outbound).
    #[inline]
    pub fn wrote(&mut self) {
        if let Some(writable) = self.inside.core.account.take_flip() {
            self.tell_flip(writable);
        }
    }

    #[cold]
    fn tell_flip(&mut self, writable: bool) {
        let pipe = self.pipe.as_any();
        self.inside.tell_flip(pipe, writable);
        self.inside.settle(pipe);
    }

    /// Whether the channel should be closed now, and why.
    pub fn take_close(&mut self) -> Option<CloseCause> {
        if !self.is_close_due() {
            return None;
        }
        self.inside.core.wishes.close.take().map(Rc::unwrap_or_clone)
    }

    /// Whether a close that was asked for is to be carried out now.
    pub(in crate::channel) fn is_close_due(&mut self) -> bool {
        let wishes = &mut self.inside.core.wishes;
        if wishes.close_when_flushed && !std::mem::replace(&mut wishes.heard_out, true) {
            // What a handle was asked for before the handler asked or the function returned, on this thread or another one.
            self.inside.run_commands(self.pipe.as_any());
        }
        // What a stage on workers has under way may be a write or its flush.
        let sent = |host: &Self| !host.inside.line.has_flushed() && !host.pipe.is_busy();
        if self.inside.core.wishes.close_when_flushed && sent(self) {
            self.inside.core.wishes.close_when_flushed = false;
            self.inside.core.wishes.last_words = true;
            // Through the pipeline, like any close: a stage may have something to send first. Whoever it passes has not asked.
            let wants_no_more = self.inside.core.wishes.wants_no_more;
            let cause = match self.inside.core.wishes.tail_ended {
                TailEnded::BehindItsPeer => CloseCause::PeerClosed,
                TailEnded::Not | TailEnded::ByItself => CloseCause::Requested,
            };
            let close = Op::Close(cause, WritePromise::untracked());
            self.inside.enter_at_tail(self.pipe.as_any(), close);
            self.inside.core.wishes.wants_no_more = wants_no_more;
        }
        if self.inside.core.wishes.last_words && self.inside.line.has_flushed() && !self.closes_at_once() {
            return false; // it has, and that goes first
        }
        // What is under way on workers may be a reply that was there before the close.
        self.inside.core.wishes.close.is_some()
            && !self.inside.ended
            && (!self.is_busy() || self.closes_at_once())
    }

    /// Whether the channel is to end now, whoever else it could be waited for: [`Channel::close_now`](crate::Channel::close_now).
    pub fn closes_at_once(&self) -> bool {
        self.inside.core.wishes.at_once
    }

    /// Whether a stage has something under way on workers, so that what has happened to the channel is not all over yet. A
    /// transport that would end the channel because nothing else can happen waits for this; the channel is called when it
    /// changes.
    pub fn is_busy(&self) -> bool {
        self.inside.core.demand.is_away()
    }

    /// Whether answers are being made, or wait for the peer to take them, in the queue or in a stage, or messages for room for
    /// theirs.
    pub fn is_answering(&self) -> bool {
        self.inside.line.has_flushed()
            || self.pipe.is_busy()
            || self.pipe.owes()
            || self.inside.core.demand.is_full() && self.pipe.is_holding()
    }

    /// Whether the channel is to live on when the peer sends no more, and to be told [so](Self::input_closed): as the settings say, else
    /// as the stages do. To be asked when that has come, and again if the channel could not end at once: stages may have changed.
    pub fn allows_half_closure(&self) -> bool {
        self.inside.core.given.half_closure.unwrap_or_else(|| self.pipe.half_closure() == HalfClosure::Needs)
    }

    /// Whether a close waits for something that a stage flushed on its way out, and that has not been tried yet.
    pub fn has_last_words(&self) -> bool {
        self.inside.core.wishes.last_words && self.inside.core.wishes.flush && self.inside.line.has_flushed()
    }

    /// Whether the output side should be shut down now: everything flushed before is sent.
    pub fn take_output_shutdown(&mut self) -> bool {
        self.is_output_end_due() && std::mem::take(&mut self.inside.core.wishes.shut_down_output)
    }

    /// The same, to be asked again.
    pub(in crate::channel) fn is_output_end_due(&self) -> bool {
        !self.inside.line.has_flushed() && self.inside.core.wishes.shut_down_output
    }

    /// The output side is shut down, or could not be.
    pub fn output_shut_down(&mut self, result: Result<(), WriteError>) {
        let waiting = self.inside.core.is_waited_for();
        self.outbound().fail_all(WriteError::OutputShutDown);
        for done in self.inside.core.wishes.shut_down_done.take() {
            match &result {
                Ok(()) => done.succeed(),
                Err(error) => done.fail(error.clone()),
            }
        }
        if waiting {
            // There will be no other news of room, and what is written fails from now on.
            self.tell_flip(true);
        }
    }

    /// Whether messages or events wait inside: what is told now waits behind them.
    pub fn is_holding(&self) -> bool {
        self.pipe.is_holding()
    }

    /// Whether nothing is left to do: the channel has ended and its pipeline knows everything.
    pub fn is_finished(&self) -> bool {
        self.inside.ended && (self.inside.silent || !self.pipe.is_holding() && !self.pipe.is_busy())
    }

    /// The last act: handlers are told that they leave, from the last to the first.
    pub fn remove(&mut self) {
        if !std::mem::replace(&mut self.inside.removed, true) {
            self.inside.silent = true;
            self.inside.core.disarm_all();
            self.inside.core.drop_tasks(0);
            self.pipe.removed();
            self.inside.leave(self.pipe.as_any());
        }
    }
}
