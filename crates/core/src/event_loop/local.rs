//! The part of a loop that only its own thread touches: its queue, timers, futures, tail tasks and sources.
//!
//! Always true:
//! 1. No borrow is held while foreign code runs, and the drop of a user's value is foreign code. So whatever a task
//!    does through a handle finds everything free.
//! 2. A task that is queued here comes after every task that other threads had submitted before: those are moved over
//!    first. One order for all.

use super::{
    TaskKind,
    inbox::Cursor,
    moment::Moment,
    schedule::Timer,
    shared::{Shared, Task},
    spawn::{FutureTask, Futures},
    tail::TailTasks,
};
use crate::{
    arena::Arena,
    driver::{Event, Source, Token},
    loop_thread,
    refused::RefusedWhy,
    task_error::catch,
    timer::wheel::{TimerKey, Wheel},
};
use std::{
    any::Any,
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// What the loop has to run.
pub(crate) enum Work {
    Run(Box<dyn FnOnce()>),
    Poll(Arc<FutureTask>),
    Timer(Timer),
    Call(Token),
    Nudge,
}

impl Work {
    pub(crate) fn kind(&self) -> TaskKind {
        match self {
            Self::Run(_) | Self::Nudge => TaskKind::Task,
            Self::Call(_) => TaskKind::Io,
            Self::Poll(_) => TaskKind::Future,
            Self::Timer(_) => TaskKind::Timer,
        }
    }
}

impl From<Task> for Work {
    fn from(task: Task) -> Self {
        match task {
            Task::Run(run) => Self::Run(run),
            Task::Poll(task) => Self::Poll(task),
            Task::Call(token) => Self::Call(token),
            Task::Nudge => Self::Nudge,
        }
    }
}

struct Queued {
    work: Work,
    /// Whether it holds a place in the inbox's count.
    counted: bool,
}

pub(crate) struct Local {
    pub(crate) shared: Arc<Shared>,
    pub(crate) wheel: RefCell<Wheel<Timer>>,
    pub(crate) futures: Futures,
    pub(crate) tail: TailTasks,
    pub(crate) sources: RefCell<Arena<Option<Box<dyn Source>>>>,
    pub(crate) extension: RefCell<Option<Rc<dyn Any>>>,
    /// From the last pass on nothing new is taken, not even from the loop itself.
    pub(crate) closed: Cell<bool>,
    origin: Instant,
    queue: RefCell<VecDeque<Queued>>,
    cursor: RefCell<Cursor>,
    /// Tasks taken from the inbox and not given back by [`done`](Self::done).
    counted: Cell<usize>,
    /// Tasks that the inbox was seen to hold and that were not taken since.
    waiting: Cell<usize>,
    /// Tasks in the queue that the inbox does not count.
    uncounted: Cell<usize>,
    limited: bool,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
}

impl Local {
    pub(crate) fn new(shared: Arc<Shared>) -> Rc<Self> {
        Rc::new(Self {
            origin: shared.clock.now(),
            limited: shared.config.is_limited(),
            shared,
            wheel: RefCell::new(Wheel::new()),
            futures: Futures::new(),
            tail: TailTasks::new(),
            sources: RefCell::new(Arena::new()),
            extension: RefCell::new(None),
            closed: Cell::new(false),
            queue: RefCell::default(),
            cursor: RefCell::default(),
            counted: Cell::new(0),
            waiting: Cell::new(0),
            uncounted: Cell::new(0),
        })
    }

    /// The loop that this thread runs.
    pub(crate) fn current() -> Option<Rc<Self>> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }

    /// The loop with this id, if this thread runs it.
    pub(crate) fn current_if(id: usize) -> Option<Rc<Self>> {
        if loop_thread::is_current(id) { Self::current() } else { None }
    }

    /// Makes this the thread's loop until the guard goes.
    pub(crate) fn enter(self: &Rc<Self>) -> Entered {
        Entered { before: CURRENT.replace(Some(self.clone())), _id: loop_thread::enter(self.shared.id) }
    }

    // ---- queue ----

    /// Queues a task of the loop's own, behind all that came before it.
    pub(crate) fn push(&self, work: Work) {
        self.enqueue(work, false);
    }

    /// Asks for a place within the limit on pending tasks.
    pub(crate) fn admit(&self) -> Result<Place<'_>, RefusedWhy> {
        if self.closed.get() {
            return Err(RefusedWhy::ShutDown);
        }
        if self.limited {
            self.shared.inbox.count_local()?;
            self.counted.set(self.counted.get() + 1);
        }
        Ok(Place { local: self })
    }

    fn enqueue(&self, work: Work, counted: bool) {
        while let Some(task) = self.take_from_inbox() {
            self.queue.borrow_mut().push_back(Queued { work: task.into(), counted: true });
        }
        self.queue.borrow_mut().push_back(Queued { work, counted });
        self.uncounted.set(self.uncounted.get() + usize::from(!counted));
    }

    fn take_from_inbox(&self) -> Option<Task> {
        // Submitters write the inbox's word with every task, so a look at it may have to fetch it from another core: one
        // look for all that it shows. It also tells that nothing is new, which is the common case.
        if self.waiting.get() == 0 {
            self.waiting.set(self.shared.inbox.pending() - self.counted.get());
            if self.waiting.get() == 0 {
                return None;
            }
        }
        let Some(task) = self.shared.inbox.take(&mut self.cursor.borrow_mut()) else {
            // A submitter is between its two steps, or was refused and gives its place back: look again next time.
            self.waiting.set(0);
            return None;
        };
        self.waiting.set(self.waiting.get() - 1);
        self.counted.set(self.counted.get() + 1);
        self.shared.figures.tasks_from_outside.add(1);
        Some(task)
    }

    /// The next thing to run, and whether it has a place to be given back through [`done`](Self::done).
    pub(crate) fn next(&self) -> Option<(Work, bool)> {
        if let Some(queued) = self.queue.borrow_mut().pop_front() {
            self.uncounted.set(self.uncounted.get() - usize::from(!queued.counted));
            return Some((queued.work, queued.counted));
        }
        self.take_from_inbox().map(|task| (task.into(), true))
    }

    /// Gives back the places of tasks that have run.
    pub(crate) fn done(&self, counted: usize) {
        self.counted.set(self.counted.get() - counted);
        self.shared.inbox.done(counted);
    }

    /// Whether places have to be given back task by task, because somebody may be waiting for one.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited
    }

    pub(crate) fn has_tasks(&self) -> bool {
        !self.queue.borrow().is_empty() || self.shared.inbox.pending() > 0
    }

    /// Tasks that wait here and are not in the inbox's count.
    pub(crate) fn uncounted(&self) -> usize {
        self.uncounted.get()
    }

    // ---- time ----

    /// The first tick at which `deadline` has passed: rounded up, so that no timer is early. A deadline that cannot be
    /// named (`None`) is the last tick, which no clock reaches.
    pub(crate) fn tick_of(&self, deadline: Option<Instant>) -> u64 {
        let Some(deadline) = deadline else { return u64::MAX };
        let since = deadline.saturating_duration_since(self.origin);
        u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn moment(&self) -> Moment {
        Moment::new(self.origin, self.shared.clock.now())
    }

    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        moment.instant(self.origin)
    }

    /// How long from `now` until a timer may be due; `None` if none is, or not in this age of the universe.
    pub(crate) fn until_next_timer(&self, now: Moment) -> Option<Duration> {
        now.until_tick(self.wheel.borrow().next_deadline()?)
    }

    pub(crate) fn arm(&self, deadline: Option<Instant>, timer: Timer) -> TimerKey {
        let tick = self.tick_of(deadline);
        let mut wheel = self.wheel.borrow_mut();
        let key = wheel.arm(tick, timer);
        self.shared.figures.timers_pending.set(wheel.len());
        key
    }

    /// Takes a timer back; the caller drops it, outside every borrow.
    #[must_use]
    pub(crate) fn disarm(&self, key: TimerKey) -> Option<Timer> {
        let mut wheel = self.wheel.borrow_mut();
        let timer = wheel.cancel(key);
        self.shared.figures.timers_pending.set(wheel.len());
        timer
    }

    /// Queues the timers that are due.
    pub(crate) fn queue_due_timers(&self, now: Moment) {
        if self.wheel.borrow().is_empty() {
            return;
        }
        let tick = now.tick();
        let due = self.wheel.borrow_mut().advance(tick);
        for _ in 0..due {
            let Some(timer) = self.wheel.borrow_mut().pop_due(tick) else { break };
            self.push(Work::Timer(timer));
        }
        self.shared.figures.timers_pending.set(self.wheel.borrow().len());
    }

    // ---- sources ----

    /// A place for a source that is about to be made.
    pub(crate) fn reserve(&self) -> Result<Token, RefusedWhy> {
        if self.closed.get() || self.shared.patience().is_some() {
            return Err(RefusedWhy::ShutDown);
        }
        let mut sources = self.sources.borrow_mut();
        let token = Token(sources.insert(None));
        self.shared.figures.sources.set(sources.len());
        Ok(token)
    }

    /// Fills a reserved place, unless it was given up meanwhile.
    pub(crate) fn put(&self, token: Token, source: Box<dyn Source>) {
        let mut source = Some(source);
        if let Some(place) = self.sources.borrow_mut().get_mut(token.0) {
            *place = source.take();
        }
        self.contain(TaskKind::Io, || drop(source));
    }

    /// Forgets a source. If it is running right now, it is dropped when its call returns.
    pub(crate) fn deregister(&self, token: Token) -> bool {
        let mut sources = self.sources.borrow_mut();
        let source = sources.remove(token.0);
        self.shared.figures.sources.set(sources.len());
        drop(sources);
        let found = source.is_some();
        self.contain(TaskKind::Io, || drop(source));
        found
    }

    /// Calls a source with it taken out of the table, so that it may do to the table what it likes.
    #[inline(always)] // one return less after each source's last system call
    pub(crate) fn call_source(&self, token: Token, call: impl FnOnce(&mut dyn Source)) {
        // Gone since the event was made, or calling itself through a nested manual loop: nothing to call.
        let Some(mut source) = self.sources.borrow_mut().get_mut(token.0).and_then(Option::take) else {
            return;
        };
        let whole = self.contain(TaskKind::Io, || call(&mut *source)).is_some();
        let mut source = Some(source);
        if whole && let Some(place) = self.sources.borrow_mut().get_mut(token.0) {
            *place = source.take();
        }
        if let Some(source) = source {
            self.bury(token, source);
        }
    }

    /// A source left during its call, or panicked and cannot be trusted with another event.
    #[cold]
    fn bury(&self, token: Token, source: Box<dyn Source>) {
        self.deregister(token);
        self.contain(TaskKind::Io, || drop(source));
    }

    #[inline(always)]
    pub(crate) fn deliver(&self, event: Event) {
        self.call_source(event.token, |source| source.ready(event));
    }

    // ---- panics ----

    /// Runs foreign code. A panic is counted, reported, and stays here: then there is no result.
    #[inline(always)]
    pub(crate) fn contain<R>(&self, kind: TaskKind, code: impl FnOnce() -> R) -> Option<R> {
        match catch(code) {
            Ok(result) => Some(result),
            Err(message) => {
                self.report_panic(kind, message);
                None
            }
        }
    }

    #[cold]
    fn report_panic(&self, kind: TaskKind, message: String) {
        self.shared.report_panic(kind, &message);
    }
}

/// A place in the loop's own queue that is not filled yet.
#[must_use]
pub(crate) struct Place<'a> {
    local: &'a Local,
}

impl Place<'_> {
    pub(crate) fn push(self, work: Work) {
        self.local.enqueue(work, self.local.limited);
    }
}

/// Restores the thread's loop that was before [`Local::enter`].
pub(crate) struct Entered {
    before: Option<Rc<Local>>,
    _id: loop_thread::Entered,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.replace(self.before.take());
    }
}
