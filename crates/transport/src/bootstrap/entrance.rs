//! Where a server's acceptors listen: on the network, at a Unix socket, or where another transport says.
//!
//! ```text
//!   host:port    each acceptor has a socket of its own (SO_REUSEPORT), and the system spreads connections
//!   unix:…       one socket; each acceptor has a duplicate of its descriptor, and who is fastest accepts
//!   other:…      one listener of that transport, which all acceptors attend
//! ```
//! A network that stands in for the system's has a listener for each acceptor at host and port, and one for all at a Unix name.

use super::{BindError, through::Through};
#[cfg(unix)]
use crate::socket::unix::{self, SocketFile};
#[cfg(all(target_os = "linux", feature = "uring"))]
use crate::uring::UringListener;
use crate::{
    open::Listener as OpenListener,
    options::{ListenerOptions, StreamOptions},
    socket::{self, Listener, ListenerFigures, Reception, SocketAcceptor},
};
use netwright_core::{Address, LocalLoop, driver::Token};
use socket2::{Socket, Type};
#[cfg(unix)]
use std::net::Shutdown;
use std::{
    io,
    sync::{Arc, Weak},
};

pub(super) enum Entrance {
    Socket {
        socket: Socket,
        /// What the acceptors of a Unix socket have in common.
        #[cfg(unix)]
        common: Option<Arc<Common>>,
    },
    Open {
        listener: Arc<dyn OpenListener>,
        /// It is a port of a network, which spreads connections over all that listen there.
        port: bool,
    },
}

/// Where to listen, and through what.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) address: Address,
    pub(super) through: Through,
}

/// What the acceptors of one Unix socket hold together: dropped with the last of them.
#[cfg(unix)]
pub(super) struct Common {
    /// A duplicate, if there are several: a further one is made of it.
    socket: Option<Socket>,
    /// Removed from the file system.
    _file: Option<SocketFile>,
}

#[cfg(unix)]
impl Drop for Common {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take() {
            let _ = socket.shutdown(Shutdown::Both); // also for acceptors whose last operation is still being cancelled
        }
    }
}

/// An entrance that several acceptors share, as somebody knows it who does not hold it open.
#[derive(Clone)]
pub(super) enum Kept {
    /// Each acceptor has its own.
    Nothing,
    #[cfg(unix)]
    Common(Weak<Common>),
    Open(Weak<dyn OpenListener>),
}

impl Kept {
    /// One more way in by the same entrance, unless it has been closed.
    fn share(&self) -> Option<io::Result<Entrance>> {
        match self {
            Self::Nothing => None,
            #[cfg(unix)]
            Self::Common(common) => {
                let common = common.upgrade()?;
                let socket = common.socket.as_ref()?.try_clone();
                Some(socket.map(|socket| Entrance::Socket { socket, common: Some(common) }))
            }
            Self::Open(listener) => {
                listener.upgrade().map(|listener| Ok(Entrance::Open { listener, port: false }))
            }
        }
    }
}

/// What servers say about their entrances.
pub(super) struct EntranceSettings {
    pub(super) listener: ListenerOptions,
    /// Those of the connections: what cannot be set is refused here, not connection by connection.
    pub(super) connections: StreamOptions,
    /// How many loops accept.
    pub(super) acceptors: usize,
}

impl EntranceSettings {
    /// One entrance for each acceptor, and the address that they have: a port of 0 has become a real one.
    pub(super) fn open(&self, mut site: Site) -> Result<(Vec<Entrance>, Site), BindError> {
        let first = self.open_one(&site)?;
        if let Some(address) = first.address() {
            site.address = address;
        }
        let kept = first.keep();
        let mut entrances = vec![first];
        while entrances.len() < self.acceptors {
            entrances.push(self.open_again(&site, &kept)?);
        }
        Ok((entrances, site))
    }

    /// A further entrance to an address: the one that others have, as far as they share it and still do; else a new one.
    pub(super) fn open_again(&self, site: &Site, kept: &Kept) -> Result<Entrance, BindError> {
        match kept.share() {
            Some(entrance) => entrance.map_err(|error| BindError::io(site.address.clone(), error)),
            None => self.open_one(site),
        }
    }

