//! What stands in for the network of the system: loops whose driver brings one along use it in place of sockets.
//!
//! ```text
//!   EventLoop ── driver ── extension: NetworkOf(network)
//!       │
//!       ├─ Server::bind("0.0.0.0:80") ─────▶ network.listen ───▶ Listener, one for each acceptor
//!       ├─ Client::connect("server:80") ───▶ network.look_up, network.connect for each address in turn
//!       ├─ Datagrams::bind("0.0.0.0:53") ──▶ network.datagrams ─▶ DatagramSocket
//!       └─ `local:name` ───────────────────▶ a name of network.scope() alone
//! ```
//! Not here: what becomes of connections and datagrams then, which is the same as for every transport that is no socket.

use super::{Connecting, DatagramSocket, Listener, contained, contained_connecting};
use crate::{
    options::{DatagramOptions, ListenerOptions, StreamOptions},
    socket::{self, ConnectSettings},
};
use netwright_core::{Address, LocalLoop, driver::Token, internal::catch};
use std::{future, io, net::SocketAddr, pin::Pin, sync::Arc, task::Poll};

/// What stands in for the network of the system, such as a simulated one: a driver brings it along ([`NetworkOf`]), and servers,
/// clients and datagrams of its loops use it for hosts, ports and Unix sockets, without a word of their own. What must be true of its
/// listeners, streams and sockets is said by the [module](super).
///
/// Options have been checked as those of a socket of that address family, so that a program is refused the same things in both; those that mean nothing
/// here are ignored.
///
/// ```
/// use bytes::BytesMut;
/// use netwright_core::{
///     Address, EventLoopGroup, LocalLoop, Outbound,
///     driver::{Driver, DriverSeed, DriverWaker, Events, ParkSeed, Ready, Token},
///     pipeline,
/// };
/// use netwright_transport::{Client, open::*};
/// use std::{any::Any, future, io, rc::Rc, sync::{Arc, mpsc}, time::Duration};
///
/// /// A network with one host, which tells the time to whoever connects to port 13.
/// struct Desert;
///
/// impl Network for Desert {
///     fn listen(&self, _: &NetworkListen<'_>) -> io::Result<Arc<dyn Listener>> {
///         Err(io::ErrorKind::Unsupported.into())
///     }
///     fn connect(&self, how: &NetworkConnect<'_>) -> Connecting {
///         let answer = match how.to.ip().map(|to| to.port()) {
///             Some(13) => Ok(Sundial { peer: how.to.clone(), says: "noon" }.into()),
///             _ => Err(io::ErrorKind::ConnectionRefused.into()),
///         };
///         Box::pin(future::ready(answer))
///     }
///     fn datagrams(&self, _: &NetworkDatagrams<'_>) -> io::Result<Box<dyn DatagramSocket>> {
///         Err(io::ErrorKind::Unsupported.into())
///     }
///     fn look_up(&self, host: &str, port: u16) -> LookingUp {
///         let found = match host {
///             "oasis" => Ok(vec![([10, 0, 0, 1], port).into()]),
///             _ => Err(io::Error::other("there is nobody of that name in a desert")),
///         };
///         Box::pin(future::ready(found))
///     }
/// }
///
/// struct Sundial { peer: Address, says: &'static str }
///
/// impl Connection for Sundial {
///     fn peer(&self) -> Address {
///         self.peer.clone()
///     }
///     fn open(self: Box<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Stream>> {
///         local.call(token);
///         Ok(self)
///     }
/// }
///
/// impl Stream for Sundial {
///     fn look(&mut self) -> Ready {
///         Ready::READ
///     }
///     fn receive(&mut self) -> io::Result<Received> {
///         Ok(Received { bytes: BytesMut::from(std::mem::take(&mut self.says)), more: true })
///     }
///     fn has_ended(&mut self) -> io::Result<bool> {
///         Ok(self.says.is_empty())
///     }
///     fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
///         while let Some(bytes) = next_bytes(outbound, "a sundial", usize::MAX)? {
///             outbound.advance(bytes.len());
///         }
///         Ok(Wrote::All)
///     }
///     fn shut_down_output(&mut self) -> io::Result<()> {
///         Ok(())
///     }
/// }
///
/// /// The driver that does nothing, with a network.
/// struct InDesert<D>(D, Arc<dyn Network>);
///
/// impl DriverSeed for InDesert<ParkSeed> {
///     fn waker(&self) -> Arc<dyn DriverWaker> {
///         self.0.waker()
///     }
///     fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
///         Ok(Box::new(InDesert(Box::new(self.0).start()?, self.1)))
///     }
/// }
///
/// impl Driver for InDesert<Box<dyn Driver>> {
///     fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()> {
///         self.0.poll(timeout, events)
///     }
///     fn rebuild(&mut self) -> io::Result<usize> {
///         self.0.rebuild()
///     }
///     fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
///         Err(self)
///     }
///     fn extension(&self) -> Option<Rc<dyn Any>> {
///         Some(Rc::new(NetworkOf(self.1.clone())))
///     }
/// }
///
/// let group = EventLoopGroup::builder().loops(1).driver(|_| Ok(InDesert(ParkSeed::new(), Arc::new(Desert)))).build()?;
/// let (tell, told) = mpsc::channel();
/// let client = Client::builder().group(group).pipeline(move || {
///     let tell = tell.clone();
///     pipeline().handle(move |_, bytes| tell.send(bytes).unwrap())
/// })?;
/// let channel = client.connect("oasis:13").wait()?; // as if it were any other host
/// assert_eq!(told.recv()?, "noon");
/// assert!(client.connect("oasis:80").wait().is_err());
/// assert!(client.connect("example.org:13").wait().is_err());
/// # drop(channel);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Network: Send + Sync + 'static {
    /// Listens at an IP address or a Unix name. Called on a loop's thread, or on that of whoever tells that a loop has died.
    ///
    /// Of several loops that accept at an IP address each has a listener of its own ([`shared`](NetworkListen::shared)), over which the network spreads
    /// connections; one at a Unix name is attended by all of them.
    ///
    /// # Errors
    /// `AddrInUse` becomes [`BindError::InUse`](crate::BindError::InUse), any other error [`BindError::Io`](crate::BindError::Io).
    fn listen(&self, how: &NetworkListen<'_>) -> io::Result<Arc<dyn Listener>>;

    /// Opens a connection to one address. Called on the loop that will host it, where the future runs too; of several addresses of a name
    /// each has an attempt of its own. The future is dropped when the attempt is given up: it takes too long, another one was faster, or the
    /// connection is no longer wanted.
    ///
    /// Errors of the future: `ConnectionRefused` becomes [`ConnectError::Refused`](crate::ConnectError::Refused), `TimedOut`
    /// [`ConnectError::TimedOut`](crate::ConnectError::TimedOut), any other [`ConnectError::Io`](crate::ConnectError::Io).
    fn connect(&self, how: &NetworkConnect<'_>) -> Connecting;

    /// Opens a socket for datagrams, on its loop.
    ///
    /// # Errors
    /// As those of [`listen`](Self::listen) and [`connect`](Self::connect).
    fn datagrams(&self, how: &NetworkDatagrams<'_>) -> io::Result<Box<dyn DatagramSocket>>;

    /// The addresses of a host, in the order of preference, with that port. Called on a loop, where the future runs too. Literal addresses are not
    /// asked for.
    ///
    /// Errors of the future, and an empty answer, become [`ResolveError::Unresolvable`](crate::ResolveError::Unresolvable).
    fn look_up(&self, host: &str, port: u16) -> LookingUp;

    /// Names within the process (`local:name`) are those of this scope: hosts that are to know nothing of each other have different ones. Default: 0,
    /// as of loops without a network.
    fn scope(&self) -> u64 {
        0
    }
}

/// Addresses that are being looked up.
pub type LookingUp = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>>>>;

/// The extension of a driver that brings a network along ([`Driver::extension`](netwright_core::driver::Driver::extension)).
///
/// ```
/// use netwright_core::{LocalLoop, ManualLoop};
/// use netwright_transport::open::NetworkOf;
///
/// ManualLoop::new().enter(|| {
///     let local = LocalLoop::current().unwrap();
///     assert!(local.driver::<NetworkOf>().is_none()); // this loop's sockets are the system's
/// });
/// ```
pub struct NetworkOf(pub Arc<dyn Network>);

/// Where and how to listen in a network.
#[derive(Debug)]
#[non_exhaustive]
pub struct NetworkListen<'a> {
    /// An IP address, whose port may be 0: any that is free. Or a Unix name.
    pub address: &'a Address,
    /// Others may listen at the same address if they share it as well (`SO_REUSEPORT`).
    pub shared: bool,
    /// How many connections may wait to be accepted: what was asked for, else 4,096, whatever this machine grants.
    pub backlog: usize,
    /// Options of the listener.
    pub listener: &'a ListenerOptions,
    /// Options of its connections.
    pub options: &'a StreamOptions,
}

/// Where and how to connect in a network.
#[derive(Debug)]
#[non_exhaustive]
pub struct NetworkConnect<'a> {
    /// An IP address or a Unix name.
    pub to: &'a Address,
    /// From where, if that matters. The port may be 0.
    pub from: Option<SocketAddr>,
    /// The loop that will host the channel, and runs the future.
    pub local: &'a LocalLoop,
    /// Options of the connection.
    pub options: &'a StreamOptions,
}

