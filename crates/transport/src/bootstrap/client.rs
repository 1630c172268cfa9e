//! Clients: connect to a name or an address, and run a pipeline on the connection.

use super::{
    Backend, ConnectError,
    around::{Around, ByProxies},
    attempts,
    error::taken,
    hosts::Homes,
    race,
    setters::{Common, stream_setters},
    through::Through,
};
use crate::{
    blocking::{Lease, ThreadPerChannel},
    live::{Belongings, Guard},
    open::{Arrival, Connection, Schemes, Whereabouts},
    options::StreamOptions,
    proxy::{NoTls, Proxies, Secures},
    resolve::{FamilyPreference, Resolve, interleave, look_up},
    socket::ConnectSettings,
    stream::{Adoption, Carried, ChannelSettings, adopt},
};
use bytes::BytesMut;
use netwright_core::{
    Address, Channel, EventLoopGroup, Fault, Handler, IntoPipeline, LocalLoop, Outgoing, Promised,
    internal::catch, promise,
};
use std::{
    fmt,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Sets up a [`Client`].
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, StreamOptions};
/// use std::time::Duration;
///
/// let client = Client::builder()
///     .connect_timeout(Duration::from_secs(5))
///     .options(StreamOptions::new().keepalive(true))
///     .pipeline(|| pipeline().handle(|_, bytes| println!("{bytes:?}")))?;
/// # drop(client);
/// # Ok::<(), netwright_transport::ConnectError>(())
/// ```
#[must_use = "a builder does nothing until `pipeline`"]
pub struct ClientBuilder<R = Direct> {
    common: Common,
    threads: Option<ThreadPerChannel>,
    settings: ChannelSettings,
    timeout: Duration,
    from: Option<SocketAddr>,
    schemes: Schemes,
    route: R,
}

/// Of a [`ClientBuilder`]: connections are made directly.
#[derive(Debug)]
pub struct Direct;

/// Of a [`ClientBuilder`]: connections are made [through](ClientBuilder::through) proxies. `S` is the stage that speaks TLS to them, if
/// [one was said](ClientBuilder::proxy_tls).
pub struct ThroughProxies<S = NoTls> {
    proxies: Proxies,
    limit: Duration,
    secures: Option<Secures<S>>,
}

impl<S> fmt::Debug for ThroughProxies<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { proxies, limit, .. } = self;
        f.debug_struct("ThroughProxies")
            .field("proxies", proxies)
            .field("limit", limit)
            .finish_non_exhaustive()
    }
}

/// How long all proxies of a chain may take together.
const PROXY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

impl<R> ClientBuilder<R> {
    stream_setters! {
        loops: "one of its own, which ends with the last clone of the [`Client`], and with it its connections",
        threads: "Each connection gets a thread of its own; connecting runs on it too. Excludes [`group`](Self::group).",
        cut_slow: ""
    }

    /// How long one attempt may take. Zero: no limit of ours. Default: 30 s.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// From which address to connect. Default: the system chooses.
    pub fn local_addr(mut self, address: SocketAddr) -> Self {
        self.from = Some(address);
        self
    }

    /// Connects to hosts through proxies: a [`Proxy`](crate::Proxy), several of them one behind the other, [`Proxies`] with rules or from
    /// the environment, or an `Option` of any of these, as the builder is of another type from here on. What a pipeline begins with, TLS for example, it has with the host that was asked for: the proxies have agreed before it is
    /// made. Addresses that are no host and port (`unix:`, `local:` and [schemes](Self::scheme)) are connected to directly; that
    /// of the first proxy may be one of these.
    ///
    /// The channel's remote address is that of the first proxy. Who speaks TLS to proxies that want it is said by
    /// [`proxy_tls`](ClientBuilder::proxy_tls).
    ///
    /// ```no_run
    /// use netwright_core::pipeline;
    /// use netwright_transport::{Client, Proxy};
    ///
    /// let client = Client::builder()
    ///     .through(Proxy::http("gateway:3128").then(Proxy::socks5("127.0.0.1:1080").credentials("ada", "secret")))
    ///     .pipeline(|| pipeline().handle(|_, bytes| println!("{bytes:?}")))?;
    /// let channel = client.connect("example.org:80").wait()?; // both proxies have agreed
    /// # Ok::<(), netwright_transport::ConnectError>(())
    /// ```
    #[doc(alias = "proxy")]
    #[doc(alias = "socks")]
    pub fn through(self, proxies: impl Into<Proxies>) -> ClientBuilder<ThroughProxies> {
        let Self { common, threads, settings, timeout, from, schemes, route: _ } = self;
        let route = ThroughProxies { proxies: proxies.into(), limit: PROXY_TIMEOUT_DEFAULT, secures: None };
        ClientBuilder { common, threads, settings, timeout, from, schemes, route }
    }

