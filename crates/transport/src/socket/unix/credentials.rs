//! Who the peer of a Unix socket is, by the system's word.

use socket2::Socket;

/// The process at the other end of a Unix socket, as the system vouches for it: who connected, or who listened. Attached
/// to every channel over a Unix socket:
/// [`channel.attribute::<PeerCredentials>()`](netwright_core::Channel::attribute).
///
/// Only Linux and Android tell.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::Server;
///
/// let name = std::env::temp_dir().join(format!("netwright-doc-{}", std::process::id()));
/// let server = Server::builder()
///     .pipeline(|accepted| {
///         println!("{:?} connects", accepted.credentials); // by the system's word
///         pipeline().handle(|_, _| {})
///     })
///     .bind(format!("unix:{}", name.display()))
///     .wait()?;
/// # drop(server);
/// # Ok::<(), netwright_transport::BindError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PeerCredentials {
    /// Its process; `None` if it cannot be named here, because it is in another container.
    pub pid: Option<u32>,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Who the peer of a connected Unix socket is, if the system tells.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn credentials(socket: &Socket) -> Option<PeerCredentials> {
    use rustix::process::Pid;
    let peer = rustix::net::sockopt::socket_peercred(socket).ok()?;
    let pid = u32::try_from(Pid::as_raw(Some(peer.pid))).ok().filter(|pid| *pid != 0);
    Some(PeerCredentials { pid, uid: peer.uid.as_raw(), gid: peer.gid.as_raw() })
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn credentials(_: &Socket) -> Option<PeerCredentials> {
    None
}
