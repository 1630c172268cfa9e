//! A request on its way to a connection, and what comes of it if that is not a reply.
//!
//! Always true: a request is answered, or comes back as it was, or was written at least in part. Which of these it is, is known
//! even if nobody was there to take it: one that is dropped on its way comes back.

use super::{WebClientError, given_up::Begun, lease::Lease, speaks::Speaks};
use crate::Body;
use http::{Request, Response};
use netwright_core::{Promise, PromiseError};
use std::time::{Duration, Instant};

/// A request, and who waits for its reply.
pub(super) struct Ask {
    /// What it is made of; empty once an exchange has it.
    parts: Option<Parts>,
    pub(super) times: Times,
    /// Since when it waits for its connection to be ready, if it had to.
    pub(super) since: Option<Instant>,
    /// In place of a request: who wants to know what the connection speaks, as soon as it is known.
    pub(super) ready: Option<Promise<Speaks, WebClientError>>,
    /// To be set when an exchange has it.
    pub(super) begun: Option<Begun>,
}

/// What an exchange takes out of an [`Ask`].
pub(super) struct Parts {
    pub(super) request: Request<Body>,
    pub(super) reply: Promise<Response<Body>, Failure>,
    /// The connection that this is written to, or a stream of it, to be given back when it is free.
    pub(super) lease: Lease,
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
    /// It was written, at least in part, and the server has said that it has not looked at it.
    Refused,
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
        Self { parts: Some(parts), times, since: None, ready: None, begun: None }
    }

    /// No request: what does the connection speak?
    pub(super) fn ready(ready: Promise<Speaks, WebClientError>) -> Self {
        let times = Times { head: Duration::ZERO, piece: Duration::ZERO, total: Duration::ZERO };
        Self { parts: None, times, since: None, ready: Some(ready), begun: None }
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
        let Some(Parts { request, reply, lease }) = self.parts.take() else { return };
        let why = why.unwrap_or_else(|| WebClientError::Closed(lease.ended_by()));
        lease.is_of_no_use();
        lease.discard();
        reply.fail(Failure::Unsent(Box::new(request), why));
    }
}

/// Its connection has ended before it came there.
impl Drop for Ask {
    fn drop(&mut self) {
        self.unsent(None);
    }
}
