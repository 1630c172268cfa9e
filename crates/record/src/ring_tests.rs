//! What is in a ring, whatever was written into it.

use super::*;
use crate::format::{Raw, kind, varint};
use std::sync::Mutex;

/// A ring and its pen, on one thread.
struct Written {
    ring: Ring,
    pen: Pen,
    end: End,
}

impl Written {
    fn new(limit: usize, records_max: usize) -> Self {
        Self { ring: Ring::new(limit, records_max), pen: Pen::new(), end: End::new() }
    }

    fn push(&mut self, kind: u8, now_ns: u64, body: &[u8]) {
        self.push_by(|pen, end| pen.push(end, kind, now_ns, body), body.len());
    }

    fn push_cut(&mut self, now_ns: u64, len: u64, kept: &[u8]) {
        self.push_by(|pen, end| pen.push_cut(end, kind::READ_CUT, now_ns, len, kept), kept.len());
    }

    fn push_by(&mut self, put: impl Fn(&mut Pen, &End) -> bool, body: usize) {
        if !put(&mut self.pen, &self.end) && self.ring.make_room(&mut self.pen, body) {
            assert!(put(&mut self.pen, &self.end), "there is room now");
        }
    }

    fn flushed(&mut self, now_ns: u64) {
        if !self.pen.flushed(&self.end, now_ns) {
            self.push(kind::FLUSH, now_ns, &[]);
        }
    }

    fn lost(&self) -> (u64, u64) {
        let kept = self.ring.kept(&self.end);
        (kept.lost_records, kept.lost_bytes)
    }

    /// Kinds, times and bodies of what is there.
    fn records(&self) -> Vec<(u8, u64, Vec<u8>)> {
        records_of(&self.ring.kept(&self.end))
    }

    fn content(&self) -> Vec<(u64, Vec<u8>)> {
        self.records().into_iter().map(|(_, time, body)| (time, body)).collect()
    }

    fn room(&self) -> usize {
        self.ring.words.len() * WORD
    }
}

fn records_of(kept: &Kept) -> Vec<(u8, u64, Vec<u8>)> {
    let (mut at, mut time, mut found) = (0, kept.lost_until_ns, Vec::new());
    while at < kept.records.len() {
        let raw = Raw::at(&kept.records, at).expect("whole records");
        time += raw.after_ns;
        found.push((raw.kind, time, kept.records[raw.body..raw.end].to_vec()));
        at = raw.end;
    }
    found
}

/// Bytes that are all different from their neighbours.
fn bytes(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|byte| (byte % 251) as u8).collect()
}

#[test]
fn the_oldest_records_go_when_there_is_no_room_and_times_stay_right() {
    let mut ring = Written::new(LIMIT_MIN, usize::MAX);
    for round in 0..1_000_usize {
        ring.push(17, round as u64 * 300, &bytes(round, round % 60));
        assert!(ring.room() <= LIMIT_MIN);
        let found = ring.content();
        for (index, (time, body)) in found.iter().rev().enumerate() {
            let round = round - index;
            assert_eq!((*time, body), (round as u64 * 300, &bytes(round, round % 60)));
        }
        assert_eq!(ring.lost().0 as usize + found.len(), round + 1);
        // What is lost are chunks of an eighth or a record, and what the next record may take is free.
        let len = ring.ring.len(&ring.end) * WORD;
        assert!(
            ring.lost().0 == 0 || len + LIMIT_MIN / 8 + 2 * 64 + 2 * HEAD_WORDS * WORD >= LIMIT_MIN,
            "{len}"
        );
    }
}

#[test]
fn records_of_every_length_come_back_wherever_they_begin_and_however_much_later_they_are() {
    let times = [0, 1, 0x7f, 0x80, (1 << 28) - 2, (1 << 28) - 1, 1 << 28, (1 << 30) - 1, 1 << 30, 1 << 50];
    let mut lengths: Vec<usize> = (0..100).collect();
    lengths.extend([127, 128, 129, 500, 1023, 1024, 1025, 4096, (1 << 14) - 1, 1 << 14, (1 << 14) + 1]);
    for limit in [1 << 15, 40_000, 100_000] {
        let (mut ring, mut now, mut all) = (Written::new(limit, usize::MAX), 0, Vec::new());
        for (round, len) in lengths.iter().cycle().enumerate().take(1_500) {
            now += times[round % times.len()];
            let mut body = bytes(round * 7, *len);
            let kind = match round % 3 {
                0 => {
                    ring.push(kind::WRITTEN, now, &body);
                    ring.flushed(now);
                    kind::WRITTEN | kind::FLUSHED_BIT
                }
                1 => {
                    ring.push(kind::READ, now, &body);
                    kind::READ
                }
                _ => {
                    let whole = 1 << (round % 64);
                    ring.push_cut(now, whole, &body);
                    let mut with_number = Vec::new();
                    varint::push(&mut with_number, whole);
                    with_number.append(&mut body);
                    body = with_number;
                    kind::READ_CUT
                }
            };
            all.push((kind, now, body));
            if round % 31 == 0 {
                let found = ring.records();
                assert_eq!(ring.lost().0 as usize + found.len(), all.len());
                assert!(found == all[all.len() - found.len()..], "round {round}");
            }
        }
        assert!(ring.lost().0 > 0 && ring.room() <= limit);
    }
}

