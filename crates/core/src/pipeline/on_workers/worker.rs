//! The handler's side of a stage on workers.

use super::{OnWorkers, SendHandler};
use crate::{
    channel::{
        Asked, Away, ChannelCore, ChannelId, CloseCause, HalfClosure, Known, SideTable, Weight, WriteError,
        WritePromise,
    },
    event_loop::{LoopRef, Moment, SourceCaller},
    pipeline::{Context, Handler, Inbound, Next, OnWorker, Op, Ops, StageCaller, StageTimer},
    refused::RefusedWhy,
    task_error::catch,
    workers::Lane,
};
use std::{
    any::Any,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// What goes to the handler.
pub(super) enum Item<H: Handler<OnWorker>> {
    Added,
    Event(Inbound),
    Read(H::Read),
    Pull,
    /// With what it counts for as pending bytes meanwhile.
    Write(H::Write, WritePromise, usize),
    Flush,
    Close(CloseCause, WritePromise),
    ShutDownOutput(WritePromise),
    Timer(StageTimer),
    Call(Box<dyn Any + Send>),
    Leaving,
    LastWords,
}

impl<H: Handler<OnWorker>> Item<H> {
    /// Whether it comes from the application side: several of these in a row are carried out in a row.
    pub(super) fn is_operation(&self) -> bool {
        matches!(self, Self::Write(..) | Self::Flush | Self::Close(..) | Self::ShutDownOutput(_))
    }

    /// Whether the handler may have a message to give afterwards.
    pub(super) fn may_bring_more(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Write(..) | Self::Timer(_) | Self::Call(_))
    }

    /// What it counts for as pending bytes.
    pub(super) fn pending(&self) -> usize {
        if let Self::Write(_, _, bytes) = self { *bytes } else { 0 }
    }

    /// Nobody is there for it: whoever waits for it is told why.
    pub(super) fn fail(self, error: WriteError) {
        let (Self::Write(_, done, _) | Self::ShutDownOutput(done) | Self::Close(_, done)) = self else {
            return;
        };
        done.fail(error);
    }
}

/// What comes back from it.
pub(super) enum Output<H: Handler<OnWorker>> {
    Read(H::ReadOut),
    Event(Inbound),
    Op(Op<H::WriteOut>),
    Asked(Asked),
    /// It was asked for a message and has none; perhaps it never has.
    Nothing {
        ever: bool,
    },
    /// It leaves, and has not used these.
    Left(Vec<H::Read>),
    /// Something is on its way through it, or no more.
    Busy(bool),
    /// It owes an answer, or no more.
    Owes(bool),
}

/// How a batch came to its end.
pub(super) enum End<H: Handler<OnWorker>> {
    Done,
    Panicked(String),
    /// The workers did not run it.
    Lost(Vec<Item<H>>),
}

/// Items that are handed over together, and what the loop knew then.
pub(super) struct Batch<H: Handler<OnWorker>> {
    pub(super) items: Vec<Item<H>>,
    pub(super) known: Known,
}

/// What the worker has to know of the channel.
pub(super) struct Channel<H: SendHandler> {
    pub(super) id: ChannelId,
    pub(super) side: SideTable,
    pub(super) event_loop: LoopRef,
    pub(super) source: Option<SourceCaller>,
    pub(super) handle: Option<Arc<dyn Any + Send + Sync>>,
    pub(super) stage: u32,
    /// What the handler's writes count for.
    pub(super) weight: Weight<H::WriteOut>,
    pub(super) back: StageCaller<OnWorkers<H>>,
}

/// What the stage on the loop and the handler on its worker share.
pub(super) struct Shared<H: SendHandler> {
    lane: Lane,
    channel: OnceLock<Channel<H>>,
    /// Under way, from when it is sent until a worker takes it.
    batch: Mutex<Option<Batch<H>>>,
    place: Mutex<AtRest<H>>,
}

/// Where the handler is while it does not run.
struct AtRest<H> {
    worker: Option<Worker<H>>,
    /// Whoever brings the handler back next tells it that it is removed.
    removed: bool,
}