    fn build<W: Send + 'static>(
        self,
        open: Open<W>,
        around: Option<Box<dyn Around<W>>>,
    ) -> Result<Client<W>, ConnectError> {
        self.settings.check().map_err(|error| ConnectError::Setup(error.to_string()))?;
        self.schemes.check()?;
        let hosts = Homes::new(self.common.group, self.threads, None, self.common.making, 1)
            .map_err(|error| ConnectError::Setup(error.to_string()))?;
        Ok(Client {
            inner: Arc::new(Inner {
                hosts,
                settings: Arc::new(self.settings.for_loops()),
                options: self.settings.options,
                timeout: self.timeout,
                from: self.from,
                schemes: self.schemes,
                resolver: self.common.resolver,
                open,
                around,
            }),
        })
    }
}

impl ClientBuilder {
    /// What every connection runs: called on its loop, once for each.
    pub fn pipeline<F, P, W>(self, make: F) -> Result<Client<W>, ConnectError>
    where
        F: Fn() -> P + Send + Sync + 'static,
        P: IntoPipeline<W>,
        W: Send + 'static,
    {
        self.build(Box::new(move |arrived| open(arrived, &make)), None)
    }
}

impl<S> ClientBuilder<ThroughProxies<S>> {
    /// How long all proxies of a chain together may take to agree, from when the first one is connected to. What they send meanwhile does not
    /// make it longer. Zero: no limit. Default: 10 s.
    pub fn proxy_timeout(mut self, limit: Duration) -> Self {
        self.route.limit = limit;
        self
    }

    /// Who speaks TLS to proxies of `https://`: what makes the stage for the one of this name, or says that there cannot be a server of that
    /// name, which is asked when the client is made as well as for each connection. So these proxies are trusted as the stage does it.
    ///
    /// The stage stays in front of the pipeline, and its errors reach that as those of any stage in front do: an end of the proxy's side without a goodbye, for
    /// example. With TLS of Netwright it is a line. A connector that offers protocols is to offer `http/1.1` alone
    /// (`Connector::offering`): that is what is spoken to a proxy.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// use netwright_core::{Context, Handler, Outgoing, WritePromise, pipeline};
    /// use netwright_transport::{Client, Proxy};
    ///
    /// // In a program: `.proxy_tls(move |name| Tls::client(&connector, name))`
    /// struct Secret;
    /// # impl Handler for Secret {
    /// #     type Read = BytesMut;
    /// #     type ReadOut = BytesMut;
    /// #     type Write = Outgoing;
    /// #     type WriteOut = Outgoing;
    /// #     fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
    /// #         cx.fire_read(bytes);
    /// #     }
    /// #     fn write(&mut self, cx: &mut Context<'_, Self>, message: Outgoing, done: WritePromise) {
    /// #         cx.write_with(message, done);
    /// #     }
    /// # }
    ///
    /// let client = Client::builder()
    ///     .through(Proxy::https("proxy.example:443"))
    ///     .proxy_tls(|name| if name == "proxy.example" { Ok(Secret) } else { Err(std::fmt::Error) })
    ///     .pipeline(|| pipeline().handle(|_, bytes| println!("{bytes:?}")))?;
    /// # drop(client);
    /// # Ok::<(), netwright_transport::ConnectError>(())
    /// ```
    pub fn proxy_tls<T, E>(
        self,
        stage: impl Fn(&str) -> Result<T, E> + Send + Sync + 'static,
    ) -> ClientBuilder<ThroughProxies<T>>
    where
        T: Handler<Read = BytesMut, ReadOut = BytesMut, Write = Outgoing, WriteOut = Outgoing>,
        E: Into<Fault>,
    {
        let Self { common, threads, settings, timeout, from, schemes, route } = self;
        let secures: Secures<T> = Arc::new(move |name| stage(name).map_err(Into::into));
        let route = ThroughProxies { proxies: route.proxies, limit: route.limit, secures: Some(secures) };
        ClientBuilder { common, threads, settings, timeout, from, schemes, route }
    }