#[test]
fn the_longest_body_has_room_and_is_alone() {
    for limit in [LIMIT_MIN, 1000, 1 << 16, (4 << 20) + 3] {
        let mut ring = Written::new(limit, usize::MAX);
        let most = ring.ring.body_max();
        for round in 0..12 {
            ring.push(17, round << 40, b"short");
            ring.push(17, round << 40, &bytes(round as usize, most));
            assert_eq!(ring.content(), [(round << 40, bytes(round as usize, most))]);
            ring.push_cut(round << 40, 0, &bytes(round as usize, most));
            assert_eq!(ring.content()[0].1[1..], bytes(round as usize, most));
        }
    }
}

#[test]
fn as_many_records_as_are_allowed_stay_and_one_more_costs_an_eighth() {
    let mut ring = Written::new(1 << 20, 16);
    for byte in 0..16 {
        ring.push(17, 0, &[byte]);
    }
    assert_eq!((ring.records().len(), ring.lost()), (16, (0, 0)));
    ring.push(17, 0, &[16]);
    assert_eq!((ring.records().len(), ring.lost()), (15, (2, 2)));
    assert_eq!(ring.content()[0].1, [2]);
    let mut one = Written::new(1 << 20, 1);
    (0..3).for_each(|byte| one.push(17, 0, &[byte]));
    assert_eq!(one.content(), [(0, vec![2])]);
}

#[test]
fn a_flush_costs_a_bit_of_what_went_out_at_the_same_time_and_else_a_record() {
    let mut ring = Written::new(1 << 12, usize::MAX);
    ring.flushed(0);
    ring.push(kind::WRITTEN, 5, b"x");
    ring.flushed(5);
    ring.flushed(5);
    ring.flushed(6);
    ring.flushed(6);
    let flushed = kind::WRITTEN | kind::FLUSHED_BIT;
    let flush = kind::FLUSH;
    assert_eq!(ring.records(), [(flush, 0, vec![]), (flushed, 5, b"x".to_vec()), (flush, 6, vec![])]);
    for round in 10..3_000 {
        ring.push(kind::READ, round, &bytes(0, round as usize % 5));
        ring.flushed(round);
        ring.push(kind::WRITTEN, round, &bytes(1, round as usize % 80));
        ring.flushed(round);
        let found = ring.records();
        let last: Vec<_> = found[found.len() - 3..].iter().map(|(kind, ..)| *kind).collect();
        assert_eq!(last, [kind::READ, flush, flushed]);
        assert_eq!(found.last().unwrap().2, bytes(1, round as usize % 80));
    }
}

#[test]
fn what_is_taken_out_is_in_order_and_leaves_an_empty_ring() {
    let mut ring = Written::new(LIMIT_MIN, usize::MAX);
    (0..100_u8).for_each(|byte| ring.push(17, 0, &[byte; 9]));
    let before = ring.records();
    assert_eq!(records_of(&ring.ring.take(&ring.end)), before);
    assert_eq!((ring.ring.len(&ring.end), ring.room(), ring.records().len()), (0, 0, 0));
}

#[test]
fn a_ring_that_keeps_the_beginning_takes_nothing_behind_what_it_has_no_room_for() {
    let mut ring = Written::new(LIMIT_MIN, usize::MAX);
    ring.ring = ring.ring.keeping_the_beginning();
    ring.push(17, 0, &[1; 150]);
    for len in [100, 1, 0] {
        ring.push(17, 5, &vec![2; len]);
        assert_eq!(ring.content(), [(0, vec![1; 150])]);
    }
    assert_eq!(ring.lost(), (0, 0));
}

#[test]
fn another_thread_sees_whole_records_in_order_at_any_time() {
    const ALL: u64 = 50_000;
    let (end, ring) = (End::new(), Mutex::new(Ring::new(4096, 1 << 20)));
    let body = |number: u64| number.to_le_bytes().repeat(number as usize % 40)[..].to_vec();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pen = Pen::new();
            for number in 0..ALL {
                let body = body(number);
                if !pen.push(&end, kind::WRITTEN, number, &body) {
                    assert!(ring.lock().unwrap().make_room(&mut pen, body.len()));
                    assert!(pen.push(&end, kind::WRITTEN, number, &body));
                }
                assert!(pen.flushed(&end, number));
            }
        });
        loop {
            let kept = ring.lock().unwrap().kept(&end);
            let records = records_of(&kept);
            for ((_, time, found), number) in records.iter().zip(kept.lost_records..) {
                assert_eq!((*time, found), (number, &body(number)));
            }
            if kept.lost_records + records.len() as u64 == ALL {
                return;
            }
        }
    });
}
