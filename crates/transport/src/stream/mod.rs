//! Byte streams: one channel for all of them, whatever carries the bytes.
//!
//! ```text
//!   Carried ──adopt, on its loop──▶ StreamChannel<S> ── host: pipeline, outbound queue
//!                                       │
//!                                       └─ S: Stream ── SocketStream        TCP and Unix, by readiness
//!                                                    ── UringStream         TCP, by io_uring
//!                                                    ── Box<dyn Stream>     whatever comes by `open`: within the process, pipes …
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `channel` | when to read, send and close: the rules of design and behaviour, written once |
//! | `share` | how much one channel reads before others get their turn |
//! | `settings` | how a channel behaves |
//! | `carrier` | the line between what is compiled here and what in a user's crate |
//! | `adopt` | from a connection to its channel |
//! | `pace` | a peer that does not take what waits for it |
//! | `linger` | a close that waits for the peer |
//! | `file` | files for streams that carry bytes only, and those that cannot be sent |
//! | `envelope` | what is more than bytes, on streams that carry bytes only |
//!
//! Not here: how bytes are moved (each [`Stream`] in its own folder), how connections come about (`bootstrap`).

mod adopt;
mod carrier;
mod channel;
mod envelope;
mod file;
mod linger;
mod pace;
#[cfg(test)]
mod scripted_tests;
mod settings;
mod share;

pub(crate) use adopt::{Adoption, Carried, adopt, adopt_kin};
pub(crate) use carrier::Carrier;
#[cfg(test)]
pub(crate) use carrier::carrier;
pub(crate) use channel::StreamChannel;
pub use envelope::EnvelopeError;
pub(crate) use envelope::open_envelope;
pub(crate) use file::fail_file;
pub use file::next_bytes;
#[cfg(feature = "local")]
pub(crate) use file::read_file;
pub(crate) use settings::ChannelSettings;

use bytes::BytesMut;
use netwright_core::{CloseCause, Outbound, driver::Ready};
use std::io;

/// What carries the bytes of one channel. Lives on the channel's loop; dropping it deregisters and closes.
///
/// Four methods have to be there; the others are for streams that can do more. A stream is told of by events under its channel's
/// [token](crate::open::Connection::open), from a descriptor that is registered under it, or is called, and says itself what there is
/// ([`look`](Self::look)). What must be true of it: see [`open`](crate::open).
///
/// ```text
///   event, or a call and `look` ─▶ receive … until it says that there is no more, or the channel's share of the turn is spent
///                                ─▶ send, behind each flush; again when an event says WRITE
///                                ─▶ settle, when the channel has done all it could
///   nobody reads, and the peer is going ─▶ has_ended
///   the channel closes ─▶ close_later, or the drop
/// ```
pub trait Stream: 'static {
    /// The next bytes that have arrived; none at all: the peer sends no more. It is not asked again then.
    ///
    /// # Errors
    /// `WouldBlock`: nothing yet, and an event or a call will tell. `Interrupted`: is tried again. Anything else ends the channel.
    fn receive(&mut self) -> io::Result<Received>;

    /// Whether the peer has gone and nothing is left to be read. Asked while nobody reads, after an event said that the
    /// peer is going ([`Ready::READ_CLOSED`] or [`Ready::ERROR`]). Takes nothing of what is there.
    ///
    /// # Errors
    /// `WouldBlock`: not yet. Anything else ends the channel.
    fn has_ended(&mut self) -> io::Result<bool>;

    /// Sends what is flushed, as far as it is taken now, and takes that out of the queue. The queue has bytes, files and envelopes:
    /// [`next_bytes`] makes bytes of all of them. Also called when nothing is flushed, and behind the end of the output, when nothing can be.
    ///
    /// # Errors
    /// The connection is broken. What had arrived before is read, then the channel ends.
    fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote>;

    /// The peer is told that no more will come. Reading goes on.
    ///
    /// # Errors
    /// Whoever asked for it is told; the channel lives on.
    fn shut_down_output(&mut self) -> io::Result<()>;

    /// An error that no read will find. Asked after an event with [`Ready::ERROR`], when the input has ended.
    fn take_error(&mut self) -> Option<io::Error> {
        None
    }

    // ---- for streams whose sends end later ----

    /// There is news of a send that was under way: what was taken leaves the queue. A close that waited for it is due.
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    fn sent(&mut self, outbound: &mut Outbound) -> io::Result<Option<CloseCause>> {
        let _ = outbound;
        Ok(None)
    }

    /// The channel is to be closed. While a send is under way the stream may keep the cause: what the peer's system takes
    /// at once still goes out, then [`sent`](Self::sent) gives the cause back.
    ///
    /// # Errors
    /// The cause: close now.
    fn close_later(&mut self, cause: CloseCause) -> Result<(), CloseCause> {
        Err(cause)
    }

    /// Whether what is being sent ([`Wrote::Sending`]) waits for the peer to take something. Asked after an event or a call, which
    /// tell of the change. Default: no.
    fn waits_for_peer(&self) -> bool {
        false
    }

    /// Whether bytes that the system has may come in a later turn: `receive` does not ask the system.
    fn brings_later(&self) -> bool {
        false
    }

    /// Whether the two ways end one by one, as those of two pipes do: an [error](Self::take_error) of the output behind the end of the
    /// input is the peer's other end, and no loss unless something waits to be sent.
    fn ends_one_by_one(&self) -> bool {
        false
    }

    /// Whether a close waits.
    fn is_closing(&self) -> bool {
        false
    }

    // ---- for streams whose close may wait for the peer ----

    /// How much of what was sent, and of our end, the peer's system has not acknowledged.
    ///
    /// # Errors
    /// It cannot be told: the close does not wait.
    fn unacknowledged(&mut self) -> io::Result<usize> {
        Ok(0)
    }

    /// How much of what was taken by [`send`](Self::send) has not left for the peer's system, if that can be told.
    fn on_its_way(&mut self) -> Option<usize> {
        None
    }

    /// From now on the close is a reset, if there is such a thing.
    fn reset_on_close(&mut self) {}

    // ---- for streams that are not edge-triggered ----

    /// The loop called without an event of its driver: what is there by other means? Also called when the channel was called for
    /// reasons of its own: nothing may be new.
    fn look(&mut self) -> Ready {
        Ready::NONE
    }

    /// The channel has done all it could: whether it wants bytes, and whether it waits for room to send. Who registered a descriptor
    /// passes it on to [`Readiness::set_interest`](crate::Readiness::set_interest), or a level-triggered loop does not come to rest.
    fn settle(&mut self, wants_read: bool, waits_for_room: bool) {
        let _ = (wants_read, waits_for_room);
    }
}

