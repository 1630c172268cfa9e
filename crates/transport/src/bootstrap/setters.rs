//! What the builders are told in the same words: that of servers, that of clients, and that of sockets for datagrams.

use super::Backend;
use crate::{
    blocking::ThreadPerChannel,
    resolve::{Resolve, Resolver},
};
use netwright_core::{BuildError, EventLoopGroup};
use std::sync::Arc;

/// What each of them has beside the settings of its channels.
pub(super) struct Common {
    pub(super) group: Option<EventLoopGroup>,
    pub(super) making: Making,
    pub(super) resolver: Arc<dyn Resolve>,
}

impl Common {
    pub(super) fn new(backend: Backend) -> Self {
        Self { group: None, making: Making::by_default(backend), resolver: Arc::new(Resolver::new()) }
    }
}

/// How loops are made when no group is given. By pointers, so that a program that chooses no backend has no code of those that nobody
/// gets without choosing.
#[derive(Clone, Copy)]
pub(super) struct Making {
    pub(super) backend: Backend,
    loops: fn(Backend, usize) -> Result<EventLoopGroup, BuildError>,
    /// A thread for each channel, if the backend means that.
    threads: Option<fn() -> ThreadPerChannel>,
}

impl Making {
    fn by_default(backend: Backend) -> Self {
        Self { backend, loops: Backend::polling_loops, threads: None }
    }

    pub(super) fn chosen(backend: Backend) -> Self {
        Self {
            backend,
            loops: Backend::event_loops,
            #[cfg(feature = "blocking")]
            threads: (backend == Backend::Blocking).then_some(ThreadPerChannel::new),
            #[cfg(not(feature = "blocking"))]
            threads: None,
        }
    }

    pub(super) fn threads(&self) -> Option<ThreadPerChannel> {
        self.threads.map(|make| make())
    }

    pub(super) fn loops(&self, loops: usize) -> Result<EventLoopGroup, BuildError> {
        (self.loops)(self.backend, loops)
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

        #[doc = concat!("Backpressure: with more bytes than the high mark waiting to be sent, a ", $channel, " is not writable, until they are fewer than the low mark.")]
        /// Default: 32 and 64 KiB.
        #[doc(alias = "backpressure")]
        pub fn water_marks(mut self, marks: netwright_core::WaterMarks) -> Self {
            self.settings.host.water_marks = marks;
            self
        }

        /// Whether reading pauses while more answers than the high water mark wait to be sent. Answers are what is written in
        /// reaction to what was read. Default: yes, so that a peer that sends without reading cannot make us buffer its answers. See
        /// [`HostSettings::hold_back`](netwright_core::HostSettings).
        pub fn hold_back(mut self, hold_back: bool) -> Self {
            self.settings.host.hold_back = hold_back;
            self
        }

        /// How long messages that were read are kept after the end of the connection while the application does not ask for them.
        /// Default: a minute, which starts again with each message that it asks for. Where the peer's end of input is the channel's end, the peer has
        /// as long to take the answers that are left, however steadily it does.
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
            self.common.making = $crate::bootstrap::setters::Making::chosen(backend);
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

        /// Whether connections begin to read by themselves. Default: yes. If not, nothing is read before a stage asks for it (`Context::request`,
        /// `Context::resume`). Async functions ask by reading. Handlers and applications have to ask themselves. Ready-made last
        /// stages, such as those that answer HTTP requests, do not ask: put a stage in front of them that does.
        pub fn auto_read(mut self, auto: bool) -> Self {
            self.settings.host.auto_read = auto;
            self
        }

        /// How fast a peer has to take what waits to be sent to it. The connection of a slower peer is closed with
        #[doc = concat!("[`CloseCause::TooSlow`](netwright_core::CloseCause::TooSlow)", $cut_slow, ".")]
        /// Default: [`LeastRate::default`](netwright_core::LeastRate::default). `None` sets no limit.
        #[doc(alias = "timeout")]
        pub fn least_rate(mut self, rate: impl Into<Option<netwright_core::LeastRate>>) -> Self {
            self.settings.host.least_rate = rate.into();
            self
        }

        /// Whether a connection stays open when its peer sends no more; overrules the stages. Default: the stages
        /// [decide](netwright_core::Handler::half_closure), and the connection ends if none of them still needs it.
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
