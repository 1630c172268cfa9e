//! The next connection of a listener: non-blocking, and no child's.

use netwright_core::Address;
use socket2::Socket;
use std::io;

/// By one system call.
#[cfg(all(unix, not(target_vendor = "apple")))]
pub(crate) fn accept(socket: &Socket) -> io::Result<(Socket, Address)> {
    use rustix::net::{AddressFamily, SocketFlags};
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (connection, peer) = rustix::net::acceptfrom_with(socket, flags)?;
    let connection = Socket::from(connection);
    let peer = peer.ok_or_else(aborted)?;
    let peer = match peer.address_family() {
        AddressFamily::UNIX => connection.peer_addr().ok().and_then(|peer| crate::socket::address(&peer)),
        _ => std::net::SocketAddr::try_from(peer).ok().map(Address::Ip),
    };
    Ok((connection, peer.ok_or_else(aborted)?))
}

/// Where `accept` takes no flags they are set afterwards; `socket2` sees to it that no child inherits the connection.
#[cfg(not(all(unix, not(target_vendor = "apple"))))]
pub(crate) fn accept(socket: &Socket) -> io::Result<(Socket, Address)> {
    let (connection, peer) = socket.accept()?;
    connection.set_nonblocking(true)?;
    Ok((connection, crate::socket::address(&peer).ok_or_else(aborted)?))
}

fn aborted() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}
