//! How a client is set up.

use super::{Inner, WebClient, WebClientError, ask::Times};
use crate::limits::HttpLimits;
use http::HeaderValue;
use netwright_core::EventLoopGroup;
use netwright_transport::{self as transport, ConnectError, Proxies, Proxy};
use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Sets up a [`WebClient`].
///
/// ```
/// use netwright_http::client::WebClient;
/// use std::time::Duration;
///
/// let client = WebClient::builder()
///     .connect_timeout(Duration::from_secs(2))
///     .head_timeout(Duration::from_secs(10))
///     .redirects(3)
///     .build();
/// # drop(client);
/// ```
#[derive(Clone)]
#[must_use = "a client is made by `build`"]
pub struct WebClientBuilder {
    pub(super) group: Option<EventLoopGroup>,
    pub(super) connect_timeout: Duration,
    pub(super) times: Times,
    /// How long a connection may wait for the next request.
    pub(super) idle: Duration,
    pub(super) redirects: usize,
    pub(super) connections: usize,
    pub(super) proxies: Proxies,
    pub(super) user_agent: Option<HeaderValue>,
    pub(super) versions: Versions,
    limits: HttpLimits,
    #[cfg(feature = "tls")]
    pub(super) connector: Option<netwright_tls::Connector>,
    #[cfg(feature = "tls")]
    pub(super) proxy_connector: Option<netwright_tls::Connector>,
}

/// Which versions of HTTP a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) http1: bool,
    pub(super) http2: bool,
    /// Also where nothing tells what the server speaks.
    pub(super) prior_knowledge: bool,
}

impl WebClientBuilder {
    pub(super) fn new() -> Self {
        Self {
            group: None,
            connect_timeout: Duration::from_secs(10),
            times: Times {
                head: Duration::from_secs(30),
                piece: Duration::from_secs(300),
                total: Duration::ZERO,
            },
            idle: Duration::from_secs(90),
            redirects: 10,
            connections: 16,
            proxies: Proxies::none(),
            user_agent: None,
            versions: Versions { http1: true, http2: true, prior_knowledge: false },
            limits: HttpLimits::client(),
            #[cfg(feature = "tls")]
            connector: None,
            #[cfg(feature = "tls")]
            proxy_connector: None,
        }
    }

    /// The loops that host the connections. Default: one of its own.
    pub fn group(mut self, group: EventLoopGroup) -> Self {
        self.group = Some(group);
        self
    }

    /// How long one attempt to connect may take, and so may the answers of all proxies together. Default: 10 s.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long the head of a reply may take, from when its request is sent. Zero: no limit. Default: 30 s. While a request is
    /// being sent, the server has to take it at a least rate ([`LeastRate`](netwright_core::LeastRate)).
    pub fn head_timeout(mut self, limit: Duration) -> Self {
        self.times.head = limit;
        self
    }

    /// How long the next piece of a reply's body may take, once somebody waits for it. Zero: no limit.
    /// Default: 5 minutes. What comes drop by drop goes on for as long as [`total_timeout`](Self::total_timeout)
    /// allows, because that is what a stream of events looks like.
    pub fn piece_timeout(mut self, limit: Duration) -> Self {
        self.times.piece = limit;
        self
    }

    /// How long a request may take in all: the wait for a connection, redirects, and the bodies of both sides. Zero: no limit.
    /// Default: none, as bodies may be streams.
    pub fn total_timeout(mut self, limit: Duration) -> Self {
        self.times.total = limit;
        self
    }

