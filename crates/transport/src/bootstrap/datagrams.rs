//! Sockets for datagrams: bound to an address, or connected to a peer, each with a pipeline of its own.
//!
//! There are no servers and clients here: a bound socket answers whoever sends to it, and may send to anybody.

use super::{
    Backend, BindError, ConnectError,
    error::taken,
    setters::{Common, channel_setters},
};
use crate::{
    attributes::Attributes,
    datagram::{Bound, Datagram, DatagramSettings, Opening, open},
    open::{NetworkDatagrams, Substitute},
    options::DatagramOptions,
    resolve::{Resolve, look_up},
    socket::sock_addr,
};
use netwright_core::{
    Address, Channel, EventLoop, EventLoopGroup, HostSettings, IntoPipeline, LocalLoop, Outgoing, Promised,
    internal::catch, promise,
};
use socket2::{Domain, Socket, Type};
use std::{any::Any, fmt, io, sync::Arc, time::Duration};

/// The longest datagram that UDP has.
const RECEIVE_MAX_DEFAULT: usize = 65_535;
/// More than any system sends as one.
const RECEIVE_MAX_MAX: usize = 16 << 20;
/// What Linux passes along with one message (`SCM_MAX_FD`).
const DESCRIPTORS_MAX_MAX: usize = 253;

/// Sets up [`Datagrams`].
///
/// ```
/// use netwright_core::{AppContext, Application, Envelope, pipeline};
/// use netwright_transport::{Datagram, DatagramOptions, Datagrams, event_loops};
///
/// struct Echo;
///
/// impl Application for Echo {
///     type Read = Datagram;
///     type Write = Envelope;
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
///         cx.write_and_flush(datagram.into_answer());
///     }
/// }
///
/// let datagrams = Datagrams::builder()
///     .group(event_loops(1)?)
///     .options(DatagramOptions::new().recv_buffer_size(256 * 1024))
///     .receive_max(1500)
///     .pipeline(|| pipeline().app(Echo))?;
/// let channel = datagrams.bind("127.0.0.1:0").wait()?;
/// # drop(channel);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `pipeline`"]
pub struct DatagramsBuilder {
    common: Common,
    options: DatagramOptions,
    settings: DatagramSettings,
    from: Option<Address>,
}

impl DatagramsBuilder {
    channel_setters!("channel", loops: "one", backend: "readiness, which datagrams need");

    /// Options of the sockets.
    pub fn options(mut self, options: DatagramOptions) -> Self {
        self.options = options;
        self
    }

    /// Whether channels read by themselves. Default: yes. If not, nothing is read before somebody asks (`Context::request`).
    pub fn auto_read(mut self, auto: bool) -> Self {
        self.settings.host.auto_read = auto;
        self
    }

    /// The longest datagram that is taken. A longer one is dropped, counted, and told as the event
    /// [`Truncated`](crate::Truncated). Default: 65,535 bytes, which every UDP datagram fits in; those of Unix sockets may
    /// be longer.
    pub fn receive_max(mut self, bytes: usize) -> Self {
        self.settings.receive_max = bytes;
        self
    }

    /// Takes at most this many descriptors along with one datagram of a Unix socket; one with more is dropped, counted, and
    /// told as the event [`Truncated`](crate::Truncated). Linux. Default: 0, and then whatever comes along is closed by the
    /// system.
    pub fn descriptors(mut self, max: usize) -> Self {
        self.settings.descriptors_max = max;
        self
    }

    /// Has the system tell which process sent a datagram over a Unix socket (`SO_PASSCRED`):
    /// [`Datagram::credentials`]. Linux; binding fails elsewhere. Default: no.
    pub fn credentials(mut self, tell: bool) -> Self {
        self.settings.credentials = tell;
        self
    }

    /// Has the system join datagrams of one sender that arrive together (`UDP_GRO`), so that they need one pass through it;
    /// the pipeline gets them one by one all the same. Pays for long streams from few senders. Linux; ignored where the
    /// system cannot. Default: no.
    pub fn join_received(mut self, join: bool) -> Self {
        self.settings.join_received = join;
        self
    }

    /// Has the system cut runs of equally long datagrams for one target (`UDP_SEGMENT`), so that they need one pass through
    /// it. Linux; where the system or the way to a target cannot, they are sent one by one. Default: yes, because it saves a
    /// fifth where there are such runs and costs nothing where there are none.
    pub fn cut_sent(mut self, cut: bool) -> Self {
        self.settings.cut_sent = cut;
        self
    }

