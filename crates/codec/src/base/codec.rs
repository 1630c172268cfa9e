//! Decoder and encoder in one.

use super::{
    Batch, DecodeError, Decoder, Encoder,
    decoding::{Decoding, decoding_hooks},
};
use bytes::{Bytes, BytesMut};
use netwright_core::{CloseCause, Context, Fault, Handler, Leftover, Place, Weight, WritePromise};
use std::fmt;

/// Both ways between bytes and messages: whatever is a [`Decoder`] and an [`Encoder`], and a pair of the two.
///
/// ```
/// use netwright_codec::{LineDecoder, LineEncoder, codec};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let lines = codec((LineDecoder::max(100), LineEncoder::crlf()));
/// let mut channel = EmbeddedChannel::new(pipeline().add(lines));
/// channel.write_inbound("hello\nworld\n").write_outbound("and back");
/// assert_eq!(channel.read_inbound().unwrap(), "hello");
/// assert_eq!(channel.outbound_bytes(), b"and back\r\n");
/// ```
pub trait Codec: Decoder + Encoder {}

impl<C: Decoder + Encoder> Codec for C {}

/// A [`Codec`] as a stage.
///
/// ```
/// use netwright_codec::{LineDecoder, LineEncoder, codec};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// // A pair of a decoder and an encoder is a codec.
/// let mut channel = EmbeddedChannel::new(pipeline().add(codec((LineDecoder::max(64), LineEncoder::lf()))));
/// channel.write_inbound("hello\n").write_outbound("and back");
/// assert_eq!(channel.read_inbound().unwrap(), "hello");
/// assert_eq!(channel.outbound_bytes(), b"and back\n");
/// ```
pub fn codec<C: Codec>(codec: C) -> Coded<C> {
    Coded { decoding: Decoding::new(codec), batch: Batch::new() }
}

/// Made by [`codec`].
///
/// ```
/// use netwright_codec::{Coded, LineDecoder, LineEncoder, codec};
///
/// let _lines: Coded<(LineDecoder, LineEncoder)> = codec((LineDecoder::max(64), LineEncoder::lf()));
/// ```
pub struct Coded<C> {
    decoding: Decoding<C>,
    batch: Batch,
}

impl<C> Coded<C> {
    pub(crate) fn inner_mut(&mut self) -> &mut C {
        &mut self.decoding.decoder
    }
}

impl<C: Codec, P: Place> Handler<P> for Coded<C> {
    type Read = BytesMut;
    type ReadOut = C::Item;
    type Write = C::Message;
    type WriteOut = Bytes;
    const WEIGHT: Weight<C::Message> = C::WEIGHT;

    decoding_hooks!();

    fn write(&mut self, cx: &mut Context<'_, Self, P>, message: C::Message, done: WritePromise) {
        self.batch.write(cx, &mut self.decoding.decoder, message, done);
    }
    fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
        self.batch.pass_on(cx);
        cx.flush();
    }
}

impl<C: fmt::Debug> fmt::Debug for Coded<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Coded").field(&self.decoding.decoder).finish()
    }
}

impl<D: Decoder, E: 'static> Decoder for (D, E) {
    type Item = D::Item;

    #[inline]
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<D::Item>, DecodeError> {
        self.0.decode(bytes)
    }
    fn decode_last(&mut self, bytes: &mut BytesMut) -> Result<Option<D::Item>, DecodeError> {
        self.0.decode_last(bytes)
    }
    fn has_more(&self) -> bool {
        self.0.has_more()
    }
    fn needs(&self) -> Option<usize> {
        self.0.needs()
    }
    fn wants(&self, more: &[u8]) -> usize {
        self.0.wants(more)
    }
    fn limit(&self) -> usize {
        self.0.limit()
    }
    fn name(&self) -> &'static str {
        self.0.name()
    }
}

impl<D: 'static, E: Encoder> Encoder for (D, E) {
    type Message = E::Message;
    const WEIGHT: Weight<E::Message> = E::WEIGHT;

    #[inline]
    fn encode(&mut self, message: E::Message, out: &mut Batch) -> Result<(), Fault> {
        self.1.encode(message, out)
    }
    fn name(&self) -> &'static str {
        self.1.name()
    }
}
