//! The handle to a loop: what every thread may ask of it.

use super::{
    config::EventLoopBuilder,
    figures::LoopFigures,
    local::{Local, Work},
    local_loop::{LocalLoop, SourceCaller},
    schedule::{self, Period, Scheduled},
    shared::{Shared, Task},
    shutdown::Patience,
    spawn::{self, JoinHandle},
    submit,
    tail::{self, TailTask},
};
use crate::{
    driver::Token,
    error::{InvalidArgument, LoopError},
    group::EventLoopGroup,
    loop_thread,
    promise::{Promised, SharedPromised, promise},
    refused::{Refused, RefusedWhy},
    task_error::TaskError,
};
use std::{
    fmt, io,
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

    /// The group that the loop is of. `None` if it is of none, or if nobody holds that group any more: a loop does not.
    ///
    /// ```
    /// use netwright_core::{EventLoop, EventLoopGroup};
    ///
    /// let group = EventLoopGroup::new(2)?;
    /// let event_loop = group.next();
    /// let sibling = event_loop.parent().unwrap().next();
    /// assert!(event_loop != sibling && group.iter().any(|member| member == sibling));
    /// assert!(EventLoop::new().parent().is_none());
    /// # Ok::<(), netwright_core::BuildError>(())
    /// ```
    pub fn parent(&self) -> Option<EventLoopGroup> {
        self.shared.parent.get()?.upgrade()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
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
        if let Some(local) = Local::current_if(self.shared.id) {
            return local.execute(task);
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
        if let Some(local) = Local::current_if(self.shared.id) {
            return local.execute(task);
        }
        match self.shared.admit() {
            Ok(permit) => {
                permit.push_lazily(Task::Run(Box::new(task)));
                Ok(())
            }
            Err(why) => Err(Refused::new(task, why)),
        }
    }

    /// Runs a task of the framework itself, which no limit on pending tasks keeps out: what ends something is not to be lost because
    /// there is much to do. Dropped if the loop has ended, or has no thread and gets none.
    #[doc(hidden)]
    pub fn order(&self, task: impl FnOnce() + Send + 'static) -> Result<(), RefusedWhy> {
        match Local::current_if(self.shared.id) {
            Some(local) => local.submit(Work::Run(Box::new(task))),
            None => self.shared.try_send(Task::Run(Box::new(task))),
        }
    }

    /// Runs a task that need not be `Send`. Only on the loop's own thread; elsewhere it is refused.
    pub fn execute_local<F: FnOnce() + 'static>(&self, task: F) -> Result<(), Refused<F>> {
        let Some(local) = Local::current_if(self.shared.id) else {
            return Err(Refused::new(task, RefusedWhy::OffLoop));
        };
        local.execute(task)
    }

    /// Runs a task on the loop, in order with others, and promises what it returns, or that it panicked.
    ///
    /// A task that is [cancelled](Promised::cancel) before it starts is dropped when its turn comes. Dropping the promise
    /// does not stop it.
    ///
    /// ```
    /// use netwright_core::{EventLoop, TaskError};
    ///
    /// let event_loop = EventLoop::new();
    /// assert_eq!(event_loop.submit(|| 6 * 7)?.wait(), Ok(42));
    /// let mut broken = event_loop.submit(|| -> u32 { panic!("no such row") })?;
    /// assert_eq!(broken.wait(), Err(TaskError::Panicked("no such row".to_owned())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn submit<F, T>(&self, task: F) -> Result<Promised<T, TaskError>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        submit::submit(&self.shared, task)
    }

    /// Has the loop look round before it sleeps again: whatever was done before this call is seen by it, such as a
    /// [lazy task](Self::execute_lazy) or a [clock moved by hand](crate::ManualClock). However often it is called, the loop
    /// is woken once. A loop without a thread is not given one.
    ///
    /// ```
    /// use netwright_core::{EventLoopGroup, ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let event_loop = EventLoopGroup::builder().loops(1).clock(clock.clone()).build()?.next();
    /// let mut tea = event_loop.schedule(Duration::from_secs(240), || "ready")?;
    /// clock.advance(Duration::from_secs(240));
    /// event_loop.wake(); // it sleeps by a clock that has not moved
    /// assert_eq!(tea.wait()?, "ready");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wake(&self) {
        self.shared.ask_to_wake();
    }

    /// Replaces the kernel object underneath the loop's driver by a fresh one with the same registrations, as the loop does by
    /// itself when polls end early again and again. A task like any other, at the end of a turn; one rebuild does for all who
    /// have asked by then.
    ///
    /// Promises how many registrations moved, or what the system said; then the old one goes on.
    ///
    /// ```
    /// use netwright_core::EventLoop;
    ///
    /// let event_loop = EventLoop::new();
    /// let moved = event_loop.rebuild()?.wait()??;
    /// assert_eq!((moved, event_loop.figures().rebuilds), (0, 1)); // a loop without I/O has nothing to move
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rebuild(&self) -> Result<Promised<io::Result<usize>, TaskError>, RefusedWhy> {
        let (promise, promised) = promise();
        match Local::current_if(self.shared.id) {
            Some(local) => local.admit()?.push(Work::Rebuild(promise)),
            None => {
                let permit = self.shared.admit()?;
                self.shared.push(permit, Task::Rebuild(promise));
            }
        }
        Ok(promised)
    }

    // ---- timers ----

    /// Runs a task after `delay`: never early, late by at most a millisecond and what the loop is busy with. A delay
    /// too long to be named never ends.
    pub fn schedule<F, T>(&self, delay: Duration, task: F) -> Result<Scheduled<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if delay.is_zero() && self.in_event_loop() {
            self.shared.figures.timers_at_once.add(1);
        }
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

    /// Ends the loop now: the task that runs comes to its end, and what waits behind it is dropped, so that whoever waits for its
    /// result is told ([`TaskError::Abandoned`]). Channels close at once, with
    /// [`CloseCause::ShutDown`](crate::CloseCause::ShutDown), and from this call on nothing is accepted. Nobody is waited for: a
    /// handler on [workers](crate::Workers) may be dropped without having heard of the end.
    ///
    /// Also for a loop that was asked to end gracefully and takes too long. A task that the loop is in the midst of cannot be
    /// stopped, and the loop ends with it; of tasks that take less than a microsecond some more may run.
    ///
    /// ```
    /// use netwright_core::{EventLoop, TaskError};
    /// use std::time::Duration;
    ///
    /// let event_loop = EventLoop::new();
    /// let mut tomorrow = event_loop.schedule(Duration::from_secs(86_400), || "never")?;
    /// event_loop.shutdown_now().wait()?;
    /// assert_eq!(tomorrow.wait(), Err(TaskError::Abandoned));
    /// assert!(event_loop.execute(|| ()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_now(&self) -> Termination {
        self.shared.shut_down_now();
        self.termination()
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

    /// The present moment by the loop's clock.
    pub(crate) fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// Has a source called, from any thread. After the loop's end nothing happens.
    pub(crate) fn call(&self, token: Token) {
        self.shared.send(Task::Call(token));
    }

    /// A way to do so, for others.
    pub(crate) fn caller(&self, token: Token) -> SourceCaller {
        SourceCaller::new(self.shared.clone(), token)
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
