//! Where values lie that are in no table: in pieces of a few kilobytes that the heads of a loop share.
//!
//! A value could be a piece of what was read, but then one that stays for long, in the head of a stream that stays open, would hold
//! the loop's whole read buffer. So it is copied here, without an allocation of its own; when the values of a chunk are gone, its
//! room is used again.

use bytes::{Bytes, BytesMut};
use std::cell::RefCell;

/// What an idle stream can hold at most beside what is its own.
const CHUNK: usize = 2048;
/// Longer values have an allocation of their own.
const SHARED_MAX: usize = 256;

thread_local! {
    static CHUNK_OF_LOOP: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(CHUNK));
}

/// Puts the bytes that `write` appends, `room` at most, where they may stay.
#[inline]
pub(super) fn keep<E>(room: usize, write: impl FnOnce(&mut BytesMut) -> Result<(), E>) -> Result<Bytes, E> {
    if room == 0 {
        return Ok(Bytes::new());
    }
    if room > SHARED_MAX {
        let mut own = BytesMut::with_capacity(room);
        write(&mut own)?;
        // Of a text whose length was only guessed, not more than it is.
        return Ok(if own.len() == own.capacity() { own.freeze() } else { Bytes::copy_from_slice(&own) });
    }
    CHUNK_OF_LOOP.with_borrow_mut(|chunk| {
        if chunk.capacity() < room {
            chunk.reserve(room.max(CHUNK));
        }
        let written = write(chunk);
        let bytes = chunk.split();
        written.map(|()| bytes.freeze())
    })
}

/// Shows the bytes that `write` appends, and keeps nothing.
pub(super) fn show<E, R>(
    room: usize,
    write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    show: impl FnOnce(&[u8]) -> R,
) -> Result<R, E> {
    if room > SHARED_MAX {
        let mut own = BytesMut::with_capacity(room);
        write(&mut own)?;
        return Ok(show(&own));
    }
    CHUNK_OF_LOOP.with_borrow_mut(|chunk| {
        if chunk.capacity() < room {
            chunk.reserve(room.max(CHUNK));
        }
        let result = write(chunk).map(|()| show(chunk));
        chunk.clear();
        result
    })
}