/// What one [`Stream::receive`] brought.
#[derive(Debug)]
pub struct Received {
    /// None at all: the peer sends no more.
    pub bytes: BytesMut,
    /// Whether there may be more right now. If not, the next event tells.
    pub more: bool,
}

/// How far a [`Stream::send`] got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrote {
    /// Nothing flushed is left.
    All,
    /// The peer has no room for more; an event with [`Ready::WRITE`] tells when it has.
    Blocked,
    /// What was flushed has been handed over, and is being sent; an event with [`Ready::WRITE`] tells when that has ended, and
    /// [`sent`](Stream::sent) is asked what became of it.
    Sending,
    /// There is more to send and it might be taken, but it is others' turn.
    Enough,
}

/// A stream whose kind is not known here: whatever comes by [`open`](crate::open).
impl Stream for Box<dyn Stream> {
    fn receive(&mut self) -> io::Result<Received> {
        (**self).receive()
    }
    fn has_ended(&mut self) -> io::Result<bool> {
        (**self).has_ended()
    }
    fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
        (**self).send(outbound)
    }
    fn shut_down_output(&mut self) -> io::Result<()> {
        (**self).shut_down_output()
    }
    fn take_error(&mut self) -> Option<io::Error> {
        (**self).take_error()
    }
    fn sent(&mut self, outbound: &mut Outbound) -> io::Result<Option<CloseCause>> {
        (**self).sent(outbound)
    }
    fn close_later(&mut self, cause: CloseCause) -> Result<(), CloseCause> {
        (**self).close_later(cause)
    }
    fn brings_later(&self) -> bool {
        (**self).brings_later()
    }
    fn ends_one_by_one(&self) -> bool {
        (**self).ends_one_by_one()
    }
    fn is_closing(&self) -> bool {
        (**self).is_closing()
    }
    fn unacknowledged(&mut self) -> io::Result<usize> {
        (**self).unacknowledged()
    }
    fn on_its_way(&mut self) -> Option<usize> {
        (**self).on_its_way()
    }
    fn reset_on_close(&mut self) {
        (**self).reset_on_close();
    }
    fn waits_for_peer(&self) -> bool {
        (**self).waits_for_peer()
    }
    fn look(&mut self) -> Ready {
        (**self).look()
    }
    fn settle(&mut self, wants_read: bool, waits_for_room: bool) {
        (**self).settle(wants_read, waits_for_room);
    }
}
