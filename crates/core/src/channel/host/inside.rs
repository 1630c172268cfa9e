//! A host without its pipeline, and everything that follows from a call of the pipeline.
//!
//! | flag | set by | read by |
//! | --- | --- | --- |
//! | `was_active` | `HostOf::begin`, when the pipeline is told that the channel is connected | `ends.rs`: is the pipeline told of an end |
//! | `ended` | `ends.rs`, when the socket is closed | all that asks whether the channel still takes or sends something |
//! | `silent` | a panic (`break_down`), and `HostOf::remove` | all that calls the pipeline: it is not called any more |
//! | `removed` | `HostOf::remove` | the same, so that the pipeline is told once; `over.rs` |
//!
//! `over.rs` clears the first two when another conversation begins with the same stages.

use super::{
    super::{
        CloseCause, MessageLine, Outbound, Outgoing, Parcel, Weighed, WritePromise,
        core::{ChannelCore, Delivered},
    },
    pipe::{AnyPipe, Entry},
    settings::ForsakenAfter,
};
use crate::{
    pipeline::{Inbound, Op, Signal, last_words},
    task_error::tell,
};
use std::{any::Any, time::Duration};

/// A host without its pipeline.
pub struct Inside<M> {
    pub(super) core: ChannelCore,
    /// What waits to be sent. How much that is, the core's account knows.
    pub(super) line: MessageLine<M>,
    pub(super) forsaken_after: ForsakenAfter,
    pub(super) was_active: bool,
    /// The socket is closed.
    pub(super) ended: bool,
    /// A handler panicked, or the pipeline has been told of the end.
    pub(super) silent: bool,
    pub(super) removed: bool,
}

/// What may follow from a call of a pipeline, beyond what follows nearly always.
pub enum Rest {
    /// Something waits inside, or there is news of room.
    Settle,
    /// A handler panicked with this.
    BreakDown(String),
    /// The loop has let the channel go.
    LetGo,
}

impl<M> Inside<M> {
    pub(super) fn new(core: ChannelCore, forsaken_after: Duration) -> Self {
        Self {
            core,
            line: MessageLine::new(),
            forsaken_after: forsaken_after.into(),
            was_active: false,
            ended: false,
            silent: false,
            removed: false,
        }
    }

    #[inline(always)]
    pub(super) fn outbound(&mut self) -> Outbound<'_, M> {
        Outbound::of(&mut self.core.account, &mut self.line)
    }
}

impl<M: Parcel> Inside<M> {
    #[inline]
    pub(super) fn flush(&mut self) {
        if !self.core.has_output_ended() {
            self.outbound().flush();
            self.core.wishes.flush = true;
        }
    }

    /// Does all that follows from a call. Nearly always nothing does, beyond what was asked for.
    pub(super) fn settle(&mut self, pipe: &mut dyn AnyPipe<M>) {
        pipe.carry_out(self);
        if !self.core.comes_to_rest() {
            self.settle_rest(pipe);
        }
    }

    fn settle_rest(&mut self, pipe: &mut dyn AnyPipe<M>) {
        loop {
            pipe.carry_out(self);
            if self.hold_back(pipe) || self.tell_writability_once(pipe) || self.tell_room(pipe) {
                continue; // what it caused comes first, also while paused
            }
            if self.silent {
                break;
            }
            match self.step(pipe) {
                Ok(true) => {}
                Ok(false) if pipe.has_ops() => {}
                Ok(false) if self.flush_for_pause(pipe) => {}
                Ok(false) => break,
                Err(message) => return self.break_down(pipe, message),
            }
        }
        self.core.call_over();
    }

    /// Whoever answers messages faster than the peer takes the answers gets no more until it has taken them. What was written
    /// so far is flushed, or it would never be taken.
    fn hold_back(&mut self, pipe: &mut dyn AnyPipe<M>) -> bool {
        if self.core.demand.is_full() && self.core.account.is_writable() {
            return self.let_go_on(); // there was no news of it: what was too much was cancelled
        }
        if !self.core.given.hold_back
            || !self.core.has_too_many_answers()
            || !self.core.demand.too_many_answers()
        {
            return false;
        }
        self.tell_only(pipe, Entry::Tail(Op::Flush));
        true
    }

    /// There is room for answers: what flowed before does so again. True if so.
    pub(super) fn let_go_on(&mut self) -> bool {
        let flows = self.core.demand.room();
        self.core.unrest.may_wait(flows);
        flows
    }

    /// Delivers one thing that waits inside, if anything may.
    fn step(&mut self, pipe: &mut dyn AnyPipe<M>) -> Result<bool, String> {
        if !self.core.unrest.is_waiting() {
            return Ok(false);
        }
        let stepped = pipe.enter(self, Entry::Step)?;
        self.core.unrest.looked(stepped);
        Ok(stepped)
    }

