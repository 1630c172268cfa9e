//! The system calls of a connection that come with every message.
//!
//! Inlined into their callers down to the instruction that enters the kernel: see [`return_stack`](crate::return_stack).

use socket2::Socket;
use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
};

#[cfg(unix)]
mod unix {
    use super::{IoSlice, MaybeUninit, Socket, io};
    pub(in crate::socket) use crate::return_stack::refill;
    use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};

    #[inline(always)]
    pub(crate) fn recv(socket: &Socket, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        let result = rustix::net::recv(socket, room, RecvFlags::empty());
        match result {
            Ok((_, len)) => Ok(len),
            Err(error) => Err(error.into()),
        }
    }

    #[inline(always)]
    pub(in crate::socket) fn send(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
    }

    #[inline(always)]
    pub(in crate::socket) fn send_pieces(socket: &Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let none = &mut SendAncillaryBuffer::default();
        let result = rustix::net::sendmsg(socket, pieces, none, SendFlags::NOSIGNAL);
        refill();
        Ok(result?)
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use super::{IoSlice, MaybeUninit, Socket, io};

    pub(in crate::socket) fn recv(socket: &Socket, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        socket.recv(room)
    }
    pub(in crate::socket) fn send(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        socket.send(bytes)
    }
    pub(in crate::socket) fn send_pieces(socket: &Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        socket.send_vectored(pieces)
    }
    pub(in crate::socket) fn refill() {}
}

#[cfg(not(unix))]
pub(super) use elsewhere::{recv, refill, send, send_pieces};
#[cfg(unix)]
pub(crate) use unix::recv;
#[cfg(unix)]
pub(super) use unix::{refill, send, send_pieces};
