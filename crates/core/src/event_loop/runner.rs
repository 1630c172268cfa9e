//! The turn of a loop: poll, I/O, tasks, tail tasks, and the question whether to leave.
//!
//! ```text
//!   ┌▶ 1 poll        sleep only if nothing waits, at most until the next timer
//!   │  2 I/O         each event to its source
//!   │  3 tasks       due timers join the queue; batches of 64 until the budget is spent, fewer if they take long
//!   │  4 tail tasks  all of them, once
//!   └─ 5 leave?      only if a shutdown was asked for, or a suspension and nothing lives here
//! ```
//!
//! The clock is read when the poll has ended, after I/O if there was any, and after tasks: after each one while
//! they are not tiny, otherwise after some.

use super::{
    TaskKind,
    budget::{BATCH, Budget, LOOK_AFTER},
    local::{Local, Turn, Work},
    moment::Moment,
    queues::Queued,
    requests::{REBUILD, SUSPEND, WAKE},
    shared::Shared,
    shutdown::{Decision, Leaving},
    waiting::WaitStrategy,
};
use crate::{
    driver::{Driver, Event, Events, Ready, Token},
    error::LoopError,
    task_error::{TaskError, catch, tell},
};
use std::{
    io,
    ops::ControlFlow,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a turn may wait for something to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// Not at all.
    Never,
    /// No longer than this; `None`: as long as it takes.
    AtMost(Option<Duration>),
}

pub(crate) struct Runner {
    local: Rc<Local>,
    /// `None` only while the loop is being suspended.
    driver: Option<Box<dyn Driver>>,
    events: Events,
    budget: Budget,
    premature: u32,
    /// Polls that failed, since the last one that did not.
    failures: u32,
    /// When to try the driver again, if it failed more than once.
    retry_at: Option<Moment>,
    leaving: Option<Leaving>,
    /// What the last decision about leaving allows to sleep.
    stay: Option<Duration>,
    /// When the last turn ended.
    mark: Moment,
    /// Whether to look out for something before the next sleep: the last one was short, or the loop is to wait like that.
    spin_first: bool,
    wait: WaitStrategy,
    /// Whether single tasks are timed: see [`run_batch`](Self::run_batch).
    watch_tasks: bool,
    end: Option<End>,
    /// Whether the thread is the loop's own: only then it can be given back.
    owns_thread: bool,
}

/// Why a loop's thread ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The loop is over.
    Finished,
    /// The loop has nothing to do and gives its thread back.
    Suspended,
}

impl Runner {
    pub(crate) fn start(shared: &Arc<Shared>, owns_thread: bool) -> Result<Self, LoopError> {
        let seed = shared.take_seed().ok_or(LoopError::Abandoned)?;
        let started = catch(|| seed.start().map(|driver| (driver.extension(), driver)));
        let (extension, driver) =
            started.map_err(LoopError::Panicked)?.map_err(|error| LoopError::Start(Arc::new(error)))?;
        let local = Local::new(shared.clone());
        *local.extension.borrow_mut() = extension;
        Ok(Self {
            mark: local.moment(),
            budget: shared.config.budget().expect("checked when the loop was built"),
            local,
            driver: Some(driver),
            events: Events::default(),
            premature: 0,
            failures: 0,
            retry_at: None,
            leaving: None,
            stay: None,
            spin_first: shared.config.wait.spins(),
            wait: shared.config.wait,
            watch_tasks: true,
            end: None,
            owns_thread,
        })
    }

    pub(crate) fn local(&self) -> &Rc<Local> {
        &self.local
    }

    /// While the loop is leaving: how long until it has to look again.
    pub(crate) fn stay(&self) -> Option<Duration> {
        self.stay
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.end
    }

