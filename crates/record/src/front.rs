//! The newest records of a recording: a small buffer in front of the ring, written without a lock.
//!
//! ```text
//!   the channel's loop ── Pen ──▶ [ front: 1 KiB ] ── full: one lock, one copy ──▶ [ ring: 63 KiB ]
//!                                       ▲                                               ▲
//!   any other thread ───────────────────┴───────── reads both, holding the lock ────────┘
//! ```
//! Most records are short. Writing each of them to its place in the ring costs a lock, and a cache miss that is waited for at the
//! unlocking, because a connection's 64 KiB have left the caches by the time they are used again. The front stays in the caches; the ring is written in
//! larger pieces, whose cache misses overlap.
//!
//! A record is a word with its kind, time and length, and its body in whole words, so that writing one takes few instructions. It has the form that
//! it has in a file from the ring on:
//!
//! ```text
//!   kind: 8 bits │ body's length: 16 │ time after the record before: 35    body, 8 bytes each …
//! ```
//! Always true between calls:
//! 1. One [`Pen`] writes, on one thread at a time. `len` words are whole records in their order, and never change, but for the
//!    bit that says that what was written last was flushed.
//! 2. `len` is stored (release) behind the words that it counts, so whoever loads it (acquire) sees those.
//! 3. It goes back to 0 only while the lock of the recording is held, as who reads does; so what is being read is not overwritten.
//! 4. A record takes no more room in the ring than here.

use crate::format::{
    kind,
    writer::{HEAD_MAX, head},
};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::iter;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Half a dozen short messages with their answers. A thousand connections at work have 1 MiB, which caches can still hold.
const FRONT_MAX: usize = 1024;
/// As a part of a whole recording: less where that is small.
const SHARE: usize = 16;
/// Below that there is none: a ring so small is in the caches anyway.
const FRONT_MIN: usize = 128;
/// Longer bodies go to the ring at once: to copy them twice would cost more than it saves.
const BODY_MAX: usize = 512;
const WORD: usize = 8;

const LEN_BITS: u32 = 8;
const TIME_BITS: u32 = 24;
/// Five bytes in a file: half a minute.
const TIME_END: u64 = 1 << 35;
/// Kind, five bytes of time, two of the length: in a file a head is no longer than its word here.
const _: () = assert!(1 + 5 + 2 <= WORD && BODY_MAX < 1 << 14);

#[derive(Debug)]
pub(crate) struct Front {
    words: Box<[AtomicU64]>,
    records_max: usize,
    len: AtomicUsize,
}

impl Front {
    /// For a recording of so many bytes and records in all.
    pub(crate) fn new(bytes: usize, records: usize) -> Self {
        let records_max = records / SHARE;
        let size = (bytes / SHARE).min(FRONT_MAX) / WORD;
        let size = if size * WORD < FRONT_MIN || records_max == 0 { 0 } else { size };
        Self {
            words: (0..size).map(|_| AtomicU64::new(0)).collect(),
            records_max: if size == 0 { 0 } else { records_max },
            len: AtomicUsize::new(0),
        }
    }

    /// How many bytes it holds at most.
    pub(crate) fn size(&self) -> usize {
        self.words.len() * WORD
    }

    /// Whether there can be room for a body of this length.
    #[inline]
    pub(crate) fn takes(&self, len: usize) -> bool {
        len <= BODY_MAX && len.div_ceil(WORD) < self.words.len()
    }

    /// How many records it holds at most.
    pub(crate) fn records_max(&self) -> usize {
        self.records_max
    }

    /// How many words are in use.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Appends what is there, as it will be in a file. The lock of the recording is held.
    pub(crate) fn copy_to(&self, out: &mut Vec<u8>) {
        let mut room = [0; ROOM];
        let (len, _) = self.encode(self.len(), &mut room);
        out.extend_from_slice(&room[..len]);
    }

    /// How many bytes that is.
    pub(crate) fn bytes(&self) -> usize {
        self.encode(self.len(), &mut [0; ROOM]).0
    }

    /// The records in so many words as they are in a file; tells how many bytes that is, and how many of them are the last record.
    fn encode(&self, len: usize, room: &mut [u8; ROOM]) -> (usize, usize) {
        let (mut words, mut at, mut last) = (&self.words[..len], 0, 0);
        while let Some((first, rest)) = words.split_first() {
            last = at;
            let first = first.load(Ordering::Relaxed);
            let len = usize::from((first >> LEN_BITS) as u16);
            let there = room[at..].first_chunk_mut().expect("as much room as words, and a head");
            at += head(there, first as u8, first >> TIME_BITS, len);
            let (body, next) = rest.split_at(len.div_ceil(WORD));
            // What is too much in the last word is overwritten by the next record.
            for (bytes, word) in iter::zip(room[at..].as_chunks_mut::<WORD>().0, body) {
                *bytes = word.load(Ordering::Relaxed).to_le_bytes();
            }
            (at, words) = (at + len, next);
        }
        (at, at - last)
    }
}

