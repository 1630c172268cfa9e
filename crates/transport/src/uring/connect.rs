//! Opens one connection by a ring, within a time limit.

use super::{Uring, slot::Key};
use crate::socket::OnConnect;
use netwright_core::{
    Address, LocalLoop, SourceTimer,
    driver::{Event, Source, Token},
};
use socket2::{SockAddr, Socket};
use std::{io, rc::Rc, time::Duration};

struct Connecting {
    local: LocalLoop,
    uring: Rc<Uring>,
    key: Key,
    address: Address,
    token: Token,
    limit: Duration,
    timer: Option<SourceTimer>,
    done: Option<OnConnect>,
}

/// Where to, and how long it may take; no limit if that is zero.
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) sock_addr: SockAddr,
    pub(crate) limit: Duration,
}

/// Begins to connect a socket that is set up. Dropping the token's source gives the attempt up.
pub(crate) fn connect(
    local: &LocalLoop,
    uring: Rc<Uring>,
    socket: Socket,
    target: Target,
    done: OnConnect,
) -> io::Result<Token> {
    let Target { address, sock_addr, limit } = target;
    local.register_with(|token| {
        let key = uring.add_connect(socket, sock_addr, token)?;
        let timer = (!limit.is_zero()).then(|| local.arm(token, limit, 0));
        let (local, done) = (local.clone(), Some(done));
        Ok(Connecting { local, uring, key, address, token, limit, timer, done })
    })
}

impl Connecting {
    fn finish(&mut self, result: io::Result<Socket>) {
        let Some(done) = self.done.take() else { return };
        self.give_up();
        self.local.deregister(self.token);
        done(result);
    }

    fn give_up(&mut self) {
        self.uring.close(self.key);
        if let Some(timer) = self.timer.take() {
            self.local.disarm(timer);
        }
    }
}

impl Source for Connecting {
    fn ready(&mut self, _: Event) {
        if let Some(result) = self.uring.connected(self.key) {
            self.finish(result);
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
        self.give_up();
    }
}
