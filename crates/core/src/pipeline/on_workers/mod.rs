//! A whole stage on workers: its handler may block, its channel's loop does not wait for it.
//!
//! ```text
//!   loop     [ stage before ] ──▶ ( OnWorkers ) ─ ─ ─ mailbox ─ ─ ─ ▶ lane ──▶ handler          a worker, in order
//!            [ stage behind ] ◀── ( OnWorkers ) ◀ ─ calls, in order ─ what it fired, wrote and asked for
//! ```
//! Always true:
//! 1. The handler sees messages, events and operations in the order in which they reached the stage, one at a time; what it
//!    passes on keeps its order too, in each direction.
//! 2. At most one message per call comes back to the pipeline, so that everything it causes has happened before the next.
//! 3. When `mailbox` messages are under way, or more bytes of them than the high water mark, delivery is held up, the
//!    transport stops reading, and what the application said about demand stays as it is. Writes under way count as pending bytes of the channel.
//! 4. The pipeline lives until everything under way has come out: nobody behind this stage is removed without having
//!    heard of the end.
//! 5. A panic on the worker is one of the channel, which closes with its message. Workers that refuse are an error of the
//!    pipeline.
//!
//! | file | what it is |
//! | --- | --- |
//! | `mod` | the stage on the loop |
//! | `worker` | the handler's side, on a worker |

mod worker;

use self::worker::{Item, Output, Shared};
use super::{
    Application, ApplicationStage, Complete, Context, Event, Handler, Inbound, Leftover, OffloadError, Op,
    PipelineBuilder, StageTimer, caller::Call,
};
use crate::{
    channel::{Asked, CloseCause, ENTRY_OVERHEAD, Fault, WritePromise, size_of_message},
    workers::Workers,
};
use std::{any::Any, panic::resume_unwind, sync::Arc};

/// Messages under way, unless told otherwise.
const MAILBOX: usize = 64;

/// A handler that can run on workers: it may be sent to another thread, and so may everything that crosses.
///
/// ```
/// use netwright_core::{Application, AppContext, PipelineBuilder, SendHandler, Workers, pipeline, Handler};
/// use bytes::{Bytes, BytesMut};
///
/// /// Puts any handler of bytes that may go to another thread on workers.
/// fn heavy<H>(workers: &Workers, handler: H) -> impl Handler<Read = BytesMut, Write = Bytes>
/// where
///     H: SendHandler + Handler<Read = BytesMut, Write = Bytes>,
/// {
///     netwright_core::on_workers(workers, handler)
/// }
/// ```
pub trait SendHandler: Handler<Read: Send, ReadOut: Send, Write: Send, WriteOut: Send> + Send {}

impl<H: Handler<Read: Send, ReadOut: Send, Write: Send, WriteOut: Send> + Send> SendHandler for H {}

/// A handler on workers, as a stage. See [`PipelineBuilder::add_on`].
///
/// ```
/// use netwright_core::{Context, EmbeddedChannel, Handler, WritePromise, Workers, on_workers, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// /// Something that takes its time.
/// struct Shouts;
/// impl Handler for Shouts {
///     type Read = BytesMut;
///     type ReadOut = BytesMut;
///     type Write = Bytes;
///     type WriteOut = Bytes;
///     fn read(&mut self, cx: &mut Context<'_, Self>, mut bytes: BytesMut) {
///         bytes.make_ascii_uppercase();
///         cx.fire_read(bytes);
///     }
///     fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Bytes, done: WritePromise) {
///         cx.write_with(bytes, done);
///     }
/// }
///
/// let workers = Workers::new(1)?;
/// let mut channel = EmbeddedChannel::new(pipeline().add(on_workers(&workers, Shouts).mailbox(16)));
/// channel.write_inbound("hello");
/// let heard = std::iter::repeat_with(|| channel.run().read_inbound()).flatten().next();
/// assert_eq!(heard.unwrap(), "HELLO"); // on the loop again
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn on_workers<H>(workers: &Workers, handler: H) -> OnWorkers<H>
where
    H: SendHandler,
{
    let name = handler.name();
    OnWorkers {
        shared: Arc::new(Shared::new(workers.lane(), handler)),
        name,
        mailbox: MAILBOX,
        under_way: 0,
        messages: 0,
        bytes: 0,
        held: false,
        refused: false,
    }
}

