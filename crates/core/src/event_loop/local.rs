//! The part of a loop that only its own thread touches: its queue, timers, futures, tail tasks and sources.
//!
//! Always true:
//! 1. No borrow is held while foreign code runs, and the drop of a user's value is foreign code. So whatever a task
//!    does through a handle finds everything free.
//! 2. What was submitted, what the loop gave itself to do and timers that are due take turns, task by task: none of them
//!    holds up another for longer than a task, however many there are.

use super::{
    TaskKind,
    appointments::Appointments,
    moment::{Moment, tick_of},
    queues::{Queued, Queues},
    schedule::Timer,
    shared::Shared,
    spawn::{FutureTask, Futures},
    submit::Rebuilt,
    tail::TailTasks,
};
use crate::{
    arena::{Arena, Key},
    driver::{Event, Source, Token},
    loop_thread,
    promise::Promise,
    refused::{Refused, RefusedWhy},
    task_error::{TaskError, catch},
    timer::wheel::{TimerKey, Wheel},
};
use std::{
    any::Any,
    cell::{Cell, RefCell},
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
    Rebuild(Promise<Rebuilt, TaskError>),
    Nudge,
}

impl Work {
    pub(crate) fn kind(&self) -> TaskKind {
        match self {
            Self::Run(_) | Self::Rebuild(_) | Self::Nudge => TaskKind::Task,
            Self::Call(_) => TaskKind::Io,
            Self::Poll(_) => TaskKind::Future,
            Self::Timer(_) => TaskKind::Timer,
        }
    }
}

/// Whose turn it is among the kinds of work; a batch begins with what was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Submitted,
    Timer,
    Own,
}

impl Turn {
    fn after(self) -> Self {
        match self {
            Self::Submitted => Self::Timer,
            Self::Timer => Self::Own,
            Self::Own => Self::Submitted,
        }
    }
}

pub(crate) struct Local {
    pub(crate) shared: Arc<Shared>,
    pub(crate) wheel: RefCell<Wheel<Timer>>,
    pub(crate) futures: Futures,
    pub(crate) tail: TailTasks,
    pub(crate) sources: RefCell<Arena<Option<Box<dyn Source>>>>,
    pub(crate) extension: RefCell<Option<Rc<dyn Any>>>,
    /// Who wants to hear of the rebuild that was asked for.
    pub(crate) rebuilds: RefCell<Vec<Promise<Rebuilt, TaskError>>>,
    /// From the last pass on nothing new is taken, not even from the loop itself.
    pub(crate) closed: Cell<bool>,
    pub(crate) queues: Queues,
    origin: Instant,
    /// The moment of this turn, once somebody has asked for it.
    turn_time: Cell<Option<Instant>>,
    /// When the loop last read the clock by itself: after its poll, and after it has delivered what that brought.
    looked: Cell<Moment>,
    /// How many timers are due in this turn and have not run.
    due: Cell<usize>,
    appointments: RefCell<Appointments>,
    /// Who waits for the first of them.
    appointed: Cell<Appointed>,
}

/// Who waits for the first appointment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Appointed {
    /// There is none.
    Nobody,
    /// A timer, for this tick.
    Timer(u64, TimerKey),
    /// It is due, and queued.
    Queued,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
    /// The current loop's `turn_time`, once it was asked for here: one load for those who note the time of every message.
    static TURN_TIME_HERE: Cell<Option<Instant>> = const { Cell::new(None) };
}

impl Local {
    pub(crate) fn new(shared: Arc<Shared>) -> Rc<Self> {
        Rc::new(Self {
            origin: shared.clock.now(),
            queues: Queues::new(shared.clone()),
            shared,
            wheel: RefCell::new(Wheel::new()),
            futures: Futures::new(),
            tail: TailTasks::new(),
            sources: RefCell::new(Arena::new()),
            extension: RefCell::new(None),
            rebuilds: RefCell::default(),
            closed: Cell::new(false),
            turn_time: Cell::new(None),
            looked: Cell::new(Moment::START),
            due: Cell::new(0),
            appointments: RefCell::default(),
            appointed: Cell::new(Appointed::Nobody),
        })
    }

    /// Asks the loop that this thread runs.
    fn with_current<T>(ask: impl FnOnce(&Self) -> T) -> Option<T> {
        CURRENT.try_with(|current| current.borrow().as_deref().map(ask)).ok().flatten()
    }

