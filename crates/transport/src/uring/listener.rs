//! Accepts connections by one operation that lasts, with the rules of [`socket::Listener`](crate::socket::Listener) for a
//! system that has no descriptor left.

use super::{Uring, slot::Key};
use crate::{
    socket::{self, ACCEPTS_PER_TURN, ListenerFigures, Mishap, Mishaps, PAUSE, Reception, spare},
    stream::Carried,
    sys::accept,
};
use netwright_core::{
    Address, LocalLoop, RefusedWhy, SourceTimer,
    driver::{Event, Source, Token},
};
use socket2::Socket;
use std::{
    fs::File,
    io,
    net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr},
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

/// Stands for a peer that was gone before it was asked for its address. The first read tells.
const NOBODY: Address = Address::Ip(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));

pub(crate) struct UringListener {
    local: LocalLoop,
    uring: Rc<Uring>,
    key: Key,
    token: Token,
    reception: Box<dyn Reception>,
    spare: Option<File>,
    figures: Arc<ListenerFigures>,
    resume: Option<SourceTimer>,
    mishaps: Mishaps,
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
        local
            .register_with(|token| {
                let key = uring.add_listener(socket, token).map_err(StartError)?;
                uring.wants_accept(key, true);
                let (local, spare) = (local.clone(), spare());
                Ok::<_, StartError>(Self {
                    local,
                    uring,
                    key,
                    token,
                    reception,
                    spare,
                    figures,
                    resume: None,
                    mishaps: Mishaps::default(),
                })
            })
            .map_err(|error| error.0)
    }

    fn accept_some(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN {
            if self.figures.held.load(Ordering::Acquire) {
                return self.uring.wants_accept(self.key, false); // those that were accepted by now wait here
            }
            match self.uring.accepted(self.key) {
                None => return,
                Some(Err(error)) => match self.mishaps.judge(&error) {
                    Mishap::Pause => return self.fail(&error),
                    Mishap::Broken => return self.give_up(error),
                    mishap => {
                        if mishap == Mishap::Next {
                            self.figures.passed_over(&error);
                            self.reception.failed(&error, None);
                        }
                        self.uring.wants_accept(self.key, true); // the error has ended the operation
                    }
                },
                Some(Ok(connection)) => {
                    self.mishaps.forget();
                    let peer = connection.peer_addr().ok().and_then(|peer| socket::address(&peer));
                    self.figures.accepted.fetch_add(1, Ordering::Relaxed);
                    self.reception.accepted(Carried::Socket(connection), peer.unwrap_or(NOBODY));
                }
            }
        }
        self.local.call(self.token); // there may be more
    }

    fn give_up(&mut self, error: io::Error) {
        self.figures.failures.fetch_add(1, Ordering::Relaxed);
        self.reception.broken(error);
        self.local.deregister(self.token);
    }

    fn fail(&mut self, error: &io::Error) {
        self.figures.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, pause = ?PAUSE, "accepting failed; pausing, still listening");
        self.reception.failed(error, Some(PAUSE));
        self.uring.wants_accept(self.key, false);
        self.refuse_one();
        self.figures.paused.store(true, Ordering::Relaxed);
        self.resume = Some(self.local.arm(self.token, PAUSE, 0));
    }

    /// Tells one waiting peer that there is no room, with the descriptor that was kept for this.
    fn refuse_one(&mut self) {
        if self.spare.take().is_none() {
            return;
        }
        let refused = self.uring.socket(self.key, accept);
        if let Ok((connection, peer)) = refused {
            self.figures.refused.fetch_add(1, Ordering::Relaxed);
            Carried::Socket(connection).reset();
            self.reception.refused(peer);
        }
        self.spare = spare();
    }
}

impl Source for UringListener {
    fn ready(&mut self, _: Event) {
        if self.resume.is_some() {
            return;
        }
        if !self.figures.held.load(Ordering::Acquire) {
            self.uring.go_on_accepting(self.key);
        }
        self.accept_some();
    }

    fn signal(&mut self, _: u64) {
        self.resume = None;
        if self.spare.is_none() {
            self.spare = spare(); // another thread was faster when it was given up
        }
        self.figures.paused.store(false, Ordering::Relaxed);
        self.uring.wants_accept(self.key, true);
        self.accept_some();
    }

    fn shut_down(&mut self) {
        self.reception.loop_ends();
        self.local.deregister(self.token);
    }
}

impl Drop for UringListener {
    fn drop(&mut self) {
        // The operation that accepts holds the socket until it is cancelled, but nobody shall connect from now on. A socket that
        // others accept from is shut down with the last of them.
        if !self.reception.shares_socket() {
            let _ = self.uring.socket(self.key, |socket| socket.shutdown(Shutdown::Both));
        }
        self.uring.close(self.key);
        if let Some(timer) = self.resume.take() {
            self.local.disarm(timer);
            self.figures.paused.store(false, Ordering::Relaxed);
        }
    }
}

struct StartError(io::Error);

impl From<RefusedWhy> for StartError {
    fn from(why: RefusedWhy) -> Self {
        Self(io::Error::other(why.to_string()))
    }
}
