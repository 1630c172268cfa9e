//! The part of a host that is compiled for each pipeline: how the pipeline is called, and how what it writes gets into the line.
//!
//! Calls that come with every message do all the usual here, with nothing virtual on their way; what is beyond that is the same for
//! all pipelines ([`Parcel::see_to`]).

use super::{
    super::{
        ChannelState, CloseCause, HalfClosure, Pack, Parcel, WriteError, WritePromise,
        core::ChannelCore,
        shared::{ChannelShared, Command},
    },
    inside::{Inside, Rest},
};
use crate::{
    driver::Token,
    pipeline::{Boundary, Inbound, Next, Op, Segment, Signal, StageInfo},
    task_error::catch,
};
use std::{cell::OnceCell, convert::Infallible, sync::Arc};

/// A pipeline in its host, and what other threads share with it.
pub struct Pipe<P: Segment<R, W>, W: 'static, R: 'static> {
    pub(super) root: Boundary<P, R, W>,
    /// What it shares with its handles. A child has it from when somebody asks for a handle; see [`shared`](Self::shared).
    pub(super) shared: OnceCell<Arc<ChannelShared<P::Tail>>>,
}

/// A way into a pipeline that is not that of every message.
pub enum Entry {
    Link,
    Event(Inbound),
    Signal(u32, Signal),
    /// One message that waits inside.
    Step,
    /// Would a message hold up an end?
    Hold,
    Panicked,
    /// What is asked for at the far end, but for messages.
    Tail(Op<Infallible>),
}

/// A pipeline of any type, whose messages wait as `M`.
pub trait AnyPipe<M: Parcel> {
    /// The same as a trait object.
    fn as_any(&mut self) -> &mut dyn AnyPipe<M>;
    /// Calls the pipeline. What it asks for waits. The answer is that of the entry; of a signal, whether it found its stage.
    ///
    /// # Errors
    /// What a handler panicked with.
    fn enter(&mut self, inside: &mut Inside<M>, entry: Entry) -> Result<bool, String>;
    /// The same, and all that follows from it. No of a pipeline that is broken.
    fn run(&mut self, inside: &mut Inside<M>, entry: Entry) -> bool;
    /// The event that comes with nearly every message.
    fn read_complete(&mut self, inside: &mut Inside<M>);
    /// Carries out what the first stage asked for, in order.
    fn carry_out(&mut self, inside: &mut Inside<M>);
    /// Whether the first stage has asked for something that is not carried out.
    fn has_ops(&self) -> bool;
    /// Forgets what was asked for.
    fn drop_ops(&mut self);
    /// Whether a message or an event waits somewhere inside to be asked for.
    fn is_holding(&self) -> bool;
    /// Whether a stage has something under way that comes out by itself.
    fn is_busy(&self) -> bool;
    /// Whether a stage has yet to answer something.
    fn owes(&self) -> bool;
    /// What the stages say together about a peer that sends no more.
    fn half_closure(&self) -> HalfClosure;
    /// Handlers are told that they leave, from the last to the first.
    fn removed(&mut self);
    /// What stages there are.
    fn stages(&self) -> Vec<StageInfo>;
    /// Carries out writes from outside, and has `other` do the rest, in the order in which all of it was asked for. Tells whether there is room again for
    /// those who were told that there is none.
    fn run_commands(&mut self, inside: &mut Inside<M>, other: RunCommand<M>) -> bool;
    /// What handles and the loop share, if there are any handles by now.
    fn outside(&self, inside: &Inside<M>) -> Option<&dyn LoopSide>;
}

/// Carries out a command that is no message.
pub(super) type RunCommand<M> = fn(&mut Inside<M>, &mut dyn AnyPipe<M>, Command<Infallible>);

/// The same with what it reads.
pub trait PipeOf<R, M: Parcel>: AnyPipe<M> {
    /// A message from the peer.
    fn received(&mut self, inside: &mut Inside<M>, message: R);
}

/// What the loop does with what it shares with handles, whatever these write.
pub trait LoopSide {
    fn set_token(&self, token: Token);
    fn set_writable(&self, writable: bool);
    fn close(&self, cause: CloseCause);
    fn leave(&self);
    fn state(&self) -> ChannelState;
}

