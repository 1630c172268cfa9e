//! What is written, gathered until the flush: heads and short bodies in one buffer, long bodies and files as they are.
//!
//! ```text
//!   reply  reply  reply with a long body        file                       flush
//!   [head body head body head]  ▶ [long body]   [head] ▶ [file]            everything is passed on by now
//! ```
//! The buffer is lent by the loop for the time from the first reply of a batch to its flush, so a connection that waits
//! holds none.

use crate::{
    error::HttpError,
    message::{buffer, recycle_buffer},
};
use bytes::{Bytes, BytesMut};
use netwright_core::{Context, FileRegion, Handler, Outgoing, WritePromise};

/// Bodies up to this length are copied behind their head: that costs less than one more piece in the queue and the system
/// call.
const COPY_MAX: usize = 4096;
/// With so much gathered it is passed on, so that the channel knows what waits to be sent.
const GATHER_MAX: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(crate) buffer: BytesMut,
    /// What goes before the buffer.
    pieces: Vec<Outgoing>,
}

impl Out {
    /// Room for a head, to be had before something is appended.
    #[inline]
    pub(crate) fn begin(&mut self) -> bool {
        let first = self.buffer.capacity() == 0;
        if first {
            self.buffer = buffer();
        }
        first
    }

    /// Appends bytes: a copy of a few, many as they are.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: Bytes) {
        if bytes.len() <= COPY_MAX {
            return self.buffer.extend_from_slice(&bytes);
        }
        self.cut();
        self.pieces.push(Outgoing::Bytes(bytes));
    }

    pub(crate) fn file(&mut self, file: FileRegion) {
        self.cut();
        self.pieces.push(file.into());
    }

    /// Appends bytes or a piece of a file.
    pub(crate) fn outgoing(&mut self, piece: Outgoing) {
        match piece {
            Outgoing::Bytes(bytes) => self.bytes(bytes),
            file => {
                self.cut();
                self.pieces.push(file);
            }
        }
    }

    fn cut(&mut self) {
        if !self.buffer.is_empty() {
            self.pieces.push(Outgoing::Bytes(self.buffer.split().freeze()));
        }
    }

    /// Appends a head; of one that cannot be written nothing stays.
    #[inline(always)] // heads are written by one place for each side, and moves cost
    pub(crate) fn head<T>(
        &mut self,
        append: impl FnOnce(&mut BytesMut) -> Result<T, HttpError>,
    ) -> Result<T, HttpError> {
        let before = self.buffer.len();
        let appended = append(&mut self.buffer);
        if appended.is_err() {
            self.buffer.truncate(before);
        }
        appended
    }

    /// A part was appended: passes on what is long, or somebody waits for.
    #[inline]
    pub(crate) fn written<H: Handler<WriteOut = Outgoing>>(
        &mut self,
        cx: &mut Context<'_, H>,
        done: WritePromise,
    ) {
        if done.is_tracked() {
            self.cut();
            let last = self.pieces.pop().unwrap_or_else(|| Outgoing::Bytes(Bytes::new()));
            self.pass_pieces(cx);
            cx.write_with(last, done);
        } else if !self.pieces.is_empty() {
            self.pass_pieces(cx);
        } else if self.buffer.len() >= GATHER_MAX {
            self.pass_on(cx);
        }
    }

    /// Passes on everything.
    #[inline]
    pub(crate) fn pass_on<H: Handler<WriteOut = Outgoing>>(&mut self, cx: &mut Context<'_, H>) {
        if !self.pieces.is_empty() {
            self.pass_pieces(cx);
        }
        if !self.buffer.is_empty() {
            cx.write(Outgoing::Bytes(self.buffer.split().freeze()));
        }
    }

    /// Passes on everything and gives the buffer back.
    #[inline]
    pub(crate) fn flush<H: Handler<WriteOut = Outgoing>>(&mut self, cx: &mut Context<'_, H>) {
        self.pass_on(cx);
        if self.buffer.capacity() > 0 {
            recycle_buffer(std::mem::take(&mut self.buffer));
        }
    }

    #[cold]
    fn pass_pieces<H: Handler<WriteOut = Outgoing>>(&mut self, cx: &mut Context<'_, H>) {
        self.pieces.drain(..).for_each(|piece| cx.write(piece));
    }
}
