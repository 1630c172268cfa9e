//! The part of a loop that every thread may touch.
//!
//! Always true:
//! 1. The thread is started at most once, by the first submitter, while others wait for it; a failed start leaves the loop
//!    as it was and gives the submitter its task back. No lock is held while whoever makes threads does so.
//! 2. `patience` is set once; whoever sets it makes sure that the loop sees it, by a message that keeps it awake. Whoever does
//!    so while it makes the loop's thread leaves that to the submitter that it makes it for.
//! 3. The termination is completed exactly once: by the loop's last act, or by who closes a loop that never started.

use super::{
    config::{LoopConfig, Rejection},
    figures::Figures,
    inbox::{Inbox, Next, Permit},
    nap::Nap,
    requests::{END_NOW, Requests, SUSPEND, WAKE},
    runner,
    shutdown::Patience,
    spawn::FutureTask,
    submit::Rebuilt,
};
use crate::{
    alone::Alone,
    clock::Clock,
    driver::{DriverSeed, DriverWaker, Token},
    error::LoopError,
    group::WeakGroup,
    promise::{Promise, SharedPromised, promise},
    refused::RefusedWhy,
    task_error::{TaskError, catch, tell},
};
use std::{
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, ThreadId},
};

/// What other threads hand to a loop.
pub(crate) enum Task {
    Run(Box<dyn FnOnce() + Send>),
    Poll(Arc<FutureTask>),
    /// Call a source: somebody left something for it.
    Call(Token),
    /// Replace the driver's kernel object.
    Rebuild(Promise<Rebuilt, TaskError>),
    /// Nothing to do, but look up: something was asked for.
    Nudge,
    /// The place of a task that the loop submitted to itself and keeps: see `queues`.
    Mark,
}

pub(crate) struct Shared {
    pub(crate) id: usize,
    pub(crate) config: LoopConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) inbox: Inbox<Task>,
    pub(crate) figures: Alone<Figures>,
    /// How many [`EventLoop`](super::EventLoop) handles exist; at zero the loop shuts itself down.
    pub(crate) handles: Alone<AtomicUsize>,
    pub(crate) nap: Nap,
    waker: Arc<dyn DriverWaker>,
    seed: Mutex<Option<Box<dyn DriverSeed>>>,
    /// Who starts the thread at this moment.
    starting: Mutex<Option<ThreadId>>,
    start_over: Condvar,
    /// Whoever makes the thread has asked for the loop's end: who starts it has to see to that.
    end_left: AtomicBool,
    patience: OnceLock<Patience>,
    pub(crate) requests: Requests,
    /// The group that the loop is of, if it is of one.
    pub(crate) parent: OnceLock<WeakGroup>,
    terminated: AtomicBool,
    terminate: Mutex<Option<Promise<(), LoopError>>>,
    termination: SharedPromised<(), LoopError>,
}