impl<P, W, R> Pipe<P, W, R>
where
    P: Segment<R, W>,
    W: 'static,
    R: 'static,
{
    /// What the channel shares with its handles, if there are any by now.
    #[inline]
    pub(super) fn shared(&self, core: &ChannelCore) -> Option<&Arc<ChannelShared<P::Tail>>> {
        match self.shared.get() {
            None if core.has_handle() => self.look_for_shared(core),
            known => known,
        }
    }

    /// A stage may have asked for a handle since this was asked last.
    #[inline(never)]
    fn look_for_shared(&self, core: &ChannelCore) -> Option<&Arc<ChannelShared<P::Tail>>> {
        let made = core.own_handle()?;
        Some(self.shared.get_or_init(|| made))
    }

    /// A write from outside is here. True if with it there is room again for others on their way.
    fn arrived<M>(&self, inside: &Inside<M>, size: usize) -> bool {
        self.shared(&inside.core).is_some_and(|shared| shared.arrived(size))
    }

    /// Calls the pipeline with a message, then does all that follows from it.
    #[inline(always)]
    fn call<M: Pack<W>>(
        &mut self,
        inside: &mut Inside<M>,
        call: impl FnOnce(&mut Boundary<P, R, W>, &mut ChannelCore),
    ) {
        if inside.silent {
            return;
        }
        let (root, core) = (&mut self.root, &mut inside.core);
        match catch(|| call(root, core)) {
            Ok(()) => self.settle(inside),
            Err(message) => M::see_to(inside, self, Rest::BreakDown(message)),
        }
    }

    /// Does all that follows from a call. Nearly always that is one write or one flush, and then nothing.
    #[inline]
    fn settle<M: Pack<W>>(&mut self, inside: &mut Inside<M>) {
        self.carry_next_out(inside);
        if !inside.core.comes_to_rest() {
            self.settle_rest(inside);
        }
    }

    /// Messages that wait inside, one after the other, as long as nothing else is to be seen to.
    #[inline(never)]
    fn settle_rest<M: Pack<W>>(&mut self, inside: &mut Inside<M>) {
        while !inside.silent && !inside.ended && inside.core.steps_freely() {
            let (root, core) = (&mut self.root, &mut inside.core);
            match catch(|| root.step(core)) {
                Ok(stepped) => inside.core.unrest.looked(stepped),
                Err(message) => return M::see_to(inside, self, Rest::BreakDown(message)),
            }
            self.carry_next_out(inside);
            if inside.core.comes_to_rest() {
                return;
            }
        }
        M::see_to(inside, self, Rest::Settle);
    }

    #[inline]
    fn carry_next_out<M: Pack<W>>(&mut self, inside: &mut Inside<M>) {
        if self.root.ops().take_lone_flush() {
            inside.flush();
        } else if self.root.has_ops() {
            self.carry_all_out(inside);
        }
    }

    #[inline(never)]
    fn carry_all_out<M: Pack<W>>(&mut self, inside: &mut Inside<M>) {
        while self.root.has_ops() {
            if let Some((msg, done)) = self.root.ops().take_write() {
                self.push(inside, msg, done);
            } else if self.root.ops().take_flush() {
                inside.flush();
            } else if let Some(op) = self.root.ops().take_rest() {
                match op {
                    Op::Write(msg, done) => self.push(inside, msg, done),
                    Op::Flush => inside.flush(),
                    Op::Close(cause, done) => inside.core.ask_to_close(cause, done),
                    Op::ShutDownOutput(done) => inside.core.ask_to_shut_down_output(done),
                }
            } else {
                break;
            }
        }
    }

    #[inline(always)]
    fn push<M: Pack<W>>(&mut self, inside: &mut Inside<M>, msg: W, done: WritePromise) {
        // Once it has ended, the queue itself says why.
        if !inside.ended
            && inside.core.has_output_ended()
            && let Some(error) = inside.core.output_ended()
        {
            return refuse(msg, done, error);
        }
        let (weight, whole) = (self.root.ops().weight(), inside.core.given.whole_messages);
        match catch(|| M::pack(msg, weight)) {
            Ok(message) if whole => inside.outbound().push(message.whole(), done),
            Ok(message) => inside.outbound().push(message, done),
            Err(panic) => {
                done.fail(WriteError::Closed(CloseCause::Panicked(panic.clone())));
                M::see_to(inside, self, Rest::BreakDown(panic));
            }
        }
    }

    pub(super) fn write_at_tail<M: Pack<W>>(
        &mut self,
        inside: &mut Inside<M>,
        msg: P::Tail,
        done: WritePromise,
    ) {
        if inside.silent {
            let cause = inside.core.close_cause().cloned().unwrap_or(CloseCause::Requested);
            return done.fail(WriteError::Closed(cause));
        }
        self.call(inside, |root, core| root.enter_at_tail(core, Op::Write(msg, done)));
    }
}

