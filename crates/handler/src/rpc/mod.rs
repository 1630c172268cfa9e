//! Requests over a connection that is made again when it ends.
//!
//! ```text
//!   ask ─▶ connected? ── yes ─▶ Requests on the connection ── reply ─▶ promise
//!            │no                        │ the connection ends
//!            ▼                          ▼
//!        [ waiting ] ◀── yes ── never written? or may be done twice, and the budget allows it? ── no ─▶ error
//! ```
//! Always true:
//! 1. Every request is answered once: by a reply to itself, or by an error that says whether the server may have got it.
//! 2. A request that may have been written is sent again only if whoever asks has said that this does no harm.
//! 3. One deadline covers everything: waiting for a connection, and all attempts.
//! 4. A request is on each connection once at the most.
//! 5. No lock is held while a promise, a closure or the drop of a request runs.
//!
//! Not here: several connections at once (`Pool` lends them), and which address is tried ([`Reconnect`](crate::Reconnect)).

mod budget;
mod inner;

#[cfg(test)]
mod tests;

pub use self::budget::RetryBudget;

use self::inner::{Call, Inner, News};
use crate::{Ask, ReconnectBuilder, RequestError};
use netwright_core::{PromiseError, Promised, promise};
use netwright_transport::ConnectError;
use std::{fmt, sync::Arc, time::Duration};

/// How long a reply may take, and how many requests may wait for a connection, unless it is said otherwise.
const DEADLINE: Duration = Duration::from_secs(30);
const WAITING: usize = 1024;

/// Sets up an [`RpcClient`].
///
/// ```
/// # use netwright_codec::{LineFrames, Utf8};
/// # use netwright_core::pipeline;
/// use netwright_handler::{Reconnect, RequestError, Requests, RetryBudget, RpcClient};
/// # let lines = || pipeline().add(LineFrames::max(100)).add(Utf8::strict());
/// # let client = netwright_transport::Client::builder().pipeline(move || lines().last(Requests::<String, String>::in_order()))?;
///
/// let server = RpcClient::over(Reconnect::to(&client, "local:nobody-is-here"))
///     .max_waiting(1)
///     .retries(RetryBudget::none())
///     .start()?;
/// let _waits = server.ask("one".to_owned());
/// assert!(matches!(server.ask("two".to_owned()).wait(), Err(RequestError::TooManyWaiting { max_waiting: 1 })));
/// assert_eq!(server.figures().waiting, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `start`"]
pub struct RpcClientBuilder<Q: Send + 'static, R: Send + 'static> {
    connection: ReconnectBuilder<Ask<Q, R>>,
    deadline: Duration,
    max_waiting: usize,
    budget: RetryBudget,
}

impl<Q: Send + 'static, R: Send + 'static> RpcClientBuilder<Q, R> {
    /// How long a reply may take: waiting for a connection and all attempts included. Zero: no limit. Default: 30 s.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = limit;
        self
    }

    /// How many requests may wait for a connection; further ones are refused. Zero: without a connection they fail at once. Default: 1,024. How many may be in flight
    /// on the connection is said to [`Requests`](crate::Requests).
    pub fn max_waiting(mut self, requests: usize) -> Self {
        self.max_waiting = requests;
        self
    }

    /// How many requests that may have been written are sent again.
    pub fn retries(mut self, budget: RetryBudget) -> Self {
        self.budget = budget;
        self
    }

    /// Begins to connect. An error only if the loop takes nothing.
    pub fn start(self) -> Result<RpcClient<Q, R>, ConnectError> {
        let event_loop = self.connection.event_loop();
        let inner = Inner::new(event_loop, self.deadline, self.max_waiting, self.budget);
        let reconnect = self.connection.hook(News(Arc::downgrade(&inner))).start()?;
        inner.set_reconnect(reconnect);
        Ok(RpcClient { handle: Arc::new(Handle { inner }) })
    }
}

/// Asks a server over one connection that is made again when it ends: [`Requests`](crate::Requests) over [`Reconnect`](crate::Reconnect).
///
/// A request that was never written is sent on the next connection. One that may have been written is so only if it was
/// asked as [idempotent](RpcRequest::idempotent), within a [budget](RetryBudget). Cheap to clone, for any thread; when the last handle is gone, it [stops](Self::stop).
///
/// ```
/// use netwright_codec::{LineFrames, Utf8};
/// use netwright_core::pipeline;
/// use netwright_handler::{Backoff, Reconnect, Requests, RpcClient};
/// use netwright_transport::{Client, Server};
/// use std::time::Duration;
///
/// let lines = || pipeline().add(LineFrames::max(100)).add(Utf8::strict());
/// let server = Server::builder()
///     .pipeline(move |_| lines().handle(|cx, line: String| match line.as_str() {
///         "crash" => cx.close(), // a question too much
///         line => cx.write_and_flush(line.to_uppercase()),
///     }))
///     .bind("127.0.0.1:0")
///     .wait()?;
///
/// let client = Client::builder().pipeline(move || lines().last(Requests::<String, String>::in_order()))?;
/// let soon = Backoff::new(Duration::from_millis(1), Duration::from_millis(10));
/// let server = RpcClient::over(Reconnect::to(&client, server.address()).backoff(soon)).start()?;
/// assert_eq!(server.ask("one".to_owned()).wait()?, "ONE"); // or `.await`
/// assert!(server.ask("crash".to_owned()).wait().unwrap_err().may_have_been_written());
/// assert_eq!(server.ask("two".to_owned()).wait()?, "TWO"); // on the next connection
/// server.stop().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "retry")]
pub struct RpcClient<Q: Send + 'static, R: Send + 'static> {
    handle: Arc<Handle<Q, R>>,
}

