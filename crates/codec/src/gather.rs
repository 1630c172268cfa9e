//! What is written, gathered until the flush.
//!
//! ```text
//!   write "a"  write "b"  write <large>   write "c" (tracked)    flush
//!   [a\n b\n]────────────▶[<large>] [\n]─▶[c\n]                   everything is passed on by now
//! ```
//! Always true:
//! 1. Messages leave in the order in which they came.
//! 2. A message that somebody tracks is a piece of its own: it can be cancelled as a whole, and takes nobody with it.
//! 3. Between flushes of small batches a buffer of at most [`KEEP_MAX`] bytes is kept, so that small answers allocate
//!    nothing in steady state; after larger ones none is.

use bytes::{Bytes, BytesMut};
use netwright_core::{Context, Handler, WritePromise};

/// Messages up to this length are copied together; longer ones pass as they are. Copying 4 KiB costs less than a piece
/// more in the queue and in the system call.
pub(crate) const GATHER_MAX: usize = 4096;
/// A batch up to this length leaves its buffer for the next one: an idle connection may keep that much.
const KEEP_MAX: usize = 512;
/// Room for some short messages at once.
const ROOM_MIN: usize = 128;

/// Small messages on their way to the wire, in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    buffer: BytesMut,
}

impl Gather {
    /// Writes a message and what ends it.
    pub(crate) fn write<H>(
        &mut self,
        cx: &mut Context<'_, H>,
        message: Bytes,
        end: &'static [u8],
        done: WritePromise,
    ) where
        H: Handler<WriteOut = Bytes>,
    {
        if done.is_tracked() {
            self.pass_on(cx);
            return cx.write_with(ended(message, end), done);
        }
        if message.len() > GATHER_MAX {
            self.pass_on(cx);
            cx.write(message);
            return self.buffer.extend_from_slice(end);
        }
        let room = message.len() + end.len();
        if self.buffer.capacity() - self.buffer.len() < room {
            self.buffer.reserve(room.max(ROOM_MIN));
        }
        self.buffer.extend_from_slice(&message);
        self.buffer.extend_from_slice(end);
        if self.buffer.len() >= GATHER_MAX {
            self.pass_on(cx); // so that the channel knows what waits to be sent
        }
    }

    /// Passes on what was gathered.
    pub(crate) fn pass_on<H: Handler<WriteOut = Bytes>>(&mut self, cx: &mut Context<'_, H>) {
        if self.buffer.is_empty() {
            return;
        }
        let batch = self.buffer.split().freeze();
        if batch.len() > KEEP_MAX {
            self.buffer = BytesMut::new();
        }
        cx.write(batch);
    }
}

/// The message and its end as one piece, in the message's own buffer if nobody else uses that.
fn ended(message: Bytes, end: &[u8]) -> Bytes {
    let mut piece = message.try_into_mut().unwrap_or_else(|shared| {
        let mut copy = BytesMut::with_capacity(shared.len() + end.len());
        copy.extend_from_slice(&shared);
        copy
    });
    piece.extend_from_slice(end);
    piece.freeze()
}
