//! Room that all connections of a thread share, so that none of them keeps a buffer while it has nothing to do.

use bytes::{Bytes, BytesMut};
use std::cell::RefCell;

/// Messages up to this length are copied together before they are encrypted; longer ones are encrypted where they are.
pub(crate) const GATHER_MAX: usize = 4 * 1024;
/// Plaintext that is encrypted into one piece: four full records.
pub(crate) const SEAL_MAX: usize = 64 * 1024;
/// Encrypted pieces of this length and less lie next to each other in one buffer; longer ones have one of their own, so that
/// a slow peer pins little that is not its own.
const SHARED_MAX: usize = 8 * 1024;
const SHARED_ROOM: usize = 32 * 1024;

thread_local! {
    static ROOM: RefCell<BytesMut> = RefCell::new(BytesMut::new());
    static GATHER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Has something write about so many bytes, and gives what it wrote.
pub(crate) fn with_room<T>(about: usize, write: impl FnOnce(&mut BytesMut) -> T) -> (T, Bytes) {
    if about > SHARED_MAX {
        let mut own = BytesMut::new();
        let result = write(&mut own);
        return (result, own.freeze());
    }
    let mut room = ROOM.take();
    if about > 0 && room.capacity() < about + 1024 {
        room.reserve(SHARED_ROOM); // the same memory again, if nobody holds a piece of it
    }
    let result = write(&mut room);
    let written = if room.is_empty() { Bytes::new() } else { room.split().freeze() };
    if room.capacity() <= SHARED_ROOM {
        ROOM.replace(room);
    }
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
