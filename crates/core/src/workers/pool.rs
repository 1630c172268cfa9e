//! The threads and the one lock behind [`Workers`](super::Workers).
//!
//! ```text
//!   push ──► pending < limit? ──► ready: [task][lane][task] ──► a sleeping worker wakes ──► next ──► run ──► over
//!                   └ refused              ▲                                                          │
//!                                          └──────── a lane that has more, after its turn ────────────┘
//! ```
//! Always true between calls (one lock guards it all; a lane's own lock is taken inside it, never around it):
//! 1. `pending` tasks were accepted and wait, `running` ones run, `completed + panics + cancelled` are over: together,
//!    every task that was ever accepted.
//! 2. Once `closed`, nothing is accepted, and `pending + running` only falls.
//!    Nobody waits for what is scheduled: it is dropped at that moment.
//! 3. A worker leaves only when the pool is closed and nothing is ready. A lane in a worker's hands is not ready, but
//!    then that worker has not left. So what was accepted runs.
//! 4. The last worker to leave completes the promises of the end.
//! 5. While a worker sleeps uncalled, at least as many others come, or look already, as there are ready tasks and lanes.
//! 6. No task is run or dropped, no waker called and nothing logged under the lock.
//!
//! Why one lock and not a stealing scheduler: the tasks block, and next to that the lock is held for no time: one
//! queue operation and two counters.
//!
//! Not here: which lane a task belongs to (`lane`), how a task is run (`job`), what waits for its time (`timers`), who is
//! to be woken (`sleepers`).