    fn open_one(&self, site: &Site) -> Result<Entrance, BindError> {
        let address = &site.address;
        let setup =
            |why: &dyn std::fmt::Display| BindError::Setup(format!("cannot listen on {address}: {why}"));
        let failed = |error| BindError::io(address.clone(), error);
        let opened = match &site.through {
            Through::Transport(means) => means
                .listen(address, &self.listener, &self.connections)
                .map_err(|why| setup(&why))?
                .map(|listener| Entrance::Open { listener, port: false }),
            sockets => {
                let domain = socket::domain(address).map_err(failed)?;
                self.connections.check(domain).map_err(|error| setup(&error))?;
                match sockets {
                    Through::Network(network) => {
                        let several = self.acceptors > 1;
                        let listener = network.listen(address, several, &self.listener, &self.connections);
                        listener.map(|listener| Entrance::Open { listener, port: address.ip().is_some() })
                    }
                    _ => self.listen_on(address),
                }
            }
        };
        opened.map_err(failed)
    }

    fn listen_on(&self, address: &Address) -> io::Result<Entrance> {
        let name = address;
        let address = socket::sock_addr(name)?;
        let domain = address.domain();
        let socket = Socket::new(domain, Type::STREAM, None)?;
        let mut options = self.listener.clone();
        let several = self.acceptors > 1;
        if several && name.ip().is_some() {
            options = options.reuse_port(true);
        }
        options.apply(&socket, domain).map_err(io::Error::other)?;
        socket.set_nonblocking(true)?;
        #[cfg(unix)]
        let common = match name {
            Address::Unix(name) => {
                let file = unix::bind(&socket, &address, name, options.mode())?;
                let duplicate = several.then(|| socket.try_clone()).transpose()?;
                Some(Arc::new(Common { socket: duplicate, _file: file }))
            }
            _ => socket.bind(&address).map(|()| None)?,
        };
        #[cfg(not(unix))]
        socket.bind(&address)?;
        socket.listen(options.listen_backlog())?;
        Ok(Entrance::Socket {
            socket,
            #[cfg(unix)]
            common,
        })
    }
}

impl Entrance {
    /// What is needed to share it later.
    pub(super) fn keep(&self) -> Kept {
        match self {
            #[cfg(unix)]
            Self::Socket { common: Some(common), .. } => Kept::Common(Arc::downgrade(common)),
            Self::Socket { .. } | Self::Open { port: true, .. } => Kept::Nothing,
            Self::Open { listener, .. } => Kept::Open(Arc::downgrade(listener)),
        }
    }

    /// Whether other acceptors have the same socket. Asked by io_uring.
    #[cfg(all(target_os = "linux", feature = "uring"))]
    pub(super) fn shares_socket(&self) -> bool {
        match self {
            Self::Socket { common, .. } => common.as_ref().is_some_and(|common| common.socket.is_some()),
            Self::Open { .. } => false,
        }
    }

    /// Whether the system, or the network in its place, spreads connections over several such entrances.
    pub(super) fn is_on_the_network(&self) -> bool {
        match self {
            Self::Socket { .. } => matches!(self.address(), Some(Address::Ip(_))),
            Self::Open { port, .. } => *port,
        }
    }

    fn address(&self) -> Option<Address> {
        match self {
            Self::Socket { socket, .. } => socket.local_addr().ok().and_then(|taken| socket::address(&taken)),
            Self::Open { listener, .. } => Some(listener.address()),
        }
    }

    /// What has to be kept until its listener is closed.
    pub(super) fn belongings(&self) -> Belongings {
        match self {
            #[cfg(unix)]
            Self::Socket { common, .. } => Belongings { _common: common.clone() },
            #[cfg(not(unix))]
            Self::Socket { .. } => Belongings {},
            Self::Open { .. } => Belongings::default(),
        }
    }

    /// Has the loop of the calling thread accept here. Returns the token by which it is deregistered.
    pub(super) fn start(
        self,
        local: &LocalLoop,
        figures: Arc<ListenerFigures>,
        reception: Box<dyn Reception>,
    ) -> io::Result<Token> {
        match self {
            Self::Socket { socket, .. } => {
                #[cfg(all(target_os = "linux", feature = "uring"))]
                if let Some(uring) = local.driver() {
                    return UringListener::start(local, uring, socket, figures, reception);
                }
                let attend = |token| SocketAcceptor::open(local, socket, token);
                Listener::start(local, attend, figures, reception)
            }
            Self::Open { listener, .. } => {
                Listener::start(local, |token| listener.attend(local, token), figures, reception)
            }
        }
    }
}

/// What an entrance is made of beside its socket; to be dropped behind that.
#[derive(Default)]
pub(super) struct Belongings {
    #[cfg(unix)]
    _common: Option<Arc<Common>>,
}
