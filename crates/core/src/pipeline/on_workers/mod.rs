//! A whole stage on workers: its handler may block, its channel's loop does not wait for it.
//!
//! ```text
//!   loop     [ stage before ] ──▶ ( OnWorkers ) ─ ─ ─ one call ─ ─ ─ ▶ lane ──▶ handler          a worker
//!            [ stage behind ] ◀── ( OnWorkers ) ◀ ─ ─ what it fired, wrote and asked for ─ ─ ┘
//! ```
//! Always true:
//! 1. But for its thread and its [place](super::Place), the handler cannot tell where it runs. One call at a time is under way; everything that it causes
//!    has happened, down to the wire, before the next message or event is looked at.
//! 2. While a call is under way nothing is delivered anywhere in the channel (`Demand::depart`): the transport stops reading,
//!    decoders are not asked, events wait at the boundary where they are. What the application said about demand stays as
//!    it is. Operations, timers and news of room pass, and wait here for their turn.
//! 3. Messages are pulled one at a time, when the loop asks: never more than demand allows.
//! 4. Writes that wait or are under way count as pending bytes of the channel.
//! 5. Whatever is handed over gets an answer, also if the workers drop it. Workers that refuse are an error of the pipeline;
//!    events and ends then pass this stage by, so that everybody behind it hears of them.
//! 6. A panic on the worker is one of the channel, which closes with its message. The pipeline lives until everything under
//!    way has come out.
//!
//! | file | what it is |
//! | --- | --- |
//! | `send` | which handlers and applications can run there |
//! | `stage` | the stage on the loop |
//! | `worker` | the handler's side, on a worker |

mod send;
mod stage;
mod worker;

pub use self::send::{SendApplication, SendHandler};
use self::{
    stage::{More, Phase},
    worker::{Item, Shared},
};
use super::{ApplicationStage, Complete, Element, Handler, OffloadError, PipelineBuilder, Target};
use crate::{
    channel::{Carries, HalfClosure},
    workers::Workers,
};
use std::{collections::VecDeque, convert::Infallible, sync::Arc};

