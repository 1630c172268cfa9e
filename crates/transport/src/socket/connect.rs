//! Opens one connection on a loop, within a time limit.

use super::{no_driver, sock_addr};
use crate::{
    options::StreamOptions,
    readiness::{Interest, Readiness},
};
use netwright_core::{
    Address, LocalLoop, RefusedWhy, SourceTimer,
    driver::{Event, Source, Token},
};
use socket2::{Socket, Type};
use std::{io, net::SocketAddr, rc::Rc, time::Duration};

/// Told once: the connected socket, or why there is none.
pub(crate) type OnConnect = Box<dyn FnOnce(io::Result<Socket>)>;

struct Connecting {
    local: LocalLoop,
    readiness: Rc<Readiness>,
    socket: Option<Socket>,
    address: Address,
    token: Token,
    limit: Duration,
    timer: Option<SourceTimer>,
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

/// Begins to connect, on the loop of the calling thread. Dropping the token's source ([`LocalLoop::deregister`]) gives
/// the attempt up.
pub(crate) fn connect(
    local: &LocalLoop,
    address: Address,
    settings: &ConnectSettings,
    done: OnConnect,
) -> Result<Token, io::Error> {
    let readiness = local.driver::<Readiness>().ok_or_else(no_driver)?;
    let (target, limit) = (sock_addr(&address)?, settings.limit);
    let domain = target.domain();
    let socket = Socket::new(domain, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    settings.options.apply(&socket, domain).map_err(io::Error::other)?;
    if let Some(from) = settings.from {
        socket.bind(&from.into())?;
    }
    match socket.connect(&target) {
        Ok(()) => {}
        Err(error) if is_in_progress(&error) => {}
        Err(error) => return Err(error),
    }
    local
        .register_with(|token| {
            readiness.register(&socket, token, Interest::WRITABLE).map_err(ConnectError)?;
            let timer = (!limit.is_zero()).then(|| local.arm(token, limit, 0));
            Ok::<_, ConnectError>(Connecting {
                local: local.clone(),
                readiness,
                socket: Some(socket),
                address,
                token,
                limit,
                timer,
                done: Some(done),
            })
        })
        .map_err(|error| error.0)
}

fn is_in_progress(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(IN_PROGRESS)
}

#[cfg(unix)]
const IN_PROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();
#[cfg(not(unix))]
const IN_PROGRESS: i32 = 10035;

impl Connecting {
    fn finish(&mut self, result: io::Result<()>) {
        let Some(socket) = self.socket.take() else { return };
        let _ = self.readiness.deregister(&socket);
        if let Some(timer) = self.timer.take() {
            self.local.disarm(timer);
        }
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

    fn signal(&mut self, _: u64) {
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
            let _ = self.readiness.deregister(&socket);
        }
        if let Some(timer) = self.timer.take() {
            self.local.disarm(timer);
        }
    }
}

struct ConnectError(io::Error);

impl From<RefusedWhy> for ConnectError {
    fn from(why: RefusedWhy) -> Self {
        Self(io::Error::other(why.to_string()))
    }
}
