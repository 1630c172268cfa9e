//! From message to message: what stands behind frames.
//!
//! ```text
//!   In ──▶ [ MessageDecoder ] ──▶ none, one or several Out; of several, the second is looked at when the first is done with
//!   Out ◀─ [ MessageEncoder ] ◀── In: one or several; the promise belongs to the last
//! ```
//! Always true: what one message became goes on before what the next one becomes.
//!
//! Not here: cutting bytes into messages (`decoder`).

use super::{
    DecodeError,
    decoding::{decoding_hooks, raise},
    short_name,
};
use netwright_core::{
    CloseCause, Context, Fault, Handler, Leftover, Place, Weight, WriteError, WritePromise,
};
use std::{collections::VecDeque, fmt, marker::PhantomData};

/// What a message becomes: nothing, one message or several.
///
/// The first one has a place of its own, so that the usual case allocates nothing.
///
/// ```
/// use netwright_codec::Messages;
///
/// let mut messages = Messages::new();
/// messages.push("one");
/// messages.push("two");
/// assert_eq!((messages.pop(), messages.pop(), messages.pop()), (Some("one"), Some("two"), None));
/// ```
#[derive(Debug)]
pub struct Messages<T> {
    first: Option<T>,
    more: VecDeque<T>,
}

impl<T> Messages<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self { first: None, more: VecDeque::new() }
    }

    /// Adds one.
    pub fn push(&mut self, message: T) {
        if self.first.is_none() && self.more.is_empty() {
            self.first = Some(message);
        } else {
            self.more.push_back(message);
        }
    }

    /// Takes the first one.
    pub fn pop(&mut self) -> Option<T> {
        self.first.take().or_else(|| self.more.pop_front())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.is_empty()
    }
}

impl<T> Default for Messages<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes messages of messages, on their way to the application.
///
/// ```
/// use bytes::Bytes;
/// use netwright_codec::{DecodeError, LineFrames, MessageDecoder, Messages, decode_messages};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// struct Words;
///
/// impl MessageDecoder for Words {
///     type In = Bytes;
///     type Out = Bytes;
///     fn decode(&mut self, line: Bytes, out: &mut Messages<Bytes>) -> Result<(), DecodeError> {
///         let words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
///         words.for_each(|word| out.push(line.slice_ref(word)));
///         Ok(())
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(decode_messages(Words)));
/// channel.write_inbound("one two\n\nthree\n");
/// for word in ["one", "two", "three"] {
///     assert_eq!(channel.read_inbound().unwrap(), word);
/// }
/// ```
pub trait MessageDecoder: Sized + 'static {
    /// What it takes.
    type In: 'static;
    /// What it makes.
    type Out: 'static;

    /// Makes none, one or several messages of one. With an error, what was made before it still goes on.
    fn decode(&mut self, message: Self::In, out: &mut Messages<Self::Out>) -> Result<(), DecodeError>;

    /// No more messages will come. By default there is nothing left to say.
    #[allow(unused_variables)]
    fn decode_last(&mut self, out: &mut Messages<Self::Out>) -> Result<(), DecodeError> {
        Ok(())
    }

    /// What to call it in listings.
    fn name(&self) -> &'static str {
        short_name::<Self>()
    }
}

