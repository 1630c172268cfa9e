//! A call of the pipeline, and all that follows from it.

use super::{
    super::{
        CloseCause, Pack, WriteError, WritePromise,
        core::{ChannelCore, Delivered},
    },
    Host,
};
use crate::{
    pipeline::{Boundary, Inbound, Next, Op, Segment, Signal},
    task_error::{catch, tell},
};
use std::any::Any;

impl<P, W, R, M> Host<P, W, R, M>
where
    P: Segment<R, W>,
    W: 'static,
    R: 'static,
    M: Pack<W>,
{
    /// Calls the pipeline, then does all that follows from it.
    pub(super) fn run<T>(&mut self, call: impl FnOnce(&mut Boundary<P, R, W>, &mut ChannelCore) -> T) {
        if self.silent {
            return;
        }
        let (root, core) = (&mut self.root, &mut self.core);
        match catch(|| drop(call(root, core))) {
            Ok(()) => self.settle(),
            Err(message) => self.break_down(message),
        }
    }

    /// Does all that follows from a call. Nearly always that is one write or one flush, and then nothing.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.root.ops().take_lone_flush() {
            self.flush();
        } else if self.root.has_ops() {
            self.carry_out();
        }
        if !self.core.comes_to_rest() {
            self.settle_rest();
        }
    }

    #[inline(never)]
    fn settle_rest(&mut self) {
        loop {
            if self.root.has_ops() {
                self.carry_out();
            }
            if self.hold_back() || self.tell_writability_once() || self.tell_room() {
                continue; // what it caused comes first, also while paused
            }
            if self.silent {
                break;
            }
            match self.step() {
                Ok(true) => {}
                Ok(false) if self.root.has_ops() => {}
                Ok(false) if self.flush_for_pause() => {}
                Ok(false) => break,
                Err(message) => return self.break_down(message),
            }
        }
        self.core.call_over();
    }

    /// Whoever answers messages faster than the peer takes the answers gets no more until it has taken them. What was written
    /// so far is flushed, or it would never be taken.
    #[inline]
    fn hold_back(&mut self) -> bool {
        if self.core.demand.is_full() && self.core.account.is_writable() {
            return self.let_go_on(); // there was no news of it: what was too much was cancelled
        }
        if !self.core.hold_back || !self.core.has_too_many_answers() || !self.core.demand.too_many_answers() {
            return false;
        }
        self.flush_at_tail();
        true
    }

    /// There is room for answers: what flowed before does so again. True if so.
    pub(super) fn let_go_on(&mut self) -> bool {
        let flows = self.core.demand.room();
        self.core.waiting_inside |= flows;
        flows
    }

    /// Carries out what the first stage asked for, in order.
    #[inline(never)]
    fn carry_out(&mut self) {
        while self.root.has_ops() {
            if let Some((msg, done)) = self.root.ops().take_write() {
                self.push(msg, done);
            } else if self.root.ops().take_flush() {
                self.flush();
            } else if !self.carry_out_next() {
                break;
            }
        }
    }

    /// Carries out the next operation that has no place of its own. False if there is none.
    #[inline(never)]
    fn carry_out_next(&mut self) -> bool {
        let Some(op) = self.root.ops().take_rest() else { return false };
        match op {
            Op::Write(msg, done) => self.push(msg, done),
            Op::Flush => self.flush(),
            Op::Close(cause, done) => {
                self.core.request_close(cause, done);
                // What is under way on workers was there before it, and is written first.
                self.core.wishes.closing |= !self.is_busy();
            }
            Op::ShutDownOutput(done) => {
                self.core.wishes.shut_down_output = true;
                if done.is_tracked() {
                    self.core.wishes.shut_down_done.push_back(done);
                }
            }
        }
        true
    }

    /// Delivers one thing that waits inside, if anything may.
    #[inline]
    fn step(&mut self) -> Result<bool, String> {
        if self.core.waiting_inside { self.step_inside() } else { Ok(false) }
    }

    #[inline(never)]
    fn step_inside(&mut self) -> Result<bool, String> {
        let (root, core) = (&mut self.root, &mut self.core);
        let stepped = catch(|| root.step(core))?;
        self.core.waiting_inside = stepped;
        Ok(stepped)
    }

    /// A `read_complete` that waits behind held messages cannot tell anybody to flush, and who paused for lack of room
    /// would wait for ever for what was never sent. So what was written before the pause is flushed here.
    fn flush_for_pause(&mut self) -> bool {
        if !self.core.demand.is_stopped()
            || self.core.demand.is_away()
            || !self.root.is_holding()
            || !self.core.delivered.take(Delivered::SINCE_FLUSH)
        {
            return false;
        }
        self.flush_at_tail();
        true
    }

    #[cold]
    fn flush_at_tail(&mut self) {
        let (root, core) = (&mut self.root, &mut self.core);
        if let Err(message) = catch(|| root.enter_at_tail(core, Op::Flush)) {
            self.break_down(message);
        }
    }

    #[inline]
    pub(super) fn flush(&mut self) {
        if !self.core.has_output_ended() {
            self.outbound().flush();
            self.core.wishes.flush = true;
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, msg: W, done: WritePromise) {
        // Once it has ended, the queue itself says why.
        if !self.ended
            && self.core.has_output_ended()
            && let Some(error) = self.core.output_ended()
        {
            return refuse(msg, done, error);
        }
        let (weight, whole) = (self.root.ops().weight(), self.core.whole_messages);
        match catch(|| M::pack(msg, weight)) {
            Ok(message) if whole => self.outbound().push(message.whole(), done),
            Ok(message) => self.outbound().push(message, done),
            Err(panic) => self.break_down_with(done, panic),
        }
    }

    #[cold]
    fn break_down_with(&mut self, done: WritePromise, panic: String) {
        done.fail(WriteError::Closed(CloseCause::Panicked(panic.clone())));
        self.break_down(panic);
    }

    pub(super) fn tell_writability(&mut self) {
        if self.tell_writability_once() {
            self.settle();
        }
    }

    /// Somebody stopped because of what one call wrote, but the queue took it without being full.
    #[inline]
    fn tell_room(&mut self) -> bool {
        if !self.core.writes_settled() || self.silent || self.core.is_closing() {
            return false;
        }
        self.tell_room_again();
        true
    }

    #[cold]
    fn tell_room_again(&mut self) {
        let (root, core) = (&mut self.root, &mut self.core);
        if let Err(message) = catch(|| root.event(core, Inbound::Writability(true))) {
            self.break_down(message);
        }
    }

    #[inline]
    fn tell_writability_once(&mut self) -> bool {
        self.core.account.take_flip().is_some_and(|writable| self.tell_flip(writable))
    }

    #[cold]
    fn tell_flip(&mut self, writable: bool) -> bool {
        self.core.told_by_queue();
        if let Some(shared) = self.shared() {
            shared.set_writable(writable);
        }
        if writable {
            self.let_go_on();
        }
        if !self.silent && !self.ended && !self.core.is_closing() {
            let (root, core) = (&mut self.root, &mut self.core);
            if let Err(message) = catch(|| root.event(core, Inbound::Writability(writable))) {
                self.break_down(message);
            }
        }
        true
    }

    #[cold]
    pub(super) fn break_down(&mut self, message: String) {
        let channel = self.core.id;
        tell(|| tracing::error!(%channel, panic = %message, "a handler panicked, closing its channel"));
        if !std::mem::replace(&mut self.silent, true) && !self.ended && !self.say_last_words() {
            drop(self.root.ops().take_all()); // what was asked for in the call that panicked
        }
        self.core.request_close(CloseCause::Panicked(message), WritePromise::untracked());
    }

    /// Has the stages of a broken pipeline speak, as far as none of them waits for a worker. Tells whether one has.
    fn say_last_words(&mut self) -> bool {
        let (root, core) = (&mut self.root, &mut self.core);
        let spoke = catch(|| root.panicked(core)).unwrap_or_else(|panic| {
            tracing::error!(channel = %self.core.id, %panic, "and one that was asked for last words");
            false
        });
        if spoke {
            self.carry_out();
        }
        spoke
    }

    /// Something of a broken pipeline is back from a worker: it goes its way to the wire, and others may speak now.
    #[cold]
    pub(super) fn bring_back(&mut self, stage: u32, call: Box<dyn Any + Send>) {
        if self.ended {
            return;
        }
        let (root, core) = (&mut self.root, &mut self.core);
        match catch(|| drop(root.signal(core, stage, Signal::Return(call)))) {
            Ok(()) => self.carry_out(),
            Err(panic) => {
                tracing::error!(channel = %self.core.id, %panic, "a stage of a broken pipeline panicked")
            }
        }
        self.say_last_words();
    }
}

/// The message first, so that it is released when somebody hears of it.
#[cold]
fn refuse<W>(msg: W, done: WritePromise, error: WriteError) {
    drop(msg);
    done.fail(error);
}
