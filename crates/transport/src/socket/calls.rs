//! The system calls of a connection that come with every message.
//!
//! Inlined into their callers down to the instruction that enters the kernel: see [`return_stack`](crate::return_stack).

pub(super) use crate::return_stack::refill;
use crate::sys::NO_SIGNAL;
use rustix::net::RecvFlags;
use socket2::Socket;
use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
};

#[inline(always)]
pub(crate) fn recv(socket: &Socket, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let result = rustix::net::recv(socket, room, RecvFlags::empty());
    match result {
        Ok((_, len)) => Ok(len),
        Err(error) => Err(error.into()),
    }
}

#[inline(always)]
pub(super) fn send(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, NO_SIGNAL)?)
}

#[cfg(unix)]
#[inline(always)]
pub(super) fn send_pieces(socket: &Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    let none = &mut rustix::net::SendAncillaryBuffer::default();
    let result = rustix::net::sendmsg(socket, pieces, none, NO_SIGNAL);
    refill();
    Ok(result?)
}

#[cfg(windows)]
pub(super) fn send_pieces(socket: &Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    socket.send_vectored(pieces)
}