/// What a socket for datagrams is to be.
#[derive(Debug)]
#[non_exhaustive]
pub struct NetworkDatagrams<'a> {
    /// Where it receives, an IP address or a Unix name. `None`: where the network likes.
    pub bind: Option<&'a Address>,
    /// Whom it receives from and sends to; nobody else then.
    pub to: Option<&'a Address>,
    /// Others may receive at the same address if they share it as well (`SO_REUSEPORT`).
    pub shared: bool,
    /// What did not arrive is told ([`DatagramSocket::take_error`]) even if it is not connected.
    pub report_undelivered: bool,
    /// Its other options.
    pub options: &'a DatagramOptions,
    /// Its loop.
    pub local: &'a LocalLoop,
    /// Its channel's token, as that of [`Connection::open`](super::Connection::open). It names nobody until the socket is made.
    pub token: Token,
}

/// A network in place of the system's, asked with care: what it does is foreign code.
#[derive(Clone)]
pub(crate) struct Substitute(Arc<dyn Network>);

impl Substitute {
    /// The one that the driver of a loop has brought along.
    pub(crate) fn of(local: &LocalLoop) -> Option<Self> {
        local.driver::<NetworkOf>().map(|network| Self(network.0.clone()))
    }

    /// That of the calling thread's loop.
    pub(crate) fn here() -> Option<Self> {
        Self::of(&LocalLoop::current()?)
    }