    /// Tells also bound channels which of their datagrams did not arrive, as far as the network says so: the events
    /// [`PortUnreachable`](crate::PortUnreachable) and [`Undelivered`](crate::Undelivered), with the address. Connected ones
    /// hear of the former in any case. Linux; binding fails elsewhere. Default: no, because anybody can cause them.
    pub fn report_undelivered(mut self, report: bool) -> Self {
        self.settings.report_undelivered = report;
        self
    }

    /// From which address to connect. Default: the system chooses.
    pub fn from(mut self, address: impl Into<Address>) -> Self {
        self.from = Some(address.into());
        self
    }

    /// What every channel runs: called on its loop, once for each. It reads [`Datagram`]s.
    pub fn pipeline<F, P, W>(self, make: F) -> Result<Datagrams<W>, BindError>
    where
        F: Fn() -> P + Send + Sync + 'static,
        P: IntoPipeline<W, Datagram>,
        W: Send + 'static,
    {
        self.check()?;
        let Common { group, making, resolver } = self.common;
        let group = match group {
            Some(group) => group,
            None => making.loops(1).map_err(|error| BindError::Setup(error.to_string()))?,
        };
        let inner = Inner {
            group,
            options: self.options,
            settings: self.settings,
            from: self.from,
            resolver,
            open: Box::new(move |opening| {
                let pipeline = catch(|| make().into_pipeline())?;
                Ok(open(opening.with(pipeline)))
            }),
        };
        Ok(Datagrams { inner: Arc::new(inner) })
    }

    fn check(&self) -> Result<(), BindError> {
        let DatagramSettings { receive_max, descriptors_max, .. } = self.settings;
        let within = |name: &str, value: usize, min: usize, max: usize| match (min..=max).contains(&value) {
            true => Ok(()),
            false => Err(BindError::Setup(format!("{name} is {value}, but must be {min} to {max}"))),
        };
        within("receive_max", receive_max, 1, RECEIVE_MAX_MAX)?;
        within("descriptors", descriptors_max, 0, DESCRIPTORS_MAX_MAX)?;
        let families = [Domain::IPV4, Domain::IPV6, Domain::UNIX];
        let mut checks = families.map(|family| self.options.check(family)).into_iter();
        let first = checks.next().unwrap_or(Ok(()));
        match first {
            Err(error) if !checks.any(|check| check.is_ok()) => Err(BindError::Setup(error.to_string())),
            _ => Ok(()),
        }
    }
}

/// Opens channels for datagrams that all run the same pipeline, to which `W` is written. Cheap to clone.
///
/// It holds its loops, and the channels live on them: keep it for as long as they are to live.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use netwright_core::{AppContext, Application, Envelope, pipeline};
/// use netwright_transport::{Datagram, Datagrams};
///
/// struct Echo;
///
/// impl Application for Echo {
///     type Read = Datagram;
///     type Write = Envelope;
///
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
///         cx.write(datagram.into_answer());
///     }
///     fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
///         cx.flush(); // all that came together is answered together
///     }
/// }
///
/// let datagrams = Datagrams::builder().pipeline(|| pipeline().app(Echo))?;
/// let echo = datagrams.bind("127.0.0.1:0").wait()?;
///
/// let peer = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// peer.send_to(b"hello", echo.local_addr().unwrap())?;
/// let mut room = [0; 64];
/// let (len, from) = peer.recv_from(&mut room)?;
/// assert_eq!((&room[..len], Some(from)), (&b"hello"[..], echo.local_addr()));
/// # Ok(())
/// # }
/// ```
pub struct Datagrams<W = Outgoing> {
    inner: Arc<Inner<W>>,
}