    /// One turn. Returns whether anything was done.
    pub(crate) fn turn(&mut self, wait: Wait) -> Result<bool, LoopError> {
        let local = self.local.clone();
        let figures = &local.shared.figures;
        figures.iterations.add(1);
        local.begin_turn();

        let wanted = self.timeout(wait);
        let polled = self.poll(wanted)?;
        figures.polling_ns.add(polled.since(self.mark));

        local.looks(polled);
        let events = self.events.len();
        let io_done = if events == 0 { polled } else { self.deliver(polled) };
        figures.io_ns.add(io_done.since(polled));
        figures.events.add(events as u64);

        local.release_due_timers(io_done);
        let (tasks, tasks_done) = match local.may_have_next() && !local.shared.requests.is_to_end_now() {
            true => self.run_tasks(io_done, io_done.since(polled)),
            false => (0, io_done),
        };
        let tail = local.tail.run(&local);
        let end = if tail == 0 { tasks_done } else { local.moment() };
        figures.tasks_ns.add(end.since(io_done));
        figures.local_pending.set(local.queues.uncounted());

        if tasks == 0 && events == 0 && local.shared.inbox.pending() > 0 {
            std::thread::yield_now(); // a submitter has announced a task and is about to queue it
        }
        self.mark = end;
        self.leave_if_asked(end, tasks > 0);
        if local.shared.requests.any() {
            self.answer_requests()?;
        }
        Ok(events + tasks + tail > 0)
    }

    // ---- 1 poll ----

    fn timeout(&mut self, wait: Wait) -> Option<Duration> {
        let local = &self.local;
        let Wait::AtMost(most) = wait else {
            // Driven by hand: time may have passed since the last turn.
            self.mark = local.moment();
            return Some(Duration::ZERO);
        };
        if local.has_tasks() || local.tail.has_pending() {
            return Some(Duration::ZERO);
        }
        [most, self.stay, local.until_next_timer(self.mark)].into_iter().flatten().min()
    }

    fn poll(&mut self, wanted: Option<Duration>) -> Result<Moment, LoopError> {
        if let Some(retry_at) = self.retry_at
            && let Some(now) = self.wait_for_retry(retry_at, wanted)
        {
            return Ok(now);
        }
        let local = self.local.clone();
        let shared = &local.shared;
        let idle = wanted != Some(Duration::ZERO);
        let mut wanted = wanted;
        let mut sleepy = idle;
        if idle && self.spin_first {
            sleepy = match self.wait.spins() {
                false => !spin_for_task(shared),
                true => match self.look_out(wanted)? {
                    ControlFlow::Break(now) => return Ok(now),
                    ControlFlow::Continue(left) => {
                        wanted = left;
                        true
                    }
                },
            };
        }
        let asleep = sleepy && shared.inbox.fall_asleep();
        let timeout = if asleep { wanted } else { Some(Duration::ZERO) };
        let driver = self.driver.as_mut().ok_or(LoopError::Abandoned)?;
        let result = driver.poll(timeout, &mut self.events);
        let woken = asleep && shared.inbox.wake_up();
        let now = local.moment();
        if asleep {
            self.spin_first = (woken && now.since(self.mark) < SHORT_SLEEP) || self.wait.spins();
        }
        match result {
            Ok(()) => {
                self.failures = 0;
                let empty = asleep && !woken && self.events.is_empty();
                let early = || timeout.is_none_or(|time| u128::from(now.since(self.mark)) < time.as_nanos());
                let premature = empty && early();
                self.judge_wake_up(premature);
            }
            // A signal came, which is nobody's fault.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.recover(&error, now),
        }
        Ok(now)
    }