/// Made by [`on_workers`] and [`PipelineBuilder::add_on`].
///
/// ```
/// use netwright_core::{Observer, ObserverStage, OnWorkers, Workers, observe, on_workers};
/// use bytes::{Bytes, BytesMut};
///
/// struct WritesToDisk;
/// impl Observer for WritesToDisk {
///     type Read = BytesMut;
///     type Write = Bytes;
/// }
///
/// let workers = Workers::new(1)?;
/// let _stage: OnWorkers<ObserverStage<WritesToDisk>> = on_workers(&workers, observe(WritesToDisk));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OnWorkers<H: SendHandler> {
    shared: Arc<Shared<H>>,
    name: &'static str,
    mailbox: usize,
    /// Everything that the worker has not answered.
    under_way: usize,
    /// The messages among it, and about how many bytes they are.
    messages: usize,
    bytes: usize,
    held: bool,
    /// The workers took something no more: nothing goes there since.
    refused: bool,
}

impl<H> OnWorkers<H>
where
    H: SendHandler,
{
    /// How many messages may be under way before reading is held up, if they are not more bytes than the channel's high
    /// water mark before. Default: 64; at least 1.
    pub fn mailbox(mut self, messages: usize) -> Self {
        self.mailbox = messages.max(1);
        self
    }

    fn post(&mut self, cx: &mut Context<'_, Self>, item: Item<H>) {
        if self.refused {
            return;
        }
        self.under_way += 1;
        let known = worker::Known { paused: cx.core.demand.is_paused(), writable: cx.core.is_writable() };
        if let Err(why) = Shared::post(&self.shared, item, Some(known)) {
            self.refused = true;
            self.under_way = 0;
            self.let_go(cx);
            cx.fire_error(OffloadError::Refused(why));
        }
    }

    /// What came of one item, or of a part of it.
    fn deliver(&mut self, cx: &mut Context<'_, Self>, outputs: Vec<Output<H>>) {
        for output in outputs {
            match output {
                Output::Read(msg) => cx.fire_read(msg),
                Output::Event(event) => cx.next.event(cx.core, event),
                Output::Op(Op::Write(msg, done)) => cx.write_with(msg, done),
                Output::Op(op) => cx.ops.push(op),
                Output::Asked(asked) => self.grant(cx, asked),
                Output::Wrote(bytes) => cx.sub_pending(bytes),
                Output::Done { message } => {
                    self.under_way = self.under_way.saturating_sub(1);
                    if let Some(bytes) = message {
                        self.messages = self.messages.saturating_sub(1);
                        self.bytes = self.bytes.saturating_sub(bytes);
                    }
                    let marks = cx.core.outbound.water_marks();
                    if self.messages <= self.mailbox / 2 && self.bytes < marks.low() {
                        self.let_go(cx);
                    }
                }
                Output::Panicked(message) => {
                    self.refused = true;
                    self.under_way = 0;
                    resume_unwind(Box::new(message));
                }
            }
        }
    }

    fn grant(&mut self, cx: &mut Context<'_, Self>, asked: Asked) {
        match asked {
            Asked::Pause => cx.pause(),
            Asked::Resume => cx.resume(),
            Asked::Request => cx.request(),
            Asked::Hold => cx.hold(),
            Asked::Release => cx.release(),
            Asked::Insist => cx.insist(),
            Asked::Desist => cx.desist(),
            Asked::HoldInput => cx.hold_input(),
            Asked::ReleaseInput => cx.release_input(),
            Asked::AddPending(bytes) => cx.add_pending(bytes),
            Asked::SubPending(bytes) => cx.sub_pending(bytes),
            Asked::CloseWhenFlushed => cx.close_when_flushed(),
            Asked::Arm(timer, delay) => cx.core.arm_as(cx.stage, timer, delay),
            Asked::Disarm(timer) => drop(cx.disarm(timer)),
            Asked::Fail(fault) => cx.fire_error(fault),
        }
    }

    fn let_go(&mut self, cx: &mut Context<'_, Self>) {
        if std::mem::take(&mut self.held) {
            cx.release();
        }
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

    fn added(&mut self, cx: &mut Context<'_, Self>) {
        let channel = cx.handle::<H::Write>().map(|channel| Arc::new(channel) as Arc<dyn Any + Send + Sync>);
        self.shared.introduce(worker::Channel {
            id: cx.id(),
            side: cx.core.side(),
            event_loop: cx.event_loop(),
            source: cx.core.source_caller(),
            handle: channel,
            stage: cx.stage,
            back: cx.caller(),
        });
        self.post(cx, Item::Added);
    }
    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.post(cx, Item::Event(Inbound::Active));
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, msg: H::Read) {
        let bytes = size_of_message(&msg);
        self.messages += 1;
        self.bytes += bytes;
        let full = self.messages >= self.mailbox || self.bytes > cx.core.outbound.water_marks().high();
        if full && !std::mem::replace(&mut self.held, true) {
            cx.hold();
        }
        self.post(cx, Item::Read(msg, bytes));
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
        if self.refused {
            return cx.fire_error(fault); // nobody is left to take care of it
        }
        self.post(cx, Item::Event(Inbound::Error(fault)));
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        if self.refused {
            return cx.fire_inactive(cause);
        }
        self.post(cx, Item::Event(Inbound::Inactive(cause)));
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: H::Write, done: WritePromise) {
        let bytes = size_of_message(&msg) + ENTRY_OVERHEAD;
        if !self.refused {
            cx.add_pending(bytes);
        }
        self.post(cx, Item::Write(msg, done, bytes));
    }
    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        self.post(cx, Item::Flush);
    }
    fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        if self.refused {
            return cx.close_with(cause, done);
        }
        self.post(cx, Item::Close(cause, done));
    }
    fn shut_down_output(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
        self.post(cx, Item::ShutDownOutput(done));
    }
    fn timer(&mut self, cx: &mut Context<'_, Self>, timer: StageTimer) {
        self.post(cx, Item::Timer(timer));
    }
    fn called(&mut self, cx: &mut Context<'_, Self>, call: Box<dyn Any>) {
        match call.downcast::<Call<Self>>() {
            Ok(call) => call.run(self, cx),
            Err(other) => {
                // Callers that the handler made lead back to it.
                if let Ok(call) = other.downcast::<Call<H>>() {
                    self.post(cx, Item::Call(*call));
                }
            }
        }
    }
    fn is_busy(&self) -> bool {
        self.under_way > 0
    }
    fn removed(&mut self) {
        if Shared::post(&self.shared, Item::Removed, None).is_err() {
            self.shared.remove_here();
        }
    }
    fn leftover(&mut self) -> Leftover<H::Read> {
        Leftover::many(self.shared.take_unread())
    }
    fn name(&self) -> &'static str {
        self.name
    }
}

