//! The last so many bytes of records, as they will be in a file.
//!
//! ```text
//!   room   [ new ][ newest ]·········[ oldest ][ old
//!          └─ newest chunk ┘         └─ oldest chunk ─ …
//!                           ▲        ▲
//!                    written here    first
//! ```
//! Always true between calls:
//! 1. `len` bytes from `first` on are whole records, in order, and `len` is at most `limit`.
//! 2. Records lie in chunks of an eighth of the limit, whose sums are known. When there is no room, the oldest chunk goes as a whole:
//!    nobody reads old records again, which have long left the processor's caches.
//! 3. `first_ns` is the time of the record before the first one, `last_ns` that of the last one: of each record only the time after
//!    the one before it is kept.
//!    A ring that [keeps the beginning](Ring::keeping_the_beginning) takes nothing more instead.
//! 4. Room grows by doubling up to the limit and is used again from then on: a message allocates nothing.
//!
//! Not here: what is recorded and when (`recorder`), the newest of it (`front`), who else may look (`live`).

use crate::{
    format::{
        kind, varint,
        writer::{HEAD_MAX, Kept, head},
    },
    front::Sums,
};
use std::collections::VecDeque;

/// What goes at once when there is no room, as a part of the whole.
const CHUNKS: usize = 8;
/// What a ring begins with: a request and its reply.
const ROOM_MIN: usize = 1024;
/// Less is of no use to anybody.
pub(crate) const LIMIT_MIN: usize = 256;

/// Successive records that go together.
#[derive(Debug, Default, Clone, Copy)]
struct Chunk {
    len: usize,
    records: usize,
    bodies: u64,
    last_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Ring {
    room: Vec<u8>,
    first: usize,
    len: usize,
    limit: usize,
    records: usize,
    records_max: usize,
    /// Those before the newest, oldest first.
    chunks: VecDeque<Chunk>,
    newest: Chunk,
    first_ns: u64,
    last_ns: u64,
    last_len: usize,
    lost_records: u64,
    lost_bytes: u64,
    keeps_beginning: bool,
}

impl Ring {
    pub(crate) fn new(limit: usize, records_max: usize) -> Self {
        Self {
            room: Vec::new(),
            first: 0,
            len: 0,
            limit: limit.max(LIMIT_MIN),
            records: 0,
            records_max: records_max.max(1),
            chunks: VecDeque::new(),
            newest: Chunk::default(),
            first_ns: 0,
            last_ns: 0,
            last_len: 0,
            lost_records: 0,
            lost_bytes: 0,
            keeps_beginning: false,
        }
    }

    /// When there is no room, what is there stays, and nothing comes behind it.
    pub(crate) fn keeping_the_beginning(mut self) -> Self {
        self.keeps_beginning = true;
        self
    }

