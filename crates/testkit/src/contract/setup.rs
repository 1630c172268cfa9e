//! What a behaviour is shown on: a transport, in a reactor model.
//!
//! A transport from outside is a [`Subject`]. A further one of our own is a variant of [`Transport`] and an arm in each `match` on it
//! below; the compiler names them. One that carries bytes by other means than those of [`Carrier`] needs an arm in `support/peers.rs` as well.

use super::{Behaviour, Subject};
use netwright_core::{Address, EventLoopGroup};
use netwright_transport::{Backend, ClientBuilder, ServerBuilder};
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// What carries the bytes.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Transport {
    /// TCP by readiness (epoll).
    Readiness,
    /// TCP by io_uring.
    Uring,
    /// TCP by threads that block in `poll(2)`.
    Blocking,
    /// Unix stream sockets by readiness.
    Unix,
    /// Within the process, by name.
    Local,
    /// A transport from outside.
    Other(&'static dyn Subject),
}

impl PartialEq for Transport {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Transport {}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How two ends find each other.
#[derive(Clone, Copy)]
pub(super) enum Carrier {
    Tcp,
    Unix,
    Local,
    Other(&'static dyn Subject),
}

/// What a behaviour needs that not every transport has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// Host names, ports, options of TCP.
    Network,
    /// An end that is not in order, told to the peer as such.
    Reset,
    /// A socket for each connection, to which other processes connect as well.
    Descriptors,
    /// A thread for each connection.
    Threads,
    /// Peers that no code of ours serves.
    ForeignPeers,
    /// That the peer gets a copy of what is written, so that the original is released when it is sent.
    Copies,
    /// An end of one direction, told to the peer, while the other goes on.
    HalfClosure,
    /// Regions of files that are sent as messages.
    Files,
}

impl Transport {
    /// Every transport of ours, also those that this machine lacks.
    pub const ALL: &[Self] = &[Self::Readiness, Self::Uring, Self::Blocking, Self::Unix, Self::Local];

    /// As it is called in the names of tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Readiness => "readiness",
            Self::Uring => "uring",
            Self::Blocking => "blocking",
            Self::Unix => "unix",
            Self::Local => "local",
            Self::Other(subject) => subject.name(),
        }
    }

    /// The reactor models that it can run in.
    pub fn models(self) -> &'static [Model] {
        match self {
            // No second socket on one port.
            Self::Readiness | Self::Uring | Self::Local if cfg!(windows) => &Model::ALL[..2],
            Self::Readiness | Self::Uring | Self::Local => &Model::ALL[..4],
            // And a loop with many descriptors, which asks about each of them every time.
            Self::Blocking => &[Model::ThreadPerChannel, Model::OneLoop],
            Self::Unix => &[Model::OneLoop, Model::OneAcceptor], // no second socket on one path
            Self::Other(subject) => subject.models(),
        }
    }

    /// Why this machine cannot run it, if it cannot.
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Readiness | Self::Local => None,
            Self::Other(subject) => subject.missing(),
            Self::Unix => cfg!(windows).then(|| "Windows has no Unix sockets that we know".to_owned()),
            Self::Blocking | Self::Uring => {
                self.backend().event_loops(1).err().map(|error| error.to_string())
            }
        }
    }

    /// Why a behaviour with this need does not apply, if so.
    pub fn lacks(self, need: Need) -> Option<&'static str> {
        if need == Need::Threads && self != Self::Blocking {
            return Some("loops are shared: no thread belongs to a channel");
        }
        match (self.carrier(), need) {
            (_, Need::Threads) => None,
            (Carrier::Tcp, Need::Network) | (Carrier::Tcp | Carrier::Local, Need::Reset) => None,
            (
                Carrier::Other(subject),
                need @ (Need::Reset | Need::Descriptors | Need::Copies | Need::HalfClosure | Need::Files),
            ) => subject.lacks(need),
            (_, Need::HalfClosure | Need::Files) => None,
            (_, Need::Network) => Some("it is about host names, ports or options of TCP"),
            (Carrier::Unix, Need::Reset) => Some("a Unix socket has no reset"),
            (Carrier::Tcp | Carrier::Unix, Need::Descriptors | Need::ForeignPeers | Need::Copies) => None,
            (Carrier::Local, Need::Copies) => Some("a local message moves to its reader, who releases it"),
            (Carrier::Local, Need::Descriptors) => Some("a local channel has no socket"),
            (Carrier::Local | Carrier::Other(_), Need::ForeignPeers) => {
                Some("within the process all peers are ours")
            }
        }
    }

    pub(super) fn backend(self) -> Backend {
        match self {
            Self::Readiness | Self::Unix | Self::Local => Backend::Readiness,
            Self::Uring => Backend::Uring,
            Self::Blocking => Backend::Blocking,
            Self::Other(subject) => subject.backend(),
        }
    }

    /// A server that knows how to listen on it.
    pub(super) fn server(self, builder: ServerBuilder) -> ServerBuilder {
        let builder = builder.backend(self.backend());
        match self {
            Self::Other(subject) => subject.server(builder),
            _ => builder,
        }
    }

    /// A client that knows how to connect by it.
    pub(super) fn client(self, builder: ClientBuilder) -> ClientBuilder {
        let builder = builder.backend(self.backend());
        match self {
            Self::Other(subject) => subject.client(builder),
            _ => builder,
        }
    }

    pub(super) fn carrier(self) -> Carrier {
        match self {
            Self::Readiness | Self::Uring | Self::Blocking => Carrier::Tcp,
            Self::Unix => Carrier::Unix,
            Self::Local => Carrier::Local,
            Self::Other(subject) => Carrier::Other(subject),
        }
    }
}

