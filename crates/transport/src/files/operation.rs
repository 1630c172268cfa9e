//! One thing that was asked of a file: what it needs, how far it is, and who waits for it.
//!
//! ```text
//!   Operation ── on a worker: step, took, step, took … ──▶ tell
//!             └─ on a ring:   entry ─▶ kernel ─▶ took … ──▶ tell      (but for opens and metadata)
//! ```
//! Always true:
//! 1. An operation owns all memory that it needs, and keeps its file open until it is over.
//! 2. Reads go on until they have what was asked for or the file ends; writes go on until everything is written.
//! 3. Who waits is told once: by [`Operation::tell`], or by the drop of the promise.
//! 4. Only `step` asks the system, and may wait for it: what follows from a step is found out without it, because a loop does that.

use super::{File, FileAction, FileError, OpenOptions, file::Inner};
use bytes::{Buf, Bytes, BytesMut};
use netwright_core::{Promise, Promised, Workers, promise};
use std::{fs, io, path::Path, sync::Arc};

/// The last offset that systems know, and one.
const OFFSETS: u64 = i64::MAX as u64;
/// The most bytes of one read: what is longer is read in parts by whoever wants it.
pub(super) const READ_MAX: usize = 1 << 30;
/// The most bytes that a worker reads by one call: room is zeroed before, and that is best done while it is in the cache.
const STEP_MAX: usize = 256 << 10;

/// Something asked of a file, and who waits for it.
pub(crate) struct Operation {
    pub(crate) work: Work,
    reply: Reply,
    claimed: bool,
}

/// What is to be done.
pub(crate) enum Work {
    Open(Opening),
    Read(Reading),
    Write(Writing),
    /// Everything, or only the content.
    Sync(Arc<Inner>, FileAction),
    Metadata(Arc<Inner>),
    Close(Closing),
}

pub(crate) struct Opening {
    path: Arc<Path>,
    options: OpenOptions,
}

pub(crate) struct Reading {
    pub(crate) file: Arc<Inner>,
    pub(crate) offset: u64,
    /// What was read stands at the end of it, behind what was there before.
    pub(crate) buffer: BytesMut,
    /// How many bytes are still wanted. There is room for so many.
    pub(crate) left: usize,
    len: usize,
}

pub(crate) struct Writing {
    pub(crate) file: Arc<Inner>,
    /// `None`: behind the end.
    pub(crate) offset: Option<u64>,
    pub(crate) bytes: Bytes,
    len: usize,
}

pub(crate) struct Closing {
    /// None when it is closed, or the kernel is about to.
    pub(crate) file: Option<fs::File>,
    /// What the kernel is about to close.
    #[cfg(all(target_os = "linux", feature = "uring"))]
    pub(crate) given: std::os::fd::RawFd,
    path: Arc<Path>,
    workers: Option<Workers>,
}

/// Who waits.
enum Reply {
    File(Promise<File, FileError>),
    Bytes(Promise<BytesMut, FileError>),
    Metadata(Promise<fs::Metadata, FileError>),
    Nothing(Promise<(), FileError>),
    Nobody,
}

/// What a step brought.
pub(crate) enum Step {
    Opened(File),
    /// So many bytes were read or written; for what is not about bytes: done.
    Moved(usize),
    /// Boxed, because it is large and rarely asked for.
    Metadata(Box<fs::Metadata>),
}

/// What a ring made of a step.
#[cfg(all(target_os = "linux", feature = "uring"))]
pub(crate) enum Outcome {
    Took(io::Result<Step>),
    /// It was taken back, and can be begun again.
    Cancelled,
    /// This one is for workers.
    NotByRing,
}

/// What there is to do next.
pub(crate) enum Next {
    /// Another step.
    More,
    /// Nothing: this came of it.
    Over(Result<Done, FileError>),
}

/// What came of an operation.
pub(crate) enum Done {
    File(File),
    Bytes(BytesMut),
    Metadata(Box<fs::Metadata>),
    Nothing,
}

impl Operation {
    fn new(work: Work, reply: Reply) -> Self {
        Self { work, reply, claimed: false }
    }

    pub(super) fn open(path: &Path, options: OpenOptions) -> (Self, Promised<File, FileError>) {
        let (promise, promised) = promise();
        (Self::new(Work::Open(Opening { path: path.into(), options }), Reply::File(promise)), promised)
    }

    /// Reads into the room that `buffer` has, at most `len` bytes.
    pub(super) fn read(
        file: &Arc<Inner>,
        offset: u64,
        mut buffer: BytesMut,
        len: usize,
    ) -> (Self, Promised<BytesMut, FileError>) {
        buffer.reserve(len);
        let (promise, promised) = promise();
        let reading = Reading { file: file.clone(), offset, buffer, left: len, len };
        (Self::new(Work::Read(reading), Reply::Bytes(promise)), promised)
    }

