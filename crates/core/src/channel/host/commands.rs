//! What other threads, or other channels, asked for.

use super::{
    super::{
        ChannelId, CloseCause, Parcel, WriteError, WritePromise,
        core::ChannelCore,
        shared::{Answers, Command},
    },
    HOST,
    inside::Inside,
    pipe::{AnyPipe, Entry},
};
use crate::pipeline::{Inbound, Op, Signal, StageInfo};
use std::{any::Any, convert::Infallible};

impl<M: Parcel> Inside<M> {
    pub(super) fn run_commands(&mut self, pipe: &mut dyn AnyPipe<M>) {
        let room_again = pipe.run_commands(self, Self::run_command);
        let (calls, let_go) = self.core.take_calls();
        for (stage, call) in calls {
            match self.silent {
                _ if stage == HOST => self.close_for_child(pipe, call),
                true => self.bring_back(pipe, stage, call),
                false => drop(pipe.run(self, Entry::Signal(stage, Signal::Call(call)))),
            }
        }
        if let_go {
            self.settle(pipe);
        }
        let woken = self.core.take_woken();
        for &key in &woken {
            let Some((stage, task)) = self.core.take_task(key) else { continue };
            if !self.silent {
                self.core.unrest.delivered.mark_call(); // what it writes answers what its stage has read before
                match pipe.enter(self, Entry::Signal(stage, Signal::Poll(task))) {
                    Ok(found) => {
                        if !found {
                            self.core.abort_task(key); // its stage has gone
                        }
                        self.settle(pipe);
                    }
                    Err(message) => self.break_down(pipe, message),
                }
            }
        }
        self.core.give_woken_back(woken);
        self.look_after_children(pipe);
        if let Some(writable) = self.core.account.take_flip() {
            self.tell_flip(pipe, writable);
            self.settle(pipe);
        }
        if room_again && !self.ended && self.core.account.is_writable() {
            // Whoever stopped because too much was on its way here waits for this.
            pipe.run(self, Entry::Event(Inbound::Writability(true)));
        }
    }

    /// Has stages look whose children have run by themselves and have something to say.
    pub(super) fn look_after_children(&mut self, pipe: &mut dyn AnyPipe<M>) {
        while let Some(stage) = self.core.take_poke() {
            pipe.run(self, Entry::Signal(stage, Signal::Children));
        }
    }

    /// Somebody closes the channel who knows it as a parent.
    #[cold]
    fn close_for_child(&mut self, pipe: &mut dyn AnyPipe<M>, cause: Box<dyn Any + Send>) {
        if let Ok(cause) = cause.downcast::<CloseCause>() {
            self.close_from_outside(pipe, *cause, WritePromise::untracked());
        }
    }

    pub(super) fn close_from_outside(
        &mut self,
        pipe: &mut dyn AnyPipe<M>,
        cause: CloseCause,
        done: WritePromise,
    ) {
        #[cfg(feature = "_planted")]
        if crate::planted::Bug::DroppedClose.is_planted() && self.line.has_flushed() && !self.ended {
            return self.core.wishes.close_done.push_back(done); // when it is sent
        }
        if self.ended {
            done.succeed();
            self.forsake(pipe); // nobody waits for what is held any more
        } else {
            self.core.wishes.wants_no_more = true;
            self.enter_at_tail(pipe, Op::Close(cause, done));
        }
    }

    pub(super) fn close_now_from_outside(&mut self, pipe: &mut dyn AnyPipe<M>, cause: CloseCause) {
        match self.ended {
            true => self.forsake(pipe),
            false => self.core.close_at_once(cause),
        }
    }

    fn run_command(&mut self, pipe: &mut dyn AnyPipe<M>, command: Command<Infallible>) {
        match command {
            Command::Write(never, ..) => match never {},
            // A segment that has gone has taken the message with it, on its way out.
            Command::Inlet(stage, _) => drop(pipe.run(self, Entry::Signal(stage, Signal::Inlet))),
            Command::Flush => self.enter_at_tail(pipe, Op::Flush),
            Command::Close(cause, done) => self.close_from_outside(pipe, cause, done),
            Command::CloseNow(cause) => self.close_now_from_outside(pipe, cause),
            Command::CloseWhenFlushed => {
                self.core.wishes.wants_no_more = true;
                self.core.close_when_flushed();
            }
            Command::ShutDownOutput(done) => self.enter_at_tail(pipe, Op::ShutDownOutput(done)),
            Command::Pause => self.core.demand.pause(),
            Command::Resume => {
                self.core.resume();
                self.settle(pipe);
            }
            Command::Request => {
                self.core.request();
                self.settle(pipe);
            }
            Command::Hold => self.core.demand.hold(),
            Command::LetGo => {
                self.core.let_go_from_outside();
                self.settle(pipe);
            }
            Command::Event(event) => drop(pipe.run(self, Entry::Event(Inbound::User(event)))),
            Command::Ask(question) => question(&Known { core: &self.core, pipe }),
        }
    }

    /// What is asked for at the far end, but for messages.
    pub(super) fn enter_at_tail(&mut self, pipe: &mut dyn AnyPipe<M>, op: Op<Infallible>) {
        if !self.silent {
            pipe.run(self, Entry::Tail(op));
            return;
        }
        match op {
            Op::Write(never, _) => match never {},
            Op::ShutDownOutput(done) => {
                let cause = self.core.close_cause().cloned().unwrap_or(CloseCause::Requested);
                done.fail(WriteError::Closed(cause));
            }
            Op::Close(cause, done) => self.core.request_close(cause, done),
            Op::Flush => {}
        }
    }
}

/// Answers questions.
struct Known<'a, M: Parcel> {
    core: &'a ChannelCore,
    pipe: &'a dyn AnyPipe<M>,
}

impl<M: Parcel> Answers for Known<'_, M> {
    fn stages(&self) -> Vec<StageInfo> {
        self.pipe.stages()
    }
    fn children(&self) -> Vec<ChannelId> {
        self.core.children()
    }
}
