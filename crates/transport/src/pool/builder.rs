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
                idle_timeout: IDLE_TIMEOUT_DEFAULT,
                max_age: AGE_DEFAULT,
                min_idle: 0,
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

    /// How long a connection may wait to be used before it is closed. Zero: for ever. Default: 90 s.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.settings.idle_timeout = limit;
        self
    }

    /// How old a connection may be to be lent again; each lives up to a tenth less, so that those that were made together do not all end together.
    /// Nobody who uses one is disturbed: it is closed when it comes back, or where it waits. So users of a name come to know its new addresses.
    /// Zero: no limit. Default: 30 minutes.
    pub fn max_age(mut self, limit: Duration) -> Self {
        self.settings.max_age = limit;
        self
    }

    /// How many connections are kept ready: while fewer wait to be used and there is room, more are made, from the beginning on. A
    /// connect that fails, or whose connection ends within a second and was not used, is tried again after a second, then after twice as long, up to a minute. [`idle_timeout`](Self::idle_timeout) leaves so many.
    /// Default: 0.
    ///
    /// ```
    /// use netwright_core::pipeline;
    /// use netwright_transport::{Client, Pool, Server};
    ///
    /// let server = Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("127.0.0.1:0").wait()?;
    /// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
    /// let pool = Pool::to(&client, server.address()).min_idle(2).build()?;
    /// let connection = pool.acquire().wait()?;
    /// let figures = pool.figures();
    /// assert_eq!(figures.in_use, 1);
    /// assert_eq!(figures.idle + figures.connecting, 2); // two for those who come next
    /// # drop(connection);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn min_idle(mut self, connections: usize) -> Self {
        self.settings.min_idle = connections;
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

    /// The pool. It connects when the first connection is asked for, or now if some are to be kept ready.
    pub fn build(self) -> Result<Pool<W>, InvalidArgument> {
        if self.settings.min_idle > self.settings.max_connections {
            return Err(InvalidArgument {
                argument: "min_idle",
                value: self.settings.min_idle.to_string(),
                expected: format!("at most max_connections, {}", self.settings.max_connections),
            });
        }
        if self.settings.max_connections == 0 {
            return Err(InvalidArgument {
                argument: "max_connections",
                value: "0".to_owned(),
                expected: "at least 1".to_owned(),
            });
        }
        let inner = Inner::new(self.settings);
        inner.connect_as_needed();
        Ok(Pool { handle: Arc::new(Handle { inner }) })
    }
}

/// Enough for a busy service of one process, too few to hurt its peer.
const CONNECTIONS_DEFAULT: usize = 8;
/// As long as one attempt to connect may take.
const ACQUIRE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Less than most servers and the tables of most firewalls keep a silent connection.
const IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(90);
/// As long as a name may lead to an address that is out of use.
const AGE_DEFAULT: Duration = Duration::from_secs(30 * 60);

impl<W: Send + 'static> fmt::Debug for PoolBuilder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBuilder")
            .field("max_connections", &self.settings.max_connections)
            .field("max_waiting", &self.settings.max_waiting)
            .field("acquire_timeout", &self.settings.acquire_timeout)
            .finish_non_exhaustive()
    }
}