    pub(super) fn write(
        file: &Arc<Inner>,
        offset: Option<u64>,
        bytes: Bytes,
    ) -> (Self, Promised<(), FileError>) {
        let len = bytes.len();
        let writing = Writing { file: file.clone(), offset, bytes, len };
        Self::with_nothing_to_tell(Work::Write(writing))
    }

    pub(super) fn sync(file: &Arc<Inner>, action: FileAction) -> (Self, Promised<(), FileError>) {
        Self::with_nothing_to_tell(Work::Sync(file.clone(), action))
    }

    pub(super) fn metadata(file: &Arc<Inner>) -> (Self, Promised<fs::Metadata, FileError>) {
        let (promise, promised) = promise();
        (Self::new(Work::Metadata(file.clone()), Reply::Metadata(promise)), promised)
    }

    pub(super) fn close(
        file: fs::File,
        path: Arc<Path>,
        workers: Option<Workers>,
        promise: Option<Promise<(), FileError>>,
    ) -> Self {
        let closing = Closing {
            file: Some(file),
            #[cfg(all(target_os = "linux", feature = "uring"))]
            given: -1,
            path,
            workers,
        };
        Self::new(Work::Close(closing), promise.map_or(Reply::Nobody, Reply::Nothing))
    }

    fn with_nothing_to_tell(work: Work) -> (Self, Promised<(), FileError>) {
        let (promise, promised) = promise();
        (Self::new(work, Reply::Nothing(promise)), promised)
    }

    /// It begins now, unless whoever waited has cancelled it. A close is always carried out.
    pub(crate) fn claim(&mut self) -> bool {
        self.claimed = self.claimed
            || match &mut self.reply {
                Reply::Nothing(_) if matches!(self.work, Work::Close(_)) => true,
                Reply::File(promise) => promise.claim(),
                Reply::Bytes(promise) => promise.claim(),
                Reply::Metadata(promise) => promise.claim(),
                Reply::Nothing(promise) => promise.claim(),
                Reply::Nobody => true,
            };
        self.claimed
    }

    /// Does all of it here and now.
    pub(super) fn run(mut self) {
        if !self.claim() {
            return;
        }
        loop {
            let step = self.work.step();
            if let Next::Over(result) = self.work.took(step) {
                return self.tell(result);
            }
        }
    }

    /// Tells whoever waits. Runs code of others.
    pub(crate) fn tell(&mut self, result: Result<Done, FileError>) {
        let reply = std::mem::replace(&mut self.reply, Reply::Nobody);
        match (reply, result) {
            (Reply::File(promise), Ok(Done::File(file))) => promise.succeed(file),
            (Reply::Bytes(promise), Ok(Done::Bytes(bytes))) => promise.succeed(bytes),
            (Reply::Metadata(promise), Ok(Done::Metadata(metadata))) => promise.succeed(*metadata),
            (Reply::Nothing(promise), Ok(Done::Nothing)) => promise.succeed(()),
            (Reply::File(promise), Err(error)) => promise.fail(error),
            (Reply::Bytes(promise), Err(error)) => promise.fail(error),
            (Reply::Metadata(promise), Err(error)) => promise.fail(error),
            (Reply::Nothing(promise), Err(error)) => promise.fail(error),
            (Reply::Nobody, Err(error)) => tracing::warn!(%error, "nobody waited for this"),
            (Reply::Nobody, Ok(_)) | (_, Ok(_)) => {} // an answer to another question cannot be
        }
    }

    /// Tells whoever waits that the loop has ended.
    #[cfg(all(target_os = "linux", feature = "uring"))]
    pub(crate) fn tell_loop_ended(&mut self) {
        let (action, path) = (self.work.action(), self.work.path().clone());
        self.tell(Err(FileError::LoopEnded { action, path, begun: self.claimed }));
    }

    pub(super) fn is_close(&self) -> bool {
        matches!(self.work, Work::Close(_))
    }

    pub(super) fn workers(&self) -> Option<&Workers> {
        match &self.work {
            Work::Open(opening) => opening.options.workers.as_ref(),
            Work::Read(Reading { file, .. })
            | Work::Write(Writing { file, .. })
            | Work::Sync(file, _)
            | Work::Metadata(file) => file.workers.as_ref(),
            Work::Close(closing) => closing.workers.as_ref(),
        }
    }
}

impl Work {
    pub(crate) fn action(&self) -> FileAction {
        match self {
            Self::Open(_) => FileAction::Open,
            Self::Read(reading) => {
                FileAction::Read { offset: reading.offset - reading.done() as u64, len: reading.len }
            }
            Self::Write(writing) => match writing.offset {
                Some(offset) => {
                    FileAction::Write { offset: offset - writing.done() as u64, len: writing.len }
                }
                None => FileAction::Append { len: writing.len },
            },
            Self::Sync(_, action) => *action,
            Self::Metadata(_) => FileAction::Metadata,
            Self::Close(_) => FileAction::Close,
        }
    }

