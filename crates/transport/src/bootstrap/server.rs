//! Servers: where they listen, which loops accept, and what becomes of a connection.

use super::{
    Backend, BindError, ListenEnd, ServerObserver,
    entrance::{EntranceSettings, Site},
    error::taken,
    handover::Adopt,
    hosts::Homes,
    listening::{Listening, Plan},
    setters::{Common, stream_setters},
    through::Through,
};
#[cfg(unix)]
use crate::socket::unix::PeerCredentials;
use crate::{
    admission::{Admission, AdmissionControl, Gate},
    blocking::ThreadPerChannel,
    live::{Live, ServerShutdown},
    open::{Schemes, Whereabouts},
    options::ListenerOptions,
    resolve::{Resolve, look_up},
    socket::{self, ListenerFigures},
    stream::{Adoption, Carried, ChannelSettings, adopt_kin},
};
use netwright_core::{
    Address, EventLoop, EventLoopGroup, IntoPipeline, LocalLoop, PromiseError, Promised, SharedPromised,
    internal::Kin, promise, time, world,
};
use std::{
    fmt, io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

/// A burst of connections for a loop that is busy for a moment; each is a descriptor.
const WAITING_MAX: usize = 1024;

/// A connection that has been accepted and gets its pipeline.
///
/// ```
/// use netwright_core::{Address, pipeline};
/// use netwright_transport::{Accepted, Server};
///
/// let server = Server::builder()
///     .pipeline(|accepted: &Accepted| {
///         let near = matches!(&accepted.peer, Address::Ip(peer) if peer.ip().is_loopback());
///         pipeline().handle(move |cx, _| cx.write_and_flush(if near { "hello, neighbour" } else { "hello, stranger" }))
///     })
///     .bind("127.0.0.1:0")
///     .wait()?;
/// # drop(server);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Accepted {
    /// Where it comes from.
    pub peer: Address,
    /// Who is behind it, if it comes by a Unix socket and the system tells.
    #[cfg(unix)]
    pub credentials: Option<PeerCredentials>,
}

/// Sets up a [`Server`].
///
/// ```
/// use netwright_core::{WaterMarks, pipeline};
/// use netwright_transport::{ListenerOptions, Server, StreamOptions, event_loops};
///
/// let server = Server::builder()
///     .acceptors(event_loops(1)?)
///     .group(event_loops(2)?)
///     .listener_options(ListenerOptions::new().backlog(1024))
///     .options(StreamOptions::new().nodelay(true))
///     .water_marks(WaterMarks::new(16 * 1024, 128 * 1024)?)
///     .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
///     .bind("127.0.0.1:0")
///     .wait()?;
/// # drop(server);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `bind`"]
pub struct ServerBuilder {
    common: Common,
    threads: Option<ThreadPerChannel>,
    acceptors: Option<EventLoopGroup>,
    shared_port: bool,
    waiting_max: usize,
    connections_max: usize,
    admission: Admission,
    listener: ListenerOptions,
    settings: ChannelSettings,
    addresses: Vec<String>,
    schemes: Schemes,
    observer: Option<Arc<dyn ServerObserver>>,
}

impl ServerBuilder {
    stream_setters! {
        loops: "one for each core",
        threads: "Each connection gets a thread of its own. Excludes [`group`](Self::group) and [`shared_port`](Self::shared_port). \
                  A connection for which there is no thread is refused with a reset, and counted.",
        cut_slow: ", and counted ([`ServerFigures::cut_slow`])"
    }

    /// The loops that accept. Default: the first loop of the group, or a loop of its own beside threads. With several,
    /// each has a socket of its own on the same port, and the system spreads connections over them; a Unix socket is shared
    /// by all.
    pub fn acceptors(mut self, acceptors: EventLoopGroup) -> Self {
        self.acceptors = Some(acceptors);
        self
    }

    /// Every worker loop accepts for itself, on a socket of its own: no connection changes threads. Unix sockets and local
    /// names have one entrance for all workers; there, who accepts hands connections to each of them in turn.
    pub fn shared_port(mut self, shared: bool) -> Self {
        self.shared_port = shared;
        self
    }