    /// The moment of the turn of the loop that this thread runs.
    #[inline]
    pub(crate) fn turn_time_here() -> Option<Instant> {
        TURN_TIME_HERE.get().or_else(Self::ask_turn_time)
    }

    #[cold]
    fn ask_turn_time() -> Option<Instant> {
        let now = Self::with_current(Self::turn_time);
        TURN_TIME_HERE.set(now);
        now
    }

    /// The loop that this thread runs.
    pub(crate) fn current() -> Option<Rc<Self>> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }

    /// The loop with this id, if this thread runs it.
    #[inline]
    pub(crate) fn current_if(id: usize) -> Option<Rc<Self>> {
        if loop_thread::is_current(id) { Self::current() } else { None }
    }

    /// Makes this the thread's loop until the guard goes.
    pub(crate) fn enter(self: &Rc<Self>) -> Entered {
        TURN_TIME_HERE.set(None);
        Entered { before: CURRENT.replace(Some(self.clone())), _id: loop_thread::enter(self.shared.id) }
    }

    // ---- queues ----

    /// Queues what the loop gives itself to do: a source to call, a future to poll again. After the last pass nothing
    /// would run it.
    pub(crate) fn push(&self, work: Work) {
        if !self.closed.get() {
            self.queues.push_own(work);
        }
    }

    /// Has a source called. One that asks for itself, in its own call, has had its turn: it waits for the next one.
    pub(crate) fn call(&self, token: Token) {
        if self.closed.get() {
            return;
        }
        // It is out of the table while it is called.
        let is_running = self.sources.borrow().get(token.0).is_some_and(Option::is_none);
        if is_running {
            self.queues.push_again(Work::Call(token));
        } else {
            self.queues.push_own(Work::Call(token));
        }
    }

    /// Has a source called in this turn, even by itself: for what is new, and not for more of the same.
    pub(crate) fn call_soon(&self, token: Token) {
        self.push(Work::Call(token));
    }

    /// Has a source called when nothing else is left in this turn.
    pub(crate) fn call_late(&self, token: Token) {
        if !self.closed.get() {
            self.queues.push_late(Work::Call(token));
        }
    }

    /// A new turn: what waited for it may run.
    #[inline]
    pub(crate) fn begin_turn(&self) {
        self.queues.begin_turn();
        self.turn_time.set(None);
        TURN_TIME_HERE.set(None);
    }

    /// When this was first asked in this turn.
    #[inline]
    pub(crate) fn turn_time(&self) -> Instant {
        self.turn_time.get().unwrap_or_else(|| {
            let now = self.shared.clock.now();
            self.turn_time.set(Some(now));
            now
        })
    }

    /// When the loop last read the clock by itself.
    #[inline]
    pub(crate) fn looked(&self) -> Moment {
        self.looked.get()
    }

    /// The loop has read the clock.
    #[inline]
    pub(crate) fn looks(&self, now: Moment) {
        self.looked.set(now);
    }

    /// Queues a task to which the limit on pending tasks does not apply.
    pub(crate) fn submit(&self, work: Work) -> Result<(), RefusedWhy> {
        if self.closed.get() {
            return Err(RefusedWhy::ShutDown);
        }
        self.queues.submit(work);
        Ok(())
    }

    /// Queues a task of a user, if there is a place for it.
    #[inline]
    pub(crate) fn execute<F: FnOnce() + 'static>(&self, task: F) -> Result<(), Refused<F>> {
        match self.admit() {
            Ok(place) => {
                place.push(Work::Run(Box::new(task)));
                Ok(())
            }
            Err(why) => Err(Refused::new(task, why)),
        }
    }

    /// Asks for a place within the limit on pending tasks.
    #[inline]
    pub(crate) fn admit(&self) -> Result<Admitted<'_>, RefusedWhy> {
        if self.closed.get() {
            return Err(RefusedWhy::ShutDown);
        }
        self.queues.count_place()?;
        Ok(Admitted { local: self })
    }

    /// The next thing to run: of the kind whose turn it is, or of the next kind that has something.
    #[inline(always)]
    pub(crate) fn next(&self, turn: &mut Turn) -> Option<Queued> {
        // Most of the time nothing else waits.
        if self.due.get() == 0 && !self.queues.has_own_or_late() {
            return self.queues.next_submitted();
        }
        self.next_in_turn(turn)
    }

    #[inline(never)]
    fn next_in_turn(&self, turn: &mut Turn) -> Option<Queued> {
        let first = *turn;
        loop {
            let now = std::mem::replace(turn, turn.after());
            // Asked first, as an answer of no costs less than an empty one.
            let may_be_found = match now {
                Turn::Submitted => self.queues.may_have_submitted(),
                Turn::Timer => self.due.get() > 0,
                Turn::Own => self.queues.has_own(),
            };
            if may_be_found {
                let found = match now {
                    Turn::Submitted => self.queues.next_submitted(),
                    Turn::Timer => self.next_due_timer().map(|timer| Queued::free(Work::Timer(timer))),
                    Turn::Own => self.queues.next_own().map(Queued::free),
                };
                if found.is_some() {
                    return found;
                }
            }
            if *turn == first {
                return self.queues.next_late().map(Queued::free);
            }
        }
    }

    /// Whether anything may be there for this turn.
    #[inline]
    pub(crate) fn may_have_next(&self) -> bool {
        self.due.get() > 0 || self.queues.has_own_or_late() || self.queues.may_have_submitted()
    }

    pub(crate) fn has_tasks(&self) -> bool {
        !self.queues.is_empty()
    }

    // ---- time ----

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
        let tick = tick_of(self.origin, deadline);
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

    /// Lets the timers run that are due by now, and none that they arm: one that arms itself for the past waits for the
    /// next turn.
    pub(crate) fn release_due_timers(&self, now: Moment) {
        self.looks(now);
        let mut wheel = self.wheel.borrow_mut();
        let due = if wheel.is_empty() { 0 } else { wheel.advance(now.tick()) };
        self.due.set(due);
    }

    fn next_due_timer(&self) -> Option<Timer> {
        let due = self.due.get().checked_sub(1)?;
        let mut wheel = self.wheel.borrow_mut();
        // No later than the turn began: what has become due since waits for the next one.
        let Some(timer) = wheel.pop_due(0) else {
            self.due.set(0); // one was cancelled
            return None;
        };
        self.due.set(due);
        self.shared.figures.timers_pending.set(wheel.len());
        Some(timer)
    }

    // ---- appointments ----

    /// Has a source called at `moment`, in a later turn, for a stage that wants to look. False if there is no room for that: a timer will do.
    pub(crate) fn appoint(&self, token: Token, stage: u32, moment: Moment) -> bool {
        let tick = moment.first_tick().max(self.looked.get().tick() + 1);
        let made = self.appointments.borrow_mut().make(token.0.index(), stage, tick);
        self.wait_for_first();
        made
    }

    /// The stages of a source do not want to look any more, from this one on.
    #[inline]
    pub(crate) fn cancel_appointment(&self, token: Token, from: u32) {
        if self.appointed.get() != Appointed::Nobody {
            self.cancel_one(token, from);
        }
    }

    #[inline(never)]
    fn cancel_one(&self, token: Token, from: u32) {
        if self.sources.borrow().contains(token.0) {
            self.appointments.borrow_mut().cancel(token.0.index(), from);
            self.wait_for_first();
        }
    }

    /// Arms one timer for the first of all appointments.
    fn wait_for_first(&self) {
        let (next, waits) = (self.appointments.borrow().next(), self.appointed.get());
        let timer = match (waits, next) {
            (Appointed::Queued, _) => return,
            (Appointed::Timer(tick, _), Some(next)) if tick == next => return,
            (Appointed::Timer(_, key), _) => Some(key),
            (Appointed::Nobody, _) => None,
        };
        drop(timer.and_then(|key| self.disarm(key)));
        let armed = next.map(|tick| {
            let deadline = self.origin.checked_add(Duration::from_millis(tick)); // a tick takes that long
            Appointed::Timer(tick, self.arm(deadline, Timer::Appointments))
        });
        self.appointed.set(armed.unwrap_or(Appointed::Nobody));
    }

    /// The first appointment is due. Those that are due behind it wait for their turn among all tasks.
    pub(crate) fn keep_appointment(&self) {
        let now = self.looked.get().tick();
        let due = self.appointments.borrow_mut().pop_due(now);
        let more = self.appointments.borrow().next().is_some_and(|next| next <= now);
        if let Appointed::Timer(_, key) = self.appointed.replace(Appointed::Nobody) {
            drop(self.disarm(key)); // it has come, unless all timers were dropped meanwhile
        }
        match more {
            true => {
                self.appointed.set(Appointed::Queued);
                self.push(Work::Timer(Timer::Appointments));
            }
            false => self.wait_for_first(),
        }
        if let Some((place, stage)) = due
            && let Some(key) = self.key_of(place)
        {
            self.call_source(Token(key), |source| source.signal(u64::from(stage) << 32));
        }
    }

    fn key_of(&self, place: u32) -> Option<Key> {
        self.sources.borrow().key_at(place)
    }

    /// Drops all timers, each by itself: their handles learn it from that.
    pub(crate) fn drop_timers(&self) {
        self.due.set(0);
        let timers = self.wheel.borrow_mut().drain();
        self.appointments.borrow_mut().clear();
        self.appointed.set(Appointed::Nobody);
        self.shared.figures.timers_pending.set(0);
        let orphaned = timers.iter().filter(|timer| self.is_orphaned(timer)).count();
        self.shared.figures.timers_orphaned.add(orphaned as u64);
        self.drop_each(TaskKind::Timer, timers);
    }

    /// Whether it is for a source that has gone.
    fn is_orphaned(&self, timer: &Timer) -> bool {
        matches!(timer, Timer::Signal(token, _) if !self.sources.borrow().contains(token.0))
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
        self.cancel_appointment(token, 0);
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
        let whole = match catch(|| call(&mut *source)) {
            Ok(()) => true,
            Err(message) => {
                self.source_panicked(&mut *source, message);
                false
            }
        };
        let mut source = Some(source);
        if whole && let Some(place) = self.sources.borrow_mut().get_mut(token.0) {
            *place = source.take();
        }
        if let Some(source) = source {
            self.bury(token, source);
        }
    }

    /// Takes a source out of the table, for another one that calls it; to be [given back](Self::give_back). `None` if it has
    /// gone, or runs.
    #[inline]
    pub(crate) fn lend(&self, token: Token) -> Option<Box<dyn Source>> {
        self.sources.borrow_mut().get_mut(token.0).and_then(Option::take)
    }

    /// It does not come back: its place is free.
    #[inline]
    pub(crate) fn release(&self, token: Token) {
        self.cancel_appointment(token, 0);
        let mut sources = self.sources.borrow_mut();
        let place = sources.remove(token.0);
        self.shared.figures.sources.set(sources.len());
        debug_assert!(matches!(place, None | Some(None)), "only what is lent is released");
    }

    /// The call is over. Dropped if it was let go meanwhile.
    #[inline]
    pub(crate) fn give_back(&self, token: Token, source: Box<dyn Source>) {
        let mut source = Some(source);
        if let Some(place) = self.sources.borrow_mut().get_mut(token.0) {
            *place = source.take();
        }
        if let Some(source) = source {
            self.bury(token, source);
        }
    }

    /// What it is responsible for hears of it, if the source can still tell.
    #[cold]
    fn source_panicked(&self, source: &mut dyn Source, message: String) {
        self.contain(TaskKind::Io, || source.panicked(&message));
        self.report_panic(TaskKind::Io, message);
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

    /// Drops values of users. One that panics costs no other one its drop.
    pub(crate) fn drop_each<T>(&self, kind: TaskKind, values: impl IntoIterator<Item = T>) {
        for value in values {
            self.contain(kind, || drop(value));
        }
    }

    #[cold]
    fn report_panic(&self, kind: TaskKind, message: String) {
        self.shared.report_panic(kind, &message);
    }
}

/// A place in the loop's own queue that is not filled yet.
#[must_use]
pub(crate) struct Admitted<'a> {
    local: &'a Local,
}

impl Admitted<'_> {
    pub(crate) fn push(self, work: Work) {
        self.local.queues.submit_counted(work);
    }
}

/// Restores the thread's loop that was before [`Local::enter`].
pub(crate) struct Entered {
    before: Option<Rc<Local>>,
    _id: loop_thread::Entered,
}

impl Drop for Entered {
    fn drop(&mut self) {
        TURN_TIME_HERE.set(None);
        CURRENT.replace(self.before.take());
    }
}
