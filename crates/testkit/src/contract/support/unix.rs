//! Types of Unix sockets. Where there are none the names stand for what is never made: no transport there is carried by them.

#[cfg(windows)]
pub(super) use std::net::{TcpListener as UnixListener, TcpStream as UnixStream};
#[cfg(unix)]
pub(super) use std::os::unix::net::{UnixListener, UnixStream};

use netwright_core::{Address, UnixName};
use socket2::SockAddr;
use std::io;

/// The address of a Unix socket as the system has it.
pub(super) fn unix_address(address: &Address) -> io::Result<SockAddr> {
    match address {
        Address::Unix(UnixName::Path(path)) => SockAddr::unix(path),
        #[cfg(unix)]
        Address::Unix(UnixName::Abstract(name)) => {
            use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
            SockAddr::unix(OsStr::from_bytes(&[b"\0", &name[..]].concat()))
        }
        other => panic!("nobody listens on {other} with a Unix socket"),
    }
}
