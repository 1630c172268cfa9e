//! The end of a channel, to be waited for.

use super::{CloseCause, handle::Way};
use crate::promise::{Promise, PromiseError, promise};
use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

/// The end of a channel: resolves to its cause.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
///
/// let mut embedded = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
/// let closed = embedded.channel().closed(); // a future, too
/// embedded.close_by_peer();
/// assert!(matches!(closed.wait(), Ok(CloseCause::PeerClosed)));
/// ```
pub struct Closed<W> {
    way: Way<W>,
}

impl<W> Closed<W> {
    pub(super) fn new(way: Way<W>) -> Self {
        Self { way }
    }

    /// Blocks until the channel has ended. On a loop's thread this is an error unless it has ended already.
    pub fn wait(&self) -> Result<CloseCause, PromiseError>
    where
        W: Send + 'static,
    {
        if let Some(cause) = self.way.close_cause() {
            return Ok(cause);
        }
        let (promise, mut promised) = promise::<CloseCause, PromiseError>();
        self.way.register(&Waker::from(Arc::new(CompleteOnWake {
            way: self.way.clone(),
            promise: Mutex::new(Some(promise)),
        })));
        if let Some(cause) = self.way.close_cause() {
            return Ok(cause);
        }
        promised.wait()
    }
}

/// Completes a promise when the channel has ended; a wake-up for other reasons registers it again.
struct CompleteOnWake<W> {
    way: Way<W>,
    promise: Mutex<Option<Promise<CloseCause, PromiseError>>>,
}

impl<W: Send + 'static> std::task::Wake for CompleteOnWake<W> {
    fn wake(self: Arc<Self>) {
        if self.way.close_cause().is_none() {
            self.way.register(&Waker::from(self.clone()));
        }
        // Looked at again, because the end may have come just before we registered.
        if let Some(cause) = self.way.close_cause() {
            let promise = self.promise.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(promise) = promise {
                promise.succeed(cause);
            }
        }
    }
}

impl<W> Future for Closed<W> {
    type Output = CloseCause;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CloseCause> {
        self.way.register(cx.waker());
        self.way.close_cause().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<W> fmt::Debug for Closed<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closed").field("cause", &self.way.close_cause()).finish()
    }
}
