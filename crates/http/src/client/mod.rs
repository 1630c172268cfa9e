//! A client with connections that are kept: redirects, deadlines, proxies, streamed bodies.
//!
//! ```text
//!   get(url) ──▶ task on a loop ── pool of scheme, host and port ──▶ connection: [TLS] codec exchange
//!                   ▲     │                                             │
//!                   └─────┴─ redirect? another pool, perhaps ◀── reply ─┘
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `exchange` | the last stage of a connection: a request, then its reply |
//! | `ask` | a request on its way to one, and what comes of it |
//! | `dues` | when a connection may be lent again |
//! | `tunnel` | the way through a proxy: `CONNECT`, then TLS in it |
//! | `redirect` | where a redirect leads, and what may go along |
//! | `origin` | scheme, host and port |
//! | `error` | why there is no reply |
//!
//! Always true:
//! 1. A connection is used by one exchange at a time, and again only if everything that was written is sent and everything that
//!    was to come has come (`dues`).
//! 2. A request of which nothing was written goes to another connection as it is.
//! 3. A request that a connection took with it into its end is sent once more, if it may be: nothing of a reply had come,
//!    the connection had been used or had waited before, the method can be repeated, and the body is still there.

mod ask;
mod dues;
mod error;
mod exchange;
mod origin;
mod redirect;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tunnel;

pub use error::ClientError;

use crate::{Body, codec::HttpClient, error::HttpError, limits::Limits};
use ask::{Ask, Failure, Times};
use bytes::Bytes;
use exchange::Exchange;
use http::{HeaderValue, Method, Request, Response, Uri, header, request::Parts};
use netwright_core::{Channel, EventLoopGroup, JoinHandle, Promised, TaskError, pipeline, promise, time};
use netwright_transport::{self as transport, ConnectError, Pool, Pooled};
use origin::Origin;
use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

/// Asks servers, and keeps connections to them. Cheap to clone; any thread may use it.
///
/// ```no_run
/// use netwright_http::client::Client;
///
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder().build()?;
/// let reply = client.get("http://example.com/").await?;
/// println!("{}: {} bytes", reply.status(), reply.into_body().collect(1 << 20).await?.len());
/// # Ok(())
/// # }
/// ```
///
/// Outside of async code, [`Asking::wait`] waits for the reply.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    group: EventLoopGroup,
    settings: ClientBuilder,
    limits: Arc<Limits>,
    pools: Mutex<HashMap<Origin, Pool<Ask>>>,
}

/// Hosts whose connections are kept. Beyond that, those without a connection are let go, and those that nobody uses.
const POOLS_MAX: usize = 1024;
/// So many of them stay then.
const POOLS_KEPT: usize = 768;

/// New connections on which nothing could be written before one gives up: a server that closes them at once is not there.
const UNUSABLE_MAX: u32 = 3;

/// Sets up a [`Client`].
///
/// ```
/// use netwright_http::client::Client;
/// use std::time::Duration;
///
/// let client = Client::builder()
///     .connect_timeout(Duration::from_secs(2))
///     .head_timeout(Duration::from_secs(10))
///     .redirects(3)
///     .build();
/// # drop(client);
/// ```
#[derive(Clone)]
#[must_use = "a client is made by `build`"]
pub struct ClientBuilder {
    group: Option<EventLoopGroup>,
    connect_timeout: Duration,
    times: Times,
    /// How long a connection may wait for the next request.
    idle: Duration,
    redirects: usize,
    connections: usize,
    /// Its host and port.
    proxy: Option<String>,
    user_agent: Option<HeaderValue>,
    limits: Limits,
    #[cfg(feature = "tls")]
    connector: Option<netwright_tls::Connector>,
}

impl ClientBuilder {
    /// The loops that host the connections. Default: one of its own.
    pub fn group(mut self, group: EventLoopGroup) -> Self {
        self.group = Some(group);
        self
    }

    /// How long one attempt to connect may take, and so may a proxy's answer to `CONNECT`. Default: 10 s.
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

