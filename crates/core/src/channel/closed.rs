//! The end of a channel, to be waited for.

use super::{CloseCause, handle::WritesTo, shared::NOBODY, waiting::Waiting};
use crate::promise::{PromiseError, may_block, promise};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
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
    waiting: Waiting<W>,
}

impl<W> Closed<W> {
    pub(super) fn new(way: WritesTo<W>) -> Self {
        Self { waiting: Waiting::new(way) }
    }

    /// Blocks until the channel has ended. On a loop's thread this is an error unless it has ended already.
    pub fn wait(&self) -> Result<CloseCause, PromiseError> {
        if let Some(cause) = self.waiting.way().close_cause() {
            return Ok(cause);
        }
        if !may_block() {
            return Err(PromiseError::WouldBlockLoop);
        }
        let (promise, mut promised) = promise::<CloseCause, PromiseError>();
        let tell = Box::new(move |cause: &CloseCause| promise.succeed(cause.clone()));
        match self.waiting.way().listen(NOBODY, tell) {
            Ok(()) => promised.wait(),
            Err((_, cause)) => Ok(cause),
        }
    }
}

impl<W> Future for Closed<W> {
    type Output = CloseCause;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CloseCause> {
        self.waiting.poll(cx, WritesTo::close_cause)
    }
}

impl<W> fmt::Debug for Closed<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closed").field("cause", &self.waiting.way().close_cause()).finish()
    }
}