/// A handler on workers, as a stage. See [`PipelineBuilder::add_on`].
///
/// ```
/// use netwright_core::{Context, EmbeddedChannel, Handler, OnWorker, WritePromise, Workers, on_workers, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// /// Something that takes its time.
/// struct Shouts;
/// impl Handler<OnWorker> for Shouts {
///     type Read = BytesMut;
///     type ReadOut = BytesMut;
///     type Write = Bytes;
///     type WriteOut = Bytes;
///     fn read(&mut self, cx: &mut Context<'_, Self, OnWorker>, mut bytes: BytesMut) {
///         bytes.make_ascii_uppercase();
///         cx.fire_read(bytes);
///     }
///     fn write(&mut self, cx: &mut Context<'_, Self, OnWorker>, bytes: Bytes, done: WritePromise) {
///         cx.write_with(bytes, done);
///     }
/// }
///
/// let workers = Workers::new(1)?;
/// let mut channel = EmbeddedChannel::new(pipeline().add(on_workers(&workers, Shouts)));
/// channel.write_inbound("hello");
/// let heard = std::iter::repeat_with(|| channel.run().read_inbound()).flatten().next();
/// assert_eq!(heard.unwrap(), "HELLO"); // on the loop again
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn on_workers<H>(workers: &Workers, handler: H) -> OnWorkers<H>
where
    H: SendHandler,
{
    let (name, target, half_closure) = (handler.name(), handler.target(), handler.half_closure());
    OnWorkers {
        shared: Arc::new(Shared::new(workers.lane(), handler)),
        name,
        target,
        half_closure,
        items: VecDeque::new(),
        away: false,
        busy: false,
        owes: false,
        more: More::No,
        brings_more: false,
        answers: false,
        asked_while_paused: false,
        pending: 0,
        left: Vec::new(),
        phase: Phase::Running,
        refused: None,
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
    /// Whose calls lead to the worker.
    target: Target,
    half_closure: HalfClosure,
    /// What waits for its turn, in order: nearly always operations of one call.
    items: VecDeque<Item<H>>,
    /// A batch is under way.
    away: bool,
    /// The handler itself has something on its way through it.
    busy: bool,
    /// The handler owes an answer to something that it has read.
    owes: bool,
    more: More,
    /// The handler may have a message to give when what is under way is over.
    brings_more: bool,
    /// What is under way is no operation, so that what the handler writes there may be an answer.
    answers: bool,
    /// Messages were not wanted when it was handed over.
    asked_while_paused: bool,
    /// What the writes under way count for as pending bytes.
    pending: usize,
    /// What the handler had read and not used when it left.
    left: Vec<H::Read>,
    phase: Phase,
    /// The workers took something no more, for this reason: nothing goes there since.
    refused: Option<OffloadError>,
}

// What a stage writes has a parameter of its own (`M`), and the application's stage is not named: so that of a handler that is not for
// workers the compiler says just that, and not what follows from it.

#[allow(clippy::type_complexity)] // the type is the list of stages: it grows with them
impl<S, H: Element> PipelineBuilder<(S, H)> {
    /// Adds a stage that runs on workers: in order for each channel, side by side for different ones. For handlers that
    /// block or compute; the compiler asks for `Send` of the handler and of everything that crosses.
    ///
    /// But for its thread, the handler cannot tell where it runs: it has one call at a time, and everything that this causes
    /// has happened before the next. So a message costs a way to a worker and back, some ten microseconds, which only work that takes
    /// longer is worth.
    ///
    /// The handler is one [for workers](super::OnWorker), or for [every place](super::Place), and its context has what works there. That is
    /// what others have but for futures ([`Context::spawn`](super::Context::spawn), [`Context::offload`](super::Context::offload),
    /// [`Context::schedule`](super::Context::schedule)) and [children](crate::Children), which belong to a loop. A handler on workers may simply wait; for later
    /// there is [`Context::arm`](super::Context::arm).
    ///
    /// ```
    /// use netwright_core::{AppContext, Application, EmbeddedChannel, OnWorker, Workers, pipeline};
    /// use bytes::{Bytes, BytesMut};
    ///
    /// struct Slow;
    ///
    /// impl Application<OnWorker> for Slow {
    ///     type Read = BytesMut;
    ///     type Write = Bytes;
    ///     fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, query: BytesMut) {
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
    pub fn add_on<K, M>(self, workers: &Workers, handler: K) -> PipelineBuilder<((S, H), OnWorkers<K>)>
    where
        K: SendHandler<Read = H::ReadOut, WriteOut = M>,
        H::Write: Carries<M>,
    {
        self.add(on_workers(workers, handler))
    }

    /// Adds the last stage, an application that runs on workers. See [`add_on`](Self::add_on).
    pub fn app_on<A, M>(
        self,
        workers: &Workers,
        application: A,
    ) -> PipelineBuilder<
        (
            (S, H),
            impl Handler<Read = H::ReadOut, ReadOut = Infallible, Write = M, WriteOut = M> + use<S, H, A, M>,
        ),
        Complete,
    >
    where
        A: SendApplication<Read = H::ReadOut, Write = M>,
        H::Write: Carries<M>,
        M: 'static,
    {
        self.add(on_workers(workers, ApplicationStage(application))).complete()
    }
}

#[allow(clippy::should_implement_trait, clippy::type_complexity)] // stages are added, not summed; as above
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
    ) -> PipelineBuilder<
        (
            (),
            impl Handler<Read = A::Read, ReadOut = Infallible, Write = A::Write, WriteOut = A::Write> + use<A>,
        ),
        Complete,
    >
    where
        A: SendApplication,
    {
        self.add(on_workers(workers, ApplicationStage(application))).complete()
    }
}
