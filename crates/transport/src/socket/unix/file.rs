//! The file by which a listening Unix socket is found.
//!
//! ```text
//!   bind ─▶ in use? ── no ──▶ ours
//!              └ yes ─▶ no socket: left alone ─▶ error
//!                       somebody listens       ─▶ in use
//!                       nobody listens (stale) ─▶ removed, bind once more
//!   last listener closed ─▶ removed, if it is still the file that we made
//! ```
//! A file outlives the process that made it, so a server that was killed leaves one behind. A file is removed only if it is
//! a socket, and the same one as a moment before. Two servers that start at the same moment over one stale file can still
//! take it from each other, as with every program that does this; who starts them knows.

use netwright_core::UnixName;
use socket2::{Domain, SockAddr, Socket, Type};
use std::{
    fs::{self, Metadata, Permissions},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// The file of a listener; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

/// Binds a socket to its name, and sets the file's permissions if any are given: before `listen`, so that nobody can
/// connect earlier.
pub(crate) fn bind(
    socket: &Socket,
    address: &SockAddr,
    name: &UnixName,
    mode: Option<u32>,
) -> io::Result<Option<SocketFile>> {
    let UnixName::Path(path) = name else {
        if mode.is_some() {
            let text = "unix_mode is set, but only a socket with a path has permissions";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        return socket.bind(address).map(|()| None);
    };
    match socket.bind(address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_stale(path, address)?;
            socket.bind(address)?;
        }
        result => result?,
    }
    // The directory may be another one by the time that it is removed.
    let path = std::path::absolute(path)?;
    let identity = identity(&fs::symlink_metadata(&path)?);
    let file = SocketFile { path, identity };
    if let Some(mode) = mode {
        fs::set_permissions(&file.path, Permissions::from_mode(mode))?;
    }
    Ok(Some(file))
}

/// Removes a socket that nobody listens to.
fn remove_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    let before = fs::symlink_metadata(path)?;
    if !before.file_type().is_socket() {
        let text = "there is a file of this name that is no socket, and it is left alone";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    if !nobody_listens(address)? {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    if identity(&fs::symlink_metadata(path)?) != identity(&before) {
        return Err(io::ErrorKind::AddrInUse.into()); // somebody was faster
    }
    fs::remove_file(path)
}

/// Only a refusal says that nobody is there: a full queue, missing permissions or another type of socket do not.
fn nobody_listens(address: &SockAddr) -> io::Result<bool> {
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    Ok(matches!(probe.connect(address), Err(error) if error.kind() == io::ErrorKind::ConnectionRefused))
}

/// What makes a file this file.
fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|metadata| identity(&metadata) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
