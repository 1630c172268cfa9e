//! The floor of an HTTP server by readiness: the loop of [`epoll_echo`](super::epoll_echo), `httparse`, and one answer.
//!
//! ```text
//!   epoll_wait ─▶ recv into the one buffer ─▶ parse request after request, an answer for each into the other ─▶ one send
//! ```
//! What a server needs of HTTP for this one answer is there: half requests are kept, what is no request ends the connection,
//! `Connection` and a body are looked for. Everything else is not: other answers, limits, deadlines, `Date`.

use super::{
    epoll_echo::{Calls, Inlined},
    hyper_tokio::ANSWER,
};
use rustix::{
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    io::Errno,
};
use std::{
    io,
    net::{TcpListener, TcpStream},
    os::fd::{AsRawFd, OwnedFd},
};

const BUFFER: usize = 64 * 1024;
const EVENTS: usize = 1024;
const HEADERS: usize = 32;
const LISTENER: u64 = u64::MAX;

struct Connection {
    stream: TcpStream,
    /// The beginning of a request whose end has not come.
    input: Vec<u8>,
    /// What the socket did not take. While there is any, nothing is read.
    rest: Vec<u8>,
}

/// Serves on the calling thread until a system call fails that has no reason to.
pub fn serve(listener: &TcpListener) -> io::Result<()> {
    serve_with(listener, parse)
}

/// The same with other answers: `parse` gets what has come, adds an answer for each whole request, and says how many bytes these
/// were; `None` ends the connection.
pub fn serve_with(
    listener: &TcpListener,
    mut parse: impl FnMut(&[u8], &mut Vec<u8>) -> Option<usize>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let edge = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;

    let mut buffer = vec![0; BUFFER];
    let mut answers = Vec::with_capacity(BUFFER);
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
            if !answer(connection, &mut buffer, &mut answers, &mut parse) {
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
                connections[at] = Some(Connection { stream, input: Vec::new(), rest: Vec::new() });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Answers what there is. False if the connection is over.
#[inline(always)]
fn answer(
    connection: &mut Connection,
    buffer: &mut [u8],
    answers: &mut Vec<u8>,
    parse: &mut impl FnMut(&[u8], &mut Vec<u8>) -> Option<usize>,
) -> bool {
    if !connection.rest.is_empty() {
        match send_all(&connection.stream, &connection.rest) {
            Some(sent) => drop(connection.rest.drain(..sent)),
            None => return false,
        }
        if !connection.rest.is_empty() {
            return true;
        }
    }
    loop {
        let got = match Inlined::recv(&connection.stream, buffer) {
            Ok(0) => return false,
            Ok(got) => got,
            Err(Errno::AGAIN) => return true,
            Err(Errno::INTR) => continue,
            Err(_) => return false,
        };
        answers.clear();
        let used = if connection.input.is_empty() {
            parse(&buffer[..got], answers)
        } else {
            connection.input.extend_from_slice(&buffer[..got]);
            parse(&connection.input, answers)
        };
        let Some(used) = used else { return false };
        if connection.input.is_empty() {
            connection.input.extend_from_slice(&buffer[used..got]);
        } else {
            connection.input.drain(..used);
        }
        match send_all(&connection.stream, answers) {
            Some(sent) if sent == answers.len() => {}
            Some(sent) => {
                connection.rest.extend_from_slice(&answers[sent..]);
                return true; // the socket says when there is room
            }
            None => return false,
        }
        if got < buffer.len() {
            return true; // it is empty: the next edge tells of more
        }
    }
}

/// An answer for each whole request. How many bytes these were; `None` if one is not to be answered.
#[inline(always)]
fn parse(bytes: &[u8], answers: &mut Vec<u8>) -> Option<usize> {
    let mut used = 0;
    while used < bytes.len() {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes[used..]).ok()? {
            httparse::Status::Partial => break,
            httparse::Status::Complete(len) => used += len,
        }
        for header in request.headers.iter() {
            let name = header.name;
            if name.eq_ignore_ascii_case("connection")
                || name.eq_ignore_ascii_case("content-length")
                || name.eq_ignore_ascii_case("transfer-encoding")
            {
                return None; // nobody here sends them
            }
        }
        if request.path != Some("/plaintext") {
            return None;
        }
        answers.extend_from_slice(ANSWER);
    }
    Some(used)
}

#[inline(always)]
fn send_all(stream: &TcpStream, bytes: &[u8]) -> Option<usize> {
    loop {
        return match Inlined::send(stream, bytes) {
            Ok(sent) => Some(sent),
            Err(Errno::AGAIN) => Some(0),
            Err(Errno::INTR) => continue,
            Err(_) => None,
        };
    }
}
