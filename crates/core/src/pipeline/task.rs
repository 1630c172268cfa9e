//! Futures of a stage: they run on the channel's loop, and their output comes back to the handler with no lock.
//!
//! ```text
//!   handler ── cx.spawn(future, then) ──▶ [ table of the channel ] ◀── poll ── the channel's turn ◀── waker (any thread)
//!                                                │ ready
//!                                                ▼
//!                                     then(&mut handler, cx, output), on the stage
//! ```
//! Always true:
//! 1. A future belongs to its stage. When the stage leaves or the channel ends, it is dropped, and `then` never runs.
//! 2. A future is polled with its handler at hand, in a turn of its own: never inside another call of that handler.
//! 3. A panic in the future or in `then` is one of the handler: its channel closes with that cause.
//! 4. A future that is ready at its first poll costs one allocation, and needs no waker.

use super::{Context, Handler};
use crate::{
    arena::{Arena, Key},
    channel::{ChannelCore, SideTable},
    event_loop::SourceCaller,
    refused::RefusedWhy,
    task_error::TaskError,
    workers::Workers,
};
use pin_project_lite::pin_project;
use std::{
    any::Any,
    fmt,
    panic::resume_unwind,
    pin::Pin,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{self, Poll, Wake, Waker},
    time::Duration,
};

/// A future of one stage, to be aborted.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, StageTask, pipeline};
/// use bytes::{Bytes, BytesMut};
/// use std::time::Duration;
///
/// /// Says that it is bored, unless somebody talks.
/// struct Bored { soon: Option<StageTask> }
///
/// impl Application for Bored {
///     type Read = BytesMut;
///     type Write = Bytes;
///
///     fn active(&mut self, cx: &mut AppContext<'_, Self>) {
///         self.soon = Some(cx.schedule(Duration::from_secs(1), |_, cx| cx.write_and_flush(Bytes::from("bored"))));
///     }
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
///         if let Some(soon) = self.soon.take() {
///             cx.abort(soon);
///         }
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().app(Bored { soon: None }));
/// channel.write_inbound("hello").advance(Duration::from_secs(2));
/// assert_eq!(channel.outbound_bytes(), b"");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StageTask(Key);

/// Something that is polled on a stage until it is done.
pub(crate) trait Job<H: Handler> {
    fn poll(
        self: Pin<&mut Self>,
        waker: &mut task::Context<'_>,
        handler: &mut H,
        cx: &mut Context<'_, H>,
    ) -> Poll<()>;

    /// Whether it lives long, so that there is no use in a first poll without a waker.
    fn lasts(&self) -> bool {
        false
    }
}

pin_project! {
    /// A future and what follows from its output.
    struct Spawned<F, K> {
        #[pin]
        future: F,
        then: Option<K>,
    }
}

impl<H, F, K> Job<H> for Spawned<F, K>
where
    H: Handler,
    F: Future,
    K: FnOnce(&mut H, &mut Context<'_, H>, F::Output),
{
    fn poll(
        self: Pin<&mut Self>,
        waker: &mut task::Context<'_>,
        handler: &mut H,
        cx: &mut Context<'_, H>,
    ) -> Poll<()> {
        let this = self.project();
        let output = std::task::ready!(this.future.poll(waker));
        if let Some(then) = this.then.take() {
            then(handler, cx, output);
        }
        Poll::Ready(())
    }
}

/// A job on its way to or from its stage. The box around it is used again.
pub(crate) struct Running<H: Handler> {
    job: Option<Pin<Box<dyn Job<H>>>>,
    called: Called,
}

/// How it is called. Knows nothing of the handler, and so is compiled once.
struct Called {
    key: Key,
    waker: Option<(Arc<TaskWaker>, Waker)>,
}

impl Called {
    /// Has a waker made, if there is none. False once the channel has left its loop.
    fn make_waker(&mut self, core: &ChannelCore) -> bool {
        if self.waker.is_none() {
            self.waker = core.task_waker(self.key).map(|task| (task.clone(), Waker::from(task)));
        }
        self.waker.is_some()
    }

    /// Whom the next poll is to call.
    fn waker(&self) -> &Waker {
        match &self.waker {
            Some((task, waker)) => {
                task.queued.store(false, Ordering::Release); // first: a wake-up during the poll counts
                waker
            }
            None => Waker::noop(), // most are done at once, and need none
        }
    }
}

impl<H: Handler> Running<H> {
    /// Polls it on its stage; afterwards it is back in the table, or over.
    pub(crate) fn poll(mut self: Box<Self>, handler: &mut H, cx: &mut Context<'_, H>) {
        let key = self.called.key;
        let mut lasts = self.job.as_ref().is_some_and(|job| job.lasts());
        loop {
            if lasts && !self.called.make_waker(cx.core) {
                return;
            }
            let Self { job: Some(job), called } = &mut *self else { return };
            if job.as_mut().poll(&mut task::Context::from_waker(called.waker()), handler, cx).is_ready() {
                self.job = None;
                self.called.waker = None;
                return cx.core.task_done(key, cx.stage, self);
            }
            if called.waker.is_some() {
                return cx.core.put_task_back(key, self);
            }
            lasts = true;
        }
    }
}

/// Has a task polled in its channel's turn, from any thread.
pub(crate) struct TaskWaker {
    table: SideTable,
    channel: SourceCaller,
    key: Key,
    queued: AtomicBool,
}

impl TaskWaker {
    pub(crate) fn new(table: SideTable, channel: SourceCaller, key: Key) -> Arc<Self> {
        Arc::new(Self { table, channel, key, queued: AtomicBool::new(false) })
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            let left = table.call(self.key, |rare, key| rare.woken.push(key));
            drop(table);
            if let Ok(true) = left {
                self.channel.call();
            }
        }
    }
}

