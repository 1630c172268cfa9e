//! A task that an executor did not take, handed back to whoever offered it.
//!
//! ```text
//!   execute(task) ──► accepted: it will run, once
//!                 └─► Refused { task, why }: it has not run, it is yours again
//! ```
//! Always true: a refused task has not been started and not been dropped. There is no third case in which it is lost.
//!
//! Not here: what to do about it. Back-off, running it in place or failing the request is the caller's decision,
//! because only the caller knows what the task was for.

use std::{error::Error, fmt};

/// The task that an executor refused, and why. Nothing is lost: [`into_task`](Self::into_task) gives it back.
///
/// ```
/// use netwright_core::{RefusedWhy, Workers};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workers = Workers::new(1)?;
/// workers.shutdown_gracefully(std::time::Duration::MAX);
///
/// let refused = workers.execute(|| println!("too late for a worker")).unwrap_err();
/// assert_eq!(refused.why, RefusedWhy::ShutDown);
/// refused.into_task()(); // so it runs here
/// # Ok(())
/// # }
/// ```
pub struct Refused<F> {
    /// The task as it was offered: neither started nor dropped.
    pub task: F,
    /// Why the executor did not take it.
    pub why: RefusedWhy,
}

/// Why an executor did not take a task.
///
/// ```
/// use netwright_core::{EventLoop, RefusedWhy};
/// use std::{rc::Rc, time::Duration};
///
/// let event_loop = EventLoop::new();
/// let local = Rc::new(());
/// let refused = event_loop.execute_local(move || drop(local)).unwrap_err();
/// assert_eq!(refused.why, RefusedWhy::OffLoop); // only the loop's own thread may do that
/// let refused = event_loop.schedule_at_fixed_rate(Duration::ZERO, Duration::ZERO, || ()).unwrap_err();
/// assert_eq!(refused.why, RefusedWhy::ZeroPeriod);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusedWhy {
    /// As many tasks as are allowed wait already. It may be worth trying again when some of them have run.
    Full {
        /// How many tasks may wait.
        limit: usize,
    },
    /// The executor takes no more tasks, now or later.
    ShutDown,
    /// Only the loop's own thread may hand over what need not be `Send`, and this was another thread.
    OffLoop,
    /// A task that repeats without a pause between two runs would never let anything else run.
    ZeroPeriod,
    /// The system gave no thread to run it on. It may be worth trying again later.
    NoThread(std::io::ErrorKind),
}

/// For whoever opens something of the system on a loop: `?` takes what the system refuses and what the loop does.
impl From<RefusedWhy> for std::io::Error {
    fn from(why: RefusedWhy) -> Self {
        Self::other(why.to_string())
    }
}

impl<F> Refused<F> {
    pub(crate) fn new(task: F, why: RefusedWhy) -> Self {
        Self { task, why }
    }

    /// The task, to run it elsewhere, to offer it again, or to drop it on purpose.
    pub fn into_task(self) -> F {
        self.task
    }
}

// By hand, because closures have no `Debug` and a refusal must be printable all the same.
impl<F> fmt::Debug for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("why", &self.why).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task refused: {}", self.why)
    }
}

impl<F> Error for Refused<F> {}

impl Error for RefusedWhy {}

impl fmt::Display for RefusedWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { limit } => write!(f, "the queue is full, its limit is {limit} pending tasks"),
            Self::ShutDown => f.write_str("the executor has been shut down"),
            Self::OffLoop => f.write_str("it is not `Send`, and this thread is not the loop's own"),
            Self::ZeroPeriod => f.write_str("period is 0 ns, but must be longer than zero"),
            Self::NoThread(kind) => write!(f, "the loop's thread could not be started: {kind}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_any_closure_is_an_error_that_names_the_limit_and_gives_the_closure_back() {
        let refused = Refused::new(|| 7, RefusedWhy::Full { limit: 12 });
        let error: &dyn Error = &refused;
        assert_eq!(error.to_string(), "task refused: the queue is full, its limit is 12 pending tasks");
        assert_eq!(format!("{refused:?}"), "Refused { why: Full { limit: 12 }, .. }");
        assert_eq!(refused.into_task()(), 7);
    }
}
