//! How stages nest, and how messages and operations pass between two of them.
//!
//! ```text
//!   Stage<A, Stage<B, End>>
//!
//!     ┌ Stage ─────────────────────────────────────────────────┐
//!     │ handler A      ┌ Boundary ─────────────────────────────┐│
//!     │      │  next   │ held: what may not pass yet           ││
//!     │      └────────▶│ ops:  what B asked of A, in order     ││
//!     │                │ Stage<B, End>                         ││
//!     │                └───────────────────────────────────────┘│
//!     └─────────────────────────────────────────────────────────┘
//! ```
//!
//! Always true:
//! 1. While a handler runs it is mutably borrowed, so nothing can call it: what the stages behind it ask for waits in
//!    `ops` and is carried out when its call has returned (`settle`).
//! 2. Messages and events leave a boundary in the order in which they came to it. While delivery is paused, messages
//!    wait in `held`, and so do the events behind them. Only news of room to write passes by.
//! 3. Messages that a handler can make more of are pulled by `step`, one for each call, deepest stage first: so the
//!    second one is looked at after everything that the first one caused, down to the wire.

use super::{Context, Handler, Inbound, NamedStage, Op, Ops, Signal, waiting::Waiting};
use crate::{
    channel::{CarriedBy, ChannelCore, CloseCause, HalfClosure, Weight, WritePromise},
    task_error::{catch, tell},
};
use std::{any::TypeId, convert::Infallible, marker::PhantomData};

/// Where a segment puts what it asks of the stage before it, and the channel it lives in.
pub struct Out<'a, W> {
    pub(crate) ops: &'a mut Ops<W>,
    pub(crate) core: &'a mut ChannelCore,
}

/// What a piece of a pipeline asks to be written: the `W` of its [`Segment`], which it has for one `W` alone.
#[doc(hidden)]
pub trait Writes: 'static {
    type Message: 'static;
}

