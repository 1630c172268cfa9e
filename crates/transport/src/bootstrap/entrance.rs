//! Where a server's acceptors listen: on the network, at a Unix socket, or at a name within the process.
//!
//! ```text
//!   host:port    each acceptor has a socket of its own (SO_REUSEPORT), and the system spreads connections
//!   unix:…       one socket; each acceptor has a duplicate of its descriptor, and who is fastest accepts
//!   local:…      one door; connections are announced to each acceptor in turn
//! ```

use super::BindError;
#[cfg(unix)]
use crate::socket::unix::{self, SocketFile};
use crate::{
    local::{self, Door, LocalListener},
    options::{ListenerOptions, StreamOptions},
    socket::{self, Listener, ListenerFigures, OnAccept},
};
use netwright_core::{Address, LocalLoop, driver::Token};
use socket2::{Socket, Type};
use std::{io, sync::Arc};

pub(super) enum Entrance {
    Socket {
        socket: Socket,
        /// Removed when the last acceptor has gone.
        #[cfg(unix)]
        file: Option<Arc<SocketFile>>,
    },
    Local(Door),
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
    pub(super) fn open(&self, address: Address) -> Result<(Vec<Entrance>, Address), BindError> {
        let first = self.open_one(&address)?;
        let address = first.address().unwrap_or(address);
        let mut entrances = vec![first];
        while entrances.len() < self.acceptors {
            let next = match address {
                Address::Ip(_) => self.open_one(&address)?,
                _ => entrances[0].share().map_err(|error| BindError::io(address.clone(), error))?,
            };
            entrances.push(next);
        }
        Ok((entrances, address))
    }

    fn open_one(&self, address: &Address) -> Result<Entrance, BindError> {
        let setup =
            |why: &dyn std::fmt::Display| BindError::Setup(format!("cannot listen on {address}: {why}"));
        let failed = |error| BindError::io(address.clone(), error);
        if let Address::Local(name) = address {
            let checked = self.listener.check_local().and_then(|()| self.connections.check_local());
            checked.map_err(|why| setup(&why))?;
            let backlog = usize::try_from(self.listener.listen_backlog()).unwrap_or(usize::MAX);
            let door = local::listen(name, backlog, self.connections.clone());
            return door.map(Entrance::Local).map_err(failed);
        }
        let domain = socket::domain(address).map_err(failed)?;
        self.connections.check(domain).map_err(|error| setup(&error))?;
        self.listen_on(address).map_err(failed)
    }

    fn listen_on(&self, address: &Address) -> io::Result<Entrance> {
        let name = address;
        let address = socket::sock_addr(name)?;
        let domain = address.domain();
        let socket = Socket::new(domain, Type::STREAM, None)?;
        let mut options = self.listener.clone();
        if self.acceptors > 1 && name.ip().is_some() {
            options = options.reuse_port(true);
        }
        options.apply(&socket, domain).map_err(io::Error::other)?;
        socket.set_nonblocking(true)?;
        #[cfg(unix)]
        let file = match name {
            Address::Unix(name) => unix::bind(&socket, &address, name, options.mode())?.map(Arc::new),
            _ => socket.bind(&address).map(|()| None)?,
        };
        #[cfg(not(unix))]
        socket.bind(&address)?;
        socket.listen(options.listen_backlog())?;
        Ok(Entrance::Socket {
            socket,
            #[cfg(unix)]
            file,
        })
    }
}

impl Entrance {
    /// The same entrance for another acceptor.
    fn share(&self) -> io::Result<Self> {
        Ok(match self {
            #[cfg(unix)]
            Self::Socket { socket, file } => Self::Socket { socket: socket.try_clone()?, file: file.clone() },
            #[cfg(not(unix))]
            Self::Socket { socket } => Self::Socket { socket: socket.try_clone()? },
            Self::Local(door) => Self::Local(door.clone()),
        })
    }

    /// Whether the system spreads connections over several such entrances.
    pub(super) fn is_on_the_network(&self) -> bool {
        matches!(self.address(), Some(Address::Ip(_)))
    }

    fn address(&self) -> Option<Address> {
        match self {
            Self::Socket { socket, .. } => socket.local_addr().ok().and_then(|taken| socket::address(&taken)),
            Self::Local(_) => None,
        }
    }

    /// Has the loop of the calling thread accept here. Returns the token by which it is deregistered.
    pub(super) fn start(
        self,
        local: &LocalLoop,
        figures: Arc<ListenerFigures>,
        on_accept: OnAccept,
    ) -> io::Result<Token> {
        match self {
            #[cfg(unix)]
            Self::Socket { socket, file } => {
                Listener::start(local, socket, figures, with_file(on_accept, file))
            }
            #[cfg(not(unix))]
            Self::Socket { socket } => Listener::start(local, socket, figures, on_accept),
            Self::Local(door) => LocalListener::start(local, door, figures, on_accept),
        }
    }
}

/// Keeps the file for as long as the listener keeps what it calls.
#[cfg(unix)]
fn with_file(mut on_accept: OnAccept, file: Option<Arc<SocketFile>>) -> OnAccept {
    match file {
        None => on_accept,
        Some(file) => Box::new(move |connection, peer| {
            let _held = &file;
            on_accept(connection, peer);
        }),
    }
}
