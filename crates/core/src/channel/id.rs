//! The number of a channel.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// A channel's number, unique in this process.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let (one, other) = (EmbeddedChannel::new(pipeline().handle(|_, _| {})), EmbeddedChannel::new(pipeline().handle(|_, _| {})));
/// assert_ne!(one.channel().id(), other.channel().id());
/// assert!(one.channel().id().to_string().starts_with('#')); // for logs
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(u64);

impl ChannelId {
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}