    /// How many accepted connections may wait for one loop to take them in, for each loop that accepts. A loop for which so
    /// many wait is stalled, and others are chosen; where all are, a connection is refused with a reset, and counted
    /// ([`ServerFigures::refused_stalled`]). Default: 1,024.
    #[doc(alias = "backlog")]
    pub fn waiting_max(mut self, connections: usize) -> Self {
        self.waiting_max = connections;
        self
    }

    /// How many connections may be open at a time, those on their way to their loops included. Further ones are refused with a
    /// reset, or [told in words](Admission::farewell), and counted ([`ServerFigures::refused_full`]). To let them wait instead, see
    /// [`Server::pause_accepting`]. Default: as many as the process has descriptors for, but for [some](Admission::descriptor_reserve).
    ///
    /// ```
    /// use netwright_core::pipeline;
    /// use netwright_transport::{Client, Server};
    ///
    /// let server = Server::builder().connections_max(1).pipeline(|_| pipeline().handle(|_, _| {})).bind("local:for-one").wait()?;
    /// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
    /// let first = client.connect(server.address()).wait()?;
    /// if let Ok(second) = client.connect(server.address()).wait() {
    ///     second.closed().wait()?; // cut at once
    /// }
    /// assert!(first.close_cause().is_none());
    /// assert_eq!(server.figures().refused_full, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "max connections")]
    #[doc(alias = "connection limit")]
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.connections_max = connections;
        self
    }

    /// Who may come in: networks, how many of one address, how fast, and what functions of yours say. Default: everybody, as far as there are
    /// descriptors. Can be [changed](Server::admission) while the server runs.
    ///
    /// ```
    /// use netwright_core::pipeline;
    /// use netwright_transport::{Admission, Server};
    ///
    /// let server = Server::builder()
    ///     .admission(Admission::new().deny("192.0.2.0/24")?.per_address(16).farewell("421 too many connections\r\n"))
    ///     .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
    ///     .bind("127.0.0.1:0")
    ///     .wait()?;
    /// # drop(server);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "firewall")]
    #[doc(alias = "rate limit")]
    pub fn admission(mut self, admission: Admission) -> Self {
        self.admission = admission;
        self
    }

    /// Options of the listening sockets.
    pub fn listener_options(mut self, options: ListenerOptions) -> Self {
        self.listener = options;
        self
    }

    /// A further address to listen on.
    pub fn listen(mut self, address: impl ToString) -> Self {
        self.addresses.push(address.to_string());
        self
    }

    /// Who is told what happens where the server listens; see [`ServerObserver`]. Default: nobody.
    pub fn observer(mut self, observer: impl ServerObserver) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// What every connection runs: called on its loop, once for each. Its last stage takes the messages, or it does not compile:
    ///
    /// ```compile_fail,E0277
    /// # use netwright_core::{Observer, observe, pipeline};
    /// # use netwright_transport::Server;
    /// # use bytes::{Bytes, BytesMut};
    /// # struct Log;
    /// # impl Observer for Log {
    /// #     type Read = BytesMut;
    /// #     type Write = Bytes;
    /// # }
    /// Server::builder().pipeline(|_| pipeline().add(observe(Log))); // and then?
    /// ```
    pub fn pipeline<F, P, T>(self, make: F) -> BoundPipeline
    where
        F: Fn(&Accepted) -> P + Send + Sync + 'static,
        P: IntoPipeline<T>,
        T: Send + 'static,
    {
        let (settings, kin) = (Arc::new(self.settings.for_loops()), Kin::of::<T>());
        let adopt: Adopt = Arc::new(move |local, carried, peer, belongings, seat| {
            let (accepted, adoption) = prepare(local, carried, peer, &settings)?;
            // Given back before the connection if `make` panics: its peer may come again at once.
            let (belongings, seat) = (belongings, seat);
            let pipeline = make(&accepted).into_pipeline();
            adopt_kin(adoption, pipeline, &kin, |channel| seat.enter(channel).with(belongings))
        });
        BoundPipeline { builder: self, adopt, live: Live::default() }
    }
}

