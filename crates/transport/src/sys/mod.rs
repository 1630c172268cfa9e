//! What systems call differently, or do not have, beyond what `socket2`, `rustix` and `mio` even out.
//!
//! | file | what it is |
//! | --- | --- |
//! | here | what a source is known by, and flags that some systems lack |
//! | `accept` | a connection out of a listener's queue, non-blocking and not inherited |
//! | `inherit` | descriptors that were received are no child's |
//! | `errors` | what errors of the system mean, where their kind does not say it |
//!
//! Whole parts that a system lacks are modules of their own that are left out there: `uring`, `blocking`, `socket::unix`,
//! `datagram::batch`.

mod accept;
pub(crate) mod errors;
#[cfg(unix)]
mod inherit;

pub(crate) use accept::accept;
#[cfg(unix)]
pub(crate) use inherit::{CLOSE_ON_EXEC, close_on_exec};

use netwright_core::Envelope;
use rustix::net::SendFlags;

#[cfg(unix)]
pub(crate) use std::os::fd::{AsFd as AsSource, RawFd as RawSource};
#[cfg(windows)]
pub(crate) use std::os::windows::io::{AsSocket as AsSource, RawSocket as RawSource};

/// The number by which a table knows a source as long as it is open.
#[inline]
pub(crate) fn raw(source: &impl AsSource) -> RawSource {
    #[cfg(unix)]
    return std::os::fd::AsRawFd::as_raw_fd(&source.as_fd());
    #[cfg(windows)]
    return std::os::windows::io::AsRawSocket::as_raw_socket(&source.as_socket());
}

/// A connection that is gone is an error and no signal. Apple's sockets are told so once, by `socket2`; Windows has no signals.
#[cfg(not(any(target_vendor = "apple", windows)))]
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(any(target_vendor = "apple", windows))]
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::empty();

/// How many descriptors are to go along with a message: none where there are none.
pub(crate) fn descriptors_along(envelope: &Envelope) -> usize {
    #[cfg(unix)]
    return envelope.descriptors.len();
    #[cfg(not(unix))]
    return {
        let _ = envelope;
        0
    };
}