use std::{
    cell::Cell,
    collections::VecDeque,
    sync::{
        PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    WorkersFigures,
    error::ShutdownError,
    job::{Ending, Job},
    lane::{LANE_TURN_MAX, LaneQueue},
    sleepers::{Bell, Sleepers},
    timers::{Again, Ticket, Timers},
};
use crate::{
    clock::Clock,
    promise::{Promise, SharedPromised, promise},
    refused::RefusedWhy,
    sync::{Arc, Condvar, Mutex, MutexGuard, lock, thread},
    task_error::{catch, discard, discard_each, tell},
};

/// What the handles, the workers and the terminations share.
pub(super) struct Pool {
    name: String,
    pending_max: usize,
    pub(super) clock: std::sync::Arc<dyn Clock>,
    /// For workers that are driven by a world: something has changed since it last looked.
    stirred: Option<AtomicBool>,
    state: Mutex<State>,
    /// Something is ready, or the pool was closed.
    work: Condvar,
    /// The timekeeper's bell: something is ready and nobody else is free, the next deadline is another, or the pool was closed.
    time: Condvar,
    /// The pool was closed and its last task is over.
    drained: Condvar,
    /// Resolves when the last worker has left.
    pub(super) ended: SharedPromised<(), ShutdownError>,
    /// Resolves with `ended`, or when the time given to the shutdown has passed.
    pub(super) shutdown: SharedPromised<(), ShutdownError>,
}

struct State {
    ready: VecDeque<Ready>,
    pending: usize,
    running: usize,
    completed: u64,
    panics: u64,
    cancelled: u64,
    /// Workers that have not left.
    threads: usize,
    sleepers: Sleepers,
    timers: Timers,
    closed: bool,
    /// Nothing is started any more.
    ends_now: bool,
    /// The first shutdown sets the deadline; later ones change nothing.
    shutdown_asked: bool,
    /// When a shutdown of driven workers has lasted too long.
    overdue_at: Option<Instant>,
    ended: Option<Promise<(), ShutdownError>>,
    shutdown: Option<Promise<(), ShutdownError>>,
}

enum Ready {
    Job(Box<dyn Job>),
    /// A lane with at least one task.
    Lane(Arc<LaneQueue>),
}

/// What a worker finds when it looks for something to do.
enum Found<'a> {
    Job(Box<dyn Job>),
    /// Nothing now. When the clock was read, if it was.
    Nothing(MutexGuard<'a, State>, Option<Instant>),
    /// Nothing any more.
    End,
}

/// The lane in a worker's hands, and how many of its tasks have been started in a row.
pub(super) struct Turn {
    lane: Arc<LaneQueue>,
    started: usize,
}

impl Pool {
    /// A pool without a thread yet: [`join`](Self::join) one for each.
    ///
    /// `driven`: its workers have no threads, and a world looks after them.
    pub(super) fn new(
        name: String,
        pending_max: usize,
        clock: std::sync::Arc<dyn Clock>,
        driven: bool,
    ) -> Self {
        let (ended_promise, ended) = promise();
        let (shutdown_promise, shutdown) = promise();
        let state = State {
            ready: VecDeque::new(),
            pending: 0,
            running: 0,
            completed: 0,
            panics: 0,
            cancelled: 0,
            threads: 0,
            sleepers: Sleepers::default(),
            timers: Timers::new(clock.now()),
            closed: false,
            ends_now: false,
            shutdown_asked: false,
            overdue_at: None,
            ended: Some(ended_promise),
            shutdown: Some(shutdown_promise),
        };
        Self {
            name,
            pending_max,
            clock,
            stirred: driven.then(AtomicBool::default),
            state: Mutex::new(state),
            work: Condvar::new(),
            time: Condvar::new(),
            drained: Condvar::new(),
            ended: ended.shared(),
            shutdown: shutdown.shared(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn figures(&self) -> WorkersFigures {
        let state = lock(&self.state);
        WorkersFigures {
            pending: state.pending,
            scheduled: state.timers.len(),
            running: state.running,
            completed: state.completed,
            panics: state.panics,
            cancelled: state.cancelled,
            threads: state.threads,
        }
    }

    /// How many workers sleep and have not been called.
    #[cfg(all(test, not(loom)))]
    pub(super) fn asleep(&self) -> usize {
        lock(&self.state).sleepers.asleep()
    }

    /// Accepts a job, in order behind what `lane` holds if there is one, or gives it back.
    pub(super) fn push<J: Job + 'static>(
        &self,
        lane: Option<&Arc<LaneQueue>>,
        job: Box<J>,
    ) -> Result<(), (Box<J>, RefusedWhy)> {
        let mut state = lock(&self.state);
        if let Err(why) = self.admits(&state) {
            return Err((job, why));
        }
        state.pending += 1;
        match lane {
            None => state.ready.push_back(Ready::Job(job)),
            Some(lane) if lane.push(job) => state.ready.push_back(Ready::Lane(Arc::clone(lane))),
            // The lane is ready already, or the worker that holds it will find the job.
            Some(_) => {
                drop(state);
                self.stir();
                return Ok(());
            }
        }
        let called = state.call_for_ready();
        drop(state);
        if let Some(bell) = called {
            self.ring(bell);
        }
        self.stir();
        Ok(())
    }

    /// A world that drives the workers looks at them.
    fn stir(&self) {
        if let Some(stirred) = &self.stirred {
            stirred.store(true, Ordering::Release);
        }
    }

    /// Whether something has changed since this was last asked; always, for workers with threads.
    pub(super) fn take_stir(&self) -> bool {
        self.stirred.as_ref().is_none_or(|stirred| stirred.swap(false, Ordering::AcqRel))
    }

    /// When a driven pool has to be looked at again, if nothing else happens.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let state = lock(&self.state);
        [state.timers.next(), state.overdue_at].into_iter().flatten().min()
    }

    fn admits(&self, state: &State) -> Result<(), RefusedWhy> {
        if state.closed {
            return Err(RefusedWhy::ShutDown);
        }
        if state.pending + state.timers.len() >= self.pending_max {
            return Err(RefusedWhy::Full { limit: self.pending_max });
        }
        Ok(())
    }

    fn ring(&self, bell: Bell) {
        match bell {
            Bell::Work => self.work.notify_one(),
            Bell::Timekeeper => self.time.notify_one(),
        }
    }

    // ---- tasks for later ----

    /// Accepts a job for later, or gives it back.
    pub(super) fn schedule<J: Job + 'static>(
        &self,
        deadline: Option<Instant>,
        ticket: &Ticket,
        job: Box<J>,
    ) -> Result<(), (Box<J>, RefusedWhy)> {
        let mut state = lock(&self.state);
        if let Err(why) = self.admits(&state) {
            return Err((job, why));
        }
        self.arm(&mut state, deadline, ticket, job);
        Ok(())
    }

    /// Accepts a job for its next run, unless there will be none.
    fn again(&self, again: Again) {
        let Again { mut job, period, last, ticket } = again;
        let deadline = period.next(last, || self.clock.now());
        job.due_at(deadline);
        let mut state = lock(&self.state);
        if state.closed || ticket.is_cancelled() {
            drop(state);
            return discard(job);
        }
        self.arm(&mut state, deadline, &ticket, job);
    }

    fn arm(&self, state: &mut State, deadline: Option<Instant>, ticket: &Ticket, job: Box<dyn Job>) {
        let (key, is_next) = state.timers.arm(deadline, job);
        ticket.put(key);
        self.stir();
        // Whoever keeps the time has to look anew; if nobody does, one of those who sleep has to.
        if is_next && state.sleepers.has_timekeeper() {
            self.ring(Bell::Timekeeper);
        } else if is_next && let Some(bell) = state.sleepers.call_timekeeper() {
            self.ring(bell);
        }
    }

    /// Takes out what was cancelled before its time; the caller drops it.
    pub(super) fn cancel(&self, ticket: &Ticket) -> Option<Box<dyn Job>> {
        let mut state = lock(&self.state);
        let job = state.timers.cancel(ticket.key())?;
        state.cancelled += 1;
        Some(job)
    }

    // ---- the end ----

    /// Accepts nothing from now on; the workers leave when they have run what was accepted.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        let dropped = state.close();
        drop(state);
        self.wake_all();
        discard_each(dropped);
    }

    fn wake_all(&self) {
        self.stir();
        self.work.notify_all();
        self.time.notify_all();
    }

    /// Closes, and drops what was accepted and has not begun. What waits in a lane behind a task that runs is dropped when that
    /// one has ended.
    pub(super) fn end_now(&self) {
        let mut state = lock(&self.state);
        let mut dropped = state.close();
        state.ends_now = true;
        dropped.extend(state.take_ready());
        self.release(state);
        self.wake_all();
        discard_each(dropped);
    }

    /// Closes, and sees to it that `shutdown` resolves at the latest when `timeout` has passed. Only the first call
    /// counts.
    pub(super) fn shut_down(pool: &Arc<Self>, timeout: Duration) {
        // Too far away for the clock: no deadline.
        let driven = pool.stirred.is_some();
        let now = if driven { pool.clock.now() } else { Instant::now() };
        let deadline = now.checked_add(timeout);
        let (unfinished, dropped) = {
            let mut state = lock(&pool.state);
            if std::mem::replace(&mut state.shutdown_asked, true) {
                return;
            }
            let dropped = state.close();
            state.overdue_at = deadline.filter(|_| driven);
            (state.pending + state.running > 0, dropped)
        };
        pool.wake_all();
        discard_each(dropped);

        // Every worker may be stuck in a task, so none of them can be trusted with the clock.
        if !driven
            && unfinished
            && let Some(deadline) = deadline
        {
            let watched = Arc::clone(pool);
            let name = format!("{}-shutdown", pool.name);
            if let Err(error) = thread::Builder::new().name(name).spawn(move || watched.watch(deadline)) {
                tell(|| {
                    tracing::warn!(workers = %pool.name, %error, "no thread to watch the shutdown: it has no deadline");
                });
            }
        }
    }

    /// Fails `shutdown` if tasks are left at the deadline. Without tasks left, the workers are already leaving.
    fn watch(&self, deadline: Instant) {
        let mut state = lock(&self.state);
        while state.pending + state.running > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return fail_overdue(state);
            }
            state = self.drained.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The same for driven workers, when they are looked at.
    pub(super) fn judge_overdue(&self) {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        if state.overdue_at.take_if(|at| *at <= now).is_some() && state.pending + state.running > 0 {
            fail_overdue(state);
        }
    }

    /// Counts one more worker in; from then on somebody has to [`work`](Self::work), or to drop the guard.
    pub(super) fn join(pool: &Arc<Self>) -> Joined {
        lock(&pool.state).threads += 1;
        Joined { pool: Arc::clone(pool) }
    }

    /// The next job for a worker. It sleeps while there is none; `None`: leave.
    fn next(&self, turn: &mut Option<Turn>) -> Option<Box<dyn Job>> {
        let mut state = lock(&self.state);
        loop {
            match self.look(state, turn) {
                Found::Job(job) => return Some(job),
                Found::End => return None,
                Found::Nothing(held, now) => state = self.sleep(held, now),
            }
        }
    }

    /// What there is for a worker at this moment.
    fn look<'a>(&'a self, mut state: MutexGuard<'a, State>, turn: &mut Option<Turn>) -> Found<'a> {
        loop {
            let mut now = None;
            if state.timers.len() > 0 {
                drop(state); // for the clock
                let read = self.clock.now();
                state = lock(&self.state);
                state.release_due(read);
                now = Some(read);
            }
            if let Some(held) = turn.take() {
                if state.ends_now {
                    self.drop_lane(state, &held.lane);
                    state = lock(&self.state);
                    continue;
                }
                if let Some(job) = self.go_on(&mut state, held, turn) {
                    return Found::Job(job);
                }
            }
            match state.ready.pop_front() {
                Some(Ready::Job(job)) => {
                    self.start_one(&mut state);
                    return Found::Job(job);
                }
                Some(Ready::Lane(lane)) => {
                    // A ready lane has a task (rule 2 of lanes); if it had none, it would simply be idle.
                    if let Some(job) = lane.pop() {
                        *turn = Some(Turn { lane, started: 1 });
                        self.start_one(&mut state);
                        return Found::Job(job);
                    }
                }
                None if state.closed => return Found::End,
                None => return Found::Nothing(state, now),
            }
        }
    }

    /// Waits for something to do: until the next deadline, if nobody else does.
    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, State>, now: Option<Instant>) -> MutexGuard<'a, State> {
        if state.sleepers.has_timekeeper() || state.timers.len() == 0 {
            state.sleepers.rests();
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleepers.rested();
            return state;
        }
        // Scheduled after the look at the timers: look again.
        let Some(now) = now else { return state };
        state.sleepers.keeps_time();
        state = match state.timers.wait(now) {
            Some(left) => self.time.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            None => self.time.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
        state.sleepers.kept_time();
        state
    }

    /// A worker takes a task.
    fn start_one(&self, state: &mut State) {
        state.pending -= 1;
        state.running += 1;
        // What came due with it, or was left for a lane, is for others.
        while let Some(bell) = state.call_for_ready() {
            self.ring(bell);
        }
        if state.timers.len() > 0
            && let Some(bell) = state.sleepers.call_timekeeper()
        {
            self.ring(bell);
        }
    }

    /// Takes the next job of the lane that the worker holds, or lets go of the lane.
    fn go_on(&self, state: &mut State, mut held: Turn, turn: &mut Option<Turn>) -> Option<Box<dyn Job>> {
        if held.started >= LANE_TURN_MAX && !held.lane.is_empty() {
            // Nobody to wake: this worker takes one from the same queue at once.
            state.ready.push_back(Ready::Lane(held.lane));
            return None;
        }
        let job = held.lane.pop()?;
        held.started += 1;
        *turn = Some(held);
        self.start_one(state);
        Some(job)
    }

    /// Counts a task that has ended; its result has not been told to anybody yet.
    fn over(&self, thread: &str, ending: &Ending<'_>) {
        let mut state = lock(&self.state);
        state.running -= 1;
        match ending {
            Ending::Returned => state.completed += 1,
            Ending::Panicked(_) => state.panics += 1,
            Ending::Cancelled => state.cancelled += 1,
        }
        self.release(state);
        if let Ending::Panicked(panic) = ending {
            log_panic(thread, panic, "a task panicked; its worker goes on");
        }
    }

    /// A lane whose pool ends now: what waits in it is dropped, without the lock.
    fn drop_lane(&self, mut state: MutexGuard<'_, State>, lane: &LaneQueue) {
        let dropped: Vec<_> = std::iter::from_fn(|| lane.pop()).collect();
        state.pending -= dropped.len();
        state.cancelled += dropped.len() as u64;
        self.release(state);
        discard_each(dropped);
    }

    /// Lets go of the lock after tasks have gone; if they were the last, whoever watches the shutdown has nothing left to watch.
    fn release(&self, state: MutexGuard<'_, State>) {
        let drained = state.is_drained();
        drop(state);
        if drained {
            self.drained.notify_all();
        }
    }
}

