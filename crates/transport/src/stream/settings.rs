//! How a channel behaves.

use crate::{
    attributes::Attributes,
    options::{OptionError, StreamOptions},
};
use netwright_core::HostSettings;
use socket2::Domain;

/// What servers and clients set up for each of their channels.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChannelSettings {
    pub(crate) host: HostSettings,
    pub(crate) options: StreamOptions,
    /// How many seconds a close waits for the peer: our own affair, not one of the options that sockets are given.
    pub(crate) linger: u16,
    /// How many descriptors of a Unix socket's peer may wait to be taken; none: they are not received.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub(crate) descriptors: usize,
    /// What every channel has attached from the start.
    pub(crate) attributes: Attributes,
}

impl ChannelSettings {
    /// The same for channels of loops, which are not to block in a close: the waiting is taken out of the options.
    pub(crate) fn for_loops(&self) -> Self {
        let mut settings = self.clone();
        settings.linger = settings.options.take_waiting_linger();
        settings
    }

    /// Whether connections of any family can be set up like this.
    pub(crate) fn check(&self) -> Result<(), OptionError> {
        let v4 = self.options.check(Domain::IPV4);
        v4.or_else(|error| self.options.check(Domain::IPV6).map_err(|_| error))
    }
}
