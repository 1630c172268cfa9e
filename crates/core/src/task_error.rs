//! Why the result of a submitted task will never come, and how a panic is turned into that answer.
//!
//! ```text
//!   task ──► catch ──► Ok(value)      ─► promise succeeds
//!                 └──► Err(message)   ─► promise fails with Panicked(message); the thread goes on
//! ```
//! Always true: nothing that a task throws gets past [`catch`], neither the panic nor a second one from dropping the
//! first one's payload.
//!
//! Not here: what to log and count, which belongs to the executor that knows the thread's name.

use std::{
    any::Any,
    error::Error,
    fmt, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
};

use crate::{promise::PromiseError, world};

/// Why a submitted task has no result.
///
/// ```
/// use netwright_core::{TaskError, Workers};
///
/// let workers = Workers::new(1)?;
/// let mut broken = workers.submit(|| -> u32 { panic!("no such row") })?;
/// assert_eq!(broken.wait(), Err(TaskError::Panicked("no such row".to_owned())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskError {
    /// The task panicked with this message. The executor that ran it goes on.
    Panicked(String),
    /// The task was dropped before it had run, so nobody is left to answer.
    Abandoned,
    /// Whoever asked for the result cancelled the question.
    Cancelled,
    /// The caller tried to block a thread that runs an event loop: await the result there instead.
    WouldBlockLoop,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(message) => write!(f, "the task panicked: {message}"),
            Self::Abandoned => f.write_str("the task was dropped before it had run"),
            Self::Cancelled => f.write_str("the task was cancelled"),
            Self::WouldBlockLoop => {
                f.write_str("waiting here would block an event loop: await the result instead")
            }
        }
    }
}

impl Error for TaskError {}

impl From<PromiseError> for TaskError {
    fn from(error: PromiseError) -> Self {
        match error {
            PromiseError::Abandoned => Self::Abandoned,
            PromiseError::Cancelled => Self::Cancelled,
            PromiseError::WouldBlockLoop => Self::WouldBlockLoop,
        }
    }
}

/// What a panic said: the text of `panic!`, or a note that its payload was something else.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a payload that is not text".to_owned()
    }
}

/// Runs user code and turns a panic into its message. Executors hand nothing of `f` on after a panic, so no broken
/// value of ours can be seen: hence `AssertUnwindSafe`.
#[inline]
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, String> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => Ok(result),
        Err(payload) => Err(take_message(payload)),
    }
}

/// Writes to the log. Whoever listens there is foreign code: if it panics, what was to be told is lost and nothing else.
pub(crate) fn tell(log: impl FnOnce()) {
    let _ = catch(log);
}

/// Drops a value of a user. If that panics, it is told in the log and nobody's business.
pub(crate) fn discard<T>(value: T) {
    if mem::needs_drop::<T>()
        && let Err(panic) = catch(|| drop(value))
    {
        tell_of_drop(&panic);
    }
}

/// Apart from what is compiled for each type.
#[cold]
#[inline(never)]
fn tell_of_drop(panic: &str) {
    tell(|| tracing::error!(panic, "a value panicked when it was dropped"));
}

/// Drops values of users. One that panics costs no other one its drop.
pub(crate) fn discard_each<T>(values: impl IntoIterator<Item = T>) {
    for value in values {
        discard(value);
    }
}

/// Wakes. If the waker panics, which is whoever's who waits, it is told in the log.
pub(crate) fn wake(waker: Waker) {
    if let Err(panic) = catch(|| waker.wake()) {
        tell(|| tracing::error!(panic, "a waker panicked"));
    }
}

#[cold]
#[inline(never)]
fn take_message(payload: Box<dyn Any + Send>) -> String {
    let message = panic_message(&*payload);
    world::panicked(&message);
    // The payload is the user's value too: its drop may panic as well. What that second panic carries is leaked,
    // because dropping it could go on like this for ever.
    if let Err(second) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
        mem::forget(second);
    }
    message
}

#[cfg(test)]
mod tests {
    use std::panic::resume_unwind;

    use super::*;

    #[test]
    fn a_panic_message_is_the_text_of_the_panic() {
        // `resume_unwind` panics without the hook, so the test's output stays readable.
        assert_eq!(catch(|| 5), Ok(5));
        assert_eq!(catch(|| resume_unwind(Box::new("literal"))), Err::<(), _>("literal".to_owned()));
        assert_eq!(
            catch(|| resume_unwind(Box::new(format!("made {}", 1)))),
            Err::<(), _>("made 1".to_owned())
        );
        assert_eq!(
            catch(|| resume_unwind(Box::new(17))),
            Err::<(), _>("a payload that is not text".to_owned())
        );
    }

    #[test]
    fn a_payload_that_panics_when_dropped_is_contained_too() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                resume_unwind(Box::new("from drop"));
            }
        }
        assert!(catch(|| resume_unwind(Box::new(Bomb))).is_err());
    }

    #[test]
    fn promise_errors_keep_their_meaning() {
        assert_eq!(TaskError::from(PromiseError::Abandoned), TaskError::Abandoned);
        assert_eq!(TaskError::from(PromiseError::Cancelled), TaskError::Cancelled);
        assert_eq!(TaskError::from(PromiseError::WouldBlockLoop), TaskError::WouldBlockLoop);
    }
}