/// Boxes of finished tasks that are kept for the next ones.
const SPARE_MAX: usize = 4;

/// The futures of one channel's stages.
#[derive(Default)]
pub(crate) struct Tasks {
    places: Arena<Entry>,
    /// Those to be polled at the next turn, besides those that a waker named.
    woken: Vec<Key>,
    spare: Vec<(u32, Box<dyn Any>)>,
}

struct Entry {
    stage: u32,
    /// A `Running<H>`; not there while it is polled.
    task: Option<Box<dyn Any>>,
}

impl Tasks {
    pub(crate) fn insert<H: Handler>(&mut self, stage: u32, job: Pin<Box<dyn Job<H>>>) -> StageTask {
        // Most channels that have a future at all have one for life: an async tail.
        self.places.begin_small();
        let key = self.places.insert(Entry { stage, task: None });
        let spare = self
            .spare
            .iter()
            .position(|(owner, task)| *owner == stage && task.is::<Running<H>>())
            .and_then(|index| self.spare.swap_remove(index).1.downcast::<Running<H>>().ok());
        let called = Called { key, waker: None };
        let task = match spare {
            Some(mut task) => {
                *task = Running { job: Some(job), called };
                task
            }
            None => Box::new(Running { job: Some(job), called }),
        };
        self.put_back(key, task);
        if self.woken.capacity() == 0 {
            self.woken.reserve_exact(1);
        }
        self.woken.push(key);
        StageTask(key)
    }

    pub(crate) fn take_woken(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.woken)
    }

    /// Lets the room of a list be used again.
    pub(crate) fn give_back(&mut self, mut list: Vec<Key>) {
        if self.woken.is_empty() {
            list.clear();
            self.woken = list;
        }
    }

    /// Takes a task out to be polled, and tells whose it is.
    pub(crate) fn take(&mut self, key: Key) -> Option<(u32, Box<dyn Any>)> {
        let place = self.places.get_mut(key)?;
        Some((place.stage, place.task.take()?))
    }

    /// Dropped here if it was aborted while it ran.
    pub(crate) fn put_back(&mut self, key: Key, task: Box<dyn Any>) {
        if let Some(place) = self.places.get_mut(key) {
            place.task = Some(task);
        }
    }

    pub(crate) fn done(&mut self, key: Key, stage: u32, emptied: Box<dyn Any>) {
        self.places.remove(key);
        if self.spare.len() < SPARE_MAX {
            self.spare.push((stage, emptied));
        }
    }

    pub(crate) fn contains(&self, key: Key) -> bool {
        self.places.contains(key)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Box<dyn Any>> {
        self.places.remove(key)?.task
    }

    /// Takes out everything of stages from this number on.
    pub(crate) fn take_from(&mut self, stage: u32) -> Vec<Box<dyn Any>> {
        let leaving: Vec<_> =
            self.places.iter().filter(|(_, place)| place.stage >= stage).map(|(key, _)| key).collect();
        leaving.into_iter().filter_map(|key| self.remove(key)).collect()
    }
}