/// Makes a channel of a socket, on the loop of the calling thread; an error is a panic of whoever makes pipelines. All that knows the pipeline.
type Open<W> = Box<dyn Fn(Opening<'_, ()>) -> Result<io::Result<Channel<W>>, String> + Send + Sync>;

struct Inner<W> {
    group: EventLoopGroup,
    options: DatagramOptions,
    settings: DatagramSettings,
    from: Option<Address>,
    resolver: Arc<dyn Resolve>,
    open: Open<W>,
}

impl Datagrams {
    /// Sets up sockets for datagrams.
    pub fn builder() -> DatagramsBuilder {
        let mut host = HostSettings::default();
        host.whole_messages = true;
        DatagramsBuilder {
            common: Common::new(Backend::Readiness),
            options: DatagramOptions::new(),
            settings: DatagramSettings {
                host,
                attributes: Attributes::default(),
                receive_max: RECEIVE_MAX_DEFAULT,
                descriptors_max: 0,
                credentials: false,
                join_received: false,
                cut_sent: true,
                report_undelivered: false,
            },
            from: None,
        }
    }
}

impl<W: Send + 'static> Datagrams<W> {
    /// Opens a channel at `host:port`, `unix:/path` or `unix:@name`, which receives from and sends to anybody. Port 0
    /// takes a free one. A future of the channel, and a blocking wait.
    pub fn bind(&self, address: impl ToString) -> Promised<Channel<W>, BindError> {
        let (promise, promised) = promise();
        let (inner, text) = (self.inner.clone(), address.to_string());
        let opening = self.inner.group.next().spawn(async move {
            let opened = match inner.find(&text).await {
                Ok(address) => inner.bind_here(address, false).map(|(channel, _)| channel),
                Err(error) => Err(error),
            };
            promise.complete(opened);
        });
        taken(promised, opening)
    }

    /// Opens a channel on each loop of the group, all at the same address (`SO_REUSEPORT`): the system spreads senders over
    /// them, and what one sender sends stays with one channel.
    pub fn bind_shared(&self, address: impl ToString) -> Promised<Vec<Channel<W>>, BindError> {
        let (promise, promised) = promise();
        let (inner, text) = (self.inner.clone(), address.to_string());
        let loops: Vec<EventLoop> = inner.group.iter().collect();
        let opening = loops[0].clone().spawn(async move {
            promise.complete(inner.bind_all(&text, loops).await);
        });
        taken(promised, opening)
    }

    /// Opens a channel that receives from and sends to one peer alone. A name with several addresses: the first one to
    /// which the system finds a way.
    pub fn connect(&self, address: impl ToString) -> Promised<Channel<W>, ConnectError> {
        let (promise, promised) = promise();
        let (inner, text) = (self.inner.clone(), address.to_string());
        let opening = self.inner.group.next().spawn(async move {
            promise.complete(match inner.find_all(&text).await {
                Ok(addresses) => inner.connect_here(&text, addresses),
                Err(error) => Err(error),
            });
        });
        taken(promised, opening)
    }

    /// The loops that host the channels.
    pub fn group(&self) -> &EventLoopGroup {
        &self.inner.group
    }
}

