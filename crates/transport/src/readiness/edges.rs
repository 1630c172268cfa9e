//! Who wants to hear about which descriptor, for a loop that polls `mio`: edge-triggered.
//!
//! ```text
//!   source ── register(fd, token, interest) ──▶ mio::Poll        the kernel's view
//!                                          └──▶ table by fd      ours: enough to tell it all to another mio::Poll
//! ```
//! Always true between calls, as long as sources deregister before they close:
//! 1. A descriptor is in the table exactly if the present poll knows it, with the same token and interest.
//! 2. Every `Rc<Readiness>` that a source keeps stays good across a rebuild: the poll is exchanged inside.
//!
//! The table is a map and not an array by descriptor: descriptors are dense in a process, but each of its many loops
//! has only a few of them. Its cost vanishes beside that of the system call next to it.
//!
//! Outside Unix there are no descriptors to keep: sources are mio's own types, and a rebuild with sources registered
//! is refused, because only they could register themselves again.
//!
//! Loop thread only.

use super::wait::Brought;
use mio::Interest;
use netwright_core::driver::Token;
use std::{cell::RefCell, io, time::Duration};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("tokens have 64 bits and mio's have those of a pointer: only 64-bit targets are supported");

/// The waker's. Tokens of sources are `1 << 32` or more.
pub(super) const WAKER: mio::Token = mio::Token(0);
const SOURCE_TOKEN_MIN: u64 = 1 << 32;

/// The registrations of one loop.
pub(super) struct Edges {
    /// `None` once the driver has left this thread.
    poll: RefCell<Option<mio::Poll>>,
    table: RefCell<table::Table>,
}

#[cfg(unix)]
mod table {
    use super::{Interest, Token};
    use std::{collections::HashMap, os::fd::RawFd};

    #[derive(Debug, Clone, Copy)]
    pub(super) struct Registration {
        pub(super) token: Token,
        pub(super) interest: Interest,
    }

    pub(super) type Table = HashMap<RawFd, Registration>;

    pub(super) fn len(table: &Table) -> usize {
        table.len()
    }
}

#[cfg(not(unix))]
mod table {
    /// How many sources are registered.
    pub(super) type Table = usize;

    pub(super) fn len(table: &Table) -> usize {
        *table
    }
}

/// What a source does; what it means is said at [`Readiness`](super::Readiness).
#[cfg(unix)]
impl Edges {
    /// Panics in debug builds, if the descriptor's number is in the table for a descriptor that was closed without being
    /// deregistered. Release builds take the newcomer.
    pub(super) fn register(
        &self,
        source: &impl std::os::fd::AsFd,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let fd = raw(source);
        let number = number(token)?;
        self.with(|registry| registry.register(&mut mio::unix::SourceFd(&fd), number, interest))?;
        let before = self.table.borrow_mut().insert(fd, table::Registration { token, interest });
        debug_assert!(
            before.is_none(),
            "descriptor {fd} is registered for {token:?}, but a source closed it without deregistering: {before:?}"
        );
        Ok(())
    }

    pub(super) fn reregister(
        &self,
        source: &impl std::os::fd::AsFd,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let fd = raw(source);
        let number = number(token)?;
        let mut table = self.table.borrow_mut();
        let place = table.get_mut(&fd).ok_or_else(|| not_registered(fd))?;
        self.with(|registry| registry.reregister(&mut mio::unix::SourceFd(&fd), number, interest))?;
        *place = table::Registration { token, interest };
        Ok(())
    }

    pub(super) fn deregister(&self, source: &impl std::os::fd::AsFd) -> io::Result<()> {
        let fd = raw(source);
        self.table.borrow_mut().remove(&fd).ok_or_else(|| not_registered(fd))?;
        self.with(|registry| registry.deregister(&mut mio::unix::SourceFd(&fd)))
    }