struct Worker<H> {
    handler: H,
    last_timer: u32,
    /// Timers that have not come.
    armed: Vec<StageTimer>,
    /// It may have messages to be pulled.
    pulls: bool,
    /// It said that something is on its way through it.
    busy: bool,
    /// It said that it owes an answer.
    owes: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<H> Shared<H>
where
    H: SendHandler,
{
    pub(super) fn new(lane: Lane, handler: H) -> Self {
        let worker =
            Worker { handler, last_timer: 0, armed: Vec::new(), pulls: true, busy: false, owes: false };
        Self {
            lane,
            channel: OnceLock::new(),
            batch: Mutex::new(None),
            place: Mutex::new(AtRest { worker: Some(worker), removed: false }),
        }
    }

    pub(super) fn introduce(&self, channel: Channel<H>) {
        let _ = self.channel.set(channel); // a stage is added once
    }

    /// Hands a batch over; at most one is under way. What the workers refuse comes back.
    pub(super) fn send(this: &Arc<Self>, batch: Batch<H>) -> Result<(), (Vec<Item<H>>, RefusedWhy)> {
        *lock(&this.batch) = Some(batch);
        let ticket = Ticket(Some(this.clone()));
        this.lane.execute(move || ticket.redeem()).map_err(|refused| {
            let batch = lock(&this.batch).take();
            (batch.map_or_else(Vec::new, |batch| batch.items), refused.why)
        })
    }

    /// The handler leaves for good, after what it does now.
    pub(super) fn remove(this: &Arc<Self>) {
        let shared = this.clone();
        if this.lane.execute(move || shared.remove_here()).is_err() {
            this.remove_here();
        }
    }

    fn remove_here(&self) {
        let mut place = lock(&self.place);
        place.removed = true;
        let worker = place.worker.take();
        drop(place);
        if let Some(worker) = worker {
            worker.remove();
        }
    }

    fn put_back(&self, worker: Worker<H>) {
        let mut place = lock(&self.place);
        if place.removed {
            drop(place);
            return worker.remove();
        }
        place.worker = Some(worker);
    }
}

/// A batch's place in the lane. If the workers drop it, the stage on the loop hears of that: it waits for an answer.
struct Ticket<H: SendHandler>(Option<Arc<Shared<H>>>);

impl<H: SendHandler> Ticket<H> {
    fn redeem(mut self) {
        let Some(shared) = self.0.take() else { return }; // from here on it is nobody's: the next batch has one of its own
        let Some(channel) = shared.channel.get() else { return };
        let batch = lock(&shared.batch).take();
        let worker = lock(&shared.place).worker.take();
        let (Some(batch), Some(mut worker)) = (batch, worker) else { return };
        let mut outputs = Vec::new();
        let end = worker.run(channel, batch, &mut outputs);
        shared.put_back(worker); // before the loop hears of it, and may ask for more
        channel.back.call(move |stage, cx| stage.returned(cx, outputs, end));
    }
}

impl<H: SendHandler> Drop for Ticket<H> {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        let Some(batch) = lock(&shared.batch).take() else { return };
        if let Some(channel) = shared.channel.get() {
            channel.back.call(move |stage, cx| stage.returned(cx, Vec::new(), End::Lost(batch.items)));
        }
    }
}

impl<H: SendHandler> Worker<H> {
    /// Calls the handler with one item after the other, and gathers what it does.
    fn run(&mut self, channel: &Channel<H>, batch: Batch<H>, outputs: &mut Vec<Output<H>>) -> End<H> {
        let mut items = batch.items.into_iter();
        while let Some(item) = items.next() {
            // A decoder that has read may be asked at once, if nothing has to happen before.
            let asks_next = matches!(item, Item::Read(_)) && !batch.known.is_paused();
            let before = outputs.len();
            let mut called = self.step(channel, batch.known.clone(), item, outputs);
            if called.is_ok() && asks_next && self.pulls && outputs.len() == before {
                called = self.step(channel, batch.known.clone(), Item::Pull, outputs);
            }
            if let Err(message) = called {
                let error = WriteError::Closed(CloseCause::Panicked(message.clone()));
                items.for_each(|item| item.fail(error.clone()));
                return End::Panicked(message);
            }
        }
        End::Done
    }