/// Why a piece of offloaded work has no result.
///
/// ```
/// use netwright_core::{OffloadError, RefusedWhy};
///
/// let error = OffloadError::Refused(RefusedWhy::Full { limit: 64 });
/// assert!(error.to_string().contains("64"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffloadError {
    /// There are no workers for it.
    NoWorkers(String),
    /// The workers have too much to do, or are shut down.
    Refused(RefusedWhy),
    /// The workers dropped it.
    Lost(TaskError),
}

impl fmt::Display for OffloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWorkers(why) => write!(f, "no workers to offload to: {why}"),
            Self::Refused(why) => write!(f, "the workers refused offloaded work: {why}"),
            Self::Lost(why) => write!(f, "offloaded work has no result: {why}"),
        }
    }
}

impl std::error::Error for OffloadError {}

/// Straight-line work of a handler on its loop.
impl<H: Handler> Context<'_, H> {
    /// Runs a future on this channel's loop, then calls back with its output. It need not be `Send`. When the stage leaves
    /// or the channel ends, it is dropped.
    ///
    /// Reading goes on meanwhile. Who begins one with every message and does not want to be sent more of them than it can work on
    /// [pauses](Self::pause) and resumes when it calls back; `service` and `serve` do that by themselves.
    ///
    /// ```
    /// use netwright_core::{AppContext, Application, EmbeddedChannel, pipeline};
    /// use bytes::{Bytes, BytesMut};
    ///
    /// struct Greeter { greeted: usize }
    ///
    /// impl Application for Greeter {
    ///     type Read = BytesMut;
    ///     type Write = Bytes;
    ///
    ///     fn read(&mut self, cx: &mut AppContext<'_, Self>, name: BytesMut) {
    ///         cx.spawn(async move { format!("hello, {}", name.escape_ascii()) }, |greeter, cx, text| {
    ///             greeter.greeted += 1;
    ///             cx.write_and_flush(text);
    ///         });
    ///     }
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().app(Greeter { greeted: 0 }));
    /// channel.write_inbound(b"ada");
    /// assert_eq!(channel.read_outbound().unwrap(), "hello, ada");
    /// ```
    pub fn spawn<F>(
        &mut self,
        future: F,
        then: impl FnOnce(&mut H, &mut Context<'_, H>, F::Output) + 'static,
    ) -> StageTask
    where
        F: Future + 'static,
    {
        self.core.spawn(self.stage, Box::pin(Spawned { future, then: Some(then) }))
    }

    /// Runs blocking or heavy work on the process's [common workers](Workers::common), then calls back with its result.
    ///
    /// A panic in it closes the channel, as one in the handler would. Work that finds no worker is an error of the
    /// pipeline ([`OffloadError`]), which closes the channel unless a stage takes care of it.
    pub fn offload<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(&mut H, &mut Context<'_, H>, T) + 'static,
    ) -> StageTask {
        match Workers::common() {
            Ok(workers) => self.offload_to(&workers, work, then),
            Err(error) => {
                let error = OffloadError::NoWorkers(error.to_string());
                self.spawn(std::future::ready(()), |_, cx, ()| cx.fire_error(error))
            }
        }
    }

    /// [`offload`](Self::offload) to workers of your own.
    pub fn offload_to<T: Send + 'static>(
        &mut self,
        workers: &Workers,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(&mut H, &mut Context<'_, H>, T) + 'static,
    ) -> StageTask {
        let submitted = workers.submit(work).map_err(|refused| OffloadError::Refused(refused.why));
        let result = async move { submitted?.await.map_err(OffloadError::Lost) };
        self.spawn(result, |handler, cx, result| match result {
            Ok(result) => then(handler, cx, result),
            Err(OffloadError::Lost(TaskError::Panicked(message))) => resume_unwind(Box::new(message)),
            Err(error) => cx.fire_error(error),
        })
    }

    /// Calls back after `delay`. [`arm`](Self::arm) does the same through [`Handler::timer`], without an allocation.
    pub fn schedule(
        &mut self,
        delay: Duration,
        then: impl FnOnce(&mut H, &mut Context<'_, H>) + 'static,
    ) -> StageTask {
        self.spawn(crate::time::sleep(delay), |handler, cx, ()| then(handler, cx))
    }

    /// Drops a future of this channel before it is done. False if it was done already.
    pub fn abort(&mut self, task: StageTask) -> bool {
        self.core.abort_task(task.0)
    }
}
