//! Accepts on a socket, told by readiness when to try.

use super::no_driver;
use crate::{
    open::{Acceptor, Arrival},
    readiness::{Interest, Readiness, Registered},
    stream::Carried,
    sys::accept,
};
use netwright_core::{LocalLoop, driver::Token};
use socket2::Socket;
use std::io;

pub(crate) struct SocketAcceptor {
    socket: Registered<Socket>,
}

impl SocketAcceptor {
    /// Registers a non-blocking socket that listens, under the token.
    pub(crate) fn open(local: &LocalLoop, socket: Socket, token: Token) -> io::Result<Box<dyn Acceptor>> {
        let readiness = Readiness::of(local).ok_or_else(no_driver)?;
        let socket = Registered::new(readiness, socket, token, Interest::READABLE)?;
        Ok(Box::new(Self { socket }))
    }
}

impl Acceptor for SocketAcceptor {
    fn accept(&mut self) -> io::Result<Arrival> {
        let (socket, peer) = accept(&self.socket)?;
        Ok(Arrival { carried: Carried::Socket(socket), peer })
    }

    fn settle(&mut self, accepts: bool) {
        self.socket.set_interest(accepts, false);
    }
}
