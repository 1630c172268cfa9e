//! What a loop knows about itself: counters that are always on.
//!
//! One writer, the loop, and relaxed atomics: a counter costs a load and a store, and a reader on another thread may
//! see figures of two neighbouring moments side by side. Only `wakeups_sent` is written by submitters.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// A counter with a single writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    pub(crate) fn take_back(&self, n: u64) {
        self.0.store(self.get().wrapping_sub(n), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, n: usize) {
        self.0.store(n as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// For the counters that several threads write.
    pub(crate) fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) iterations: Counter,
    pub(crate) polling_ns: Counter,
    pub(crate) io_ns: Counter,
    pub(crate) tasks_ns: Counter,
    pub(crate) events: Counter,
    pub(crate) tasks_run: Counter,
    pub(crate) tasks_dropped: Counter,
    pub(crate) tasks_from_outside: Counter,
    pub(crate) local_pending: Counter,
    pub(crate) timers_pending: Counter,
    pub(crate) futures: Counter,
    pub(crate) sources: Counter,
    pub(crate) sources_cut: Counter,
    pub(crate) timers_orphaned: Counter,
    pub(crate) timers_at_once: Counter,
    pub(crate) wakeups_sent: Counter,
    pub(crate) premature_wakeups: Counter,
    pub(crate) rebuilds: Counter,
    pub(crate) poll_failures: Counter,
    pub(crate) panics: Counter,
    longest: Counter,
}

/// Room for the kind below the nanoseconds of the longest task.
const KIND_BITS: u32 = 3;

impl Figures {
    /// Remembers a task's time if none took longer.
    #[inline]
    pub(crate) fn task_took(&self, ns: u64, kind: TaskKind) {
        if ns > self.longest.get() >> KIND_BITS {
            self.longest.set(((ns << KIND_BITS) | kind as u64) as usize);
        }
    }

    pub(crate) fn snapshot(&self, inbox_pending: usize) -> LoopFigures {
        let longest = self.longest.get();
        let (sent, outside) = (self.wakeups_sent.get(), self.tasks_from_outside.get());
        LoopFigures {
            iterations: self.iterations.get(),
            time_polling: Duration::from_nanos(self.polling_ns.get()),
            time_io: Duration::from_nanos(self.io_ns.get()),
            time_tasks: Duration::from_nanos(self.tasks_ns.get()),
            events: self.events.get(),
            tasks_run: self.tasks_run.get(),
            tasks_dropped: self.tasks_dropped.get(),
            tasks_pending: inbox_pending as u64 + self.local_pending.get(),
            timers_pending: self.timers_pending.get(),
            futures: self.futures.get(),
            sources: self.sources.get(),
            sources_cut: self.sources_cut.get(),
            timers_orphaned: self.timers_orphaned.get(),
            timers_at_once: self.timers_at_once.get(),
            wakeups_sent: sent,
            wakeups_saved: outside.saturating_sub(sent),
            premature_wakeups: self.premature_wakeups.get(),
            rebuilds: self.rebuilds.get(),
            poll_failures: self.poll_failures.get(),
            panics: self.panics.get(),
            longest_task: (longest > 0).then(|| LongestTask {
                time: Duration::from_nanos(longest >> KIND_BITS),
                kind: TaskKind::ALL[(longest & ((1 << KIND_BITS) - 1)) as usize],
            }),
        }
    }
}

/// The figures of one loop at about one moment.
///
/// ```
/// use netwright_core::EventLoop;
///
/// let event_loop = EventLoop::new();
/// event_loop.schedule(std::time::Duration::ZERO, || ())?.wait()?;
/// let figures = event_loop.figures();
/// assert!(figures.tasks_run >= 1 && figures.panics == 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopFigures {
    /// Turns of the loop.
    pub iterations: u64,
    /// Time spent waiting for I/O, tasks and timers.
    pub time_polling: Duration,
    /// Time spent in sources, that is, in channels and their handlers.
    pub time_io: Duration,
    /// Time spent in tasks, timers, futures and tail tasks.
    pub time_tasks: Duration,
    /// I/O events handled.
    pub events: u64,
    /// Tasks, timers and polls of futures that have run.
    pub tasks_run: u64,
    /// Tasks that were accepted and not begun when the loop was [told to end now](crate::EventLoop::shutdown_now).
    pub tasks_dropped: u64,
    /// Tasks accepted and not yet run.
    pub tasks_pending: u64,
    /// Timers armed; one for all [looks](crate::Context::look_at) together.
    pub timers_pending: u64,
    /// Futures spawned and not yet finished.
    pub futures: u64,
    /// Sources (channels, listeners) registered.
    pub sources: u64,
    /// Sources that were still registered when the loop left: none if it left in order. Those of a loop that was
    /// [told to end now](crate::EventLoop::shutdown_now) are not counted.
    pub sources_cut: u64,
    /// Timers of sources that had gone, found when the loop left: a source takes its timers with it.
    pub timers_orphaned: u64,
    /// Timers that were armed to be due at once. Many of them are a loop that is kept busy by itself.
    pub timers_at_once: u64,
    /// Wake-ups that submitters sent because the loop slept.
    pub wakeups_sent: u64,
    /// Tasks from other threads that needed no wake-up of their own.
    pub wakeups_saved: u64,
    /// Polls that ended early and for no reason.
    pub premature_wakeups: u64,
    /// How often the driver was replaced: because of them, because it failed, or because it was asked for.
    pub rebuilds: u64,
    /// Polls that failed.
    pub poll_failures: u64,
    /// Panics contained.
    pub panics: u64,
    /// The task that kept the loop longest.
    pub longest_task: Option<LongestTask>,
}

/// A single task's time and kind.
///
/// ```
/// use netwright_core::EventLoop;
///
/// let event_loop = EventLoop::new();
/// event_loop.schedule(std::time::Duration::ZERO, || ())?.wait()?;
/// if let Some(longest) = event_loop.figures().longest_task {
///     println!("a {:?} kept the loop for {:?}", longest.kind, longest.time);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongestTask {
    /// How long it ran. In a run of many short tasks only the run as a whole is timed, and I/O events are timed up to eight
    /// at a time; then this is the time of all of them.
    pub time: Duration,
    /// What it was.
    pub kind: TaskKind,
}

/// What a loop ran.
///
/// ```
/// use netwright_core::{EventLoop, TaskKind};
///
/// let event_loop = EventLoop::new();
/// event_loop.spawn(async {})?.wait()?;
/// if event_loop.figures().longest_task.is_some_and(|longest| longest.kind == TaskKind::Io) {
///     println!("a handler took longest");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskKind {
    /// A task given to `execute`.
    Task,
    /// A timer.
    Timer,
    /// One poll of a spawned future.
    Future,
    /// A tail task.
    Tail,
    /// A source's event: a channel and its handlers.
    Io,
}

impl TaskKind {
    const ALL: [Self; 5] = [Self::Task, Self::Timer, Self::Future, Self::Tail, Self::Io];
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Task => "task",
            Self::Timer => "timer",
            Self::Future => "future",
            Self::Tail => "tail task",
            Self::Io => "I/O",
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_longest_task_stays_and_keeps_its_kind() {
        let figures = Figures::default();
        assert_eq!(figures.snapshot(0).longest_task, None);
        figures.task_took(5_000_000, TaskKind::Future);
        figures.task_took(4_000_000, TaskKind::Task);
        let longest = figures.snapshot(0).longest_task.unwrap();
        assert_eq!((longest.time, longest.kind), (Duration::from_millis(5), TaskKind::Future));
    }
}
