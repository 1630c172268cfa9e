//! A request on its way to a connection, and what comes of it if that is not a reply.
//!
//! Always true: a request is answered, or comes back as it was, or was written at least in part. Which of these it is, is known
//! even if nobody was there to take it: one that is dropped on its way comes back.

use super::WebClientError;
use crate::Body;
use http::{Request, Response};
use netwright_core::{CloseCause, Promise, PromiseError};
use netwright_transport::Pooled;
use std::time::{Duration, Instant};

/// A request, and who waits for its reply.
pub(super) struct Ask {
    /// What it is made of; empty once an exchange has it.
    parts: Option<Parts>,
    pub(super) times: Times,
    /// Since when it waits for its connection to be ready, if it had to.
    pub(super) since: Option<Instant>,
}

/// What an exchange takes out of an [`Ask`].
pub(super) struct Parts {
    pub(super) request: Request<Body>,
    pub(super) reply: Promise<Response<Body>, Failure>,
    /// The connection that this is written to, to be given back when it is free.
    pub(super) pooled: Pooled<Ask>,
}

/// How long things may take. Zero: no limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) head: Duration,
    pub(super) piece: Duration,
    pub(super) total: Duration,
}

/// Why there is no reply, and what can be done about it.
pub(super) enum Failure {
    /// Nothing of the request was written. Here it is again.
    Unsent(Box<Request<Body>>, WebClientError),
    /// It was written, at least in part.
    Sent {
        error: WebClientError,
        /// The connection ended, and nothing of a reply had come.
        unanswered: bool,
    },
}

impl From<PromiseError> for Failure {
    fn from(error: PromiseError) -> Self {
        Self::Sent { error: error.into(), unanswered: false }
    }
}

/// Tells the stage that somebody has given up: perhaps the one that it asks for.
pub(super) struct GivenUp;

impl Ask {
    pub(super) fn new(parts: Parts, times: Times) -> Self {
        Self { parts: Some(parts), times, since: None }
    }

    /// For an exchange that writes it now.
    pub(super) fn take(mut self) -> Option<Parts> {
        self.parts.take()
    }

    /// It was not written, and will not be here.
    pub(super) fn give_back(mut self, why: WebClientError) {
        self.unsent(Some(why));
    }

    fn unsent(&mut self, why: Option<WebClientError>) {
        let Some(Parts { request, reply, pooled }) = self.parts.take() else { return };
        let ended = || WebClientError::Closed(pooled.close_cause().unwrap_or(CloseCause::Requested));
        let why = why.unwrap_or_else(ended);
        pooled.discard();
        reply.fail(Failure::Unsent(Box::new(request), why));
    }
}

/// Its connection has ended before it came there.
impl Drop for Ask {
    fn drop(&mut self) {
        self.unsent(None);
    }
}
