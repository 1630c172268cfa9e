//! Why something asked of a file was not done: which file, what was asked, what stood in the way.

use netwright_core::{PromiseError, RefusedWhy};
use std::{error::Error, fmt, io, path::Path, sync::Arc};

/// What was asked of a file.
///
/// ```
/// use netwright_transport::files::FileAction;
///
/// assert_eq!(FileAction::Read { offset: 512, len: 64 }.to_string(), "reading 64 bytes at offset 512 of");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileAction {
    /// To open it.
    Open,
    /// To read.
    Read {
        /// From here on.
        offset: u64,
        /// At most so many bytes.
        len: usize,
    },
    /// To write.
    Write {
        /// From here on.
        offset: u64,
        /// So many bytes.
        len: usize,
    },
    /// To write behind its end.
    Append {
        /// So many bytes.
        len: usize,
    },
    /// To put content and metadata onto the disk.
    SyncAll,
    /// To put content onto the disk.
    SyncData,
    /// To tell its length, times and permissions.
    Metadata,
    /// To close it.
    Close,
}

impl fmt::Display for FileAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("opening"),
            Self::Read { offset, len } => write!(f, "reading {len} bytes at offset {offset} of"),
            Self::Write { offset, len } => write!(f, "writing {len} bytes at offset {offset} of"),
            Self::Append { len } => write!(f, "appending {len} bytes to"),
            Self::SyncAll => f.write_str("syncing"),
            Self::SyncData => f.write_str("syncing the content of"),
            Self::Metadata => f.write_str("reading the metadata of"),
            Self::Close => f.write_str("closing"),
        }
    }
}

/// Why something asked of a file was not done.
///
/// ```
/// use netwright_transport::files::{File, FileError};
///
/// let error = File::open("no/such/file").wait().unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
/// assert!(matches!(&error, FileError::Failed { path, .. } if path.ends_with("file")));
/// assert!(error.to_string().starts_with("opening \"no/such/file\" failed: "));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FileError {
    /// The system said no.
    Failed {
        /// What was asked.
        action: FileAction,
        /// Of which file.
        path: Arc<Path>,
        /// How many bytes were read or written before.
        done: usize,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// The file ends before the bytes that were promised of it.
    Short {
        /// Which file.
        path: Arc<Path>,
        /// From where on bytes are missing.
        offset: u64,
        /// How many were still to come.
        missing: u64,
    },
    /// It cannot be asked of this file, or not like this. Nothing was done.
    Misuse {
        /// What was asked.
        action: FileAction,
        /// Of which file.
        path: Arc<Path>,
        /// Why that cannot be.
        why: String,
    },
    /// Nobody was there to do it, or not any more when its turn came. Nothing was done.
    Refused {
        /// What was asked.
        action: FileAction,
        /// Of which file.
        path: Arc<Path>,
        /// Why not.
        why: RefusedWhy,
    },
    /// The system gave no threads to do it on. Nothing was done.
    NoWorkers {
        /// What was asked.
        action: FileAction,
        /// Of which file.
        path: Arc<Path>,
        /// Why not.
        why: String,
    },
    /// The loop ended first. The operation may have been carried out, if it had begun.
    LoopEnded {
        /// What was asked.
        action: FileAction,
        /// Of which file.
        path: Arc<Path>,
        /// Whether the kernel had it.
        begun: bool,
    },
    /// The result was cancelled, waited for on a loop's thread, or thrown away.
    Promise(PromiseError),
}

impl FileError {
    /// The same in the words of the standard library.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Failed { error, .. } => error.kind(),
            Self::Short { .. } => io::ErrorKind::UnexpectedEof,
            Self::Misuse { .. } => io::ErrorKind::InvalidInput,
            Self::Refused { .. } | Self::NoWorkers { .. } | Self::LoopEnded { .. } | Self::Promise(_) => {
                io::ErrorKind::Other
            }
        }
    }

    /// Which file, if that is known: the promise of a result does not know it.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Failed { path, .. }
            | Self::Short { path, .. }
            | Self::Misuse { path, .. }
            | Self::Refused { path, .. }
            | Self::NoWorkers { path, .. }
            | Self::LoopEnded { path, .. } => Some(path),
            Self::Promise(_) => None,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { action, path, done: 0, error } => write!(f, "{action} {path:?} failed: {error}"),
            Self::Failed { action, path, done, error } => {
                write!(f, "{action} {path:?} failed after {done} bytes: {error}")
            }
            Self::Short { path, offset, missing } => write!(
                f,
                "{path:?} ends at offset {offset} or before: expected {missing} more bytes there, got 0"
            ),
            Self::Misuse { action, path, why } => write!(f, "{action} {path:?} cannot be: {why}"),
            Self::Refused { action, path, why } => write!(f, "{action} {path:?} was not begun: {why}"),
            Self::NoWorkers { action, path, why } => {
                write!(f, "{action} {path:?} was not begun, there are no workers: {why}")
            }
            Self::LoopEnded { action, path, begun } => {
                let what = if *begun { "may not be complete" } else { "was not begun" };
                write!(f, "{action} {path:?} {what}: the event loop has ended")
            }
            Self::Promise(error) => error.fmt(f),
        }
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed { error, .. } => Some(error.as_ref()),
            Self::Promise(error) => Some(error),
            _ => None,
        }
    }
}

impl From<PromiseError> for FileError {
    fn from(error: PromiseError) -> Self {
        Self::Promise(error)
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        Self::new(error.kind(), error)
    }
}