    /// The longest body that there is room for.
    pub(crate) fn body_max(&self) -> usize {
        self.limit - HEAD_MAX - varint::LEN_MAX
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    fn records(&self) -> usize {
        self.records
    }

    /// Adds a record whose body consists of two parts, at most [`body_max`](Self::body_max) long together.
    #[inline]
    pub(crate) fn push(&mut self, kind: u8, now_ns: u64, front: &[u8], body: &[u8]) {
        let now_ns = now_ns.max(self.last_ns);
        let mut room = [0; HEAD_MAX];
        let head = head(&mut room, kind, now_ns - self.last_ns, front.len() + body.len());
        let len = head + front.len() + body.len();
        debug_assert!(len <= self.limit, "the body of a record is too long");
        if !self.provide(len, 1) {
            return;
        }
        let size = self.room.len();
        let at = wrapped(self.first + self.len, size);
        match self.room.get_mut(at..at + HEAD_MAX) {
            // As long as a head can be: copied without a loop. What is too much of it is room for the body, or free.
            Some(there) if self.len + HEAD_MAX.max(len) <= size => {
                there.copy_from_slice(&room);
                self.len += head;
            }
            _ => self.put(&room[..head]),
        }
        if !front.is_empty() {
            self.put(front);
        }
        self.put(body);
        let bodies = (len - head) as u64;
        self.added(len, Sums { records: 1, bodies, last_len: len, last_ns: now_ns });
    }

    /// Adds records as they are in a [`Front`](crate::front::Front), the first of them so long after the last one here.
    pub(crate) fn append(&mut self, records: &[u8], sums: Sums) {
        debug_assert!(records.len() <= self.limit);
        if self.provide(records.len(), sums.records) {
            self.put(records);
            self.added(records.len(), sums);
        }
    }

    /// Makes room for so much. False if there is none.
    #[inline]
    fn provide(&mut self, len: usize, records: usize) -> bool {
        if self.is_full_for(len, records) && !self.make_room(len, records) {
            return false;
        }
        if self.len + len > self.room.len() {
            self.grow(len);
        }
        true
    }

    #[inline]
    fn is_full_for(&self, len: usize, records: usize) -> bool {
        self.len + len > self.limit || self.records + records > self.records_max
    }

    /// Whether it has refused something, and takes nothing more.
    pub(crate) fn is_over(&self) -> bool {
        self.records_max == 0
    }

    /// So much has been added.
    #[inline]
    fn added(&mut self, len: usize, sums: Sums) {
        self.records += sums.records;
        self.last_ns = sums.last_ns;
        self.last_len = sums.last_len;
        self.newest.len += len;
        self.newest.records += sums.records;
        self.newest.bodies += sums.bodies;
        if self.newest.len >= self.limit / CHUNKS || self.newest.records >= self.records_max.div_ceil(CHUNKS)
        {
            self.begin_chunk();
        }
    }

    #[cold]
    fn begin_chunk(&mut self) {
        self.chunks.push_back(Chunk { last_ns: self.last_ns, ..std::mem::take(&mut self.newest) });
    }

    /// What went out last was flushed.
    #[inline]
    pub(crate) fn flushed(&mut self, now_ns: u64) {
        if self.records > 0 && now_ns <= self.last_ns {
            let last = wrapped(self.first + self.len - self.last_len, self.room.len());
            let kind = self.room[last];
            if kind::is_flushed(kind) {
                return;
            }
            if kind::is_flushed(kind | kind::FLUSHED_BIT) {
                self.room[last] = kind | kind::FLUSHED_BIT;
                return;
            }
        }
        self.push(kind::FLUSH, now_ns, &[], &[]);
    }

    /// Appends bytes, for which there is room.
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let size = self.room.len();
        let at = wrapped(self.first + self.len, size);
        let straight = bytes.len().min(size - at);
        self.room[at..at + straight].copy_from_slice(&bytes[..straight]);
        if straight < bytes.len() {
            self.room[..bytes.len() - straight].copy_from_slice(&bytes[straight..]);
        }
        self.len += bytes.len();
    }

    /// Drops the oldest chunks until there is room for so much.
    #[cold]
    fn make_room(&mut self, len: usize, records: usize) -> bool {
        if self.keeps_beginning {
            self.records_max = 0; // for none that is shorter either
            return false;
        }
        while self.is_full_for(len, records) {
            let newest = Chunk { last_ns: self.last_ns, ..self.newest };
            let oldest = self.chunks.pop_front().unwrap_or_else(|| {
                self.newest = Chunk::default();
                newest
            });
            self.first = wrapped(self.first + oldest.len, self.room.len());
            self.len -= oldest.len;
            self.records -= oldest.records;
            self.first_ns = oldest.last_ns;
            self.lost_records += oldest.records as u64;
            self.lost_bytes += oldest.bodies;
        }
        true
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let size = (self.len + more).next_power_of_two().max(ROOM_MIN).min(self.limit).max(self.len + more);
        let mut room = Vec::with_capacity(size);
        let (front, back) = self.parts();
        room.extend_from_slice(front);
        room.extend_from_slice(back);
        room.resize(size, 0);
        (self.room, self.first) = (room, 0);
    }

    /// What is there, in order.
    fn parts(&self) -> (&[u8], &[u8]) {
        let straight = self.len.min(self.room.len() - self.first);
        (&self.room[self.first..self.first + straight], &self.room[..self.len - straight])
    }

    /// A copy of what is there.
    pub(crate) fn kept(&self) -> Kept {
        let (front, back) = self.parts();
        let mut records = Vec::with_capacity(self.len);
        records.extend_from_slice(front);
        records.extend_from_slice(back);
        self.with_records(records)
    }

    /// What is there. Nothing is left; the ring goes on with new room.
    pub(crate) fn take(&mut self) -> Kept {
        let mut records = std::mem::take(&mut self.room);
        records.rotate_left(self.first);
        records.truncate(self.len);
        let kept = self.with_records(records);
        (self.first, self.len, self.records) = (0, 0, 0);
        (self.chunks, self.newest) = (VecDeque::new(), Chunk::default());
        kept
    }