/// The time given to a shutdown has passed.
fn fail_overdue(mut state: MutexGuard<'_, State>) {
    let overdue = ShutdownError::Overdue { pending: state.pending, running: state.running };
    let promise = state.shutdown.take();
    drop(state);
    if let Some(promise) = promise {
        promise.fail(overdue);
    }
}

impl State {
    /// Calls one more worker if fewer come than tasks are ready, and one is left to be called.
    fn call_for_ready(&mut self) -> Option<Bell> {
        if self.ready.len() > self.sleepers.coming() { self.sleepers.call() } else { None }
    }

    /// What is due becomes ready. Nobody is called yet: who looks takes one first.
    fn release_due(&mut self, now: Instant) {
        while let Some(job) = self.timers.pop_due(now) {
            self.ready.push_back(Ready::Job(job));
            self.pending += 1;
        }
    }

    /// Accepts nothing from now on. What was scheduled is the caller's, to drop it without the lock.
    fn close(&mut self) -> Vec<Box<dyn Job>> {
        self.closed = true;
        let dropped = self.timers.take_all();
        self.cancelled += dropped.len() as u64;
        dropped
    }

    fn is_drained(&self) -> bool {
        self.closed && self.pending + self.running == 0
    }

    /// Takes what waits for a thread, for who drops it without the lock.
    fn take_ready(&mut self) -> Vec<Box<dyn Job>> {
        let mut taken = Vec::new();
        for ready in std::mem::take(&mut self.ready) {
            match ready {
                Ready::Job(job) => taken.push(job),
                Ready::Lane(lane) => taken.extend(std::iter::from_fn(|| lane.pop())),
            }
        }
        self.pending -= taken.len();
        self.cancelled += taken.len() as u64;
        taken
    }
}

