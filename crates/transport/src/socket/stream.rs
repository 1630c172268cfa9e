//! A connected socket, TCP or Unix, told by readiness when to try.
//!
//! Always true:
//! 1. The descriptor is registered once, for reading and writing. Edge-triggered: no further registration call is made in
//!    its life. Level-triggered: after each call of the channel the loop knows what the channel can use.
//! 2. A read that does not fill the room has emptied the socket: the next event will tell of more. Not so on Unix sockets,
//!    where a read ends behind descriptors that were sent along, taken or not: these are read until nothing is left. Nor
//!    where a read ends before an urgent byte: events tell of one ([`Ready::URGENT`](netwright_core::driver::Ready::URGENT)), and
//!    where they do not, every socket is read until nothing is left.
//! 3. The descriptor is deregistered before it is closed, and closing it does not block: see `stream::linger`.

#[cfg(unix)]
use super::unix::{self, ReceivedDescriptors};
use super::{
    calls,
    unacknowledged::unacknowledged,
    write::{SocketSink, write_flushed},
};
use crate::{
    readiness::{Interest, Readiness, Registered},
    scratch::{Scratch, scratch},
    stream::{Received, Stream, Wrote},
};
use netwright_core::{GatherCap, Outbound, driver::Token};
use socket2::Socket;
use std::{io, net::Shutdown, rc::Rc, time::Duration};

/// What a connection wants to hear of, and whether urgent bytes are part of it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const INTEREST: (Interest, bool) = (Interest::READABLE.add(Interest::WRITABLE).add(Interest::PRIORITY), true);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const INTEREST: (Interest, bool) = (Interest::READABLE.add(Interest::WRITABLE), false);

/// What a socket is, beside a stream of bytes.
#[derive(Debug, Clone)]
pub(crate) enum SocketKind {
    Tcp,
    /// With a queue if descriptors are wanted that the peer sends along.
    #[cfg(unix)]
    Unix(Option<ReceivedDescriptors>),
}

impl SocketKind {
    pub(super) fn is_unix(&self) -> bool {
        !matches!(self, Self::Tcp)
    }
}

pub(crate) struct SocketStream {
    scratch: Rc<Scratch>,
    socket: Registered<Socket>,
    cap: GatherCap,
    kind: SocketKind,
}

impl SocketStream {
    /// Registers a non-blocking socket under the token.
    pub(crate) fn open(
        readiness: Rc<Readiness>,
        socket: Socket,
        token: Token,
        kind: SocketKind,
    ) -> io::Result<Self> {
        let socket = Registered::new(readiness, socket, token, INTEREST.0)?;
        Ok(Self { scratch: scratch(), socket, cap: GatherCap::default(), kind })
    }
}

impl Stream for SocketStream {
    #[inline(always)] // the system call in it too: see `return_stack`
    fn receive(&mut self) -> io::Result<Received> {
        #[cfg(unix)]
        if let SocketKind::Unix(Some(received)) = &self.kind {
            let bytes = unix::receive(&self.socket, &self.scratch, received)?;
            return Ok(Received { bytes, more: true });
        }
        let (bytes, room) = self.scratch.fill(|room| calls::recv(&self.socket, room))?;
        let more = bytes.len() == room || self.kind.is_unix() || !INTEREST.1;
        Ok(Received { bytes, more })
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.socket.peek(&mut [std::mem::MaybeUninit::uninit()])? == 0)
    }

    #[inline(always)]
    fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
        write_flushed(&SocketSink { socket: &self.socket, kind: &self.kind }, outbound, &mut self.cap)
    }

    fn shut_down_output(&mut self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    fn take_error(&mut self) -> Option<io::Error> {
        match self.socket.take_error() {
            Ok(error) => error,
            Err(error) => Some(error),
        }
    }

    fn unacknowledged(&mut self) -> io::Result<usize> {
        unacknowledged(&self.socket)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn on_its_way(&mut self) -> Option<usize> {
        unacknowledged(&self.socket).ok()
    }

    fn reset_on_close(&mut self) {
        let _ = self.socket.set_linger(Some(Duration::ZERO));
    }

    #[inline(always)]
    fn settle(&mut self, wants_read: bool, waits_for_room: bool) {
        // Once for all system calls of this turn: they are inlined into the channel, so no call has returned since.
        calls::refill();
        self.socket.set_interest(wants_read, waits_for_room);
    }
}
