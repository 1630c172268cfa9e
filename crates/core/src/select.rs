//! Two futures, and whichever is ready first.

use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// Waits for two futures until one is ready; the other one is dropped with what it has done so far. If both are ready, the
/// first one counts.
///
/// Waits of a [`Peer`](crate::Peer), of [`time`](crate::time) and of promises can be given up without losing anything. To go on
/// with the other future, keep it pinned and pass `future.as_mut()`.
///
/// ```
/// use netwright_core::{EventLoop, Selected, select, time};
/// use std::{future::pending, time::Duration};
///
/// let event_loop = EventLoop::new();
/// let mut first = event_loop.spawn(async {
///     match select(pending::<()>(), time::sleep(Duration::from_millis(1))).await {
///         Selected::First(()) => "never",
///         Selected::Second(()) => "after a while",
///     }
/// }).unwrap();
/// assert_eq!(first.wait(), Ok("after a while"));
/// ```
pub fn select<A: Future, B: Future>(first: A, second: B) -> Select<A, B> {
    Select { first, second }
}

/// Which of two futures was ready, and its output.
///
/// ```
/// use netwright_core::{EventLoop, Selected, select};
/// use std::future::{pending, ready};
///
/// let event_loop = EventLoop::new();
/// let mut won = event_loop.spawn(async { select(ready(1), pending::<()>()).await })?;
/// assert_eq!(won.wait()?, Selected::First(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selected<A, B> {
    /// The first one, whatever the second one was.
    First(A),
    /// The second one; the first one was not ready.
    Second(B),
}

pin_project! {
    /// Made by [`select`].
    ///
    /// ```
    /// use netwright_core::{Select, Selected, select};
    /// use std::future::{Pending, Ready, pending, ready};
    ///
    /// let either: Select<Ready<u8>, Pending<()>> = select(ready(1), pending());
    /// # let _ = either;
    /// ```
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct Select<A, B> {
        #[pin]
        first: A,
        #[pin]
        second: B,
    }
}

impl<A: Future, B: Future> Future for Select<A, B> {
    type Output = Selected<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.first.poll(cx) {
            return Poll::Ready(Selected::First(output));
        }
        this.second.poll(cx).map(Selected::Second)
    }
}
