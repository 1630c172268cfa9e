//! What happens once to the channel of an async tail, to be waited for by anybody on its loop.

use super::state::{SharedState, State};
use crate::{arena::Key, channel::CloseCause};
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// A place among those who watch a channel. Nothing of it stays behind when it is dropped.
pub(super) struct Watcher<R, W> {
    state: SharedState<R, W>,
    key: Option<Key>,
}

impl<R, W> Watcher<R, W> {
    pub(super) fn new(state: SharedState<R, W>) -> Self {
        Self { state, key: None }
    }

    /// What `look` finds, or a wake-up when there may be something.
    fn poll<T>(&mut self, cx: &mut Context<'_>, look: impl FnOnce(&State<R, W>) -> Option<T>) -> Poll<T> {
        if let Some(found) = look(&self.state.borrow()) {
            return Poll::Ready(found);
        }
        // Cloned and dropped with no borrow held: wakers are anybody's code.
        let waker = cx.waker().clone();
        let before = self.state.borrow_mut().watch(&mut self.key, waker);
        drop(before);
        Poll::Pending
    }

    pub(super) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<CloseCause> {
        self.poll(cx, State::end)
    }
}

impl<R, W> Drop for Watcher<R, W> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.state.borrow_mut().unwatch(key);
            drop(waker);
        }
    }
}

/// The end of the channel.
pub(super) struct Ended<R, W>(pub(super) Watcher<R, W>);

impl<R, W> Future for Ended<R, W> {
    type Output = CloseCause;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CloseCause> {
        self.0.poll_closed(cx)
    }
}

/// Word that the end is near.
pub(super) struct Warned<R, W>(pub(super) Watcher<R, W>);

impl<R, W> Future for Warned<R, W> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll(cx, |state| (state.is_shutting_down() || state.is_closed()).then_some(()))
    }
}