/// How loops share the work of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Model {
    /// One loop accepts and hosts the connections.
    OneLoop,
    /// One loop accepts for two.
    OneAcceptor,
    /// Two loops accept for two, each by a socket of its own.
    TwoAcceptors,
    /// Two loops accept each for itself.
    SharedPort,
    /// One loop accepts, and each connection has a thread of its own.
    ThreadPerChannel,
}

impl Model {
    /// Every model.
    pub const ALL: &[Self] =
        &[Self::OneLoop, Self::OneAcceptor, Self::TwoAcceptors, Self::SharedPort, Self::ThreadPerChannel];

    /// As it is called in the names of tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneLoop => "one_loop",
            Self::OneAcceptor => "one_acceptor_two_workers",
            Self::TwoAcceptors => "two_acceptors_two_workers",
            Self::SharedPort => "shared_port_two_workers",
            Self::ThreadPerChannel => "thread_per_channel",
        }
    }

    /// How many sockets listen on one address.
    pub(super) fn listeners(self) -> usize {
        match self {
            Self::OneLoop | Self::OneAcceptor | Self::ThreadPerChannel => 1,
            Self::TwoAcceptors | Self::SharedPort => 2,
        }
    }
}

/// What else differs, apart from transport and model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Variation {
    /// Foreign peers where the transport has them; channels read by themselves.
    Plain,
    /// The peers are channels of ours.
    OurPeers,
    /// Channels do not read by themselves; their pipelines ask for each message.
    Asking,
    /// A stage between the wire and the application runs on workers.
    OnWorkers,
}

impl Variation {
    /// Every variation.
    pub const ALL: &[Self] = &[Self::Plain, Self::OurPeers, Self::Asking, Self::OnWorkers];

    /// As it is called in the names of tests; the plain one is not named.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::OurPeers => Some("our_peers"),
            Self::Asking => Some("asking"),
            Self::OnWorkers => Some("on_workers"),
        }
    }
}

/// One behaviour on one transport in one model.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// What carries the bytes.
    pub transport: Transport,
    /// How loops share the work of a server.
    pub model: Model,
    /// What else differs.
    pub variation: Variation,
    pub(super) behaviour: &'static Behaviour,
}

impl Setup {
    /// A transport in its first model, for what is not in the suite: as for a behaviour with such a need.
    pub(super) fn of(transport: Transport, need: Option<Need>) -> Self {
        let fits = |behaviour: &&Behaviour| need.is_none_or(|need| behaviour.has_need(need));
        let behaviour = super::suite().iter().find(fits).expect("a need that a behaviour has");
        Self { transport, model: transport.models()[0], variation: Variation::Plain, behaviour }
    }

    /// The name of the test: `readiness::one_loop::echo::one_byte_at_a_time_comes_back`.
    pub fn test_name(self) -> String {
        let (group, name) = (self.behaviour.group(), self.behaviour.name());
        let variation = self.variation.name().map(|name| format!("{name}::")).unwrap_or_default();
        format!("{}::{}::{variation}{group}::{name}", self.transport.name(), self.model.name())
    }

    /// An address that nobody else listens on.
    pub(super) fn listen_at(self) -> String {
        match self.transport.carrier() {
            Carrier::Tcp => "127.0.0.1:0".to_owned(),
            Carrier::Unix => format!("unix:@netwright-contract-{}", unique()),
            Carrier::Local => format!("local:contract-{}", unique()),
            Carrier::Other(subject) => subject.address(),
        }
    }

    /// The same, read.
    pub(super) fn nobodys_address(self) -> Address {
        let text = self.listen_at();
        match (self.transport, text.split_once(':')) {
            (Transport::Other(_), Some((scheme, name))) => Address::other(scheme, name).unwrap(),
            _ => text.parse().unwrap(),
        }
    }

    /// Whether the behaviour has this need.
    pub(super) fn needs(self, need: Need) -> bool {
        self.behaviour.has_need(need)
    }

    /// Whether peers are channels of ours.
    pub(super) fn dials_with_channels(self) -> bool {
        self.variation == Variation::OurPeers || self.transport.lacks(Need::ForeignPeers).is_some()
    }

    /// Whether pipelines have to ask for each message.
    pub(super) fn asks(self) -> bool {
        self.variation == Variation::Asking
    }

    pub(super) fn event_loops(self, loops: usize) -> EventLoopGroup {
        self.transport.backend().event_loops(loops).unwrap()
    }
}

/// A name that no other test of this machine uses.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