    /// A `read_complete` that waits behind held messages cannot tell anybody to flush, and who paused for lack of room
    /// would wait for ever for what was never sent. So what was written before the pause is flushed here.
    fn flush_for_pause(&mut self, pipe: &mut dyn AnyPipe<M>) -> bool {
        if !self.core.demand.is_stopped()
            || self.core.demand.is_away()
            || !pipe.is_holding()
            || !self.core.unrest.delivered.take(Delivered::SINCE_FLUSH)
        {
            return false;
        }
        self.tell_only(pipe, Entry::Tail(Op::Flush));
        true
    }

    /// Calls the pipeline, and leaves to others what follows from it.
    #[cold]
    fn tell_only(&mut self, pipe: &mut dyn AnyPipe<M>, entry: Entry) {
        if let Err(message) = pipe.enter(self, entry) {
            self.break_down(pipe, message);
        }
    }

    /// Somebody stopped because of what one call wrote, but the queue took it without being full.
    fn tell_room(&mut self, pipe: &mut dyn AnyPipe<M>) -> bool {
        if !self.core.writes_settled() || self.silent || self.core.is_closing() {
            return false;
        }
        self.tell_only(pipe, Entry::Event(Inbound::Writability(true)));
        true
    }

    fn tell_writability_once(&mut self, pipe: &mut dyn AnyPipe<M>) -> bool {
        match self.core.account.take_flip() {
            Some(writable) => {
                self.tell_flip(pipe, writable);
                true
            }
            None => false,
        }
    }

    /// There is room, or no more: everybody is told.
    #[cold]
    pub(super) fn tell_flip(&mut self, pipe: &mut dyn AnyPipe<M>, writable: bool) {
        self.core.told_by_queue();
        if let Some(outside) = pipe.outside(self) {
            outside.set_writable(writable);
        }
        if writable {
            self.let_go_on();
        }
        if !self.silent && !self.ended && !self.core.is_closing() {
            self.tell_only(pipe, Entry::Event(Inbound::Writability(writable)));
        }
    }

    #[cold]
    pub(super) fn break_down(&mut self, pipe: &mut dyn AnyPipe<M>, message: String) {
        let channel = self.core.id;
        tell(|| tracing::error!(%channel, panic = %message, "a handler panicked, closing its channel"));
        if !std::mem::replace(&mut self.silent, true)
            && !self.ended
            && !last_words::after(&message, || self.say_last_words(pipe))
        {
            pipe.drop_ops(); // what was asked for in the call that panicked
        }
        self.core.request_close(CloseCause::Panicked(message), WritePromise::untracked());
    }

    /// Has the stages of a broken pipeline speak, as far as none of them waits for a worker. Tells whether one has.
    fn say_last_words(&mut self, pipe: &mut dyn AnyPipe<M>) -> bool {
        let spoke = pipe.enter(self, Entry::Panicked).unwrap_or_else(|panic| {
            tracing::error!(channel = %self.core.id, %panic, "and one that was asked for last words");
            false
        });
        if spoke {
            pipe.carry_out(self);
        }
        spoke
    }

    /// Something of a broken pipeline is back from a worker: it goes its way to the wire, and others may speak now.
    #[cold]
    pub(super) fn bring_back(&mut self, pipe: &mut dyn AnyPipe<M>, stage: u32, call: Box<dyn Any + Send>) {
        if self.ended {
            return;
        }
        match pipe.enter(self, Entry::Signal(stage, Signal::Return(call))) {
            Ok(_) => pipe.carry_out(self),
            Err(panic) => {
                tracing::error!(channel = %self.core.id, %panic, "a stage of a broken pipeline panicked")
            }
        }
        self.say_last_words(pipe);
    }

    fn see_to(&mut self, pipe: &mut dyn AnyPipe<M>, rest: Rest) {
        match rest {
            Rest::Settle => self.settle_rest(pipe),
            Rest::BreakDown(message) => self.break_down(pipe, message),
            Rest::LetGo => self.let_go_of(pipe),
        }
    }
}

/// Not generic, and so compiled here and not in every user's crate.
#[inline(never)]
pub(in crate::channel) fn see_to_bytes(
    inside: &mut Inside<Outgoing>,
    pipe: &mut dyn AnyPipe<Outgoing>,
    rest: Rest,
) {
    inside.see_to(pipe, rest);
}

pub(in crate::channel) fn see_to_messages<W: 'static>(
    inside: &mut Inside<Weighed<W>>,
    pipe: &mut dyn AnyPipe<Weighed<W>>,
    rest: Rest,
) {
    inside.see_to(pipe, rest);
}
