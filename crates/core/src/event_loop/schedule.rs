//! Timers as a user sees them: a task for later, once or again and again, with a handle that awaits and cancels.
//!
//! ```text
//!   schedule ──▶ Scheduled (future of the result, cancel)
//!      │ on the loop: straight into the wheel          │ cancel: decided at once, by the promise or the ticket;
//!      ▼ off it: a task that arms it                   ▼ the loop then takes the timer out of its wheel
//!   wheel ── due ──▶ task queue ──▶ run, unless cancelled
//! ```
//!
//! A task that repeats is armed anew after each run: at its last deadline plus the period (fixed rate: after a stall it
//! catches up, run by run), or at the end of the run plus the period (fixed delay).

use super::{
    TaskKind,
    local::Local,
    shared::{Shared, Task},
};
use crate::{
    arena::Key,
    driver::Token,
    promise::{Promise, Promised, promise},
    refused::{Refused, RefusedWhy},
    task_error::{TaskError, catch},
    timer::wheel::TimerKey,
};
use std::{
    fmt,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// What the wheel holds.
pub(crate) enum Timer {
    Once(Box<dyn FnOnce()>),
    Repeat(Box<Repeat>),
    /// For a source; no allocation.
    Signal(Token, u64),
    /// For the first stage that wants to look.
    Appointments,
}

impl Timer {
    pub(crate) fn fire(self, local: &Rc<Local>) {
        match self {
            Self::Once(run) => {
                local.contain(TaskKind::Timer, run);
            }
            Self::Repeat(repeat) => repeat.fire(local),
            Self::Signal(token, signal) => local.call_source(token, |source| source.signal(signal)),
            Self::Appointments => local.keep_appointment(),
        }
    }
}

pub(crate) struct Repeat {
    run: Box<dyn FnMut()>,
    deadline: Option<Instant>,
    period: Period,
    ticket: Arc<Ticket>,
    promise: Promise<(), TaskError>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Period {
    Rate(Duration),
    Delay(Duration),
}

impl Period {
    pub(crate) fn is_zero(self) -> bool {
        let (Self::Rate(time) | Self::Delay(time)) = self;
        time.is_zero()
    }

    /// When the next run is due, if the last was at `last` and is over now.
    pub(crate) fn next(self, last: Option<Instant>, now: impl FnOnce() -> Instant) -> Option<Instant> {
        match self {
            Self::Rate(time) => last.and_then(|last| last.checked_add(time)),
            Self::Delay(time) => now().checked_add(time),
        }
    }
}

/// Where a task for later waits.
pub(crate) trait Waits: Send + Sync {
    /// It was cancelled, and need not wait any longer.
    fn take_out(self: Arc<Self>);
}

impl Repeat {
    fn fire(mut self: Box<Self>, local: &Rc<Local>) {
        if self.ticket.cancelled.load(Ordering::Acquire) {
            local.contain(TaskKind::Timer, || drop(self));
            return;
        }
        if let Err(message) = catch(&mut self.run) {
            local.shared.report_panic(TaskKind::Timer, &message);
            let Self { run, promise, .. } = *self;
            promise.fail(TaskError::Panicked(message));
            local.contain(TaskKind::Timer, || drop(run));
            return;
        }
        self.deadline = self.period.next(self.deadline, || local.shared.clock.now());
        self.arm(local);
    }

    fn arm(self: Box<Self>, local: &Rc<Local>) {
        if self.ticket.cancelled.load(Ordering::Acquire) {
            local.contain(TaskKind::Timer, || drop(self));
            return;
        }
        let (ticket, deadline) = (self.ticket.clone(), self.deadline);
        ticket.put(local.arm(deadline, Timer::Repeat(self)));
    }
}

/// Where a timer is, for whoever wants to cancel it.
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    cancelled: AtomicBool,
    /// The wheel's key as a number, 0 before the loop has armed it.
    key: AtomicU64,
}

impl Ticket {
    fn new(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared: shared.clone(), cancelled: AtomicBool::new(false), key: AtomicU64::new(0) })
    }

    fn put(&self, key: TimerKey) {
        self.key.store(key.0.to_u64(), Ordering::Release);
    }

    fn take_out_of(&self, local: &Local) {
        let key = TimerKey(Key::from_u64(self.key.load(Ordering::Acquire)));
        let timer = local.disarm(key);
        local.contain(TaskKind::Timer, || drop(timer));
    }
}

impl Waits for Ticket {
    /// Out of the wheel: now if this is the loop, else on its next turn.
    fn take_out(self: Arc<Self>) {
        self.cancelled.store(true, Ordering::Release);
        if let Some(local) = Local::current_if(self.shared.id) {
            return self.take_out_of(&local);
        }
        let shared = self.shared.clone();
        shared.send(Task::Run(Box::new(move || {
            if let Some(local) = Local::current() {
                self.take_out_of(&local);
            }
        })));
    }
}

