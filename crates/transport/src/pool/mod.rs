//! A bounded pool of connections to one peer.
//!
//! ```text
//!   acquire ──▶ idle? ── healthy ──▶ Pooled ── drop ──▶ healthy? ── yes ─▶ first waiter, or idle (last in, first out)
//!                │no                                        └──── no, discarded ─▶ closed, its place is free
//!                ├ room: connect ──────────▶ first waiter
//!                └ full: wait in line ─────▶ served by whatever comes first: a release or a connect; or timed out
//! ```
//! Always true between calls:
//! 1. `idle + in use + connecting` is at most the limit, and each connection counts in one of them only.
//! 2. While somebody waits, nothing is idle, and there are as many attempts to connect as waiters and room allow. While nobody does, there are as
//!    many as are to be kept ready, or a warm-up wants.
//! 3. Waiters are served in the order in which they came; idle connections are used the last one first, so that those that
//!    are not needed grow old together.
//! 4. A [`Pooled`] goes back when it is dropped, wherever that happens: also in the hands of somebody who gave up waiting.
//!    It knows its pool, so that giving it to another one cannot be written.
//! 5. A connection that has ended, or whose end was asked for, is not lent again, whatever is checked beside.
//! 6. A connection that has waited or lived for too long is not lent either, and is closed when it is; see `upkeep`.
//! 7. No lock is held while a closure of the user, a promise or a drop of a connection runs.
//!
//! | file | what it is |
//! | --- | --- |
//! | `builder` | [`PoolBuilder`], limits and what is healthy |
//! | `inner` | who waits, what is idle, what is under way |
//! | `upkeep` | connections that grow old, and those that are made before anybody asks |
//! | `pooled` | [`Pooled`], a connection on loan |
//! | `error` | [`PoolError`], why there is none |
//! | `nest` | keeps long chains of returns off the stack |
//!
//! Not here: how a connection is made ([`Client`]), what is said on it (users).

mod builder;
mod error;
mod inner;
mod nest;
mod pooled;
mod upkeep;

#[cfg(test)]
mod tests;

pub use builder::PoolBuilder;
pub use error::PoolError;
pub use pooled::Pooled;

use crate::bootstrap::{Client, ConnectError};
use inner::Inner;
use netwright_core::{Channel, EventLoop, Promised};
use std::{fmt, sync::Arc};

/// Connections to one peer, kept for the next one who needs one.
///
/// Cheap to clone, and any thread may use it. When the last handle is gone, the pool [closes](Self::close).
///
/// ```
/// use netwright_transport::{Client, Pool, Server, event_loops};
/// use netwright_core::pipeline;
/// use bytes::Bytes;
///
/// let server = Server::builder()
///     .group(event_loops(1)?)
///     .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
///     .bind("127.0.0.1:0")
///     .wait()?;
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| ()))?;
/// let pool = Pool::to(&client, server.address()).max_connections(4).build()?;
///
/// let connection = pool.acquire().wait()?;
/// connection.send(Bytes::from("hello")).wait()?;
/// drop(connection); // goes back
/// assert_eq!((pool.figures().idle, pool.figures().created), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "connection pool")]
pub struct Pool<W: Send + 'static> {
    handle: Arc<Handle<W>>,
}

/// What the clones of a pool share; connections on loan do not count.
struct Handle<W: Send + 'static> {
    inner: Arc<Inner<W>>,
}

impl<W: Send + 'static> Drop for Handle<W> {
    fn drop(&mut self) {
        self.inner.close();
    }
}

/// How a pool is doing.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, Pool};
///
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// let pool = Pool::to(&client, "127.0.0.1:7000").build()?;
/// let figures = pool.figures();
/// assert_eq!((figures.idle, figures.in_use), (0, 0)); // nothing is connected before it is needed
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolFigures {
    /// Connections that wait to be used.
    pub idle: usize,
    /// Connections on loan.
    pub in_use: usize,
    /// Attempts to connect that are under way.
    pub connecting: usize,
    /// Acquires that wait, for a connect or for a release.
    pub waiting: usize,
    /// Connections made since the pool exists.
    pub created: u64,
}

impl<W: Send + 'static> Pool<W> {
    /// A pool of connections that `client` makes to `address`. Timeouts run on a loop of the client's group.
    pub fn to(client: &Client<W>, address: impl ToString) -> PoolBuilder<W> {
        let (client, address) = (client.clone(), address.to_string());
        let timer = client.group().next();
        Self::with(timer, move || client.connect(&address))
    }

    /// A pool of connections that `connect` makes, by whatever way. Timeouts run on `timer`.
    pub fn with(
        timer: EventLoop,
        connect: impl Fn() -> Promised<Channel<W>, ConnectError> + Send + Sync + 'static,
    ) -> PoolBuilder<W> {
        PoolBuilder::new(timer, Box::new(connect))
    }

    /// A connection: one that is idle, or a new one while there is room, or the next one that somebody gives back. A
    /// future, and a blocking wait. Cancelling it gives the place in the line up.
    pub fn acquire(&self) -> Promised<Pooled<W>, PoolError> {
        self.handle.inner.acquire()
    }

    /// Connects until so many connections are there, in use or idle, or as many as there may be: before the first of them is needed. A future of how
    /// many there are, and a blocking wait. If a connect fails, or its connection ends at once, it fails with that error, and what was connected stays.
    ///
    /// ```
    /// use netwright_core::pipeline;
    /// use netwright_transport::{Client, Pool, Server};
    ///
    /// let server = Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("127.0.0.1:0").wait()?;
    /// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
    /// let pool = Pool::to(&client, server.address()).max_connections(4).build()?;
    /// assert_eq!(pool.warm_up(3).wait()?, 3);
    /// assert_eq!(pool.figures().idle, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn warm_up(&self, connections: usize) -> Promised<usize, PoolError> {
        self.handle.inner.warm_up(connections)
    }

    /// Closes what is idle, gives up what is being connected, and fails whoever waits. Connections on loan are closed when
    /// they come back.
    pub fn close(&self) {
        self.handle.inner.close();
    }

    /// Whether the pool was closed.
    pub fn is_closed(&self) -> bool {
        self.handle.inner.is_closed()
    }

    /// How the pool is doing.
    pub fn figures(&self) -> PoolFigures {
        self.handle.inner.figures()
    }
}

impl<W: Send + 'static> Clone for Pool<W> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<W: Send + 'static> fmt::Debug for Pool<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("figures", &self.figures()).finish_non_exhaustive()
    }
}
