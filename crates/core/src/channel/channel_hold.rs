//! A reason of somebody outside of a channel to have nothing delivered in it.
//!
//! Always true: a guard takes one hold, and gives it back once; both are commands, in order with all others that one thread asks for.

use super::{Channel, Outgoing};
use std::fmt;

/// Keeps messages of a channel from being delivered until it is dropped: [`Channel::hold`], [`Peer::hold`](crate::Peer::hold).
#[must_use = "delivery goes on when this is dropped"]
pub struct ChannelHold<W: 'static = Outgoing> {
    channel: Channel<W>,
}

impl<W: 'static> ChannelHold<W> {
    pub(super) fn of(channel: Channel<W>) -> Self {
        channel.take_hold();
        Self { channel }
    }
}

impl<W: 'static> Drop for ChannelHold<W> {
    fn drop(&mut self) {
        self.channel.let_go();
    }
}

impl<W: 'static> fmt::Debug for ChannelHold<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelHold").field("channel", &self.channel.id()).finish()
    }
}
