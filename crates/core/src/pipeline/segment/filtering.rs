//! A filter in its place.
//!
//! ```text
//!   Filtering<F, Stage<B, End>>
//!
//!     messages    ══════════════════════▶ B        what passes one that only looks on does not stop here; it is told afterwards
//!     operations  ◀══════════════════════ B        and goes to where the filter itself would put it
//!     events      ────▶ [ F ] ─────────▶ B        all that happens is given to it, as to any handler
//! ```
//! A filter takes and gives the same types, and often looks on, so most of what a [`Stage`](super::Stage) keeps for its boundary is not there while
//! nothing happens: what the stages behind ask for waits within the call that made them ([`Behind`]), and the rest lies [`Aside`].
//!
//! Always true:
//! 1. As for every stage: while the filter runs nothing can call it, and what the stages behind it ask for is carried out when its call has returned.
//! 2. Between two calls nothing that was asked for waits here, but for what a panic has left.

use super::{
    super::{Context, Glance, Handler, Inbound, Leftover, NamedStage, Op, Ops, Signal, waiting::Waiting},
    Next, Out, Segment, StageInfo, Writes,
    boundary::{Held, Later, hold, release},
    stage::{Asked, EndOf, lose, publish, same, tell_of_removal},
};
use crate::{
    channel::{CarriedBy, ChannelCore, HalfClosure, Weight},
    task_error::catch,
};
use std::{any::TypeId, convert::Infallible, mem::ManuallyDrop};

/// A handler that keeps the types of what passes, and what lies behind it, which writes what the handler takes, or what is [carried](crate::Carries)
/// by that.
pub struct Filtering<H: Handler, N: Writes> {
    handler: H,
    id: u32,
    /// The handler has heard that it leaves, or was asked for last words: nothing else is for it.
    parted: bool,
    /// It is known that the handler keeps nothing of a conversation.
    forgets: bool,
    /// Messages count for all that they hold.
    weighed: bool,
    aside: Option<Box<Aside<H::ReadOut, N::Message>>>,
    segment: N,
}

/// What one that only looks on rarely has: one pointer until it does. A filter that is given messages counts them here.
struct Aside<R, M> {
    name: Option<&'static str>,
    /// Whether the handler may have something to be pulled.
    more: bool,
    /// Whether it ever has.
    pulls: bool,
    reads: u64,
    writes: u64,
    /// What may not pass yet.
    held: Waiting<Held<R>>,
    /// What was asked for in a call that panicked.
    left: Ops<M>,
}

impl<R, M> Aside<R, M> {
    #[inline(never)]
    fn new(name: Option<&'static str>, pulls: bool) -> Box<Self> {
        let (held, left) = (Waiting::new(), Ops::new());
        Box::new(Self { name, more: false, pulls, reads: 0, writes: 0, held, left })
    }

    #[inline]
    fn may_have_more(&mut self, core: &mut ChannelCore) {
        self.more = self.pulls;
        core.unrest.may_wait(self.pulls);
    }
}

/// What lies behind a filter, during one call.
struct Behind<'a, N, R, M> {
    segment: &'a mut N,
    aside: &'a mut Option<Box<Aside<R, M>>>,
    /// What the stages there ask for.
    ops: ManuallyDrop<Ops<M>>,
}

impl<R, M> Behind<'_, (), R, M> {
    /// What is held, with a place for it.
    #[inline(never)]
    fn place(aside: &mut Option<Box<Aside<R, M>>>) -> &mut Waiting<Held<R>> {
        &mut aside.get_or_insert_with(|| Aside::new(None, false)).held
    }
}

impl<N, R, M> Behind<'_, N, R, M> {
    #[inline]
    fn is_holding(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| !aside.held.is_empty())
    }

    fn hold_event(&mut self, core: &mut ChannelCore, event: Inbound) {
        Behind::place(self.aside).push_back(Held::Event(event));
        core.unrest.waits();
    }

    #[cold]
    fn keep(&mut self) {
        let ops = self.ops.take_all();
        if !ops.is_empty() {
            self.aside.get_or_insert_with(|| Aside::new(None, false)).left = ops;
        }
    }
}

/// What is not carried out when a call ends has been left by a panic. Somebody behind may have last words to add. Nearly always there is nothing to be
/// dropped, which one look tells.
impl<N, R, M> Drop for Behind<'_, N, R, M> {
    #[inline]
    fn drop(&mut self) {
        if self.ops.is_in_use() {
            self.keep();
        }
    }
}

