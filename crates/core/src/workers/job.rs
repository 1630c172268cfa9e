//! One accepted task in the form in which it waits in a queue.
//!
//! ```text
//!   Plain      task ─► counted
//!   Reporting  claimed? ─► task ─► counted ─► promise
//!                 └ cancelled ─► dropped ─► counted
//! ```
//! Always true: a task is counted before its result can be seen, so whoever has the result finds it in the figures.
//!
//! A job is boxed before the pool's lock is taken and becomes a `dyn Job` only once it is accepted: a refused one can
//! still give back the closure that the caller offered.

use std::time::Instant;

use super::timers::Again;
use crate::{
    promise::Promise,
    task_error::{TaskError, catch},
};

/// How a task came to its end.
pub(super) enum Ending<'a> {
    Returned,
    /// With what the panic said.
    Panicked(&'a str),
    /// It was cancelled before it started, so it did not start.
    Cancelled,
}

impl<'a> Ending<'a> {
    fn of<T>(result: &'a Result<T, String>) -> Self {
        match result {
            Ok(_) => Self::Returned,
            Err(panic) => Self::Panicked(panic),
        }
    }
}

/// Tells the pool that the task is over.
pub(super) type Over<'a> = &'a dyn Fn(Ending<'_>);

/// What a worker runs.
pub(super) trait Job: Send {
    /// Runs the task with its panics contained, calls `over` once, then tells whoever waits. Gives itself back if it is to run
    /// again.
    fn run(self: Box<Self>, over: Over<'_>) -> Option<Again>;

    /// It is armed anew.
    fn due_at(&mut self, deadline: Option<Instant>) {
        let _ = deadline;
    }
}

/// A task whose end nobody waits for.
pub(super) struct Plain<F> {
    pub(super) task: F,
}

impl<F: FnOnce() + Send> Job for Plain<F> {
    fn run(self: Box<Self>, over: Over<'_>) -> Option<Again> {
        over(Ending::of(&catch(self.task)));
        None
    }
}

/// A task whose result goes to a promise.
pub(super) struct Reporting<F, T> {
    pub(super) task: F,
    pub(super) promise: Promise<T, TaskError>,
}

impl<F: FnOnce() -> T + Send, T: Send> Job for Reporting<F, T> {
    fn run(self: Box<Self>, over: Over<'_>) -> Option<Again> {
        let Self { task, mut promise } = *self;
        if !promise.claim() {
            // What the task captured may panic when dropped; the worker contains and logs that.
            over(Ending::Cancelled);
            drop(task);
            return None;
        }
        let result = catch(task);
        over(Ending::of(&result));
        promise.complete(result.map_err(TaskError::Panicked));
        None
    }
}
