//! The handle to a loop: what every thread may ask of it.

use super::{
    config::EventLoopBuilder,
    figures::LoopFigures,
    local::{Local, Work},
    local_loop::LocalLoop,
    schedule::{self, Period, Scheduled},
    shared::{Shared, Task},
    shutdown::Patience,
    spawn::{self, JoinHandle},
    tail::{self, TailTask},
};
use crate::{
    error::{InvalidArgument, LoopError},
    loop_thread,
    promise::SharedPromised,
    refused::{Refused, RefusedWhy},
};
use std::{
    fmt,
    sync::{Arc, Weak, atomic::Ordering},
    time::{Duration, Instant},
};

/// The end of a loop, as a future that any number may await, and as a blocking wait.
///
/// ```
/// use netwright_core::EventLoop;
/// use std::time::Duration;
///
/// let event_loop = EventLoop::new();
/// let termination = event_loop.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?;
/// termination.wait()?; // or `.await`
/// assert!(event_loop.is_terminated());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Termination = SharedPromised<(), LoopError>;

/// A handle to one event loop: one thread, one driver, one task queue.
///
/// Cheap to clone, and any thread may use it. The thread starts with the first task. When the last handle is gone, the
/// loop runs what it has accepted, closes what it hosts and ends, so no thread outlives its use.
///
/// ```
/// use netwright_core::EventLoop;
/// use std::sync::mpsc;
///
/// let event_loop = EventLoop::new();
/// let (send, receive) = mpsc::channel();
/// for n in 0..3 {
///     let send = send.clone();
///     event_loop.execute(move || send.send(n).unwrap())?;
/// }
/// drop(send);
/// assert_eq!(receive.iter().collect::<Vec<_>>(), [0, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventLoop {
    shared: Arc<Shared>,
}

impl EventLoop {
    /// A loop for tasks and timers, with every setting at its default.
    #[allow(clippy::new_without_default)] // a default that starts a thread later would surprise
    pub fn new() -> Self {
        Self::builder().build().expect("the defaults are valid and the parking driver cannot fail")
    }

    /// Sets up a loop.
    pub fn builder() -> EventLoopBuilder {
        EventLoopBuilder::new()
    }

    pub(crate) fn new_handle(shared: Arc<Shared>) -> Self {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Self { shared }
    }

    /// A handle that does not keep the loop from ending.
    pub fn downgrade(&self) -> WeakEventLoop {
        WeakEventLoop { shared: Arc::downgrade(&self.shared) }
    }

    /// The loop that the calling thread runs.
    pub fn current() -> Option<Self> {
        Local::current().map(|local| Self::new_handle(local.shared.clone()))
    }

    /// Whether the calling thread runs this loop.
    pub fn in_event_loop(&self) -> bool {
        loop_thread::is_current(self.shared.id)
    }

    /// What only the loop's own thread may use; `None` on any other thread.
    pub fn local(&self) -> Option<LocalLoop> {
        Local::current_if(self.shared.id).map(LocalLoop::new)
    }

    /// The loop's name.
    pub fn name(&self) -> &str {
        &self.shared.config.name
    }

    /// The present moment by the loop's clock.
    pub fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// What the loop has done and has to do.
    pub fn figures(&self) -> LoopFigures {
        self.shared.figures.snapshot(self.shared.inbox.pending())
    }

    // ---- tasks ----

