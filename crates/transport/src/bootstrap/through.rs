//! Through what a server listens at an address, or a client connects to it.

use crate::open::{Means, Substitute};
use netwright_core::LocalLoop;

#[derive(Clone)]
pub(super) enum Through {
    /// Sockets of the system.
    Sockets,
    /// The network that stands in for them on these loops.
    Network(Substitute),
    /// A transport that was found by the scheme of the address.
    Transport(Means),
}

impl Through {
    /// What a loop has for hosts, ports and Unix sockets.
    pub(super) fn sockets_of(local: &LocalLoop) -> Self {
        Substitute::of(local).map_or(Self::Sockets, Self::Network)
    }

    /// That of the calling thread's loop.
    pub(super) fn sockets_here() -> Self {
        LocalLoop::current().map_or(Self::Sockets, |local| Self::sockets_of(&local))
    }
}