/// The message first, so that it is released when somebody hears of it.
#[cold]
fn refuse<W>(msg: W, done: WritePromise, error: WriteError) {
    drop(msg);
    done.fail(error);
}

impl<P, W, R, M> AnyPipe<M> for Pipe<P, W, R>
where
    P: Segment<R, W>,
    W: 'static,
    R: 'static,
    M: Pack<W>,
{
    fn as_any(&mut self) -> &mut dyn AnyPipe<M> {
        self
    }

    #[inline(never)]
    fn enter(&mut self, inside: &mut Inside<M>, entry: Entry) -> Result<bool, String> {
        let (root, core) = (&mut self.root, &mut inside.core);
        catch(|| match entry {
            Entry::Link => {
                root.link(core);
                true
            }
            Entry::Event(event) => {
                root.event(core, event);
                true
            }
            Entry::Signal(stage, signal) => root.signal(core, stage, signal).is_none(),
            Entry::Step => root.step(core),
            Entry::Hold => root.would_hold_up(core),
            Entry::Panicked => root.panicked(core),
            Entry::Tail(op) => {
                root.enter_at_tail(core, op.of_any());
                true
            }
        })
    }

    fn run(&mut self, inside: &mut Inside<M>, entry: Entry) -> bool {
        if inside.silent {
            return false;
        }
        match self.enter(inside, entry) {
            Ok(answer) => {
                self.settle(inside);
                answer
            }
            Err(message) => {
                M::see_to(inside, self, Rest::BreakDown(message));
                false
            }
        }
    }

    fn read_complete(&mut self, inside: &mut Inside<M>) {
        self.call(inside, |root, core| root.read_complete(core));
    }

    fn carry_out(&mut self, inside: &mut Inside<M>) {
        self.carry_all_out(inside);
    }

    fn has_ops(&self) -> bool {
        self.root.has_ops()
    }

    fn drop_ops(&mut self) {
        drop(self.root.ops().take_all());
    }

    fn is_holding(&self) -> bool {
        self.root.is_holding()
    }

    fn is_busy(&self) -> bool {
        self.root.is_busy()
    }

    fn owes(&self) -> bool {
        self.root.owes()
    }

    fn half_closure(&self) -> HalfClosure {
        self.root.half_closure()
    }

    fn removed(&mut self) {
        self.root.removed();
    }

    fn stages(&self) -> Vec<StageInfo> {
        let mut list = Vec::new();
        self.root.stages(&mut list);
        list
    }

    fn run_commands(&mut self, inside: &mut Inside<M>, other: RunCommand<M>) -> bool {
        let Some(shared) = self.shared(&inside.core) else { return false }; // nobody has a handle
        let mut commands = shared.take_commands();
        let mut room_again = false;
        for command in commands.drain(..) {
            match command.without_message() {
                Ok((msg, done, size)) => {
                    room_again |= self.arrived(inside, size);
                    self.write_at_tail(inside, msg, done);
                }
                Err(Command::Inlet(stage, size)) => {
                    room_again |= self.arrived(inside, size);
                    other(inside, self, Command::Inlet(stage, size));
                }
                Err(command) => other(inside, self, command),
            }
        }
        if let Some(shared) = self.shared(&inside.core) {
            shared.give_back(commands);
        }
        room_again
    }

    fn outside(&self, inside: &Inside<M>) -> Option<&dyn LoopSide> {
        self.shared(&inside.core).map(|shared| &**shared as &dyn LoopSide)
    }
}

impl<P, W, R, M> PipeOf<R, M> for Pipe<P, W, R>
where
    P: Segment<R, W>,
    W: 'static,
    R: 'static,
    M: Pack<W>,
{
    fn received(&mut self, inside: &mut Inside<M>, message: R) {
        self.call(inside, |root, core| root.read(core, message));
    }
}

impl<W> LoopSide for ChannelShared<W> {
    fn set_token(&self, token: Token) {
        ChannelShared::set_token(self, token);
    }
    fn set_writable(&self, writable: bool) {
        ChannelShared::set_writable(self, writable);
    }
    fn close(&self, cause: CloseCause) {
        ChannelShared::close(self, cause);
    }
    fn leave(&self) {
        ChannelShared::leave(self);
    }
    fn state(&self) -> ChannelState {
        ChannelShared::state(self)
    }
}
