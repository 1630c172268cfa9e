//! One value on its way from the one who works to the one who waits.
//!
//! ```text
//!    Promise ── complete / drop ──►  ┌──────┐  ── poll / wait / try_take ──►  Promised
//!    (one writer)                    │ Core │                                  (one reader, or `shared()`)
//!            ◄── claim / is_cancelled└──────┘  ◄── cancel / listen ──
//!
//!    Pending ───────────────────────────────► Done ──► Taken
//!        └──► Notifying (listeners run) ──────► │
//!                   ▲                           │
//!                   └── a listener added late ──┘
//! ```
//! Always true between calls:
//! 1. A promise completes once: by its writer, by a cancel that came before the claim, or by the writer's drop.
//! 2. Every listener runs exactly once, in the order in which they were added; one thread at a time runs them.
//! 3. The value can be taken once the listeners added so far have run. Until then their notifier owns it.
//! 4. No lock is held while a listener, a waker or a value's own code runs, and what panics in there is told in the log and
//!    costs nobody else anything.
//! 5. At most [`NESTED_MAX`](trampoline::NESTED_MAX) notifications are nested on a thread's stack.
//!
//! Not here: which thread completes a promise (event loops, executors) and what cancelling means to an operation (it
//! calls [`Promise::claim`] when it starts).

mod block;
mod core;
mod error;
mod promised;
mod shared;
mod trampoline;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;

pub(crate) use self::block::may_block;
use self::core::Core;
pub use self::{error::PromiseError, promised::Promised, shared::SharedPromised};
use crate::sync::Arc;

/// Both ends of a value that is not there yet: the writer's and the reader's.
///
/// ```
/// use netwright_core::{PromiseError, promise};
///
/// let (promise, mut promised) = promise::<u32, PromiseError>();
/// promised.listen(|result| println!("got {result:?}"));
/// promise.succeed(7);
/// assert_eq!(promised.try_take(), Some(Ok(7)));
/// ```
pub fn promise<T, E>() -> (Promise<T, E>, Promised<T, E>)
where
    T: 'static,
    E: From<PromiseError> + 'static,
{
    let core = Arc::new(Core::pending());
    (Promise { core: Some(core.clone()) }, Promised::new(core))
}

/// The writer's end: whoever holds it does the work, and says how it went.
///
/// There is one writer and completing consumes it, so a promise cannot be completed twice:
///
/// ```compile_fail,E0382
/// let (promise, promised) = netwright_core::promise::<u32, netwright_core::PromiseError>();
/// promise.succeed(1);
/// promise.succeed(2); // error: use of moved value
/// ```
///
/// Dropped without completion, it tells the other end [`PromiseError::Abandoned`]; no reader waits for ever.
pub struct Promise<T = (), E = PromiseError> {
    /// Empty only after completion, when there is nothing left to abandon.
    core: Option<Arc<Core<T, E>>>,
}

impl<T, E> Promise<T, E> {
    /// Completes with `result`, runs the listeners on this thread and wakes the reader.
    ///
    /// If the reader cancelled before, `result` is dropped here: it got [`PromiseError::Cancelled`] already.
    pub fn complete(mut self, result: Result<T, E>) {
        let core = self.core.take();
        std::mem::forget(self); // nothing is left in it
        if let Some(core) = core {
            Core::complete(&core, result);
        }
    }

    /// Completes with a value: see [`complete`](Promise::complete).
    pub fn succeed(self, value: T) {
        self.complete(Ok(value));
    }

    /// Completes with an error: see [`complete`](Promise::complete).
    pub fn fail(self, error: E) {
        self.complete(Err(error));
    }

    /// Whether the reader no longer wants the value: the work may be skipped.
    ///
    /// To decide whether to start, ask [`claim`](Promise::claim): between this answer and the start a cancel may come.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.core.as_ref().is_some_and(|core| core.is_cancelled())
    }

    /// Says that the work starts: from now on it cannot be cancelled. `false` if it already was, then skip the work.
    ///
    /// ```
    /// use netwright_core::{PromiseError, promise};
    ///
    /// let (mut promise, promised) = promise::<(), PromiseError>();
    /// assert!(promise.claim());
    /// assert!(!promised.cancel(), "too late, the work has started");
    /// ```
    #[must_use = "`false` means that the work was cancelled and should be skipped"]
    pub fn claim(&mut self) -> bool {
        self.core.as_ref().is_some_and(|core| core.claim())
    }
}

impl<T, E> Drop for Promise<T, E> {
    #[inline]
    fn drop(&mut self) {
        if let Some(core) = self.core.take() {
            abandon(&core);
        }
    }
}

/// Apart, so that a promise that is complete costs a look.
#[cold]
fn abandon<T, E>(core: &Arc<Core<T, E>>) {
    Core::abandon(core);
}

impl<T, E> fmt::Debug for Promise<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.core.as_ref().map_or("completed", |core| core.describe());
        f.debug_struct("Promise").field("state", &state).finish()
    }
}