impl<N: Segment<R, M>, R, M: 'static> Next<R> for Behind<'_, N, R, M> {
    fn read(&mut self, core: &mut ChannelCore, msg: R) {
        if self.is_holding() || core.demand.is_paused() {
            hold(Behind::place(self.aside), core, msg);
        } else {
            self.segment.read(&mut Out { ops: &mut self.ops, core }, msg);
        }
    }

    fn event(&mut self, core: &mut ChannelCore, event: Inbound) {
        let waits = !event.overtakes()
            && (self.is_holding()
                || core.demand.is_away()
                || self.segment.blocked(&mut Out { ops: &mut self.ops, core }));
        match waits {
            true => self.hold_event(core, event),
            false => self.segment.event(&mut Out { ops: &mut self.ops, core }, event),
        }
    }

    fn read_complete(&mut self, core: &mut ChannelCore) {
        let out = &mut Out { ops: &mut self.ops, core };
        if self.aside.as_ref().is_some_and(|aside| !aside.held.is_empty())
            || out.core.demand.is_away()
            || self.segment.blocked(out)
        {
            self.hold_event(core, Inbound::ReadComplete);
        } else {
            self.segment.read_complete(out);
        }
    }

    fn half_closure(&self) -> HalfClosure {
        self.segment.half_closure()
    }
}

impl<H, N> Filtering<H, N>
where
    H: Handler<ReadOut = <H as Handler>::Read, WriteOut = <H as Handler>::Write>,
    N: Writes<Message: CarriedBy<H::Write>> + Segment<H::ReadOut, Asked<N>>,
{
    pub(in crate::pipeline) fn new(
        handler: H,
        name: Option<&'static str>,
        forgets: bool,
        segment: N,
    ) -> Self {
        let aside = (name.is_some() || !H::PASSES).then(|| Aside::new(name, !H::PASSES));
        Self { handler, id: 0, parted: false, forgets, weighed: false, aside, segment }
    }

    fn name(&self) -> &'static str {
        self.aside.as_ref().and_then(|aside| aside.name).unwrap_or_else(|| self.handler.name())
    }

    /// Where the stages behind one that only looks on put what they ask for: where it would put that itself. `None` if they write another type than it
    /// takes, which is known when this is compiled.
    #[inline(always)]
    fn beside<'o>(out: &'o mut Out<'_, H::WriteOut>) -> Option<Out<'o, N::Message>> {
        if !H::PASSES {
            return None;
        }
        Some(Out { ops: same(out.ops)?, core: out.core })
    }

    /// Where they put it otherwise.
    #[inline(always)]
    fn ops(out: &Out<'_, H::WriteOut>) -> ManuallyDrop<Ops<N::Message>> {
        ManuallyDrop::new(Ops::weighing(weight_behind::<H, N::Message>(out.ops.weight())))
    }

    /// Calls the stages behind the handler. Also tells whether they have asked for something.
    #[inline(always)]
    fn call<T>(
        &mut self,
        out: &mut Out<'_, H::WriteOut>,
        call: impl FnOnce(&mut N, &mut Out<'_, N::Message>) -> T,
    ) -> (T, bool) {
        if let Some(mut inner) = Self::beside(out) {
            let result = call(&mut self.segment, &mut inner);
            // What was there before was asked for within the same call, by them or by the filter.
            return (result, !inner.ops.is_empty());
        }
        let behind = &mut Behind { segment: &mut self.segment, aside: &mut self.aside, ops: Self::ops(out) };
        let result = call(behind.segment, &mut Out { ops: &mut behind.ops, core: out.core });
        let asked = !behind.ops.is_empty();
        match asked {
            true if H::PASSES => hand_on(&mut behind.ops, out.ops),
            true => carry_out(&mut self.handler, self.id, behind, out),
            false => {}
        }
        (result, asked)
    }

    /// The same where no message was read: one that only looks on is told that something was asked for.
    #[inline(always)]
    fn pass<T>(
        &mut self,
        out: &mut Out<'_, H::WriteOut>,
        call: impl FnOnce(&mut N, &mut Out<'_, N::Message>) -> T,
    ) -> T {
        let (result, asked) = self.call(out, call);
        if H::PASSES && asked {
            self.handler.passed_write(Glance::at(out.core));
        }
        result
    }

    /// Runs the handler, then carries out what the stages behind it asked for meanwhile.
    fn run<T>(
        &mut self,
        out: &mut Out<'_, H::WriteOut>,
        call: impl FnOnce(&mut H, &mut Context<'_, H>) -> T,
    ) -> T {
        let behind = &mut Behind { segment: &mut self.segment, aside: &mut self.aside, ops: Self::ops(out) };
        let mut cx = Context { next: behind, ops: out.ops, core: out.core, stage: self.id };
        let result = call(&mut self.handler, &mut cx);
        if !behind.ops.is_empty() {
            carry_out(&mut self.handler, self.id, behind, out);
            if H::PASSES {
                self.handler.passed_write(Glance::at(out.core));
            }
        }
        result
    }

    /// A message for the handler.
    #[inline(never)]
    fn take(&mut self, out: &mut Out<'_, H::WriteOut>, msg: H::Read) {
        if self.segment.is_end() {
            out.core.demand.delivered();
        }
        if let Some(aside) = self.aside.as_mut().filter(|_| !H::PASSES) {
            aside.reads += 1;
            aside.may_have_more(out.core);
        }
        out.core.unrest.delivered.mark();
        self.run(out, |handler, cx| handler.read(cx, msg));
    }

    /// The end of a read, for the handler.
    #[inline(never)]
    fn complete(&mut self, out: &mut Out<'_, H::WriteOut>) {
        self.run(out, |handler, cx| handler.read_complete(cx));
    }

    #[inline]
    fn is_held_up(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| !aside.held.is_empty())
    }

    fn has_message(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| aside.held.count(Held::is_message) > 0)
    }

    /// Releases one thing that was held. What the stages behind ask for because of it is carried out when the rest is back in its place: what the filter
    /// fires then comes behind that.
    #[cold]
    fn release(&mut self, out: &mut Out<'_, H::WriteOut>) -> bool {
        let Some(aside) = &mut self.aside else { return false };
        let mut held = std::mem::replace(&mut aside.held, Waiting::new());
        let (released, asked) = if let Some(mut inner) = Self::beside(out) {
            let released = release(&mut self.segment, &mut held, &mut inner);
            aside.held = held;
            (released, !inner.ops.is_empty())
        } else {
            let ops = Self::ops(out);
            let behind = &mut Behind { segment: &mut self.segment, aside: &mut self.aside, ops };
            let inner = &mut Out { ops: &mut behind.ops, core: out.core };
            let released = release(behind.segment, &mut held, inner);
            if let Some(aside) = behind.aside {
                aside.held = held;
            }
            let asked = !behind.ops.is_empty();
            match asked {
                true if H::PASSES => hand_on(&mut behind.ops, out.ops),
                true => carry_out(&mut self.handler, self.id, behind, out),
                false => {}
            }
            (released, asked)
        };
        if H::PASSES && asked {
            self.handler.passed_write(Glance::at(out.core));
        }
        released
    }

    /// Who is given messages may have one to give.
    #[inline]
    fn may_have_more(&mut self, core: &mut ChannelCore) {
        if let Some(aside) = self.aside.as_mut().filter(|_| !H::PASSES) {
            aside.may_have_more(core);
        }
    }

    fn has_more(&self) -> bool {
        !H::PASSES && self.aside.as_ref().is_some_and(|aside| aside.more)
    }

    fn pull(&mut self, out: &mut Out<'_, H::WriteOut>) -> Option<H::ReadOut> {
        out.core.unrest.asks();
        let message = self.run(out, |handler, cx| handler.pull(cx));
        if message.is_none()
            && let Some(aside) = &mut self.aside
        {
            aside.more = false;
            aside.pulls = !out.core.unrest.is_never_asked_again();
        }
        message
    }
}

