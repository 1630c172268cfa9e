//! The one buffer into which a loop reads all its sockets.
//!
//! ```text
//!   [ piece handed on | free …………………………… ]   read: fill from the front of what is free, split off what came
//!   [ free ………………………………………………………… ]   next read: nobody kept the piece, so its room is free again
//! ```
//!
//! An idle connection holds no buffer at all: bytes are read into the loop's, and only what a handler keeps stays in use.
//! When pieces are kept and the room runs short, the loop takes a fresh buffer and leaves the old one to them.

use bytes::BytesMut;
use std::{cell::RefCell, io, rc::Rc};

/// One read takes at most this much: as much as a socket buffer usually holds.
const SCRATCH_LEN: usize = 64 * 1024;
/// With less room than this left, a fresh buffer is better than a short read.
const ROOM_MIN: usize = 16 * 1024;

/// A loop's read buffer.
pub(crate) struct Scratch {
    buffer: RefCell<BytesMut>,
}

thread_local! {
    static SCRATCH: RefCell<Option<Rc<Scratch>>> = const { RefCell::new(None) };
}

/// The read buffer of this thread's loop.
pub(crate) fn scratch() -> Rc<Scratch> {
    SCRATCH.with_borrow_mut(|scratch| scratch.get_or_insert_with(|| Rc::new(Scratch::new())).clone())
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { buffer: RefCell::new(BytesMut::new()) }
    }

    /// Calls `read` with the free room and splits off what it filled. Also tells how much room there was: a read that did
    /// not fill it has emptied the socket.
    #[inline(always)] // the system call in it too: see `return_stack`
    pub(crate) fn fill(
        &self,
        read: impl FnOnce(&mut [std::mem::MaybeUninit<u8>]) -> io::Result<usize>,
    ) -> io::Result<(BytesMut, usize)> {
        let mut buffer = self.buffer.borrow_mut();
        if !buffer.try_reclaim(SCRATCH_LEN) && buffer.capacity() < ROOM_MIN {
            *buffer = BytesMut::with_capacity(SCRATCH_LEN);
        }
        let room = buffer.spare_capacity_mut();
        let len = room.len();
        let filled = read(room)?;
        assert!(filled <= len, "the system reported {filled} bytes for {len} bytes of room");
        initialised(&mut buffer, filled);
        Ok((buffer.split(), len))
    }
}

#[allow(unsafe_code)]
fn initialised(buffer: &mut BytesMut, filled: usize) {
    // SAFETY: `fill` alone calls this, with an empty buffer and right after the system wrote `filled` bytes to the start
    // of its spare capacity, of which there were at least as many. A reader that only pretends to have written can be
    // ruled out: the only readers are `recv` and `read` calls in this crate.
    unsafe { buffer.set_len(filled) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(scratch: &Scratch, bytes: &[u8]) -> (BytesMut, usize) {
        scratch
            .fill(|room| {
                for (place, byte) in room.iter_mut().zip(bytes) {
                    place.write(*byte);
                }
                Ok(bytes.len())
            })
            .unwrap()
    }

    #[test]
    fn room_is_taken_back_when_nobody_kept_a_piece() {
        let scratch = Scratch::new();
        for _ in 0..1000 {
            let (piece, room) = fill(&scratch, b"hello");
            assert_eq!((&piece[..], room), (&b"hello"[..], SCRATCH_LEN));
        }
    }

    #[test]
    fn a_piece_that_is_kept_stays_as_it_is_and_a_fresh_buffer_comes_in_time() {
        let scratch = Scratch::new();
        let kept: Vec<_> = (0..20u8).map(|n| fill(&scratch, &[n; 10_000]).0).collect();
        for (n, piece) in kept.iter().enumerate() {
            assert!(piece.iter().all(|&byte| usize::from(byte) == n));
        }
    }

    #[test]
    fn a_failed_read_leaves_the_buffer_usable() {
        let scratch = Scratch::new();
        assert!(scratch.fill(|_| Err(io::ErrorKind::WouldBlock.into())).is_err());
        assert_eq!(fill(&scratch, b"x").0, "x");
    }
}
