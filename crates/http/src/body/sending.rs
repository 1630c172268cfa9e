//! A body on its way out, for stages: written piece by piece while there is room, and waited for by a future where it is not there.

use super::{Body, Piece};
use crate::error::HttpError;
use std::{
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

/// What is still to be written of a message.
pub(crate) enum Sending {
    Body(Body),
    /// A future waits for the next piece.
    Waiting,
}

/// What comes next of it.
pub(crate) enum Next {
    Piece(Result<Piece, HttpError>),
    /// Nothing yet. The future has the body, and brings it back with the piece.
    Later(Later),
}

/// The wait for a piece.
pub(crate) struct Later(Body);

impl Sending {
    /// The next piece, or the wait for it; `None` while there is one. Most pieces are there at once, and need no waker.
    pub(crate) fn next(&mut self) -> Option<Next> {
        let Self::Body(body) = self else { return None };
        if let Poll::Ready(piece) = body.poll_piece(&mut Context::from_waker(Waker::noop())) {
            return Some(Next::Piece(piece));
        }
        match std::mem::replace(self, Self::Waiting) {
            Self::Body(body) => Some(Next::Later(Later(body))),
            Self::Waiting => None,
        }
    }
}

impl Future for Later {
    type Output = (Body, Result<Piece, HttpError>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let piece = ready!(self.0.poll_piece(cx));
        Poll::Ready((std::mem::take(&mut self.0), piece))
    }
}