    /// How long a connection may wait for its next request before it is closed. Zero: for ever. Default: 90 s. One that is half an hour old is
    /// not used again in any case.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle = limit;
        self
    }

    /// How many redirects are followed. Default: 10; with 0 they are handed out.
    pub fn redirects(mut self, max: usize) -> Self {
        self.redirects = max;
        self
    }

    /// Only HTTP/1.1. Default: HTTP/2 with servers that agree to it in the handshake of TLS, HTTP/1.1 with all others.
    pub fn http1_only(mut self) -> Self {
        self.versions = Versions { http1: true, http2: false, prior_knowledge: false };
        self
    }

    /// Only HTTP/2: over TLS servers have to agree to it, and without TLS it is known that they speak it.
    pub fn http2_only(mut self) -> Self {
        self.versions = Versions { http1: false, http2: true, prior_knowledge: true };
        self
    }

    /// All servers for `http://` are known to speak HTTP/2. For `https://`, they still say so themselves.
    ///
    /// ```
    /// use netwright_http::client::WebClient;
    ///
    /// let client = WebClient::builder().http2_prior_knowledge().build()?;
    /// # drop(client);
    /// # Ok::<(), netwright_http::client::WebClientError>(())
    /// ```
    pub fn http2_prior_knowledge(mut self) -> Self {
        self.versions = Versions { http1: true, http2: true, prior_knowledge: true };
        self
    }

    /// Connections to one host at most. Default: 16. A request for which none is free waits for one for 30 s. Those that speak HTTP/2 are
    /// shared by as many requests as the server takes at a time; another one is made when they are full. A reply keeps its connection, or its stream,
    /// until its body is read to its end or dropped.
    pub fn connections(mut self, max: usize) -> Self {
        self.connections = max;
        self
    }

    /// A proxy, as `host:port` or as a [URL](Proxy::parse) with credentials: [`through`](Self::through) one of these.
    ///
    /// # Errors
    /// That is no proxy.
    pub fn proxy(self, proxy: &str) -> Result<Self, WebClientError> {
        let proxy = Proxy::parse(proxy);
        let proxy = proxy.map_err(|error| WebClientError::Connect(ConnectError::Setup(error.to_string())))?;
        Ok(self.through(proxy))
    }

    /// Proxies to go through, with rules for which hosts: a [`Proxy`], a chain of them, or [`Proxies::from_env`]. One of HTTP, if it is the last
    /// one, is asked for plain URLs as they are; for everything else it is asked
    /// for a tunnel, as all others are. Default: none, whatever the environment says.
    ///
    /// ```
    /// use netwright_http::client::WebClient;
    /// use netwright_transport::{Proxies, Proxy};
    ///
    /// let proxies = Proxies::from(Proxy::http("gateway:3128").credentials("ada", "secret"));
    /// let client = WebClient::builder().through(proxies.bypass("localhost, .intern.example")?).build()?;
    /// # drop(client);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn through(mut self, proxies: impl Into<Proxies>) -> Self {
        self.proxies = proxies.into();
        self
    }

    /// What `User-Agent` says. Default: nothing.
    pub fn user_agent(mut self, agent: HeaderValue) -> Self {
        self.user_agent = Some(agent);
        self
    }

    /// HttpLimits of what servers may send. Default: [`HttpLimits::client`]. The times in it are for servers: those of a client are
    /// [`head_timeout`](Self::head_timeout), [`piece_timeout`](Self::piece_timeout) and [`total_timeout`](Self::total_timeout).
    pub fn limits(mut self, limits: HttpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How TLS is done. Default: whom this system trusts, found out when it is first needed.
    #[cfg(feature = "tls")]
    pub fn connector(mut self, connector: netwright_tls::Connector) -> Self {
        self.connector = Some(connector);
        self
    }

    /// How TLS is done with [proxies](Self::through) of `https://`, if otherwise than with servers. Whatever it offers, proxies are offered
    /// HTTP/1.1 alone. Default: by the [connector](Self::connector) for servers.
    #[cfg(feature = "tls")]
    pub fn proxy_connector(mut self, connector: netwright_tls::Connector) -> Self {
        self.proxy_connector = Some(connector);
        self
    }

    /// The client.
    ///
    /// # Errors
    /// No event loop could be started, or a setting cannot work.
    pub fn build(self) -> Result<WebClient, WebClientError> {
        let setup = |error: String| WebClientError::Connect(ConnectError::Setup(error));
        if self.connections == 0 {
            return Err(setup("a client needs at least one connection to each host".to_owned()));
        }
        self.proxies.check()?;
        #[cfg(not(feature = "tls"))]
        if let Some(proxy) = self.proxies.in_tls().next() {
            let needs = "needs the feature `https` of netwright, or `tls` of netwright-http";
            return Err(setup(format!("the proxy {proxy} {needs}")));
        }
        let group = match &self.group {
            Some(group) => group.clone(),
            None => transport::Backend::Auto.event_loops(1).map_err(|error| setup(error.to_string()))?,
        };
        let mut limits = self.limits.clone();
        // A connection of HTTP/2 sees itself whether anybody uses it.
        limits.idle_time = if self.idle.is_zero() { FOR_EVER } else { self.idle };
        let limits = Arc::new(limits);
        Ok(WebClient { inner: Arc::new(Inner { group, settings: self, limits, sites: Mutex::default() }) })
    }
}

/// As long as no connection lives.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl fmt::Debug for WebClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebClientBuilder")
            .field("times", &self.times)
            .field("redirects", &self.redirects)
            .field("connections", &self.connections)
            .field("proxies", &self.proxies)
            .finish_non_exhaustive()
    }
}
