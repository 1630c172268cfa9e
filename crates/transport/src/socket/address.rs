//! The system's addresses and ours.

use netwright_core::{Address, UnixName};
use socket2::{Domain, SockAddr};
use std::io;

/// What the system calls an address, in our words; `None` for families that we do not know.
pub(crate) fn address(address: &SockAddr) -> Option<Address> {
    if let Some(ip) = address.as_socket() {
        return Some(Address::Ip(ip));
    }
    #[cfg(unix)]
    if address.is_unix() {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(name) = address.as_abstract_namespace() {
            return Some(Address::Unix(UnixName::Abstract(name.into())));
        }
        let name = address.as_pathname().map_or(UnixName::Unnamed, |path| UnixName::Path(path.into()));
        return Some(Address::Unix(name));
    }
    None
}

/// The family of sockets that an address needs.
///
/// # Errors
/// It is no address of a socket.
pub(crate) fn domain(address: &Address) -> io::Result<Domain> {
    match address {
        Address::Unix(_) => Ok(Domain::UNIX), // a peer without a name has one too
        _ => Ok(sock_addr(address)?.domain()),
    }
}

/// What we call an address, in the system's words.
///
/// # Errors
/// It is no address of a socket, or this system has no such sockets, or a path is too long.
pub(crate) fn sock_addr(address: &Address) -> io::Result<SockAddr> {
    let refused = |why: &str| {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("{address} is no address for a socket: {why}"),
        ))
    };
    match address {
        Address::Ip(ip) => Ok((*ip).into()),
        #[cfg(unix)]
        Address::Unix(UnixName::Path(path)) => {
            use std::os::unix::ffi::OsStrExt;
            fits(path.as_os_str().as_bytes().len())?;
            SockAddr::unix(path)
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        Address::Unix(UnixName::Abstract(name)) => {
            use std::os::unix::ffi::OsStrExt;
            fits(name.len())?;
            let mut path = vec![0];
            path.extend_from_slice(name);
            SockAddr::unix(std::ffi::OsStr::from_bytes(&path))
        }
        Address::Unix(UnixName::Unnamed) => refused("it has no name"),
        Address::Unix(_) => refused("this system has no such sockets"),
        _ => refused("it lies within this process"),
    }
}

/// Whether a path or a name behind the zero byte of an abstract one fits into a Unix socket's address: the path with a
/// zero byte behind it.
#[cfg(unix)]
fn fits(len: usize) -> io::Result<()> {
    let max = if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };
    if len <= max {
        return Ok(());
    }
    let text = format!("its name has {len} bytes, but the address of a Unix socket has room for {max}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}