    /// What every connection runs: called on its loop, once for each, when the proxies have agreed.
    pub fn pipeline<F, P, W>(self, make: F) -> Result<Client<W>, ConnectError>
    where
        F: Fn() -> P + Send + Sync + 'static,
        P: IntoPipeline<W>,
        W: Send + 'static,
        S: Handler<Read = BytesMut, ReadOut = BytesMut, Write = Outgoing, WriteOut = Outgoing>,
    {
        let ThroughProxies { proxies, limit, secures } = &self.route;
        proxies.check_with(secures.as_ref())?;
        let make = Arc::new(make);
        let (proxies, limit, secures) = (proxies.clone(), *limit, secures.clone());
        let around = ByProxies { proxies, limit, secures, make: make.clone() };
        self.build(Box::new(move |arrived| open(arrived, &*make)), Some(Box::new(around)))
    }
}

/// Opens connections that all run the same pipeline, to whose channels `W` is written. Cheap to clone.
///
/// Which stages the pipeline has is not a part of its type, so that it can be a field of whatever needs it:
///
/// ```
/// use netwright_core::{Channel, Promised, pipeline};
/// use netwright_transport::{Client, ConnectError};
///
/// struct Backends {
///     client: Client, // of bytes; `Client<String>` if the last stage takes text
///     addresses: Vec<String>,
/// }
///
/// impl Backends {
///     fn first(&self) -> Promised<Channel, ConnectError> {
///         self.client.connect(&self.addresses[0])
///     }
/// }
/// # let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// # let _ = Backends { client, addresses: Vec::new() };
/// # Ok::<(), ConnectError>(())
/// ```
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, Server};
/// use bytes::Bytes;
/// use std::sync::mpsc;
///
/// let server = Server::builder()
///     .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
///     .bind("127.0.0.1:0")
///     .wait()?;
///
/// let (tell, told) = mpsc::channel();
/// let client = Client::builder().pipeline(move || {
///     let tell = tell.clone(); // called for each connection
///     pipeline().handle(move |_, bytes| tell.send(bytes).unwrap())
/// })?;
/// let channel = client.connect(server.address()).wait()?; // or `.await`
/// channel.write_and_flush(Bytes::from("hello"));
/// assert_eq!(told.recv()?, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "connect")]
#[doc(alias = "TcpStream")]
pub struct Client<W = Outgoing> {
    inner: Arc<Inner<W>>,
}

/// Makes a channel of a connection, on the loop of the calling thread. All that knows the pipeline.
type Open<W> = Box<dyn Fn(Arrived<'_>) -> Result<Channel<W>, ConnectError> + Send + Sync>;

/// A connection that is to become a channel.
pub(super) struct Arrived<'a> {
    local: &'a LocalLoop,
    carried: Carried,
    peer: Address,
    lease: Option<Lease>,
    settings: &'a Arc<ChannelSettings>,
    timeout: Duration,
}