impl Shared {
    pub(crate) fn new(config: LoopConfig, clock: Arc<dyn Clock>, seed: Box<dyn DriverSeed>) -> Arc<Self> {
        static IDS: AtomicUsize = AtomicUsize::new(1);
        let (terminate, termination) = promise();
        Arc::new(Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            inbox: Inbox::new(config.max_pending_tasks, config.task_ring),
            config,
            clock,
            figures: Alone::default(),
            handles: Alone::default(),
            nap: Nap::default(),
            waker: seed.waker(),
            seed: Mutex::new(Some(seed)),
            starting: Mutex::new(None),
            start_over: Condvar::new(),
            end_left: AtomicBool::new(false),
            patience: OnceLock::new(),
            requests: Requests::new(),
            parent: OnceLock::new(),
            terminated: AtomicBool::new(false),
            terminate: Mutex::new(Some(terminate)),
            termination: termination.shared(),
        })
    }

    // ---- tasks from other threads ----

    /// A place for a task, by the rejection policy. Starts the thread with the first one.
    #[inline]
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Permit<'_, Task>, RefusedWhy> {
        match self.inbox.admit() {
            Ok(permit) if !permit.unstarted() => Ok(permit),
            admitted => self.admit_otherwise(admitted),
        }
    }

    /// There was no place, or it is the first task.
    #[cold]
    fn admit_otherwise<'a>(
        self: &'a Arc<Self>,
        mut admitted: Result<Permit<'a, Task>, RefusedWhy>,
    ) -> Result<Permit<'a, Task>, RefusedWhy> {
        if let Rejection::BackOff { retries, pause } = self.config.rejection {
            for _ in 0..retries {
                match admitted {
                    Err(RefusedWhy::Full { .. }) => thread::park_timeout(pause),
                    _ => break,
                }
                admitted = self.inbox.admit();
            }
        }
        let permit = admitted?;
        if permit.unstarted() {
            return self.start_for(permit).map_err(|error| RefusedWhy::NoThread(error.kind()));
        }
        Ok(permit)
    }

    #[inline]
    pub(crate) fn push(&self, permit: Permit<'_, Task>, task: Task) {
        if permit.push(task) == Next::Wake {
            self.wake();
        }
    }

    #[inline(never)] // most tasks need no wake-up
    fn wake(&self) {
        self.figures.wakeups_sent.add_shared(1);
        // A driver's fault is not its loop's submitters'.
        if let Err(panic) = catch(|| self.waker.wake()) {
            tell(|| tracing::error!(event_loop = %self.config.name, panic, "waking the driver panicked"));
        }
        self.nap.end();
    }

    /// Sends one of the framework's own messages. One that comes after the end has lost its meaning.
    pub(crate) fn send(self: &Arc<Self>, task: Task) {
        let _ = self.try_send(task);
    }

    /// The same, and tells whether it came in time.
    pub(crate) fn try_send(self: &Arc<Self>, task: Task) -> Result<(), RefusedWhy> {
        let permit = self.with_thread(self.inbox.admit_internal()?);
        self.push(permit.map_err(|error| RefusedWhy::NoThread(error.kind()))?, task);
        Ok(())
    }

    /// Starts the thread before there is a task for it.
    pub(crate) fn start_early(self: &Arc<Self>) -> io::Result<()> {
        // Counted in, so that nobody closes a loop that is being started.
        if let Ok(permit) = self.inbox.admit_internal()
            && permit.unstarted()
        {
            let permit = self.with_thread(permit)?;
            self.push(permit, Task::Nudge);
        }
        Ok(())
    }

    /// Starts the thread if who has a place in the inbox has to. If there is none to be had, the place is given back.
    #[inline]
    fn with_thread<'a>(self: &Arc<Self>, permit: Permit<'a, Task>) -> io::Result<Permit<'a, Task>> {
        if permit.unstarted() { self.start_for(permit) } else { Ok(permit) }
    }

    #[inline(never)] // once in a loop's life, or when it was suspended
    fn start_for<'a>(self: &Arc<Self>, permit: Permit<'a, Task>) -> io::Result<Permit<'a, Task>> {
        match self.start() {
            Ok(()) => {
                // The message that it will look up for is the one that the place is for.
                if self.end_left.swap(false, Ordering::AcqRel) && self.requests.is_to_end_now() {
                    self.inbox.close();
                }
                Ok(permit)
            }
            Err(error) => {
                drop(permit); // it keeps the loop from being closed
                if self.end_left.swap(false, Ordering::AcqRel) {
                    self.tell_to_end();
                }
                Err(error)
            }
        }
    }

    /// Whether the calling thread is the one that starts the loop's.
    fn is_starter(&self) -> bool {
        *lock(&self.starting) == Some(thread::current().id())
    }

    fn start(self: &Arc<Self>) -> io::Result<()> {
        let this = thread::current().id();
        let mut starting = lock(&self.starting);
        while let Some(starter) = *starting {
            if starter == this {
                let text = "whoever makes threads gave a task to the loop that the thread is for";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
            starting = self.start_over.wait(starting).unwrap_or_else(PoisonError::into_inner);
        }
        // Somebody else was faster, or the owner drives the loop by hand.
        if !self.inbox.is_unstarted() || lock(&self.seed).is_none() {
            return Ok(());
        }
        *starting = Some(this);
        drop(starting);
        let (shared, forsaken) = (self.clone(), self.clone());
        let started = self.config.threads.start(
            &self.config.name,
            move || runner::run_thread(&shared),
            move |error| runner::end_without_thread(&forsaken, error),
        );
        if started.is_ok() {
            self.inbox.started();
        }
        *lock(&self.starting) = None;
        self.start_over.notify_all();
        started.map(drop).inspect_err(|error| {
            tell(|| tracing::error!(event_loop = %self.config.name, %error, "the loop's thread could not be started"));
        })
    }

    /// Waits, on the loop's new thread, until whoever made it has returned. Before that nobody can give the loop a task, but the
    /// place of the one that it is started for keeps it from sleeping.
    pub(crate) fn wait_for_start(&self) {
        let mut starting = lock(&self.starting);
        while starting.is_some() {
            starting = self.start_over.wait(starting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn take_seed(&self) -> Option<Box<dyn DriverSeed>> {
        lock(&self.seed).take()
    }

    pub(crate) fn put_seed(&self, seed: Box<dyn DriverSeed>) {
        *lock(&self.seed) = Some(seed);
    }

    // ---- requests ----

    pub(crate) fn ask_to_suspend(self: &Arc<Self>) {
        // A loop without a thread must not get one in order to lose it.
        self.ask_running(SUSPEND);
    }

    /// Has a loop that runs look round before it sleeps again.
    pub(crate) fn ask_to_wake(self: &Arc<Self>) {
        self.ask_running(WAKE);
    }

    /// Asks for something that makes no sense to a loop without a thread.
    fn ask_running(self: &Arc<Self>, what: usize) {
        // It may get a thread while somebody finds that it has none: then it has to be asked, because others may have found
        // the request and rely on it.
        while !self.inbox.is_unstarted() && self.requests.ask(what) {
            match self.inbox.admit_internal() {
                Ok(permit) if !permit.unstarted() => return self.push(permit, Task::Nudge),
                _ => drop(self.requests.take(what)),
            }
            if self.inbox.is_closed() {
                return;
            }
        }
    }

    // ---- the end ----

    pub(crate) fn shut_down(self: &Arc<Self>, patience: Patience) {
        if self.patience.set(patience).is_ok() {
            self.tell_to_end();
        }
    }

    /// The same without patience, also if another was patient before.
    pub(crate) fn shut_down_now(self: &Arc<Self>) {
        let _ = self.patience.set(Patience::NONE);
        if self.requests.ask(END_NOW) && self.tell_to_end() {
            self.inbox.close(); // behind the message: nothing is accepted that will not be run
        }
    }

    /// Has a loop look up that runs, and ends one without a thread. False if that is left to who starts it.
    fn tell_to_end(self: &Arc<Self>) -> bool {
        // Called by whoever makes the thread: the place of the one that it is made for keeps the loop from being closed, and
        // there is no other thread to be had meanwhile.
        if self.is_starter() {
            self.end_left.store(true, Ordering::Release);
            return false;
        }
        loop {
            if self.inbox.close_unstarted() {
                self.end_unstarted();
                return true;
            }
            match self.inbox.admit_internal() {
                Err(_) => return true, // it is closed already
                Ok(permit) => {
                    // Somebody has a task for it and starts it at this moment, unless there is no thread to be had.
                    if let Ok(permit) = self.with_thread(permit) {
                        self.push(permit, Task::Nudge);
                        return true;
                    }
                }
            }
            thread::yield_now();
        }
    }

    fn end_unstarted(&self) {
        let seed = self.take_seed();
        if let Err(message) = catch(|| drop(seed)) {
            self.report_panic(super::TaskKind::Io, &message);
        }
        self.terminate(Ok(()));
    }

    pub(crate) fn patience(&self) -> Option<Patience> {
        self.patience.get().copied()
    }

    pub(crate) fn terminate(&self, how: Result<(), LoopError>) {
        self.terminated.store(true, Ordering::Release);
        let terminate = lock(&self.terminate).take();
        if let Some(terminate) = terminate {
            terminate.complete(how); // listeners run: after the lock
        }
    }

    pub(crate) fn is_terminated(&self) -> bool {
        self.terminated.load(Ordering::Acquire)
    }

    pub(crate) fn termination(&self) -> SharedPromised<(), LoopError> {
        self.termination.clone()
    }

    /// A contained panic: counted and told, never passed on.
    pub(crate) fn report_panic(&self, kind: super::TaskKind, message: &str) {
        self.figures.panics.add_shared(1);
        tell(
            || tracing::error!(event_loop = %self.config.name, %kind, panic = %message, "a panic was contained"),
        );
    }
}

/// What these locks guard is whole between any two statements, so poison carries no news.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