/// What messages count for behind a handler: what is said of those that it takes, if they are of the same type.
#[inline(always)]
fn weight_behind<H: Handler, M: 'static>(taker: Weight<H::WriteOut>) -> Weight<M> {
    let taken: Weight<H::Write> = H::WEIGHT.or_as_before(taker);
    Weight::unsaid().or_as_before(taken)
}

/// Carries out what the stages behind a handler asked for.
#[inline(never)]
fn carry_out<H, N>(
    handler: &mut H,
    stage: u32,
    behind: &mut Behind<'_, N, H::ReadOut, N::Message>,
    out: &mut Out<'_, H::WriteOut>,
) where
    H: Handler<ReadOut = <H as Handler>::Read, WriteOut = <H as Handler>::Write>,
    N: Writes<Message: CarriedBy<H::Write>> + Segment<H::ReadOut, Asked<N>>,
{
    if H::PASSES {
        return hand_on(&mut behind.ops, out.ops);
    }
    while let Some(op) = behind.ops.take_any() {
        if let (Op::Write(..), Some(aside)) = (&op, &mut behind.aside) {
            aside.writes += 1;
        }
        let mut cx = Context { next: behind, ops: out.ops, core: out.core, stage };
        match op {
            Op::Write(msg, done) => {
                handler.write(&mut cx, msg.carried(), done);
                if let Some(aside) = behind.aside {
                    aside.may_have_more(out.core); // it may have waited for this very answer
                }
            }
            Op::Flush => handler.flush(&mut cx),
            Op::Close(cause, done) => handler.close(&mut cx, cause, done),
            Op::ShutDownOutput(done) => handler.shut_down_output(&mut cx, done),
        }
    }
}