    /// Runs a task on the loop, after all that was submitted before it.
    ///
    /// From another thread: lock-free, and wakes the loop only if it sleeps. A task that is refused comes back in the
    /// error.
    pub fn execute<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), Refused<F>> {
        if self.in_event_loop() {
            return self.execute_local(task);
        }
        match self.shared.admit() {
            Ok(permit) => {
                self.shared.push(permit, Task::Run(Box::new(task)));
                Ok(())
            }
            Err(why) => Err(Refused::new(task, why)),
        }
    }

    /// Like [`execute`](Self::execute), but lets a sleeping loop sleep: the task runs when something else wakes it.
    pub fn execute_lazy<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), Refused<F>> {
        if self.in_event_loop() {
            return self.execute_local(task);
        }
        match self.shared.admit() {
            Ok(permit) => {
                permit.push_lazily(Task::Run(Box::new(task)));
                Ok(())
            }
            Err(why) => Err(Refused::new(task, why)),
        }
    }

    /// Runs a task that need not be `Send`. Only on the loop's own thread; elsewhere it is refused.
    pub fn execute_local<F: FnOnce() + 'static>(&self, task: F) -> Result<(), Refused<F>> {
        let Some(local) = Local::current_if(self.shared.id) else {
            return Err(Refused::new(task, RefusedWhy::OffLoop));
        };
        match local.admit() {
            Ok(place) => {
                place.push(Work::Run(Box::new(task)));
                Ok(())
            }
            Err(why) => Err(Refused::new(task, why)),
        }
    }

    // ---- timers ----

    /// Runs a task after `delay`: never early, late by at most a millisecond and what the loop is busy with. A delay
    /// too long to be named never ends.
    pub fn schedule<F, T>(&self, delay: Duration, task: F) -> Result<Scheduled<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        schedule::once(&self.shared, self.now().checked_add(delay), task)
    }

    /// Runs a task at `deadline`; one that has passed means as soon as possible.
    pub fn schedule_at<F, T>(&self, deadline: Instant, task: F) -> Result<Scheduled<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        schedule::once(&self.shared, Some(deadline), task)
    }

    /// Runs a task every `period`, counted from deadline to deadline. After a stall the runs that were missed follow one
    /// another without a pause. A panic ends it. A period of zero is refused.
    pub fn schedule_at_fixed_rate<F: FnMut() + Send + 'static>(
        &self,
        initial: Duration,
        period: Duration,
        task: F,
    ) -> Result<Scheduled<()>, Refused<F>> {
        schedule::repeat(&self.shared, self.now().checked_add(initial), Period::Rate(period), task)
    }

    /// Runs a task again and again with a pause of `delay` after the end of each run. A panic ends it. A delay of zero
    /// is refused.
    pub fn schedule_with_fixed_delay<F: FnMut() + Send + 'static>(
        &self,
        initial: Duration,
        delay: Duration,
        task: F,
    ) -> Result<Scheduled<()>, Refused<F>> {
        schedule::repeat(&self.shared, self.now().checked_add(initial), Period::Delay(delay), task)
    }

    // ---- tail tasks ----

    /// Runs a task at the end of the loop's present turn, or of its next one.
    pub fn after_iteration<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<TailTask, Refused<F>> {
        tail::add_once(&self.shared, task)
    }

    /// Runs a task at the end of every turn, until it is removed or panics.
    pub fn after_every_iteration<F: FnMut() + Send + 'static>(
        &self,
        task: F,
    ) -> Result<TailTask, Refused<F>> {
        tail::add_every(&self.shared, task)
    }

    // ---- futures ----

    /// Runs a future on the loop.
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, Refused<F>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        spawn::spawn(&self.shared, future)
    }

    /// Runs a future that need not be `Send`. Only on the loop's own thread; elsewhere it is refused.
    pub fn spawn_local<F: Future + 'static>(&self, future: F) -> Result<JoinHandle<F::Output>, Refused<F>> {
        match Local::current_if(self.shared.id) {
            Some(local) => spawn::spawn_local(&local, future),
            None => Err(Refused::new(future, RefusedWhy::OffLoop)),
        }
    }

    // ---- the end ----

    /// Asks the loop to end: at once to close what it hosts and to forget its timers, then to go on running tasks until
    /// none came for `quiet`, at the latest until `timeout` is over. With a `quiet` of zero it leaves as soon as nothing
    /// waits. The first request counts; later ones change nothing.
    ///
    /// A task submitted meanwhile runs or is refused, never lost. Futures that have not finished by then are dropped.
    pub fn shutdown_gracefully(
        &self,
        quiet: Duration,
        timeout: Duration,
    ) -> Result<Termination, InvalidArgument> {
        self.shared.shut_down(Patience::new(quiet, timeout)?);
        Ok(self.termination())
    }

    /// Asks the loop to give its thread back if nothing lives on it: no task, timer, future, tail task or source, and a
    /// driver that may change threads. Otherwise nothing happens. The next task starts a new thread.
    pub fn suspend_if_idle(&self) {
        self.shared.ask_to_suspend();
    }

    /// Whether the loop has a thread at the moment. It has none before its first task, while it is suspended, and after
    /// its end.
    pub fn has_thread(&self) -> bool {
        !self.shared.inbox.is_unstarted() && !self.is_terminated()
    }

    /// Whether the loop is in the midst of a turn, or about to be.
    pub(crate) fn is_awake(&self) -> bool {
        self.has_thread() && !self.shared.inbox.is_sleeping()
    }

    /// Whether a shutdown was asked for, or the loop has ended or is about to.
    pub fn is_shutting_down(&self) -> bool {
        self.is_asked_to_end() || self.shared.inbox.is_closed()
    }

    /// Whether a shutdown was asked for.
    pub(crate) fn is_asked_to_end(&self) -> bool {
        self.shared.patience().is_some()
    }

    /// Whether the loop has ended.
    pub fn is_terminated(&self) -> bool {
        self.shared.is_terminated()
    }

    /// The end of the loop: a future, and a blocking wait that on a loop's own thread is an error instead of a deadlock.
    pub fn termination(&self) -> Termination {
        self.shared.termination()
    }

    pub(crate) fn shut_down(&self, patience: Patience) {
        self.shared.shut_down(patience);
    }
}

