//! An encoder as a stage.

use super::{Batch, Encoder};
use bytes::{Bytes, BytesMut};
use netwright_core::{Context, Handler, Place, Weight, WritePromise};
use std::{fmt, marker::PhantomData};

/// An [`Encoder`] as a stage. What is read passes; as [`BytesMut`], or what [`passing`](Encode::passing) says.
///
/// See [`Encoder`] for an example.
///
/// ```
/// use netwright_codec::{LineEncoder, encode};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(encode(LineEncoder::lf())));
/// channel.write_outbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello\n");
/// ```
pub fn encode<E: Encoder>(encoder: E) -> Encode<E> {
    Encode { encoder, batch: Batch::new(), reads: PhantomData }
}

/// Made by [`encode`].
///
/// ```
/// use netwright_codec::{Encode, LineEncoder, encode};
///
/// let _lines: Encode<LineEncoder> = encode(LineEncoder::crlf());
/// ```
pub struct Encode<E, R = BytesMut> {
    encoder: E,
    batch: Batch,
    reads: PhantomData<fn(R)>,
}

impl<E: Encoder, R> Encode<E, R> {
    /// The same stage with messages of another type passing towards the application; see [`Decode::passing`](super::Decode::passing).
    pub fn passing<S>(self) -> Encode<E, S> {
        Encode { encoder: self.encoder, batch: self.batch, reads: PhantomData }
    }
}

impl<E: Encoder, R: 'static, P: Place> Handler<P> for Encode<E, R> {
    type Read = R;
    type ReadOut = R;
    type Write = E::Message;
    type WriteOut = Bytes;
    const WEIGHT: Weight<E::Message> = E::WEIGHT;

    fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: R) {
        cx.fire_read(msg);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, message: E::Message, done: WritePromise) {
        self.batch.write(cx, &mut self.encoder, message, done);
    }
    fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
        self.batch.pass_on(cx);
        cx.flush();
    }
    fn name(&self) -> &'static str {
        self.encoder.name()
    }
}

impl<E: fmt::Debug, R> fmt::Debug for Encode<E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Encode").field(&self.encoder).finish()
    }
}

#[cfg(test)]
mod tests;