/// A piece of a pipeline: reads `R`, asks for `W` to be written. Made by [`pipeline`](super::pipeline); not implemented
/// by hand.
///
/// ```
/// use netwright_core::{Outgoing, Segment, pipeline};
/// use bytes::BytesMut;
///
/// fn is_one(_: &impl Segment<BytesMut, Outgoing>) {}
///
/// is_one(&pipeline().handle(|cx, bytes| cx.write(bytes)).into_segment());
/// ```
pub trait Segment<R, W>: 'static {
    /// What may be written at its far end, from outside the pipeline.
    type Tail: 'static;

    /// Whether no message can come this far, so that the stage before this is the last one.
    #[doc(hidden)]
    fn is_end(&self) -> bool;
    /// Hears what its writes count for, and says what those at its far end do. Before it is linked.
    #[doc(hidden)]
    fn weigh(&mut self, taker: Weight<W>) -> Weight<Self::Tail>;
    #[doc(hidden)]
    fn link(&mut self, out: &mut Out<'_, W>);
    #[doc(hidden)]
    fn read(&mut self, out: &mut Out<'_, W>, msg: R);
    #[doc(hidden)]
    fn event(&mut self, out: &mut Out<'_, W>, event: Inbound);
    /// The event that comes with nearly every message.
    #[doc(hidden)]
    fn read_complete(&mut self, out: &mut Out<'_, W>) {
        self.event(out, Inbound::ReadComplete);
    }
    /// Delivers one message that waits somewhere inside. False if none does or delivery is paused.
    #[doc(hidden)]
    fn step(&mut self, out: &mut Out<'_, W>) -> bool;
    /// Whether the first stage holds a message that has to go before an event may enter.
    #[doc(hidden)]
    fn blocked(&mut self, out: &mut Out<'_, W>) -> bool;
    /// Whether any stage holds a message, so that an end would have to wait for it.
    #[doc(hidden)]
    fn would_hold_up(&mut self, out: &mut Out<'_, W>) -> bool;
    /// An operation that enters at the far end.
    #[doc(hidden)]
    fn enter_at_tail(&mut self, out: &mut Out<'_, W>, op: Op<Self::Tail>);
    /// Finds the stage that a signal is for. Gives the signal back if that has gone.
    #[doc(hidden)]
    fn signal(&mut self, out: &mut Out<'_, W>, stage: u32, signal: Signal) -> Option<Signal>;
    /// Whether a message or an event waits somewhere inside to be asked for.
    #[doc(hidden)]
    fn is_holding(&self) -> bool;
    /// Whether a stage has something under way that comes out by itself.
    #[doc(hidden)]
    fn is_busy(&self) -> bool;
    /// Whether that is on a worker.
    #[doc(hidden)]
    fn is_away(&self) -> bool;
    /// Whether a stage has yet to answer something.
    #[doc(hidden)]
    fn owes(&self) -> bool;
    /// What its stages say together about a peer that sends no more.
    #[doc(hidden)]
    fn half_closure(&self) -> HalfClosure;
    /// The segment is about to be exchanged: what it has accepted goes out now. False while a stage still has something
    /// under way on workers; to be called again when that is back.
    #[doc(hidden)]
    fn leave(&mut self, out: &mut Out<'_, W>) -> bool;
    /// A stage has panicked: whoever has something to say to the peer says it now, deepest stage first. Tells whether anybody has.
    /// To be called again when something is back from workers: stages in front of it have not been asked.
    #[doc(hidden)]
    fn panicked(&mut self, out: &mut Out<'_, W>) -> bool;
    /// A conversation has ended in order: forgets it, to begin another. False if a stage cannot.
    #[doc(hidden)]
    fn start_over(&mut self) -> bool;
    #[doc(hidden)]
    fn removed(&mut self);
    #[doc(hidden)]
    fn leftover(&mut self) -> super::Leftover<R>;
    #[doc(hidden)]
    fn stages(&self, list: &mut Vec<StageInfo>);
}

/// A stage as `Channel::stages` shows it.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
/// let mut stages = channel.channel().stages();
/// channel.run();
/// for stage in stages.wait().unwrap() {
///     println!("{stage:?}");
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageInfo {
    /// The stage's name: the one that it [was given](crate::PipelineBuilder::named), else that of its handler.
    pub name: &'static str,
    /// The handler's own name.
    pub handler: &'static str,
    /// Messages read so far.
    pub reads: u64,
    /// Messages written so far.
    pub writes: u64,
    /// Whether what is written to this stage counts for all the memory that it holds. If not, nobody has
    /// [said](crate::Handler::WEIGHT) how much that is, and messages count for the size of their type alone.
    pub weighed: bool,
}

/// The way on from one stage, as its handler sees it.
pub(crate) trait Next<R> {
    fn read(&mut self, core: &mut ChannelCore, msg: R);
    fn event(&mut self, core: &mut ChannelCore, event: Inbound);
    fn read_complete(&mut self, core: &mut ChannelCore);
    /// What the stages from here on say about a peer that sends no more.
    fn half_closure(&self) -> HalfClosure;
}

enum Held<R> {
    Message(R),
    Event(Inbound),
}

impl<R> Held<R> {
    fn is_message(&self) -> bool {
        matches!(self, Self::Message(_))
    }
}

/// What lies between a handler and the rest of its pipeline.
pub(crate) struct Boundary<N, R, W> {
    segment: N,
    ops: Ops<W>,
    held: Waiting<Held<R>>,
}

impl<R, W: 'static, N: Segment<R, W>> Boundary<N, R, W> {
    pub(crate) fn new(segment: N) -> Self {
        Self { segment, ops: Ops::new(), held: Waiting::new() }
    }

    /// What is written here counts for what `weight` says. Returns what counts at the far end.
    pub(crate) fn weigh(&mut self, weight: Weight<W>) -> Weight<N::Tail> {
        self.ops.set_weight(weight);
        self.segment.weigh(weight)
    }

    // ---- for the channel, whose boundary to the first stage this is ----

    pub(crate) fn link(&mut self, core: &mut ChannelCore) {
        self.segment.link(&mut Out { ops: &mut self.ops, core });
    }

    /// Delivers one message or event that waits somewhere.
    pub(crate) fn step(&mut self, core: &mut ChannelCore) -> bool {
        self.segment.step(&mut Out { ops: &mut self.ops, core }) || self.release(core)
    }

    pub(crate) fn would_hold_up(&mut self, core: &mut ChannelCore) -> bool {
        self.has_message() || self.segment.would_hold_up(&mut Out { ops: &mut self.ops, core })
    }

    /// Whether a message waits here; events that wait alone go on by themselves.
    fn has_message(&self) -> bool {
        self.held.count(Held::is_message) > 0
    }

    pub(crate) fn enter_at_tail(&mut self, core: &mut ChannelCore, op: Op<N::Tail>) {
        self.segment.enter_at_tail(&mut Out { ops: &mut self.ops, core }, op);
    }

    pub(crate) fn signal(&mut self, core: &mut ChannelCore, stage: u32, signal: Signal) -> Option<Signal> {
        self.segment.signal(&mut Out { ops: &mut self.ops, core }, stage, signal)
    }

    pub(crate) fn ops(&mut self) -> &mut Ops<W> {
        &mut self.ops
    }

    pub(crate) fn has_ops(&self) -> bool {
        !self.ops.is_empty()
    }

    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty() || self.segment.is_holding()
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.segment.is_busy()
    }

    pub(crate) fn owes(&self) -> bool {
        self.segment.owes()
    }

    pub(crate) fn half_closure(&self) -> HalfClosure {
        self.segment.half_closure()
    }

    pub(crate) fn panicked(&mut self, core: &mut ChannelCore) -> bool {
        self.segment.panicked(&mut Out { ops: &mut self.ops, core })
    }

    /// Whether nothing is left here, and the stages behind can begin anew.
    pub(crate) fn start_over(&mut self) -> bool {
        self.held.is_empty() && self.ops.is_empty() && self.segment.start_over()
    }

    pub(crate) fn removed(&mut self) {
        self.segment.removed();
    }

    pub(crate) fn stages(&self, list: &mut Vec<StageInfo>) {
        self.segment.stages(list);
    }

    /// Keeps a message until it is asked for, if it may be.
    fn hold(&mut self, core: &mut ChannelCore, msg: R) {
        if core.demand.is_forsaken() {
            core.unrest.lost(1);
            return drop(msg);
        }
        self.held.push_back(Held::Message(msg));
        core.unrest.waits();
        if core.has_ended() {
            core.expects_room(); // it came out of a worker after the end: whoever is to ask for it may wait for room
        }
    }

    /// Releases one thing that was held.
    fn release(&mut self, core: &mut ChannelCore) -> bool {
        let out = &mut Out { ops: &mut self.ops, core };
        match self.held.front() {
            None => return false,
            Some(Held::Message(_)) if out.core.demand.is_forsaken() => {
                out.core.unrest.lost(1);
                return self.held.pop_front().is_some();
            }
            Some(Held::Message(_)) if out.core.demand.is_paused() => return false,
            // Nothing happens in front of what is under way on workers.
            Some(Held::Event(_)) if out.core.demand.is_away() => return false,
            // An event waits for messages, not for demand: with none before it, it goes on.
            Some(Held::Event(_)) if out.core.demand.is_paused() && self.segment.blocked(out) => return false,
            Some(_) => {}
        }
        match self.held.pop_front() {
            Some(Held::Message(msg)) => self.segment.read(out, msg),
            Some(Held::Event(event)) => self.segment.event(out, event),
            None => return false,
        }
        true
    }
}

impl<R, W: 'static, N: Segment<R, W>> Next<R> for Boundary<N, R, W> {
    fn read(&mut self, core: &mut ChannelCore, msg: R) {
        if !self.held.is_empty() || core.demand.is_paused() {
            self.hold(core, msg);
        } else {
            self.segment.read(&mut Out { ops: &mut self.ops, core }, msg);
        }
    }

    fn event(&mut self, core: &mut ChannelCore, event: Inbound) {
        let out = &mut Out { ops: &mut self.ops, core };
        if !event.overtakes()
            && (!self.held.is_empty() || out.core.demand.is_away() || self.segment.blocked(out))
        {
            self.held.push_back(Held::Event(event));
            out.core.unrest.waits();
        } else {
            self.segment.event(out, event);
        }
    }

    fn read_complete(&mut self, core: &mut ChannelCore) {
        let out = &mut Out { ops: &mut self.ops, core };
        if !self.held.is_empty() || out.core.demand.is_away() || self.segment.blocked(out) {
            self.held.push_back(Held::Event(Inbound::ReadComplete));
            out.core.unrest.waits();
        } else {
            self.segment.read_complete(out);
        }
    }

    fn half_closure(&self) -> HalfClosure {
        self.segment.half_closure()
    }
}

/// What lies behind a handler while it is added: nobody, yet.
struct Later<'a, R> {
    held: &'a mut Waiting<Held<R>>,
}

impl<R> Next<R> for Later<'_, R> {
    fn read(&mut self, core: &mut ChannelCore, msg: R) {
        self.held.push_back(Held::Message(msg));
        core.unrest.waits();
    }

    fn event(&mut self, core: &mut ChannelCore, event: Inbound) {
        self.held.push_back(Held::Event(event));
        core.unrest.waits();
    }

    fn read_complete(&mut self, core: &mut ChannelCore) {
        self.event(core, Inbound::ReadComplete);
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Passes
    }
}

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
    pub(super) fn new(handler: H, name: Option<&'static str>, forgets: bool, next: N) -> Self {
        Self {
            handler,
            name: name.map(Box::new),
            id: 0,
            more: false,
            pulls: true,
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

    /// Lets others find the stage by its name. A name that is taken is a mistake of whoever made the pipeline: the channel does
    /// not go on with one stage that is taken for another.
    #[cold]
    fn publish(&self, out: &mut Out<'_, H::WriteOut>, name: &'static str) {
        if let Err(error) = out.core.publish_stage(NamedStage::new(name, self.id, self.handler.target())) {
            let cause = CloseCause::Fault(error.into());
            out.ops.push(Op::Close(cause, WritePromise::untracked()));
        }
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
            self.publish(out, name);
        }
        // Nobody behind it has been added: what it fires waits at the boundary until they have.
        let next = &mut Later { held: &mut self.rest.held };
        let mut cx = Context { next, ops: out.ops, core: out.core, stage: self.id };
        self.handler.added(&mut cx);
        self.rest.segment.link(&mut Out { ops: &mut self.rest.ops, core: out.core });
        self.settle(out);
    }

    fn read(&mut self, out: &mut Out<'_, H::WriteOut>, msg: H::Read) {
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
        self.run(out, |handler, cx| handler.read_complete(cx));
    }

    fn step(&mut self, out: &mut Out<'_, H::WriteOut>) -> bool {
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

    fn leftover(&mut self) -> super::Leftover<H::Read> {
        self.handler.leftover()
    }

    fn stages(&self, list: &mut Vec<StageInfo>) {
        let (name, handler) = (self.name(), self.handler.name());
        let (reads, writes, weighed) = (self.reads, self.writes, self.rest.ops.weight().tells_all());
        list.push(StageInfo { name, handler, reads, writes, weighed });
        self.rest.segment.stages(list);
    }
}

// What is told in the log, apart from what is compiled for each stage.

#[cold]
fn lose(core: &mut ChannelCore, stage: &'static str, lost: usize) {
    core.unrest.lost(lost);
    let channel = core.id;
    tell(|| {
        tracing::warn!(%channel, stage, lost, "messages waited behind this stage when its segment was exchanged");
    });
}

#[cold]
fn tell_of_removal(stage: &'static str, panic: &str) {
    tell(|| tracing::error!(stage, %panic, "a handler panicked while it was removed"));
}

#[cold]
fn nobody_took(core: &mut ChannelCore, message: &'static str) {
    core.unrest.lost(1);
    let channel = core.id;
    tell(|| tracing::debug!(%channel, message, "no handler took this message"));
}

type Asked<N> = <N as Writes>::Message;
type EndOf<N, H> = <N as Segment<<H as Handler>::ReadOut, Asked<N>>>::Tail;

/// The end of a pipeline: what arrives here nobody wanted. What enters here, from outside, is what the last stage takes.
pub struct End<W>(PhantomData<fn(W)>);

impl<W> End<W> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<W: 'static> Writes for End<W> {
    type Message = W;
}

impl<R, W: 'static> Segment<R, W> for End<W> {
    type Tail = W;

    fn is_end(&self) -> bool {
        true
    }

    fn weigh(&mut self, taker: Weight<W>) -> Weight<W> {
        taker
    }

    fn link(&mut self, _: &mut Out<'_, W>) {}

    fn read(&mut self, out: &mut Out<'_, W>, _: R) {
        nobody_took(out.core, std::any::type_name::<R>());
    }

    fn event(&mut self, out: &mut Out<'_, W>, event: Inbound) {
        if let Inbound::Error(fault) = event {
            out.core.unhandled(fault);
        }
    }

    fn step(&mut self, _: &mut Out<'_, W>) -> bool {
        false
    }

    fn blocked(&mut self, _: &mut Out<'_, W>) -> bool {
        false
    }

    fn would_hold_up(&mut self, _: &mut Out<'_, W>) -> bool {
        false
    }

    fn enter_at_tail(&mut self, out: &mut Out<'_, W>, op: Op<W>) {
        out.ops.push(op);
    }

    fn signal(&mut self, _: &mut Out<'_, W>, _: u32, signal: Signal) -> Option<Signal> {
        Some(signal)
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn is_busy(&self) -> bool {
        false
    }

    fn is_away(&self) -> bool {
        false
    }

    fn owes(&self) -> bool {
        false
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Passes
    }

    fn leave(&mut self, _: &mut Out<'_, W>) -> bool {
        true
    }

    fn panicked(&mut self, _: &mut Out<'_, W>) -> bool {
        false
    }

    fn start_over(&mut self) -> bool {
        true
    }

    fn removed(&mut self) {}

    fn leftover(&mut self) -> super::Leftover<R> {
        super::Leftover::nothing()
    }

    fn stages(&self, _: &mut Vec<StageInfo>) {}
}
