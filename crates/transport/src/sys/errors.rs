//! What errors of the system mean, where [`io::ErrorKind`] does not tell.

use rustix::io::Errno;
use std::io;

/// A connect that has begun and not ended.
pub(crate) fn is_in_progress(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || is(error, &[Errno::INPROGRESS])
}

/// An accept that failed tells what has become of the connection that it would have brought: its own end, a firewall's refusal,
/// or what the network had to say about it.
pub(crate) fn concerns_one_connection(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionAborted || is(error, ONE_CONNECTION) || is(error, ITS_END)
}

/// What any system says of it.
const ONE_CONNECTION: &[Errno] = &[
    Errno::CONNABORTED,
    Errno::CONNRESET,
    Errno::NOPROTOOPT,
    Errno::OPNOTSUPP,
    Errno::TIMEDOUT,
    Errno::NETDOWN,
    Errno::NETUNREACH,
    Errno::HOSTDOWN,
    Errno::HOSTUNREACH,
];

/// And what this one says.
#[cfg(any(target_os = "linux", target_os = "android"))]
const ITS_END: &[Errno] = &[Errno::PERM, Errno::PROTO, Errno::NONET];
/// A connection that is gone takes no option.
#[cfg(target_vendor = "apple")]
const ITS_END: &[Errno] = &[Errno::PERM, Errno::PROTO, Errno::INVAL];
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))))]
const ITS_END: &[Errno] = &[Errno::PERM, Errno::PROTO];
/// A connection that is gone has no peer.
#[cfg(windows)]
const ITS_END: &[Errno] = &[Errno::NOTCONN];

/// What a socket says that somebody has shut down, or a descriptor that is none.
pub(crate) fn no_longer_listens(error: &io::Error) -> bool {
    is(error, NOT_LISTENING)
}

#[cfg(all(unix, not(target_vendor = "apple")))]
const NOT_LISTENING: &[Errno] = &[Errno::INVAL, Errno::BADF, Errno::NOTSOCK];
#[cfg(target_vendor = "apple")]
const NOT_LISTENING: &[Errno] = &[Errno::BADF, Errno::NOTSOCK];
/// Unknown: accepting rests and is tried again.
#[cfg(windows)]
const NOT_LISTENING: &[Errno] = &[];

/// What the system says of a datagram that is longer than it sends as one.
pub(crate) fn too_long() -> io::Error {
    Errno::MSGSIZE.into()
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
