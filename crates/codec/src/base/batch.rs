//! What is written, gathered until the flush.
//!
//! ```text
//!   write "a"  write "b"  write <large>   write "c" (tracked)    flush
//!   [a\n b\n]────────────▶[<large>] [\n]─▶[c\n]                   everything is passed on by now
//! ```
//! Always true:
//! 1. Messages leave in the order in which they came.
//! 2. A message that somebody tracks is a piece of its own: it can be cancelled as a whole, and takes nobody with it. Only if
//!    it is larger than [`TRACKED_MAX`] it leaves in several, and cannot be cancelled any more.
//! 3. Between flushes of small batches a buffer of at most [`KEEP_MAX`] bytes is kept, so that small answers allocate
//!    nothing in steady state; after larger ones none is.
//! 4. Of a message that could not be encoded nothing is left.

use super::Encoder;
use bytes::{Bytes, BytesMut};
use netwright_core::{Context, Handler, Place, WriteError, WritePromise};
use std::ops::{Deref, DerefMut};

/// Messages up to this length are copied together; longer ones pass as they are. Copying 4 KiB costs less than a piece
/// more in the queue and in the system call.
pub(crate) const GATHER_MAX: usize = 4096;
/// A batch up to this length leaves its buffer for the next one: an idle connection may keep that much.
const KEEP_MAX: usize = 512;
/// Room for some short messages at once.
const ROOM_MIN: usize = 128;
/// A tracked message up to this length is put together, so that it can be cancelled.
const TRACKED_MAX: usize = 64 * 1024;

/// Where encoders append: the bytes of all messages until the next flush.
///
/// It is a [`BytesMut`] to everybody who appends (`extend_from_slice`, [`BufMut`](bytes::BufMut)), which may be done with
/// what is there: it belongs to other messages. [`pass`](Self::pass) appends bytes that exist already, without a copy if
/// they are many.
///
/// ```
/// use netwright_codec::Batch;
/// use bytes::{BufMut, Bytes, BytesMut};
///
/// let mut batch = Batch::new();
/// batch.put_u16(5); // a `BytesMut` to whoever appends
/// batch.pass(Bytes::from("hello"));
/// let mut all = BytesMut::new();
/// batch.append_to(&mut all);
/// assert_eq!(all, &b"\0\x05hello"[..]);
/// ```
#[derive(Debug, Default)]
pub struct Batch {
    buffer: BytesMut,
    /// What goes before the buffer.
    pieces: Vec<Bytes>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes: a copy of a few, many as they are.
    pub fn pass(&mut self, bytes: Bytes) {
        if bytes.len() <= GATHER_MAX {
            return self.buffer.extend_from_slice(&bytes);
        }
        if !self.buffer.is_empty() {
            self.pieces.push(self.buffer.split().freeze());
        }
        self.pieces.push(bytes);
    }

    /// Appends everything to a buffer, for those who want one.
    pub fn append_to(&mut self, all: &mut BytesMut) {
        for piece in self.pieces.drain(..) {
            all.extend_from_slice(&piece);
        }
        all.unsplit(self.buffer.split());
    }

    // ---- for stages ----

    /// Encodes and writes a message.
    #[inline]
    pub(crate) fn write<H, E, P>(
        &mut self,
        cx: &mut Context<'_, H, P>,
        encoder: &mut E,
        message: E::Message,
        done: WritePromise,
    ) where
        H: Handler<P, WriteOut = Bytes>,
        P: Place,
        E: Encoder,
    {
        if done.is_tracked() {
            return self.write_tracked(cx, encoder, message, done);
        }
        if self.buffer.capacity() == 0 {
            self.buffer.reserve(ROOM_MIN);
        }
        let before = self.buffer.len();
        if let Err(fault) = encoder.encode(message, self) {
            self.roll_back(before);
            self.pass_pieces(cx);
            return cx.fire_error(fault);
        }
        if !self.pieces.is_empty() {
            self.pass_pieces(cx);
        }
        if self.buffer.len() >= GATHER_MAX {
            self.pass_on(cx); // so that the channel knows what waits to be sent
        }
    }

    fn write_tracked<H, E, P>(
        &mut self,
        cx: &mut Context<'_, H, P>,
        encoder: &mut E,
        message: E::Message,
        mut done: WritePromise,
    ) where
        H: Handler<P, WriteOut = Bytes>,
        P: Place,
        E: Encoder,
    {
        self.pass_on(cx);
        if let Err(fault) = encoder.encode(message, self) {
            self.roll_back(0);
            return done.fail(WriteError::Fault(fault));
        }
        let len = self.pieces.iter().map(Bytes::len).sum::<usize>() + self.buffer.len();
        if self.pieces.is_empty() || len <= TRACKED_MAX {
            let message = self.take_whole(len);
            return cx.write_with(message, done); // also if it is empty: somebody waits to hear of it
        }
        if !done.claim() {
            return self.roll_back(0); // cancelled already
        }
        if !self.buffer.is_empty() {
            let buffer = self.take_buffer();
            self.pieces.push(buffer);
        }
        let last = self.pieces.pop();
        self.pass_pieces(cx);
        cx.write_with(last.unwrap_or_default(), done);
    }

    /// Passes on what was gathered.
    #[inline]
    pub(crate) fn pass_on<H: Handler<P, WriteOut = Bytes>, P: Place>(&mut self, cx: &mut Context<'_, H, P>) {
        if !self.pieces.is_empty() {
            self.pass_pieces(cx);
        }
        if !self.buffer.is_empty() {
            cx.write(self.take_buffer());
        }
    }

    #[cold]
    fn pass_pieces<H: Handler<P, WriteOut = Bytes>, P: Place>(&mut self, cx: &mut Context<'_, H, P>) {
        for piece in std::mem::take(&mut self.pieces) {
            cx.write(piece);
        }
    }

    /// What the buffer holds; a large one leaves with it.
    fn take_buffer(&mut self) -> Bytes {
        let batch = self.buffer.split().freeze();
        if batch.len() > KEEP_MAX {
            self.buffer = BytesMut::new();
        }
        batch
    }

    /// Everything as one piece: in the first piece's own buffer, if that is all but a few bytes and nobody else uses it.
    fn take_whole(&mut self, len: usize) -> Bytes {
        if self.pieces.is_empty() {
            return self.take_buffer();
        }
        let mut whole = BytesMut::new();
        if self.pieces[0].len() > len / 2
            && let Ok(unshared) = std::mem::take(&mut self.pieces[0]).try_into_mut()
        {
            whole = unshared;
        }
        whole.reserve(len.saturating_sub(whole.len()));
        self.append_to(&mut whole);
        self.buffer = BytesMut::new();
        whole.freeze()
    }

    /// Forgets all but the first bytes of the buffer, as it was when there were no pieces.
    #[cold]
    fn roll_back(&mut self, before: usize) {
        if self.pieces.is_empty() {
            return self.buffer.truncate(before);
        }
        self.buffer.clear();
        self.pieces.truncate(1);
        if before == 0 {
            self.pieces.clear();
        }
        self.pieces.iter_mut().for_each(|piece| piece.truncate(before));
    }
}

impl Deref for Batch {
    type Target = BytesMut;
    fn deref(&self) -> &BytesMut {
        &self.buffer
    }
}

impl DerefMut for Batch {
    fn deref_mut(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }
}
