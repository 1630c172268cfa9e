//! Tasks for later: they wait in a wheel, and a worker that is free watches the time.
//!
//! ```text
//!   schedule ──▶ wheel ── due, seen by whichever worker looks for its next task ──▶ ready
//!                  ▲                                                                  │
//!                  └──────────── a task that repeats, after each of its runs ◀────────┘
//! ```
//! Always true between calls (the pool's lock guards it all):
//! 1. While tasks wait for their time and a worker sleeps, exactly one of those that sleep does so until the next deadline:
//!    the timekeeper. If it takes a task, it has another one take over. No thread is started for timers.
//! 2. What is in the wheel has a place within the pool's limit, and has been accepted; a pool that closes drops it.
//! 3. The clock is somebody else's code: it is read without the lock.
//!
//! Not here: how a task gets from the ready queue to its end (`pool`, `job`).

use std::{
    sync::{
        Arc as StdArc,
        atomic::{AtomicBool, AtomicU64, Ordering as StdOrdering},
    },
    time::{Duration, Instant},
};

use super::{
    job::{Ending, Job, Over},
    pool::Pool,
};
use crate::{
    arena::Key,
    event_loop::{Period, Waits, tick_of},
    promise::Promise,
    sync::Arc,
    task_error::{TaskError, catch, discard},
    timer::wheel::{TimerKey, Wheel},
};

/// A wait that is shorter only makes the timekeeper look too soon if the clock is one that is moved by hand.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// The tasks of a pool that wait for their time.
pub(super) struct Timers {
    origin: Instant,
    /// 8 KiB, for pools that schedule something.
    wheel: Option<Wheel<Box<dyn Job>>>,
}

impl Timers {
    pub(super) fn new(origin: Instant) -> Self {
        Self { origin, wheel: None }
    }

    pub(super) fn len(&self) -> usize {
        self.wheel.as_ref().map_or(0, Wheel::len)
    }

    /// The key, and whether it is the first now.
    pub(super) fn arm(&mut self, deadline: Option<Instant>, job: Box<dyn Job>) -> (TimerKey, bool) {
        let tick = tick_of(self.origin, deadline);
        let wheel = self.wheel.get_or_insert_with(Wheel::new);
        let first = wheel.next_deadline().is_none_or(|next| tick < next);
        (wheel.arm(tick, job), first)
    }

    pub(super) fn cancel(&mut self, key: TimerKey) -> Option<Box<dyn Job>> {
        self.wheel.as_mut()?.cancel(key)
    }

    /// The next task that is due at `now`.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Box<dyn Job>> {
        let passed = self.ticks_passed(now);
        self.wheel.as_mut()?.pop_due(passed)
    }

    /// How long a timekeeper sleeps; `None`: for as long as it likes.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        Some(self.next()?.saturating_duration_since(now).max(WAIT_MIN))
    }

    /// When the next task may be due.
    pub(super) fn next(&self) -> Option<Instant> {
        let next = Duration::from_millis(self.wheel.as_ref()?.next_deadline()?);
        self.origin.checked_add(next)
    }

    /// All of them, for who drops them without the lock.
    pub(super) fn take_all(&mut self) -> Vec<Box<dyn Job>> {
        self.wheel.take().map(|mut wheel| wheel.drain()).unwrap_or_default()
    }

    fn ticks_passed(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.origin).as_millis()).unwrap_or(u64::MAX)
    }
}

/// Where a task for later is, for whoever wants to cancel it.
pub(super) struct Ticket {
    pool: Arc<Pool>,
    cancelled: AtomicBool,
    /// The wheel's key as a number; written and read under the pool's lock.
    key: AtomicU64,
}

impl Ticket {
    pub(super) fn new(pool: &Arc<Pool>) -> StdArc<Self> {
        StdArc::new(Self { pool: pool.clone(), cancelled: AtomicBool::new(false), key: AtomicU64::new(0) })
    }

    pub(super) fn put(&self, key: TimerKey) {
        self.key.store(key.0.to_u64(), StdOrdering::Relaxed);
    }

    pub(super) fn key(&self) -> TimerKey {
        TimerKey(Key::from_u64(self.key.load(StdOrdering::Relaxed)))
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(StdOrdering::Acquire)
    }
}

impl Waits for Ticket {
    fn take_out(self: StdArc<Self>) {
        // First the flag: a task that repeats looks at it, under the lock, before it is armed again.
        self.cancelled.store(true, StdOrdering::Release);
        discard(self.pool.cancel(&self));
    }
}

/// A task that is to run again.
pub(super) struct Again {
    pub(super) job: Box<dyn Job>,
    pub(super) period: Period,
    /// When this run was due.
    pub(super) last: Option<Instant>,
    pub(super) ticket: StdArc<Ticket>,
}

/// A task that runs again and again.
pub(super) struct Repeating<F> {
    pub(super) task: F,
    pub(super) period: Period,
    pub(super) deadline: Option<Instant>,
    pub(super) ticket: StdArc<Ticket>,
    pub(super) promise: Promise<(), TaskError>,
}

impl<F: FnMut() + Send + 'static> Job for Repeating<F> {
    fn run(mut self: Box<Self>, over: Over<'_>) -> Option<Again> {
        if self.ticket.is_cancelled() {
            over(Ending::Cancelled);
            return None;
        }
        if let Err(panic) = catch(&mut self.task) {
            over(Ending::Panicked(&panic));
            let Self { task, promise, .. } = *self;
            promise.fail(TaskError::Panicked(panic));
            drop(task); // a user's value: the worker contains it
            return None;
        }
        over(Ending::Returned);
        let (period, last, ticket) = (self.period, self.deadline, self.ticket.clone());
        Some(Again { job: self, period, last, ticket })
    }

    fn due_at(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }
}
