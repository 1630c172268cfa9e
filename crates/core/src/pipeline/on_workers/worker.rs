//! The handler's side of a stage on workers.

use super::{OnWorkers, SendHandler};
use crate::{
    channel::{Asked, Away, ChannelCore, ChannelId, CloseCause, SideTable, WriteError, WritePromise},
    event_loop::{EventLoop, SourceCaller},
    pipeline::{Context, Handler, Inbound, Next, Op, Ops, StageCaller, StageTimer, caller::Call},
    refused::RefusedWhy,
    task_error::catch,
    workers::Lane,
};
use std::{
    any::Any,
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// Items that one task of the lane works through before other lanes get their turn.
const ITEMS_PER_TASK: usize = 64;

/// What goes to the handler.
pub(super) enum Item<H: Handler> {
    Added,
    Event(Inbound),
    /// With about how many bytes it is.
    Read(H::Read, usize),
    /// With what it counts for as pending bytes meanwhile.
    Write(H::Write, WritePromise, usize),
    Flush,
    Close(CloseCause, WritePromise),
    ShutDownOutput(WritePromise),
    Timer(StageTimer),
    Call(Call<H>),
    Removed,
}

impl<H: Handler> Item<H> {
    /// Nobody is there for it: whoever waits for it is told why.
    fn refuse(self, panicked: Option<String>) {
        let (Self::Write(_, done, _) | Self::ShutDownOutput(done) | Self::Close(_, done)) = self else {
            return;
        };
        if let Some(message) = panicked {
            done.fail(WriteError::Closed(CloseCause::Panicked(message)));
        }
    }
}

/// What comes back from it.
pub(super) enum Output<H: Handler> {
    Read(H::ReadOut),
    Event(Inbound),
    Op(Op<H::WriteOut>),
    Asked(Asked),
    /// A write that counted for so many bytes has been handled.
    Wrote(usize),
    /// An item is done with; a message of so many bytes, if it was one.
    Done {
        message: Option<usize>,
    },
    Panicked(String),
}

/// What the loop knew when it posted.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) paused: bool,
    pub(super) writable: bool,
}

/// What the worker has to know of the channel.
pub(super) struct Channel<H: SendHandler> {
    pub(super) id: ChannelId,
    pub(super) side: SideTable,
    pub(super) event_loop: EventLoop,
    pub(super) source: Option<SourceCaller>,
    pub(super) handle: Option<Arc<dyn Any + Send + Sync>>,
    pub(super) stage: u32,
    pub(super) back: StageCaller<OnWorkers<H>>,
}

/// What the stage on the loop and the handler on its worker share.
pub(super) struct Shared<H: SendHandler> {
    lane: Lane,
    channel: OnceLock<Channel<H>>,
    mailbox: Mutex<Mailbox<H>>,
    /// Locked by the one task of the lane that runs.
    handler: Mutex<Option<Worker<H>>>,
    /// Why there is none any more.
    panicked: Mutex<Option<String>>,
}

struct Mailbox<H: Handler> {
    items: VecDeque<Item<H>>,
    known: Known,
    /// A task of the lane is on its way or running, and will look here.
    scheduled: bool,
}