    fn with_records(&self, records: Vec<u8>) -> Kept {
        Kept {
            records,
            lost_until_ns: self.first_ns,
            lost_records: self.lost_records,
            lost_bytes: self.lost_bytes,
            ..Kept::default()
        }
    }
}

#[inline]
fn wrapped(at: usize, size: usize) -> usize {
    if at >= size { at - size } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Raw;

    /// The bodies and times of what is there.
    fn content(ring: &Ring) -> Vec<(u64, Vec<u8>)> {
        let kept = ring.kept();
        let (mut at, mut time, mut found) = (0, kept.lost_until_ns, Vec::new());
        while at < kept.records.len() {
            let raw = Raw::at(&kept.records, at).unwrap();
            time += raw.after_ns;
            found.push((time, kept.records[raw.body..raw.end].to_vec()));
            at = raw.end;
        }
        found
    }

    #[test]
    fn the_oldest_records_go_when_there_is_no_room_and_times_stay_right() {
        let mut ring = Ring::new(LIMIT_MIN, usize::MAX);
        for round in 0..1_000_u64 {
            let body = vec![round as u8; (round % 60) as usize];
            ring.push(17, round * 300, &[], &body);
            assert!(ring.len() <= LIMIT_MIN && ring.room.len() <= LIMIT_MIN);
            let found = content(&ring);
            assert_eq!(found.len(), ring.records());
            assert!(ring.kept().lost_records == 0 || ring.len() + 64 >= LIMIT_MIN / 8 * 7 - 64);
            for (index, (time, body)) in found.iter().rev().enumerate() {
                let round = round - index as u64;
                assert_eq!((*time, body.len()), (round * 300, (round % 60) as usize));
                assert!(body.iter().all(|byte| *byte == round as u8));
            }
            assert_eq!(ring.kept().lost_records + found.len() as u64, round + 1);
        }
    }

    #[test]
    fn as_many_records_as_are_allowed_stay_and_one_more_costs_an_eighth() {
        let mut ring = Ring::new(1 << 20, 16);
        for byte in 0..16 {
            ring.push(17, 0, &[], &[byte]);
        }
        assert_eq!((ring.records(), ring.kept().lost_records), (16, 0));
        ring.push(17, 0, &[], &[16]);
        assert_eq!((ring.records(), ring.kept().lost_records, ring.kept().lost_bytes), (15, 2, 2));
        assert_eq!(content(&ring)[0].1, [2]);
        let mut one = Ring::new(1 << 20, 1);
        (0..3).for_each(|byte| one.push(17, 0, &[], &[byte]));
        assert_eq!(content(&one), [(0, vec![2])]);
    }

    #[test]
    fn a_ring_that_keeps_the_beginning_takes_nothing_behind_what_it_has_no_room_for() {
        let mut ring = Ring::new(LIMIT_MIN, usize::MAX).keeping_the_beginning();
        ring.push(17, 0, &[], &[1; 200]);
        for len in [100, 1, 0] {
            ring.push(17, 5, &[], &vec![2; len]);
            ring.append(&[17, 0, 0], Sums { records: 1, last_len: 3, ..Sums::default() });
            assert_eq!(content(&ring), [(0, vec![1; 200])]);
        }
        assert_eq!(ring.take().lost_records, 0);
    }

    #[test]
    fn a_ring_that_is_exactly_full_keeps_everything_and_one_byte_more_does_not_fit() {
        for over in [0, 1] {
            let mut ring = Ring::new(LIMIT_MIN, usize::MAX);
            ring.push(17, 0, &[], &[1; 100]); // 103 with its head
            ring.push(17, 0, &[], &vec![2; LIMIT_MIN - 103 - 4 + over]); // of 128 bytes or more: a head of 4
            assert_eq!(ring.kept().lost_records, over as u64);
        }
    }

    #[test]
    fn a_flush_costs_a_bit_of_what_went_out_at_the_same_time_and_else_a_record() {
        let mut ring = Ring::new(LIMIT_MIN, usize::MAX);
        ring.push(kind::WRITTEN, 5, &[], b"x");
        ring.flushed(5);
        ring.flushed(5);
        assert_eq!((ring.records(), ring.room[0]), (1, kind::WRITTEN | kind::FLUSHED_BIT));
        ring.flushed(6);
        assert_eq!(content(&ring), [(5, b"x".to_vec()), (6, vec![])]);
        for round in 0..1_000 {
            ring.push(kind::READ, round, &[], b"ab");
            ring.push(kind::WRITTEN, round, &[], &[9; 40]);
            ring.flushed(round);
            assert_eq!(content(&ring).last().unwrap().1, [9; 40]);
        }
    }

    #[test]
    fn what_is_taken_out_is_in_order_and_leaves_an_empty_ring() {
        let mut ring = Ring::new(LIMIT_MIN, usize::MAX);
        (0..100_u8).for_each(|byte| ring.push(17, 0, &[byte], &[byte; 9]));
        let before = ring.kept();
        assert_eq!(ring.take().records, before.records);
        assert_eq!((ring.len(), ring.records()), (0, 0));
        ring.push(17, 5, &[], b"x");
        assert_eq!(content(&ring), [(5, b"x".to_vec())]);
    }
}
