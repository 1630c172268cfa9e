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
//! | file | what it is |
//! | --- | --- |
//! | `descriptors` | the table where sources are descriptors |
//! | `sockets` | the table on Windows, where `mio` takes only types of its own, and events are levels |
//!
//! Loop thread only.

#[cfg(unix)]
mod descriptors;
#[cfg(windows)]
mod sockets;

#[cfg(unix)]
use descriptors::Table;
#[cfg(windows)]
use sockets::Table;

use super::wait::Brought;
use crate::sys::RawSource;
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
    table: RefCell<Table>,
}

/// What the driver does.
impl Edges {
    pub(super) fn new(poll: mio::Poll) -> Self {
        Self { poll: RefCell::new(Some(poll)), table: RefCell::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.table.borrow().len()
    }

    #[inline(always)] // with the system call in it: see `return_stack`
    pub(super) fn poll(&self, brought: &mut Brought, timeout: Option<Duration>) -> io::Result<()> {
        self.ask_again()?;
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

/// What sources are called here.
const SOURCE: &str = if cfg!(windows) { "socket" } else { "descriptor" };

fn number(token: Token) -> io::Result<mio::Token> {
    let number = token.to_u64();
    if number < SOURCE_TOKEN_MIN {
        let text = format!("token is {number}, but a loop gives out none below {SOURCE_TOKEN_MIN}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(mio::Token(number as usize)) // 64 bits in both: see `compile_error` above
}

pub(crate) fn moved_away() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the driver was suspended and has left this thread")
}

/// Said by `epoll` and `kqueue` themselves, where they are asked.
#[cfg(any(windows, feature = "blocking", all(target_os = "linux", feature = "uring")))]
pub(crate) fn registered_already(source: RawSource) -> io::Error {
    let text = format!("{SOURCE} {source} is registered with this loop's driver already");
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

pub(crate) fn not_registered(source: RawSource) -> io::Error {
    let text = format!("{SOURCE} {source} is not registered with this loop's driver");
    io::Error::new(io::ErrorKind::NotFound, text)
}