/// An accepted connection gets its options, and whoever makes its pipeline learns of it.
fn prepare<'a>(
    local: &'a LocalLoop,
    carried: Carried,
    peer: Address,
    settings: &'a Arc<ChannelSettings>,
) -> io::Result<(Accepted, Adoption<'a>)> {
    if let Carried::Socket(socket) = &carried {
        settings.options.apply(socket, socket::domain(&peer)?).map_err(io::Error::other)?;
    }
    let adoption = Adoption::new(local, carried, peer, settings);
    let accepted = Accepted {
        peer: adoption.peer.clone(),
        #[cfg(unix)]
        credentials: adoption.credentials,
    };
    Ok((accepted, adoption))
}

/// A server that knows its pipeline and needs an address.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::Server;
///
/// let knows_what = Server::builder().pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
/// let server = knows_what.listen("local:echo-here").bind("127.0.0.1:0").wait()?; // and where
/// assert_eq!(server.addresses().len(), 2);
/// # Ok::<(), netwright_transport::BindError>(())
/// ```
#[must_use = "a builder does nothing until `bind`"]
pub struct BoundPipeline {
    builder: ServerBuilder,
    adopt: Adopt,
    live: Live,
}

impl BoundPipeline {
    /// A further address to listen on.
    pub fn listen(mut self, address: impl ToString) -> Self {
        self.builder.addresses.push(address.to_string());
        self
    }

    /// Listens. A future of the server, and a blocking wait: `bind("127.0.0.1:0").wait()?`. Port 0 takes a free one.
    pub fn bind(self, address: impl ToString) -> Promised<Server, BindError> {
        self.bind_first(address.to_string())
    }

    fn bind_first(mut self, address: String) -> Promised<Server, BindError> {
        self.builder.addresses.insert(0, address);
        let (promise, promised) = promise();
        match self.start() {
            Ok((starter, future)) => {
                taken(promised, starter.spawn(async move { promise.complete(future.await) }))
            }
            Err(error) => {
                promise.fail(error);
                promised
            }
        }
    }

    #[allow(clippy::type_complexity)]
    fn start(self) -> Result<(EventLoop, impl Future<Output = Result<Server, BindError>> + Send), BindError> {
        let Self { builder, adopt, live } = self;
        builder.settings.check().map_err(|error| BindError::Setup(error.to_string()))?;
        builder.schemes.check()?;
        let excluded = |text: &str| Err(BindError::Setup(text.to_owned()));
        if builder.shared_port && builder.acceptors.is_some() {
            return excluded(
                "shared_port and acceptors exclude each other: with a shared port every worker accepts",
            );
        }
        let cores = world::cores();
        let Common { group, making, resolver } = builder.common;
        let hosts = Homes::new(group, builder.threads, builder.acceptors.as_ref(), making, cores)
            .map_err(|error| BindError::Setup(error.to_string()))?;
        if builder.shared_port && hosts.have_threads() {
            return excluded(
                "shared_port and thread_per_channel exclude each other: a thread for one connection accepts no other",
            );
        }
        let all_accept = builder.shared_port || builder.acceptors.is_some();
        let acceptors = builder.acceptors.unwrap_or_else(|| hosts.group().clone());
        let accepting = if all_accept { acceptors.len() } else { 1 };
        let starter = acceptors.iter().next().ok_or(BindError::LoopEnded)?;
        let plan = Plan {
            acceptors,
            shared_port: builder.shared_port,
            hosts,
            entrances: EntranceSettings {
                listener: builder.listener,
                connections: builder.settings.options,
                acceptors: accepting,
            },
            waiting_max: builder.waiting_max,
            gate: Gate::new(builder.admission, builder.connections_max),
            live: live.clone(),
            adopt,
            observer: builder.observer,
            figures: Arc::new(ListenerFigures::default()),
        };
        Ok((starter, listen(Listening::new(plan), builder.addresses, builder.schemes, resolver, live)))
    }
}

