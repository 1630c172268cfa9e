//! Where connections come in.

use super::Arrival;
use netwright_core::{Address, LocalLoop, driver::Token};
use std::{io, sync::Arc};

/// A place that is listened at, for as long as anybody holds it: loops that accept hold it by their [`Acceptor`]s.
///
/// Connections that have come and were not accepted are refused when it is dropped.
pub trait Listener: Send + Sync + 'static {
    /// Where it listens, such that clients can connect to it. May be more than what was asked for: a port that was free.
    fn address(&self) -> Address;

    /// A loop accepts from now on: called on it. `token` is that of the listener there: what is registered with the loop's driver is
    /// registered under it, and [`LocalLoop::caller`] of it is whom other threads call. Who came before is found by a first call, which
    /// need not be made.
    ///
    /// Several loops may attend at the same time. Each connection goes to one of them, whichever; one that leaves (its
    /// `Acceptor` is dropped) leaves those that it was told of to the others.
    ///
    /// # Errors
    /// The loop cannot accept here, for example because it has no [`Readiness`](crate::Readiness).
    fn attend(self: Arc<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Acceptor>>;
}

/// One loop's place at a [`Listener`]. Dropped when that loop accepts no more.
pub trait Acceptor: 'static {
    /// The connection that has waited longest.
    ///
    /// # Errors
    /// `WouldBlock`: nobody waits, and the token is told of the next. `Interrupted`: is tried again. What the system says of one
    /// connection (`ConnectionAborted` …) costs that one; what says that nobody can come any more (`EINVAL`, `EBADF` of sockets) ends
    /// the listener. After any other error, such as a lack of descriptors, accepting rests for a second, and one who waits is refused.
    fn accept(&mut self) -> io::Result<Arrival>;

    /// The loop has done all it could. Whether it accepts at the moment: level-triggered drivers are told by it
    /// ([`Readiness::set_interest`](crate::Readiness::set_interest)).
    fn settle(&mut self, accepts: bool) {
        let _ = accepts;
    }
}
