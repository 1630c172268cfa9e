//! The loop's side of a stage on workers: hands over, waits, and carries out what comes back.

use super::{
    OnWorkers, SendHandler,
    worker::{Batch, Channel, End, Item, Output, Shared},
};
use crate::{
    channel::{
        Asked, CloseCause, ENTRY_OVERHEAD, Fault, HalfClosure, Weight, What, WriteError, WritePromise,
    },
    pipeline::{
        Context, Event, Glance, Handler, Inbound, Leftover, OffloadError, OnLoop, Op, StageTimer, Target,
        caller::Call,
    },
};
use std::{any::Any, panic::resume_unwind, sync::Arc};

/// Whether the handler may have a message to give.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    Maybe,
    /// It had none while messages were not wanted. Whether it has something to say once they are is another question.
    WhenWanted,
    No,
    Never,
}

/// What is left for the stage to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// Its segment is exchanged: what the handler fires is lost.
    Leaving,
    /// A stage has panicked: what the handlers write is all that counts.
    Broken,
}

impl<H> OnWorkers<H>
where
    H: SendHandler,
{
    /// Puts an item in line, and hands it over if it is its turn.
    fn post(&mut self, cx: &mut Context<'_, Self>, item: Item<H>) {
        match &self.refused {
            None => {
                self.items.push_back(item);
                self.hand_over(cx);
            }
            Some(error) => {
                let error = error.clone();
                pass_by(cx, item, &error);
            }
        }
    }

    fn hand_over(&mut self, cx: &mut Context<'_, Self>) {
        if self.away {
            return;
        }
        let Some(first) = self.items.pop_front() else { return };
        let mut items = vec![first];
        if items[0].is_operation() {
            while self.items.front().is_some_and(Item::is_operation) {
                items.extend(self.items.pop_front());
            }
        }
        self.answers = !items[0].is_operation();
        let known = cx.core.known(cx.view().allows_half_closure());
        self.brings_more = items.iter().any(Item::may_bring_more);
        self.asked_while_paused = known.is_paused();
        self.pending = items.iter().map(Item::pending).sum();
        self.away = true;
        cx.core.depart(cx.stage);
        if let Err((items, why)) = Shared::send(&self.shared, Batch { items, known }) {
            self.arrive(cx);
            self.refuse(cx, items, OffloadError::Refused(why));
        }
    }

    fn arrive(&mut self, cx: &mut Context<'_, Self>) {
        self.away = false;
        cx.core.arrive(cx.stage);
    }

    /// The handler's call is over.
    pub(super) fn returned(&mut self, cx: &mut Context<'_, Self>, outputs: Vec<Output<H>>, end: End<H>) {
        self.arrive(cx);
        if self.brings_more && self.more != More::Never {
            self.more = More::Maybe;
        }
        cx.core.give_back(cx.stage, What::Pending, std::mem::take(&mut self.pending));
        if self.answers {
            cx.core.unrest.delivered.mark_call(); // what it wrote
        }
        for output in outputs {
            self.carry_out(cx, output);
        }
        match end {
            End::Done => self.hand_over(cx),
            End::Lost(items) => self.refuse(cx, items, OffloadError::Refused(crate::RefusedWhy::ShutDown)),
            End::Panicked(message) => {
                let error = WriteError::Closed(CloseCause::Panicked(message.clone()));
                self.items.drain(..).for_each(|item| item.fail(error.clone()));
                resume_unwind(Box::new(message));
            }
        }
    }

    fn carry_out(&mut self, cx: &mut Context<'_, Self>, output: Output<H>) {
        match output {
            Output::Op(Op::Write(msg, done)) => cx.write_with(msg, done),
            Output::Op(Op::Close(cause, done)) => cx.close_with(cause, done),
            Output::Op(op) => cx.ops.push(op),
            Output::Nothing { ever: false } => self.more = More::Never,
            Output::Nothing { .. } if self.asked_while_paused => self.more = More::WhenWanted,
            Output::Nothing { .. } => self.more = More::No,
            Output::Left(messages) => self.left = messages,
            Output::Busy(busy) => self.busy = busy,
            Output::Owes(owes) => self.owes = owes,
            _ if self.phase == Phase::Broken => {}
            Output::Asked(asked) => grant(cx, asked),
            _ if self.phase == Phase::Leaving => {}
            Output::Read(msg) => cx.fire_read(msg),
            Output::Event(event) => cx.next.event(cx.core, event),
        }
    }

    /// The workers take nothing any more: nothing goes there since, and nobody waits for it.
    fn refuse(&mut self, cx: &mut Context<'_, Self>, items: Vec<Item<H>>, error: OffloadError) {
        let waiting: usize = self.items.iter().map(Item::pending).sum();
        cx.core.give_back(cx.stage, What::Pending, std::mem::take(&mut self.pending) + waiting);
        self.refused = Some(error.clone());
        (self.busy, self.owes) = (false, false);
        if self.phase == Phase::Running {
            cx.fire_error(error.clone());
        }
        for item in items.into_iter().chain(std::mem::take(&mut self.items)) {
            pass_by(cx, item, &error);
        }
    }
}

/// What happens to an item without its handler: the other stages hear of events and ends, messages are lost.
fn pass_by<H: SendHandler>(cx: &mut Context<'_, OnWorkers<H>>, item: Item<H>, error: &OffloadError) {
    match item {
        Item::Event(event) => cx.next.event(cx.core, event),
        Item::Flush => cx.flush(),
        Item::Close(cause, done) => cx.close_with(cause, done),
        Item::ShutDownOutput(done) => cx.shut_down_output_with(done),
        Item::Write(msg, done, _) => {
            drop(msg);
            done.fail(WriteError::Fault(Fault::from(error.clone())));
        }
        _ => {}
    }
}

