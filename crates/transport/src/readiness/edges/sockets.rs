//! The table by socket, for Windows: what `mio` tells once is asked for again before each wait, so events are levels.
//!
//! ```text
//!   register(socket, token) ──▶ a duplicate of the handle, as mio's type ──▶ mio::Poll, under the number of the socket
//!   wait ──▶ event by number ──▶ whose? ──▶ noted in `told`, and given out by token
//!   next wait ──▶ all in `told` that want it are asked for once more
//! ```
//! The system polls a socket once for each question. `mio` keeps what it needs for that in types of its own and asks again
//! when *they* would block, which tells nothing to those who read and write by themselves. So we ask again: while a socket is
//! ready and its source wants to hear of it, each wait says so, as `poll(2)` does.
//!
//! Always true between calls:
//! 1. A socket is in the table exactly if the present poll knows its duplicate, under the number of the socket.
//! 2. What is asked of the system is what is `wanted`, and a source that wants nothing is not asked for.
//! 3. A duplicate does not outlive its registration: closing the socket then ends the connection.

use super::{Edges, not_registered, number, registered_already};
use crate::sys::{AsSource, RawSource, raw};
use mio::Interest;
use netwright_core::driver::Token;
use std::{collections::HashMap, io};

struct Registration {
    duplicate: mio::net::TcpStream,
    token: Token,
    wanted: Option<Interest>,
}

#[derive(Default)]
pub(super) struct Table {
    sockets: HashMap<RawSource, Registration>,
    /// Whose events were given out since the last wait.
    told: Vec<RawSource>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.sockets.len()
    }

    fn get(&mut self, socket: RawSource) -> io::Result<&mut Registration> {
        self.sockets.get_mut(&socket).ok_or_else(|| not_registered(socket))
    }
}

/// What a source does; what it means is said at [`Readiness`](crate::Readiness).
impl Edges {
    pub(in crate::readiness) const IS_LEVEL: bool = true;

    pub(in crate::readiness) fn register(
        &self,
        source: &impl AsSource,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let socket = raw(source);
        number(token)?;
        let mut table = self.table.borrow_mut();
        if table.sockets.contains_key(&socket) {
            return Err(registered_already(socket));
        }
        // Whatever kind of socket it is: it is never read or written by this type.
        let duplicate = source.as_socket().try_clone_to_owned()?;
        let mut duplicate = mio::net::TcpStream::from_std(duplicate.into());
        self.with(|registry| registry.register(&mut duplicate, name(socket), interest))?;
        table.sockets.insert(socket, Registration { duplicate, token, wanted: Some(interest) });
        Ok(())
    }

    pub(in crate::readiness) fn reregister(
        &self,
        source: &impl AsSource,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let socket = raw(source);
        number(token)?;
        let mut table = self.table.borrow_mut();
        let place = table.get(socket)?;
        self.with(|registry| registry.reregister(&mut place.duplicate, name(socket), interest))?;
        (place.token, place.wanted) = (token, Some(interest));
        Ok(())
    }

    pub(in crate::readiness) fn deregister(&self, source: &impl AsSource) -> io::Result<()> {
        let socket = raw(source);
        let mut left =
            self.table.borrow_mut().sockets.remove(&socket).ok_or_else(|| not_registered(socket))?;
        self.with(|registry| registry.deregister(&mut left.duplicate))
    }

    pub(in crate::readiness) fn set_interest(
        &self,
        source: &impl AsSource,
        reads: bool,
        writes: bool,
    ) -> io::Result<()> {
        let socket = raw(source);
        let wanted = match (reads, writes) {
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Some(Interest::READABLE),
            (false, true) => Some(Interest::WRITABLE),
            (false, false) => None,
        };
        let mut table = self.table.borrow_mut();
        let place = table.get(socket)?;
        if std::mem::replace(&mut place.wanted, wanted) == wanted {
            return Ok(()); // asked for, or about to be
        }
        let Some(interest) = wanted else { return Ok(()) };
        self.with(|registry| registry.reregister(&mut place.duplicate, name(socket), interest))
    }

