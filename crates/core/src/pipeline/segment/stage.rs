//! A handler in its place.

use super::{
    super::{Context, Glance, Handler, Inbound, NamedStage, Op, Signal},
    Boundary, Next, Out, Segment, StageInfo, Writes,
    boundary::{Held, Later},
};
use crate::{
    channel::{CarriedBy, ChannelCore, CloseCause, HalfClosure, Weight, WritePromise},
    task_error::{catch, tell},
};
use std::{
    any::{Any, TypeId},
    convert::Infallible,
};

pub(super) type Asked<N> = <N as Writes>::Message;
pub(super) type EndOf<N, H> = <N as Segment<<H as Handler>::ReadOut, Asked<N>>>::Tail;

/// A handler and what lies behind it, which writes what the handler takes, or what is [carried](crate::Carries) by that.
pub struct Stage<H: Handler, N: Writes> {
    handler: H,
    /// The name that it was given, which few are: one pointer until one is.
    #[allow(clippy::redundant_allocation)] // half the size in every idle channel
    name: Option<Box<&'static str>>,
    id: u32,
    /// Whether the handler may have something to be pulled.
    more: bool,
    /// Whether it ever has: most handlers do not, and say so when they are asked first.
    pulls: bool,
    /// The handler has heard that it leaves, or was asked for last words: nothing else is for it.
    parted: bool,
    /// It is known that the handler keeps nothing of a conversation.
    forgets: bool,
    reads: u64,
    writes: u64,
    rest: Boundary<N, H::ReadOut, N::Message>,
}

