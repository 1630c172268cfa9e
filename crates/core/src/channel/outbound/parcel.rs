//! What a line of messages has to know of each of them.

use super::super::{
    carries::CarriedBy,
    cause::WritePromise,
    host::{AnyPipe, Inside, Rest, see_to_bytes, see_to_messages},
    outgoing::{Outgoing, Special},
    weight::Weight,
};
use super::Outbound;

/// Something that waits to be sent: bytes and files ([`Outgoing`]), or a message of any type ([`Weighed`]).
pub trait Parcel: 'static {
    /// How many bytes of our memory it holds.
    fn held(&self) -> usize;
    /// How many bytes are still to be sent. Of what is not bytes: what it weighs.
    fn left(&self) -> u64;
    /// Whether nothing of it is left to be sent, so that its write is done when it is its turn.
    fn is_sent(&self) -> bool;
    /// The same as something to be sent even if it is empty.
    fn whole(self) -> Self;
    /// Lets go of what was sent.
    fn release(self);
    /// What seldom follows from a call of a pipeline whose messages wait like this. Of bytes it is compiled once, not for each pipeline.
    #[doc(hidden)]
    fn see_to(inside: &mut Inside<Self>, pipe: &mut dyn AnyPipe<Self>, rest: Rest)
    where
        Self: Sized;
    /// A flush of more than one plain message, in the same way.
    #[doc(hidden)]
    fn flush_all(outbound: &mut Outbound<'_, Self>)
    where
        Self: Sized;
    /// A message for a queue that holds one already, in the same way.
    #[doc(hidden)]
    fn push_behind(outbound: &mut Outbound<'_, Self>, message: Self, promise: WritePromise)
    where
        Self: Sized;
    /// A message for a queue that has ended, in the same way.
    #[doc(hidden)]
    fn refuse(outbound: &mut Outbound<'_, Self>, message: Self, promise: WritePromise)
    where
        Self: Sized;
}

/// A [`Parcel`] made of what a pipeline writes.
pub trait Pack<W>: Parcel {
    /// Packs a message. What it weighs is said by whoever drives the channel, if the message does not say it itself.
    fn pack(msg: W, weight: Weight<W>) -> Self;
}

impl Parcel for Outgoing {
    #[inline]
    fn held(&self) -> usize {
        Outgoing::held(self)
    }
    #[inline]
    fn left(&self) -> u64 {
        self.len()
    }
    #[inline]
    fn is_sent(&self) -> bool {
        self.is_empty()
    }
    #[inline(never)] // for datagrams alone
    fn whole(self) -> Self {
        match self {
            Self::Bytes(bytes) if bytes.is_empty() => super::super::Envelope::new(bytes).into(),
            other => other,
        }
    }
    fn release(self) {
        match self {
            Self::Special(Special::Envelope(envelope)) => envelope.recycle(),
            other => drop(other),
        }
    }
    fn see_to(inside: &mut Inside<Self>, pipe: &mut dyn AnyPipe<Self>, rest: Rest) {
        see_to_bytes(inside, pipe, rest);
    }
    #[inline(never)]
    fn flush_all(outbound: &mut Outbound<'_, Self>) {
        outbound.flush_all();
    }
    #[inline(never)]
    fn push_behind(outbound: &mut Outbound<'_, Self>, message: Self, promise: WritePromise) {
        outbound.push_behind(message, promise);
    }
    #[cold]
    #[inline(never)]
    fn refuse(outbound: &mut Outbound<'_, Self>, message: Self, promise: WritePromise) {
        outbound.refuse(message, promise);
    }
}

impl<W: CarriedBy<Outgoing>> Pack<W> for Outgoing {
    #[inline]
    fn pack(msg: W, _: Weight<W>) -> Self {
        msg.carried()
    }
}

/// A message of any type in a channel's line, with what it weighed when it came there.
///
/// ```
/// use netwright_core::{AppContext, Application, Host, HostSettings, LocalLoop, ManualLoop, Weight, pipeline};
///
/// /// Answers questions: no bytes anywhere.
/// struct Oracle;
///
/// impl Application for Oracle {
///     type Read = u32;
///     type Write = String;
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, question: u32) {
///         cx.write_and_flush(format!("it is {}", 2 * question));
///     }
/// }
///
/// ManualLoop::new().enter(|| {
///     let local = LocalLoop::current().unwrap();
///     let mut host = Host::of_messages(local, pipeline().app(Oracle).into_segment(), HostSettings::default(), Weight::unsaid());
///     host.activate(None, None);
///     host.received(21);
///     host.read_complete();
///     assert!(host.take_flush());
///     let (answer, done) = host.outbound().take_first().unwrap();
///     assert_eq!(answer.message, "it is 42");
///     done.succeed(); // it has arrived where it should
///     host.wrote();
/// });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weighed<M> {
    /// The message.
    pub message: M,
    /// What it counts for, itself included.
    pub weight: usize,
}

impl<M: 'static> Parcel for Weighed<M> {
    fn held(&self) -> usize {
        self.weight
    }
    fn left(&self) -> u64 {
        self.weight as u64
    }
    fn is_sent(&self) -> bool {
        false // a message is something, whatever it holds
    }
    fn whole(self) -> Self {
        self
    }
    fn release(self) {}
    fn see_to(inside: &mut Inside<Self>, pipe: &mut dyn AnyPipe<Self>, rest: Rest) {
        see_to_messages(inside, pipe, rest);
    }
    fn flush_all(outbound: &mut Outbound<'_, Self>) {
        outbound.flush_all();
    }
    fn push_behind(outbound: &mut Outbound<'_, Self>, message: Self, promise: WritePromise) {
        outbound.push_behind(message, promise);
    }
    fn refuse(outbound: &mut Outbound<'_, Self>, message: Self, promise: WritePromise) {
        outbound.refuse(message, promise);
    }
}

impl<M: 'static> Pack<M> for Weighed<M> {
    fn pack(message: M, weight: Weight<M>) -> Self {
        let weight = weight.of_message(&message);
        Self { message, weight }
    }
}
