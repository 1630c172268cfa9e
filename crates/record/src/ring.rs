//! The last so many bytes of records: written by one thread without a lock, read by any.
//!
//! ```text
//!   words   [ new ][ newest ]·········[ oldest ][ old
//!           └─ newest chunk ┘         └─ oldest chunk ─ …
//!                            ▲        ▲
//!      the pen writes here  end      first      moved only while the lock is held: by the pen, once for a chunk
//! ```
//! A recorder writes for each message, and others hardly ever read. So what is written for a message is stored behind the end, which readers do not
//! look at, and counts when the end is moved. The lock is needed once for some kilobytes, when old records make room for new ones. It would be the
//! dearest part of a message: a lock waits until everything that was written has found its place, and the words of a ring have left the processor's
//! caches by the time they are used again.
//!
//! Always true between calls:
//! 1. One [`Pen`] writes, on one thread at a time. Words from `first` to `end` are whole records in order, and never change, but for the bit
//!    that says that what was written last was flushed.
//! 2. `end` is stored (release) behind the words that it counts, so whoever loads it (acquire) sees those.
//! 3. `first` moves, and words are exchanged for more of them, only while the lock of the recording is held, as who reads does; so what is being
//!    read is not overwritten.
//! 4. Records lie in chunks of an eighth of the limit, whose sums are known. When there is no room, the oldest chunk goes as a whole:
//!    nobody reads old records again. A ring that keeps the beginning takes nothing more instead.
//! 5. `first_ns` is the time of the record before the first one: of each record only the time after the one before it is kept.
//! 6. Room grows by doubling up to the limit and is used again from then on: a message allocates nothing.
//!
//! Not here: how records are laid into words (`pen`), what is recorded and when (`recorder`), who else may look (`live`).

use crate::{
    format::writer::Kept,
    pen::{HEAD_WORDS, Pen, encode_next},
};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};
use std::{collections::VecDeque, sync::Arc};

/// What goes at once when there is no room, as a part of the whole.
const CHUNKS: u64 = 8;
/// What a ring begins with: a request and its reply.
const ROOM_MIN: usize = 1024;
/// Less is of no use to anybody, but to a model of all that may happen.
pub(crate) const LIMIT_MIN: usize = if cfg!(loom) { 64 } else { 256 };
/// Bytes of a word.
pub(crate) const WORD: usize = 8;
/// Where the records end: how many words there have been in all.
#[derive(Debug)]
pub(crate) struct End(AtomicU64);

impl End {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn store(&self, end: u64) {
        self.0.store(end, Ordering::Release);
    }
}

/// Words that a pen writes and others read.
#[derive(Debug, Clone)]
pub(crate) struct Words(Arc<[AtomicU64]>);

