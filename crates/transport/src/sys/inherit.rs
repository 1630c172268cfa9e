//! Descriptors that a peer sends along must not become those of our children.

use rustix::net::RecvFlags;
use std::{io, os::fd::OwnedFd};

/// By the call that receives them.
#[cfg(not(target_vendor = "apple"))]
pub(crate) const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;

#[cfg(not(target_vendor = "apple"))]
pub(crate) fn close_on_exec(_: &OwnedFd) -> io::Result<()> {
    Ok(())
}

/// One by one, where that call takes no such flag: a child that another thread starts in between has them.
#[cfg(target_vendor = "apple")]
pub(crate) const CLOSE_ON_EXEC: RecvFlags = RecvFlags::empty();

#[cfg(target_vendor = "apple")]
pub(crate) fn close_on_exec(descriptor: &OwnedFd) -> io::Result<()> {
    use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
    Ok(fcntl_setfd(descriptor, fcntl_getfd(descriptor)? | FdFlags::CLOEXEC)?)
}
