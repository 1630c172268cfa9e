//! What a message counts for while it is on its way to the outbound queue.
//!
//! ```text
//!   channel.write(msg) ─▶ on its way to the loop ─▶ on its way through the stages ─▶ outbound queue
//!                         └──────────── Weight::of_message(&msg) ────────────┘       └ its bytes
//!
//!   [ codec: says Weight<M> ] ◀── M ── [ filter: M to M, says nothing ] ◀── M ── [ tail ] ◀── Channel<M>
//!                              codec's                              codec's         codec's
//! ```
//! The stage that takes messages says how many bytes they hold, once, by a constant of its type
//! ([`Handler::WEIGHT`](crate::Handler::WEIGHT)). When a pipeline is put together, what a stage says is handed to the boundary
//! behind it, and from there through all stages that take the same type and say nothing: a filter cannot forget it.
//!
//! Always true: bytes and text count for their length without anybody saying so, a type of which nobody says anything counts for the
//! room that it takes itself, and what a message was counted for when it set out is what is taken off when it arrives.

use super::{Envelope, Outgoing};
use bytes::{Bytes, BytesMut};
use std::{
    any::{Any, TypeId},
    fmt,
    mem::needs_drop,
    sync::OnceLock,
};

/// No message counts for more, whatever is said of it: sums of many stay sums.
const HEAVIEST: usize = usize::MAX >> 16;

/// How many bytes of memory messages of a type hold. The stage that takes such messages says so, in [`Handler::WEIGHT`](crate::Handler::WEIGHT).
///
/// While they wait, messages count for as much: a writer on another thread is told by
/// [`Channel::is_writable`](crate::Channel::is_writable) that there is too much, and a handler by
/// [`Context::is_writable`](crate::Context::is_writable).
///
/// ```
/// use netwright_core::Weight;
/// use bytes::Bytes;
///
/// struct Picture { title: String, pixels: Vec<u32> }
///
/// const WEIGHT: Weight<Picture> = Weight::of(|picture| picture.title.len() + 4 * picture.pixels.len());
///
/// let picture = Picture { title: "dawn".into(), pixels: vec![0; 100] };
/// assert_eq!(WEIGHT.of_message(&picture), size_of::<Picture>() + 404);
/// // Of these nothing has to be said.
/// assert_eq!(Weight::unsaid().of_message(&Bytes::from("hello")), size_of::<Bytes>() + 5);
/// assert_eq!(Weight::unsaid().of_message(&42_u64), 8);
/// ```
pub struct Weight<M>(Option<fn(&M) -> usize>);

impl<M> Weight<M> {
    /// Messages hold so many bytes outside of themselves. Not for bytes and text, which count for their length whatever is said. The function is called where a message is written, which may be any
    /// thread; what does not take long to tell is good enough.
    pub const fn of(bytes: fn(&M) -> usize) -> Self {
        Self(Some(bytes))
    }

    /// Nothing is said here. The stage before this one may say it of the same type; else [`Bytes`], [`BytesMut`], `Vec<u8>`,
    /// `String`, [`Envelope`] and [`Outgoing`] count for their bytes, and messages of any other type for their own size.
    pub const fn unsaid() -> Self {
        Self(None)
    }

    /// Whether something is said.
    pub const fn is_said(&self) -> bool {
        self.0.is_some()
    }
}

impl<M: 'static> Weight<M> {
    /// The bytes that a message holds outside of itself: for the weight of something that it is a part of.
    pub fn held(&self, msg: &M) -> usize {
        match self.0 {
            Some(bytes) if !is_known::<M>() => bytes(msg).min(HEAVIEST),
            _ => held_at_first_sight(msg),
        }
    }

    /// What a message counts for: the room that it takes itself, and the bytes that it holds.
    pub fn of_message(&self, msg: &M) -> usize {
        self.held(msg) + size_of::<M>()
    }

    /// Whether messages count for all that they hold: it is said, or known, or they hold nothing that would have to be released.
    pub(crate) fn tells_all(&self) -> bool {
        self.is_said() || !needs_drop::<M>() || is_known::<M>()
    }

    /// What is said here, else what a stage before says if it takes the same type.
    pub(crate) fn or_as_before<W: 'static>(self, before: Weight<W>) -> Self {
        let same: Option<&Self> = (&before as &dyn Any).downcast_ref();
        if self.is_said() { self } else { same.copied().unwrap_or(self) }
    }
}

/// A weight that may become known late, and stays: behind a joint the first segment may not know what its successors write.
pub(crate) struct SaidOnce<M>(OnceLock<fn(&M) -> usize>);

