//! Accepts connections by one operation that lasts, with the rules of [`Accepting`] for a system that has no descriptor left.

use super::{Uring, slot::Key};
use crate::{
    socket::{self, ACCEPTS_PER_TURN, Accepting, ListenerFigures, Mishap, Reception},
    stream::Carried,
    sys::accept,
};
use netwright_core::{
    Address, LocalLoop,
    driver::{Event, Source, Token},
};
use socket2::Socket;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr},
    rc::Rc,
    sync::Arc,
};

/// Stands for a peer that was gone before it was asked for its address. The first read tells.
const NOBODY: Address = Address::Ip(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));

pub(crate) struct UringListener {
    uring: Rc<Uring>,
    key: Key,
    accepting: Accepting,
}

impl UringListener {
    /// Has the loop of the calling thread accept on this socket. Returns the token by which it is deregistered.
    pub(crate) fn start(
        local: &LocalLoop,
        uring: Rc<Uring>,
        socket: Socket,
        figures: Arc<ListenerFigures>,
        reception: Box<dyn Reception>,
    ) -> io::Result<Token> {
        local.register_with(|token| {
            let key = uring.add_listener(socket, token)?;
            uring.wants_accept(key, true);
            Ok(Self { uring, key, accepting: Accepting::new(local, token, figures, reception) })
        })
    }

    fn accept_some(&mut self) {
        let mut share = 0;
        while share < ACCEPTS_PER_TURN {
            if !self.accepting.may_accept() {
                return self.uring.wants_accept(self.key, false); // those that were accepted by now wait here
            }
            match self.uring.accepted(self.key) {
                None => return,
                Some(Err(error)) => match self.accepting.judge(&error) {
                    Mishap::Pause => return self.pause(&error),
                    Mishap::Broken => return self.accepting.broken(error),
                    _ => {
                        share += 1;
                        self.uring.wants_accept(self.key, true); // the error has ended the operation
                    }
                },
                Some(Ok(connection)) => {
                    let peer = connection.peer_addr().ok().and_then(|peer| socket::address(&peer));
                    share += self.accepting.accepted(Carried::Socket(connection), peer.unwrap_or(NOBODY));
                }
            }
        }
        self.accepting.call_again();
    }

    fn pause(&mut self, error: &io::Error) {
        self.uring.wants_accept(self.key, false);
        self.accepting.pause(error, || {
            let (connection, peer) = self.uring.socket(self.key, accept)?;
            Ok((Carried::Socket(connection), peer))
        });
    }
}

impl Source for UringListener {
    fn ready(&mut self, _: Event) {
        if self.accepting.pauses() {
            return;
        }
        if self.accepting.may_accept() {
            self.uring.go_on_accepting(self.key);
        }
        self.accept_some();
    }

    fn signal(&mut self, timer: u64) {
        if self.accepting.go_on(timer) {
            self.uring.wants_accept(self.key, true);
            self.accept_some();
        }
    }

    fn shut_down(&mut self) {
        self.accepting.loop_ends();
    }
}

impl Drop for UringListener {
    fn drop(&mut self) {
        // The operation that accepts holds the socket until it is cancelled, but nobody shall connect from now on. A socket that
        // others accept from is shut down with the last of them.
        if !self.accepting.shares_socket() {
            let _ = self.uring.socket(self.key, |socket| socket.shutdown(Shutdown::Both));
        }
        self.uring.close(self.key);
    }
}
