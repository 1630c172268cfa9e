//! Opens one connection on a loop, within a time limit.

use super::{no_driver, sock_addr};
use crate::{
    options::StreamOptions,
    readiness::{Interest, Readiness},
    sys::errors::is_in_progress,
};
use netwright_core::{
    Address, LocalLoop, SourceTimer,
    driver::{Event, Source, Token},
};
use socket2::{Domain, SockAddr, Socket, Type};
use std::{io, net::SocketAddr, rc::Rc, time::Duration};

/// Told once: the connected socket, or why there is none.
pub(crate) type OnConnect = Box<dyn FnOnce(io::Result<Socket>)>;

/// The time is up.
const LIMIT: u64 = 0;
/// A listener that had no room may have some.
const AGAIN: u64 = 1;
/// How long to leave it alone: it accepts some hundred connections meanwhile.
const RETRY: Duration = Duration::from_millis(5);

struct Connecting {
    local: LocalLoop,
    readiness: Rc<Readiness>,
    socket: Option<Socket>,
    address: Address,
    token: Token,
    limit: Duration,
    timer: Option<SourceTimer>,
    /// Whom to ask again, and when, because it had no room; then the socket is not registered.
    retry: Option<(SockAddr, SourceTimer)>,
    done: Option<OnConnect>,
}

/// How to connect.
#[derive(Debug, Clone)]
pub(crate) struct ConnectSettings {
    /// From where, if that matters.
    pub(crate) from: Option<SocketAddr>,
    /// How long it may take; zero: as long as the system likes.
    pub(crate) limit: Duration,
    /// Set before connecting, because some of them are part of the handshake.
    pub(crate) options: StreamOptions,
}

impl ConnectSettings {
    /// Whether a connection to this address can come from where it is to come from.
    pub(crate) fn check_from(&self, to: &Address) -> io::Result<()> {
        match self.from {
            Some(from) if to.ip().is_none() => {
                let text = format!("local_addr is {from}, but a Unix socket has no host and port");
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
            _ => Ok(()),
        }
    }
}

/// Begins to connect, on the loop of the calling thread. Dropping the token's source ([`LocalLoop::deregister`]) gives
/// the attempt up.
pub(crate) fn connect(
    local: &LocalLoop,
    address: Address,
    settings: &ConnectSettings,
    done: OnConnect,
) -> Result<Token, io::Error> {
    let (target, limit) = (sock_addr(&address)?, settings.limit);
    let domain = target.domain();
    let socket = Socket::new(domain, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    settings.options.apply(&socket, domain).map_err(io::Error::other)?;
    settings.check_from(&address)?;
    if let Some(from) = settings.from {
        socket.bind(&from.into())?;
    }
    #[cfg(all(target_os = "linux", feature = "uring"))]
    if address.ip().is_some()
        && let Some(uring) = local.driver()
    {
        let target = crate::uring::Target { address, sock_addr: target, limit };
        return crate::uring::connect(local, uring, socket, target, done);
    }
    let readiness = Readiness::of(local).ok_or_else(no_driver)?;
    // The queue of a Unix listener is full: the system does not tell when it has room.
    let mut full = false;
    match socket.connect(&target) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && domain == Domain::UNIX => full = true,
        Err(error) if is_in_progress(&error) => {}
        Err(error) => return Err(error),
    }
    local.register_with(|token| {
        if !full {
            readiness.register(&socket, token, Interest::WRITABLE)?;
        }
        let timer = (!limit.is_zero()).then(|| local.arm(token, limit, LIMIT));
        let retry = full.then(|| (target, local.arm(token, RETRY, AGAIN)));
        Ok(Connecting {
            local: local.clone(),
            readiness,
            socket: Some(socket),
            address,
            token,
            limit,
            timer,
            retry,
            done: Some(done),
        })
    })
}

impl Connecting {
    /// Takes back what was asked of the driver and the loop.
    fn forget(&mut self, socket: &Socket) {
        match self.retry.take() {
            Some((_, timer)) => drop(self.local.disarm(timer)),
            None => drop(self.readiness.deregister(socket)),
        }
        if let Some(timer) = self.timer.take() {
            self.local.disarm(timer);
        }
    }

    fn try_again(&mut self) {
        let (Some((target, timer)), Some(socket)) = (&mut self.retry, &self.socket) else { return };
        match socket.connect(target) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                *timer = self.local.arm(self.token, RETRY, AGAIN);
            }
            result => self.finish(result),
        }
    }

    fn finish(&mut self, result: io::Result<()>) {
        let Some(socket) = self.socket.take() else { return };
        self.forget(&socket);
        self.local.deregister(self.token);
        if let Some(done) = self.done.take() {
            done(result.map(|()| socket));
        }
    }
}

impl Source for Connecting {
    fn ready(&mut self, _: Event) {
        let Some(socket) = &self.socket else { return };
        match socket.take_error() {
            Ok(Some(error)) | Err(error) => self.finish(Err(error)),
            // An event can come before the connection has: only a peer address proves that it is there.
            Ok(None) => match socket.peer_addr() {
                Ok(_) => self.finish(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
                Err(error) => self.finish(Err(error)),
            },
        }
    }

    fn signal(&mut self, signal: u64) {
        if signal == AGAIN {
            return self.try_again();
        }
        self.timer = None;
        let text = format!("no answer from {} within {:?}", self.address, self.limit);
        self.finish(Err(io::Error::new(io::ErrorKind::TimedOut, text)));
    }

    fn shut_down(&mut self) {
        self.finish(Err(io::Error::other("the event loop was shut down")));
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take() {
            self.forget(&socket);
        }
    }
}