    pub(crate) fn path(&self) -> &Arc<Path> {
        match self {
            Self::Open(opening) => &opening.path,
            Self::Read(Reading { file, .. })
            | Self::Write(Writing { file, .. })
            | Self::Sync(file, _)
            | Self::Metadata(file) => &file.path,
            Self::Close(closing) => &closing.path,
        }
    }

    fn done(&self) -> usize {
        match self {
            Self::Read(reading) => reading.done(),
            Self::Write(writing) => writing.done(),
            _ => 0,
        }
    }

    /// One call to the system, which may block.
    fn step(&mut self) -> io::Result<Step> {
        match self {
            Self::Open(opening) => File::open_here(&opening.path, &opening.options).map(Step::Opened),
            Self::Read(reading) => {
                let before = reading.buffer.len();
                reading.buffer.resize(before + reading.left.min(STEP_MAX), 0);
                let result = at::read(reading.file.file()?, &mut reading.buffer[before..], reading.offset);
                reading.buffer.truncate(before + result.as_ref().map_or(0, |read| *read));
                result.map(Step::Moved)
            }
            Self::Write(writing) => {
                let file = writing.file.file()?;
                let result = match writing.offset {
                    Some(offset) => at::write(file, &writing.bytes, offset),
                    None => io::Write::write(&mut &*file, &writing.bytes),
                };
                result.map(Step::Moved)
            }
            Self::Sync(file, FileAction::SyncData) => file.file()?.sync_data().map(|()| Step::Moved(0)),
            Self::Sync(file, _) => file.file()?.sync_all().map(|()| Step::Moved(0)),
            Self::Metadata(file) => {
                file.file()?.metadata().map(|metadata| Step::Metadata(Box::new(metadata)))
            }
            Self::Close(closing) => {
                drop(closing.file.take());
                Ok(Step::Moved(0))
            }
        }
    }

    /// What follows from a step.
    pub(crate) fn took(&mut self, step: io::Result<Step>) -> Next {
        let step = match step {
            Ok(step) => step,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Next::More,
            Err(error) => return Next::Over(Err(self.failed(error))),
        };
        let result = match (&mut *self, step) {
            (Self::Open(_), Step::Opened(file)) => Ok(Done::File(file)),
            (Self::Read(reading), Step::Moved(read)) => {
                reading.left -= read.min(reading.left);
                reading.offset += read as u64;
                if read > 0 && reading.left > 0 {
                    return Next::More;
                }
                Ok(Done::Bytes(std::mem::take(&mut reading.buffer)))
            }
            (Self::Write(writing), Step::Moved(written)) => {
                writing.bytes.advance(written.min(writing.bytes.len()));
                if let Some(offset) = &mut writing.offset {
                    *offset += written as u64;
                }
                if written > 0 && !writing.bytes.is_empty() {
                    return Next::More;
                }
                match writing.bytes.is_empty() {
                    true => Ok(Done::Nothing),
                    false => Err(self.failed(io::ErrorKind::WriteZero.into())),
                }
            }
            (Self::Metadata(_), Step::Metadata(metadata)) => Ok(Done::Metadata(metadata)),
            _ => Ok(Done::Nothing),
        };
        Next::Over(result)
    }

    fn failed(&self, error: io::Error) -> FileError {
        let path = self.path().clone();
        FileError::Failed { action: self.action(), path, done: self.done(), error: Arc::new(error) }
    }
}

impl Reading {
    fn done(&self) -> usize {
        self.len - self.left
    }
}

impl Writing {
    /// Whether it is for the end of the file, wherever that is by then.
    #[cfg(all(target_os = "linux", feature = "uring"))]
    pub(crate) fn is_append(&self) -> bool {
        self.offset.is_none()
    }

    fn done(&self) -> usize {
        self.len - self.bytes.len()
    }
}

/// Why so many bytes cannot be at this offset of any file.
pub(super) fn beyond_all_files(offset: u64, len: usize) -> Option<String> {
    let end = offset.checked_add(len as u64);
    let limit = OFFSETS;
    end.is_none_or(|end| end > limit).then(|| format!("no file reaches beyond offset {limit}"))
}

#[cfg(unix)]
mod at {
    use std::{fs::File, io, os::unix::fs::FileExt};

    pub(super) fn read(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(buffer, offset)
    }
    pub(super) fn write(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.write_at(bytes, offset)
    }
}

#[cfg(windows)]
mod at {
    use std::{fs::File, io, os::windows::fs::FileExt};

    pub(super) fn read(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        file.seek_read(buffer, offset)
    }
    pub(super) fn write(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.seek_write(bytes, offset)
    }
}

#[cfg(not(any(unix, windows)))]
mod at {
    use std::{fs::File, io};

    fn unknown() -> io::Error {
        io::Error::new(io::ErrorKind::Unsupported, "this system has no bytes of files at offsets")
    }
    pub(super) fn read(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(unknown())
    }
    pub(super) fn write(_: &File, _: &[u8], _: u64) -> io::Result<usize> {
        Err(unknown())
    }
}
