//! A part of a file, piece by piece.
//!
//! ```text
//!   file   [......|==========|####|####|~~~~~~~~~|..................]
//!               start      given  ready   being read       end
//!                                 └─── at most three pieces each ───┘
//! ```
//! Always true:
//! 1. Pieces come in order; together they are the part that was asked for, or an error comes behind what there is of it.
//! 2. Nothing is read before the first piece is asked for. Then three pieces are read at a time, while the three before them are taken.
//! 3. Memory of pieces that nobody holds any more is used for the next ones, the one used last first: it is in the cache.

use super::{File, FileError};
use bytes::{Bytes, BytesMut};
use netwright_core::{ByteSource, Fault, Promised};
use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// How much is given at a time.
const PIECE: usize = 64 * 1024;
/// How much is read at a time: three pieces. By one operation, because one costs a fifth of what copying a piece does.
const READ: usize = 3 * PIECE;
/// How many buffers are remembered, of those that somebody may still hold.
const BUFFERS: usize = 4;

/// A part of a file in pieces of 64 KiB: three are read ahead while the three before them are taken. Made by [`File::pieces`].
///
/// A [`ByteSource`]: write it to a channel or a peer ([`Channel::write_from`](netwright_core::Channel::write_from)), also through
/// TLS, or make a body of it. Unlike [`FileRegion`](netwright_core::FileRegion), for which the system may have to wait for the
/// disk while it sends, it never holds a loop up.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use netwright_core::{CloseCause, Peer, pipeline};
/// use netwright_transport::{Client, Server, event_loops, files::File};
/// # let path = std::env::temp_dir().join(format!("netwright-pieces-{}", std::process::id()));
/// # std::fs::write(&path, vec![7; 200_000])?;
///
/// let served = path.clone();
/// let server = Server::builder()
///     .group(event_loops(1)?)
///     .pipeline(move |_| {
///         let path = served.clone();
///         pipeline().serve(async move |mut peer: Peer| {
///             let file = File::open(&path).await.map_err(|error| CloseCause::Fault(error.into()))?;
///             peer.write_from(file.pieces(..)).await.map(drop)
///         })
///     })
///     .bind("127.0.0.1:0")
///     .wait()?;
///
/// let mut got = Vec::new();
/// std::io::Read::read_to_end(&mut std::net::TcpStream::connect(server.local_addr().unwrap())?, &mut got)?;
/// assert_eq!(got.len(), 200_000);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is read before somebody asks for a piece"]
pub struct FilePieces {
    file: File,
    /// Where the next read begins.
    next: u64,
    /// How many bytes from there on are wanted.
    unread: u64,
    reading: Option<Read>,
    /// What was read and not given.
    ready: BytesMut,
    /// Buffers whose bytes were given away: empty, and whole again when nobody holds these any more.
    lent: Vec<BytesMut>,
    failed: Option<FileError>,
}

struct Read {
    offset: u64,
    len: usize,
    bytes: Promised<BytesMut, FileError>,
}

impl FilePieces {
    pub(super) fn new(file: File, start: u64, len: u64) -> Self {
        let (ready, lent) = (BytesMut::new(), Vec::new());
        Self { file, next: start, unread: len, reading: None, ready, lent, failed: None }
    }

    /// How many bytes are still to come.
    pub fn remaining(&self) -> u64 {
        let reading = self.reading.as_ref().map_or(0, |read| read.len);
        self.unread + (reading + self.ready.len()) as u64
    }

    /// The next piece; `None` at the end. Giving the wait up loses nothing.
    ///
    /// # Errors
    /// The file could not be read, or ends before the part that was asked for: [`FileError::Short`], behind the bytes that it has.
    pub async fn next(&mut self) -> Result<Option<Bytes>, FileError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`next`](Self::next) for code that polls.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, FileError>> {
        if self.ready.is_empty() {
            if let Some(error) = &self.failed {
                return Poll::Ready(Err(error.clone()));
            }
            self.read_ahead();
            let Some(read) = &mut self.reading else { return Poll::Ready(Ok(None)) };
            let result = ready!(Pin::new(&mut read.bytes).poll(cx));
            if let Some(read) = self.reading.take() {
                self.came(&read, result);
            }
            if self.ready.is_empty() {
                return self.poll_next(cx); // it has failed, and says so
            }
        }
        let piece = self.ready.split_to(self.ready.len().min(PIECE)).freeze();
        if self.ready.is_empty() && self.lent.len() < BUFFERS {
            self.lent.push(std::mem::take(&mut self.ready));
        }
        Poll::Ready(Ok(Some(piece)))
    }

    /// A read has ended: the next one begins, or there are no more.
    fn came(&mut self, read: &Read, result: Result<BytesMut, FileError>) {
        let error = match result {
            Ok(buffer) => {
                let got = buffer.len();
                self.ready = buffer;
                if got == read.len {
                    return self.read_ahead();
                }
                let (path, offset) = (self.file.inner().path.clone(), read.offset + got as u64);
                FileError::Short { path, offset, missing: (read.len - got) as u64 + self.unread }
            }
            Err(error) => error,
        };
        self.failed = Some(error);
    }

    fn read_ahead(&mut self) {
        if self.reading.is_some() || self.unread == 0 {
            return;
        }
        let len = self.unread.min(READ as u64) as usize; // no more than that, so it fits
        let buffer = self.buffer(len);
        let bytes = self.file.read(self.next, len, || buffer);
        self.reading = Some(Read { offset: self.next, len, bytes });
        self.next = self.next.saturating_add(len as u64);
        self.unread -= len as u64;
    }

    /// An empty buffer with room for `len` bytes.
    fn buffer(&mut self, len: usize) -> BytesMut {
        match self.lent.iter_mut().rposition(|buffer| buffer.try_reclaim(len)) {
            Some(free) => self.lent.swap_remove(free),
            None => BytesMut::with_capacity(len),
        }
    }
}

/// What was to be read ahead and has not begun is not read.
impl Drop for FilePieces {
    fn drop(&mut self) {
        if let Some(read) = &self.reading {
            read.bytes.cancel();
        }
    }
}

impl ByteSource for FilePieces {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        self.poll_next(cx).map_err(Fault::from)
    }

    fn bytes_left(&self) -> Option<u64> {
        Some(self.remaining())
    }
}

impl fmt::Debug for FilePieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilePieces")
            .field("path", &self.file.path())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