    /// How long a connection may wait for its next request, and at most twice as long, before it is closed. Zero: for ever.
    /// Default: 90 s.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle = limit;
        self
    }

    /// How many redirects are followed. Default: 10; with 0 they are handed out.
    pub fn redirects(mut self, max: usize) -> Self {
        self.redirects = max;
        self
    }

    /// Connections to one host at most. Default: 16. A request for which none is free waits for one for 30 s.
    pub fn connections(mut self, max: usize) -> Self {
        self.connections = max;
        self
    }

    /// A proxy, as `host:port`: it is asked for everything in plain HTTP, and to connect to everything in TLS.
    ///
    /// # Errors
    /// That is no host and port, or more than these.
    pub fn proxy(mut self, proxy: &str) -> Result<Self, ClientError> {
        self.proxy = Some(origin::proxy_address(proxy)?);
        Ok(self)
    }

    /// What `User-Agent` says. Default: nothing.
    pub fn user_agent(mut self, agent: HeaderValue) -> Self {
        self.user_agent = Some(agent);
        self
    }

    /// Limits of what servers may send. Default: [`Limits::client`]. The times in it are for servers: those of a client are
    /// [`head_timeout`](Self::head_timeout), [`piece_timeout`](Self::piece_timeout) and [`total_timeout`](Self::total_timeout).
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How TLS is done. Default: whom this system trusts, found out when it is first needed.
    #[cfg(feature = "tls")]
    pub fn connector(mut self, connector: netwright_tls::Connector) -> Self {
        self.connector = Some(connector);
        self
    }

    /// The client.
    ///
    /// # Errors
    /// No event loop could be started, or a setting cannot work.
    pub fn build(self) -> Result<Client, ClientError> {
        let setup = |error: String| ClientError::Connect(ConnectError::Setup(error));
        if self.connections == 0 {
            return Err(setup("a client needs at least one connection to each host".to_owned()));
        }
        let group = match &self.group {
            Some(group) => group.clone(),
            None => transport::Backend::Auto.event_loops(1).map_err(|error| setup(error.to_string()))?,
        };
        let limits = Arc::new(self.limits.clone());
        Ok(Client { inner: Arc::new(Inner { group, settings: self, limits, pools: Mutex::default() }) })
    }
}

impl Client {
    /// Sets up a client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder {
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
            proxy: None,
            user_agent: None,
            limits: Limits::client(),
            #[cfg(feature = "tls")]
            connector: None,
        }
    }

    /// Asks for what is at a URL.
    pub fn get(&self, url: impl AsRef<str>) -> Asking {
        self.ask(Method::GET, url.as_ref(), Body::empty())
    }

    /// Asks for the headers of what is at a URL.
    pub fn head(&self, url: impl AsRef<str>) -> Asking {
        self.ask(Method::HEAD, url.as_ref(), Body::empty())
    }

    /// Sends something to a URL.
    pub fn post(&self, url: impl AsRef<str>, body: impl Into<Body>) -> Asking {
        self.ask(Method::POST, url.as_ref(), body.into())
    }

    /// What the client holds just now.
    pub fn figures(&self) -> ClientFigures {
        let pools: Vec<Pool<Ask>> = self.inner.pools().values().cloned().collect();
        let mut all = ClientFigures { hosts: pools.len(), ..ClientFigures::default() };
        for figures in pools.iter().map(Pool::figures) {
            all.idle += figures.idle;
            all.in_use += figures.in_use;
            all.connecting += figures.connecting;
            all.waiting += figures.waiting;
        }
        all
    }

    fn ask(&self, method: Method, url: &str, body: Body) -> Asking {
        match url.parse::<Uri>() {
            Ok(uri) => {
                let mut request = Request::new(body);
                (*request.method_mut(), *request.uri_mut()) = (method, uri);
                self.request(request)
            }
            Err(_) => Asking::failed(ClientError::Url { url: url.to_owned(), why: "it is not a URL" }),
        }
    }

    /// Sends a request of any kind. Its URI says whom it is for.
    pub fn request(&self, request: Request<impl Into<Body>>) -> Asking {
        let (inner, request) = (self.inner.clone(), request.map(Into::into));
        match self.inner.group.next().spawn(async move { inner.follow(request).await }) {
            Ok(handle) => Asking { state: Ok(handle) },
            Err(_) => Asking::failed(ClientError::LoopEnded),
        }
    }
}

