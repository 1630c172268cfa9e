//! Errors of building and ending loops and groups.

use crate::promise::PromiseError;
use std::{fmt, io, sync::Arc};

/// An argument that cannot work: which one, what it was, what would do.
///
/// ```
/// use netwright_core::WaterMarks;
///
/// let error = WaterMarks::new(64, 32).unwrap_err();
/// println!("{}: {} is not {}", error.argument, error.value, error.expected);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidArgument {
    /// The argument's name.
    pub argument: &'static str,
    /// What was given.
    pub value: String,
    /// What is allowed.
    pub expected: String,
}

impl InvalidArgument {
    pub(crate) fn new(argument: &'static str, value: impl fmt::Display, expected: impl Into<String>) -> Self {
        Self { argument, value: value.to_string(), expected: expected.into() }
    }
}

impl fmt::Display for InvalidArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, but must be {}", self.argument, self.value, self.expected)
    }
}

impl std::error::Error for InvalidArgument {}

/// Why a loop or a group could not be built.
///
/// ```
/// use netwright_core::{BuildError, EventLoopGroup};
///
/// match EventLoopGroup::builder().loops(1).io_ratio(0).build() {
///     Err(BuildError::Argument(error)) => assert_eq!(error.argument, "io_ratio"),
///     _ => panic!("a share of nothing cannot work"),
/// }
/// ```
#[non_exhaustive]
pub enum BuildError {
    /// An argument cannot work.
    Argument(InvalidArgument),
    /// The driver of loop `index` could not be set up; the loops before it have been shut down.
    Driver {
        /// Which loop of the group, from 0.
        index: usize,
        /// What the driver said.
        error: io::Error,
    },
    /// A loop's thread could not be made by its [factory](crate::ThreadFactory); the loops before it have been shut down.
    Thread {
        /// The thread's name, which is its loop's.
        thread: String,
        /// What the system or the spawner said, with the size of the stack if one was asked for.
        error: io::Error,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(error) => error.fmt(f),
            Self::Driver { index, error } => {
                write!(f, "the driver of loop {index} could not be set up: {error}")
            }
            Self::Thread { thread, error } => write!(f, "the thread {thread:?} could not be made: {error}"),
        }
    }
}

/// By hand, because what is derived is compiled again in every crate that makes a `Box<dyn Error>` of it, with all errors inside.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(error) => f.debug_tuple("Argument").field(error).finish(),
            Self::Driver { index, error } => {
                f.debug_struct("Driver").field("index", index).field("error", error).finish()
            }
            Self::Thread { thread, error } => {
                f.debug_struct("Thread").field("thread", thread).field("error", error).finish()
            }
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Argument(error) => Some(error),
            Self::Driver { error, .. } | Self::Thread { error, .. } => Some(error),
        }
    }
}

impl From<InvalidArgument> for BuildError {
    fn from(error: InvalidArgument) -> Self {
        Self::Argument(error)
    }
}

/// Why a loop ended otherwise than by a shutdown, or why its end could not be waited for.
///
/// ```
/// use netwright_core::{EventLoop, LoopError};
///
/// let event_loop = EventLoop::new();
/// let end = event_loop.termination();
/// let refused = event_loop.spawn(async move { matches!(end.wait(), Err(LoopError::WouldBlockLoop)) }).unwrap().wait();
/// assert_eq!(refused, Ok(true)); // nobody waits for a loop on its own thread
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum LoopError {
    /// The driver could not start on the loop's thread.
    Start(Arc<io::Error>),
    /// The driver or the loop itself panicked (not a task: those are contained).
    Panicked(String),
    /// The loop vanished without a word, for instance because its manual driver was forgotten.
    Abandoned,
    /// Waiting was asked for on a loop's own thread, where it could block for ever.
    WouldBlockLoop,
}

impl fmt::Display for LoopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => write!(f, "the driver could not start on its thread: {error}"),
            Self::Panicked(message) => write!(f, "the event loop panicked: {message}"),
            Self::Abandoned => f.write_str("the event loop vanished without terminating"),
            Self::WouldBlockLoop => {
                f.write_str("waiting here would block an event loop; await it or wait elsewhere")
            }
        }
    }
}

/// By hand, as that of [`BuildError`].
impl fmt::Debug for LoopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => f.debug_tuple("Start").field(error).finish(),
            Self::Panicked(message) => f.debug_tuple("Panicked").field(message).finish(),
            Self::Abandoned => f.write_str("Abandoned"),
            Self::WouldBlockLoop => f.write_str("WouldBlockLoop"),
        }
    }
}

impl std::error::Error for LoopError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl From<PromiseError> for LoopError {
    fn from(error: PromiseError) -> Self {
        match error {
            PromiseError::WouldBlockLoop => Self::WouldBlockLoop,
            _ => Self::Abandoned,
        }
    }
}