/// Makes messages of messages, on their way to the wire.
///
/// ```
/// use bytes::Bytes;
/// use netwright_codec::{LineFrames, MessageEncoder, Messages, encode_messages};
/// use netwright_core::{EmbeddedChannel, Fault, pipeline};
///
/// struct Numbers;
///
/// impl MessageEncoder for Numbers {
///     type In = u32;
///     type Out = Bytes;
///     fn encode(&mut self, number: u32, out: &mut Messages<Bytes>) -> Result<(), Fault> {
///         Ok(out.push(number.to_string().into()))
///     }
/// }
///
/// let lines = LineFrames::max(100);
/// let mut channel = EmbeddedChannel::new(pipeline().add(lines).add(encode_messages(Numbers).passing::<Bytes>()));
/// channel.write_outbound(42);
/// assert_eq!(channel.outbound_bytes(), b"42\n");
/// ```
pub trait MessageEncoder: Sized + 'static {
    /// What it takes.
    type In: 'static;
    /// What it makes.
    type Out: 'static;

    /// What a message counts for while it waits to be written; see [`Handler::WEIGHT`](netwright_core::Handler::WEIGHT).
    const WEIGHT: Weight<Self::In> = Weight::unsaid();

    /// Makes one or several messages of one. With an error, or with none made, nothing is sent, and who wrote the message
    /// is told; if nobody waits to hear of it, the pipeline gets the error.
    fn encode(&mut self, message: Self::In, out: &mut Messages<Self::Out>) -> Result<(), Fault>;

    /// What to call it in listings.
    fn name(&self) -> &'static str {
        short_name::<Self>()
    }
}

/// Both ways between messages: whatever is a [`MessageDecoder`] and a [`MessageEncoder`], and a pair of the two.
///
/// ```
/// use netwright_codec::{DecodeError, LineFrames, MessageDecoder, MessageEncoder, Messages, message_codec};
/// use netwright_core::{EmbeddedChannel, Fault, pipeline};
/// use bytes::Bytes;
///
/// /// Numbers, in decimal.
/// struct Decimal;
///
/// impl MessageDecoder for Decimal {
///     type In = Bytes;
///     type Out = u32;
///     fn decode(&mut self, text: Bytes, out: &mut Messages<u32>) -> Result<(), DecodeError> {
///         let text = std::str::from_utf8(&text).map_err(DecodeError::recoverable)?;
///         out.push(text.parse().map_err(DecodeError::recoverable)?);
///         Ok(())
///     }
/// }
///
/// impl MessageEncoder for Decimal {
///     type In = u32;
///     type Out = Bytes;
///     fn encode(&mut self, number: u32, out: &mut Messages<Bytes>) -> Result<(), Fault> {
///         out.push(Bytes::from(number.to_string()));
///         Ok(())
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(16)).add(message_codec(Decimal)));
/// channel.write_inbound("42\n").write_outbound(43);
/// assert_eq!(channel.read_inbound(), Some(42));
/// assert_eq!(channel.outbound_bytes(), b"43\n");
/// ```
pub trait MessageCodec: MessageDecoder + MessageEncoder {}

impl<C: MessageDecoder + MessageEncoder> MessageCodec for C {}

/// A [`MessageDecoder`] as a stage. What is written passes; as [`Bytes`](bytes::Bytes), or what
/// [`passing`](DecodeMessages::passing) says.
///
/// ```
/// use netwright_codec::{DecodeError, LineFrames, MessageDecoder, Messages, decode_messages};
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use bytes::Bytes;
///
/// /// The words of a line, one by one.
/// struct Words;
///
/// impl MessageDecoder for Words {
///     type In = Bytes;
///     type Out = Bytes;
///     fn decode(&mut self, line: Bytes, out: &mut Messages<Bytes>) -> Result<(), DecodeError> {
///         line.split(|byte| *byte == b' ').for_each(|word| out.push(line.slice_ref(word)));
///         Ok(())
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(64)).add(decode_messages(Words)));
/// channel.write_inbound("to be or\n");
/// assert_eq!(channel.read_inbound().unwrap(), "to");
/// assert_eq!(channel.read_inbound().unwrap(), "be");
/// ```
pub fn decode_messages<D: MessageDecoder>(decoder: D) -> DecodeMessages<D> {
    DecodeMessages { decoding: MessageDecoding::new(decoder), writes: PhantomData }
}

