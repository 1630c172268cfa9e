//! What calls fail with, as the system would have it.

use std::{fmt, io};

/// Why a call on a socket of the simulated network failed.
///
/// ```
/// use netwright_testkit::sim::Failure;
/// use std::io;
///
/// assert_eq!(io::Error::from(Failure::ConnectionRefused).kind(), io::ErrorKind::ConnectionRefused);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// Nothing at the moment; there will be news.
    WouldBlock,
    /// Somebody else has the address.
    AddressInUse,
    /// The host does not have the address, or no port is free.
    AddressNotAvailable,
    /// Nobody listens there.
    ConnectionRefused,
    /// The peer, or what is between, has reset the connection.
    ConnectionReset,
    /// The connection, or its output, has ended before.
    BrokenPipe,
    /// Nobody answered for too long.
    TimedOut,
    /// The connection is not established.
    NotConnected,
    /// The host has as many descriptors as it may have (`EMFILE`).
    TooManyDescriptors,
    /// The host has no address of this family.
    NetworkUnreachable,
    /// The datagram is larger than the link takes.
    MessageTooLong,
    /// There is no such socket: it was closed, or its host has crashed.
    NotOpen,
    /// The host is down.
    HostDown,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WouldBlock => "nothing at the moment",
            Self::AddressInUse => "address in use",
            Self::AddressNotAvailable => "address not available",
            Self::ConnectionRefused => "connection refused",
            Self::ConnectionReset => "connection reset",
            Self::BrokenPipe => "broken pipe",
            Self::TimedOut => "timed out",
            Self::NotConnected => "not connected",
            Self::TooManyDescriptors => "too many open descriptors",
            Self::NetworkUnreachable => "network unreachable",
            Self::MessageTooLong => "message too long",
            Self::NotOpen => "no such socket",
            Self::HostDown => "the host is down",
        })
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        use io::ErrorKind as Kind;
        /// `EMFILE`, which has no kind of its own; the number is the same on all Unixes.
        #[cfg(unix)]
        const TOO_MANY_OPEN_FILES: i32 = 24;
        let kind = match failure {
            Failure::WouldBlock => Kind::WouldBlock,
            Failure::AddressInUse => Kind::AddrInUse,
            Failure::AddressNotAvailable => Kind::AddrNotAvailable,
            Failure::ConnectionRefused => Kind::ConnectionRefused,
            Failure::ConnectionReset => Kind::ConnectionReset,
            Failure::BrokenPipe => Kind::BrokenPipe,
            Failure::TimedOut => Kind::TimedOut,
            Failure::NotConnected | Failure::NotOpen => Kind::NotConnected,
            #[cfg(unix)]
            Failure::TooManyDescriptors => return Self::from_raw_os_error(TOO_MANY_OPEN_FILES),
            #[cfg(not(unix))]
            Failure::TooManyDescriptors => Kind::Other,
            Failure::NetworkUnreachable => Kind::NetworkUnreachable,
            Failure::MessageTooLong => Kind::InvalidInput,
            Failure::HostDown => Kind::NetworkDown,
        };
        Self::new(kind, failure)
    }
}