/// Quiet for two seconds, at most fifteen: enough for peers to notice, short enough for a deployment.
pub const QUIET_PERIOD: Duration = Duration::from_secs(2);
/// See [`QUIET_PERIOD`].
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);

impl Clone for EventLoop {
    fn clone(&self) -> Self {
        Self::new_handle(self.shared.clone())
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        if self.shared.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Nobody can ask for more: finish what was accepted and go.
            self.shared.shut_down(Patience { quiet: Duration::ZERO, timeout: SHUTDOWN_TIMEOUT });
        }
    }
}

impl PartialEq for EventLoop {
    fn eq(&self, other: &Self) -> bool {
        self.shared.id == other.shared.id
    }
}

impl Eq for EventLoop {}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop")
            .field("name", &self.name())
            .field("id", &self.shared.id)
            .finish_non_exhaustive()
    }
}

/// A handle that does not count: when the last [`EventLoop`] is gone, the loop ends, whoever holds one of these. For
/// what a loop itself hosts, such as a timer that needs its loop.
///
/// ```
/// use netwright_core::EventLoop;
///
/// let event_loop = EventLoop::new();
/// let weak = event_loop.downgrade();
/// assert_eq!(weak.upgrade().as_ref(), Some(&event_loop));
/// drop(event_loop);
/// assert!(weak.upgrade().is_none());
/// ```
#[derive(Clone)]
pub struct WeakEventLoop {
    shared: Weak<Shared>,
}

impl WeakEventLoop {
    /// The loop, unless its last handle is gone and it has begun to end for that reason. A loop that was shut down may
    /// still be had.
    pub fn upgrade(&self) -> Option<EventLoop> {
        let shared = self.shared.upgrade()?;
        // Zero is final: whoever took the last one has shut the loop down.
        shared
            .handles
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |handles| {
                (handles > 0).then_some(handles + 1)
            })
            .ok()?;
        Some(EventLoop { shared })
    }
}

/// A loop as those know it who run elsewhere on its behalf: gives handles while it lives, as the loop itself does, and is none.
#[derive(Clone)]
pub(crate) struct LoopRef {
    shared: Arc<Shared>,
}

impl LoopRef {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(crate) fn handle(&self) -> EventLoop {
        EventLoop::new_handle(self.shared.clone())
    }
}

impl fmt::Debug for WeakEventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shared.upgrade() {
            Some(shared) => f.debug_tuple("WeakEventLoop").field(&shared.config.name).finish(),
            None => f.write_str("WeakEventLoop(gone)"),
        }
    }
}