/// For all records of a front, and as much as is written at once behind them.
const ROOM: usize = FRONT_MAX + HEAD_MAX + WORD;

/// What the records in a front come to.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sums {
    pub(crate) records: usize,
    pub(crate) bodies: u64,
    /// The length of the last record in the ring.
    pub(crate) last_len: usize,
    /// Its time.
    pub(crate) last_ns: u64,
}

/// Writes to a [`Front`]. There is one, which the recorder has.
#[derive(Debug, Default)]
pub(crate) struct Pen {
    /// Words.
    len: usize,
    /// Where the last record begins.
    last: usize,
    records: usize,
    bodies: u64,
    last_ns: u64,
}

impl Pen {
    /// Whether the front is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A record of this time went elsewhere.
    pub(crate) fn passed_by(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
    }

    /// Adds a record, if there is room for it.
    #[inline]
    pub(crate) fn push(&mut self, front: &Front, kind: u8, now_ns: u64, body: &[u8]) -> bool {
        let after = now_ns - self.last_ns;
        let needed = 1 + body.len().div_ceil(WORD);
        if body.len() > BODY_MAX || after >= TIME_END || self.records == front.records_max {
            return false;
        }
        let Some((first, words)) =
            front.words.get(self.len..self.len + needed).and_then(<[AtomicU64]>::split_first)
        else {
            return false;
        };
        let word = u64::from(kind) | (body.len() as u64) << LEN_BITS | after << TIME_BITS;
        first.store(word, Ordering::Relaxed);
        let (whole, rest) = body.as_chunks::<WORD>();
        for (word, bytes) in iter::zip(words, whole) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            words[whole.len()].store(last, Ordering::Relaxed);
        }
        self.last = self.len;
        self.len += needed;
        self.records += 1;
        self.bodies += body.len() as u64;
        self.last_ns = now_ns;
        front.len.store(self.len, Ordering::Release);
        true
    }

    /// What went out last was flushed at this time: true if that is noted.
    #[inline]
    pub(crate) fn flushed(&mut self, front: &Front, now_ns: u64) -> bool {
        if self.len == 0 || now_ns != self.last_ns {
            return false;
        }
        let word = &front.words[self.last];
        let before = word.load(Ordering::Relaxed);
        let kind = before as u8;
        if kind::is_flushed(kind | kind::FLUSHED_BIT) {
            word.store(before | u64::from(kind::FLUSHED_BIT), Ordering::Relaxed);
            return true;
        }
        kind == kind::FLUSH
    }

    /// Empties the front into `take`, which is given its records as they are in a file. The lock of the recording is held.
    pub(crate) fn take(&mut self, front: &Front, take: impl FnOnce(&[u8], Sums)) {
        if self.len == 0 {
            return;
        }
        let mut room = [0; ROOM];
        let (len, last_len) = front.encode(self.len, &mut room);
        let Self { records, bodies, last_ns, .. } = *self;
        take(&room[..len], Sums { records, bodies, last_len, last_ns });
        front.len.store(0, Ordering::Release);
        *self = Self { last_ns, ..Self::default() };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::format::Raw;
    use std::sync::Mutex;

    fn records_of(bytes: &[u8]) -> Vec<(u8, u64, Vec<u8>)> {
        let (mut at, mut found) = (0, Vec::new());
        while at < bytes.len() {
            let raw = Raw::at(bytes, at).expect("whole records");
            found.push((raw.kind, raw.after_ns, bytes[raw.body..raw.end].to_vec()));
            at = raw.end;
        }
        found
    }

    #[test]
    fn bodies_of_every_length_come_back_wherever_they_begin() {
        for len in 0..=2 * BODY_MAX {
            let (front, mut pen) = (Front::new(1 << 20, 1 << 20), Pen::default());
            let body: Vec<u8> = (0..len).map(|byte| byte as u8 | 1).collect();
            let mut pushed = Vec::new();
            // Each record begins at another byte of a word than the one before, most often.
            for round in 0..20_u64 {
                if pen.push(&front, kind::WRITTEN, round * 200, &body[..len.saturating_sub(round as usize)]) {
                    pushed.push(body[..len.saturating_sub(round as usize)].to_vec());
                }
            }
            let mut seen = Vec::new();
            front.copy_to(&mut seen);
            let bodies: Vec<_> = records_of(&seen).into_iter().map(|(_, _, body)| body).collect();
            assert_eq!(bodies, pushed, "{len}");
            assert!(len <= BODY_MAX + 20 || pushed.is_empty());
            assert!(seen.len() <= front.size());
            pen.take(&front, |bytes, sums| {
                assert_eq!(bytes, seen);
                assert_eq!(sums.records, pushed.len());
                assert_eq!(sums.bodies, pushed.iter().map(|body| body.len() as u64).sum::<u64>());
            });
            assert_eq!(front.len(), 0);
        }
    }

    #[test]
    fn a_flush_marks_what_went_out_last_at_the_same_time_and_nothing_else() {
        for body in 0..20 {
            let (front, mut pen) = (Front::new(1 << 20, 1 << 20), Pen::default());
            assert!(!pen.flushed(&front, 0));
            assert!(pen.push(&front, kind::READ, 0, &vec![255; body]));
            assert!(!pen.flushed(&front, 0));
            assert!(pen.push(&front, kind::WRITTEN, 5, b""));
            assert!(!pen.flushed(&front, 6));
            assert!(pen.flushed(&front, 5) && pen.flushed(&front, 5));
            assert!(pen.push(&front, kind::READ, 5, b"x"));
            let mut seen = Vec::new();
            front.copy_to(&mut seen);
            let kinds: Vec<_> = records_of(&seen).iter().map(|(kind, ..)| *kind).collect();
            assert_eq!(kinds, [kind::READ, kind::WRITTEN | kind::FLUSHED_BIT, kind::READ], "{body}");
        }
    }

    #[test]
    fn what_comes_after_a_long_silence_goes_to_the_ring() {
        let (front, mut pen) = (Front::new(1 << 20, 1 << 20), Pen::default());
        assert!(pen.push(&front, kind::READ, TIME_END - 1, &[1; BODY_MAX]));
        assert!(!pen.push(&front, kind::READ, 2 * TIME_END - 1, b"x"));
        let mut seen = Vec::new();
        front.copy_to(&mut seen);
        assert_eq!(records_of(&seen), [(kind::READ, TIME_END - 1, vec![1; BODY_MAX])]);
        assert_eq!((seen.len(), front.bytes()), (BODY_MAX + WORD, BODY_MAX + WORD), "rule 4 to the byte");
    }

    #[test]
    fn small_recordings_have_no_front_and_others_a_sixteenth_at_most() {
        for (bytes, records, size) in
            [(256, 4096, 0), (2047, 4096, 0), (2048, 4096, 128), (65_536, 4096, 1024), (65_536, 15, 0)]
        {
            let front = Front::new(bytes, records);
            assert_eq!(front.size(), size);
            assert!(front.records_max() <= records / SHARE);
            assert_eq!(Pen::default().push(&front, kind::READ, 0, &[]), size > 0);
        }
        let (front, mut pen) = (Front::new(65_536, 32), Pen::default());
        assert!(pen.push(&front, kind::READ, 0, &[]) && pen.push(&front, kind::READ, 0, &[]));
        assert!(!pen.push(&front, kind::READ, 0, &[]), "a sixteenth of the records");
    }

    #[test]
    fn another_thread_sees_whole_records_in_order_at_any_time() {
        let (front, lock) = (Front::new(1 << 20, 1 << 20), Mutex::new(0_u64));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut pen = Pen::default();
                for number in 0..20_000_u64 {
                    let body = number.to_le_bytes().repeat(1 + number as usize % 9);
                    while !pen.push(&front, kind::WRITTEN, number, &body) {
                        let mut taken = lock.lock().unwrap();
                        pen.take(&front, |_, sums| *taken += sums.records as u64);
                    }
                    pen.flushed(&front, number);
                }
            });
            loop {
                let taken = lock.lock().unwrap();
                let (mut seen, first) = (Vec::new(), *taken);
                front.copy_to(&mut seen);
                drop(taken);
                let records = records_of(&seen);
                for ((_, _, body), number) in records.iter().zip(first..) {
                    assert_eq!(*body, number.to_le_bytes().repeat(1 + number as usize % 9));
                }
                if first + records.len() as u64 == 20_000 {
                    return;
                }
            }
        });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::format::Raw;
    use loom::{
        sync::{Arc, Mutex},
        thread,
    };

    /// Two of these fill a front of sixteen words.
    const BODY: usize = 48;

    #[test]
    fn loom_whoever_looks_sees_whole_records_in_their_order() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new((Front::new(2048, 1 << 20), Mutex::new(0_u8)));
            let written = shared.clone();
            let writer = thread::spawn(move || {
                let (front, lock) = &*written;
                let mut pen = Pen::default();
                for number in 0..3 {
                    if !pen.push(front, kind::WRITTEN, 0, &[number; BODY]) {
                        let mut taken = lock.lock().unwrap();
                        pen.take(front, |_, sums| *taken += sums.records as u8);
                        drop(taken);
                        assert!(pen.push(front, kind::WRITTEN, 0, &[number; BODY]));
                    }
                    pen.flushed(front, 0);
                }
            });
            let (front, lock) = &*shared;
            let taken = lock.lock().unwrap();
            let (mut seen, mut at, mut number) = (Vec::new(), 0, *taken);
            front.copy_to(&mut seen);
            drop(taken);
            while at < seen.len() {
                let raw = Raw::at(&seen, at).expect("whole records");
                assert_eq!(seen[raw.body..raw.end], [number; BODY]);
                (at, number) = (raw.end, number + 1);
            }
            assert!(number <= 3);
            writer.join().unwrap();
        });
    }
}
