//! A decoder as a stage.
//!
//! ```text
//!   read ──▶ intake           pull ──▶ decoder ──▶ message         one for each pull; none is pulled while paused
//!                                          │
//!                                          ├ recoverable error: raised, decoding goes on
//!                                          └ fatal error: raised, then the channel is closed; later bytes are dropped
//!   input_closed, inactive ──▶ decode_last, once, then the event goes on
//! ```
//! Always true:
//! 1. Messages, errors and the end arrive behind this stage in the order in which the bytes had them.
//! 2. Whoever takes this stage's place gets every byte that is in no message.
//!
//! Not here: which bytes are kept and when a decoder is asked (`intake`).

use super::{DecodeError, Decoder, intake::Intake};
use bytes::BytesMut;
use netwright_core::{CloseCause, Context, Handler, Leftover, Outgoing, Place, WritePromise};
use std::{fmt, marker::PhantomData};

/// A [`Decoder`] as a stage. What is written passes: bytes and files, or what [`passing`](Decode::passing) says.
///
/// See [`Decoder`] for an example.
///
/// ```
/// use netwright_codec::{LineDecoder, decode};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(decode(LineDecoder::max(64))));
/// channel.write_inbound("hello\n");
/// assert_eq!(channel.read_inbound().unwrap(), "hello");
/// ```
pub fn decode<D: Decoder>(decoder: D) -> Decode<D> {
    Decode { decoding: Decoding::new(decoder), writes: PhantomData }
}

/// Made by [`decode`].
///
/// ```
/// use netwright_codec::{Decode, LineDecoder, decode};
///
/// let _lines: Decode<LineDecoder> = decode(LineDecoder::max(64));
/// ```
pub struct Decode<D, W = Outgoing> {
    decoding: Decoding<D>,
    writes: PhantomData<fn(W)>,
}

impl<D: Decoder, W> Decode<D, W> {
    /// The same stage with messages of another type passing towards the wire.
    ///
    /// ```
    /// use netwright_codec::{LineDecoder, LineEncoder, decode, encode};
    /// use netwright_core::pipeline;
    /// use bytes::{Bytes, BytesMut};
    ///
    /// let lines = pipeline()
    ///     .add(encode(LineEncoder::lf()).passing::<BytesMut>())
    ///     .add(decode(LineDecoder::max(100)).passing::<Bytes>());
    /// # drop(lines);
    /// ```
    pub fn passing<V>(self) -> Decode<D, V> {
        Decode { decoding: self.decoding, writes: PhantomData }
    }
}

impl<D: Decoder, W: 'static, P: Place> Handler<P> for Decode<D, W> {
    type Read = BytesMut;
    type ReadOut = D::Item;
    type Write = W;
    type WriteOut = W;

    decoding_hooks!();

    fn write(&mut self, cx: &mut Context<'_, Self, P>, msg: W, done: WritePromise) {
        cx.write_with(msg, done);
    }
}

impl<D: fmt::Debug, W> fmt::Debug for Decode<D, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Decode").field(&self.decoding.decoder).finish()
    }
}

/// The hooks of a stage on the way in, if all of that is done by its field `decoding`: for bytes, or for messages.
macro_rules! decoding_hooks {
    () => {
        fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: Self::Read) {
            self.decoding.read(cx, msg);
        }
        fn pull(&mut self, cx: &mut Context<'_, Self, P>) -> Option<Self::ReadOut> {
            self.decoding.pull(cx)
        }
        fn input_closed(&mut self, cx: &mut Context<'_, Self, P>) {
            self.decoding.finish(cx, false);
            cx.fire_input_closed();
        }
        fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
            self.decoding.finish(cx, true);
            cx.fire_inactive(cause);
        }
        fn leftover(&mut self) -> Leftover<Self::Read> {
            self.decoding.leftover()
        }
        fn name(&self) -> &'static str {
            self.decoding.name()
        }
    };
}
pub(super) use decoding_hooks;

/// Messages that a decoder may hold at the end of its stream. They are made at once: nobody can ask for them later.
const LAST_MAX: usize = 1 << 16;

/// What stages with a decoder share.
#[derive(Debug)]
pub(crate) struct Decoding<D> {
    pub(crate) decoder: D,
    intake: Intake,
    /// Nothing is decoded any more: the stream has ended, or cannot go on.
    ended: bool,
}

impl<D: Decoder> Decoding<D> {
    pub(crate) fn new(decoder: D) -> Self {
        Self { decoder, intake: Intake::default(), ended: false }
    }

    #[inline]
    pub(crate) fn read<H: Handler<P>, P: Place>(&mut self, _: &mut Context<'_, H, P>, bytes: BytesMut) {
        if !self.ended {
            self.intake.feed(bytes);
        }
    }

    #[inline]
    pub(crate) fn pull<H, P>(&mut self, cx: &mut Context<'_, H, P>) -> Option<D::Item>
    where
        H: Handler<P, ReadOut = D::Item>,
        P: Place,
    {
        if self.ended {
            return None;
        }
        loop {
            match self.intake.next(&mut self.decoder)? {
                Ok(message) => return Some(message),
                Err(error) => self.raise(cx, error, true),
            }
            if self.ended {
                return None;
            }
        }
    }

    /// The stream has ended: what can still be made of the rest, which nobody gets otherwise.
    pub(crate) fn finish<H, P>(&mut self, cx: &mut Context<'_, H, P>, closed: bool)
    where
        H: Handler<P, ReadOut = D::Item>,
        P: Place,
    {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        // All whole messages have been pulled by now: an event waits for them.
        for _ in 0..LAST_MAX {
            match self.intake.last(&mut self.decoder) {
                Some(Ok(message)) => cx.fire_read(message),
                Some(Err(error)) if error.is_fatal() => return self.raise(cx, error, !closed),
                Some(Err(error)) => self.raise(cx, error, !closed),
                None => break,
            }
            if !self.decoder.has_more() {
                break;
            }
        }
        self.intake = Intake::default();
    }

    fn raise<H: Handler<P>, P: Place>(&mut self, cx: &mut Context<'_, H, P>, error: DecodeError, open: bool) {
        if error.is_fatal() {
            self.ended = true;
            self.intake = Intake::default();
        }
        raise(cx, error, open);
    }

    pub(crate) fn leftover(&mut self) -> Leftover<BytesMut> {
        let rest = self.intake.take();
        if rest.is_empty() { Leftover::nothing() } else { Leftover::one(rest) }
    }

    pub(super) fn name(&self) -> &'static str {
        self.decoder.name()
    }
}

/// Raises an error, and closes the channel if nothing sensible can follow, also if somebody takes care of the error.
#[cold]
pub(super) fn raise<H: Handler<P>, P: Place>(cx: &mut Context<'_, H, P>, error: DecodeError, open: bool) {
    let fatal = error.is_fatal();
    let fault = error.into_fault();
    cx.fire_error(fault.clone());
    if fatal && open {
        // Behind what was written because of the error, which passes this stage when this call has returned.
        cx.caller().call(move |_, cx| cx.close_because(CloseCause::Fault(fault)));
    }
}

#[cfg(test)]
mod tests;
