//! What can go wrong with a pool as a whole: it cannot be built, or its end cannot be waited for.
//!
//! Not here: a task that is refused ([`Refused`](crate::refused::Refused)) or that fails
//! ([`TaskError`](crate::task_error::TaskError)).

use std::{error::Error, fmt, io};

use crate::{error::InvalidArgument, promise::PromiseError};

/// Why a pool could not be built.
///
/// ```
/// use netwright_core::{Workers, WorkersError};
///
/// assert!(matches!(Workers::new(0), Err(WorkersError::Argument { got: 0, .. })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkersError {
    /// The caller gave a number that makes no pool; the call site is enough to fix it.
    Argument {
        /// The builder's method.
        name: &'static str,
        /// What it was given.
        got: usize,
        /// The smallest number that it takes.
        min: usize,
        /// The largest number that it takes.
        max: usize,
    },
    /// The operating system takes no zero byte in the name of a thread.
    Name {
        /// The prefix as it was given.
        got: String,
    },
    /// The [factory](crate::ThreadFactory) of the threads has a setting that cannot work.
    Threads(InvalidArgument),
    /// The operating system, or a spawner of one's own, did not start a thread. Those before it have ended again, or will
    /// never begin: see [`WorkersBuilder::build`](super::WorkersBuilder::build).
    Start {
        /// The name of the thread that is missing.
        thread: String,
        /// What the operating system said.
        source: io::Error,
    },
}

impl fmt::Display for WorkersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument { name, got, min, max } => {
                write!(f, "{name} = {got}: allowed is {min} to {max}")
            }
            Self::Threads(error) => error.fmt(f),
            Self::Name { got } => write!(f, "name = {got:?}: allowed is any text without a zero byte"),
            Self::Start { thread, source } => write!(f, "the thread {thread:?} did not start: {source}"),
        }
    }
}

impl Error for WorkersError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Start { source, .. } => Some(source),
            Self::Threads(error) => Some(error),
            Self::Argument { .. } | Self::Name { .. } => None,
        }
    }
}

/// Why a wait for the end of a pool came back without that end.
///
/// ```
/// use netwright_core::{ShutdownError, Workers};
///
/// let workers = Workers::new(1)?;
/// let end = workers.termination();
/// let refused = workers.submit(move || end.wait())?.wait()?;
/// assert!(matches!(refused, Err(ShutdownError::WouldBlockWorker))); // it would wait for itself
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The time given to the shutdown passed first. The tasks are neither lost nor stopped: they still run, and
    /// [`Workers::termination`](super::Workers::termination) tells when they have.
    Overdue {
        /// Tasks that waited for a thread at that moment.
        pending: usize,
        /// Tasks that were running at that moment.
        running: usize,
    },
    /// A task of the pool wanted to wait for the end of the pool, which waits for that task. Await it elsewhere.
    WouldBlockWorker,
    /// The caller tried to block a thread that runs an event loop: await the termination there instead.
    WouldBlockLoop,
    /// The pool went away without ending in order; this would be an error of ours.
    Abandoned,
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overdue { pending, running } => write!(
                f,
                "the workers have not finished in time: {pending} tasks pending and {running} running, which go on"
            ),
            Self::WouldBlockWorker => {
                f.write_str("a worker cannot wait for its own pool to end: the pool waits for that worker")
            }
            Self::WouldBlockLoop => {
                f.write_str("waiting here would block an event loop: await the termination instead")
            }
            Self::Abandoned => f.write_str("the workers went away without an orderly end"),
        }
    }
}

impl Error for ShutdownError {}

impl From<PromiseError> for ShutdownError {
    fn from(error: PromiseError) -> Self {
        match error {
            PromiseError::WouldBlockLoop => Self::WouldBlockLoop,
            // Nobody can cancel a termination: it is only ever handed out shared.
            PromiseError::Abandoned | PromiseError::Cancelled => Self::Abandoned,
        }
    }
}