struct Inner<W> {
    hosts: Homes,
    settings: Arc<ChannelSettings>,
    /// As they were given: what cannot be had of a connection is refused by its name.
    options: StreamOptions,
    timeout: Duration,
    from: Option<SocketAddr>,
    schemes: Schemes,
    resolver: Arc<dyn Resolve>,
    open: Open<W>,
    /// Only of clients that go through proxies.
    around: Option<Box<dyn Around<W>>>,
}

impl Client {
    /// Sets up a client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder {
            common: Common::new(Backend::Auto),
            threads: None,
            settings: ChannelSettings::default(),
            timeout: Duration::from_secs(30),
            from: None,
            schemes: Schemes::default(),
            route: Direct,
        }
    }
}

impl<W: Send + 'static> Client<W> {
    /// Connects to `host:port`, `unix:/path`, `unix:@abstract`, `local:name`, or an address of a [scheme](ClientBuilder::scheme) of one's own.
    /// A future of the channel, and a blocking wait. Cancelling it gives the attempt up.
    ///
    /// What somebody else has named is to be a host, whatever it is called: `tcp:host:port` is never a socket of this machine
    /// or a name in this process.
    pub fn connect(&self, address: impl ToString) -> Promised<Channel<W>, ConnectError> {
        let (mut promise, promised) = promise::<Channel<W>, ConnectError>();
        let (event_loop, lease) = match self.inner.hosts.next() {
            Ok(host) => host,
            Err(error) => {
                promise.fail(ConnectError::NoThread(error));
                return promised;
            }
        };
        static IDS: AtomicU64 = AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let here = event_loop.downgrade();
        promised.listen(move |result| {
            if let (Err(ConnectError::Cancelled), Some(event_loop)) = (result, here.upgrade()) {
                let _ = event_loop.order(move || attempts::abandon(id));
            }
        });
        let (inner, mut address) = (self.inner.clone(), address.to_string());
        let held = inner.around.as_ref().map(|around| around.watch(&promised));
        let future = async move {
            let mut shaking = None;
            if let (Some(around), Some(held)) = (&inner.around, held)
                && let Ok(Whereabouts::Host(target)) = inner.schemes.find(&address)
                && let Some((first, planning)) = around.route(target, &inner.resolver)
            {
                match planning.await {
                    Ok(dialogue) => (address, shaking) = (first, Some((dialogue, held))),
                    Err(error) => return promise.fail(error),
                }
            }
            let (through, addresses) = match inner.schemes.find(&address) {
                Err(error) => return promise.fail(error.into()),
                Ok(Whereabouts::Open(means, to)) => (Through::Transport(means), vec![to]),
                Ok(Whereabouts::Unix(to)) => (Through::sockets_here(), vec![to]),
                Ok(Whereabouts::Host(name)) => match look_up(&*inner.resolver, name).await {
                    Ok(found) => (Through::sockets_here(), in_turn(&found)),
                    Err(error) => return promise.fail(error.into()),
                },
            };
            if promise.is_cancelled() {
                return;
            }
            let options = match inner.judge(&address, &through, &addresses) {
                Ok(options) => options.clone(),
                Err(error) => return promise.fail(error),
            };
            let Some(local) = LocalLoop::current() else { return };
            let connect = ConnectSettings { from: inner.from, limit: inner.timeout, options };
            let place = local.clone();
            let done = move |result: Result<Arrival, ConnectError>| {
                if let (Some((dialogue, held)), Some(around)) = (shaking, &inner.around) {
                    return match result {
                        Ok(Arrival { carried, peer }) => {
                            around.begin(
                                inner.arrived(&place, carried, peer, lease),
                                dialogue,
                                promise,
                                held,
                            );
                        }
                        Err(error) => promise.fail(error),
                    };
                }
                if !promise.claim() {
                    return; // cancelled at the last moment: the connection is closed by its drop
                }
                let connected = |Arrival { carried, peer }| inner.adopt(&place, carried, peer, lease);
                promise.complete(result.and_then(connected));
            };
            race::start(id, local, addresses, through, connect, Box::new(done));
        };
        taken(promised, event_loop.spawn(future))
    }

    /// Makes a channel of a connection that exists already: pipes or a child process (`Pipes`), or a
    /// [`Connection`] of one's own. A future of the channel, and a blocking wait. If it fails, or is cancelled before its loop has taken the
    /// connection, that is closed.
    pub fn adopt(&self, connection: impl Connection) -> Promised<Channel<W>, ConnectError> {
        let (mut promise, promised) = promise::<Channel<W>, ConnectError>();
        let (event_loop, lease) = match self.inner.hosts.next() {
            Ok(host) => host,
            Err(error) => {
                promise.fail(ConnectError::NoThread(error));
                return promised;
            }
        };
        let inner = self.inner.clone();
        let adopted = event_loop.execute(move || {
            let Some(local) = LocalLoop::current() else { return };
            if promise.claim() {
                let Arrival { carried, peer } = connection.into();
                promise.complete(inner.adopt(&local, carried, peer, lease));
            }
        });
        taken(promised, adopted)
    }

    /// The loops that host the connections. With a thread for each of them: a loop beside those, for timers and tasks.
    pub fn group(&self) -> &EventLoopGroup {
        self.inner.hosts.group()
    }

    /// The threads, if each connection has its own.
    #[cfg(feature = "blocking")]
    pub fn threads(&self) -> Option<&ThreadPerChannel> {
        self.inner.hosts.threads()
    }
}

