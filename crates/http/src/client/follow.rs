//! From a request to its reply: over redirects, and over connections that end under it.

use super::{
    Inner, WebClientError,
    ask::{self, Ask, Failure, GivenUp},
    origin::Origin,
    redirect,
};
use crate::{Body, error::HttpError};
use bytes::Bytes;
use http::{Request, Response, header, request::Parts};
use netwright_core::{Channel, Event, Promised, promise, time};
use netwright_transport::Pooled;
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

/// New connections on which nothing could be written before one gives up: a server that closes them at once is not there.
const UNUSABLE_MAX: u32 = 3;

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
    /// end. Each of these is one connection less, so that in the end a new one is asked.
    async fn ask(
        &self,
        kept: &Repeatable,
        mut stream: Option<Body>,
        begun: Instant,
    ) -> Result<Response<Body>, WebClientError> {
        let origin = Origin::of(&kept.head.uri)?;
        let mut unusable = 0;
        loop {
            let pooled = self.acquire(&origin, begun).await?;
            let fresh = pooled.is_fresh();
            let body = match (stream.take(), &kept.body) {
                (Some(body), _) => body,
                (None, Some(bytes)) => Body::from(bytes.clone()),
                (None, None) => return Err(HttpError::Aborted("its body was sent before".into()).into()),
            };
            let request = Request::from_parts(kept.head.clone(), body);
            match self.exchange(pooled, request, begun).await {
                Ok(reply) => return Ok(reply),
                Err(Failure::Unsent(request, error)) => {
                    unusable += u32::from(fresh);
                    if unusable == UNUSABLE_MAX {
                        return Err(error);
                    }
                    stream = kept.body.is_none().then(|| request.into_body());
                }
                Err(Failure::Sent { error, unanswered }) => {
                    let may_repeat = kept.head.method.is_idempotent() && kept.body.is_some();
                    #[cfg(feature = "_planted")]
                    let may_repeat = may_repeat
                        || netwright_core::planted::Bug::UnsafeRetry.is_planted() && kept.body.is_some();
                    if fresh || !unanswered || !may_repeat {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// A connection, within the time of the whole request.
    async fn acquire(&self, origin: &Origin, begun: Instant) -> Result<Pooled<Ask>, WebClientError> {
        let limit = self.settings.times.total;
        let acquiring = Given(self.pool(origin)?.acquire(), None);
        if limit.is_zero() {
            return Ok(acquiring.await?);
        }
        let left = limit.saturating_sub(time::now().saturating_duration_since(begun));
        match time::timeout(left, acquiring).await {
            Ok(acquired) => Ok(acquired?),
            Err(_) => Err(WebClientError::TimedOut { what: "a connection for the request", limit }),
        }
    }

    async fn exchange(
        &self,
        pooled: Pooled<Ask>,
        request: Request<Body>,
        begun: Instant,
    ) -> Result<Response<Body>, Failure> {
        let (reply, promised): (_, Promised<Response<Body>, Failure>) = promise();
        let channel: Channel<Ask> = (*pooled).clone();
        let mut ask = Ask::new(ask::Parts { request, reply, pooled }, self.settings.times);
        ask.since = Some(begun);
        channel.write_and_flush(ask);
        Given(promised, Some(channel)).await
    }
}

/// What is waited for, and given up by its drop: with the connection that has the request, if one has.
struct Given<T, E>(Promised<T, E>, Option<Channel<Ask>>);

impl<T, E> Future for Given<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T, E> Drop for Given<T, E> {
    fn drop(&mut self) {
        if let (true, Some(channel)) = (self.0.cancel(), &self.1) {
            channel.fire_event(Event::new(GivenUp));
        }
    }
}
