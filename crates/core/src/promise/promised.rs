//! The reader's end of a promise.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    PromiseError, SharedPromised, block,
    core::{Core, Take},
    trampoline,
};
use crate::sync::Arc;

/// A result on its way: await it on any runtime, listen for it, or block a thread for it.
///
/// The result has arrived once it is there *and* the listeners added so far have run. Dropping a `Promised` detaches
/// from it: the work goes on and listeners still run; to stop the work, [`cancel`](Promised::cancel).
///
/// ```
/// use std::thread;
///
/// use netwright_core::{PromiseError, promise};
///
/// let (promise, mut promised) = promise::<&str, PromiseError>();
/// thread::spawn(move || promise.succeed("done"));
/// assert_eq!(promised.wait(), Ok("done"));
/// ```
///
/// As a future it resolves once, like any other: polling again after that panics.
#[must_use = "dropping a `Promised` loses the result, errors included: await it, or listen to it"]
pub struct Promised<T = (), E = PromiseError> {
    core: Arc<Core<T, E>>,
    /// Whether a waker of ours may be in the core: spares most drops the lock.
    polled: bool,
}

impl<T, E> Promised<T, E> {
    pub(super) fn new(core: Arc<Core<T, E>>) -> Self {
        Self { core, polled: false }
    }

    /// A result that is known already.
    ///
    /// ```
    /// use netwright_core::{PromiseError, Promised};
    ///
    /// let mut known = Promised::<u32, PromiseError>::ready(Ok(7));
    /// assert!(known.is_done());
    /// assert_eq!(known.wait(), Ok(7));
    /// ```
    pub fn ready(result: Result<T, E>) -> Self
    where
        T: 'static,
        E: From<PromiseError> + 'static,
    {
        Self::new(Arc::new(Core::done(result)))
    }

    /// Whether the result has arrived, taken since or not.
    ///
    /// A listener added to a finished promise borrows the result; seen from another thread, it arrives again when that
    /// listener has run.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.core.is_done()
    }

    /// Gives the result up: `true` if it now resolves to [`PromiseError::Cancelled`], `false` if the work was claimed
    /// or done before.
    ///
    /// Listeners run on this thread; the work's own end finds out when it asks.
    ///
    /// ```
    /// use netwright_core::{PromiseError, promise};
    ///
    /// let (mut promise, mut promised) = promise::<(), PromiseError>();
    /// assert!(promised.cancel());
    /// assert!(!promise.claim(), "so the work is skipped");
    /// assert_eq!(promised.try_take(), Some(Err(PromiseError::Cancelled)));
    /// ```
    pub fn cancel(&self) -> bool {
        Core::cancel(&self.core)
    }

    /// The result if it has arrived and was not taken before.
    pub fn try_take(&mut self) -> Option<Result<T, E>> {
        match self.core.try_take() {
            Take::Ready(result) => Some(result),
            Take::NotYet | Take::Gone => None,
        }
    }

    /// Blocks until the result arrives.
    ///
    /// On a thread that runs an event loop it never blocks: with no result there, it answers
    /// [`PromiseError::WouldBlockLoop`] at once, and this `Promised` can still be awaited, listened to or taken from.
    ///
    /// # Panics
    /// If the result was taken before. A listener that waits for its own promise waits for ever.
    pub fn wait(&mut self) -> Result<T, E> {
        match self.before_blocking() {
            Some(result) => result,
            None => block::wait(self),
        }
    }

    /// Blocks until the result arrives, but for at most `timeout`: `None` if it passed.
    ///
    /// Event loops are not blocked: see [`wait`](Promised::wait).
    ///
    /// # Panics
    /// If the result was taken before.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<T, E>> {
        match self.before_blocking() {
            Some(result) => Some(result),
            None => block::wait_timeout(self, timeout),
        }
    }

    /// Calls `listener` with the result: on the thread that completes the promise, or on this one if it is done.
    ///
    /// Listeners run in the order in which they were added, a late one behind those still to run. One that panics is
    /// reported and the others still run. Nested deeper than 8 notifications, it runs a little later on the same
    /// thread, so chains of promises may be of any length.
    ///
    /// # Panics
    /// If the result was taken before: nothing is left to show. Listen first, then take.
    pub fn listen(&self, listener: impl FnOnce(&Result<T, E>) + Send + 'static) {
        if let Err(listener) = Core::listen(&self.core, Box::new(listener)) {
            drop(listener);
            panic!("listening to a promise whose result was already taken");
        }
    }

    /// Makes a result that any number of readers can wait for, each getting a clone.
    ///
    /// ```
    /// use netwright_core::{PromiseError, promise};
    ///
    /// let (promise, promised) = promise::<u32, PromiseError>();
    /// let first = promised.shared();
    /// let second = first.clone();
    /// promise.succeed(7);
    /// assert_eq!((first.wait(), second.peek()), (Ok(7), Some(Ok(7))));
    /// ```
    ///
    /// # Panics
    /// If the result was taken before.
    pub fn shared(self) -> SharedPromised<T, E>
    where
        T: Clone + Send + Sync + 'static,
        E: Clone + Send + Sync + 'static,
    {
        SharedPromised::new(self.core.clone())
    }

    /// What there is to say without blocking; `None` means to block.
    fn before_blocking(&mut self) -> Option<Result<T, E>> {
        if let Some(result) = self.try_take() {
            return Some(result);
        }
        // We may be inside a listener, with the notification that we wait for queued on this very thread.
        trampoline::drain();
        match self.core.try_take() {
            Take::Ready(result) => Some(result),
            Take::Gone => panic!("waiting for a promise whose result was already taken"),
            Take::NotYet if block::may_block() => None,
            Take::NotYet => Some(Err(self.core.error(PromiseError::WouldBlockLoop))),
        }
    }
}

/// The waker of the last poll is the one that is woken.
impl<T, E> Future for Promised<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.core.poll_take(cx) {
            Poll::Ready(Take::Ready(result)) => {
                self.polled = false;
                Poll::Ready(result)
            }
            Poll::Ready(_) => panic!("polling a promise whose result was already taken"),
            Poll::Pending => {
                self.polled = true;
                Poll::Pending
            }
        }
    }
}

impl<T, E> Drop for Promised<T, E> {
    fn drop(&mut self) {
        // The work may go on for long; the task that no longer waits should not live as long through its waker.
        if self.polled {
            self.core.forget_waker();
        }
    }
}

impl<T, E> fmt::Debug for Promised<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promised").field("state", &self.core.describe()).finish()
    }
}
