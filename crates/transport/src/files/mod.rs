//! Files that no event loop waits for: read, written and synced by the loop's ring or by workers, and opened by workers.
//!
//! ```text
//!   File, OpenOptions ── Operation ──┬─ on a loop with io_uring ─▶ the ring: one system call a turn for all of them
//!        ▲                           └─ opens, metadata, and ────▶ Workers: the given ones, or the common ones
//!        │                              everywhere else
//!        └──────── Promised ◀── told on the loop, or by the worker ──┘
//!
//!   File::pieces ─▶ FilePieces, 64 KiB each, read ahead ─▶ Channel::write_from, Peer::write_from, a body of HTTP
//! ```
//!
//! A disk may take milliseconds for what is not in the system's cache, and a loop that waits for it serves nobody meanwhile. So what is
//! asked of a [`File`] is handed over, and its result comes as a [`Promised`](netwright_core::Promised): awaited in a tail or any other
//! future, followed by a continuation in a handler ([`Context::spawn`](netwright_core::Context::spawn)), or waited for on threads that
//! may block. Where it is done is found out when it is asked for: by the ring of the loop on whose thread that is, if it has one.
//!
//! Always true, in both ways:
//! 1. What an operation needs is its own until it is over: a result that nobody waits for any more costs nobody his memory.
//! 2. An operation that was accepted ends, and says how, also when its loop shuts down: it is carried out while the loop leaves, and if
//!    the loop's patience is over before that, the answer is [`FileError::LoopEnded`]. What the kernel has of a ring's operations five
//!    seconds after that is left to it: their memory, their files and the ring stay open for as long as the process lives, because
//!    the kernel may still use them. Workers that are shut down at once answer [`FileError::Refused`].
//! 3. As many run at the same time as the ring's [settings](crate::uring::UringSettings::files) or the number of workers allow. What exceeds that waits
//!    in order; when 65,536 wait, the next is refused with an error that says so.
//! 4. Errors name the file and what was asked of it. Reads give all that was asked for unless the file ends; writes write everything, or
//!    the error tells how much.
//! 5. What the kernel cannot do by a ring (an old one lacks an operation, a file system refuses) is done by workers. So are opens, and
//!    metadata: what a path leads to may have to be asked of a server, and a ring would do that on the loop.
//! 6. A ring reads and writes on the loop's thread what is in the system's cache, where a file system of disks or of memory (ext4, xfs,
//!    btrfs, f2fs, tmpfs) keeps the file: these tell when they would have to wait. With any other, threads of the kernel do it.
//!
//! A task of [`Workers`](netwright_core::Workers) must not [wait](netwright_core::Promised::wait) for a file whose operations the same
//! workers carry out: with every thread waiting like that, none is left to do the work. It gives the file workers of its own
//! ([`OpenOptions::workers`]), or blocks on the standard library's files, which is what workers are for.
//!
//! To choose between this and [`FileRegion`](netwright_core::FileRegion): a region is sent without passing through our memory
//! (`sendfile`), which is the cheapest for files that are in the cache, but waits for the disk on the loop if they are not, and TLS has
//! to read it on the loop as well. [`FilePieces`] never hold the loop up, and cost a copy.
//!
//! | file | what |
//! | --- | --- |
//! | `file`, `options` | [`File`], how it is opened |
//! | `operation` | one thing asked of a file; the same steps for workers and rings |
//! | `examined` | what was opened, and whether it may be read on a loop's thread |
//! | `start` | by whom it is done |
//! | `pieces` | [`FilePieces`], a part of a file as a source of bytes |
//! | `error` | what was asked of which file, and why it was not done |
//!
//! Not here: the ring (`uring/files.rs`), directories, locks, and what has no bytes at offsets or waits for them: pipes, terminals,
//! most devices. These are refused when they are opened.

mod error;
mod examined;
mod file;
mod operation;
mod options;
mod pieces;
mod start;

pub use error::{FileAction, FileError};
pub use file::File;
#[cfg(all(target_os = "linux", feature = "uring"))]
pub(crate) use operation::{Done, Next, Operation, Outcome, Step, Work};
pub use options::OpenOptions;
pub use pieces::FilePieces;
#[cfg(all(target_os = "linux", feature = "uring"))]
pub(crate) use start::start_on_workers;

/// Operations by hand, for the tests of those who carry them out.
#[cfg(all(test, target_os = "linux", feature = "uring"))]
pub(crate) mod by_hand {
    use super::{File, FileAction, FileError, operation::Operation};
    use bytes::{Bytes, BytesMut};
    use netwright_core::{Promised, promise};
    use std::{
        path::PathBuf,
        sync::atomic::{AtomicUsize, Ordering},
    };

    /// A file with this content that is open and has no name any more.
    pub(crate) fn file_with(content: &[u8]) -> File {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path: PathBuf =
            std::env::temp_dir().join(format!("netwright-by-hand-{}-{number}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        let file = File::open(&path).wait().unwrap();
        std::fs::remove_file(&path).unwrap();
        file
    }

    pub(crate) fn read(file: &File, offset: u64, len: usize) -> (Operation, Promised<BytesMut, FileError>) {
        Operation::read(file.inner(), offset, BytesMut::new(), len)
    }

    pub(crate) fn write(
        file: &File,
        offset: Option<u64>,
        bytes: impl Into<Bytes>,
    ) -> (Operation, Promised<(), FileError>) {
        Operation::write(file.inner(), offset, bytes.into())
    }

    pub(crate) fn sync(file: &File) -> (Operation, Promised<(), FileError>) {
        Operation::sync(file.inner(), FileAction::SyncAll)
    }

    pub(crate) fn close(file: std::fs::File) -> (Operation, Promised<(), FileError>) {
        let (promise, promised) = promise();
        (Operation::close(file, PathBuf::from("by hand").into(), None, Some(promise)), promised)
    }
}
