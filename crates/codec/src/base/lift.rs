//! A message codec on datagrams: what was sent in one datagram is decoded by itself, and the address goes along.
//!
//! ```text
//!   Datagram ─ into ─▶ (address, bytes) ──▶ [ codec ] ──▶ (address, message)
//!   Envelope ◀─ from ─ (address, bytes) ◀── [ codec ] ◀── (address, message)
//! ```
//! Always true: a datagram that cannot be decoded harms no other, and does not end the channel: it is told of by an event.
//!
//! Not here: datagrams themselves (`transport`), which this does not need to know.

use super::{
    Batch, DecodeError, Decoder, Encoder, MessageCodec, MessageDecoder, MessageEncoder, Messages, short_name,
};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    Address, Context, Envelope, Event, Fault, Handler, Leftover, Place, Weight, WriteError, WritePromise,
};
use std::{collections::VecDeque, fmt, marker::PhantomData};

/// Applies a message codec from bytes to datagrams of type `D`, or to anything else that is bytes with an address.
///
/// It reads what converts into `(A, BytesMut)` and writes what is made from `(A, Bytes)`: [`Envelope`]s to an
/// [`Address`], unless [`between`](Self::between) says otherwise. What a codec for streams makes of a single datagram says
/// [`EachDatagram`].
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use netwright_codec::{EachDatagram, Lift, LineDecoder, LineEncoder};
/// use netwright_core::{Address, EmbeddedChannel, pipeline};
/// use std::net::SocketAddr;
///
/// // `Datagram` of netwright-transport converts into this.
/// type Came = (Address, BytesMut);
/// let lines = Lift::<Came, _>::new(EachDatagram((LineDecoder::max(100), LineEncoder::lf())));
/// let echo = pipeline().add(lines).handle(|cx, (from, line): (Address, Bytes)| cx.write_and_flush((from, line)));
///
/// let mut channel = EmbeddedChannel::of_messages(echo);
/// let somebody = Address::Ip(SocketAddr::from(([127, 0, 0, 1], 4711)));
/// channel.receive((somebody.clone(), BytesMut::from("one\ntwo\n")));
/// for line in ["one\n", "two\n"] {
///     let answer = channel.read_outbound().unwrap();
///     assert_eq!((answer.to, &answer.bytes[..]), (Some(somebody.clone()), line.as_bytes()));
/// }
/// ```
pub struct Lift<D, C: MessageDecoder, A = Address, E = Envelope> {
    codec: C,
    from: Option<A>,
    ready: Messages<<C as MessageDecoder>::Out>,
    /// Came while others were ready: looked at when they are gone.
    waiting: VecDeque<D>,
    writes: PhantomData<fn() -> E>,
}

/// A datagram could not be decoded. Travels through the pipeline as an [`Event`]: no single peer can end the channel.
///
/// ```
/// use netwright_codec::NotDecoded;
/// use netwright_core::{Address, Event};
///
/// fn report(event: &Event) {
///     if let Some(bad) = event.get::<NotDecoded<Address>>() {
///         eprintln!("{bad}");
///     }
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NotDecoded<A = Address> {
    /// Who sent it.
    pub from: A,
    /// What is wrong with it.
    pub fault: Fault,
}

impl<A: fmt::Debug> fmt::Display for NotDecoded<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a datagram from {:?} cannot be decoded: {}", self.from, self.fault)
    }
}

impl<D, C: MessageCodec> Lift<D, C> {
    /// Lifts a codec onto datagrams.
    pub fn new(codec: C) -> Self {
        Self::between(codec)
    }
}

impl<D, C: MessageCodec, A, E> Lift<D, C, A, E> {
    /// Lifts a codec onto anything that is bytes with an address.
    ///
    /// ```
    /// use bytes::{Bytes, BytesMut};
    /// use netwright_codec::{EachDatagram, Lift, LineFrames};
    ///
    /// type Lines = EachDatagram<(netwright_codec::LineDecoder, netwright_codec::LineEncoder)>;
    /// type OnNumberedPorts = Lift<(u16, BytesMut), Lines, u16, (u16, Bytes)>;
    /// ```
    pub fn between(codec: C) -> Self {
        Self { codec, from: None, ready: Messages::new(), waiting: VecDeque::new(), writes: PhantomData }
    }
}

impl<D, C, A, E> Lift<D, C, A, E>
where
    D: Into<(A, BytesMut)> + 'static,
    C: MessageDecoder<In = BytesMut> + MessageEncoder<Out = Bytes>,
    A: Clone + Send + 'static,
    E: From<(A, Bytes)> + 'static,
{
    fn open<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, datagram: D) {
        let (from, bytes) = datagram.into();
        if let Err(error) = self.codec.decode(bytes, &mut self.ready) {
            cx.fire_event(Event::new(NotDecoded { from: from.clone(), fault: error.into_fault() }));
        }
        self.from = Some(from);
    }
}