/// One worker's place in the pool. Dropping it leaves the pool, however that comes about.
pub(super) struct Joined {
    pool: Arc<Pool>,
}

impl Joined {
    /// Runs tasks until the pool is closed and empty.
    pub(super) fn work(&self, thread: &str) {
        self.mark_thread();
        let mut turn = None;
        while let Some(job) = self.pool.next(&mut turn) {
            self.run(thread, job);
        }
    }

    /// Runs one task, if there is one. `None`: there will be none any more.
    pub(super) fn work_once(&self, thread: &str, turn: &mut Option<Turn>) -> Option<bool> {
        let found = self.pool.look(lock(&self.pool.state), turn);
        match found {
            Found::Job(job) => {
                let before = self.mark_thread();
                self.run(thread, job);
                WORKER_OF.with(|worker_of| worker_of.set(before));
                Some(true)
            }
            Found::Nothing(..) => Some(false),
            Found::End => None,
        }
    }

    /// Drops what waits in the lane in the worker's hands, which nobody runs any more.
    pub(super) fn let_go(&self, turn: &mut Option<Turn>) {
        if let Some(held) = turn.take() {
            self.pool.drop_lane(lock(&self.pool.state), &held.lane);
        }
    }

    fn run(&self, thread: &str, job: Box<dyn Job>) {
        let pool = &*self.pool;
        // The task's own panics do not get here. What may: a waker, or the drop of a result that nobody wanted.
        match catch(|| job.run(&|ending| pool.over(thread, &ending))) {
            Ok(None) => {}
            Ok(Some(again)) => pool.again(again),
            Err(panic) => {
                log_panic(thread, &panic, "telling the result of a task panicked; its worker goes on");
            }
        }
    }