/// A [`MessageEncoder`] as a stage. What is read passes; as [`BytesMut`](bytes::BytesMut), or what
/// [`passing`](EncodeMessages::passing) says.
///
/// ```
/// use netwright_codec::{MessageEncoder, Messages, encode_messages};
/// use netwright_core::{EmbeddedChannel, Fault, pipeline};
/// use bytes::Bytes;
///
/// struct Shouts;
///
/// impl MessageEncoder for Shouts {
///     type In = String;
///     type Out = Bytes;
///     fn encode(&mut self, text: String, out: &mut Messages<Bytes>) -> Result<(), Fault> {
///         out.push(text.to_uppercase().into());
///         Ok(())
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(encode_messages(Shouts)));
/// channel.write_outbound("hello".to_owned());
/// assert_eq!(channel.outbound_bytes(), b"HELLO");
/// ```
pub fn encode_messages<E: MessageEncoder>(encoder: E) -> EncodeMessages<E> {
    EncodeMessages { encoder, reads: PhantomData }
}

/// A [`MessageCodec`] as a stage.
///
/// ```
/// use netwright_codec::{DecodeError, LineFrames, MessageDecoder, MessageEncoder, Messages, message_codec};
/// use netwright_core::{EmbeddedChannel, Fault, pipeline};
/// use bytes::Bytes;
///
/// struct Shouts;
/// struct Whispers;
///
/// impl MessageDecoder for Shouts {
///     type In = Bytes;
///     type Out = Vec<u8>;
///     fn decode(&mut self, text: Bytes, out: &mut Messages<Vec<u8>>) -> Result<(), DecodeError> {
///         out.push(text.to_ascii_uppercase());
///         Ok(())
///     }
/// }
///
/// impl MessageEncoder for Whispers {
///     type In = Vec<u8>;
///     type Out = Bytes;
///     fn encode(&mut self, text: Vec<u8>, out: &mut Messages<Bytes>) -> Result<(), Fault> {
///         out.push(text.to_ascii_lowercase().into());
///         Ok(())
///     }
/// }
///
/// // One value for both ways, or a pair.
/// let both = message_codec((Shouts, Whispers));
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(64)).add(both).handle(|cx, text| cx.write_and_flush(text)));
/// channel.write_inbound("Hello\n");
/// assert_eq!(channel.outbound_bytes(), b"hello\n");
/// ```
pub fn message_codec<C: MessageCodec>(codec: C) -> MessageCoded<C> {
    MessageCoded { decoding: MessageDecoding::new(codec) }
}

/// Made by [`decode_messages`].
///
/// ```
/// use netwright_codec::{DecodeError, DecodeMessages, MessageDecoder, Messages, decode_messages};
///
/// struct Doubles;
/// impl MessageDecoder for Doubles {
///     type In = u32;
///     type Out = u64;
///     fn decode(&mut self, number: u32, out: &mut Messages<u64>) -> Result<(), DecodeError> {
///         out.push(2 * u64::from(number));
///         Ok(())
///     }
/// }
///
/// let _stage: DecodeMessages<Doubles> = decode_messages(Doubles);
/// ```
pub struct DecodeMessages<D: MessageDecoder, W = bytes::Bytes> {
    decoding: MessageDecoding<D>,
    writes: PhantomData<fn(W)>,
}

impl<D: MessageDecoder, W> DecodeMessages<D, W> {
    /// The same stage with messages of another type passing towards the wire.
    pub fn passing<V>(self) -> DecodeMessages<D, V> {
        DecodeMessages { decoding: self.decoding, writes: PhantomData }
    }
}

impl<D: MessageDecoder, W: 'static, P: Place> Handler<P> for DecodeMessages<D, W> {
    type Read = D::In;
    type ReadOut = D::Out;
    type Write = W;
    type WriteOut = W;

    decoding_hooks!();

    fn write(&mut self, cx: &mut Context<'_, Self, P>, msg: W, done: WritePromise) {
        cx.write_with(msg, done);
    }
}

/// Made by [`encode_messages`].
///
/// ```
/// use netwright_codec::{EncodeMessages, MessageEncoder, Messages, encode_messages};
/// use netwright_core::Fault;
///
/// struct Halves;
/// impl MessageEncoder for Halves {
///     type In = u64;
///     type Out = u64;
///     fn encode(&mut self, number: u64, out: &mut Messages<u64>) -> Result<(), Fault> {
///         out.push(number / 2);
///         Ok(())
///     }
/// }
///
/// let _stage: EncodeMessages<Halves> = encode_messages(Halves);
/// ```
pub struct EncodeMessages<E, R = bytes::BytesMut> {
    encoder: E,
    reads: PhantomData<fn(R)>,
}

