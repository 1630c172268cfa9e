//! A file that is written: head, what is said about it, records as the ring has them, end.

use super::{
    kind::{self, MAGIC, VERSION},
    recording::Why,
    varint,
};
use std::time::{SystemTime, UNIX_EPOCH};

/// What precedes the body of a record, at most.
pub(crate) const HEAD_MAX: usize = 1 + 2 * varint::LEN_MAX;

/// What precedes a body of this length: the kind, the time after the record before, the length. Tells how many bytes it takes.
#[inline]
pub(crate) fn head(out: &mut [u8; HEAD_MAX], kind: u8, after_ns: u64, len: usize) -> usize {
    out[0] = kind;
    let first = 1 + varint::put(&mut out[1..], after_ns);
    first + varint::put(&mut out[first..], len as u64)
}

/// What was seen in all, whatever of it is still there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

/// What is there of a channel.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Records, the first of them so long after what is lost.
    pub(crate) records: Vec<u8>,
    /// When the last lost record was, after the beginning.
    pub(crate) lost_until_ns: u64,
    pub(crate) lost_records: u64,
    pub(crate) lost_bytes: u64,
    pub(crate) totals: Totals,
    /// The recorder was there when the channel began.
    pub(crate) from_the_start: bool,
}

/// Puts a file together.
pub(crate) fn file(meta: &[(&str, String)], kept: &Kept, why: Why) -> Vec<u8> {
    let about: usize = meta.iter().map(|(name, value)| HEAD_MAX + name.len() + 1 + value.len()).sum();
    let mut out = Vec::with_capacity(MAGIC.len() + 1 + about + kept.records.len() + 2 * (HEAD_MAX + 64));
    out.extend_from_slice(&MAGIC);
    out.push(VERSION);
    for (name, value) in meta {
        record(&mut out, kind::META, 0, format!("{name}={value}").as_bytes());
    }
    if kept.lost_records > 0 {
        let mut body = Vec::new();
        varint::push(&mut body, kept.lost_records);
        varint::push(&mut body, kept.lost_bytes);
        record(&mut out, kind::LOST, kept.lost_until_ns, &body);
    }
    out.extend_from_slice(&kept.records);
    let mut body = vec![why as u8];
    let Totals { read, written, reads, writes } = kept.totals;
    [read, written, reads, writes].into_iter().for_each(|number| varint::push(&mut body, number));
    record(&mut out, kind::END, 0, &body);
    out
}

/// Appends a record.
pub(crate) fn record(out: &mut Vec<u8>, kind: u8, after_ns: u64, body: &[u8]) {
    let mut room = [0; HEAD_MAX];
    let len = head(&mut room, kind, after_ns, body.len());
    out.extend_from_slice(&room[..len]);
    out.extend_from_slice(body);
}

/// A time of day as [`Recording::began`](crate::Recording::began) reads it.
pub(crate) fn time_of_day(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:09}", since.as_secs(), since.subsec_nanos())
}