    /// The calling thread works for this pool. Tells for which it did before.
    fn mark_thread(&self) -> usize {
        WORKER_OF.with(|worker_of| worker_of.replace(Arc::as_ptr(&self.pool) as usize))
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let mut state = lock(&self.pool.state);
        state.threads -= 1;
        if state.threads > 0 {
            return;
        }
        // Closed, unless the threads were a spawner's that dropped them: then nobody is left to run what waits.
        let dropped = state.close();
        let left = state.take_ready();
        let promises = [state.ended.take(), state.shutdown.take()];
        self.pool.release(state);
        discard_each(dropped.into_iter().chain(left));
        for promise in promises.into_iter().flatten() {
            // Wakers are other people's code.
            if let Err(panic) = catch(|| promise.succeed(())) {
                log_panic(&self.pool.name, &panic, "telling the end of the workers panicked");
            }
        }
    }
}

#[cfg(not(loom))]
thread_local! {
    /// The address of the pool whose worker this thread is; 0 on all other threads.
    static WORKER_OF: Cell<usize> = const { Cell::new(0) };
}

// Loom's threads share one thread of the system, so they need loom's thread-locals.
#[cfg(loom)]
loom::thread_local! {
    static WORKER_OF: Cell<usize> = Cell::new(0);
}

/// Whether the calling thread is one of this pool's workers. The caller's `Arc` keeps the address from being reused.
pub(super) fn is_worker_of(pool: &Arc<Pool>) -> bool {
    // The thread-local may be gone while the thread ends; a worker that far no longer holds up its pool.
    WORKER_OF.try_with(|address| address.get()).is_ok_and(|address| address == Arc::as_ptr(pool) as usize)
}

fn log_panic(thread: &str, panic: &str, what: &str) {
    tell(|| tracing::error!(thread, panic, "{what}"));
}
