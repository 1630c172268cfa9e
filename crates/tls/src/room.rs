//! Room that all connections of a thread share, so that none of them keeps a buffer while it has nothing to do.
//!
//! ```text
//!   small:  [ sent | sent | free ········ ]   pieces lie next to each other; taken back when all of them are gone
//!   large:  [ piece ][ piece ]                a buffer each; used again, as it is, when its piece is gone
//! ```
//! rustls writes into slices, which have to be initialised. Large buffers are kept with what was in them, so that this is done
//! once and not for every record.

use bytes::{Bytes, BytesMut};
use std::cell::RefCell;

/// Messages up to this length are copied together before they are encrypted; longer ones are encrypted where they are.
pub(crate) const GATHER_MAX: usize = 4 * 1024;
/// Plaintext that is encrypted into one piece: four full records.
pub(crate) const SEAL_MAX: usize = 64 * 1024;
/// Encrypted pieces of this length and less share a buffer; longer ones have one of their own, so that a slow peer pins
/// little that is not its own.
const SHARED_MAX: usize = 8 * 1024;
const SHARED_ROOM: usize = 32 * 1024;
/// Large buffers that a thread keeps: as many as the socket's own buffer takes at once.
const LARGE_KEPT: usize = 4;

thread_local! {
    static ROOM: RefCell<BytesMut> = RefCell::new(BytesMut::new());
    static LARGE: RefCell<Vec<Bytes>> = const { RefCell::new(Vec::new()) };
    static GATHER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Where rustls writes to: initialised bytes, of which the first `len` are used.
#[derive(Debug, Default)]
pub(crate) struct Out {
    buffer: BytesMut,
    len: usize,
}

impl Out {
    /// So many bytes behind those that are used.
    pub(crate) fn room(&mut self, count: usize) -> &mut [u8] {
        let end = self.len + count;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        &mut self.buffer[self.len..end]
    }

    /// So many of them are used now.
    pub(crate) fn fill(&mut self, count: usize) {
        self.len = self.buffer.len().min(self.len + count);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What was written.
    pub(crate) fn into_bytes(mut self) -> Bytes {
        self.buffer.truncate(self.len);
        self.buffer.freeze()
    }
}

/// Has something write about so many bytes, and gives what it wrote.
pub(crate) fn with_room<T>(about: usize, write: impl FnOnce(&mut Out) -> T) -> (T, Bytes) {
    if about > SHARED_MAX {
        return with_large(write);
    }
    let mut room = ROOM.take();
    if about > 0 && room.capacity() < about + 1024 {
        room.reserve(SHARED_ROOM); // the same memory again, if nobody holds a piece of it
    }
    let mut out = Out { buffer: room, len: 0 };
    let result = write(&mut out);
    let Out { buffer: mut room, len } = out;
    room.truncate(len);
    let written = if room.is_empty() { Bytes::new() } else { room.split().freeze() };
    if room.capacity() <= SHARED_ROOM {
        ROOM.replace(room);
    }
    (result, written)
}

fn with_large<T>(write: impl FnOnce(&mut Out) -> T) -> (T, Bytes) {
    let mut kept = LARGE.take();
    let free = kept.iter().position(Bytes::is_unique).map(|index| kept.swap_remove(index));
    let buffer = free.and_then(|bytes| bytes.try_into_mut().ok()).unwrap_or_default();
    let mut out = Out { buffer, len: 0 };
    let result = write(&mut out);
    let Out { buffer, len } = out;
    let whole = buffer.freeze();
    let written = whole.slice(..len);
    if kept.len() < LARGE_KEPT && whole.len() <= SEAL_MAX + SHARED_MAX {
        kept.push(whole);
    }
    LARGE.replace(kept);
    (result, written)
}

/// Lends room to put small messages together.
pub(crate) fn with_gather<T>(gather: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut room = GATHER.take();
    room.clear();
    let result = gather(&mut room);
    GATHER.replace(room);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(len: usize, with: u8) -> Bytes {
        let ((), bytes) = with_room(len, |out| {
            out.room(len + 100).fill(with);
            out.fill(len);
        });
        assert_eq!(bytes, vec![with; len]);
        bytes
    }

    #[test]
    fn small_pieces_share_a_buffer_and_stay_what_they_are() {
        let pieces: Vec<_> = (0..100).map(|number| write(1000, number)).collect();
        for (number, piece) in pieces.iter().enumerate() {
            assert_eq!(piece, &vec![number as u8; 1000]);
        }
        assert_eq!(pieces[1].as_ptr() as usize - pieces[0].as_ptr() as usize, 1000);
    }

    #[test]
    fn a_large_buffer_is_used_again_when_its_piece_is_gone_and_not_before() {
        let first = write(60_000, 1);
        let place = first.as_ptr();
        let second = write(60_000, 2);
        assert_eq!(first, vec![1; 60_000]);
        drop(first);
        assert_eq!(write(50_000, 3).as_ptr(), place);
        assert_eq!(second, vec![2; 60_000]);
        let held: Vec<_> = (0..10).map(|number| write(60_000, number)).collect();
        assert!(LARGE.with_borrow(Vec::len) <= LARGE_KEPT);
        drop(held);
    }
}
