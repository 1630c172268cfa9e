//! What errors of the system mean, where [`io::ErrorKind`] does not tell.

use rustix::io::Errno;
use std::io;

/// A connect that has begun and not ended.
pub(crate) fn is_in_progress(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || is(error, &[Errno::INPROGRESS])
}

/// A datagram that is longer than the system sends as one.
pub(crate) fn is_too_long(error: &io::Error) -> bool {
    is(error, &[Errno::MSGSIZE])
}

/// An error that tells what became of an earlier datagram, and nothing about the socket.
pub(crate) fn is_about_the_network(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let by_kind = matches!(
        error.kind(),
        Kind::ConnectionRefused
            | Kind::ConnectionReset
            | Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::PermissionDenied
            | Kind::TimedOut
    );
    by_kind
        || is(error, &[Errno::MSGSIZE, Errno::NOPROTOOPT, Errno::HOSTDOWN, Errno::OPNOTSUPP])
        || is(error, PROTOCOL)
        // Windows: a router counted a datagram out.
        || (cfg!(windows) && is(error, &[Errno::NETRESET]))
}

/// A datagram met a port where nobody receives. Windows calls it a reset.
pub(crate) fn is_port_unreachable(error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => true,
        io::ErrorKind::ConnectionReset => cfg!(windows),
        _ => false,
    }
}

/// An error by which the system may say that it cannot cut what is sent together, or not to this length.
pub(crate) fn is_about_segments(error: &io::Error) -> bool {
    is(error, &[Errno::INVAL, Errno::MSGSIZE, Errno::OPNOTSUPP]) || is(error, FAILED)
}

/// A descriptor that was registered is so no more: its number is free, or names a plain file by now, which cannot be polled.
#[cfg(unix)]
pub(crate) fn is_gone(error: &io::Error) -> bool {
    is(error, &[Errno::BADF, Errno::PERM])
}

#[cfg(unix)]
const PROTOCOL: &[Errno] = &[Errno::PROTO];
#[cfg(unix)]
const FAILED: &[Errno] = &[Errno::IO];
#[cfg(windows)]
const PROTOCOL: &[Errno] = &[];
#[cfg(windows)]
const FAILED: &[Errno] = &[];

fn is(error: &io::Error, any: &[Errno]) -> bool {
    Errno::from_io_error(error).is_some_and(|error| any.contains(&error))
}
