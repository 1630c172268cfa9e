//! What is waited for, and is given up if nobody waits any more.

use super::{
    ask::{Ask, GivenUp},
    exchange::Exchange,
};
use netwright_core::{Channel, Event, Promised, StageCaller};
use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

/// Where an exchange on a stream says that it has the request.
pub(super) type Begun = Arc<OnceLock<StageCaller<Exchange>>>;

/// Who has to be told that something is given up.
pub(super) enum Holder {
    Nobody,
    /// The connection that has the request.
    Connection(Channel<Ask>),
    /// The stream that has it, as soon as there is one.
    Stream(Begun),
}

/// A promise that is cancelled by the drop of who waits for it.
pub(super) struct OrGivenUp<T, E>(pub(super) Promised<T, E>, pub(super) Holder);

impl<T, E> Future for OrGivenUp<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T, E> Drop for OrGivenUp<T, E> {
    fn drop(&mut self) {
        if !self.0.cancel() {
            return;
        }
        match &self.1 {
            Holder::Nobody => {}
            Holder::Connection(channel) => channel.fire_event(Event::new(GivenUp)),
            // One that begins later sees that nobody waits.
            Holder::Stream(begun) => {
                if let Some(stage) = begun.get() {
                    stage.call(|stage, cx| stage.given_up(cx));
                }
            }
        }
    }
}
