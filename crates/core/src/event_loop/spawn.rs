//! Each loop is an executor of futures: they live in a table on the loop's thread, and wakers put them in its queue.
//!
//! ```text
//!   spawn ──▶ [ table of futures ]  ◀── poll ── task queue ◀── waker (any thread, no lock)
//!                     │ finished: the promise behind the JoinHandle is completed
//! ```
//!
//! A waker holds the future's place in the table and a flag "already queued". Waking sets the flag and, if it was
//! clear, submits the place as a task: one atomic, and no allocation.

use super::{
    TaskKind,
    local::{Local, Work},
    shared::{Shared, Task},
};
use crate::{
    arena::{Arena, Key},
    promise::{Promised, promise},
    refused::{Refused, RefusedWhy},
    task_error::{TaskError, catch},
};
use std::{
    cell::RefCell,
    fmt,
    pin::{Pin, pin},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The futures of one loop.
pub(crate) struct Futures {
    table: RefCell<Arena<Option<(LocalFuture, Waker)>>>,
}

impl Futures {
    pub(crate) fn new() -> Self {
        Self { table: RefCell::new(Arena::new()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.borrow().is_empty()
    }

    fn insert(&self, local: &Rc<Local>, task: &Arc<FutureTask>, future: LocalFuture) {
        let waker = Waker::from(task.clone());
        let mut table = self.table.borrow_mut();
        let key = table.insert(Some((future, waker)));
        local.shared.figures.futures.set(table.len());
        task.key.store(key.to_u64(), Ordering::Release);
    }

    pub(crate) fn poll(&self, local: &Rc<Local>, task: Arc<FutureTask>) {
        // Clear first: a wake-up during the poll must queue it again.
        task.queued.store(false, Ordering::Release);
        let key = task.key();
        let Some((mut future, waker)) = self.table.borrow_mut().get_mut(key).and_then(Option::take) else {
            return; // finished or aborted; a late waker
        };
        let finished = task.aborted.load(Ordering::Acquire)
            || local
                .contain(TaskKind::Future, || future.as_mut().poll(&mut Context::from_waker(&waker)))
                .is_none_or(|poll| poll.is_ready())
            || local.closed.get(); // the last pass: nothing will wake it any more
        if finished {
            let mut table = self.table.borrow_mut();
            table.remove(key);
            local.shared.figures.futures.set(table.len());
            drop(table);
            local.contain(TaskKind::Future, || drop((future, waker)));
        } else if let Some(place) = self.table.borrow_mut().get_mut(key) {
            *place = Some((future, waker));
        }
    }

    /// Drops every future, on the loop's thread, each by itself.
    pub(crate) fn clear(&self, local: &Rc<Local>) {
        let table = self.table.replace(Arena::new());
        local.shared.figures.futures.set(0);
        local.drop_each(TaskKind::Future, table.into_values());
    }
}

/// A future's place, for wakers and for whoever wants to abort it.
pub(crate) struct FutureTask {
    shared: Arc<Shared>,
    queued: AtomicBool,
    aborted: AtomicBool,
    /// The table's key as a number, 0 until the future has arrived on its loop.
    key: AtomicU64,
}

impl FutureTask {
    fn new(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            shared: shared.clone(),
            queued: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
            key: AtomicU64::new(0),
        })
    }

    fn key(&self) -> Key {
        Key::from_u64(self.key.load(Ordering::Acquire))
    }
}

impl Wake for FutureTask {
    fn wake(self: Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        match Local::current_if(self.shared.id) {
            Some(local) => local.push(Work::Poll(self)),
            None => {
                let shared = self.shared.clone();
                shared.send(Task::Poll(self));
            }
        }
    }
}

/// A spawned future: awaits its output, and can abort it.
///
/// Dropping the handle lets the future go on.
///
/// ```
/// use netwright_core::EventLoop;
///
/// let event_loop = EventLoop::new();
/// let mut sum = event_loop.spawn(async { (1..=100).sum::<u32>() }).unwrap();
/// assert_eq!(sum.wait(), Ok(5050));
/// ```
#[must_use = "dropping the handle lets the future go on, but then nothing can abort it"]
pub struct JoinHandle<T> {
    promised: Promised<T, TaskError>,
    task: Arc<FutureTask>,
}

impl<T> JoinHandle<T> {
    /// Aborts the future: the handle resolves to [`TaskError::Cancelled`] at once, and the loop drops the future on its
    /// next turn. False if it had finished or was aborted before.
    pub fn abort(&self) -> bool {
        let cancelled = self.promised.cancel();
        if cancelled {
            self.task.aborted.store(true, Ordering::Release);
            self.task.clone().wake();
        }
        cancelled
    }

    /// Whether the output, or the reason why there is none, is there.
    pub fn is_done(&self) -> bool {
        self.promised.is_done()
    }

    /// Blocks until the output is there. On a loop's thread this is an error, not a deadlock.
    pub fn wait(&mut self) -> Result<T, TaskError> {
        self.promised.wait()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.promised).poll(cx)
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

pub(super) fn spawn<F>(shared: &Arc<Shared>, future: F) -> Result<JoinHandle<F::Output>, Refused<F>>
where
    F: Future<Output: Send> + Send + 'static,
{
    if let Some(local) = Local::current_if(shared.id) {
        return spawn_local(&local, future);
    }
    let permit = match shared.admit() {
        Ok(permit) => permit,
        Err(why) => return Err(Refused::new(future, why)),
    };
    let (wrapped, handle) = wrap(shared, future);
    let task = handle.task.clone();
    let arrive = move || {
        if let Some(local) = Local::current() {
            // A wake-up by an early abort found no key; the first poll sees the flag.
            local.futures.insert(&local, &task, Box::pin(wrapped));
            local.futures.poll(&local, task);
        }
    };
    shared.push(permit, Task::Run(Box::new(arrive)));
    Ok(handle)
}

pub(super) fn spawn_local<F>(local: &Rc<Local>, future: F) -> Result<JoinHandle<F::Output>, Refused<F>>
where
    F: Future + 'static,
{
    if local.closed.get() {
        return Err(Refused::new(future, RefusedWhy::ShutDown));
    }
    let (wrapped, handle) = wrap(&local.shared, future);
    local.futures.insert(local, &handle.task, Box::pin(wrapped));
    // The first poll is a task that was submitted, in order with others; later ones are the loop's own.
    handle.task.queued.store(true, Ordering::Release);
    local.queues.submit(Work::Poll(handle.task.clone()));
    Ok(handle)
}

/// The future with its promise: what it yields, or the message of its panic, goes there.
fn wrap<F>(shared: &Arc<Shared>, future: F) -> (impl Future<Output = ()> + use<F>, JoinHandle<F::Output>)
where
    F: Future + 'static,
{
    let (promise, promised) = promise();
    let task = FutureTask::new(shared);
    let reporter = shared.clone();
    let wrapped = async move {
        let mut future = pin!(future);
        let output = std::future::poll_fn(|cx| match catch(|| future.as_mut().poll(cx)) {
            Ok(poll) => poll.map(Ok),
            Err(message) => {
                reporter.report_panic(TaskKind::Future, &message);
                Poll::Ready(Err(TaskError::Panicked(message)))
            }
        });
        promise.complete(output.await);
    };
    (wrapped, JoinHandle { promised, task })
}