struct Worker<H> {
    handler: H,
    last_timer: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<H> Shared<H>
where
    H: SendHandler,
{
    pub(super) fn new(lane: Lane, handler: H) -> Self {
        let known = Known { paused: false, writable: true };
        Self {
            lane,
            channel: OnceLock::new(),
            mailbox: Mutex::new(Mailbox { items: VecDeque::new(), known, scheduled: false }),
            handler: Mutex::new(Some(Worker { handler, last_timer: 0 })),
            panicked: Mutex::new(None),
        }
    }

    pub(super) fn introduce(&self, channel: Channel<H>) {
        let _ = self.channel.set(channel); // a stage is added once
    }

    /// Hands an item over. If the workers refuse, everything that waits is dropped: promises say so.
    pub(super) fn post(this: &Arc<Self>, item: Item<H>, known: Option<Known>) -> Result<(), RefusedWhy> {
        let mut mailbox = lock(&this.mailbox);
        mailbox.items.push_back(item);
        mailbox.known = known.unwrap_or(mailbox.known);
        if std::mem::replace(&mut mailbox.scheduled, true) {
            return Ok(());
        }
        drop(mailbox);
        Self::schedule(this)
    }

    fn schedule(this: &Arc<Self>) -> Result<(), RefusedWhy> {
        let shared = this.clone();
        this.lane.execute(move || Self::work(&shared)).map_err(|refused| {
            let mut mailbox = lock(&this.mailbox);
            mailbox.scheduled = false;
            let items = std::mem::take(&mut mailbox.items);
            drop(mailbox);
            drop(items);
            refused.why
        })
    }

    /// The handler leaves, and no worker is there for it.
    pub(super) fn remove_here(&self) {
        if let Ok(mut worker) = self.handler.try_lock()
            && let Some(mut worker) = worker.take()
        {
            worker.handler.removed();
        }
    }

    /// Messages that the handler has not seen, and what it has read and not used if it is not running.
    pub(super) fn take_unread(&self) -> Vec<H::Read> {
        let mut unread = Vec::new();
        if let Ok(mut worker) = self.handler.try_lock()
            && let Some(worker) = worker.as_mut()
        {
            unread.extend(worker.handler.leftover().into_messages());
        }
        let mut mailbox = lock(&self.mailbox);
        let items = std::mem::take(&mut mailbox.items);
        for item in items {
            match item {
                Item::Read(msg, _) => unread.push(msg),
                other => mailbox.items.push_back(other),
            }
        }
        unread
    }

    /// One task of the lane.
    fn work(this: &Arc<Self>) {
        let Some(channel) = this.channel.get() else { return };
        let mut slot = lock(&this.handler);
        for _ in 0..ITEMS_PER_TASK {
            let (item, known) = {
                let mut mailbox = lock(&this.mailbox);
                match mailbox.items.pop_front() {
                    Some(item) => (item, mailbox.known),
                    None => {
                        mailbox.scheduled = false;
                        return;
                    }
                }
            };
            let Some(worker) = slot.as_mut() else {
                item.refuse(lock(&this.panicked).clone());
                continue;
            };
            if matches!(item, Item::Removed) {
                if let Some(mut worker) = slot.take() {
                    worker.handler.removed();
                }
                continue;
            }
            let outputs = worker.run(channel, known, item);
            if let Some(Output::Panicked(message)) = outputs.last() {
                *lock(&this.panicked) = Some(message.clone());
                drop(slot.take().map(|worker| catch(|| drop(worker))));
            }
            send_back(&channel.back, outputs);
        }
        drop(slot);
        if let Err(why) = Self::schedule(this) {
            // What waited is lost, so the channel cannot go on.
            let refused = Output::Asked(Asked::Fail(crate::pipeline::OffloadError::Refused(why).into()));
            send_back(&channel.back, vec![refused]);
        }
    }
}

/// Each message in a call of its own.
fn send_back<H>(back: &StageCaller<OnWorkers<H>>, outputs: Vec<Output<H>>)
where
    H: SendHandler,
{
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    for output in outputs {
        let ends = matches!(output, Output::Read(_));
        part.push(output);
        if ends {
            parts.push(std::mem::take(&mut part));
        }
    }
    parts.push(part);
    back.call_all(parts.into_iter().map(|part| {
        move |stage: &mut OnWorkers<H>, cx: &mut Context<'_, OnWorkers<H>>| stage.deliver(cx, part)
    }));
}

impl<H: SendHandler> Worker<H> {
    /// Calls the handler with one item, and gathers what it does.
    fn run(&mut self, channel: &Channel<H>, known: Known, item: Item<H>) -> Vec<Output<H>> {
        let message = if let Item::Read(_, bytes) = &item { Some(*bytes) } else { None };
        let wrote = if let Item::Write(_, _, bytes) = &item { Some(*bytes) } else { None };
        let away = Away {
            event_loop: channel.event_loop.clone(),
            caller: channel.source.clone(),
            channel: channel.handle.clone(),
            asked: Vec::new(),
        };
        let side = channel.side.clone();
        let mut core =
            ChannelCore::away(channel.id, side, away, known.paused, known.writable, self.last_timer);
        let mut ops = Ops::new();
        let mut inbound = Gathered(Vec::new());
        let mut cx = Context { next: &mut inbound, ops: &mut ops, core: &mut core, stage: channel.stage };
        let called = catch(|| call(&mut self.handler, &mut cx, item));
        let mut outputs = inbound.0;
        while let Some(op) = ops.take_any() {
            outputs.push(Output::Op(op));
        }
        let (asked, last_timer) = core.take_asked();
        self.last_timer = last_timer;
        outputs.extend(asked.into_iter().map(Output::Asked));
        outputs.extend(wrote.map(Output::Wrote));
        outputs.push(match called {
            Ok(()) => Output::Done { message },
            Err(panic) => Output::Panicked(panic),
        });
        outputs
    }
}

fn call<H: Handler>(handler: &mut H, cx: &mut Context<'_, H>, item: Item<H>) {
    match item {
        Item::Added => handler.added(cx),
        Item::Event(Inbound::Active) => handler.active(cx),
        Item::Event(Inbound::ReadComplete) => handler.read_complete(cx),
        Item::Event(Inbound::Writability(writable)) => handler.writability(cx, writable),
        Item::Event(Inbound::InputClosed) => handler.input_closed(cx),
        Item::Event(Inbound::Error(fault)) => handler.error(cx, fault),
        Item::Event(Inbound::User(event)) => handler.event(cx, event),
        Item::Event(Inbound::Inactive(cause)) => handler.inactive(cx, cause),
        Item::Read(msg, _) => handler.read(cx, msg),
        Item::Write(msg, done, _) => handler.write(cx, msg, done),
        Item::Flush => handler.flush(cx),
        Item::Close(cause, done) => handler.close(cx, cause, done),
        Item::ShutDownOutput(done) => handler.shut_down_output(cx, done),
        Item::Timer(timer) => handler.timer(cx, timer),
        Item::Call(call) => call.run(handler, cx),
        Item::Removed => {}
    }
    while let Some(msg) = handler.pull(cx) {
        cx.fire_read(msg);
    }
}

/// The way on from a handler on a worker: noted, in order.
struct Gathered<H: Handler>(Vec<Output<H>>);

impl<H: Handler> Next<H::ReadOut> for Gathered<H> {
    fn read(&mut self, _: &mut ChannelCore, msg: H::ReadOut) {
        self.0.push(Output::Read(msg));
    }
    fn event(&mut self, _: &mut ChannelCore, event: Inbound) {
        self.0.push(Output::Event(event));
    }
    fn read_complete(&mut self, _: &mut ChannelCore) {
        self.0.push(Output::Event(Inbound::ReadComplete));
    }
}