impl<E: MessageEncoder, R> EncodeMessages<E, R> {
    /// The same stage with messages of another type passing towards the application.
    pub fn passing<S>(self) -> EncodeMessages<E, S> {
        EncodeMessages { encoder: self.encoder, reads: PhantomData }
    }
}

impl<E: MessageEncoder, R: 'static, P: Place> Handler<P> for EncodeMessages<E, R> {
    type Read = R;
    type ReadOut = R;
    type Write = E::In;
    type WriteOut = E::Out;
    const WEIGHT: Weight<E::In> = E::WEIGHT;

    fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: R) {
        cx.fire_read(msg);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, message: E::In, done: WritePromise) {
        write(&mut self.encoder, cx, message, done);
    }
    fn name(&self) -> &'static str {
        self.encoder.name()
    }
}

/// Made by [`message_codec`].
///
/// ```
/// use netwright_codec::{MessageCoded, Utf8, text::Utf8Codec};
///
/// /// Stages have names, so that they can be kept in a struct or returned.
/// fn text(strict: bool) -> MessageCoded<Utf8Codec> {
///     if strict { Utf8::strict() } else { Utf8::lossy() }
/// }
/// # text(true);
/// ```
pub struct MessageCoded<C: MessageDecoder> {
    decoding: MessageDecoding<C>,
}

impl<C: MessageDecoder + MessageEncoder, P: Place> Handler<P> for MessageCoded<C> {
    type Read = <C as MessageDecoder>::In;
    type ReadOut = <C as MessageDecoder>::Out;
    type Write = <C as MessageEncoder>::In;
    type WriteOut = <C as MessageEncoder>::Out;
    const WEIGHT: Weight<Self::Write> = <C as MessageEncoder>::WEIGHT;

    decoding_hooks!();

    fn write(&mut self, cx: &mut Context<'_, Self, P>, message: Self::Write, done: WritePromise) {
        write(&mut self.decoding.decoder, cx, message, done);
    }
}

/// What stages with a message decoder share.
struct MessageDecoding<D: MessageDecoder> {
    decoder: D,
    /// Made and not pulled yet.
    ready: Messages<D::Out>,
    /// What is wrong with the message that they were made of.
    error: Option<DecodeError>,
    /// Came while others were ready: looked at when they are gone.
    waiting: VecDeque<D::In>,
    /// Nothing is decoded any more: no more will come, or nothing sensible can.
    ended: bool,
}

impl<D: MessageDecoder> MessageDecoding<D> {
    fn new(decoder: D) -> Self {
        Self { decoder, ready: Messages::new(), error: None, waiting: VecDeque::new(), ended: false }
    }