    pub(crate) fn scope(&self) -> u64 {
        self.0.scope()
    }

    /// `several`: so many loops listen there that one listener does not do.
    pub(crate) fn listen(
        &self,
        address: &Address,
        several: bool,
        listener: &ListenerOptions,
        options: &StreamOptions,
    ) -> io::Result<Arc<dyn Listener>> {
        listener.check(socket::domain(address)?).map_err(io::Error::other)?;
        let shared = address.ip().is_some() && (several || listener.shares_port());
        let backlog = listener.backlog_without_system();
        let how = NetworkListen { address, shared, backlog, listener, options };
        contained(|| self.0.listen(&how))
    }

    pub(crate) fn connect(
        &self,
        to: &Address,
        local: &LocalLoop,
        settings: &ConnectSettings,
    ) -> io::Result<Connecting> {
        let ConnectSettings { from, options, .. } = settings;
        settings.check_from(to)?;
        options.check(socket::domain(to)?).map_err(io::Error::other)?;
        let how = NetworkConnect { to, from: *from, local, options };
        contained_connecting(|| self.0.connect(&how))
    }

    pub(crate) fn datagrams(&self, how: &NetworkDatagrams<'_>) -> io::Result<Box<dyn DatagramSocket>> {
        contained(|| self.0.datagrams(how))
    }

    /// `Err`: it panicked, with these words.
    pub(crate) async fn look_up(&self, host: &str, port: u16) -> Result<io::Result<Vec<SocketAddr>>, String> {
        let mut looking = catch(|| self.0.look_up(host, port))?;
        let poll = |cx: &mut std::task::Context<'_>| match catch(|| looking.as_mut().poll(cx)) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        };
        future::poll_fn(poll).await
    }
}