impl<D, C, A, E, P: Place> Handler<P> for Lift<D, C, A, E>
where
    D: Into<(A, BytesMut)> + 'static,
    C: MessageDecoder<In = BytesMut> + MessageEncoder<Out = Bytes>,
    A: Clone + Send + 'static,
    E: From<(A, Bytes)> + 'static,
{
    type Read = D;
    type ReadOut = (A, <C as MessageDecoder>::Out);
    type Write = (A, <C as MessageEncoder>::In);
    type WriteOut = E;
    const WEIGHT: Weight<Self::Write> =
        Weight::of(|(_, message)| <C as MessageEncoder>::WEIGHT.held(message));

    fn read(&mut self, cx: &mut Context<'_, Self, P>, datagram: D) {
        if !self.ready.is_empty() {
            return self.waiting.push_back(datagram);
        }
        self.open(cx, datagram);
    }

    fn pull(&mut self, cx: &mut Context<'_, Self, P>) -> Option<Self::ReadOut> {
        loop {
            if let Some(message) = self.ready.pop() {
                let from = if self.ready.is_empty() { self.from.take() } else { self.from.clone() };
                return from.map(|from| (from, message));
            }
            let Some(datagram) = self.waiting.pop_front() else {
                self.waiting = VecDeque::new();
                return None;
            };
            self.open(cx, datagram);
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self, P>, (to, message): Self::Write, mut done: WritePromise) {
        let mut out = Messages::new();
        if let Err(fault) = self.codec.encode(message, &mut out) {
            return match done.is_tracked() {
                true => done.fail(WriteError::Fault(fault)),
                false => cx.fire_error(fault),
            };
        }
        let Some(mut bytes) = out.pop() else { return };
        if !out.is_empty() && !done.claim() {
            return;
        }
        while let Some(next) = out.pop() {
            cx.write(E::from((to.clone(), std::mem::replace(&mut bytes, next))));
        }
        cx.write_with(E::from((to, bytes)), done);
    }

    fn leftover(&mut self) -> Leftover<D> {
        Leftover::many(self.waiting.drain(..).collect())
    }

    fn name(&self) -> &'static str {
        MessageDecoder::name(&self.codec)
    }
}

/// A codec for streams on single messages: each holds whole messages and nothing else.
///
/// Whole messages go on also if others in the same datagram do not, and of a datagram nothing is lost in silence: the first
/// thing that is wrong with it is an error, and so is a datagram with bytes of which no message comes at all.
///
/// ```
/// use bytes::BytesMut;
/// use netwright_codec::{EachDatagram, LineDecoder, MessageDecoder, Messages};
///
/// let mut lines = EachDatagram(LineDecoder::max(100));
/// let mut out = Messages::new();
/// lines.decode(BytesMut::from("one\ntwo\n"), &mut out).unwrap();
/// assert_eq!((out.pop().unwrap(), out.pop().unwrap()), ("one".into(), "two".into()));
/// let error = lines.decode(BytesMut::from("one\ntw"), &mut out).unwrap_err();
/// assert_eq!(error.to_string(), "2 bytes of a datagram of 6 are in no message");
/// ```
#[derive(Debug, Clone)]
pub struct EachDatagram<C>(pub C);

/// A datagram does not consist of whole messages.
///
/// ```
/// use bytes::BytesMut;
/// use netwright_codec::{EachDatagram, LineDecoder, MessageDecoder, Messages, NotOneDatagram};
///
/// let mut lines = EachDatagram(LineDecoder::max(100));
/// let error = lines.decode(BytesMut::from("one\ntw"), &mut Messages::new()).unwrap_err();
/// let why = error.fault().downcast_ref::<NotOneDatagram>().unwrap();
/// assert_eq!((why.left, why.len), (2, 6));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotOneDatagram {
    /// How many bytes are in no message.
    pub left: usize,
    /// How many bytes it has.
    pub len: usize,
}

impl fmt::Display for NotOneDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of a datagram of {} are in no message", self.left, self.len)
    }
}

impl std::error::Error for NotOneDatagram {}

impl<C: Decoder + Clone> MessageDecoder for EachDatagram<C> {
    type In = BytesMut;
    type Out = C::Item;

    fn decode(&mut self, mut bytes: BytesMut, out: &mut Messages<C::Item>) -> Result<(), DecodeError> {
        let len = bytes.len();
        let mut decoder = self.0.clone(); // what one datagram leaves unfinished does not reach the next
        let (mut made, mut wrong) = (false, None);
        while !bytes.is_empty() || decoder.has_more() {
            let before = bytes.len();
            match decoder.decode(&mut bytes) {
                Ok(Some(message)) => {
                    out.push(message);
                    made = true;
                }
                Ok(None) if bytes.len() < before => continue, // it skipped something, and may go on
                Ok(None) => break,
                Err(error) if error.is_fatal() || bytes.len() >= before => return Err(wrong.unwrap_or(error)),
                Err(error) => wrong = wrong.or(Some(error)), // one message is lost, what follows is not
            }
            if bytes.len() >= before && !decoder.has_more() {
                break;
            }
        }
        match decoder.decode_last(&mut bytes) {
            Ok(Some(message)) => {
                out.push(message);
                return wrong.map_or(Ok(()), Err);
            }
            Ok(None) => {}
            Err(error) => wrong = wrong.or(Some(error)),
        }
        // A decoder may have taken bytes into a state of its own, where they end with it.
        let left = if made { bytes.len() } else { len };
        match (wrong, left) {
            (Some(error), _) => Err(error),
            (None, 0) => Ok(()),
            (None, left) => Err(DecodeError::recoverable(NotOneDatagram { left, len })),
        }
    }

    fn name(&self) -> &'static str {
        short_name::<C>()
    }
}

impl<C: Encoder> MessageEncoder for EachDatagram<C> {
    type In = C::Message;
    type Out = Bytes;
    const WEIGHT: Weight<C::Message> = C::WEIGHT;

    fn encode(&mut self, message: C::Message, out: &mut Messages<Bytes>) -> Result<(), Fault> {
        let (mut batch, mut bytes) = (Batch::new(), BytesMut::new());
        self.0.encode(message, &mut batch)?;
        batch.append_to(&mut bytes);
        out.push(bytes.freeze());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