    fn read<H, P>(&mut self, cx: &mut Context<'_, H, P>, message: D::In)
    where
        H: Handler<P, ReadOut = D::Out>,
        P: Place,
    {
        if self.ended {
            return;
        }
        if !self.ready.is_empty() || self.error.is_some() {
            return self.waiting.push_back(message); // a stage in front has passed on several before we were asked
        }
        self.error = self.decoder.decode(message, &mut self.ready).err();
        if self.ready.more.is_empty() {
            if let Some(only) = self.ready.first.take() {
                cx.fire_read(only);
            }
            self.raise(cx);
        }
    }

    fn pull<H, P>(&mut self, cx: &mut Context<'_, H, P>) -> Option<D::Out>
    where
        H: Handler<P, ReadOut = D::Out>,
        P: Place,
    {
        loop {
            if let Some(message) = self.ready.pop() {
                return Some(message);
            }
            self.raise(cx);
            let Some(message) = self.waiting.pop_front().filter(|_| !self.ended) else { break };
            self.error = self.decoder.decode(message, &mut self.ready).err();
        }
        self.ready = Messages::new(); // the room for several is not kept
        self.waiting = VecDeque::new();
        None
    }

    /// No more will come. Everything has been pulled by now: an event waits for it.
    fn finish<H, P>(&mut self, cx: &mut Context<'_, H, P>, closed: bool)
    where
        H: Handler<P, ReadOut = D::Out>,
        P: Place,
    {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let result = self.decoder.decode_last(&mut self.ready);
        while let Some(message) = self.ready.pop() {
            cx.fire_read(message);
        }
        if let Err(error) = result {
            raise(cx, error, !closed);
        }
    }

    #[inline]
    fn raise<H: Handler<P, ReadOut = D::Out>, P: Place>(&mut self, cx: &mut Context<'_, H, P>) {
        if let Some(error) = self.error.take() {
            self.ended |= error.is_fatal();
            raise(cx, error, true);
        }
    }

    fn leftover(&mut self) -> Leftover<D::In> {
        Leftover::many(self.waiting.drain(..).collect())
    }

    fn name(&self) -> &'static str {
        self.decoder.name()
    }
}

fn write<E, H, P>(encoder: &mut E, cx: &mut Context<'_, H, P>, message: E::In, mut done: WritePromise)
where
    E: MessageEncoder,
    H: Handler<P, WriteOut = E::Out>,
    P: Place,
{
    let mut out = Messages::new();
    let result = encoder.encode(message, &mut out).and_then(|()| match out.pop() {
        Some(first) => Ok(first),
        None => Err(NothingEncoded { encoder: encoder.name() }.into()),
    });
    let mut message = match result {
        Ok(message) => message,
        Err(fault) if done.is_tracked() => return done.fail(WriteError::Fault(fault)),
        Err(fault) => return cx.fire_error(fault),
    };
    if !out.is_empty() && !done.claim() {
        return; // cancelled; from here on it cannot be, because half of it would be on its way
    }
    while let Some(next) = out.pop() {
        cx.write(std::mem::replace(&mut message, next));
    }
    cx.write_with(message, done);
}

/// A message encoder made nothing of a message, so nobody could tell what became of it.
///
/// ```
/// use netwright_codec::{MessageEncoder, Messages, NothingEncoded, encode_messages};
/// use netwright_core::{EmbeddedChannel, Fault, WriteError, pipeline};
/// use bytes::Bytes;
///
/// struct Swallows;
/// impl MessageEncoder for Swallows {
///     type In = String;
///     type Out = Bytes;
///     fn encode(&mut self, _: String, _: &mut Messages<Bytes>) -> Result<(), Fault> {
///         Ok(())
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(encode_messages(Swallows)));
/// let mut written = channel.channel().send("hello".to_owned());
/// channel.run();
/// let Err(WriteError::Fault(fault)) = written.wait() else { panic!() };
/// assert!(fault.downcast_ref::<NothingEncoded>().is_some());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NothingEncoded {
    /// Its name.
    pub encoder: &'static str,
}

impl fmt::Display for NothingEncoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} made nothing of a message", self.encoder)
    }
}

impl std::error::Error for NothingEncoded {}

impl<D: MessageDecoder, E: 'static> MessageDecoder for (D, E) {
    type In = D::In;
    type Out = D::Out;
    fn decode(&mut self, message: D::In, out: &mut Messages<D::Out>) -> Result<(), DecodeError> {
        self.0.decode(message, out)
    }
    fn decode_last(&mut self, out: &mut Messages<D::Out>) -> Result<(), DecodeError> {
        self.0.decode_last(out)
    }
    fn name(&self) -> &'static str {
        self.0.name()
    }
}

impl<D: 'static, E: MessageEncoder> MessageEncoder for (D, E) {
    type In = E::In;
    type Out = E::Out;
    const WEIGHT: Weight<E::In> = E::WEIGHT;
    fn encode(&mut self, message: E::In, out: &mut Messages<E::Out>) -> Result<(), Fault> {
        self.1.encode(message, out)
    }
    fn name(&self) -> &'static str {
        self.1.name()
    }
}

#[cfg(test)]
mod tests;