async fn listen(
    listening: Arc<Listening>,
    addresses: Vec<String>,
    schemes: Schemes,
    resolver: Arc<dyn Resolve>,
    live: Live,
) -> Result<Server, BindError> {
    let mut bound = Vec::new();
    for address in addresses {
        let site = match schemes.find(&address)? {
            Whereabouts::Open(means, address) => Site { address, through: Through::Transport(means) },
            Whereabouts::Unix(address) => Site { address, through: Through::sockets_here() },
            Whereabouts::Host(name) => match look_up(&*resolver, name).await?.first() {
                Some(first) => Site { address: Address::Ip(*first), through: Through::sockets_here() },
                None => {
                    return Err(BindError::Setup(format!("{address:?} has no address to listen on")));
                }
            },
        };
        bound.push(listening.bind(site).await?);
    }
    listening.is_bound();
    Ok(Server { inner: Arc::new(ServerInner { addresses: bound, listening, live }) })
}

/// How long a shutdown waits at least for connections that are on their way to their loops, however short its deadline is.
const ARRIVAL_MIN: Duration = Duration::from_millis(100);

/// A server that listens. Cheap to clone; when the last clone is dropped, it stops listening, and its loops end unless
/// somebody else holds them.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Server, event_loops};
/// use std::time::Duration;
///
/// let server = Server::builder()
///     .group(event_loops(1)?)
///     .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
///     .bind("127.0.0.1:0") // any free port
///     .wait()?;
/// println!("listening on {}", server.address());
///
/// let end = server.drain(Duration::from_secs(5)).wait()?;
/// assert_eq!(end.cut, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "listen")]
#[doc(alias = "TcpListener")]
#[derive(Clone)]
pub struct Server {
    inner: Arc<ServerInner>,
}

struct ServerInner {
    addresses: Vec<Address>,
    listening: Arc<Listening>,
    live: Live,
}

/// What a server has done.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, Server};
///
/// let server = Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("local:counted").wait()?;
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// let _channel = client.connect(server.address()).wait()?;
/// let figures = server.figures();
/// assert_eq!((figures.refused, figures.accept_failures), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerFigures {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub open: usize,
    /// Connections refused because no descriptor, but for those that are [kept](Admission::descriptor_reserve), or no thread for another channel
    /// was left.
    pub refused: u64,
    /// Connections refused because every loop that could host them has ended, or ended while they waited for it.
    pub refused_ended: u64,
    /// Connections refused because too many waited for every loop that could host them.
    pub refused_stalled: u64,
    /// Connections refused because as many as are [allowed](ServerBuilder::connections_max) were open.
    pub refused_full: u64,
    /// Connections refused because of their [networks](Admission::deny). Like all that follow, with those that stages have [counted](crate::Refusals).
    pub refused_denied: u64,
    /// Connections refused because as many of their address as are [allowed](Admission::per_address) were open.
    pub refused_per_address: u64,
    /// Connections refused because they came faster than they [may](Admission::rate).
    pub refused_too_fast: u64,
    /// Connections refused because a [function](Admission::judge) of the user's said so.
    pub refused_judged: u64,
    /// Connections refused because nobody [decided](Admission::decide) about them in time, or too many waited for that.
    pub refused_undecided: u64,
    /// How many of all that were refused were [told in words](Admission::farewell).
    pub told_politely: u64,
    /// Connections that wait for a [decision](Admission::decide) now.
    pub undecided: usize,
    /// Connections cut because their peer did not take what waited for it fast enough.
    pub cut_slow: u64,
    /// How often accepting failed.
    pub accept_failures: u64,
    /// Whether accepting pauses at the moment because of that.
    pub paused: bool,
}

