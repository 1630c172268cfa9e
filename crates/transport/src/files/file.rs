//! An open file.

use super::{
    FileAction, FileError, FilePieces, OpenOptions,
    examined::{Examined, examine},
    operation::{Operation, READ_MAX, beyond_all_files},
    start::start,
};
use bytes::{Bytes, BytesMut};
use netwright_core::{LocalLoop, Promise, Promised, Workers, promise};
use std::{
    fmt, fs, io,
    ops::{Bound, RangeBounds},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// An open file that no event loop waits for.
///
/// What is asked for begins at once, on the ring of the loop that asks or on [workers](OpenOptions::workers), who also open it and tell
/// its metadata. The result is a [`Promised`]: await it on a loop, hand it to [`Context::spawn`](netwright_core::Context::spawn) in a
/// handler, or [wait](Promised::wait) for it on any other thread. Dropping it changes nothing: the operation goes on and keeps its
/// memory for itself. Cancelling it takes it back if it has not begun.
///
/// Operations that are under way at the same time have no order: await one before the next where that matters.
///
/// A handle: clones are the same file, which is closed with the last of them.
///
/// ```
/// use netwright_transport::files::File;
/// # let directory = std::env::temp_dir().join(format!("netwright-file-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
///
/// let group = netwright_transport::Backend::Auto.event_loops(1)?;
/// let path = directory.join("greeting");
/// let greeting = group.next().spawn(async move {
///     let file = File::create(path).await?; // the loop goes on meanwhile
///     file.write_all_at(0, "hello, world").await?;
///     file.sync_all().await?;
///     file.read_at(7, 100).await
/// })?.wait()??;
/// assert_eq!(greeting, "world");
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct File {
    handle: Arc<Handle>,
}

/// What the clones of a file share. Operations hold what is below it, so that a close knows clones from operations.
struct Handle {
    inner: Arc<Inner>,
}

/// The open file itself.
pub(crate) struct Inner {
    /// None only while it is closed.
    file: Option<fs::File>,
    pub(super) path: Arc<Path>,
    pub(super) workers: Option<Workers>,
    /// For what it was opened.
    read: bool,
    write: bool,
    append: bool,
    at_open: fs::Metadata,
    #[cfg_attr(not(all(target_os = "linux", feature = "uring")), allow(dead_code))]
    // there are no rings that would ask
    prompt: bool,
    /// Who waits for the end.
    closing: Mutex<Option<Promise<(), FileError>>>,
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Promised<Self, FileError> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for reading and writing that is empty: made, or its content thrown away.
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    pub fn create(path: impl AsRef<Path>) -> Promised<Self, FileError> {
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)
    }

    /// How to open a file otherwise.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Opens it here and now, and looks at what it is: for workers.
    pub(super) fn open_here(path: &Arc<Path>, options: &OpenOptions) -> io::Result<Self> {
        let file = options.open_here(path)?;
        let Examined { at_open, prompt } = examine(&file)?;
        let inner = Inner {
            file: Some(file),
            path: path.clone(),
            workers: options.workers.clone(),
            read: options.read,
            write: options.write,
            append: options.append,
            at_open,
            prompt,
            closing: Mutex::new(None),
        };
        Ok(Self { handle: Arc::new(Handle { inner: Arc::new(inner) }) })
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.handle.inner
    }

    /// Under which path it was opened.
    pub fn path(&self) -> &Path {
        &self.inner().path
    }

    /// What it was like when it was opened. Costs nothing.
    pub fn at_open(&self) -> &fs::Metadata {
        &self.inner().at_open
    }

    /// What it is like now.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn metadata(&self) -> Promised<fs::Metadata, FileError> {
        begin(Operation::metadata(self.inner()))
    }

    /// Reads `len` bytes; fewer only if the file ends before.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("netwright-read-{}", std::process::id()));
    /// # std::fs::write(&path, "hello, world")?;
    /// let file = netwright_transport::files::File::open(&path).wait()?;
    /// assert_eq!(file.read_at(7, 64).wait()?, "world");
    /// assert_eq!(file.read_at(64, 64).wait()?, "");
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FileError`]; [`FileError::Misuse`] for more than 1 GiB at a time, and if the file was not opened for reading.
    pub fn read_at(&self, offset: u64, len: usize) -> Promised<BytesMut, FileError> {
        self.read(offset, len, BytesMut::new)
    }

    /// Reads as much as `buffer` has room for, behind what it holds; less only if the file ends before. For whoever reads much and
    /// uses the same memory again. If it fails, the buffer is gone.
    ///
    /// ```
    /// use bytes::BytesMut;
    /// # let path = std::env::temp_dir().join(format!("netwright-into-{}", std::process::id()));
    /// # std::fs::write(&path, "hello, world")?;
    /// let file = netwright_transport::files::File::open(&path).wait()?;
    /// let mut buffer = BytesMut::with_capacity(5);
    /// for offset in [0, 7] {
    ///     buffer.clear();
    ///     buffer = file.read_into(offset, buffer).wait()?;
    /// }
    /// assert_eq!(buffer, "world");
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`read_at`](Self::read_at).
    pub fn read_into(&self, offset: u64, buffer: BytesMut) -> Promised<BytesMut, FileError> {
        self.read(offset, buffer.capacity() - buffer.len(), || buffer)
    }

    pub(super) fn read(
        &self,
        offset: u64,
        len: usize,
        buffer: impl FnOnce() -> BytesMut,
    ) -> Promised<BytesMut, FileError> {
        let not_for_that = (!self.inner().read).then(|| "it was not opened for reading".to_owned());
        let too_long = (len > READ_MAX).then(|| format!("at most {READ_MAX} bytes are read at a time"));
        if let Some(why) = not_for_that.or(too_long).or_else(|| beyond_all_files(offset, len)) {
            return self.misuse(FileAction::Read { offset, len }, why);
        }
        if len == 0 {
            return Promised::ready(Ok(buffer()));
        }
        begin(Operation::read(self.inner(), offset, buffer(), len))
    }

    /// Writes all of `bytes` from `offset` on.
    ///
    /// # Errors
    /// [`FileError`], which also tells how much was written before; [`FileError::Misuse`] if the file was not opened for writing, or was
    /// opened for appending: then the system decides where.
    pub fn write_all_at(&self, offset: u64, bytes: impl Into<Bytes>) -> Promised<(), FileError> {
        let bytes = bytes.into();
        let len = bytes.len();
        let not_for_that = match self.inner() {
            inner if inner.append => Some("it was opened for appending".to_owned()),
            inner if !inner.write => Some("it was not opened for writing".to_owned()),
            _ => None,
        };
        if let Some(why) = not_for_that.or_else(|| beyond_all_files(offset, len)) {
            return self.misuse(FileAction::Write { offset, len }, why);
        }
        self.write(Some(offset), bytes)
    }

    /// Writes all of `bytes` behind the end of a file that was opened for [appending](OpenOptions::append).
    ///
    /// By one call to the system, if it takes them all (2 GiB at most): then nothing that is appended at the same time comes between
    /// them, on file systems that keep to that.
    ///
    /// # Errors
    /// [`FileError`], which also tells how much was written before; [`FileError::Misuse`] if the file was not opened for
    /// appending.
    pub fn append(&self, bytes: impl Into<Bytes>) -> Promised<(), FileError> {
        let bytes = bytes.into();
        if !self.inner().append {
            let why = "it was not opened for appending".to_owned();
            return self.misuse(FileAction::Append { len: bytes.len() }, why);
        }
        self.write(None, bytes)
    }

    fn write(&self, offset: Option<u64>, bytes: Bytes) -> Promised<(), FileError> {
        if bytes.is_empty() {
            return Promised::ready(Ok(()));
        }
        begin(Operation::write(self.inner(), offset, bytes))
    }

    /// Resolves when content and metadata are on the disk.
    ///
    /// # Errors
    /// [`FileError`]. What was written before may be lost then, also if it is synced again.
    pub fn sync_all(&self) -> Promised<(), FileError> {
        begin(Operation::sync(self.inner(), FileAction::SyncAll))
    }

    /// Resolves when the content is on the disk, and of the metadata what is needed to read it.
    ///
    /// # Errors
    /// As for [`sync_all`](Self::sync_all).
    pub fn sync_data(&self) -> Promised<(), FileError> {
        begin(Operation::sync(self.inner(), FileAction::SyncData))
    }

    /// A part of the file, piece by piece: to be sent to a channel, or as the body of a reply. Without an end: as far as the file went
    /// when it was opened.
    pub fn pieces(&self, range: impl RangeBounds<u64>) -> FilePieces {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.at_open().len(),
        };
        FilePieces::new(self.clone(), start, end.saturating_sub(start))
    }

    /// Closes the file, behind what is under way, and tells when that is done. Without it a file is closed with its last clone, and
    /// nobody hears of it. What the system says to a close is known where a ring does it. Whether content is safe is known by
    /// [`sync_all`](Self::sync_all) alone.
    ///
    /// # Errors
    /// [`FileError::Misuse`] while there are clones or [pieces](Self::pieces) of it: it stays open until they are gone.
    pub fn close(self) -> Promised<(), FileError> {
        let inner = self.inner().clone();
        let Some(handle) = Arc::into_inner(self.handle) else {
            let (action, path) = (FileAction::Close, inner.path.clone());
            let why = "there are other handles to it".to_owned();
            return Promised::ready(Err(FileError::Misuse { action, path, why }));
        };
        let (promise, promised) = promise();
        *inner.closing.lock().unwrap_or_else(PoisonError::into_inner) = Some(promise);
        drop(handle); // the last operation that is under way closes it, or this
        drop(inner);
        promised
    }

    fn misuse<T: 'static>(&self, action: FileAction, why: String) -> Promised<T, FileError> {
        let path = self.inner().path.clone();
        Promised::ready(Err(FileError::Misuse { action, path, why }))
    }
}

fn begin<T>((operation, promised): (Operation, Promised<T, FileError>)) -> Promised<T, FileError> {
    start(operation);
    promised
}

impl Inner {
    pub(crate) fn file(&self) -> io::Result<&fs::File> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Whether its file system, asked by a ring not to wait, does not.
    #[cfg(all(target_os = "linux", feature = "uring"))]
    pub(crate) fn is_prompt(&self) -> bool {
        self.prompt
    }
}

/// Closing may take its time, on network file systems or when the name is gone and the content goes too: no loop does it.
impl Drop for Inner {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        let promise = self.closing.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let operation = Operation::close(file, self.path.clone(), self.workers.take(), promise);
        match LocalLoop::current() {
            Some(_) => start(operation),
            None => operation.run(),
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.path()).finish_non_exhaustive()
    }
}
