//! Writes records behind the end of a ring, in whole words, so that it takes few instructions. They get the form that they have in a file when somebody
//! reads them: who writes does it for each message, and who reads hardly ever.
//!
//! ```text
//!   kind: 8 bits │ length: 28 │ time after the record before: 28    [ time ]  [ length of the whole ]  body, 8 bytes each …
//!   kind and TINY: 8 │ length: 2 │ time: 30 │ body: 24
//! ```
//! A time of more than 28 bits, a quarter of a second, is in a word of its own. So is how long a piece was of which only the beginning is there. Bodies of up to three
//! bytes are in the word itself: there may be millions of them.
//!
//! Always true between calls: the next record begins in the word at `at`, and `bound - end` words from there on may be overwritten.

use crate::{
    format::{
        kind, varint,
        writer::{HEAD_MAX, head},
    },
    ring::{End, WORD, Words, words_of},
};

/// What a record takes beside its body: the head, its time, the length of the whole.
pub(crate) const HEAD_WORDS: usize = 3;

const LEN_BITS: u32 = 28;
const TIME_BITS: u32 = 28;
const _: () = assert!(u8::BITS + LEN_BITS + TIME_BITS == u64::BITS);
/// The time is in a word of its own.
const TIME_BEHIND: u64 = (1 << TIME_BITS) - 1;
/// What the ring of a replay holds at most, and so a body.
const _: () = assert!(1 << LEN_BITS > 128 << 20);

/// No kind has this bit.
const TINY: u8 = 1 << 7;
const TINY_MAX: usize = 3;
const TINY_LEN_BITS: u32 = 2;
const TINY_TIME_BITS: u32 = 30;
const _: () = assert!(u8::BITS + TINY_LEN_BITS + TINY_TIME_BITS + 8 * TINY_MAX as u32 == u64::BITS);

#[derive(Debug)]
pub(crate) struct Pen {
    words: Words,
    at: usize,
    /// How many words there have been.
    pub(crate) end: u64,
    /// Up to where there is room, and how many records there may be in the chunk, before the ring has to be asked.
    pub(crate) bound: u64,
    pub(crate) records_end: usize,
    /// Of the newest chunk.
    pub(crate) records: usize,
    pub(crate) bodies: u64,
    /// The last record: when it was, and which word it begins with.
    pub(crate) last_ns: u64,
    last_at: usize,
    last_kind: u8,
}

impl Pen {
    pub(crate) fn new() -> Self {
        Self {
            words: Words::zeroed(0),
            at: 0,
            end: 0,
            bound: 0,
            records_end: 0,
            records: 0,
            bodies: 0,
            last_ns: 0,
            last_at: 0,
            last_kind: 0,
        }
    }

    /// The words were exchanged for others. The next record, which comes now, begins in this one.
    pub(crate) fn go_on_in(&mut self, words: Words, at: usize) {
        (self.words, self.at) = (words, at);
    }

    /// Adds a record, if there is room for it.
    #[inline]
    pub(crate) fn push(&mut self, end: &End, kind: u8, now_ns: u64, body: &[u8]) -> bool {
        let used = 1 + words_of(body.len());
        if !self.has_room(used) {
            return false;
        }
        let after = now_ns.saturating_sub(self.last_ns);
        let (whole, rest) = body.as_chunks::<WORD>();
        let place = self.words.side_by_side(self.at, used);
        let (Some(place), Some(last), true) = (place, body.last_chunk::<WORD>(), after < TIME_BEHIND) else {
            self.push_with(end, kind, now_ns, None, body);
            return true;
        };
        place.store(0, head_word(kind, body.len(), after));
        place.store_all(1, whole);
        if !rest.is_empty() {
            place.store(used - 1, rest_of(*last, rest.len()));
        }
        let first = self.at;
        self.at = if first + used == self.words.len() { 0 } else { first + used };
        self.end += used as u64;
        self.added(end, kind, first, now_ns, body.len());
        true
    }

    /// Adds a piece of that length, of which only the beginning is kept.
    pub(crate) fn push_cut(&mut self, end: &End, kind: u8, now_ns: u64, len: u64, kept: &[u8]) -> bool {
        let has_room = self.has_room(1 + words_of(kept.len()));
        if has_room {
            self.push_with(end, kind, now_ns, Some(len), kept);
        }
        has_room
    }

    /// Any record, wherever it begins.
    #[inline(never)]
    fn push_with(&mut self, end: &End, kind: u8, now_ns: u64, whole_len: Option<u64>, body: &[u8]) {
        let after = now_ns.saturating_sub(self.last_ns);
        let first = self.at;
        if body.len() <= TINY_MAX && after < 1 << TINY_TIME_BITS && whole_len.is_none() {
            self.put(tiny_word(kind, body.len(), after, few_bytes(body)));
        } else {
            self.put(head_word(kind, body.len(), after.min(TIME_BEHIND)));
            if after >= TIME_BEHIND {
                self.put(after);
            }
            whole_len.into_iter().for_each(|len| self.put(len));
            self.put_all(body);
        }
        self.added(end, kind, first, now_ns, body.len());
    }

