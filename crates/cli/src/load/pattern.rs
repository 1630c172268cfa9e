//! The bytes of a connection: pseudo-random, different for each, and known at every position without a memory.

use bytes::{Bytes, BytesMut};

/// An odd number that spreads well: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const WORD: usize = size_of::<u64>();

/// An endless stream of bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    seed: u64,
}

impl Pattern {
    pub(super) fn of_connection(number: u64) -> Self {
        Self { seed: mix(number.wrapping_mul(GOLDEN)) }
    }

    /// The bytes from `position` on.
    pub(super) fn fill(self, position: u64, bytes: &mut [u8]) {
        self.words(position, bytes.len(), |at, word| {
            bytes[at..at + word.len()].copy_from_slice(word);
            true
        });
    }

    /// The first byte that is not what it should be, and what that is.
    pub(super) fn first_difference(self, position: u64, bytes: &[u8]) -> Option<(usize, u8)> {
        let mut found = None;
        self.words(position, bytes.len(), |at, word| {
            let same = bytes[at..at + word.len()] == *word;
            if !same {
                found = (0..word.len()).find(|&i| bytes[at + i] != word[i]).map(|i| (at + i, word[i]));
            }
            same
        });
        found
    }

    /// Calls with pieces of the stream and their places in `0..len`, until one call says no.
    fn words(self, position: u64, len: usize, mut call: impl FnMut(usize, &[u8]) -> bool) {
        let mut at = 0;
        while at < len {
            let place = position + at as u64;
            let word = mix(self.seed.wrapping_add((place / WORD as u64).wrapping_mul(GOLDEN))).to_le_bytes();
            let from = (place % WORD as u64) as usize;
            let to = WORD.min(from + len - at);
            if !call(at, &word[from..to]) {
                return;
            }
            at += to - from;
        }
    }
}

/// The stream of a connection, handed out message by message.
pub(super) struct Supply {
    pub(super) pattern: Pattern,
    room: BytesMut,
    /// Bytes handed out so far.
    pub(super) given: u64,
}

impl Supply {
    pub(super) fn of_connection(number: u64) -> Self {
        Self { pattern: Pattern::of_connection(number), room: BytesMut::new(), given: 0 }
    }

    pub(super) fn next(&mut self, size: usize) -> Bytes {
        self.room.resize(size, 0); // takes its memory back once the message before is sent
        self.pattern.fill(self.given, &mut self.room);
        self.given += size as u64;
        self.room.split().freeze()
    }
}

/// The finaliser of SplitMix64: every bit of the input changes half of the output.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_the_same_however_the_stream_is_cut() {
        let pattern = Pattern::of_connection(7);
        let mut whole = [0; 100];
        pattern.fill(0, &mut whole);
        for cut in 0..=whole.len() {
            let mut rest = vec![0; whole.len() - cut];
            pattern.fill(cut as u64, &mut rest);
            assert_eq!(rest, whole[cut..], "from {cut}");
            assert_eq!(pattern.first_difference(0, &whole[..cut]), None);
            assert_eq!(pattern.first_difference(cut as u64, &whole[cut..]), None);
        }
    }

    #[test]
    fn one_wrong_byte_is_found_at_its_place() {
        let pattern = Pattern::of_connection(7);
        let mut bytes = [0; 40];
        pattern.fill(3, &mut bytes);
        for place in 0..bytes.len() {
            let mut wrong = bytes;
            wrong[place] ^= 1;
            assert_eq!(pattern.first_difference(3, &wrong), Some((place, bytes[place])));
        }
    }

    #[test]
    fn connections_have_different_bytes() {
        let (mut a, mut b) = ([0; 16], [0; 16]);
        Pattern::of_connection(0).fill(0, &mut a);
        Pattern::of_connection(1).fill(0, &mut b);
        assert_ne!(a, b);
        assert_ne!(a, [0; 16]);
    }
}