/// What the clones share; requests under way do not count.
struct Handle<Q: Send + 'static, R: Send + 'static> {
    inner: Arc<Inner<Q, R>>,
}

impl<Q: Send + 'static, R: Send + 'static> Drop for Handle<Q, R> {
    fn drop(&mut self) {
        drop(self.inner.stop());
    }
}

/// How an [`RpcClient`] is doing: [`RpcClient::figures`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RpcFigures {
    /// Requests that wait for a connection.
    pub waiting: usize,
    /// How often a request was sent again though it may have been written.
    pub retried: u64,
}

impl<Q: Send + 'static, R: Send + 'static> RpcClient<Q, R> {
    /// One over connections that are made like this.
    pub fn over(connection: ReconnectBuilder<Ask<Q, R>>) -> RpcClientBuilder<Q, R> {
        RpcClientBuilder {
            connection,
            deadline: DEADLINE,
            max_waiting: WAITING,
            budget: RetryBudget::default(),
        }
    }

    /// Asks, at most once: what may have been written is not sent again. A future of the reply, and a blocking wait; cancelling it gives the reply up.
    pub fn ask(&self, request: Q) -> Promised<R, RequestError> {
        self.request(request).send()
    }

    /// A request whose deadline, or whether it may be done twice, is still to be said: see [`RpcRequest`].
    pub fn request(&self, request: Q) -> RpcRequest<'_, Q, R> {
        RpcRequest { client: self, request, copy: None, limit: self.handle.inner.deadline }
    }

    /// Takes no more requests, and closes the connection when those that are on it are answered. Those that wait for a connection fail. Tells when that is done.
    pub fn stop(&self) -> Promised<(), PromiseError> {
        self.handle.inner.stop()
    }

    /// How it is doing.
    pub fn figures(&self) -> RpcFigures {
        self.handle.inner.figures()
    }
}

/// A request that is about to be sent; made by [`RpcClient::request`].
///
/// ```
/// # use netwright_codec::{LineFrames, Utf8};
/// # use netwright_core::pipeline;
/// use netwright_handler::{Reconnect, RequestError, Requests, RpcClient};
/// use std::time::Duration;
/// # let lines = || pipeline().add(LineFrames::max(100)).add(Utf8::strict());
/// # let client = netwright_transport::Client::builder().pipeline(move || lines().last(Requests::<String, String>::in_order()))?;
///
/// let server = RpcClient::over(Reconnect::to(&client, "local:nobody-is-here")).start()?;
/// let mut reply = server.request("time?".to_owned()).idempotent().within(Duration::from_millis(10)).send();
/// assert!(matches!(reply.wait(), Err(RequestError::TimedOut { written: false, .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a request is not sent until `send`"]
pub struct RpcRequest<'a, Q: Send + 'static, R: Send + 'static> {
    client: &'a RpcClient<Q, R>,
    request: Q,
    copy: Option<fn(&Q) -> Q>,
    limit: Duration,
}

impl<Q: Send + 'static, R: Send + 'static> RpcRequest<'_, Q, R> {
    /// It does no harm if the server gets it twice: it is sent again when its connection ends before the reply, as far as the
    /// [budget](RetryBudget) allows it.
    pub fn idempotent(mut self) -> Self
    where
        Q: Clone,
    {
        self.copy = Some(Q::clone);
        self
    }

    /// A deadline of its own, from now on; zero: none.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sends it. A future of the reply, and a blocking wait; cancelling it gives the reply up.
    pub fn send(self) -> Promised<R, RequestError> {
        let Self { client, request, copy, limit } = self;
        let inner = &client.handle.inner;
        let (promise, reply) = promise();
        let deadline = if limit.is_zero() { None } else { inner.event_loop.now().checked_add(limit) };
        inner.begin(Call {
            request: Some(request),
            copy,
            promise,
            deadline,
            limit,
            avoid: None,
            retries: 0,
            before: None,
        });
        reply
    }
}

impl<Q: Send + 'static, R: Send + 'static> Clone for RpcClient<Q, R> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<Q: Send + 'static, R: Send + 'static> fmt::Debug for RpcClient<Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RpcClient").field("figures", &self.figures()).finish()
    }
}
