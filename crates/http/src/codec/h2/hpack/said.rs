//! What an encoder has said and can refer to: its dynamic table, which is that of the peer's decoder.
//!
//! ```text
//!   sums     [a][b][c][d]      of name and value, and of the name alone: looked through, eight at a time
//!   entries  [a][b][c][d]      the oldest first; index = 62 + how many are newer
//! ```
//! Always true: entries and sums are of the same fields in the same order, whose weights are together at most `max`.
//!
//! Looking through all of at most 128 sums takes less than keeping a map of them, and nobody can make it take longer.

use crate::codec::h2::field::{FIELD_OVERHEAD, Pseudo};
use bytes::Bytes;
use http::HeaderName;
use std::collections::VecDeque;

/// What a field is called that is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Key<'a> {
    Pseudo(Pseudo),
    Header(&'a HeaderName),
}

impl Key<'_> {
    #[inline]
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Pseudo(pseudo) => pseudo.name(),
            Self::Header(name) => name.as_str(),
        }
    }

    #[inline]
    fn is(&self, said: &SaidName) -> bool {
        match (self, said) {
            (Self::Pseudo(this), SaidName::Pseudo(that)) => this == that,
            (Self::Header(this), SaidName::Header(that)) => *this == that,
            _ => false,
        }
    }
}

#[derive(Debug)]
enum SaidName {
    Pseudo(Pseudo),
    Header(HeaderName),
}

#[derive(Debug)]
struct Entry {
    name: SaidName,
    value: Bytes,
    weight: usize,
}

/// Sums of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) name: u32,
    pub(super) whole: u32,
}

impl Sums {
    #[inline]
    pub(super) fn of(key: Key<'_>, value: &[u8]) -> Self {
        let name = sum(0, key.text().as_bytes());
        let whole = sum(name, value);
        Self { name: fold(name), whole: fold(whole) }
    }
}

#[inline]
fn fold(sum: u64) -> u32 {
    (sum >> 32) as u32
}

#[inline]
fn sum(start: u64, bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let mut sum = mix(start, bytes.len() as u64);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        sum = mix(sum, u64::from_le_bytes(*word));
    }
    if let Some(last) = bytes.last_chunk::<8>() {
        return mix(sum, u64::from_le_bytes(*last));
    }
    mix(sum, rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)))
}

#[derive(Debug)]
pub(super) struct Said {
    entries: VecDeque<Entry>,
    sums: VecDeque<Sums>,
    weight: usize,
    max: usize,
}

impl Said {
    pub(super) fn new(max: usize) -> Self {
        Self { entries: VecDeque::new(), sums: VecDeque::new(), weight: 0, max }
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
        self.make_room(0);
    }

    /// How many fields are newer than this one, if it is there.
    #[inline]
    pub(super) fn find(&self, sums: Sums, key: Key<'_>, value: &[u8]) -> Option<usize> {
        self.look(|has| has.whole == sums.whole, |entry| entry.value == value && key.is(&entry.name))
    }

    /// How many fields are newer than one with this name.
    pub(super) fn find_name(&self, sums: Sums, key: Key<'_>) -> Option<usize> {
        self.look(|has| has.name == sums.name, |entry| key.is(&entry.name))
    }

    #[inline]
    fn look(&self, sums: impl Fn(&Sums) -> bool, entry: impl Fn(&Entry) -> bool) -> Option<usize> {
        let (older, newer) = self.sums.as_slices();
        for (from, part) in [(older.len(), newer), (0, older)] {
            for (at, has) in part.iter().enumerate().rev() {
                if sums(has) && entry(&self.entries[from + at]) {
                    return Some(self.entries.len() - 1 - (from + at));
                }
            }
        }
        None
    }

    /// Adds a field. One that is larger than the table leaves it empty.
    pub(super) fn insert(&mut self, sums: Sums, key: Key<'_>, value: &[u8]) {
        let weight = key.text().len() + value.len() + FIELD_OVERHEAD;
        self.make_room(weight);
        if weight > self.max {
            return;
        }
        let name = match key {
            Key::Pseudo(pseudo) => SaidName::Pseudo(pseudo),
            Key::Header(name) => SaidName::Header(name.clone()),
        };
        self.weight += weight;
        self.sums.push_back(sums);
        self.entries.push_back(Entry { name, value: Bytes::copy_from_slice(value), weight });
    }

    fn make_room(&mut self, weight: usize) {
        while self.weight + weight > self.max {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.sums.pop_front();
            self.weight -= oldest.weight;
        }
    }
}