    /// Polls again and again, without a sleep, for as long as the loop is to wait like that: until there is something to do, or
    /// `wanted` is over. Continues with what is left of `wanted` if the loop is to sleep.
    ///
    /// The loop counts as awake meanwhile, so tasks come without a wake-up; such polls cannot be premature. As with any wait,
    /// it is real time that passes, whatever the loop's clock says.
    #[inline(never)]
    fn look_out(
        &mut self,
        wanted: Option<Duration>,
    ) -> Result<ControlFlow<Moment, Option<Duration>>, LoopError> {
        let local = self.local.clone();
        let (begun, spin_time) = (Instant::now(), self.wait.spin_time());
        let mut round = 0_u32;
        loop {
            let driver = self.driver.as_mut().ok_or(LoopError::Abandoned)?;
            match driver.poll(Some(Duration::ZERO), &mut self.events) {
                Ok(()) => self.failures = 0,
                // A signal came, which is nobody's fault.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let now = local.moment();
                    self.recover(&error, now);
                    return Ok(ControlFlow::Break(now));
                }
            }
            let spent = begun.elapsed();
            let has_work = !self.events.is_empty() || local.shared.inbox.pending() > 0;
            if has_work || wanted.is_some_and(|wanted| spent >= wanted) {
                return Ok(ControlFlow::Break(local.moment()));
            }
            let sleeps = spin_time.is_some_and(|time| spent >= time);
            round = round.wrapping_add(1);
            if sleeps || round.is_multiple_of(ROUNDS_TO_YIELD) {
                // Counted as it passes: nobody is to take this for a turn that does not end.
                let now = local.moment();
                local.shared.figures.polling_ns.add(now.since(self.mark));
                self.mark = now;
            }
            if sleeps {
                return Ok(ControlFlow::Continue(wanted.map(|wanted| wanted.saturating_sub(spent))));
            }
            match round.is_multiple_of(ROUNDS_TO_YIELD) {
                false => std::hint::spin_loop(),
                true => std::thread::yield_now(),
            }
        }
    }

    /// The driver failed. A rebuild may help, and is trusted once; then the driver is tried again after a pause that grows.
    #[cold]
    fn recover(&mut self, error: &io::Error, now: Moment) {
        let shared = self.local.shared.clone();
        let name = &shared.config.name;
        shared.figures.poll_failures.add(1);
        self.failures = self.failures.saturating_add(1);
        tell(|| {
            tracing::error!(event_loop = %name, %error, in_a_row = self.failures, "the driver failed, rebuilding it");
        });
        match self.rebuild() {
            Ok(_) if self.failures == 1 => return,
            Ok(_) => {}
            Err(error) => {
                tell(|| tracing::error!(event_loop = %name, %error, "rebuilding the driver failed"));
            }
        }
        let doublings = (self.failures - 1).min(RETRY_DOUBLINGS);
        self.retry_at = Some(now.after((RETRY_FIRST * (1 << doublings)).min(RETRY_MAX)));
    }

    /// Waits in place of a driver that failed, for a task, a timer or the time to try it again. `None` if that has come.
    #[cold]
    fn wait_for_retry(&mut self, retry_at: Moment, wanted: Option<Duration>) -> Option<Moment> {
        let shared = &self.local.shared;
        let left = Duration::from_nanos(retry_at.since(self.local.moment()));
        if left.is_zero() {
            self.retry_at = None;
            return None;
        }
        let time = wanted.map_or(left, |wanted| wanted.min(left));
        if !time.is_zero() {
            let lying = shared.nap.lie_down();
            if shared.inbox.fall_asleep() {
                lying.sleep(time);
                shared.inbox.wake_up();
            }
        }
        Some(self.local.moment())
    }

    /// A poll that ends early and empty is a poll that may do so for ever, and then the loop spins.
    fn judge_wake_up(&mut self, premature: bool) {
        if !premature {
            self.premature = 0;
            return;
        }
        let shared = self.local.shared.clone();
        shared.figures.premature_wakeups.add(1);
        self.premature += 1;
        let limit = shared.config.rebuild_after;
        if limit == 0 || self.premature < limit {
            return;
        }
        let name = &shared.config.name;
        let premature = self.premature;
        tell(|| {
            tracing::warn!(
                event_loop = %name, premature, limit,
                "the driver woke up prematurely too often in a row, rebuilding it"
            );
        });
        if let Err(error) = self.rebuild() {
            // The old one still works, if badly: go on with it and try again later.
            tell(|| {
                tracing::warn!(event_loop = %name, %error, "rebuilding the driver failed, keeping the old one");
            });
            self.premature = 0;
        }
    }

    /// How many registrations moved.
    fn rebuild(&mut self) -> io::Result<usize> {
        let driver = self.driver.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let moved = driver.rebuild()?;
        let before = self.local.extension.replace(driver.extension());
        drop(before); // a driver's own code: after the borrow
        self.premature = 0;
        self.local.shared.figures.rebuilds.add(1);
        let name = &self.local.shared.config.name;
        tell(|| tracing::info!(event_loop = %name, registrations = moved, "driver rebuilt"));
        Ok(moved)
    }

    // ---- requests ----

    #[cold]
    fn answer_requests(&mut self) -> Result<(), LoopError> {
        if self.end.is_some() {
            return Ok(()); // who asked learns it from the end
        }
        let shared = self.local.shared.clone();
        if shared.requests.take(REBUILD) {
            self.rebuild_as_asked()?;
        }
        if shared.requests.take(SUSPEND) {
            self.suspend_if_idle()?;
        }
        Ok(())
    }

    /// One rebuild is the answer to all who have asked by now.
    fn rebuild_as_asked(&mut self) -> Result<(), LoopError> {
        let asked = self.local.rebuilds.take();
        let rebuilt = catch(|| self.rebuild());
        for promise in asked {
            promise.complete(match &rebuilt {
                Ok(Ok(moved)) => Ok(Ok(*moved)),
                Ok(Err(error)) => Ok(Err(io::Error::new(error.kind(), error.to_string()))),
                Err(message) => Err(TaskError::Panicked(message.clone())),
            });
        }
        // As with any panic of a driver: what is left of it cannot be trusted.
        rebuilt.map(drop).map_err(LoopError::Panicked)
    }

    // ---- 2 I/O ----

    /// Delivers all events. A look at the clock after every few of them shows which kept the loop: one after each would
    /// cost a hundredth of a small message.
    fn deliver(&mut self, start: Moment) -> Moment {
        let mut events = std::mem::take(&mut self.events);
        let shared = &self.local.shared;
        let (mut since, mut delivered) = (start, 0);
        for event in events.drain() {
            if delivered == EVENTS_TIMED {
                let now = self.local.moment();
                shared.figures.task_took(now.since(since), TaskKind::Io);
                (since, delivered) = (now, 0);
            }
            self.local.deliver(event);
            delivered += 1;
        }
        let end = self.local.moment();
        if delivered > 0 {
            shared.figures.task_took(end.since(since), TaskKind::Io);
        }
        self.events = events;
        end
    }

    // ---- 3 tasks ----

    /// Runs tasks until none is left or their share of the time is spent: `io` nanoseconds went to I/O.
    fn run_tasks(&mut self, start: Moment, io: u64) -> (usize, Moment) {
        let (mut run, mut now) = (0, start);
        let latest = self.budget.latest_end(start, io);
        loop {
            let (batch, end) = self.run_batch(now, latest);
            run += batch;
            now = end;
            if batch < BATCH || self.budget.is_spent(now.since(start), io) {
                return (run, now);
            }
        }
    }

    /// Runs up to [`BATCH`] tasks, fewer if it is found to be past `latest`.
    ///
    /// Timing every task would cost tiny ones a fifth of their speed. So single tasks are timed while they are not tiny:
    /// a few that took longer than a microsecond each turn the watch on, a full batch of tiny tasks turns it off, and
    /// while it is off so many as run between two looks at the clock stand for the longest among them.
    fn run_batch(&mut self, start: Moment, latest: Moment) -> (usize, Moment) {
        let local = &self.local;
        let shared = &local.shared;
        let (mut run, mut counted, mut timed, mut now) = (0, 0, 0, start);
        let mut last_kind = TaskKind::Task;
        let mut turn = Turn::Submitted;
        while run < BATCH
            && let Some(Queued { work, places }) = local.next(&mut turn)
        {
            last_kind = run_one(local, work);
            run += 1;
            counted += places;
            if local.queues.is_limited() && counted > 0 {
                local.queues.done(std::mem::take(&mut counted));
            }
            if self.watch_tasks || run.is_multiple_of(LOOK_AFTER) {
                let end = local.moment();
                let took = end.since(now);
                shared.figures.task_took(took, last_kind);
                self.watch_tasks |= took > 1000 * LOOK_AFTER as u64;
                (now, timed) = (end, run);
                if end >= latest || shared.requests.is_to_end_now() {
                    break;
                }
            }
        }
        local.queues.done(counted);
        if run == 0 {
            return (0, start);
        }
        shared.figures.tasks_run.add(run as u64);
        if timed < run {
            let end = local.moment();
            shared.figures.task_took(end.since(now), last_kind);
            now = end;
        }
        self.watch_tasks = run < BATCH || now.since(start) > 1000 * run as u64;
        (run, now)
    }

    // ---- 5 leave? ----

    fn leave_if_asked(&mut self, now: Moment, ran_tasks: bool) {
        let Some(patience) = self.local.shared.patience() else { return };
        let local = self.local.clone();
        let now = local.instant(now);
        let leaving = self.leaving.get_or_insert_with(|| Leaving::begin(patience, now));
        // Timers of a loop that leaves do not fire any more; their handles learn it from the drop.
        local.drop_timers();
        let tokens: Vec<Token> = local.sources.borrow().keys().map(Token).collect();
        for token in tokens {
            local.call_source(token, |source| source.shut_down());
        }
        if local.shared.requests.is_to_end_now() {
            return self.leave_now();
        }
        let busy = local.has_tasks() || local.tail.has_pending() || !local.sources.borrow().is_empty();
        match leaving.decide(now, ran_tasks, busy) {
            Decision::Stay(time) => self.stay = Some(time),
            Decision::Leave if local.shared.inbox.close_if_empty() => self.end = Some(End::Finished),
            Decision::Leave => {}
            Decision::LeaveNow => self.end = Some(End::Finished),
        }
    }

    /// Sources whose close has to pass the driver, such as one behind a send, get one more look at it. Others are dropped.
    #[cold]
    fn leave_now(&mut self) {
        self.end = Some(End::Finished);
        let waits = !self.local.sources.borrow().is_empty();
        if let Some(driver) = self.driver.as_mut().filter(|_| waits) {
            // What a driver cannot tell any more is told by the drop of its sources.
            let _ = driver.poll(Some(Duration::ZERO), &mut self.events);
            self.deliver(self.mark);
        }
    }

    /// Gives the thread back if nothing lives on it and the driver can move to another one.
    fn suspend_if_idle(&mut self) -> Result<(), LoopError> {
        let local = self.local.clone();
        // One that leaves needs its thread for that.
        let idle = self.owns_thread
            && self.leaving.is_none()
            && !local.has_tasks()
            && local.tail.is_empty()
            && local.futures.is_empty()
            && local.wheel.borrow().is_empty()
            && local.sources.borrow().is_empty();
        let Some(driver) = self.driver.take_if(|_| idle) else { return Ok(()) };
        match driver.suspend() {
            Ok(seed) => {
                // The seed first: whoever sees the loop without a thread may start one at once.
                local.shared.put_seed(seed);
                if local.shared.inbox.suspend_if_empty() {
                    self.end = Some(End::Suspended);
                } else if let Some(seed) = local.shared.take_seed() {
                    self.driver = Some(seed.start().map_err(|error| LoopError::Start(Arc::new(error)))?);
                }
            }
            Err(driver) => self.driver = Some(driver),
        }
        let before = local.extension.replace(self.driver.as_ref().and_then(|driver| driver.extension()));
        drop(before); // a driver's own code: after the borrow
        Ok(())
    }

    /// The last act: nothing new is taken, what was accepted is run, or dropped if it is to be now, and everything that lives
    /// on the loop is dropped on its thread.
    pub(crate) fn finish(self) {
        let Self { local, driver, .. } = self;
        let shared = &local.shared;
        local.closed.set(true);
        shared.inbox.close();
        local.queues.abandon();
        // A future or a source that always has itself called again does not from now on; one that arrives is polled once.
        local.futures.clear(&local);
        local.begin_turn();
        let mut turn = Turn::Submitted;
        while local.has_tasks() {
            match local.next(&mut turn) {
                Some(Queued { work, places }) => {
                    // A source that is called has its end to come to, also now.
                    if shared.requests.is_to_end_now() && !matches!(work, Work::Call(_)) {
                        forget(&local, work);
                    } else {
                        run_one(&local, work);
                        shared.figures.tasks_run.add(1);
                    }
                    local.queues.done(places);
                }
                None => std::thread::yield_now(), // a submitter was admitted at the last moment
            }
        }
        local.drop_timers();
        let rebuilds = local.rebuilds.take();
        local.drop_each(TaskKind::Task, rebuilds);
        local.tail.clear(&local);
        let tokens: Vec<Token> = local.sources.borrow().keys().map(Token).collect();
        if !shared.requests.is_to_end_now() {
            shared.figures.sources_cut.add(tokens.len() as u64);
        }
        for token in tokens {
            local.deregister(token);
        }
        let extension = local.extension.take();
        local.contain(TaskKind::Io, || drop(driver));
        local.contain(TaskKind::Io, || drop(extension));
    }
}