fn grant<H: Handler>(cx: &mut Context<'_, H>, asked: Asked) {
    match asked {
        Asked::Pause => cx.pause(),
        Asked::Resume => cx.resume(),
        Asked::Request => cx.request(),
        Asked::Take(what, amount) => cx.core.take(cx.stage, what, amount),
        Asked::GiveBack(what, amount) => cx.core.give_back(cx.stage, what, amount),
        Asked::CloseWhenFlushed => cx.close_when_flushed(),
        Asked::Arm(timer, delay) => cx.core.arm_as(cx.stage, timer, delay),
        Asked::Disarm(timer) => drop(cx.disarm(timer)),
        Asked::Room => cx.core.expects_room(),
    }
}

impl<H> Handler for OnWorkers<H>
where
    H: SendHandler,
{
    type Read = H::Read;
    type ReadOut = H::ReadOut;
    type Write = H::Write;
    type WriteOut = H::WriteOut;
    const WEIGHT: Weight<H::Write> = H::WEIGHT;
    /// What passes a handler has to be seen by it first, on its worker.
    const PASSES: bool = false;

    fn passed_read(&mut self, _: Glance<'_>, _: bool) {}
    fn passed_write(&mut self, _: Glance<'_>) {}
    fn added(&mut self, cx: &mut Context<'_, Self>) {
        let channel = cx.handle::<H::Write>().map(|channel| Arc::new(channel) as Arc<dyn Any + Send + Sync>);
        self.shared.introduce(Channel {
            id: cx.view().id(),
            side: cx.core.side().clone(),
            event_loop: cx.core.loop_reference(),
            source: cx.core.source_caller(),
            handle: channel,
            stage: cx.stage,
            weight: cx.ops.weight(),
            back: cx.caller(),
        });
        self.post(cx, Item::Added);
    }
    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.post(cx, Item::Event(Inbound::Active));
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, msg: H::Read) {
        self.post(cx, Item::Read(msg));
    }
    /// Asks the handler, which answers later: its message then comes by itself.
    fn pull(&mut self, cx: &mut Context<'_, Self>) -> Option<H::ReadOut> {
        match self.more {
            More::Never => cx.never_pulls(),
            More::WhenWanted if cx.core.demand.is_stopped() => {}
            More::Maybe | More::WhenWanted if !self.away && self.phase == Phase::Running => {
                self.post(cx, Item::Pull);
            }
            _ => {}
        }
        None
    }
    fn read_complete(&mut self, cx: &mut Context<'_, Self>) {
        self.post(cx, Item::Event(Inbound::ReadComplete));
    }
    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        self.post(cx, Item::Event(Inbound::User(event)));
    }
    fn writability(&mut self, cx: &mut Context<'_, Self>, writable: bool) {
        self.post(cx, Item::Event(Inbound::Writability(writable)));
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        self.post(cx, Item::Event(Inbound::InputClosed));
    }
    fn error(&mut self, cx: &mut Context<'_, Self>, fault: Fault) {
        self.post(cx, Item::Event(Inbound::Error(fault)));
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.post(cx, Item::Event(Inbound::Inactive(cause)));
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: H::Write, done: WritePromise) {
        let weight = H::WEIGHT.or_as_before(cx.ops.weight());
        let bytes = weight.of_message(&msg) + ENTRY_OVERHEAD;
        if self.refused.is_none() {
            cx.core.take(cx.stage, What::Pending, bytes);
        }
        self.post(cx, Item::Write(msg, done, bytes));
    }
    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        self.post(cx, Item::Flush);
    }
    fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        self.post(cx, Item::Close(cause, done));
    }
    fn shut_down_output(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
        self.post(cx, Item::ShutDownOutput(done));
    }
    fn timer(&mut self, cx: &mut Context<'_, Self>, timer: StageTimer) {
        if self.phase == Phase::Running {
            self.post(cx, Item::Timer(timer));
        }
    }
    fn called(&mut self, cx: &mut Context<'_, Self>, call: Box<dyn Any + Send>) {
        match call.downcast::<Call<Self, OnLoop>>() {
            Ok(call) => call.run(self, cx),
            // Callers that the handler made, or one inside of it, lead back to it.
            Err(call) if self.phase == Phase::Running => self.post(cx, Item::Call(call)),
            Err(_) => {}
        }
    }
    fn target(&self) -> Target {
        self.target
    }
    /// Futures belong to a loop, so none is there.
    fn polled(&mut self, _: &mut Context<'_, Self>, _: Box<dyn Any>) {}
    /// Children belong to a loop, so none is there.
    fn children_ready(&mut self, _: &mut Context<'_, Self>) {}
    fn is_busy(&self) -> bool {
        self.away || self.busy
    }
    fn is_away(&self) -> bool {
        self.away
    }
    /// As the handler said behind its last call: it cannot be asked while it is elsewhere, and then this stage is busy.
    fn owes(&self) -> bool {
        self.owes
    }
    fn half_closure(&self) -> HalfClosure {
        self.half_closure
    }
    fn leaving(&mut self, cx: &mut Context<'_, Self>) {
        self.phase = Phase::Leaving;
        self.post(cx, Item::Leaving);
    }
    fn panicked(&mut self, cx: &mut Context<'_, Self>) {
        self.phase = Phase::Broken;
        self.post(cx, Item::LastWords);
    }
    /// It would have to be asked on its worker, and waited for.
    fn start_over(&mut self) -> bool {
        false
    }
    fn removed(&mut self) {
        Shared::remove(&self.shared);
    }
    fn leftover(&mut self) -> Leftover<H::Read> {
        Leftover::many(std::mem::take(&mut self.left))
    }
    fn name(&self) -> &'static str {
        self.name
    }
}
