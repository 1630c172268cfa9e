//! How many connections, who waits for how long, and what is healthy.

use super::{
    Handle, Pool,
    inner::{Connect, Health, Inner, Settings},
};
use netwright_core::{Channel, EventLoop, InvalidArgument};
use std::{fmt, sync::Arc, time::Duration};

/// Sets up a [`Pool`]; made by [`Pool::to`] and [`Pool::with`].
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, Pool};
/// use std::time::Duration;
///
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// let pool = Pool::to(&client, "127.0.0.1:7000")
///     .max_connections(4)
///     .max_waiting(100)
///     .acquire_timeout(Duration::from_secs(2))
///     .healthy(|channel| channel.is_writable())
///     .build()?;
/// # drop(pool);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct PoolBuilder<W: Send + 'static> {
    settings: Settings<W>,
}

impl<W: Send + 'static> PoolBuilder<W> {
    pub(super) fn new(timer: EventLoop, connect: Connect<W>) -> Self {
        let healthy: Health<W> = Box::new(|_| true);
        Self {
            settings: Settings {
                connect,
                healthy,
                check_on_release: true,
                max_connections: CONNECTIONS_DEFAULT,
                max_waiting: usize::MAX,
                acquire_timeout: ACQUIRE_TIMEOUT_DEFAULT,
                timer,
            },
        }
    }

    /// Connections at most: idle, on loan and under way together. Default: 8.
    pub fn max_connections(mut self, limit: usize) -> Self {
        self.settings.max_connections = limit;
        self
    }

    /// Acquires that may wait for a release; one more fails at once. Those for whom a connect is under way do not count.
    /// Default: no limit.
    pub fn max_waiting(mut self, limit: usize) -> Self {
        self.settings.max_waiting = limit;
        self
    }

    /// How long an acquire may take. Zero: no limit of ours. Default: 30 s.
    pub fn acquire_timeout(mut self, limit: Duration) -> Self {
        self.settings.acquire_timeout = limit;
        self
    }

    /// Whether a connection can be used again, asked before it is lent and when it comes back. It has to be active in any
    /// case. One that is not healthy is closed, and its place is free. Default: every active one is.
    pub fn healthy(mut self, check: impl Fn(&Channel<W>) -> bool + Send + Sync + 'static) -> Self {
        self.settings.healthy = Box::new(check);
        self
    }

    /// Whether [`healthy`](Self::healthy) is asked when a connection comes back, and not only before it is lent again. Default:
    /// yes. A connection that has ended, or is about to, is never lent again in any case.
    pub fn check_on_release(mut self, check: bool) -> Self {
        self.settings.check_on_release = check;
        self
    }

    /// On which loop timeouts run. Default: one of the client's.
    pub fn timer(mut self, event_loop: EventLoop) -> Self {
        self.settings.timer = event_loop;
        self
    }

    /// The pool. It connects when the first connection is asked for.
    pub fn build(self) -> Result<Pool<W>, InvalidArgument> {
        if self.settings.max_connections == 0 {
            return Err(InvalidArgument {
                argument: "max_connections",
                value: "0".to_owned(),
                expected: "at least 1".to_owned(),
            });
        }
        Ok(Pool { handle: Arc::new(Handle { inner: Inner::new(self.settings) }) })
    }
}

/// Enough for a busy service of one process, too few to hurt its peer.
const CONNECTIONS_DEFAULT: usize = 8;
/// As long as one attempt to connect may take.
const ACQUIRE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

impl<W: Send + 'static> fmt::Debug for PoolBuilder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBuilder")
            .field("max_connections", &self.settings.max_connections)
            .field("max_waiting", &self.settings.max_waiting)
            .field("acquire_timeout", &self.settings.acquire_timeout)
            .finish_non_exhaustive()
    }
}