/// How long a driver is left alone that has failed for the first time although it was rebuilt, or could not be; it doubles.
const RETRY_FIRST: Duration = Duration::from_millis(1);
/// And at most: long enough to cost nothing, short enough that nobody waits much longer than the fault lasts.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// Enough to get from the one to the other.
const RETRY_DOUBLINGS: u32 = 10;
const _: () = assert!(RETRY_FIRST.as_millis() << RETRY_DOUBLINGS >= RETRY_MAX.as_millis());

/// I/O events between two looks at the clock.
const EVENTS_TIMED: usize = 8;

/// A sleep that a submitter ended this soon was not worth it: falling asleep and being woken takes both sides some ten
/// microseconds. A loop that lives on I/O, or has little to do, never spins.
const SHORT_SLEEP: u64 = 100_000;

/// Polls without a sleep between two offers of the core to others, which cost about as much as one of the polls.
const ROUNDS_TO_YIELD: u32 = 64;

/// Looks out for a task for some microseconds: first without giving up the core, less and less often so that the
/// submitter has the word to itself, then in between others that want the core. False if none came.
fn spin_for_task(shared: &Shared) -> bool {
    const SPINS: u32 = 7;
    const YIELDS: u32 = 4;
    for step in 0..SPINS + YIELDS {
        if shared.inbox.pending() > 0 {
            return true;
        }
        if step < SPINS {
            (0..1 << step).for_each(|_| std::hint::spin_loop());
        } else {
            std::thread::yield_now();
        }
    }
    shared.inbox.pending() > 0
}