    /// Moves all registrations to `poll` and drops the present one; on an error everything stays as it is.
    pub(in crate::readiness) fn move_to(&self, poll: mio::Poll) -> io::Result<usize> {
        use std::os::windows::io::AsSocket;
        let mut table = self.table.borrow_mut();
        let mut moved = HashMap::with_capacity(table.len());
        for (&socket, Registration { duplicate, token, wanted }) in &table.sockets {
            let duplicate = duplicate.as_socket().try_clone_to_owned()?;
            let mut duplicate = mio::net::TcpStream::from_std(duplicate.into());
            // Who wants nothing may hear of something once.
            let interest = wanted.unwrap_or(Interest::READABLE);
            poll.registry().register(&mut duplicate, name(socket), interest)?;
            moved.insert(socket, Registration { duplicate, token: *token, wanted: *wanted });
        }
        table.sockets = moved;
        *self.poll.borrow_mut() = Some(poll);
        Ok(table.len())
    }

    /// Before each wait: those whose events were given out may still be ready.
    pub(super) fn ask_again(&self) -> io::Result<()> {
        let table = &mut *self.table.borrow_mut();
        for socket in table.told.drain(..) {
            if let Some(Registration { duplicate, wanted: Some(interest), .. }) =
                table.sockets.get_mut(&socket)
            {
                self.with(|registry| registry.reregister(duplicate, name(socket), *interest))?;
            }
        }
        Ok(())
    }

    /// Whose event it is; `None` if nobody's any more.
    pub(in crate::readiness) fn whose(&self, number: mio::Token) -> Option<Token> {
        let table = &mut *self.table.borrow_mut();
        let socket = number.0 as RawSource;
        let token = table.sockets.get(&socket)?.token;
        table.told.push(socket);
        Some(token)
    }
}

/// Under which number the poll knows a socket. None is 0, which is the waker's.
fn name(socket: RawSource) -> mio::Token {
    mio::Token(socket as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readiness::{edges::SOURCE_TOKEN_MIN, wait::Brought};
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        time::{Duration, Instant},
    };

    fn edges() -> Edges {
        Edges::new(mio::Poll::new().unwrap())
    }

    fn token(index: u64) -> Token {
        Token::from_u64(SOURCE_TOKEN_MIN + index)
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// Whose events come first, within a time. A wait can end without one, when what was asked for has changed.
    fn wait(edges: &Edges, limit: Duration) -> Vec<Token> {
        let (mut brought, begun) = (Brought::with_capacity(16), Instant::now());
        loop {
            edges.poll(&mut brought, Some(limit)).unwrap();
            let told: Vec<_> = brought.iter().filter_map(|(number, _)| edges.whose(number)).collect();
            if !told.is_empty() || begun.elapsed() >= limit {
                return told;
            }
        }
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn a_socket_is_registered_once_and_only_a_registered_one_changes_or_leaves() {
        let (edges, (near, _far)) = (edges(), pair());
        for error in [
            edges.reregister(&near, token(1), Interest::READABLE).unwrap_err(),
            edges.set_interest(&near, true, false).unwrap_err(),
            edges.deregister(&near).unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
        }
        edges.register(&near, token(1), Interest::READABLE).unwrap();
        let again = edges.register(&near, token(2), Interest::READABLE).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        edges.deregister(&near).unwrap();
        assert_eq!(edges.len(), 0);
    }

    #[test]
    fn what_is_ready_is_told_at_each_wait_until_it_is_used_up_or_not_wanted() {
        let (edges, (mut near, mut far)) = (edges(), pair());
        edges.register(&near, token(1), Interest::READABLE).unwrap();
        far.write_all(b"x").unwrap();
        for _ in 0..3 {
            assert_eq!(wait(&edges, LONG), [token(1)]);
        }
        edges.set_interest(&near, false, false).unwrap();
        assert_eq!(wait(&edges, SHORT), []);
        edges.set_interest(&near, true, false).unwrap();
        assert_eq!(wait(&edges, LONG), [token(1)]);
        assert_eq!(near.read(&mut [0; 8]).unwrap(), 1);
        assert_eq!(wait(&edges, SHORT), []);
        far.write_all(b"y").unwrap();
        assert_eq!(wait(&edges, LONG), [token(1)]);
    }

    #[test]
    fn a_move_takes_all_sockets_along_with_what_they_wait_for() {
        let (edges, (near, mut far)) = (edges(), pair());
        edges.register(&near, token(1), Interest::READABLE).unwrap();
        assert_eq!(edges.move_to(mio::Poll::new().unwrap()).unwrap(), 1);
        far.write_all(b"x").unwrap();
        assert_eq!(wait(&edges, LONG), [token(1)]);
    }

    #[test]
    fn a_socket_that_is_closed_behind_its_registration_ends_its_connection() {
        let (edges, (near, mut far)) = (edges(), pair());
        edges.register(&near, token(1), Interest::READABLE).unwrap();
        edges.deregister(&near).unwrap();
        drop(near);
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 0);
    }
}