/// What a [`Client`] holds: connections of all hosts together.
///
/// ```
/// let client = netwright_http::client::Client::builder().build()?;
/// assert_eq!((client.figures().hosts, client.figures().idle), (0, 0)); // nothing before the first request
/// # Ok::<_, netwright_http::client::ClientError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClientFigures {
    /// Schemes, hosts and ports that it knows.
    pub hosts: usize,
    /// Connections that wait to be used.
    pub idle: usize,
    /// Connections with an exchange on them.
    pub in_use: usize,
    /// Connections that are being made.
    pub connecting: usize,
    /// Requests that wait for a connection.
    pub waiting: usize,
}

/// A request that is under way: a future of its reply. It goes on if this is dropped.
///
/// ```
/// use netwright_http::client::{Asking, ClientError};
///
/// async fn status(asking: Asking) -> Result<u16, ClientError> {
///     Ok(asking.await?.status().as_u16())
/// }
/// ```
#[must_use = "the reply is here"]
pub struct Asking {
    state: Result<JoinHandle<Result<Response<Body>, ClientError>>, Option<ClientError>>,
}

impl Asking {
    fn failed(error: ClientError) -> Self {
        Self { state: Err(Some(error)) }
    }

    /// Waits for the reply, where no async code runs.
    ///
    /// # Errors
    /// There is no reply.
    pub fn wait(mut self) -> Result<Response<Body>, ClientError> {
        match &mut self.state {
            Ok(handle) => handle.wait().map_err(lost)?,
            Err(error) => Err(error.take().unwrap_or(ClientError::LoopEnded)),
        }
    }
}

fn lost(error: TaskError) -> ClientError {
    match error {
        TaskError::WouldBlockLoop => ClientError::WouldBlockLoop,
        TaskError::Panicked(panic) => ClientError::Panicked(panic),
        _ => ClientError::LoopEnded,
    }
}

impl Future for Asking {
    type Output = Result<Response<Body>, ClientError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match &mut self.state {
            Ok(handle) => ready!(Pin::new(handle).poll(cx)).unwrap_or_else(|error| Err(lost(error))),
            Err(error) => Err(error.take().unwrap_or(ClientError::LoopEnded)),
        })
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").finish_non_exhaustive()
    }
}

/// A request of which as much is kept as can be sent again.
struct Repeatable {
    head: Parts,
    /// `None`: it was a stream, and is gone.
    body: Option<Bytes>,
}

/// Takes out what nobody uses: all that is empty, and of the others as many as are too many.
fn trim(pools: &mut HashMap<Origin, Pool<Ask>>) -> Vec<Pool<Ask>> {
    let mut spare = pools.len().saturating_sub(POOLS_KEPT);
    let used = |pool: &Pool<Ask>| {
        let figures = pool.figures();
        (figures.in_use + figures.connecting + figures.waiting > 0, figures.idle > 0)
    };
    let mut unused: Vec<_> =
        pools.extract_if(|_, pool| used(pool) == (false, false)).map(|(_, pool)| pool).collect();
    spare = spare.saturating_sub(unused.len());
    unused.extend(pools.extract_if(|_, pool| !used(pool).0).take(spare).map(|(_, pool)| pool));
    unused
}