/// Tells which kind it was, which is known here without another look.
fn run_one(local: &Rc<Local>, work: Work) -> TaskKind {
    match work {
        Work::Run(run) => {
            local.contain(TaskKind::Task, run);
            TaskKind::Task
        }
        Work::Poll(task) => {
            local.futures.poll(local, task);
            TaskKind::Future
        }
        Work::Timer(timer) => {
            timer.fire(local);
            TaskKind::Timer
        }
        Work::Call(token) => {
            local.deliver(Event { token, ready: Ready::NONE });
            TaskKind::Io
        }
        Work::Rebuild(promise) => {
            local.rebuilds.borrow_mut().push(promise);
            local.shared.requests.ask(REBUILD);
            TaskKind::Task
        }
        Work::Nudge => {
            local.shared.requests.take(WAKE);
            TaskKind::Task
        }
    }
}

/// Drops what will not be run: who waits for it learns it from that.
fn forget(local: &Rc<Local>, work: Work) {
    if matches!(work, Work::Run(_)) {
        local.shared.figures.tasks_dropped.add(1);
    }
    local.contain(work.kind(), || drop(work));
}

/// The whole life of a loop's thread.
pub(crate) fn run_thread(shared: &Arc<Shared>) {
    let (name, threads) = (&shared.config.name, &shared.config.threads);
    if let Some(core) = shared.config.pin_to_core {
        // Not through `known_core`: a thread inherits the cores of whoever sent the first task, and that may be one
        // other core only. That the core exists was checked when the loop was built.
        let pinned = core_affinity::set_for_current(core_affinity::CoreId { id: core });
        if !pinned {
            tell(|| tracing::warn!(event_loop = %name, core, "the thread could not be bound to its core"));
        }
    }
    shared.count_panic(threads.begins(name));
    shared.wait_for_start();
    // Whatever goes wrong with a loop, and be it our fault: its end is told.
    let end = match catch(|| live(shared)) {
        Ok(Ok(End::Suspended)) => return shared.count_panic(threads.ends(name)),
        Ok(Ok(End::Finished)) => Ok(()),
        Ok(Err(error)) => Err(error),
        Err(message) => Err(LoopError::Panicked(message)),
    };
    if let Err(error) = &end {
        tell(|| tracing::error!(event_loop = %name, %error, "the event loop ended"));
    }
    shared.inbox.close();
    shared.count_panic(threads.ends(name));
    shared.terminate(end);
}

