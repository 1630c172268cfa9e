//! The table by descriptor: enough to tell it all to another poll.

use super::{Edges, not_registered, number};
use crate::sys::{AsSource, RawSource, errors::is_gone, raw};
use mio::Interest;
use netwright_core::driver::Token;
use std::{collections::HashMap, io};

#[derive(Debug, Clone, Copy)]
pub(super) struct Registration {
    token: Token,
    interest: Interest,
}

#[derive(Debug, Default)]
pub(super) struct Table(HashMap<RawSource, Registration>);

impl Table {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// What a source does; what it means is said at [`Readiness`](crate::Readiness).
impl Edges {
    pub(in crate::readiness) const IS_LEVEL: bool = false;

    /// Panics in debug builds, if the descriptor's number is in the table for a descriptor that was closed without being
    /// deregistered. Release builds take the newcomer.
    pub(in crate::readiness) fn register(
        &self,
        source: &impl AsSource,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let fd = raw(source);
        let number = number(token)?;
        self.with(|registry| registry.register(&mut mio::unix::SourceFd(&fd), number, interest))?;
        let before = self.table.borrow_mut().0.insert(fd, Registration { token, interest });
        debug_assert!(
            before.is_none(),
            "descriptor {fd} is registered for {token:?}, but a source closed it without deregistering: {before:?}"
        );
        Ok(())
    }

    pub(in crate::readiness) fn reregister(
        &self,
        source: &impl AsSource,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let fd = raw(source);
        let number = number(token)?;
        let mut table = self.table.borrow_mut();
        let place = table.0.get_mut(&fd).ok_or_else(|| not_registered(fd))?;
        self.with(|registry| registry.reregister(&mut mio::unix::SourceFd(&fd), number, interest))?;
        *place = Registration { token, interest };
        Ok(())
    }

    pub(in crate::readiness) fn deregister(&self, source: &impl AsSource) -> io::Result<()> {
        let fd = raw(source);
        self.table.borrow_mut().0.remove(&fd).ok_or_else(|| not_registered(fd))?;
        self.with(|registry| registry.deregister(&mut mio::unix::SourceFd(&fd)))
    }

    /// Edges come without being asked for.
    #[inline]
    pub(in crate::readiness) fn set_interest(&self, _: &impl AsSource, _: bool, _: bool) -> io::Result<()> {
        Ok(())
    }

    /// Moves all registrations to `poll` and drops the present one; on an error everything stays as it is.
    pub(in crate::readiness) fn move_to(&self, poll: mio::Poll) -> io::Result<usize> {
        let mut table = self.table.borrow_mut();
        let mut gone = Vec::new();
        for (&fd, registration) in &table.0 {
            let number = number(registration.token)?;
            let source = &mut mio::unix::SourceFd(&fd);
            match poll.registry().register(source, number, registration.interest) {
                Ok(()) => {}
                Err(error) if is_gone(&error) => gone.push(fd),
                Err(error) => return Err(error),
            }
        }
        for fd in gone {
            let left = table.0.remove(&fd);
            tracing::warn!(fd, registration = ?left, "a source closed its descriptor without deregistering it");
        }
        *self.poll.borrow_mut() = Some(poll);
        Ok(table.len())
    }

    /// Nothing has to be asked for again.
    #[inline(always)]
    pub(super) fn ask_again(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whose event it is.
    #[inline(always)]
    pub(in crate::readiness) fn whose(&self, number: mio::Token) -> Option<Token> {
        Some(Token::from_u64(number.0 as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readiness::edges::SOURCE_TOKEN_MIN;
    use std::os::unix::net::UnixStream;

    fn edges() -> Edges {
        Edges::new(mio::Poll::new().unwrap())
    }

    fn token(index: u64) -> Token {
        Token::from_u64(SOURCE_TOKEN_MIN + index)
    }

    #[test]
    fn a_descriptor_is_registered_once_and_only_a_registered_one_changes_or_leaves() {
        let edges = edges();
        let (stream, _peer) = UnixStream::pair().unwrap();
        for error in [
            edges.reregister(&stream, token(1), Interest::READABLE).unwrap_err(),
            edges.deregister(&stream).unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
        }
        edges.register(&stream, token(1), Interest::READABLE).unwrap();
        let again = edges.register(&stream, token(2), Interest::READABLE).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        edges.reregister(&stream, token(3), Interest::WRITABLE).unwrap();
        assert_eq!(edges.len(), 1);
        edges.deregister(&stream).unwrap();
        assert!(edges.len() == 0);
    }

    #[test]
    fn a_small_token_is_refused_because_it_could_be_the_wakers() {
        let (stream, _peer) = UnixStream::pair().unwrap();
        let error = edges().register(&stream, Token::from_u64(0), Interest::READABLE).unwrap_err();
        assert_eq!(error.to_string(), "token is 0, but a loop gives out none below 4294967296");
    }

    #[test]
    fn after_the_poll_was_taken_registrations_are_refused() {
        let edges = edges();
        let (stream, _peer) = UnixStream::pair().unwrap();
        assert!(edges.take_poll().is_some());
        let error = edges.register(&stream, token(1), Interest::READABLE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        assert!(edges.len() == 0);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "closed it without deregistering")]
    fn a_number_that_is_reused_before_it_was_deregistered_is_noticed() {
        let edges = edges();
        let (first, second) = UnixStream::pair().unwrap();
        let mut first = std::os::fd::OwnedFd::from(first);
        edges.register(&first, token(1), Interest::READABLE).unwrap();
        rustix::io::dup2(&second, &mut first).unwrap(); // closes the old one and takes its number, in one step
        edges.register(&first, token(2), Interest::READABLE).unwrap();
    }

    #[test]
    fn a_descriptor_that_became_a_file_is_left_behind_by_a_move_and_the_others_move() {
        let edges = edges();
        let (first, second) = UnixStream::pair().unwrap();
        let mut first = std::os::fd::OwnedFd::from(first);
        edges.register(&first, token(1), Interest::READABLE).unwrap();
        edges.register(&second, token(2), Interest::READABLE).unwrap();
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        rustix::io::dup2(&file, &mut first).unwrap();
        assert_eq!(edges.move_to(mio::Poll::new().unwrap()).unwrap(), 1);
        assert_eq!(edges.len(), 1);
        edges.deregister(&second).unwrap();
    }
}