impl<H, N> Stage<H, N>
where
    H: Handler,
    N: Writes<Message: CarriedBy<H::Write>> + Segment<H::ReadOut, Asked<N>>,
{
    pub(in crate::pipeline) fn new(handler: H, name: Option<&'static str>, forgets: bool, next: N) -> Self {
        Self {
            handler,
            name: name.map(Box::new),
            id: 0,
            more: false,
            pulls: !H::PASSES,
            parted: false,
            forgets,
            reads: 0,
            writes: 0,
            rest: Boundary::new(next),
        }
    }

    fn name(&self) -> &'static str {
        self.name.as_deref().copied().unwrap_or_else(|| self.handler.name())
    }

    /// Where the stages behind a handler that lets everything pass put what they ask for: where the handler would. `None` of one whose neighbours write
    /// another type than it takes. That is known when this is compiled, and asked behind `H::PASSES`, so that for any other handler there is no code.
    #[inline(always)]
    fn beside<'o>(out: &'o mut Out<'_, H::WriteOut>) -> Option<Out<'o, N::Message>> {
        if TypeId::of::<H::Read>() != TypeId::of::<H::ReadOut>() {
            return None;
        }
        Some(Out { ops: same(out.ops)?, core: out.core })
    }

    /// Calls the stages behind a handler that lets everything pass; it is told if they ask something of the wire.
    #[inline(always)]
    fn pass<T>(
        &mut self,
        inner: &mut Out<'_, N::Message>,
        call: impl FnOnce(&mut N, &mut Out<'_, N::Message>) -> T,
    ) -> T {
        let before = inner.ops.len();
        let result = call(&mut self.rest.segment, inner);
        if inner.ops.len() != before {
            self.handler.passed_write(Glance::at(inner.core));
        }
        result
    }

    /// Runs the handler, then what the stages behind it asked for meanwhile.
    fn run<T>(
        &mut self,
        out: &mut Out<'_, H::WriteOut>,
        call: impl FnOnce(&mut H, &mut Context<'_, H>) -> T,
    ) -> T {
        let mut cx = Context { next: &mut self.rest, ops: out.ops, core: out.core, stage: self.id };
        let result = call(&mut self.handler, &mut cx);
        self.settle(out);
        result
    }

    fn may_have_more(&mut self, core: &mut ChannelCore) {
        self.more = self.pulls;
        core.unrest.may_wait(self.pulls);
    }

    fn pull(&mut self, out: &mut Out<'_, H::WriteOut>) -> Option<H::ReadOut> {
        out.core.unrest.asks();
        let message = self.run(out, |handler, cx| handler.pull(cx));
        if message.is_none() {
            self.more = false;
            self.pulls = !out.core.unrest.is_never_asked_again();
        }
        message
    }

    #[inline]
    fn settle(&mut self, out: &mut Out<'_, H::WriteOut>) {
        if !self.rest.ops.is_empty() {
            self.drain(out);
        }
    }

    /// Carries out what the stages behind the handler asked for.
    #[inline(never)]
    fn drain(&mut self, out: &mut Out<'_, H::WriteOut>) {
        while !self.rest.ops.is_empty() {
            if let Some((msg, done)) = self.rest.ops.take_write() {
                self.write(out, msg.carried(), done);
            } else if self.rest.ops.take_flush() {
                self.flush(out);
            } else if let Some(op) = self.rest.ops.take_rest() {
                self.carry_out(out, op);
            }
        }
    }

    #[inline]
    fn write(&mut self, out: &mut Out<'_, H::WriteOut>, msg: H::Write, done: WritePromise) {
        self.writes += 1;
        let mut cx = Context { next: &mut self.rest, ops: out.ops, core: out.core, stage: self.id };
        self.handler.write(&mut cx, msg, done);
        self.may_have_more(out.core); // a decoder may have waited for this very answer
    }

    #[inline]
    fn flush(&mut self, out: &mut Out<'_, H::WriteOut>) {
        let mut cx = Context { next: &mut self.rest, ops: out.ops, core: out.core, stage: self.id };
        self.handler.flush(&mut cx);
    }

    #[cold]
    fn carry_out(&mut self, out: &mut Out<'_, H::WriteOut>, op: Op<N::Message>) {
        match op {
            Op::Write(msg, done) => self.write(out, msg.carried(), done),
            Op::Flush => self.flush(out),
            Op::Close(cause, done) => {
                let mut cx = Context { next: &mut self.rest, ops: out.ops, core: out.core, stage: self.id };
                self.handler.close(&mut cx, cause, done);
            }
            Op::ShutDownOutput(done) => {
                let mut cx = Context { next: &mut self.rest, ops: out.ops, core: out.core, stage: self.id };
                self.handler.shut_down_output(&mut cx, done);
            }
        }
    }
}

impl<H: Handler, N: Writes> Writes for Stage<H, N> {
    type Message = H::WriteOut;
}

impl<H, N> Segment<H::Read, H::WriteOut> for Stage<H, N>
where
    H: Handler,
    N: Writes<Message: CarriedBy<H::Write>> + Segment<H::ReadOut, Asked<N>>,
{
    type Tail = EndOf<N, H>;

    fn is_end(&self) -> bool {
        // What reads messages that cannot exist stands behind the last stage, like the end itself.
        TypeId::of::<H::Read>() == TypeId::of::<Infallible>()
    }

    fn weigh(&mut self, taker: Weight<H::WriteOut>) -> Weight<Self::Tail> {
        // What is said of messages is said of those that are taken as they are.
        let taken = H::WEIGHT.or_as_before(taker);
        self.rest.weigh(Weight::unsaid().or_as_before(taken))
    }

    fn link(&mut self, out: &mut Out<'_, H::WriteOut>) {
        self.id = out.core.next_stage_id();
        if let Some(name) = self.name.as_deref() {
            publish(out, NamedStage::new(name, self.id, self.handler.target()));
        }
        // Nobody behind it has been added: what it fires waits at the boundary until they have.
        let next = &mut Later { held: &mut self.rest.held };
        let mut cx = Context { next, ops: out.ops, core: out.core, stage: self.id };
        self.handler.added(&mut cx);
        self.rest.segment.link(&mut Out { ops: &mut self.rest.ops, core: out.core });
        self.settle(out);
    }

    fn read(&mut self, out: &mut Out<'_, H::WriteOut>, msg: H::Read) {
        if H::PASSES
            && self.rest.held.is_empty()
            && !self.rest.segment.is_end()
            && let Some(mut inner) = Self::beside(out)
        {
            let mut msg = Some(msg);
            if let Some(msg) = same::<_, Option<H::ReadOut>>(&mut msg).and_then(Option::take) {
                let before = inner.ops.len();
                self.rest.segment.read(&mut inner, msg);
                let wrote = inner.ops.len() != before;
                self.handler.passed_read(Glance::at(inner.core), wrote);
            }
            return;
        }
        if self.rest.segment.is_end() {
            out.core.demand.delivered();
        }
        self.reads += 1;
        self.may_have_more(out.core);
        out.core.unrest.delivered.mark();
        self.run(out, |handler, cx| handler.read(cx, msg));
    }

    fn event(&mut self, out: &mut Out<'_, H::WriteOut>, event: Inbound) {
        self.run(out, |handler, cx| match event {
            Inbound::Active => handler.active(cx),
            Inbound::ReadComplete => handler.read_complete(cx),
            Inbound::Writability(writable) => handler.writability(cx, writable),
            Inbound::InputClosed => handler.input_closed(cx),
            Inbound::Error(fault) => handler.error(cx, fault),
            Inbound::User(event) => handler.event(cx, event),
            Inbound::Inactive(cause) => handler.inactive(cx, cause),
        });
    }

    fn read_complete(&mut self, out: &mut Out<'_, H::WriteOut>) {
        if H::PASSES
            && self.rest.held.is_empty()
            && !out.core.demand.is_away()
            && let Some(mut inner) = Self::beside(out)
            && !self.rest.segment.blocked(&mut inner)
        {
            return self.pass(&mut inner, |next, inner| next.read_complete(inner));
        }
        let mut cx = Context { next: &mut self.rest, ops: out.ops, core: out.core, stage: self.id };
        self.handler.read_complete(&mut cx);
        // What stages behind it ask for now is nearly always one flush.
        if self.rest.ops.take_lone_flush() {
            self.flush(out);
        }
        self.settle(out);
    }

    fn step(&mut self, out: &mut Out<'_, H::WriteOut>) -> bool {
        if H::PASSES
            && let Some(mut inner) = Self::beside(out)
        {
            if self.pass(&mut inner, |next, inner| next.step(inner)) {
                return true;
            }
            if self.rest.held.is_empty() {
                return false;
            }
        }
        if self.rest.step(out.core) {
            self.settle(out);
            return true;
        }
        if !self.more || out.core.demand.is_forsaken() || out.core.demand.is_paused() {
            return false;
        }
        match self.pull(out) {
            Some(msg) => {
                self.rest.read(out.core, msg);
                self.settle(out);
                true
            }
            None => {
                !out.ops.is_empty() // it had no message to give, but something to say
            }
        }
    }

    fn blocked(&mut self, out: &mut Out<'_, H::WriteOut>) -> bool {
        if !self.more || out.core.demand.is_forsaken() {
            return false;
        }
        if !self.rest.held.is_empty() {
            return true; // one is enough: the handler is not asked for a second
        }
        // Whether the handler holds a message shows only when it is asked for one. It then waits behind the handler.
        match self.pull(out) {
            Some(msg) => {
                self.rest.held.push_back(Held::Message(msg));
                out.core.unrest.waits();
                true
            }
            None => {
                // Asked for the event's sake: whether it has something to say once messages are wanted is another question.
                self.more = self.pulls && out.core.demand.is_paused();
                self.handler.is_away() // it answers later
            }
        }
    }

    fn would_hold_up(&mut self, out: &mut Out<'_, H::WriteOut>) -> bool {
        let holds = self.rest.has_message()
            || self.rest.held.is_empty() && self.blocked(out) && self.rest.has_message()
            || self.rest.would_hold_up(out.core);
        self.settle(out);
        holds
    }

    fn enter_at_tail(&mut self, out: &mut Out<'_, H::WriteOut>, op: Op<Self::Tail>) {
        if H::PASSES
            && let Some(mut inner) = Self::beside(out)
        {
            return self.pass(&mut inner, |next, inner| next.enter_at_tail(inner, op));
        }
        let inner = &mut Out { ops: &mut self.rest.ops, core: out.core };
        self.rest.segment.enter_at_tail(inner, op);
        self.settle(out);
    }

    fn signal(&mut self, out: &mut Out<'_, H::WriteOut>, stage: u32, signal: Signal) -> Option<Signal> {
        if stage == self.id {
            if self.parted && !self.handler.is_away() {
                return None;
            }
            self.run(out, |handler, cx| match signal {
                Signal::Timer(timer) => handler.timer(cx, timer),
                Signal::Call(call) => handler.called(cx, call),
                Signal::Return(call) if handler.is_away() => handler.called(cx, call),
                Signal::Return(_) => {}
                Signal::Poll(task) => handler.polled(cx, task),
                Signal::Children => handler.children_ready(cx),
                Signal::Inlet => {} // for sealed segments, which have numbers of their own
            });
            self.may_have_more(out.core);
            return None;
        }
        if H::PASSES
            && let Some(mut inner) = Self::beside(out)
        {
            return self.pass(&mut inner, |next, inner| next.signal(inner, stage, signal));
        }
        let inner = &mut Out { ops: &mut self.rest.ops, core: out.core };
        let left = self.rest.segment.signal(inner, stage, signal);
        self.settle(out);
        left
    }

    fn is_holding(&self) -> bool {
        self.rest.is_holding()
    }

    fn is_busy(&self) -> bool {
        self.handler.is_busy() || self.rest.is_busy()
    }

    fn is_away(&self) -> bool {
        self.handler.is_away() || self.rest.segment.is_away()
    }

    fn owes(&self) -> bool {
        self.handler.owes() || self.rest.segment.owes()
    }

    fn half_closure(&self) -> HalfClosure {
        self.handler.half_closure().and(self.rest.half_closure())
    }

    fn leave(&mut self, out: &mut Out<'_, H::WriteOut>) -> bool {
        let left = self.rest.segment.leave(&mut Out { ops: &mut self.rest.ops, core: out.core });
        self.settle(out);
        if !left || self.handler.is_away() {
            return false;
        }
        if std::mem::replace(&mut self.parted, true) {
            return true;
        }
        // Only what the first stage has is of a type that a successor can read: see `leftover`.
        let lost = self.rest.held.count(Held::is_message);
        if lost > 0 {
            lose(out.core, self.name(), lost);
        }
        self.run(out, |handler, cx| {
            handler.flush(cx); // what it has gathered of the writes of stages behind it
            handler.leaving(cx);
        });
        !self.handler.is_away()
    }

    fn panicked(&mut self, out: &mut Out<'_, H::WriteOut>) -> bool {
        // What was asked of a stage in the call that panicked is left alone, unless somebody behind it speaks.
        let before = out.ops.len();
        if self.rest.panicked(out.core) {
            self.settle(out);
        } else if !self.parted {
            drop(self.rest.ops.take_all());
        }
        if self.rest.segment.is_away() || self.handler.is_away() || std::mem::replace(&mut self.parted, true)
        {
            return out.ops.len() > before; // not yet, or not again
        }
        let mut cx = Context { next: &mut self.rest, ops: out.ops, core: out.core, stage: self.id };
        self.handler.panicked(&mut cx);
        out.ops.len() > before
    }

    fn start_over(&mut self) -> bool {
        let all = self.rest.start_over() && !self.parted && (self.forgets || self.handler.start_over());
        (self.more, self.reads, self.writes) = (false, 0, 0);
        all
    }

    fn removed(&mut self) {
        self.rest.segment.removed();
        if let Err(panic) = catch(|| self.handler.removed()) {
            tell_of_removal(self.name(), &panic);
        }
    }

    fn leftover(&mut self) -> super::super::Leftover<H::Read> {
        self.handler.leftover()
    }

    fn stages(&self, list: &mut Vec<StageInfo>) {
        let (name, handler) = (self.name(), self.handler.name());
        let (reads, writes, weighed) = (self.reads, self.writes, self.rest.ops.weight().tells_all());
        list.push(StageInfo { name, handler, reads, writes, weighed });
        self.rest.segment.stages(list);
    }
}

/// Lets others find a stage by its name. A name that is taken is a mistake of whoever made the pipeline: the channel does
/// not go on with one stage that is taken for another.
#[cold]
pub(super) fn publish<W>(out: &mut Out<'_, W>, stage: NamedStage) {
    if let Err(error) = out.core.publish_stage(stage) {
        let cause = CloseCause::Fault(error.into());
        out.ops.push(Op::Close(cause, WritePromise::untracked()));
    }
}

/// The same, if the two types are one.
#[inline(always)]
pub(super) fn same<A: 'static, B: 'static>(value: &mut A) -> Option<&mut B> {
    (value as &mut dyn Any).downcast_mut()
}

// What is told in the log, apart from what is compiled for each stage.

#[cold]
pub(super) fn lose(core: &mut ChannelCore, stage: &'static str, lost: usize) {
    core.unrest.lost(lost);
    let channel = core.id;
    tell(|| {
        tracing::warn!(%channel, stage, lost, "messages waited behind this stage when its segment was exchanged");
    });
}

#[cold]
pub(super) fn tell_of_removal(stage: &'static str, panic: &str) {
    tell(|| tracing::error!(stage, %panic, "a handler panicked while it was removed"));
}