    /// Moves all registrations to `poll` and drops the present one; on an error everything stays as it is.
    pub(super) fn move_to(&self, poll: mio::Poll) -> io::Result<usize> {
        let mut table = self.table.borrow_mut();
        let mut gone = Vec::new();
        for (&fd, registration) in table.iter() {
            let number = number(registration.token)?;
            let source = &mut mio::unix::SourceFd(&fd);
            match poll.registry().register(source, number, registration.interest) {
                Ok(()) => {}
                Err(error) if is_gone(&error) => gone.push(fd),
                Err(error) => return Err(error),
            }
        }
        for fd in gone {
            let left = table.remove(&fd);
            tracing::warn!(fd, registration = ?left, "a source closed its descriptor without deregistering it");
        }
        *self.poll.borrow_mut() = Some(poll);
        Ok(table.len())
    }
}

/// What a source does, with sources that are mio's own types: see the module's header.
#[cfg(not(unix))]
impl Edges {
    pub(super) fn register(
        &self,
        source: &mut impl mio::event::Source,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let number = number(token)?;
        self.with(|registry| registry.register(source, number, interest))?;
        *self.table.borrow_mut() += 1;
        Ok(())
    }

    pub(super) fn reregister(
        &self,
        source: &mut impl mio::event::Source,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let number = number(token)?;
        self.with(|registry| registry.reregister(source, number, interest))
    }

    pub(super) fn deregister(&self, source: &mut impl mio::event::Source) -> io::Result<()> {
        self.with(|registry| registry.deregister(source))?;
        *self.table.borrow_mut() -= 1;
        Ok(())
    }

    pub(super) fn move_to(&self, poll: mio::Poll) -> io::Result<usize> {
        if self.len() > 0 {
            let text = format!("{} sources cannot be moved on this platform", self.len());
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        *self.poll.borrow_mut() = Some(poll);
        Ok(0)
    }
}

/// What the driver does.
impl Edges {
    pub(super) fn new(poll: mio::Poll) -> Self {
        Self { poll: RefCell::new(Some(poll)), table: RefCell::default() }
    }

    pub(super) fn len(&self) -> usize {
        table::len(&self.table.borrow())
    }

    #[inline(always)] // with the system call in it: see `return_stack`
    pub(super) fn poll(&self, brought: &mut Brought, timeout: Option<Duration>) -> io::Result<()> {
        // Nobody registers meanwhile: sources run on this thread, and it is here.
        brought.wait(self.poll.borrow_mut().as_mut().ok_or_else(moved_away)?, timeout)
    }

    /// The poll, to go on elsewhere. From now on every registration is refused.
    pub(super) fn take_poll(&self) -> Option<mio::Poll> {
        self.poll.borrow_mut().take()
    }

    fn with(&self, act: impl FnOnce(&mio::Registry) -> io::Result<()>) -> io::Result<()> {
        act(self.poll.borrow().as_ref().ok_or_else(moved_away)?.registry())
    }
}

#[cfg(unix)]
pub(super) fn raw(source: &impl std::os::fd::AsFd) -> std::os::fd::RawFd {
    std::os::fd::AsRawFd::as_raw_fd(&source.as_fd())
}

fn number(token: Token) -> io::Result<mio::Token> {
    let number = token.to_u64();
    if number < SOURCE_TOKEN_MIN {
        let text = format!("token is {number}, but a loop gives out none below {SOURCE_TOKEN_MIN}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(mio::Token(number as usize)) // 64 bits in both: see `compile_error` above
}

/// Whether a descriptor that was registered is so no more: its number is free, or names a plain file by now, which
/// cannot be polled.
#[cfg(unix)]
fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::BADF | Errno::PERM))
}

#[cfg(unix)]
pub(crate) fn not_registered(fd: std::os::fd::RawFd) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("descriptor {fd} is not registered with this loop's driver"),
    )
}

pub(crate) fn moved_away() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the driver was suspended and has left this thread")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
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