impl<W: Send + 'static> Inner<W> {
    /// Whether it can be connected to these addresses at all, and with which options.
    fn judge(
        &self,
        text: &str,
        through: &Through,
        addresses: &[Address],
    ) -> Result<&StreamOptions, ConnectError> {
        let setup = |why: String| Err(ConnectError::Setup(format!("cannot connect to {text}: {why}")));
        match (through, addresses) {
            (_, []) => Err(ConnectError::Setup(format!("{text:?} has no address to connect to"))),
            (Through::Transport(means), _) => {
                if let Some(from) = self.from {
                    return setup(format!(
                        "local_addr is {from}, but such a connection has no host and port"
                    ));
                }
                if let Err(why) = means.check(&self.options) {
                    return setup(why.to_owned());
                }
                Ok(&self.options)
            }
            // What a Unix socket does not have is refused as a whole.
            (_, [Address::Unix(_)]) => Ok(&self.options),
            _ => Ok(&self.settings.options),
        }
    }

    /// Makes a channel of a connection, on the loop of the calling thread.
    fn adopt(
        &self,
        local: &LocalLoop,
        carried: Carried,
        peer: Address,
        lease: Option<Lease>,
    ) -> Result<Channel<W>, ConnectError> {
        (self.open)(self.arrived(local, carried, peer, lease))
    }

    fn arrived<'a>(
        &'a self,
        local: &'a LocalLoop,
        carried: Carried,
        peer: Address,
        lease: Option<Lease>,
    ) -> Arrived<'a> {
        let (settings, timeout) = (&self.settings, self.timeout);
        Arrived { local, carried, peer, lease, settings, timeout }
    }
}

pub(super) fn open<P, W>(arrived: Arrived<'_>, make: &impl Fn() -> P) -> Result<Channel<W>, ConnectError>
where
    P: IntoPipeline<W>,
    W: Send + 'static,
{
    let Arrived { local, carried, peer, lease, settings, timeout } = arrived;
    let pipeline = catch(|| make().into_pipeline()).map_err(ConnectError::Panicked)?;
    let adoption = Adoption::new(local, carried, peer.clone(), settings);
    adopt(adoption, pipeline, Guard::default().with(Belongings { lease, counted: None }))
        .map_err(|error| ConnectError::io(peer, timeout, error))
}

/// The addresses to try, in order.
fn in_turn(found: &[SocketAddr]) -> Vec<Address> {
    interleave(found, FamilyPreference::AsResolved).into_iter().map(Address::Ip).collect()
}

impl<W> Clone for Client<W> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<W> fmt::Debug for Client<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("timeout", &self.inner.timeout).finish_non_exhaustive()
    }
}