impl Server {
    /// Sets up a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            common: Common::new(Backend::Auto),
            threads: None,
            acceptors: None,
            shared_port: false,
            waiting_max: WAITING_MAX,
            connections_max: usize::MAX,
            admission: Admission::new(),
            listener: ListenerOptions::new(),
            settings: ChannelSettings::default(),
            addresses: Vec::new(),
            schemes: Schemes::default(),
            observer: None,
        }
    }

    fn hosts(&self) -> &Homes {
        &self.inner.listening.plan().hosts
    }

    /// Where it listens, the ports taken.
    pub fn addresses(&self) -> &[Address] {
        &self.inner.addresses
    }

    /// The first address. Clients can connect to it as it is.
    pub fn address(&self) -> &Address {
        &self.inner.addresses[0]
    }

    /// The first host and port, if it listens on the network.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.inner.addresses.iter().find_map(Address::ip)
    }

    /// The loops that host its connections. With a thread for each of them: those that accept.
    pub fn group(&self) -> &EventLoopGroup {
        self.hosts().group()
    }

    /// The threads, if each connection has its own.
    #[cfg(feature = "blocking")]
    pub fn threads(&self) -> Option<&ThreadPerChannel> {
        self.hosts().threads()
    }

    /// What it has done.
    pub fn figures(&self) -> ServerFigures {
        let plan = self.inner.listening.plan();
        let (figures, gate) = (&plan.figures, &plan.gate);
        ServerFigures {
            accepted: figures.accepted.load(Ordering::Relaxed),
            open: self.inner.live.len(),
            refused: figures.refused.load(Ordering::Relaxed),
            refused_ended: figures.refused_ended.load(Ordering::Relaxed),
            refused_stalled: figures.refused_stalled.load(Ordering::Relaxed),
            refused_full: figures.refused_full.load(Ordering::Relaxed),
            refused_denied: figures.refused_denied.load(Ordering::Relaxed),
            refused_per_address: figures.refused_per_address.load(Ordering::Relaxed),
            refused_too_fast: figures.refused_too_fast.load(Ordering::Relaxed),
            refused_judged: figures.refused_judged.load(Ordering::Relaxed),
            refused_undecided: figures.refused_undecided.load(Ordering::Relaxed),
            told_politely: gate.told_politely.load(Ordering::Relaxed),
            undecided: gate.undecided_now(),
            cut_slow: self.inner.live.cut_slow(),
            accept_failures: figures.failures.load(Ordering::Relaxed),
            paused: figures.paused.load(Ordering::Relaxed),
        }
    }

    /// Who may come in, to look at and to change while the server runs.
    pub fn admission(&self) -> AdmissionControl {
        let listening = Arc::downgrade(&self.inner.listening);
        let call = move || {
            if let Some(listening) = listening.upgrade() {
                listening.call();
            }
        };
        AdmissionControl::new(self.inner.listening.plan().gate.clone(), Arc::new(call))
    }

    /// Stops accepting, lets connections finish until the deadline, then closes the rest and says how many those were.
    #[doc(alias = "graceful shutdown")]
    pub fn drain(&self, deadline: Duration) -> Promised<ServerShutdown, PromiseError> {
        let listeners = self.inner.listening.close();
        let (live, hosts) = (self.inner.live.clone(), self.hosts().clone());
        let group = hosts.group().clone();
        let (promise, promised) = promise();
        let shutdown = move || {
            let Some(timer) = EventLoop::current() else { return };
            let (place, begun) = (timer.clone(), timer.now());
            // What was accepted last may still be on its way to its loop. What follows it there finds it arrived; a loop that stands
            // still is not waited for past the deadline, and what arrives there later is closed then.
            let arrived = async move {
                for closed in listeners {
                    let _ = closed.await;
                }
                for worker in hosts.expecting() {
                    let (promise, arrived) = netwright_core::promise::<(), PromiseError>();
                    let _ = worker.order(move || promise.succeed(()));
                    let _ = arrived.await;
                }
            };
            let drained = async move {
                live.warn();
                let _ = time::timeout(deadline.max(ARRIVAL_MIN), arrived).await;
                let left = deadline.saturating_sub(timer.now().saturating_duration_since(begun));
                promise.complete(live.drain(&timer, left).await);
            };
            let _ = place.spawn_local(drained); // refused by a loop that ends: whoever waits learns that
        };
        // Whichever loop has time for it first: one that stands still must not hold the others up.
        let shutdown = Arc::new(Mutex::new(Some(shutdown)));
        let mut begun = false;
        for place in group.iter() {
            let shutdown = shutdown.clone();
            let begin = move || {
                let shutdown = shutdown.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(shutdown) = shutdown {
                    shutdown();
                }
            };
            begun |= place.order(begin).is_ok();
        }
        if begun {
            return promised;
        }
        self.inner.live.drain(&group.next(), deadline) // the loops have ended, and their channels with them
    }

    /// Stops accepting and closes every connection at once, with [`CloseCause::ShutDown`](netwright_core::CloseCause::ShutDown)
    /// and without asking its stages ([`Channel::close_now`](netwright_core::Channel::close_now)): what is not sent yet is
    /// lost. Resolves when the last of them is gone, and says how many there were. A loop that stands still is waited for.
    ///
    /// ```
    /// use netwright_core::pipeline;
    /// use netwright_transport::{Client, Server};
    ///
    /// let server = Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("local:not-another-byte").wait()?;
    /// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
    /// let channel = client.connect(server.address()).wait()?;
    /// assert_eq!(server.shutdown_now().wait()?.cut, 1);
    /// channel.closed().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_now(&self) -> Promised<ServerShutdown, PromiseError> {
        let (promise, promised) = promise();
        let (live, hosts) = (self.inner.live.clone(), self.hosts().clone());
        let listeners = self.inner.listening.close();
        live.cut_now();
        // In this order: nobody is accepted any more; who was on the way to a loop has arrived; all that arrived have gone.
        let arrived = AfterAll::new(move || live.when_empty(promise));
        let accepted = AfterAll::new(move || {
            for worker in hosts.expecting() {
                let arrived = arrived.clone();
                let _ = worker.order(move || drop(arrived));
            }
        });
        for closed in listeners {
            let accepted = accepted.clone();
            closed.listen(move |_| drop(accepted));
        }
        promised
    }

    /// Resolves when the server no longer listens, and says why: a future, a blocking wait, and
    /// [`listen`](SharedPromised::listen) for a callback. Connections may live on.
    ///
    /// A server listens until it is asked to stop, or its accepting loops are shut down, or its sockets fail. An accepting loop that
    /// dies does not end it where another can take its place: the listener is opened again, at the same address, on the loop
    /// that [replaced](netwright_core::EventLoopGroupBuilder::replace_dead) the dead one, or else on another loop of
    /// the group if nobody listens there any more. Who connects in that moment is refused, and a listener whose loops die more
    /// than five times in a minute is given up. With several listeners this tells of the last one; [`ServerObserver::closed`] tells of each.
    ///
    /// ```
    /// use netwright_core::pipeline;
    /// use netwright_transport::{ListenEnd, Server};
    ///
    /// let server = Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("local:until-asked").wait()?;
    /// let closed = server.closed();
    /// closed.listen(|end| println!("no longer listening: {end:?}"));
    /// server.stop_listening();
    /// assert!(matches!(closed.wait()?, ListenEnd::Asked));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn closed(&self) -> SharedPromised<ListenEnd, PromiseError> {
        self.inner.listening.closed()
    }

    /// Lets new connections wait in the system's queue until [`resume_accepting`](Self::resume_accepting).
    #[doc(alias = "max connections")]
    pub fn pause_accepting(&self) {
        self.hold_accepting(true); // one that accepts by an operation that lasts has to end it
    }

    /// Accepts again, those that waited first.
    pub fn resume_accepting(&self) {
        self.hold_accepting(false);
    }

    fn hold_accepting(&self, held: bool) {
        self.inner.listening.plan().figures.held.store(held, Ordering::Release);
        self.inner.listening.call();
    }

    /// Stops accepting; connections go on. [`closed`](Self::closed) tells when it is done.
    pub fn stop_listening(&self) {
        drop(self.inner.listening.close());
    }
}

/// Does something when its last clone is dropped.
#[derive(Clone)]
struct AfterAll {
    _then: Arc<Then>,
}

struct Then(Option<Box<dyn FnOnce() + Send + Sync>>);

impl AfterAll {
    fn new(then: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { _then: Arc::new(Then(Some(Box::new(then)))) }
    }
}

impl Drop for Then {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.inner.addresses).finish_non_exhaustive()
    }
}
