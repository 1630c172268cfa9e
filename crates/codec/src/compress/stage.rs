//! Compressing as a stage, alone and with the way back.
//!
//! ```text
//!   write a ─▶ [ compressor ] ─▶ pieces, as they come      flush ─▶ what is inside, then the promises of a, b, c
//!   write b ─▶                                             close, shut_down_output ─▶ the end of the stream first
//! ```
//! Always true:
//! 1. After a flush the peer can read everything that was written before it. A flush with nothing written since the last
//!    one adds nothing.
//! 2. A promise completes when the last compressed byte of its message was sent, which is in the piece of the next flush.
//! 3. A stream that was begun is ended when the channel is closed by us, or when the stage leaves it to another segment; one in
//!    which nothing was written is not begun.
//!
//! A message that is written is compressed at once and cannot be cancelled any more. What was written and not flushed
//! before a close is sent with the end: it cannot be taken out of the stream.
//!
//! Not here: how decompressing is pulled (`base::decoding`).

use super::{CompressError, Compressor, DecompressLimits, Decompressor, Flush, State, decompressor::PIECE};
use crate::base::Decoding;
use bytes::{Bytes, BytesMut};
use netwright_core::{
    CloseCause, Context, Fault, Handler, InvalidArgument, Leftover, Place, WriteError, WritePromise,
};
use std::{fmt, marker::PhantomData};

/// A [`Compressor`] as a stage. What is read passes; as [`BytesMut`], or what [`passing`](Compress::passing) says.
///
/// ```
/// # #[cfg(feature = "gzip")] {
/// use bytes::BytesMut;
/// use netwright_codec::{Gzip, compress};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(compress(Gzip::compressor().level(9).unwrap())));
/// channel.write_outbound("hello");
/// let mut out = BytesMut::new();
/// Gzip::decompressor().decompress(&channel.outbound_bytes(), &mut out, 100).unwrap();
/// assert_eq!(out, "hello", "readable after the flush, though the stream goes on");
/// # }
/// ```
pub fn compress(compressor: Compressor) -> Compress {
    Compress { compressing: Compressing::new(compressor), reads: PhantomData }
}

/// Made by [`compress`](compress()).
///
/// ```
/// # #[cfg(feature = "gzip")] {
/// use netwright_codec::{Compress, Gzip};
/// use netwright_core::pipeline;
///
/// let stage: Compress = Gzip::compress(); // what is read passes as it is
/// let _stages = pipeline().add(stage);
/// # }
/// ```
pub struct Compress<R = BytesMut> {
    compressing: Compressing,
    reads: PhantomData<fn(R)>,
}

impl<R> Compress<R> {
    /// The same stage with messages of another type passing towards the application; see
    /// [`Decode::passing`](crate::Decode::passing).
    pub fn passing<S>(self) -> Compress<S> {
        Compress { compressing: self.compressing, reads: PhantomData }
    }
}

/// The hooks of a stage on the way out, all of which is done by its field `compressing`.
macro_rules! compressing_hooks {
    () => {
        fn write(&mut self, cx: &mut Context<'_, Self, P>, bytes: Bytes, done: WritePromise) {
            self.compressing.write(cx, &bytes, done);
        }
        fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
            self.compressing.flush(cx);
        }
        fn close(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause, done: WritePromise) {
            self.compressing.end(cx);
            cx.close_with(cause, done);
        }
        fn shut_down_output(&mut self, cx: &mut Context<'_, Self, P>, done: WritePromise) {
            self.compressing.end(cx);
            cx.shut_down_output_with(done);
        }
        /// What follows comes from another segment: the stream ends here, with everything that was written.
        fn leaving(&mut self, cx: &mut Context<'_, Self, P>) {
            self.compressing.end(cx);
        }
        fn name(&self) -> &'static str {
            self.compressing.compressor.format().name()
        }
    };
}

impl<R: 'static, P: Place> Handler<P> for Compress<R> {
    type Read = R;
    type ReadOut = R;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: R) {
        cx.fire_read(msg);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
        self.compressing.inactive(&cause);
        cx.fire_inactive(cause);
    }

    compressing_hooks!();
}

impl<R> fmt::Debug for Compress<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Compress").field(&self.compressing.compressor).finish()
    }
}

/// Decompresses what is read and compresses what is written: a stage between the wire and whoever speaks plainly.
///
/// ```
/// # #[cfg(feature = "gzip")] {
/// use netwright_codec::{Gzip, LineFrames};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let new = || EmbeddedChannel::new(pipeline().add(Gzip::both_ways()).add(LineFrames::max(1024)));
/// let (mut here, mut there) = (new(), new());
/// here.write_outbound("hello");
/// there.write_inbound(here.outbound_bytes());
/// assert_eq!(there.read_inbound().unwrap(), "hello");
/// # }
/// ```
pub struct Compression {
    decoding: Decoding<Decompressor>,
    compressing: Compressing,
}

impl Compression {
    /// The two ways may differ in format and settings.
    pub fn new(decompressor: Decompressor, compressor: Compressor) -> Self {
        Self { decoding: Decoding::new(decompressor), compressing: Compressing::new(compressor) }
    }

    /// Sets what is put up with from the peer.
    pub fn limits(self, limits: DecompressLimits) -> Self {
        Self::new(self.decoding.decoder.limits(limits), self.compressing.compressor)
    }

    /// See [`Decompressor::chained`].
    pub fn chained(self, chained: bool) -> Self {
        Self::new(self.decoding.decoder.chained(chained), self.compressing.compressor)
    }