impl<W: Send + 'static> Inner<W> {
    async fn find(&self, text: &str) -> Result<Address, BindError> {
        if let Some(address) = Address::parse_prefixed(text) {
            return Ok(address?);
        }
        let found = look_up(&*self.resolver, text).await?;
        let first = found.first().copied().map(Address::Ip);
        first.ok_or_else(|| BindError::Setup(format!("{text:?} has no address to receive at")))
    }

    async fn find_all(&self, text: &str) -> Result<Vec<Address>, ConnectError> {
        if let Some(address) = Address::parse_prefixed(text) {
            return Ok(vec![address?]);
        }
        Ok(look_up(&*self.resolver, text).await?.iter().copied().map(Address::Ip).collect())
    }

    /// On the loop of the calling thread. Also gives the address that was taken.
    fn bind_here(&self, address: Address, shared: bool) -> Result<(Channel<W>, Address), BindError> {
        let refused = |error| BindError::io(address.clone(), error);
        let local = current().map_err(refused)?;
        let opening = match Substitute::of(&local) {
            Some(network) => self.in_network(&local, network, Some(address.clone()), None, shared),
            None => self.bound(&address, shared).and_then(|bound| bound.opening(&local, &self.settings)),
        };
        let opened = (self.open)(opening.map_err(refused)?).map_err(BindError::Panicked)?;
        let channel = opened.map_err(refused)?;
        let taken = channel.local().unwrap_or_else(|| address.clone());
        Ok((channel, taken))
    }

    async fn bind_all(
        self: &Arc<Self>,
        text: &str,
        loops: Vec<EventLoop>,
    ) -> Result<Vec<Channel<W>>, BindError> {
        let shared = loops.len() > 1;
        let address = self.find(text).await?;
        if shared && !matches!(address, Address::Ip(_)) {
            return Err(BindError::Setup(format!(
                "{address} cannot be shared by several loops: only ports can"
            )));
        }
        let (first, address) = self.bind_here(address, shared)?;
        let mut opened = OnFailure(vec![first]);
        for event_loop in &loops[1..] {
            let (promise, channel) = promise::<Channel<W>, BindError>();
            let (inner, address) = (self.clone(), address.clone());
            let bind = move || promise.complete(inner.bind_here(address, true).map(|(channel, _)| channel));
            event_loop.order(bind).map_err(BindError::from)?;
            opened.0.push(channel.await?);
        }
        Ok(std::mem::take(&mut opened.0))
    }

    fn connect_here(&self, text: &str, addresses: Vec<Address>) -> Result<Channel<W>, ConnectError> {
        let mut last = ConnectError::Setup(format!("{text:?} has no address to connect to"));
        for address in addresses {
            match self.connect_to(address) {
                Err(error @ ConnectError::Io { .. } | error @ ConnectError::Refused(_)) => last = error,
                decided => return decided,
            }
        }
        Err(last)
    }

    fn connect_to(&self, peer: Address) -> Result<Channel<W>, ConnectError> {
        let failed = |error| ConnectError::io(peer.clone(), Duration::ZERO, error);
        let local = current().map_err(failed)?;
        let opening = match Substitute::of(&local) {
            Some(network) => self.in_network(&local, network, self.from.clone(), Some(peer.clone()), false),
            None => self.connected(&peer).and_then(|bound| bound.opening(&local, &self.settings)),
        };
        let opened = (self.open)(opening.map_err(failed)?).map_err(ConnectError::Panicked)?;
        opened.map_err(failed)
    }

    /// A socket of the network that stands in for the system's on a loop.
    fn in_network<'a>(
        &'a self,
        local: &'a LocalLoop,
        network: Substitute,
        bind: Option<Address>,
        to: Option<Address>,
        shared: bool,
    ) -> io::Result<Opening<'a, ()>> {
        let Some(address) = bind.as_ref().or(to.as_ref()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let domain = crate::socket::domain(address)?;
        self.options.check(domain).map_err(io::Error::from)?;
        let DatagramSettings { descriptors_max, credentials, report_undelivered, .. } = self.settings;
        if domain == Domain::UNIX && (descriptors_max > 0 || credentials) {
            let text =
                "the network of this loop passes no descriptors along with datagrams, and no credentials";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let (peer, options) = (to.clone(), &self.options);
        let make = move |token| {
            network.datagrams(&NetworkDatagrams {
                bind: bind.as_ref(),
                to: to.as_ref(),
                shared: shared || options.shares_port(),
                report_undelivered,
                options,
                local,
                token,
            })
        };
        Ok(Opening::without_system(local, domain, peer, &self.settings, Box::new(make)))
    }

    /// A socket of the system that receives from anybody.
    fn bound(&self, address: &Address, shared: bool) -> io::Result<Bound> {
        let (socket, domain) = self.socket(address, shared)?;
        let file = bind(&socket, address)?;
        Ok(Bound { socket, domain, peer: None, file })
    }

    /// And one that has a peer.
    fn connected(&self, peer: &Address) -> io::Result<Bound> {
        let (socket, domain) = self.socket(peer, false)?;
        let mut file = None;
        if let Some(from) = &self.from {
            file = bind(&socket, from)?;
        } else if cfg!(any(target_os = "linux", target_os = "android")) && matches!(peer, Address::Unix(_)) {
            // Nobody can answer a socket without a name. Linux makes one up for a bind to nothing.
            #[cfg(unix)]
            socket.bind(&socket2::SockAddr::unix("")?)?;
        }
        socket.connect(&sock_addr(peer)?)?;
        Ok(Bound { socket, domain, peer: Some(peer.clone()), file })
    }

    fn socket(&self, address: &Address, shared: bool) -> io::Result<(Socket, Domain)> {
        let domain = sock_addr(address)?.domain();
        let socket = Socket::new(domain, Type::DGRAM, None)?; // closed on exec
        let mut options = self.options.clone();
        if shared {
            options = options.reuse_port(true);
        }
        options.apply(&socket, domain).map_err(io::Error::from)?;
        socket.set_nonblocking(true)?;
        Ok((socket, domain))
    }
}

fn current() -> io::Result<LocalLoop> {
    LocalLoop::current().ok_or_else(|| io::Error::other("this thread runs no event loop"))
}

/// The file of a Unix socket, if it has one, which goes when this is dropped.
type BoundFile = Option<Box<dyn Any>>;

/// Binds a socket. The file of a Unix socket is removed with the channel; one that nobody receives at is replaced.
fn bind(socket: &Socket, address: &Address) -> io::Result<BoundFile> {
    let name = sock_addr(address)?;
    match address {
        #[cfg(unix)]
        Address::Unix(unix) => {
            let file = crate::socket::unix::bind(socket, &name, unix, None)?;
            Ok(file.map(|file| Box::new(file) as Box<dyn Any>))
        }
        _ => socket.bind(&name).map(|()| None),
    }
}

/// Channels that are closed unless all of them could be opened.
struct OnFailure<W: 'static>(Vec<Channel<W>>);

impl<W: 'static> Drop for OnFailure<W> {
    fn drop(&mut self) {
        for channel in &self.0 {
            drop(channel.close());
        }
    }
}

impl<W> Clone for Datagrams<W> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<W> fmt::Debug for Datagrams<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datagrams").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl fmt::Debug for DatagramsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramsBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
