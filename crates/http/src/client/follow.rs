//! From a request to its reply: over redirects, and over connections that end under it.

use super::{
    Inner, WebClientError,
    ask::{self, Ask, Failure},
    given_up::{Begun, Holder, OrGivenUp},
    lease::Lease,
    origin::Origin,
    redirect,
};
use crate::{Body, error::HttpError};
use bytes::Bytes;
use http::{Request, Response, header, request::Parts};
use netwright_core::{Channel, Promised, promise, time};
use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// New connections on which nothing could be written before one gives up: a server that closes them at once is not there.
const UNUSABLE_MAX: u32 = 3;
/// Times that a request is not looked at, or ends with a connection that it shares, before one gives up.
const AGAIN_MAX: u32 = 4;
/// How long a request may wait for its stream on a connection that has said that there is one.
const STREAM_WAIT: Duration = Duration::from_secs(30);

/// A request of which as much is kept as can be sent again.
struct Repeatable {
    head: Parts,
    /// `None`: it was a stream, and is gone.
    body: Option<Bytes>,
}

impl Inner {
    /// Asks, and follows redirects.
    pub(super) async fn follow(&self, request: Request<Body>) -> Result<Response<Body>, WebClientError> {
        let begun = time::now();
        let (mut head, body) = request.into_parts();
        if let Some(agent) = &self.settings.user_agent {
            head.headers.entry(header::USER_AGENT).or_insert_with(|| agent.clone());
        }
        let (mut kept, mut stream) = match body.into_full() {
            Ok(bytes) => (Repeatable { head, body: Some(bytes) }, None),
            Err(body) => (Repeatable { head, body: None }, Some(body)),
        };
        let mut followed = 0;
        loop {
            let reply = self.ask(&kept, stream.take(), begun).await?;
            let Repeatable { head, body } = &mut kept;
            let Some(next) = redirect::next(reply.status(), reply.headers(), &head.uri, &head.method) else {
                return Ok(reply);
            };
            if self.settings.redirects == 0 || next.body && body.is_none() {
                return Ok(reply);
            }
            if followed == self.settings.redirects {
                return Err(WebClientError::TooManyRedirects { max: followed, next: next.uri });
            }
            followed += 1;
            if !next.body {
                *body = Some(Bytes::new());
                redirect::remove_body_headers(&mut head.headers);
            }
            if !next.same_origin {
                redirect::remove_credentials(&mut head.headers);
            }
            head.headers.remove(header::HOST);
            (head.uri, head.method) = (next.uri, next.method);
        }
    }

    /// Asks until a connection has taken the request, and once more for each that had waited and took it with it into its
    /// end. Each of these is one connection less, so that in the end a new one is asked. What a server has not looked at is asked again, whatever its
    /// method, as long as its body is there.
    async fn ask(
        &self,
        kept: &Repeatable,
        mut stream: Option<Body>,
        begun: Instant,
    ) -> Result<Response<Body>, WebClientError> {
        let origin = Origin::of(&kept.head.uri)?;
        let (mut unusable, mut again) = (0, 0);
        loop {
            let lease = self.lease(&origin, begun).await?;
            let (fresh, shared) = (lease.is_fresh(), lease.is_stream());
            let body = match (stream.take(), &kept.body) {
                (Some(body), _) => body,
                (None, Some(bytes)) => Body::from(bytes.clone()),
                (None, None) => return Err(HttpError::Aborted("its body was sent before".into()).into()),
            };
            let request = Request::from_parts(kept.head.clone(), body);
            match self.exchange(lease, request, begun).await {
                Ok(reply) => return Ok(reply),
                Err(Failure::Unsent(request, error)) => {
                    unusable += u32::from(fresh);
                    if unusable == UNUSABLE_MAX {
                        return Err(error);
                    }
                    stream = kept.body.is_none().then(|| request.into_body());
                }
                Err(Failure::Refused) => {
                    again += 1;
                    if again == AGAIN_MAX || kept.body.is_none() {
                        return Err(WebClientError::Refused);
                    }
                }
                Err(Failure::Sent { error, unanswered }) => {
                    let may_repeat = kept.head.method.is_idempotent() && kept.body.is_some();
                    #[cfg(feature = "_planted")]
                    let may_repeat = may_repeat
                        || netwright_core::planted::Bug::UnsafeRetry.is_planted() && kept.body.is_some();
                    again += u32::from(shared);
                    if fresh || !unanswered || !may_repeat || again == AGAIN_MAX {
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn exchange(
        &self,
        lease: Lease,
        request: Request<Body>,
        begun: Instant,
    ) -> Result<Response<Body>, Failure> {
        let (reply, promised): (_, Promised<Response<Body>, Failure>) = promise();
        let channel: Channel<Ask> = (*lease).clone();
        let taken: Option<Begun> = lease.is_stream().then(|| Arc::new(OnceLock::new()));
        let mut ask = Ask::new(ask::Parts { request, reply, lease }, self.settings.times);
        ask.since = Some(begun);
        ask.begun = taken.clone();
        channel.write_and_flush(ask);
        let Some(taken) = taken else { return OrGivenUp(promised, Holder::Connection(channel)).await };
        let mut waiting = OrGivenUp(promised, Holder::Stream(taken.clone()));
        // Until an exchange has it, nobody else looks at the time.
        let total = self.settings.times.total;
        let left = total.saturating_sub(time::now().saturating_duration_since(begun));
        let limit = if total.is_zero() { STREAM_WAIT } else { left.min(STREAM_WAIT) };
        match time::timeout(limit, &mut waiting).await {
            Ok(done) => done,
            Err(_) if taken.get().is_some() => waiting.await,
            Err(_) => {
                let error = WebClientError::TimedOut { what: "a stream for the request", limit };
                Err(Failure::Sent { error, unanswered: false })
            }
        }
    }
}
