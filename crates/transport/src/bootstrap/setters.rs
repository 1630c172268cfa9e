//! What the builders are told in the same words: that of servers, that of clients, and that of sockets for datagrams.

use super::Backend;
use crate::resolve::{Resolve, Resolver};
use netwright_core::EventLoopGroup;
use std::sync::Arc;

/// What each of them has beside the settings of its channels.
pub(super) struct Common {
    pub(super) group: Option<EventLoopGroup>,
    pub(super) backend: Backend,
    pub(super) resolver: Arc<dyn Resolve>,
}

impl Common {
    pub(super) fn new(backend: Backend) -> Self {
        Self { group: None, backend, resolver: Arc::new(Resolver::new()) }
    }
}

/// The setters of a builder that has a [`Common`] in its field `common`, and in its field `settings` those of its channels with their `host`
/// and `attributes`. What they are called and which defaults they have, its users are told in its own words.
macro_rules! channel_setters {
    ($channel:literal, loops: $loops:literal, backend: $backend:literal) => {
        #[doc = concat!("The loops that host the ", $channel, "s. Default: ", $loops, ".")]
        pub fn group(mut self, group: netwright_core::EventLoopGroup) -> Self {
            self.common.group = Some(group);
            self
        }

        #[doc = concat!("When a ", $channel, " is told that too much waits to be sent. Default: 32 and 64 KiB.")]
        pub fn water_marks(mut self, marks: netwright_core::WaterMarks) -> Self {
            self.settings.host.water_marks = marks;
            self
        }

        /// Whether reading pauses while more waits to be sent than the high water mark, if it was written in answer to what was
        /// read. Default: yes, so that a peer that sends and does not read cannot make us keep its answers. See
        /// [`HostSettings::hold_back`](netwright_core::HostSettings).
        pub fn hold_back(mut self, hold_back: bool) -> Self {
            self.settings.host.hold_back = hold_back;
            self
        }

        /// How long messages that nobody asks for are kept after the peer has gone. Default: a minute. Each message that is asked
        /// for counts anew.
        pub fn forsaken_after(mut self, time: std::time::Duration) -> Self {
            self.settings.host.forsaken_after = time;
            self
        }

        #[doc = concat!("Attaches a value to every ", $channel, ", one for each type; handlers find it with")]
        /// [`Channel::attribute`](netwright_core::Channel::attribute).
        pub fn attribute<T: Send + Sync + 'static>(mut self, value: T) -> Self {
            self.settings.attributes.set(value);
            self
        }

        #[doc = concat!("What waits for I/O in the loops that are made when no group is given. Default: ", $backend, ".")]
        pub fn backend(mut self, backend: $crate::Backend) -> Self {
            self.common.backend = backend;
            self
        }

        /// Who turns names into addresses.
        pub fn resolver(mut self, resolver: impl $crate::Resolve) -> Self {
            self.common.resolver = std::sync::Arc::new(resolver);
            self
        }
    };
}

/// The setters of a builder whose channels are connections: `settings` are [`ChannelSettings`](crate::stream::ChannelSettings), and it has `threads`
/// and `schemes` as well.
macro_rules! stream_setters {
    (loops: $loops:literal, threads: $threads:literal, cut_slow: $cut_slow:literal) => {
        $crate::bootstrap::setters::channel_setters!("connection", loops: $loops, backend: "[`Backend::Auto`]");

        #[doc = $threads]
        #[cfg(feature = "blocking")]
        pub fn thread_per_channel(mut self, threads: $crate::ThreadPerChannel) -> Self {
            self.threads = Some(threads);
            self
        }

        /// Options of the connections.
        pub fn options(mut self, options: $crate::StreamOptions) -> Self {
            self.settings.options = options;
            self
        }

        /// Whether connections read by themselves. Default: yes. If not, nothing is read before somebody asks (`Context::request`).
        /// Async last stages ask when they want a message; handlers and applications have to ask themselves, and stock ones that
        /// answer everything, such as a closure of HTTP or files, leave that to a stage in front of them.
        pub fn auto_read(mut self, auto: bool) -> Self {
            self.settings.host.auto_read = auto;
            self
        }

        /// How fast a peer has to take what waits for it. Who does not is cut with
        #[doc = concat!("[`CloseCause::TooSlow`](netwright_core::CloseCause::TooSlow)", $cut_slow, ".")]
        /// Default: [`LeastRate::default`](netwright_core::LeastRate::default); `None`: a peer may keep what waits for it
        /// waiting for ever.
        pub fn least_rate(mut self, rate: impl Into<Option<netwright_core::LeastRate>>) -> Self {
            self.settings.host.least_rate = rate.into();
            self
        }

        /// Whether a connection lives on when its peer sends no more, whatever its stages say. Default: as they
        /// [say](netwright_core::Handler::half_closure), and it ends if none needs to hear of it.
        pub fn half_closure(mut self, allowed: bool) -> Self {
            self.settings.host.half_closure = Some(allowed);
            self
        }

        /// Lets Unix sockets receive descriptors that the peer sends along: up to `max` wait in
        /// [`ReceivedDescriptors`](crate::ReceivedDescriptors), an attribute of the channel, until they are taken; more end the
        /// connection. Default: 0, and what a peer sends is closed at once.
        #[cfg(unix)]
        pub fn receive_descriptors(mut self, max: usize) -> Self {
            self.settings.descriptors = max;
            self
        }

        /// A transport of one's own: addresses that begin with `scheme:` are found by it. See [`open`](crate::open).
        pub fn scheme(mut self, scheme: impl AsRef<str>, transport: impl $crate::open::Transport) -> Self {
            self.schemes.add(scheme.as_ref(), transport);
            self
        }
    };
}

pub(super) use {channel_setters, stream_setters};
