//! What is written, gathered until the flush.
//!
//! Always true:
//! 1. Frames leave in the order in which they came, each in one go.
//! 2. A frame that somebody tracks begins a piece of its own; a short one is a piece of its own, and can be cancelled.
//! 3. A connection holds a buffer from its first write to its flush. In between that is room of the thread, which all its
//!    connections use one after the other: an idle connection holds none, and short answers allocate nothing in steady state.

use crate::{
    frame::{FrameHead, Opcode},
    mask::mask,
};
use bytes::{Bytes, BytesMut};
use netwright_core::{Context, Handler, WritePromise};
use std::cell::RefCell;

/// Payloads up to this length are copied together; longer ones pass as they are.
const GATHER_MAX: usize = 4096;
/// Room that the connections of a thread share. What a slow peer has not taken keeps this much of it at most.
const ROOM: usize = 16 * 1024;
const _: () = assert!(ROOM >= 2 * GATHER_MAX);

thread_local! {
    /// Taken by whoever writes first, and given back at its flush; taken again as a whole when all that was cut off is sent.
    static SHARED: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// A frame to be written.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) opcode: Opcode,
    pub(crate) compressed: bool,
    pub(crate) payload: Bytes,
    /// The mask, if we are a client.
    pub(crate) mask: Option<[u8; 4]>,
}

/// Frames that wait for the flush.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    buffer: BytesMut,
    written: u64,
}

impl Gather {
    /// How many bytes of frames it was given.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Takes a frame.
    #[inline]
    pub(crate) fn write<H>(&mut self, cx: &mut Context<'_, H>, frame: Frame, mut done: WritePromise)
    where
        H: Handler<WriteOut = Bytes>,
    {
        let Frame { opcode, compressed, payload, mask: key } = frame;
        let head = FrameHead { fin: true, compressed, opcode, len: payload.len() as u64, mask: key };
        let (head, head_len) = head.bytes();
        let tracked = done.is_tracked();
        if tracked {
            self.pass_on(cx);
        }
        let len = head_len + payload.len();
        self.written += len as u64;
        if payload.len() <= GATHER_MAX {
            self.make_room(len);
            self.buffer.extend_from_slice(&head[..head_len]);
            let at = self.buffer.len();
            self.buffer.extend_from_slice(&payload);
            if let Some(key) = key {
                mask(&mut self.buffer[at..], key);
            }
            if tracked {
                let frame = self.take();
                cx.write_with(frame, done);
            } else if self.buffer.len() >= GATHER_MAX {
                self.pass_on(cx); // so that the channel knows what waits to be sent
            }
            return;
        }
        if !done.claim() {
            return; // cancelled already; from here on it cannot be, because it leaves in two pieces
        }
        self.make_room(head_len);
        self.buffer.extend_from_slice(&head[..head_len]);
        self.pass_on(cx);
        let payload = match key {
            None => payload,
            Some(key) => {
                let mut own = payload.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                mask(&mut own, key);
                own.freeze()
            }
        };
        cx.write_with(payload, done);
    }

    /// Passes on what was gathered.
    #[inline]
    pub(crate) fn pass_on<H>(&mut self, cx: &mut Context<'_, H>)
    where
        H: Handler<WriteOut = Bytes>,
    {
        if !self.buffer.is_empty() {
            let batch = self.take();
            cx.write(batch);
        }
    }

    #[inline]
    fn make_room(&mut self, len: usize) {
        if self.buffer.is_empty() {
            self.buffer = SHARED.take();
        }
        if self.buffer.capacity() - self.buffer.len() < len {
            self.buffer.reserve(ROOM);
        }
    }

    fn take(&mut self) -> Bytes {
        let batch = self.buffer.split().freeze();
        let rest = std::mem::take(&mut self.buffer);
        SHARED.with_borrow_mut(|shared| {
            if shared.capacity() <= rest.capacity() {
                *shared = rest;
            }
        });
        batch
    }
}