impl Inner {
    /// Asks, and follows redirects.
    async fn follow(&self, request: Request<Body>) -> Result<Response<Body>, ClientError> {
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
                return Err(ClientError::TooManyRedirects { max: followed, next: next.uri });
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
    ) -> Result<Response<Body>, ClientError> {
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
                    if fresh || !unanswered || !may_repeat {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// A connection, within the time of the whole request.
    async fn acquire(&self, origin: &Origin, begun: Instant) -> Result<Pooled<Ask>, ClientError> {
        let limit = self.settings.times.total;
        let acquiring = self.pool(origin)?.acquire();
        if limit.is_zero() {
            return Ok(acquiring.await?);
        }
        let left = limit.saturating_sub(time::now().saturating_duration_since(begun));
        match time::timeout(left, acquiring).await {
            Ok(acquired) => Ok(acquired?),
            Err(_) => Err(ClientError::TimedOut { what: "a connection for the request", limit }),
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
        channel.send(ask);
        promised.await
    }

    fn pools(&self) -> MutexGuard<'_, HashMap<Origin, Pool<Ask>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self, origin: &Origin) -> Result<Pool<Ask>, ClientError> {
        let mut pools = self.pools();
        if let Some(pool) = pools.get(origin) {
            return Ok(pool.clone());
        }
        let unused = if pools.len() >= POOLS_MAX { trim(&mut pools) } else { Vec::new() };
        let pool = self.new_pool(origin)?;
        pools.insert(origin.clone(), pool.clone());
        drop(pools);
        drop(unused); // closes what waits there
        Ok(pool)
    }

    fn new_pool(&self, origin: &Origin) -> Result<Pool<Ask>, ClientError> {
        let builder = || {
            transport::Client::builder()
                .group(self.group.clone())
                .connect_timeout(self.settings.connect_timeout)
        };
        let limits = self.limits.clone();
        let proxy = self.settings.proxy.as_ref();
        // Whatever a host is called, it is one: a URL, or a redirect, does not lead into this machine.
        let address = format!("tcp:{}", proxy.cloned().unwrap_or_else(|| origin.address()));
        let pool = if origin.tls {
            self.tls_pool(origin, builder(), address)?
        } else {
            let (proxied, idle) = (proxy.is_some(), self.settings.idle);
            let client = builder().pipeline(move || {
                let codec = HttpClient::with(limits.clone()).absolute_targets(proxied);
                pipeline().add(codec).last(Exchange::new(idle))
            });
            Pool::to(&client.map_err(ClientError::Connect)?, address)
        };
        let pool = pool.max_connections(self.settings.connections).build();
        pool.map_err(|error| ClientError::Connect(ConnectError::Setup(error.to_string())))
    }

    #[cfg(feature = "tls")]
    fn tls_pool(
        &self,
        origin: &Origin,
        builder: transport::ClientBuilder,
        address: String,
    ) -> Result<transport::PoolBuilder<Ask>, ClientError> {
        use netwright_tls::{Connector, Tls};
        let tls_error = |error: netwright_tls::TlsError| ClientError::Tls(error.to_string());
        let connector = match &self.settings.connector {
            Some(connector) => connector.clone(),
            None => Connector::system().map_err(tls_error)?,
        };
        let name = origin.host.trim_start_matches('[').trim_end_matches(']');
        let (limits, idle) = (self.limits.clone(), self.settings.idle);
        // A name that is none is found here, and not on the loop.
        let server = connector.to(name).map_err(tls_error)?;
        if self.settings.proxy.is_some() {
            let (target, time) = (origin.address(), self.settings.connect_timeout);
            let way = tunnel::Way { target, server, limits, time, idle };
            let client = builder.pipeline(move || tunnel::through(way.clone()));
            return Ok(Pool::to(&client.map_err(ClientError::Connect)?, address));
        }
        let client = builder.pipeline(move || {
            pipeline().add(Tls::to(&server)).add(HttpClient::with(limits.clone())).last(Exchange::new(idle))
        });
        Ok(Pool::to(&client.map_err(ClientError::Connect)?, address))
    }

    #[cfg(not(feature = "tls"))]
    fn tls_pool(
        &self,
        origin: &Origin,
        _: transport::ClientBuilder,
        _: String,
    ) -> Result<transport::PoolBuilder<Ask>, ClientError> {
        let url = format!("https://{}", origin.address());
        let why = "https needs the feature `https` of netwright, or `tls` of netwright-http";
        Err(ClientError::Url { url, why })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pools = self.inner.pools().len();
        f.debug_struct("Client").field("hosts", &pools).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("times", &self.times)
            .field("redirects", &self.redirects)
            .field("connections", &self.connections)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}
