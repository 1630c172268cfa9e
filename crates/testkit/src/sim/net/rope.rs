//! Bytes in order, in the pieces that they came in.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// A queue of bytes that copies only what is joined.
#[derive(Debug, Default)]
pub(super) struct Rope {
    pieces: VecDeque<Bytes>,
    len: usize,
}

impl Rope {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.len += piece.len();
            self.pieces.push_back(piece);
        }
    }

    /// The first `n` bytes, or all if there are fewer.
    pub(super) fn take(&mut self, n: usize) -> Bytes {
        let n = n.min(self.len);
        self.len -= n;
        match self.pieces.front_mut() {
            Some(front) if front.len() > n => return front.split_to(n),
            Some(front) if front.len() == n => return self.pieces.pop_front().unwrap_or_default(),
            _ => {}
        }
        let mut joined = BytesMut::with_capacity(n);
        while joined.len() < n {
            let Some(front) = self.pieces.front_mut() else { break };
            let part = front.split_to(front.len().min(n - joined.len()));
            joined.extend_from_slice(&part);
            if front.is_empty() {
                self.pieces.pop_front();
            }
        }
        joined.freeze()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_and_joined_without_losing_order() {
        let mut rope = Rope::default();
        ["abc", "", "defg", "h"]
            .into_iter()
            .for_each(|piece| rope.push(Bytes::from_static(piece.as_bytes())));
        assert_eq!((rope.len(), &rope.take(2)[..]), (8, &b"ab"[..]));
        assert_eq!((&rope.take(3)[..], &rope.take(0)[..]), (&b"cde"[..], &b""[..]));
        assert_eq!((&rope.take(9)[..], rope.is_empty()), (&b"fgh"[..], true));
    }
}
