//! The floor of UDP by readiness: an edge-triggered epoll loop that echoes by `recvmmsg` and `sendmmsg`.
//!
//! ```text
//!   epoll_wait ─▶ recvmmsg into 64 slots ─▶ sendmmsg of the same headers ─▶ fewer than 64? then it is empty: next event
//! ```
//! One socket, slots of 2 KiB that nobody keeps, and the headers that were received are those that are sent: nothing is
//! set up for a message but its length. What does not fit is cut, and what cannot be sent is dropped.

#![allow(unsafe_code)]

use rustix::{
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    io::Errno,
};
use std::{io, mem, net::UdpSocket, os::fd::AsRawFd, ptr};

/// Datagrams in one call.
const BATCH: usize = 64;
/// Bytes of one.
const SLOT: usize = 2048;

/// Echoes on the calling thread until a system call fails that has no reason to.
pub fn serve(socket: &UdpSocket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, socket, EventData::new_u64(0), EventFlags::IN | EventFlags::OUT | EventFlags::ET)?;

    let mut slots = vec![[0_u8; SLOT]; BATCH];
    // SAFETY: structs of integers, for which all zeroes is a valid value; so are those below.
    let mut names: Vec<libc::sockaddr_in6> = vec![unsafe { mem::zeroed() }; BATCH];
    let mut pieces: Vec<libc::iovec> = slots
        .iter_mut()
        .map(|slot| libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: SLOT })
        .collect();
    let mut headers: Vec<libc::mmsghdr> = (0..BATCH)
        .map(|at| {
            // SAFETY: as above; null pointers are what an unused field has.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            header.msg_hdr.msg_name = (&raw mut names[at]).cast();
            header.msg_hdr.msg_iov = &mut pieces[at];
            header.msg_hdr.msg_iovlen = 1;
            header
        })
        .collect();
    let mut events = Vec::with_capacity(4);
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        loop {
            for (header, piece) in headers.iter_mut().zip(&mut pieces) {
                header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in6>() as u32;
                piece.iov_len = SLOT;
            }
            let received = receive(socket, &mut headers)?;
            for (header, piece) in headers[..received].iter().zip(&mut pieces) {
                piece.iov_len = header.msg_len as usize;
            }
            send(socket, &mut headers[..received])?;
            if received < BATCH {
                break; // it is empty: the next edge tells of more
            }
        }
    }
}

fn receive(socket: &UdpSocket, headers: &mut [libc::mmsghdr]) -> io::Result<usize> {
    // SAFETY: every header points to a slot and a name of the stated lengths, which outlive the loop.
    let received = unsafe {
        libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), headers.len() as u32, 0, ptr::null_mut())
    };
    match usize::try_from(received) {
        Ok(received) => Ok(received),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            error => Err(error),
        },
    }
}

fn send(socket: &UdpSocket, mut headers: &mut [libc::mmsghdr]) -> io::Result<()> {
    while !headers.is_empty() {
        // SAFETY: as above, with lengths that were received.
        let sent =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), headers.len() as u32, 0) };
        match usize::try_from(sent) {
            Ok(sent) => headers = &mut headers[sent..],
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => return Ok(()), // dropped, as networks do
                error => return Err(error),
            },
        }
    }
    Ok(())
}