    /// See [`Compressor::level`].
    pub fn level(self, level: i32) -> Result<Self, InvalidArgument> {
        Ok(Self::new(self.decoding.decoder, self.compressing.compressor.level(level)?))
    }

    /// See [`Compressor::window`].
    pub fn window(self, bytes: u64) -> Result<Self, InvalidArgument> {
        Ok(Self::new(self.decoding.decoder, self.compressing.compressor.window(bytes)?))
    }
}

impl<P: Place> Handler<P> for Compression {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self, P>, bytes: BytesMut) {
        self.decoding.read(cx, bytes);
    }
    fn pull(&mut self, cx: &mut Context<'_, Self, P>) -> Option<BytesMut> {
        self.decoding.pull(cx)
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self, P>) {
        self.decoding.finish(cx, false);
        cx.fire_input_closed();
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
        self.compressing.inactive(&cause);
        self.decoding.finish(cx, true);
        cx.fire_inactive(cause);
    }
    fn leftover(&mut self) -> Leftover<BytesMut> {
        self.decoding.leftover()
    }

    compressing_hooks!();
}

impl fmt::Debug for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Compression")
            .field(&self.decoding.decoder)
            .field(&self.compressing.compressor)
            .finish()
    }
}

/// What stages with a compressor share.
struct Compressing {
    compressor: Compressor,
    /// Compressed and not passed on.
    out: BytesMut,
    /// Something is inside that the peer cannot read yet.
    unflushed: bool,
    /// Of messages that are inside.
    waiting: Vec<WritePromise>,
    ended: bool,
}

impl Compressing {
    fn new(compressor: Compressor) -> Self {
        Self { compressor, out: BytesMut::new(), unflushed: false, waiting: Vec::new(), ended: false }
    }

    fn write<H, P>(&mut self, cx: &mut Context<'_, H, P>, bytes: &[u8], mut done: WritePromise)
    where
        H: Handler<P, WriteOut = Bytes>,
        P: Place,
    {
        if self.ended {
            return done.fail(WriteError::OutputShutDown);
        }
        if !done.claim() {
            return; // cancelled already
        }
        if !bytes.is_empty() {
            self.unflushed = true;
            if let Err(error) = self.run(cx, bytes, Flush::None) {
                let fault = Fault::from(error);
                done.fail(WriteError::Fault(fault.clone()));
                return self.fail(cx, fault);
            }
        }
        if done.is_tracked() {
            self.waiting.push(done);
        }
    }

    fn flush<H: Handler<P, WriteOut = Bytes>, P: Place>(&mut self, cx: &mut Context<'_, H, P>) {
        if std::mem::take(&mut self.unflushed)
            && let Err(error) = self.run(cx, &[], Flush::Sync)
        {
            self.fail(cx, Fault::from(error));
        }
        self.pass_on(cx);
        cx.flush();
    }

    /// Ends the stream, if there is one.
    fn end<H: Handler<P, WriteOut = Bytes>, P: Place>(&mut self, cx: &mut Context<'_, H, P>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.unflushed = false;
        if self.compressor.has_begun()
            && let Err(error) = self.run(cx, &[], Flush::Finish)
        {
            self.fail(cx, Fault::from(error));
        }
        if !self.out.is_empty() || !self.waiting.is_empty() {
            self.pass_on(cx);
            cx.flush();
        }
    }

    fn inactive(&mut self, cause: &CloseCause) {
        self.ended = true;
        self.unflushed = false;
        for done in self.waiting.drain(..) {
            done.fail(WriteError::Closed(cause.clone()));
        }
    }

    /// Puts bytes in, and passes on what comes out but for the last, unfinished piece.
    fn run<H, P>(
        &mut self,
        cx: &mut Context<'_, H, P>,
        mut bytes: &[u8],
        flush: Flush,
    ) -> Result<(), CompressError>
    where
        H: Handler<P, WriteOut = Bytes>,
        P: Place,
    {
        loop {
            let room = PIECE - self.out.len();
            let step = self.compressor.compress(bytes, flush, &mut self.out, room)?;
            bytes = &bytes[step.taken..];
            if self.out.len() >= PIECE {
                cx.write(std::mem::take(&mut self.out).freeze());
            }
            if step.state != State::OutputFull {
                return Ok(());
            }
        }
    }

    /// Passes on what is there, and the promises of all messages in it: each is done when the piece is.
    fn pass_on<H: Handler<P, WriteOut = Bytes>, P: Place>(&mut self, cx: &mut Context<'_, H, P>) {
        let piece = std::mem::take(&mut self.out).freeze();
        let mut waiting = self.waiting.drain(..);
        match waiting.next() {
            Some(done) => cx.write_with(piece, done),
            None if !piece.is_empty() => cx.write(piece),
            None => {}
        }
        for done in waiting {
            cx.write_with(Bytes::new(), done);
        }
    }

    /// The library failed: the stream cannot be ended any more, so the channel is.
    #[cold]
    fn fail<H: Handler<P, WriteOut = Bytes>, P: Place>(&mut self, cx: &mut Context<'_, H, P>, fault: Fault) {
        self.ended = true;
        self.unflushed = false;
        self.out = BytesMut::new();
        for done in self.waiting.drain(..) {
            done.fail(WriteError::Fault(fault.clone()));
        }
        cx.fire_error(fault.clone());
        cx.caller().call(move |_, cx| cx.close_because(CloseCause::Fault(fault)));
    }
}
