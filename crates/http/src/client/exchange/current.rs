//! The exchange that is under way: what it owes to whom, and what is waited for.

use super::Cx;
use crate::{
    body::{Body, Pipe, Sending, broken_off},
    client::{
        WebClientError,
        ask::Failure,
        dues::{self, Dues},
        lease::Lease,
    },
    error::{HttpError, Within},
};
use http::Response;
use netwright_core::{CloseCause, Promise, StageTimer, time};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

pub(super) struct Current {
    pub(super) reply: Option<Promise<Response<Body>, Failure>>,
    pub(super) lease: Option<Lease>,
    pub(super) incoming: Option<Arc<Pipe>>,
    pub(super) sending: Option<Sending>,
    pub(super) dues: Dues,
    /// Its end has a promise that tells when it is sent. What has no body has none: it costs more than it tells.
    pub(super) tracked: bool,
    /// Something of a reply has come.
    pub(super) heard: bool,
    pub(super) limit: Duration,
    /// Watches over the request until it is sent, then over the head of the reply.
    pub(super) watch: Option<StageTimer>,
    pub(super) upload: Upload,
    /// Watches over the pieces of the reply's body.
    pub(super) pieces: Option<StageTimer>,
    pub(super) piece_limit: Duration,
    /// Since when the next one is waited for.
    pub(super) silent_since: Option<Instant>,
    pub(super) total_timer: Option<(StageTimer, Duration)>,
}

/// How sending gets on, looked at twice within the limit.
#[derive(Default)]
pub(super) struct Upload {
    /// Bytes of the body that were written so far.
    pub(super) written: u64,
    /// What was written, unsent and pending at the last look.
    seen: Option<(u64, u64, usize)>,
    /// Looks since anything changed.
    unchanged: u32,
}

/// A timer is never for no time at all.
pub(super) const SOON: Duration = Duration::from_millis(1);
/// In so many parts the limit is looked at while something is sent.
pub(super) const LOOKS: u32 = 2;
/// Looks without any change that are too many: ten times the limit, because the system takes more of us only when a good part of its
/// buffer is free. A server that takes nothing at all is cut before, where the bytes leave (`LeastRate`).
pub(super) const UNCHANGED_MAX: u32 = 10 * LOOKS;

impl Current {
    /// How long until somebody looks again at the request, or the reply is late.
    pub(super) fn watch_time(&self) -> Option<Duration> {
        let limit = (!self.limit.is_zero()).then_some(self.limit)?;
        Some(if self.is_uploading() { (limit / LOOKS).max(SOON) } else { limit })
    }

    /// Looks again when the next piece would be late, so that a piece costs no timer. False: it is.
    pub(super) fn watch_pieces(&mut self, cx: &mut Cx<'_>, waits: bool) -> bool {
        if self.piece_limit.is_zero() {
            return true;
        }
        // Who does not read waits for nobody.
        let since = self.silent_since.filter(|_| waits);
        let silent = since.map_or(Duration::ZERO, |since| time::now().saturating_duration_since(since));
        let left = self.piece_limit.saturating_sub(silent);
        self.pieces = Some(cx.arm(left.max(SOON)));
        !left.is_zero()
    }

    pub(super) fn is_uploading(&self) -> bool {
        self.tracked && self.dues.request != dues::Request::Sent
    }

    pub(super) fn disarm(&mut self, cx: &mut Cx<'_>) {
        let total = self.total_timer.take().map(|(timer, _)| timer);
        for timer in [self.watch.take(), self.pieces.take(), total].into_iter().flatten() {
            cx.disarm(timer);
        }
    }

    pub(super) fn fail(&mut self, error: WebClientError) {
        if let Some(pipe) = self.incoming.take() {
            pipe.end(Err(match &error {
                WebClientError::Http(error) => error.clone(),
                WebClientError::Closed(_) => broken_off(),
                other => HttpError::Aborted(other.to_string()),
            }));
        }
        if let Some(reply) = self.reply.take() {
            let ended = match error {
                WebClientError::Closed(CloseCause::Reset(_)) => false, // the connection goes on
                WebClientError::Closed(_)
                | WebClientError::Http(HttpError::Premature { within: Within::Waiting }) => true,
                _ => false,
            };
            reply.fail(match error {
                WebClientError::Refused if !self.heard => Failure::Refused,
                error => Failure::Sent { unanswered: ended && !self.heard, error },
            });
        }
        if let Some(lease) = self.lease.take() {
            lease.discard();
        }
    }
}

impl Upload {
    /// Whether the server has taken nothing for too long. While nothing waits for it, our own side is what is slow.
    pub(super) fn is_stuck(&mut self, unsent: u64, pending: usize) -> bool {
        let now = (self.written, unsent, pending);
        let changed = self.seen.replace(now) != Some(now);
        self.unchanged = if changed || (unsent, pending) == (0, 0) { 0 } else { self.unchanged + 1 };
        self.unchanged >= UNCHANGED_MAX
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        self.fail(WebClientError::LoopEnded); // if nothing else was said before
    }
}