/// A scheduled task: a future of its result, and the means to cancel it.
///
/// From [`EventLoop::schedule`](crate::EventLoop::schedule), [`Workers::schedule`](crate::Workers::schedule) and their relatives.
/// Dropping the handle lets the task go on. A task that repeats resolves only when it ends: with
/// [`TaskError::Cancelled`], with the panic that stopped it, or with [`TaskError::Abandoned`] when its loop or pool shuts
/// down.
///
/// ```
/// use netwright_core::{EventLoop, TaskError};
/// use std::time::Duration;
///
/// let event_loop = EventLoop::new();
/// let mut soon = event_loop.schedule(Duration::from_millis(1), || 6 * 7).unwrap();
/// assert_eq!(soon.wait(), Ok(42));
///
/// let mut never = event_loop.schedule(Duration::from_secs(3600), || ()).unwrap();
/// assert!(never.cancel());
/// assert_eq!(never.wait(), Err(TaskError::Cancelled));
/// ```
#[must_use = "dropping the handle lets the task go on, but then nothing can cancel it"]
pub struct Scheduled<T> {
    promised: Promised<T, TaskError>,
    place: Arc<dyn Waits>,
}

impl<T> Scheduled<T> {
    pub(crate) fn new(promised: Promised<T, TaskError>, place: Arc<dyn Waits>) -> Self {
        Self { promised, place }
    }

    /// Cancels the task. False if it has run, is running, or was cancelled before; a repeating task stops after the run
    /// that is under way.
    pub fn cancel(&self) -> bool {
        let cancelled = self.promised.cancel();
        if cancelled {
            self.place.clone().take_out();
        }
        cancelled
    }

    /// Whether the result, or the reason why there is none, is there.
    pub fn is_done(&self) -> bool {
        self.promised.is_done()
    }

    /// Blocks until the result is there. On a loop's thread this is an error, not a deadlock.
    pub fn wait(&mut self) -> Result<T, TaskError> {
        self.promised.wait()
    }
}

impl<T> Future for Scheduled<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.promised).poll(cx)
    }
}

impl<T> fmt::Debug for Scheduled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduled").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

/// Runs `task` once at `deadline`.
pub(super) fn once<F, T>(
    shared: &Arc<Shared>,
    deadline: Option<Instant>,
    task: F,
) -> Result<Scheduled<T>, Refused<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match Local::current_if(shared.id) {
        Some(local) => once_local(&local, deadline, task),
        None => {
            let permit = match shared.admit() {
                Ok(permit) => permit,
                Err(why) => return Err(Refused::new(task, why)),
            };
            let (body, promised, place) = once_body(shared, task);
            let ticket = place.clone();
            let arm = move || {
                if let Some(local) = Local::current() {
                    if ticket.cancelled.load(Ordering::Acquire) {
                        return; // cancelled on the way here
                    }
                    ticket.put(local.arm(deadline, Timer::Once(Box::new(body))));
                }
            };
            shared.push(permit, Task::Run(Box::new(arm)));
            Ok(Scheduled::new(promised, place))
        }
    }
}

/// The same for what need not be `Send`, on the loop itself.
pub(super) fn once_local<F, T>(
    local: &Rc<Local>,
    deadline: Option<Instant>,
    task: F,
) -> Result<Scheduled<T>, Refused<F>>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    if local.closed.get() {
        return Err(Refused::new(task, RefusedWhy::ShutDown));
    }
    let (body, promised, ticket) = once_body(&local.shared, task);
    ticket.put(local.arm(deadline, Timer::Once(Box::new(body))));
    Ok(Scheduled::new(promised, ticket))
}

fn once_body<F, T>(
    shared: &Arc<Shared>,
    task: F,
) -> (impl FnOnce() + use<F, T>, Promised<T, TaskError>, Arc<Ticket>)
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    let (mut promise, promised) = promise();
    let ticket = Ticket::new(shared);
    let body = move || {
        if promise.claim() {
            promise.complete(catch(task).map_err(panicked));
        }
    };
    (body, promised, ticket)
}

/// A task for later panicked, on the loop that this thread runs.
#[cold]
fn panicked(message: String) -> TaskError {
    if let Some(local) = Local::current() {
        local.shared.report_panic(TaskKind::Timer, &message);
    }
    TaskError::Panicked(message)
}

/// Runs `task` at `first` and then again and again.
pub(super) fn repeat<F>(
    shared: &Arc<Shared>,
    first: Option<Instant>,
    period: Period,
    task: F,
) -> Result<Scheduled<()>, Refused<F>>
where
    F: FnMut() + Send + 'static,
{
    if period.is_zero() {
        return Err(Refused::new(task, RefusedWhy::ZeroPeriod));
    }
    let (promise, promised) = promise();
    let ticket = Ticket::new(shared);
    let scheduled = Scheduled::new(promised, ticket.clone());
    let arm = move |local: &Rc<Local>, task: F| {
        Box::new(Repeat { run: Box::new(task), deadline: first, period, ticket, promise }).arm(local);
    };
    match Local::current_if(shared.id) {
        Some(local) if local.closed.get() => return Err(Refused::new(task, RefusedWhy::ShutDown)),
        Some(local) => arm(&local, task),
        None => match shared.admit() {
            Ok(permit) => shared.push(
                permit,
                Task::Run(Box::new(move || {
                    if let Some(local) = Local::current() {
                        arm(&local, task);
                    }
                })),
            ),
            Err(why) => return Err(Refused::new(task, why)),
        },
    }
    Ok(scheduled)
}
