//! Whom a listener tells what it does, on its loop.

use crate::stream::Carried;
use netwright_core::Address;
use std::{io, time::Duration};

/// What became of a connection that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Welcome {
    /// It is on its way to its loop.
    In,
    /// It was refused on the spot.
    SentAway,
}

/// The far side of a listener: what becomes of connections, and who hears of the rest. Dropped with its listener, when
/// the socket is closed.
pub(crate) trait Reception {
    /// A connection has been accepted.
    fn accepted(&mut self, connection: Carried, peer: Address) -> Welcome;

    /// Asked before each accept: how long the next one has to wait, if it has to.
    fn pace(&mut self) -> Option<Duration>;

    /// A peer was refused, because no descriptor is left.
    fn refused(&mut self, peer: Address);

    /// Accepting failed. `pause`: how long it rests for that reason; none if it concerned one connection.
    fn failed(&mut self, error: &io::Error, pause: Option<Duration>);

    /// The socket has ceased to listen, and its listener closes.
    fn broken(&mut self, error: io::Error);

    /// The loop was asked to end, and the listener closes.
    fn loop_ends(&mut self);

    /// Whether other listeners accept from the same socket, so that it may not be shut down with this one.
    #[cfg(all(target_os = "linux", feature = "uring"))] // io_uring alone shuts a socket down
    fn shares_socket(&self) -> bool;
}
