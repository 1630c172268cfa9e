//! The floor of readiness I/O: an edge-triggered epoll loop that does nothing but echo.
//!
//! ```text
//!   epoll_wait ─▶ recv into the one buffer ─▶ send from it ─▶ short read? then the socket is empty: next event
//!                                              └ short send? then the rest is kept, and nothing is read meanwhile
//! ```
//! It comes in two kinds. With [`Inlined`] system calls the whole loop is one function: on processors that have to be kept
//! from speculating past returns (AMD's Zen 3 and 4) that makes a difference of up to a fifth, because the first return
//! after each system call is dear there. With [`Libc`] they are functions, as in nearly every program.
//!
//! Nothing is left out that a server needs (back pressure, resets, half-sent answers), and nothing is in it that an echo
//! server does not need: no timers, no tasks, no second protocol.

use rustix::{
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};
use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    os::fd::{AsRawFd, OwnedFd},
};

/// As much as one read takes.
const BUFFER: usize = 64 * 1024;
const EVENTS: usize = 1024;
const LISTENER: u64 = u64::MAX;

/// How the system is called.
pub trait Calls {
    /// As much as there is, as far as it fits.
    fn recv(stream: &TcpStream, room: &mut [u8]) -> Result<usize, Errno>;
    /// As much as the socket takes.
    fn send(stream: &TcpStream, bytes: &[u8]) -> Result<usize, Errno>;
}

/// By instructions in the middle of the loop.
#[derive(Debug)]
pub struct Inlined;

impl Calls for Inlined {
    #[inline(always)]
    fn recv(stream: &TcpStream, room: &mut [u8]) -> Result<usize, Errno> {
        recv(stream, room, RecvFlags::empty()).map(|(_, len)| len)
    }

    #[inline(always)]
    fn send(stream: &TcpStream, bytes: &[u8]) -> Result<usize, Errno> {
        send(stream, bytes, SendFlags::NOSIGNAL)
    }
}

/// By the functions of the C library.
#[derive(Debug)]
pub struct Libc;

impl Calls for Libc {
    fn recv(mut stream: &TcpStream, room: &mut [u8]) -> Result<usize, Errno> {
        stream.read(room).map_err(errno)
    }

    fn send(mut stream: &TcpStream, bytes: &[u8]) -> Result<usize, Errno> {
        stream.write(bytes).map_err(errno)
    }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

struct Connection {
    stream: TcpStream,
    /// What was read and the socket did not take. While there is any, nothing is read.
    rest: Vec<u8>,
}

/// Echoes on the calling thread until a system call fails that has no reason to.
pub fn serve<C: Calls>(listener: &TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let edge = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;

    let mut buffer = vec![0; BUFFER];
    let mut events = Vec::with_capacity(EVENTS);
    let mut connections: Vec<Option<Connection>> = Vec::new(); // by descriptor
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let at = event.data.u64();
            if at == LISTENER {
                accept(listener, &epoll, edge, &mut connections)?;
                continue;
            }
            let Some(place) = connections.get_mut(at as usize) else { continue };
            let Some(connection) = place else { continue };
            if !echo::<C>(connection, &mut buffer) {
                *place = None;
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    epoll: &OwnedFd,
    edge: EventFlags,
    connections: &mut Vec<Option<Connection>>,
) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                let at = stream.as_raw_fd() as usize;
                if connections.len() <= at {
                    connections.resize_with(at + 1, || None);
                }
                epoll::add(epoll, &stream, EventData::new_u64(at as u64), edge)?;
                connections[at] = Some(Connection { stream, rest: Vec::new() });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Sends back what there is. False if the connection is over.
#[inline(always)]
fn echo<C: Calls>(connection: &mut Connection, buffer: &mut [u8]) -> bool {
    let stream = &connection.stream;
    if !connection.rest.is_empty() {
        match send_all::<C>(stream, &connection.rest) {
            Some(sent) => drop(connection.rest.drain(..sent)),
            None => return false,
        }
        if !connection.rest.is_empty() {
            return true;
        }
    }
    loop {
        let got = match C::recv(stream, buffer) {
            Ok(0) => return false,
            Ok(got) => got,
            Err(Errno::AGAIN) => return true,
            Err(Errno::INTR) => continue,
            Err(_) => return false,
        };
        match send_all::<C>(stream, &buffer[..got]) {
            Some(sent) if sent == got => {}
            Some(sent) => {
                connection.rest.extend_from_slice(&buffer[sent..got]);
                return true; // the socket says when there is room
            }
            None => return false,
        }
        if got < buffer.len() {
            return true; // it is empty: the next edge tells of more
        }
    }
}

/// How much the socket took; a short send means that it is full. `None` if the connection is over.
#[inline(always)]
fn send_all<C: Calls>(stream: &TcpStream, bytes: &[u8]) -> Option<usize> {
    loop {
        return match C::send(stream, bytes) {
            Ok(sent) => Some(sent),
            Err(Errno::AGAIN) => Some(0),
            Err(Errno::INTR) => continue,
            Err(_) => None,
        };
    }
}
