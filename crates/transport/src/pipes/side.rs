//! One descriptor of a pair: non-blocking as long as we have it, and then left as it was found.

use super::PipesError;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

pub(super) struct Side {
    fd: OwnedFd,
    /// What it had been before, if that was something else.
    before: Option<OFlags>,
    kind: FileType,
}

impl Side {
    pub(super) fn new(fd: OwnedFd, end: &'static str) -> Result<Self, PipesError> {
        let kind = FileType::from_raw_mode(fstat(&fd).map_err(io::Error::from)?.st_mode);
        let what = match kind {
            FileType::RegularFile => Some("a file"),
            FileType::Directory => Some("a folder"),
            FileType::BlockDevice => Some("a block device"),
            _ => None,
        };
        if let Some(what) = what {
            return Err(PipesError::NotWaitable { end, what });
        }
        let flags = fcntl_getfl(&fd).map_err(io::Error::from)?;
        let before = (!flags.contains(OFlags::NONBLOCK)).then_some(flags);
        fcntl_setfl(&fd, flags | OFlags::NONBLOCK).map_err(io::Error::from)?;
        Ok(Self { fd, before, kind })
    }

    /// Whether a read that does not fill its room has taken all that there was, so that an event tells of the next byte. Other systems
    /// promise less, and a terminal gives one line at a time.
    pub(super) fn is_drained_by_a_short_read(&self) -> bool {
        cfg!(any(target_os = "linux", target_os = "android")) && self.kind == FileType::Fifo
    }

    pub(super) fn is_socket(&self) -> bool {
        self.kind == FileType::Socket
    }
}

impl AsFd for Side {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Some(flags) = self.before {
            let _ = fcntl_setfl(&self.fd, flags);
        }
    }
}
