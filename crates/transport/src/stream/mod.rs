//! Byte streams: one channel for all of them, whatever carries the bytes.
//!
//! ```text
//!   Connection ──adopt, on its loop──▶ StreamChannel<S, P, W> ── host: pipeline, outbound queue
//!                                          │
//!                                          └─ S: Stream ── SocketStream    TCP and Unix, by readiness
//!                                                       ── LocalStream     within the process
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `channel` | when to read, send and close: the rules of design and behaviour, written once |
//! | `share` | how much one channel reads before others get their turn |
//! | `settings` | how a channel behaves |
//! | `adopt` | from a connection to its channel |
//! | `pace` | a peer that does not take what waits for it |
//! | `linger` | a close that waits for the peer |
//! | `file` | files that cannot be sent |
//! | `envelope` | what is more than bytes, on streams that carry bytes only |
//!
//! Not here: how bytes are moved (each [`Stream`] in its own folder), how connections come about (`bootstrap`).

mod adopt;
mod channel;
mod envelope;
mod file;
mod linger;
mod pace;
#[cfg(test)]
mod scripted_tests;
mod settings;
mod share;

pub(crate) use adopt::{Adoption, Connection, adopt};
pub use envelope::EnvelopeError;
pub(crate) use envelope::open_envelope;
pub(crate) use file::fail_file;
pub(crate) use settings::ChannelSettings;

use bytes::BytesMut;
use netwright_core::{CloseCause, Outbound, driver::Ready};
use std::io;

/// What carries the bytes of one channel. Lives on the channel's loop; dropping it deregisters and closes.
pub(crate) trait Stream: 'static {
    /// The next bytes that have arrived. `WouldBlock`: nothing yet, and an event will tell.
    fn receive(&mut self) -> io::Result<Received>;

    /// Whether the peer has gone and nothing is left to be read. Asked while nobody reads, after an event said that the
    /// peer is going.
    fn has_ended(&mut self) -> io::Result<bool>;

    /// Sends what is flushed, as far as it is taken now.
    fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote>;

    /// The peer is told that no more will come.
    fn shut_down_output(&mut self) -> io::Result<()>;

    /// An error that no read will find.
    fn take_error(&mut self) -> Option<io::Error> {
        None
    }

    // ---- for streams whose sends end later ----

    /// There is news of a send that was under way: what was taken leaves the queue. A close that waited for it is due.
    fn sent(&mut self, outbound: &mut Outbound) -> io::Result<Option<CloseCause>> {
        let _ = outbound;
        Ok(None)
    }

    /// The channel is to be closed. While a send is under way the stream may keep the cause: what the peer's system takes
    /// at once still goes out, then [`sent`](Self::sent) gives the cause back. `Err`: close now.
    fn close_later(&mut self, cause: CloseCause) -> Result<(), CloseCause> {
        Err(cause)
    }

    /// Whether bytes that the system has may come in a later turn: `receive` does not ask the system.
    fn brings_later(&self) -> bool {
        false
    }

    /// Whether a close waits.
    fn is_closing(&self) -> bool {
        false
    }

    // ---- for streams whose close may wait for the peer ----

    /// How much of what was sent, and of our end, the peer's system has not acknowledged.
    fn unacknowledged(&mut self) -> io::Result<usize> {
        Ok(0)
    }

    /// How much of what was taken by [`send`](Self::send) has not left for the peer's system, if that can be told.
    fn on_its_way(&mut self) -> Option<usize> {
        None
    }

    /// From now on the close is a reset.
    fn reset_on_close(&mut self) {}

    // ---- for streams that are not edge-triggered ----

    /// The loop called without an event of its driver: what is there by other means?
    fn look(&mut self) -> Ready {
        Ready::NONE
    }

    /// The channel has done all it could: whether it wants bytes, and whether it waits for room to send.
    fn settle(&mut self, wants_read: bool, waits_for_room: bool) {
        let _ = (wants_read, waits_for_room);
    }
}

/// What one [`Stream::receive`] brought.
pub(crate) struct Received {
    /// None at all: the peer sends no more.
    pub(crate) bytes: BytesMut,
    /// Whether there may be more right now. If not, the next event tells.
    pub(crate) more: bool,
}

/// How far a [`Stream::send`] got.
pub(crate) enum Wrote {
    /// Nothing flushed is left.
    All,
    /// No more is taken for now; an event tells when.
    Blocked,
    /// There is more to send and it might be taken, but it is others' turn.
    Enough,
}