/// The end of a loop for which a thread was promised that did not come.
pub(crate) fn end_without_thread(shared: &Arc<Shared>, error: io::Error) {
    tell(
        || tracing::error!(event_loop = %shared.config.name, %error, "the event loop has no thread, and ended"),
    );
    shared.refuse_all();
    let seed = shared.take_seed();
    if let Err(message) = catch(|| drop(seed)) {
        shared.report_panic(TaskKind::Io, &message);
    }
    shared.terminate(Err(LoopError::Start(Arc::new(error))));
}

/// From the start of the driver to the end of everything that lived on the loop.
fn live(shared: &Arc<Shared>) -> Result<End, LoopError> {
    let mut runner = match Runner::start(shared, true) {
        Ok(runner) => runner,
        Err(error) => {
            shared.refuse_all();
            return Err(error);
        }
    };
    let _entered = runner.local().enter();
    // A panic that gets here is ours or the driver's, not a task's: those are contained one by one.
    let end = catch(|| {
        loop {
            runner.turn(Wait::AtMost(None))?;
            if let Some(end) = runner.end() {
                return Ok(end);
            }
        }
    })
    .unwrap_or_else(|message| Err(LoopError::Panicked(message)));
    if !matches!(end, Ok(End::Suspended)) {
        runner.finish();
    }
    end
}