#[allow(clippy::type_complexity)] // the type is the list of stages: it grows with them
impl<S, H: Handler> PipelineBuilder<(S, H)> {
    /// Adds a stage that runs on workers: in order for each channel, side by side for different ones. For handlers that
    /// block or compute; the compiler asks for `Send` of the handler and of everything that crosses.
    ///
    /// Its context can do what others can, with one exception: futures ([`Context::spawn`], [`Context::offload`],
    /// [`Context::schedule`]) belong to a loop, and asking for one from here is an error of the pipeline. A handler on
    /// workers may simply wait; for later there is [`Context::arm`].
    ///
    /// ```
    /// use netwright_core::{AppContext, Application, EmbeddedChannel, Workers, pipeline};
    /// use bytes::{Bytes, BytesMut};
    ///
    /// struct Slow;
    ///
    /// impl Application for Slow {
    ///     type Read = BytesMut;
    ///     type Write = Bytes;
    ///     fn read(&mut self, cx: &mut AppContext<'_, Self>, query: BytesMut) {
    ///         // ask a database, and wait for it
    ///         cx.write_and_flush(query.freeze());
    ///     }
    /// }
    ///
    /// let workers = Workers::new(2)?;
    /// let mut channel = EmbeddedChannel::new(pipeline().app_on(&workers, Slow));
    /// channel.write_inbound(b"select");
    /// let answer = loop {
    ///     match channel.run().read_outbound() {
    ///         Some(answer) => break answer,
    ///         None => std::thread::yield_now(),
    ///     }
    /// };
    /// assert_eq!(answer, "select");
    /// # Ok::<(), netwright_core::WorkersError>(())
    /// ```
    pub fn add_on<K>(self, workers: &Workers, handler: K) -> PipelineBuilder<((S, H), OnWorkers<K>)>
    where
        K: SendHandler + Handler<Read = H::ReadOut, WriteOut = H::Write>,
    {
        self.add(on_workers(workers, handler))
    }

    /// Adds the last stage, an application that runs on workers. See [`add_on`](Self::add_on).
    pub fn app_on<A>(
        self,
        workers: &Workers,
        application: A,
    ) -> PipelineBuilder<((S, H), OnWorkers<ApplicationStage<A>>), Complete>
    where
        A: Application<Read = H::ReadOut, Write = H::Write> + Send,
        H: Handler<ReadOut: Send, Write: Send>,
    {
        self.add(on_workers(workers, ApplicationStage(application))).complete()
    }
}

#[allow(clippy::should_implement_trait)] // stages are added, not summed
impl PipelineBuilder<()> {
    /// Adds the stage next to the wire, on workers.
    pub fn add_on<K>(self, workers: &Workers, handler: K) -> PipelineBuilder<((), OnWorkers<K>)>
    where
        K: SendHandler,
    {
        self.add(on_workers(workers, handler))
    }

    /// Adds the only stage, an application that runs on workers.
    pub fn app_on<A>(
        self,
        workers: &Workers,
        application: A,
    ) -> PipelineBuilder<((), OnWorkers<ApplicationStage<A>>), Complete>
    where
        A: Application<Read: Send, Write: Send> + Send,
    {
        self.add(on_workers(workers, ApplicationStage(application))).complete()
    }
}
