//! Ciphertext that has arrived and was not asked for yet, or is not whole.
//!
//! ```text
//!   read ──▶ back [........]      front [ record | record | rec ]      ──▶ rustls, one record for each pull
//!              └──────── as much as the record lacks ───────▲
//! ```
//! Always true between calls:
//! 1. Bytes leave in the order in which they came. `back` is empty unless `front` is not.
//! 2. `looked_at` says that rustls has seen all of `front` and wants more: it may have noted where parts of an unfinished
//!    handshake message lie in there, so nothing but an append may happen to it. If it is not set, rustls has noted nothing.
//! 3. When nothing more can be made of it, `front` is a buffer of our own: the loop's buffer is not pinned by half a record.

use bytes::BytesMut;

/// Bytes of a record's header: type, version, length.
pub(crate) const HEADER: usize = 5;

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    front: BytesMut,
    back: BytesMut,
    looked_at: bool,
    /// `front` has come from `back`, and rustls has seen nothing of it.
    unseen: bool,
    /// `front` is a buffer of our own, not a part of the loop's.
    own: bool,
    /// How often something was taken out: who looks twice sees whether it is still the same that is not whole.
    taken: u32,
}

impl Inbox {
    pub(crate) fn feed(&mut self, bytes: BytesMut) {
        if self.front.is_empty() {
            (self.front, self.own, self.looked_at) = (bytes, false, false);
        } else if self.back.is_empty() {
            self.back = bytes;
        } else {
            self.back.unsplit(bytes);
        }
    }

    /// What came while this one was away.
    pub(crate) fn append(&mut self, later: Self) {
        for bytes in [later.front, later.back] {
            if !bytes.is_empty() {
                self.feed(bytes);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.front.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.front.len() + self.back.len()
    }

    /// The first bytes, at most eight.
    pub(crate) fn first(&self) -> Vec<u8> {
        self.bytes().take(8).collect()
    }

    /// All bytes, in order.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = u8> {
        self.front.iter().chain(&self.back).copied()
    }

    /// Everything, if it came as one.
    pub(crate) fn in_one(&self) -> &[u8] {
        if self.back.is_empty() { &self.front } else { &[] }
    }

    /// The last `count` bytes, which came as one.
    pub(crate) fn tail(&self, count: usize) -> &[u8] {
        let piece = if self.back.is_empty() { &self.front } else { &self.back };
        &piece[piece.len().saturating_sub(count)..]
    }

    /// How often something was taken out.
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    /// Whether there is something that rustls could make progress with.
    pub(crate) fn has_news(&self) -> bool {
        if self.looked_at {
            return self.front.len() + self.back.len() >= self.record().unwrap_or(HEADER)
                && !self.back.is_empty();
        }
        self.record().is_some_and(|record| self.len() >= record)
    }

    /// What rustls is to look at.
    pub(crate) fn unprocessed(&mut self) -> &mut [u8] {
        self.unseen = false;
        &mut self.front
    }

    /// What rustls is to be given when it is not asked to read: what it has seen already, and nothing else.
    pub(crate) fn processed(&mut self) -> &mut [u8] {
        if self.looked_at { &mut self.front } else { &mut [] }
    }

    /// Takes out what rustls is done with; what comes next it has not seen.
    pub(crate) fn take(&mut self, count: usize) -> BytesMut {
        self.looked_at = false;
        self.taken = self.taken.wrapping_add(u32::from(count > 0));
        let count = count.min(self.front.len());
        if count < self.front.len() {
            return self.front.split_to(count);
        }
        let whole = std::mem::take(&mut self.front);
        (self.front, self.own) = (std::mem::take(&mut self.back), false);
        self.unseen = !self.front.is_empty();
        whole
    }

    /// rustls has seen all that it was given, and wants more. False if there is no more.
    pub(crate) fn refill(&mut self) -> bool {
        if self.unseen {
            return true;
        }
        if self.back.is_empty() {
            self.looked_at = !self.front.is_empty();
            return false;
        }
        let lacks = match self.record() {
            None => HEADER - self.front.len(),
            Some(record) if record > self.front.len() => record - self.front.len(),
            Some(_) => self.back.len(), // part of a handshake message, and its next part lies further back
        };
        let more = self.back.split_to(lacks.min(self.back.len()));
        if self.back.is_empty() {
            self.back = BytesMut::new();
        }
        self.make_own();
        self.front.extend_from_slice(&more);
        true
    }

    /// Nothing more can be made of it for now.
    pub(crate) fn come_to_rest(&mut self) {
        if !self.front.is_empty() {
            self.make_own();
        }
    }

    fn make_own(&mut self) {
        if self.own {
            return;
        }
        // The length is only the peer's word: it gets the room when a good part of it has come.
        let room = match self.record() {
            Some(record) if record <= self.front.len() * 8 => record.max(self.front.len()),
            _ => self.front.len(),
        };
        let mut own = BytesMut::with_capacity(room);
        own.extend_from_slice(&self.front);
        (self.front, self.own) = (own, true);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self { taken: self.taken, ..Self::default() };
    }

    /// Everything, for somebody else.
    pub(crate) fn take_all(&mut self) -> BytesMut {
        let mut all = std::mem::take(&mut self.front);
        all.unsplit(std::mem::take(&mut self.back));
        self.clear();
        all
    }

    /// How long the first record is, if its header has come.
    fn record(&self) -> Option<usize> {
        let [_, _, _, high, low, ..] = *self.front else { return None };
        Some(HEADER + (usize::from(high) << 8 | usize::from(low)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(len: u8) -> Vec<u8> {
        let mut record = vec![23, 3, 3, 0, len];
        record.extend(std::iter::repeat_n(len, usize::from(len)));
        record
    }

    #[test]
    fn records_leave_as_they_came_however_they_were_cut() {
        let all: Vec<u8> = [3, 0, 200, 1].into_iter().flat_map(record).collect();
        for size in 1..all.len() {
            let mut inbox = Inbox::default();
            let mut out = Vec::new();
            for piece in all.chunks(size) {
                inbox.feed(piece.into());
                loop {
                    inbox.unprocessed();
                    match inbox.record() {
                        Some(len) if inbox.front.len() >= len => out.push(inbox.take(len).to_vec()),
                        _ if inbox.refill() => {}
                        _ => break,
                    }
                }
                inbox.come_to_rest();
                assert!(inbox.is_empty() || inbox.own);
            }
            assert_eq!(out, [3, 0, 200, 1].map(record), "pieces of {size}");
            assert_eq!(inbox.len(), 0);
        }
    }

    #[test]
    fn only_what_completes_a_record_is_copied() {
        let mut inbox = Inbox::default();
        inbox.feed(record(100)[..50].into());
        assert!(!inbox.refill());
        inbox.come_to_rest();
        let mut rest: BytesMut = record(100)[50..].into();
        rest.extend_from_slice(&record(7));
        let place = rest[55..].as_ptr();
        inbox.feed(rest);
        assert!(inbox.refill());
        assert_eq!(inbox.take(105).to_vec(), record(100));
        assert_eq!(inbox.front.as_ptr(), place);
        assert_eq!(inbox.take(12).to_vec(), record(7));
    }

    #[test]
    fn a_length_that_is_only_claimed_gets_no_room() {
        let mut inbox = Inbox::default();
        inbox.feed(BytesMut::from(&[23, 3, 3, 0x40, 0, 1, 2][..]));
        inbox.come_to_rest();
        assert!(inbox.front.capacity() < 64, "{}", inbox.front.capacity());
    }
}