/// What is asked for as one type, and taken as another that carries it.
#[inline(always)]
fn hand_on<M: CarriedBy<W>, W>(asked: &mut Ops<M>, ops: &mut Ops<W>) {
    match asked.take_lone_flush() {
        true => ops.push_flush(),
        false => hand_all_on(asked, ops),
    }
}

#[inline(never)]
fn hand_all_on<M: CarriedBy<W>, W>(asked: &mut Ops<M>, ops: &mut Ops<W>) {
    if let Some((msg, done)) = asked.take_write() {
        ops.push_write(msg.carried(), done);
    }
    if asked.take_flush() {
        ops.push_flush();
    }
    while let Some(op) = asked.take_rest() {
        ops.push(match op {
            Op::Write(msg, done) => Op::Write(msg.carried(), done),
            Op::Flush => Op::Flush,
            Op::Close(cause, done) => Op::Close(cause, done),
            Op::ShutDownOutput(done) => Op::ShutDownOutput(done),
        });
    }
}

impl<H: Handler, N: Writes> Writes for Filtering<H, N> {
    type Message = H::WriteOut;
}

impl<H, N> Segment<H::Read, H::WriteOut> for Filtering<H, N>
where
    H: Handler<ReadOut = <H as Handler>::Read, WriteOut = <H as Handler>::Write>,
    N: Writes<Message: CarriedBy<H::Write>> + Segment<H::ReadOut, Asked<N>>,
{
    type Tail = EndOf<N, H>;

    fn is_end(&self) -> bool {
        // What reads messages that cannot exist stands behind the last stage, like the end itself.
        TypeId::of::<H::Read>() == TypeId::of::<Infallible>()
    }

    fn weigh(&mut self, taker: Weight<H::WriteOut>) -> Weight<Self::Tail> {
        let weight = weight_behind::<H, N::Message>(taker);
        self.weighed = weight.tells_all();
        self.segment.weigh(weight)
    }

    fn link(&mut self, out: &mut Out<'_, H::WriteOut>) {
        self.id = out.core.next_stage_id();
        if let Some(name) = self.aside.as_ref().and_then(|aside| aside.name) {
            publish(out, NamedStage::new(name, self.id, self.handler.target()));
        }
        // Nobody behind it has been added: what it fires waits until they have.
        let mut held = Waiting::new();
        let next = &mut Later { held: &mut held };
        let mut cx = Context { next, ops: out.ops, core: out.core, stage: self.id };
        self.handler.added(&mut cx);
        if !held.is_empty() {
            self.aside.get_or_insert_with(|| Aside::new(None, false)).held = held;
        }
        self.pass(out, |segment, inner| segment.link(inner));
    }

    #[inline(always)]
    fn read(&mut self, out: &mut Out<'_, H::WriteOut>, msg: H::Read) {
        if !H::PASSES || self.segment.is_end() || self.is_held_up() {
            return self.take(out, msg);
        }
        let ((), wrote) = self.call(out, |segment, inner| segment.read(inner, msg));
        self.handler.passed_read(Glance::at(out.core), wrote);
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

    #[inline(always)]
    fn read_complete(&mut self, out: &mut Out<'_, H::WriteOut>) {
        if !H::PASSES || self.is_held_up() || out.core.demand.is_away() {
            return self.complete(out);
        }
        let passed = self.pass(out, |segment, inner| {
            let passes = !segment.blocked(inner);
            if passes {
                segment.read_complete(inner);
            }
            passes
        });
        if !passed {
            self.complete(out);
        }
    }

    fn step(&mut self, out: &mut Out<'_, H::WriteOut>) -> bool {
        if self.pass(out, |segment, inner| segment.step(inner)) {
            return true;
        }
        if self.is_held_up() && self.release(out) {
            return true;
        }
        if !self.has_more() || out.core.demand.is_forsaken() || out.core.demand.is_paused() {
            return false;
        }
        match self.pull(out) {
            Some(msg) => {
                // Behind what is held, if anything is.
                let behind =
                    &mut Behind { segment: &mut self.segment, aside: &mut self.aside, ops: Self::ops(out) };
                behind.read(out.core, msg);
                if !behind.ops.is_empty() {
                    carry_out(&mut self.handler, self.id, behind, out);
                }
                true
            }
            None => {
                !out.ops.is_empty() // it had no message to give, but something to say
            }
        }
    }

    fn blocked(&mut self, out: &mut Out<'_, H::WriteOut>) -> bool {
        if !self.has_more() || out.core.demand.is_forsaken() {
            return false;
        }
        if self.is_held_up() {
            return true; // one is enough: the handler is not asked for a second
        }
        // Whether the handler holds a message shows only when it is asked for one. It then waits behind the handler.
        let pulled = self.pull(out);
        let Some(aside) = &mut self.aside else { return false };
        match pulled {
            Some(msg) => {
                aside.held.push_back(Held::Message(msg));
                out.core.unrest.waits();
                true
            }
            None => {
                // Asked for the event's sake: whether it has something to say once messages are wanted is another question.
                aside.more = aside.pulls && out.core.demand.is_paused();
                self.handler.is_away() // it answers later
            }
        }
    }

    fn would_hold_up(&mut self, out: &mut Out<'_, H::WriteOut>) -> bool {
        self.has_message()
            || !self.is_held_up() && self.blocked(out) && self.has_message()
            || self.pass(out, |segment, inner| segment.would_hold_up(inner))
    }

    fn enter_at_tail(&mut self, out: &mut Out<'_, H::WriteOut>, op: Op<Self::Tail>) {
        self.pass(out, |segment, inner| segment.enter_at_tail(inner, op));
    }

    fn signal(&mut self, out: &mut Out<'_, H::WriteOut>, stage: u32, signal: Signal) -> Option<Signal> {
        if stage != self.id {
            return self.pass(out, |segment, inner| segment.signal(inner, stage, signal));
        }
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
        None
    }

    fn is_holding(&self) -> bool {
        self.is_held_up() || self.segment.is_holding()
    }

    fn is_busy(&self) -> bool {
        self.handler.is_busy() || self.segment.is_busy()
    }

    fn is_away(&self) -> bool {
        self.handler.is_away() || self.segment.is_away()
    }

    fn owes(&self) -> bool {
        self.handler.owes() || self.segment.owes()
    }

    fn half_closure(&self) -> HalfClosure {
        self.handler.half_closure().and(self.segment.half_closure())
    }

    fn leave(&mut self, out: &mut Out<'_, H::WriteOut>) -> bool {
        let left = self.pass(out, |segment, inner| segment.leave(inner));
        if !left || self.handler.is_away() {
            return false;
        }
        if std::mem::replace(&mut self.parted, true) {
            return true;
        }
        // Only what the first stage has is of a type that a successor can read: see `leftover`.
        let lost = self.aside.as_ref().map_or(0, |aside| aside.held.count(Held::is_message));
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
        let left = self.aside.as_mut().map(|aside| std::mem::replace(&mut aside.left, Ops::new()));
        let left = left.filter(|left| !left.is_empty());
        let ops = left.map_or_else(|| Self::ops(out), ManuallyDrop::new);
        let mut behind = Behind { segment: &mut self.segment, aside: &mut self.aside, ops };
        if behind.segment.panicked(&mut Out { ops: &mut behind.ops, core: out.core }) {
            carry_out(&mut self.handler, self.id, &mut behind, out);
        } else if !self.parted {
            drop(behind.ops.take_all());
        }
        drop(behind);
        if self.segment.is_away() || self.handler.is_away() || std::mem::replace(&mut self.parted, true) {
            return out.ops.len() > before; // not yet, or not again
        }
        self.run(out, |handler, cx| handler.panicked(cx));
        out.ops.len() > before
    }

    fn start_over(&mut self) -> bool {
        let mut anew = self.segment.start_over();
        if let Some(aside) = &mut self.aside {
            anew &= aside.held.is_empty() && aside.left.is_empty();
            (aside.more, aside.reads, aside.writes) = (false, 0, 0);
        }
        anew && !self.parted && (self.forgets || self.handler.start_over())
    }

    fn removed(&mut self) {
        self.segment.removed();
        if let Err(panic) = catch(|| self.handler.removed()) {
            tell_of_removal(self.name(), &panic);
        }
    }

    fn leftover(&mut self) -> Leftover<H::Read> {
        self.handler.leftover()
    }

    fn stages(&self, list: &mut Vec<StageInfo>) {
        let (name, handler, weighed) = (self.name(), self.handler.name(), self.weighed);
        let (reads, writes) = self.aside.as_ref().map_or((0, 0), |aside| (aside.reads, aside.writes));
        list.push(StageInfo { name, handler, reads, writes, weighed });
        self.segment.stages(list);
    }
}
