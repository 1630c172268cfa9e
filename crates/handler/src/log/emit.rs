//! Events of `tracing` whose level is known when the program runs: the macros want it when it is compiled.

use super::Direction;
use netwright_core::{Address, ChannelId, CloseCause, Fault, internal::catch};
use std::fmt::Display;
use tracing::Level;

/// An event with this level. A receiver that panics does so for itself.
macro_rules! event {
    ($level:expr, $($what:tt)+) => {
        drop(catch(|| match $level {
            Level::ERROR => tracing::error!($($what)+),
            Level::WARN => tracing::warn!($($what)+),
            Level::INFO => tracing::info!($($what)+),
            Level::DEBUG => tracing::debug!($($what)+),
            Level::TRACE => tracing::trace!($($what)+),
        }))
    };
}
pub(super) use event;

/// Tells of one channel.
pub(super) struct Emit {
    level: Level,
    channel: ChannelId,
}

impl Emit {
    pub(super) fn new(level: Level, channel: ChannelId) -> Self {
        Self { level, channel }
    }

    #[cold]
    pub(super) fn began(&self, local: Option<&Address>, peer: Option<&Address>) {
        let Self { level, channel } = *self;
        let (local, peer) = (local.map(display), peer.map(display));
        event!(level, %channel, local, peer, "active");
    }

    #[cold]
    pub(super) fn input_closed(&self) {
        let Self { level, channel } = *self;
        event!(level, %channel, "input closed");
    }

    #[cold]
    pub(super) fn error(&self, fault: &Fault) {
        let Self { level, channel } = *self;
        event!(level, %channel, error = %fault, "error");
    }

    #[cold]
    pub(super) fn ended(&self, cause: &CloseCause) {
        let Self { level, channel } = *self;
        event!(level, %channel, %cause, "inactive");
    }

    pub(super) fn length(&self, direction: Direction, len: u64) {
        let Self { level, channel } = *self;
        match direction {
            Direction::Read => event!(level, %channel, len, "read"),
            Direction::Write => event!(level, %channel, len, "write"),
        }
    }

    /// Of what is not shown, because it could not be covered or written.
    #[cold]
    pub(super) fn omitted(&self, direction: Direction, len: Option<u64>) {
        let Self { level, channel } = *self;
        match direction {
            Direction::Read => event!(level, %channel, len, "read, and not shown: what shows it panicked"),
            Direction::Write => event!(level, %channel, len, "write, and not shown: what shows it panicked"),
        }
    }

    pub(super) fn dump(&self, direction: Direction, len: u64, bytes: &str) {
        let Self { level, channel } = *self;
        match direction {
            Direction::Read => event!(level, %channel, len, %bytes, "read"),
            Direction::Write => event!(level, %channel, len, %bytes, "write"),
        }
    }

    pub(super) fn text(&self, direction: Direction, len: u64, text: &str) {
        let Self { level, channel } = *self;
        match direction {
            Direction::Read => event!(level, %channel, len, %text, "read"),
            Direction::Write => event!(level, %channel, len, %text, "write"),
        }
    }

    pub(super) fn message(&self, direction: Direction, shown: &str) {
        let Self { level, channel } = *self;
        match direction {
            Direction::Read => event!(level, %channel, %shown, "read"),
            Direction::Write => event!(level, %channel, %shown, "write"),
        }
    }
}

fn display(value: &impl Display) -> tracing::field::DisplayValue<&dyn Display> {
    tracing::field::display(value as &dyn Display)
}