    /// One call. What it fires and asks for comes in order, what it writes behind that: on the loop too this waits until the
    /// call is over, and is left alone if it panics.
    fn step(
        &mut self,
        channel: &Channel<H>,
        known: Known,
        item: Item<H>,
        outputs: &mut Vec<Output<H>>,
    ) -> Result<(), String> {
        if let Item::Timer(timer) = &item {
            let Some(index) = self.armed.iter().position(|armed| armed == timer) else { return Ok(()) };
            self.armed.swap_remove(index);
        }
        let away = Away {
            event_loop: channel.event_loop.clone(),
            caller: channel.source.clone(),
            channel: channel.handle.clone(),
            asked: Vec::new(),
            last_timer: self.last_timer,
            armed: std::mem::take(&mut self.armed),
            unsent: 0,
            taken: 0,
            moment: Moment::START,
        };
        let mut core = ChannelCore::away(channel.id, channel.side.clone(), away, known);
        let mut ops = Ops::new();
        ops.set_weight(channel.weight);
        let mut gathered = Gathered(outputs);
        let mut cx = Context { next: &mut gathered, ops: &mut ops, core: &mut core, stage: channel.stage };
        let called = catch(|| call(&mut self.handler, &mut cx, item));
        let never_pulls = core.unrest.is_never_asked_again();
        let (asked, last_timer, armed) = core.come_home();
        self.last_timer = last_timer;
        self.armed = armed;
        outputs.extend(asked.into_iter().map(Output::Asked));
        let answer = called?;
        while let Some(op) = ops.take_any() {
            outputs.push(Output::Op(op));
        }
        match answer {
            Answer::None => {}
            Answer::Pulled(Some(msg)) => outputs.push(Output::Read(msg)),
            Answer::Pulled(None) => {
                self.pulls = !never_pulls;
                outputs.push(Output::Nothing { ever: self.pulls });
            }
            Answer::Left(messages) => outputs.push(Output::Left(messages)),
        }
        let (busy, owes) = catch(|| (self.handler.is_busy(), self.handler.owes()))?;
        if std::mem::replace(&mut self.busy, busy) != busy {
            outputs.push(Output::Busy(busy));
        }
        if std::mem::replace(&mut self.owes, owes) != owes {
            outputs.push(Output::Owes(owes));
        }
        Ok(())
    }

    fn remove(mut self) {
        if let Err(panic) = catch(|| self.handler.removed()) {
            tracing::error!(stage = self.handler.name(), %panic, "a handler panicked while it was removed");
        }
        if let Err(panic) = catch(|| drop(self)) {
            tracing::error!(%panic, "dropping a handler panicked");
        }
    }
}

/// What a handler returns.
enum Answer<H: Handler<OnWorker>> {
    None,
    Pulled(Option<H::ReadOut>),
    Left(Vec<H::Read>),
}

fn call<H: Handler<OnWorker>>(
    handler: &mut H,
    cx: &mut Context<'_, H, OnWorker>,
    item: Item<H>,
) -> Answer<H> {
    match item {
        Item::Added => handler.added(cx),
        Item::Event(Inbound::Active) => handler.active(cx),
        Item::Event(Inbound::ReadComplete) => handler.read_complete(cx),
        Item::Event(Inbound::Writability(writable)) => handler.writability(cx, writable),
        Item::Event(Inbound::InputClosed) => handler.input_closed(cx),
        Item::Event(Inbound::Error(fault)) => handler.error(cx, fault),
        Item::Event(Inbound::User(event)) => handler.event(cx, event),
        Item::Event(Inbound::Inactive(cause)) => handler.inactive(cx, cause),
        Item::Read(msg) => handler.read(cx, msg),
        Item::Pull => return Answer::Pulled(handler.pull(cx)),
        Item::Write(msg, done, _) => handler.write(cx, msg, done),
        Item::Flush => handler.flush(cx),
        Item::Close(cause, done) => handler.close(cx, cause, done),
        Item::ShutDownOutput(done) => handler.shut_down_output(cx, done),
        Item::Timer(timer) => handler.timer(cx, timer),
        Item::Call(call) => handler.called(cx, call),
        Item::LastWords => handler.panicked(cx),
        Item::Leaving => {
            handler.leaving(cx);
            return Answer::Left(handler.leftover().into_messages());
        }
    }
    Answer::None
}

/// The way on from a handler on a worker: noted, in order with what it asks of its channel.
struct Gathered<'a, H: Handler<OnWorker>>(&'a mut Vec<Output<H>>);

impl<H: Handler<OnWorker>> Gathered<'_, H> {
    fn note(&mut self, core: &mut ChannelCore, output: Output<H>) {
        self.0.extend(core.take_asked().into_iter().map(Output::Asked));
        self.0.push(output);
    }
}

impl<H: Handler<OnWorker>> Next<H::ReadOut> for Gathered<'_, H> {
    /// The channel that went along knows.
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Passes
    }
    fn read(&mut self, core: &mut ChannelCore, msg: H::ReadOut) {
        self.note(core, Output::Read(msg));
    }
    fn event(&mut self, core: &mut ChannelCore, event: Inbound) {
        self.note(core, Output::Event(event));
    }
    fn read_complete(&mut self, core: &mut ChannelCore) {
        self.note(core, Output::Event(Inbound::ReadComplete));
    }
}
