//! Why a promise has no value of its own to give.

use std::{error::Error, fmt, io};

/// What the promise itself has to say, as opposed to the work behind it. Every promise's error type is made from it.
///
/// ```
/// use netwright_core::{PromiseError, promise};
///
/// let (promise, mut promised) = promise::<u32, PromiseError>();
/// drop(promise); // the work was thrown away
/// assert_eq!(promised.wait(), Err(PromiseError::Abandoned));
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromiseError {
    /// The writer was dropped without completing: the work was thrown away, or its thread panicked.
    Abandoned,
    /// The reader cancelled before the work was claimed.
    Cancelled,
    /// A blocking wait was asked for on a thread that runs an event loop, which would stall every channel on it. The
    /// value is still on its way: await it or listen for it.
    WouldBlockLoop,
}

impl fmt::Display for PromiseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Abandoned => "the promise was dropped before it was completed",
            Self::Cancelled => "the promise was cancelled before its work started",
            Self::WouldBlockLoop => {
                "waiting here would block an event loop: await the promise or listen to it"
            }
        })
    }
}

impl Error for PromiseError {}

/// Of kind `Other`, because `WouldBlock` and `Interrupted` invite a retry that cannot help.
impl From<PromiseError> for io::Error {
    fn from(error: PromiseError) -> Self {
        io::Error::other(error)
    }
}
