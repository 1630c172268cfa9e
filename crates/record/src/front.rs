//! The newest records of a recording: a small buffer in front of the ring, written without a lock.
//!
//! ```text
//!   the channel's loop ── Pen ──▶ [ front: 2 KiB ] ── full: one lock, one copy ──▶ [ ring: 62 KiB ]
//!                                       ▲                                               ▲
//!   any other thread ───────────────────┴───────── reads both, holding the lock ────────┘
//! ```
//! Most records are short. Writing each of them to its place in the ring costs a lock, and a cache miss that is waited for at the
//! unlocking, because a connection's 64 KiB have left the caches by the time they are used again. The front stays in the caches; the ring is written in
//! larger pieces, whose cache misses overlap.
//!
//! Always true between calls:
//! 1. One [`Pen`] writes, on one thread at a time. `len` bytes are whole records in their order, and never change, but for the
//!    bit that says that what was written last was flushed.
//! 2. `len` is stored (release) behind the bytes that it counts, so whoever loads it (acquire) sees those.
//! 3. It goes back to 0 only while the lock of the recording is held, as who reads does; so what is being read is not overwritten.

use crate::format::{
    kind,
    writer::{HEAD_MAX, head},
};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A dozen short messages with their answers. A thousand connections at work have 2 MiB, which caches can still hold.
const FRONT_MAX: usize = 2048;
/// As a part of a whole recording: less where that is small.
const SHARE: usize = 16;
/// Below that there is none: a ring so small is in the caches anyway.
const FRONT_MIN: usize = 128;
/// Longer bodies go to the ring at once: to copy them twice would cost more than it saves.
const BODY_MAX: usize = 512;
const WORD: usize = 8;

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
        len <= BODY_MAX && HEAD_MAX + len <= self.size()
    }

    /// How many records it holds at most.
    pub(crate) fn records_max(&self) -> usize {
        self.records_max
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Appends what is there. The lock of the recording is held.
    pub(crate) fn copy_to(&self, out: &mut Vec<u8>) {
        let len = self.len();
        let end = out.len() + len;
        out.reserve(len + WORD);
        let words = self.words[..len.div_ceil(WORD)].iter();
        words.for_each(|word| out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()));
        out.truncate(end);
    }
}

/// What the records in a front come to.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sums {
    pub(crate) records: usize,
    pub(crate) bodies: u64,
    /// The length of the last record.
    pub(crate) last_len: usize,
    /// Its time.
    pub(crate) last_ns: u64,
}

/// Writes to a [`Front`]. There is one, which the recorder has.
#[derive(Debug, Default)]
pub(crate) struct Pen {
    len: usize,
    /// The bytes of the last word that are there already.
    partial: u64,
    sums: Sums,
}

impl Pen {
    /// Whether the front is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A record of this time went elsewhere.
    pub(crate) fn passed_by(&mut self, now_ns: u64) {
        self.sums.last_ns = now_ns;
    }

    /// Adds a record, if there is room for it.
    #[inline]
    pub(crate) fn push(&mut self, front: &Front, kind: u8, now_ns: u64, body: &[u8]) -> bool {
        if body.len() > BODY_MAX
            || self.len + HEAD_MAX + body.len() > front.size()
            || self.sums.records == front.records_max
        {
            return false;
        }
        let mut room = [0; HEAD_MAX];
        let head = head(&mut room, kind, now_ns - self.sums.last_ns, body.len());
        self.put(front, &room[..head]);
        self.put(front, body);
        if let Some(last) = front.words.get(self.len / WORD) {
            last.store(self.partial, Ordering::Relaxed);
        }
        self.sums.records += 1;
        self.sums.bodies += body.len() as u64;
        self.sums.last_len = head + body.len();
        self.sums.last_ns = now_ns;
        front.len.store(self.len, Ordering::Release);
        true
    }

    #[inline]
    fn put(&mut self, front: &Front, bytes: &[u8]) {
        let shift = 8 * (self.len % WORD) as u32;
        let mut partial = self.partial;
        let (whole, rest) = bytes.as_chunks::<WORD>();
        let words = &front.words[self.len / WORD..];
        for (word, &bytes) in words.iter().zip(whole) {
            let bytes = u64::from_le_bytes(bytes);
            word.store(partial | bytes << shift, Ordering::Relaxed);
            partial = high(bytes, shift);
        }
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        let last = u64::from_le_bytes(last);
        partial |= last << shift;
        if shift as usize / 8 + rest.len() >= WORD {
            words[whole.len()].store(partial, Ordering::Relaxed);
            partial = high(last, shift);
        }
        self.partial = partial;
        self.len += bytes.len();
    }

    /// What went out last was flushed at this time: true if that is noted.
    #[inline]
    pub(crate) fn flushed(&mut self, front: &Front, now_ns: u64) -> bool {
        if self.len == 0 || now_ns != self.sums.last_ns {
            return false;
        }
        let at = self.len - self.sums.last_len;
        let word = &front.words[at / WORD];
        let shift = 8 * (at % WORD) as u32;
        let before = word.load(Ordering::Relaxed);
        let kind = (before >> shift) as u8;
        if kind::is_flushed(kind) || kind == kind::FLUSH {
            return true;
        }
        if !kind::is_flushed(kind | kind::FLUSHED_BIT) {
            return false;
        }
        let bit = u64::from(kind::FLUSHED_BIT) << shift;
        word.store(before | bit, Ordering::Relaxed);
        if at / WORD == self.len / WORD {
            self.partial |= bit;
        }
        true
    }

    /// Empties the front into `take`, which is given its bytes. The lock of the recording is held.
    pub(crate) fn take(&mut self, front: &Front, take: impl FnOnce(&[u8], Sums)) {
        if self.len == 0 {
            return;
        }
        let mut room = [0; FRONT_MAX];
        let words = room.as_chunks_mut::<WORD>().0.iter_mut().zip(&front.words[..self.len.div_ceil(WORD)]);
        words.for_each(|(bytes, word)| *bytes = word.load(Ordering::Relaxed).to_le_bytes());
        take(&room[..self.len], self.sums);
        front.len.store(0, Ordering::Release);
        (self.len, self.partial) = (0, 0);
        self.sums = Sums { last_ns: self.sums.last_ns, ..Sums::default() };
    }
}

/// What of a word belongs into the next one, if it is written so many bits too far.
#[inline]
fn high(word: u64, shift: u32) -> u64 {
    word >> 1 >> (63 - shift)
}

#[cfg(test)]
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
            assert!(len <= BODY_MAX || pushed.len() < 20);
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
    fn small_recordings_have_no_front_and_others_a_sixteenth_at_most() {
        for (bytes, records, size) in
            [(256, 4096, 0), (2047, 4096, 0), (2048, 4096, 128), (65_536, 4096, 2048), (65_536, 15, 0)]
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
                    while !pen.push(&front, kind::WRITTEN, 0, &body) {
                        let mut taken = lock.lock().unwrap();
                        pen.take(&front, |_, sums| *taken += sums.records as u64);
                    }
                    pen.flushed(&front, 0);
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