impl<M> SaidOnce<M> {
    pub(crate) fn new(weight: Weight<M>) -> Self {
        let place = Self::default();
        place.say(weight);
        place
    }

    /// What is said first stays: the messages are the same, whoever takes them.
    pub(crate) fn say(&self, weight: Weight<M>) {
        if let Weight(Some(bytes)) = weight {
            let _ = self.0.set(bytes);
        }
    }

    pub(crate) fn get(&self) -> Weight<M> {
        Weight(self.0.get().copied())
    }
}

impl<M> Default for SaidOnce<M> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

/// What a message counts for as its type alone tells. Which type it is, is known when this is compiled.
#[inline]
pub(crate) fn at_first_sight<M: 'static>(msg: &M) -> usize {
    size_of::<M>() + held_at_first_sight(msg)
}

/// Whether a type tells by itself what its messages hold. Known when this is compiled: for these nobody is asked.
#[inline]
pub(crate) fn is_known<M: 'static>() -> bool {
    let id = TypeId::of::<M>();
    id == TypeId::of::<Bytes>()
        || id == TypeId::of::<BytesMut>()
        || id == TypeId::of::<Vec<u8>>()
        || id == TypeId::of::<String>()
        || id == TypeId::of::<Envelope>()
        || id == TypeId::of::<Outgoing>()
}

#[inline]
fn held_at_first_sight<M: 'static>(msg: &M) -> usize {
    let any: &dyn Any = msg;
    if let Some(bytes) = any.downcast_ref::<Bytes>() {
        bytes.len()
    } else if let Some(bytes) = any.downcast_ref::<BytesMut>() {
        bytes.len()
    } else if let Some(bytes) = any.downcast_ref::<Vec<u8>>() {
        bytes.len()
    } else if let Some(text) = any.downcast_ref::<String>() {
        text.len()
    } else if let Some(envelope) = any.downcast_ref::<Envelope>() {
        envelope.bytes.len()
    } else if let Some(outgoing) = any.downcast_ref::<Outgoing>() {
        outgoing.held()
    } else {
        0
    }
}

impl<M> Clone for Weight<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Weight<M> {}

impl<M> Default for Weight<M> {
    fn default() -> Self {
        Self::unsaid()
    }
}

impl<M> fmt::Debug for Weight<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_said() { "Weight(said)" } else { "Weight(unsaid)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Letter(Vec<u8>);

    #[test]
    fn messages_count_for_themselves_and_the_bytes_that_they_hold() {
        assert_eq!(Weight::unsaid().of_message(&Bytes::from(vec![0; 100])), size_of::<Bytes>() + 100);
        assert_eq!(Weight::unsaid().of_message(&"hello".to_owned()), size_of::<String>() + 5);
        assert_eq!(Weight::unsaid().of_message(&Letter(vec![0; 100])), size_of::<Letter>());
        let said = Weight::of(|letter: &Letter| letter.0.len());
        assert_eq!(said.of_message(&Letter(vec![0; 100])), size_of::<Letter>() + 100);
        let of_bytes = Weight::of(|_: &Bytes| 7);
        assert_eq!(of_bytes.held(&Bytes::from("hello")), 5, "bytes speak for themselves");
    }

    #[test]
    fn what_is_said_before_counts_for_the_same_type_only_and_only_if_nothing_is_said_here() {
        let before = Weight::of(|letter: &Letter| letter.0.len());
        let here = Weight::of(|_: &Letter| 1);
        let letter = Letter(vec![0; 100]);
        assert_eq!(Weight::unsaid().or_as_before(before).of_message(&letter), size_of::<Letter>() + 100);
        assert_eq!(here.or_as_before(before).of_message(&letter), size_of::<Letter>() + 1);
        assert!(!Weight::<u64>::unsaid().or_as_before(before).is_said());
    }

    #[test]
    fn it_is_known_of_which_types_nobody_has_said_what_they_hold() {
        assert!(Weight::<u64>::unsaid().tells_all() && Weight::<String>::unsaid().tells_all());
        assert!(!Weight::<Letter>::unsaid().tells_all() && !Weight::<Vec<u64>>::unsaid().tells_all());
        assert!(Weight::of(|letter: &Letter| letter.0.len()).tells_all());
    }

    #[test]
    fn a_weight_that_cannot_be_true_leaves_sums_as_they_should_be() {
        let endless = Weight::of(|_: &Letter| usize::MAX);
        let sum =
            (0..1000).try_fold(0_usize, |sum, _| sum.checked_add(endless.of_message(&Letter(Vec::new()))));
        assert!(sum.is_some());
    }
}
