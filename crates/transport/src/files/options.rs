//! How a file is opened.

use super::{File, FileAction, FileError, operation::Operation, start::start};
use netwright_core::{Promised, Workers};
use std::{fs, io, path::Path};

/// How a file is opened: for what, and whether it is made. The names are those of [`std::fs::OpenOptions`].
///
/// ```
/// use netwright_transport::files::OpenOptions;
/// # let directory = std::env::temp_dir().join(format!("netwright-options-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
///
/// let path = directory.join("log");
/// let log = OpenOptions::new().append(true).create(true).open(&path).wait()?;
/// log.append("one line\n").wait()?;
/// log.append("another\n").wait()?;
/// log.sync_data().wait()?;
/// assert_eq!(std::fs::read_to_string(&path)?, "one line\nanother\n");
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing until a file is opened with them"]
pub struct OpenOptions {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    pub(crate) truncate: bool,
    pub(crate) create: bool,
    pub(crate) create_new: bool,
    #[cfg_attr(not(unix), allow(dead_code))] // other systems have no such modes
    pub(crate) mode: u32,
    pub(crate) workers: Option<Workers>,
}

impl OpenOptions {
    /// For nothing yet: at least one of reading, writing and appending has to be asked for.
    pub fn new() -> Self {
        Self { mode: 0o666, ..Self::default() }
    }

    /// For reading.
    pub fn read(mut self, read: bool) -> Self {
        self.read = read;
        self
    }

    /// For writing at offsets.
    pub fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// For writing behind the end, wherever that is by then: see [`File::append`].
    pub fn append(mut self, append: bool) -> Self {
        self.append = append;
        self
    }

    /// Throws the content away. Needs [`write`](Self::write).
    pub fn truncate(mut self, truncate: bool) -> Self {
        self.truncate = truncate;
        self
    }

    /// Makes the file if it does not exist. Needs [`write`](Self::write) or [`append`](Self::append).
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Makes the file, and fails if it exists.
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// The permissions of a file that is made, less those that the process masks. Default: `0o666`.
    #[cfg(unix)]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Who opens the file, and does what a ring does not. Their own tasks must not wait for it: see [`files`](crate::files). Default: the
    /// [common](Workers::common) ones.
    pub fn workers(mut self, workers: &Workers) -> Self {
        self.workers = Some(workers.clone());
        self
    }

    /// Opens a file.
    ///
    /// # Errors
    /// [`FileError`]; also if the path leads to a directory, or to a pipe, a socket, a terminal or another stream, none of which has bytes
    /// at offsets; and on Linux to a device that can be polled, because it may never have an answer (`/dev/null`, `/dev/zero`,
    /// `/dev/full` and `/dev/urandom` always have one). Not told from files are those of the system that wait all the same, such as
    /// `/proc/kmsg`.
    pub fn open(&self, path: impl AsRef<Path>) -> Promised<File, FileError> {
        let path = path.as_ref();
        if let Some(why) = self.contradiction().or_else(|| impossible(path)) {
            let path = path.into();
            return Promised::ready(Err(FileError::Misuse {
                action: FileAction::Open,
                path,
                why: why.to_owned(),
            }));
        }
        let (operation, promised) = Operation::open(path, self.clone());
        start(operation);
        promised
    }

    fn contradiction(&self) -> Option<&'static str> {
        let makes = self.create || self.create_new;
        if !(self.read || self.write || self.append) {
            Some("neither reading, writing nor appending was asked for")
        } else if !(self.write || self.append) && (makes || self.truncate) {
            Some("creating and truncating need writing")
        } else if self.append && self.truncate && !self.create_new {
            Some("appending and truncating exclude each other")
        } else {
            None
        }
    }

    /// Opens it here and now. A pipe that nobody is at the other end of does not hold the thread up.
    pub(super) fn open_here(&self, path: &Path) -> io::Result<fs::File> {
        let mut options = fs::OpenOptions::new();
        options
            .read(self.read)
            .write(self.write)
            .append(self.append)
            .truncate(self.truncate)
            .create(self.create)
            .create_new(self.create_new);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(self.mode).custom_flags(NO_WAIT);
            match options.open(path) {
                // Somebody holds a lease on it and is asked to give it up, which a worker can wait for.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => options.custom_flags(0),
                result => return result,
            };
        }
        options.open(path)
    }
}

fn impossible(path: &Path) -> Option<&'static str> {
    path.as_os_str().as_encoded_bytes().contains(&0).then_some("there is a zero byte in the path")
}

/// Opening waits for nobody.
#[cfg(unix)]
const NO_WAIT: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;
