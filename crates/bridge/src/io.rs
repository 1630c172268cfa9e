//! A channel as a stream of bytes.
//!
//! ```text
//!   Peer ── a piece as it came ──▶ [ rest ] ──▶ the caller's buffer          asked for when the rest is empty
//!   Peer ◀── one message ◀── a copy of the caller's slices                   while there is room
//! ```
//! Always true:
//! 1. Nothing is read ahead: the channel is asked for bytes when somebody waits for them and none are left.
//! 2. Nothing piles up: without room a write waits, and one write takes [`WRITE_MAX`] bytes at most.
//! 3. What was written is sent at the latest when the tail waits again; a flush only tells when the system has it.
//!
//! Not here: the traits of other crates, which only translate.

use crate::{
    ends::{Reads, Writes},
    error::{closed, not_written},
};
use bytes::{Bytes, BytesMut};
use netwright_core::{Peer, PeerReader, PeerWriter, Written};
use std::{
    fmt,
    future::poll_fn,
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

/// Bytes that one call takes: as many as make a channel full by default.
const WRITE_MAX: usize = 64 * 1024;

/// Both directions of a channel as a stream of bytes, on the channel's loop. Made of a [`Peer`], or of its halves.
///
/// With the features of this crate it is the `AsyncRead` and `AsyncWrite` of tokio and of `futures-io`, and hyper's `Read`
/// and `Write`. It stays on its loop, so it is not `Send`: where hyper upgrades connections (`with_upgrades`), and so for WebSockets of
/// axum, it takes a [`SendIo`](crate::SendIo), which [`sendable`](Self::sendable) makes.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use netwright_bridge::PeerIo;
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
///
/// let mut channel = EmbeddedChannel::new(pipeline().serve(|peer| async move {
///     let (reader, mut writer) = PeerIo::new(peer).into_split();
///     let mut lines = reader.lines();
///     while let Some(line) = lines.next_line().await? {
///         writer.write_all(format!("{} bytes\n", line.len()).as_bytes()).await?;
///     }
///     Ok::<_, std::io::Error>(())
/// }));
/// channel.write_inbound(b"one\nthree\n");
/// assert_eq!(channel.outbound_bytes(), b"3 bytes\n5 bytes\n");
/// # }
/// ```
#[derive(Debug)]
pub struct PeerIo<R = PeerReader, W = PeerWriter> {
    pub(crate) read: PeerRead<R>,
    pub(crate) write: PeerWrite<W>,
}

impl PeerIo {
    /// The peer of an async tail as a stream of bytes.
    pub fn new(peer: Peer) -> Self {
        let (reader, writer) = peer.split();
        Self { read: reader.into(), write: writer.into() }
    }
}

impl<R, W> PeerIo<R, W> {
    /// Both directions apart, for two tasks: of the same loop, unless it is a [`SendIo`](crate::SendIo).
    pub fn into_split(self) -> (PeerRead<R>, PeerWrite<W>) {
        (self.read, self.write)
    }

    /// Both directions.
    pub fn halves(&mut self) -> (&mut PeerRead<R>, &mut PeerWrite<W>) {
        (&mut self.read, &mut self.write)
    }
}

impl From<Peer> for PeerIo {
    fn from(peer: Peer) -> Self {
        Self::new(peer)
    }
}

/// Two halves together; they need not be of the same channel.
impl<R, W> From<(PeerRead<R>, PeerWrite<W>)> for PeerIo<R, W> {
    fn from((read, write): (PeerRead<R>, PeerWrite<W>)) -> Self {
        Self { read, write }
    }
}

/// The reading half of a [`PeerIo`].
///
/// ```
/// use netwright_bridge::PeerIo;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().serve(|peer| async move {
///     let (mut read, mut write) = PeerIo::new(peer).into_split();
///     while let Some(bytes) = read.read_bytes().await? {
///         write.write_bytes(bytes.freeze()).await?; // no copy
///     }
///     Ok::<(), std::io::Error>(())
/// }));
/// channel.write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// ```
pub struct PeerRead<R = PeerReader> {
    reader: R,
    /// What has come and did not fit into the caller's buffer.
    pub(crate) rest: BytesMut,
}

impl<R> PeerRead<R> {
    pub(crate) fn of(reader: R) -> Self {
        Self { reader, rest: BytesMut::new() }
    }
}

impl<R: Reads> PeerRead<R> {
    /// Waits until there are bytes; there are none at the end of the input.
    pub(crate) fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut BytesMut>> {
        while self.rest.is_empty() {
            match ready!(self.reader.poll_read(cx)).map_err(closed)? {
                Some(bytes) => self.rest = bytes, // an empty one is not the end
                None => break,
            }
        }
        Poll::Ready(Ok(&mut self.rest))
    }

    /// The next bytes as they came from the channel, without a copy; `None` at the end of the input.
    ///
    /// # Errors
    /// The channel has ended otherwise: why.
    pub async fn read_bytes(&mut self) -> io::Result<Option<BytesMut>> {
        let bytes = poll_fn(|cx| self.poll_rest(cx).map_ok(BytesMut::split)).await?;
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl From<PeerReader> for PeerRead {
    fn from(reader: PeerReader) -> Self {
        Self::of(reader)
    }
}

impl<R> fmt::Debug for PeerRead<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerRead").field("rest", &self.rest.len()).finish_non_exhaustive()
    }
}

/// The writing half of a [`PeerIo`].
///
/// ```
/// use netwright_bridge::PeerIo;
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use bytes::Bytes;
///
/// let mut channel = EmbeddedChannel::new(pipeline().serve(|peer| async move {
///     let (_, mut write) = PeerIo::new(peer).into_split();
///     write.write_bytes(Bytes::from("goodbye")).await
/// }));
/// assert_eq!(channel.outbound_bytes(), b"goodbye");
/// ```
pub struct PeerWrite<W = PeerWriter> {
    writer: W,
    /// The last tracked write that was not waited for: once the system has it, it has all before it.
    last: Option<Written>,
    unflushed: bool,
    shut_down: bool,
}

impl<W> PeerWrite<W> {
    pub(crate) fn of(writer: W) -> Self {
        Self { writer, last: None, unflushed: false, shut_down: false }
    }
}

impl<W: Writes> PeerWrite<W> {
    /// Writes bytes as soon as there is room, without a copy.
    ///
    /// # Errors
    /// The channel has ended or the output was shut down: why.
    pub async fn write_bytes(&mut self, bytes: Bytes) -> io::Result<()> {
        poll_fn(|cx| self.poll_room(cx)).await?;
        self.put(bytes, true);
        Ok(())
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.shut_down {
            return Poll::Ready(Err(io::Error::new(
                ErrorKind::BrokenPipe,
                "the output was shut down before",
            )));
        }
        self.writer.poll_ready(cx).map_err(closed)
    }

    fn put(&mut self, bytes: Bytes, tracked: bool) {
        self.unflushed = true;
        if tracked {
            self.last = Some(self.writer.write_tracked(bytes));
        } else {
            self.writer.write_now(bytes);
        }
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        tracked: bool,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(cx))?;
        let bytes = &bytes[..bytes.len().min(WRITE_MAX)];
        if !bytes.is_empty() {
            self.put(Bytes::copy_from_slice(bytes), tracked);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    /// Several slices as one message: the transport gets one piece, and the caller need not join them first.
    pub(crate) fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
        tracked: bool,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(cx))?;
        let all = slices.iter().fold(0_usize, |sum, slice| sum.saturating_add(slice.len()));
        let len = all.min(WRITE_MAX);
        if len > 0 {
            let mut joined = BytesMut::with_capacity(len);
            for slice in slices {
                let room = len - joined.len();
                joined.extend_from_slice(&slice[..slice.len().min(room)]);
            }
            self.put(joined.freeze(), tracked);
        }
        Poll::Ready(Ok(len))
    }

    /// Ready when the system has taken all that was written and tracked.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.unflushed) {
            self.writer.flush();
        }
        if let Some(last) = &mut self.last {
            let written = ready!(Pin::new(last).poll(cx));
            self.last = None; // it resolves once
            written.map_err(not_written)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sees to it that what was written is sent, without waiting for it.
    #[cfg(feature = "hyper")]
    pub(crate) fn flush_soon(&mut self) {
        if std::mem::take(&mut self.unflushed) {
            self.writer.flush_soon();
        }
    }

    /// Tells the peer that no more will come, after what was written.
    pub(crate) fn shut_down(&mut self) {
        if !std::mem::replace(&mut self.shut_down, true) {
            self.writer.shut_down_output();
        }
    }

    pub(crate) fn poll_shut_down(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut_down();
        self.poll_flush(cx)
    }
}

impl From<PeerWriter> for PeerWrite {
    fn from(writer: PeerWriter) -> Self {
        Self::of(writer)
    }
}

impl<W> fmt::Debug for PeerWrite<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerWrite").field("shut_down", &self.shut_down).finish_non_exhaustive()
    }
}
