//! What a message counts for, and how it is taken apart.

use bytes::{Bytes, BytesMut};
use netwright_core::{Outgoing, Special};

/// Bytes that may be passed on in pieces: what [`Shape::bytes`](super::Shape::bytes) and [`Chaos`](crate::Chaos) work on.
///
/// ```
/// use netwright_handler::shape::Pieces;
/// use bytes::Bytes;
///
/// let mut rest = Bytes::from("hello, world");
/// assert_eq!(rest.take_piece(5).unwrap(), "hello");
/// assert_eq!(rest.amount(), 7);
/// ```
pub trait Pieces: Sized + 'static {
    /// How many bytes there are.
    fn amount(&self) -> u64;

    /// Whether they may be taken apart.
    fn is_divisible(&self) -> bool {
        true
    }

    /// Takes the first `len` bytes off. `None` if there are not so many, or if they belong together.
    fn take_piece(&mut self, len: u64) -> Option<Self>;

    /// Changes a bit, of as many as there are. Does nothing by default, and to files.
    fn flip_bit(&mut self, _bit: u64) {}
}

fn flip(bytes: &mut [u8], bit: u64) {
    let index = usize::try_from(bit / 8).unwrap_or(usize::MAX);
    if let Some(byte) = bytes.get_mut(index) {
        *byte ^= 1 << (bit % 8);
    }
}

impl Pieces for BytesMut {
    fn amount(&self) -> u64 {
        self.len() as u64
    }
    fn take_piece(&mut self, len: u64) -> Option<Self> {
        (len <= self.amount()).then(|| self.split_to(len as usize))
    }
    fn flip_bit(&mut self, bit: u64) {
        flip(self, bit);
    }
}

impl Pieces for Bytes {
    fn amount(&self) -> u64 {
        self.len() as u64
    }
    fn take_piece(&mut self, len: u64) -> Option<Self> {
        (len <= self.amount()).then(|| self.split_to(len as usize))
    }
    /// Of a copy: others may hold the same bytes.
    fn flip_bit(&mut self, bit: u64) {
        let mut bytes = BytesMut::from(&self[..]);
        flip(&mut bytes, bit);
        *self = bytes.freeze();
    }
}

/// Files are taken apart like bytes. What has a target or descriptors stays whole.
impl Pieces for Outgoing {
    fn amount(&self) -> u64 {
        self.len()
    }
    fn is_divisible(&self) -> bool {
        !matches!(self, Self::Special(Special::Envelope(_)))
    }
    fn take_piece(&mut self, len: u64) -> Option<Self> {
        (self.is_divisible() && len <= self.len()).then(|| self.split_to(len))
    }
    fn flip_bit(&mut self, bit: u64) {
        if let Self::Bytes(bytes) = self {
            bytes.flip_bit(bit);
        }
    }
}

/// How messages of a type are measured and divided.
pub(crate) struct Measure<M> {
    pub(crate) amount: fn(&M) -> u64,
    divisible: Option<fn(&M) -> bool>,
    take: fn(&mut M, u64) -> Option<M>,
}

impl<M> Measure<M> {
    /// Each counts for so much, and stays whole.
    pub(crate) fn whole(amount: fn(&M) -> u64) -> Self {
        Self { amount, divisible: None, take: |_, _| None }
    }

    pub(crate) fn is_divisible(&self, msg: &M) -> bool {
        self.divisible.is_some_and(|divisible| divisible(msg))
    }

    /// Takes so much of it, if it is divisible and that is not all of it.
    pub(crate) fn take(&self, msg: &mut M, len: u64, all: u64) -> Option<M> {
        if len < all { (self.take)(msg, len) } else { None }
    }
}

impl<M: Pieces> Measure<M> {
    /// Each counts for its bytes, and is passed on in pieces.
    pub(crate) fn bytes() -> Self {
        Self { amount: M::amount, divisible: Some(M::is_divisible), take: M::take_piece }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright_core::Envelope;

    #[test]
    fn what_belongs_together_stays_whole() {
        let mut envelope = Outgoing::from(Envelope::new(Bytes::from_static(b"123")));
        assert!(!envelope.is_divisible() && envelope.take_piece(1).is_none());
        let mut bytes = BytesMut::from("123");
        assert!(bytes.take_piece(4).is_none());
        assert_eq!((bytes.take_piece(2).unwrap().amount(), bytes.amount()), (2, 1));
        assert!(Measure::<String>::whole(|_| 1).take(&mut String::from("ab"), 1, 2).is_none());
    }
}