impl Words {
    pub(crate) fn zeroed(len: usize) -> Self {
        Self((0..len).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn load(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn store(&self, at: usize, word: u64) {
        self.0[at].store(word, Ordering::Relaxed);
    }

    /// Stores words side by side, for which there is room.
    pub(crate) fn store_all(&self, at: usize, words: &[[u8; WORD]]) {
        SideBySide(&self.0).store_all(at, words);
    }

    /// So many words, if they lie side by side.
    #[inline]
    pub(crate) fn side_by_side(&self, at: usize, many: usize) -> Option<SideBySide<'_>> {
        self.0.get(at..at + many).map(SideBySide)
    }
}

/// Some of the words.
#[derive(Clone, Copy)]
pub(crate) struct SideBySide<'a>(&'a [AtomicU64]);

impl SideBySide<'_> {
    #[inline]
    pub(crate) fn store(self, at: usize, word: u64) {
        self.0[at].store(word, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn store_all(self, at: usize, words: &[[u8; WORD]]) {
        for (word, bytes) in self.0[at..at + words.len()].iter().zip(words) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
    }
}

/// How many words so many bytes take.
#[inline]
pub(crate) fn words_of(bytes: usize) -> usize {
    (bytes + WORD - 1) >> WORD.trailing_zeros()
}

/// Successive records that go together.
#[derive(Debug, Default, Clone, Copy)]
struct Chunk {
    /// Where they end.
    end: u64,
    records: usize,
    bodies: u64,
    last_ns: u64,
}

/// What there is of the records. Under the lock of the recording.
#[derive(Debug)]
pub(crate) struct Ring {
    words: Words,
    /// The first record, and with which of the words it begins.
    first: u64,
    first_at: usize,
    first_ns: u64,
    /// How many words there may be.
    limit: usize,
    records_max: usize,
    keeps_beginning: bool,
    is_over: bool,
    /// Those before the newest, oldest first, and how many records they have.
    chunks: VecDeque<Chunk>,
    records: usize,
    newest_begins: u64,
    lost_records: u64,
    lost_bytes: u64,
}

impl Ring {
    /// Of so many bytes and records at most.
    pub(crate) fn new(limit: usize, records_max: usize) -> Self {
        Self {
            words: Words::zeroed(0),
            first: 0,
            first_at: 0,
            first_ns: 0,
            limit: limit.max(LIMIT_MIN) / WORD,
            records_max: records_max.max(1),
            keeps_beginning: false,
            is_over: false,
            chunks: VecDeque::new(),
            records: 0,
            newest_begins: 0,
            lost_records: 0,
            lost_bytes: 0,
        }
    }

    /// When there is no room, what is there stays, and nothing comes behind it.
    pub(crate) fn keeping_the_beginning(mut self) -> Self {
        self.keeps_beginning = true;
        self
    }

    /// The longest body that there is room for.
    pub(crate) fn body_max(&self) -> usize {
        (self.limit - HEAD_WORDS) * WORD
    }

    /// How many words there are.
    pub(crate) fn len(&self, end: &End) -> usize {
        (end.load() - self.first) as usize
    }

    /// Makes room for a record with such a body, at most [`body_max`](Self::body_max) long. False if there is none.
    #[cold]
    pub(crate) fn make_room(&mut self, pen: &mut Pen, body: usize) -> bool {
        let needed = pen.end + (HEAD_WORDS + words_of(body)) as u64;
        let (chunk, chunk_records) = (self.limit as u64 / CHUNKS, self.records_max.div_ceil(CHUNKS as usize));
        if pen.end - self.newest_begins >= chunk || pen.records >= chunk_records {
            let newest = self.end_newest(pen);
            self.records += newest.records;
            self.chunks.push_back(newest);
        }
        loop {
            let has_records = self.records + pen.records < self.records_max;
            if has_records && needed <= self.free_end() {
                break;
            }
            if self.is_over {
                return false;
            }
            if has_records && self.words.len() < self.limit {
                self.grow(pen, needed);
            } else if self.keeps_beginning {
                self.is_over = true;
                (pen.bound, self.records_max) = (0, 0); // nothing that is shorter either
            } else {
                self.drop_oldest(pen);
            }
        }
        pen.bound = self.free_end().min(needed.max(self.newest_begins + chunk));
        pen.records_end = (self.records_max - self.records).min(chunk_records.max(pen.records + 1));
        true
    }

    /// How far the pen can go.
    fn free_end(&self) -> u64 {
        self.first + self.words.len() as u64
    }

    /// The newest chunk, which is followed by another one.
    fn end_newest(&mut self, pen: &mut Pen) -> Chunk {
        let newest = Chunk { end: pen.end, records: pen.records, bodies: pen.bodies, last_ns: pen.last_ns };
        (pen.records, pen.bodies, self.newest_begins) = (0, 0, pen.end);
        newest
    }

    fn drop_oldest(&mut self, pen: &mut Pen) {
        let oldest = match self.chunks.pop_front() {
            Some(chunk) => {
                self.records -= chunk.records;
                chunk
            }
            None => self.end_newest(pen),
        };
        self.first_at = (self.first_at + (oldest.end - self.first) as usize) % self.words.len();
        (self.first, self.first_ns) = (oldest.end, oldest.last_ns);
        self.lost_records += oldest.records as u64;
        self.lost_bytes += oldest.bodies;
    }

    /// More words, the first record in the first of them.
    fn grow(&mut self, pen: &mut Pen, needed: u64) {
        let size = ((needed - self.first) as usize).next_power_of_two().max(ROOM_MIN / WORD).min(self.limit);
        let words = Words::zeroed(size);
        let used = (pen.end - self.first) as usize;
        self.words_from_first(used).enumerate().for_each(|(at, word)| words.store(at, word));
        pen.go_on_in(words.clone(), used);
        (self.words, self.first_at) = (words, 0);
    }

    fn words_from_first(&self, many: usize) -> impl Iterator<Item = u64> {
        let from_first = (self.first_at..self.words.len()).chain(0..self.first_at);
        from_first.take(many).map(|at| self.words.load(at))
    }

    /// What is there, as it is in a file.
    pub(crate) fn kept(&self, end: &End) -> Kept {
        let len = self.len(end);
        let mut records = Vec::with_capacity((len + 1) * WORD);
        let mut words = self.words_from_first(len);
        while encode_next(&mut words, &mut records).is_some() {}
        Kept {
            records,
            lost_until_ns: self.first_ns,
            lost_records: self.lost_records,
            lost_bytes: self.lost_bytes,
            ..Kept::default()
        }
    }

    /// What is there, of which nothing is left: nothing more comes.
    pub(crate) fn take(&mut self, end: &End) -> Kept {
        let kept = self.kept(end);
        self.words = Words::zeroed(0);
        self.first = end.load();
        (self.first_at, self.chunks, self.is_over) = (0, VecDeque::new(), true);
        kept
    }
}

#[cfg(all(test, not(loom)))]
#[path = "ring_tests.rs"]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::format::{Raw, kind};
    use loom::{sync::Mutex, thread};

    /// Two of these are all that there is room for.
    const BODY: usize = 16;

    #[test]
    fn loom_whoever_looks_sees_whole_records_in_their_order() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = loom::sync::Arc::new((End::new(), Mutex::new(Ring::new(LIMIT_MIN, 1 << 20))));
            let written = shared.clone();
            let writer = thread::spawn(move || {
                let (end, lock) = &*written;
                let mut pen = Pen::new();
                for number in 0..3 {
                    if !pen.push(end, kind::WRITTEN, 0, &[number; BODY]) {
                        assert!(lock.lock().unwrap().make_room(&mut pen, BODY));
                        assert!(pen.push(end, kind::WRITTEN, 0, &[number; BODY]));
                    }
                    pen.flushed(end, 0);
                }
            });
            let (end, lock) = &*shared;
            let ring = lock.lock().unwrap();
            let kept = ring.kept(end);
            drop(ring);
            let (mut at, mut number) = (0, kept.lost_records as u8);
            while at < kept.records.len() {
                let raw = Raw::at(&kept.records, at).expect("whole records");
                assert_eq!(kept.records[raw.body..raw.end], [number; BODY]);
                (at, number) = (raw.end, number + 1);
            }
            assert!(number <= 3);
            writer.join().unwrap();
        });
    }
}