    /// Whether there is room for so many words, and what else a head may take.
    #[inline]
    fn has_room(&self, words: usize) -> bool {
        self.end + (HEAD_WORDS - 1 + words) as u64 <= self.bound && self.records < self.records_end
    }

    #[inline]
    fn added(&mut self, end: &End, kind: u8, first: usize, now_ns: u64, body: usize) {
        (self.last_at, self.last_kind, self.last_ns) = (first, kind, now_ns.max(self.last_ns));
        self.records += 1;
        self.bodies += body as u64;
        end.store(self.end);
    }

    fn put(&mut self, word: u64) {
        self.words.store(self.at, word);
        self.at = if self.at + 1 == self.words.len() { 0 } else { self.at + 1 };
        self.end += 1;
    }

    fn put_all(&mut self, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks::<WORD>();
        let straight = whole.len().min(self.words.len() - self.at);
        self.words.store_all(self.at, &whole[..straight]);
        self.words.store_all(0, &whole[straight..]);
        self.at = (self.at + whole.len()) % self.words.len();
        self.end += whole.len() as u64;
        if !rest.is_empty() {
            self.put(few_bytes(rest));
        }
    }

    /// What went out last was flushed at this time. If that cannot be said of it, there is another record for it; false if there is no room.
    #[inline]
    pub(crate) fn flushed(&mut self, end: &End, now_ns: u64) -> bool {
        if now_ns <= self.last_ns && self.records > 0 {
            if kind::is_flushed(self.last_kind) || self.last_kind == kind::FLUSH {
                return true;
            }
            if kind::is_flushed(self.last_kind | kind::FLUSHED_BIT) {
                self.last_kind |= kind::FLUSHED_BIT;
                let word = self.words.load(self.last_at);
                self.words.store(self.last_at, word | u64::from(kind::FLUSHED_BIT));
                return true;
            }
        }
        self.push(end, kind::FLUSH, now_ns, &[])
    }
}

#[inline]
fn head_word(kind: u8, len: usize, after: u64) -> u64 {
    u64::from(kind) | (len as u64) << u8::BITS | after << (u8::BITS + LEN_BITS)
}

fn tiny_word(kind: u8, len: usize, after: u64, body: u64) -> u64 {
    let time_at = u8::BITS + TINY_LEN_BITS;
    u64::from(kind | TINY) | (len as u64) << u8::BITS | after << time_at | body << (time_at + TINY_TIME_BITS)
}

/// So many bytes at the end of the last eight.
#[inline]
fn rest_of(last: [u8; WORD], len: usize) -> u64 {
    u64::from_le_bytes(last) >> (u64::BITS - len as u32 * u8::BITS)
}

fn few_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << u8::BITS | u64::from(byte))
}

/// Appends the record that begins with the next word, as it is in a file. Nothing if there is none.
pub(crate) fn encode_next(words: &mut impl Iterator<Item = u64>, out: &mut Vec<u8>) -> Option<()> {
    let word = words.next()?;
    let kind = word as u8;
    let behind_kind = word >> u8::BITS;
    if kind & TINY != 0 {
        let len = behind_kind as usize & TINY_MAX;
        let behind_len = behind_kind >> TINY_LEN_BITS;
        put_head(out, kind & !TINY, behind_len & ((1 << TINY_TIME_BITS) - 1), len);
        out.extend_from_slice(&(behind_len >> TINY_TIME_BITS).to_le_bytes()[..len]);
        return Some(());
    }
    let len = (behind_kind & ((1 << LEN_BITS) - 1)) as usize;
    let after = match behind_kind >> LEN_BITS {
        TIME_BEHIND => words.next()?,
        after => after,
    };
    if matches!(kind & !kind::FLUSHED_BIT, kind::READ_CUT | kind::WRITTEN_CUT) {
        let whole_len = words.next()?;
        put_head(out, kind, after, varint::len(whole_len) + len);
        varint::push(out, whole_len);
    } else {
        put_head(out, kind, after, len);
    }
    let end = out.len() + len;
    words.take(words_of(len)).for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    out.truncate(end);
    Some(())
}

fn put_head(out: &mut Vec<u8>, kind: u8, after: u64, len: usize) {
    let mut room = [0; HEAD_MAX];
    let head = head(&mut room, kind, after, len);
    out.extend_from_slice(&room[..head]);
}
