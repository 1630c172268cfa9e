//! What a behaviour is shown on: a transport, in a reactor model.
//!
//! A further transport is a variant of [`Transport`] and an arm in each `match` on it below; the compiler names them. One
//! that carries bytes by other means than those of [`Carrier`] needs an arm in `support/peers.rs` as well.

use super::Behaviour;
use netwright_core::EventLoopGroup;
use netwright_transport::Backend;

/// What carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// TCP by readiness (epoll).
    Readiness,
    /// TCP by threads that block in `poll(2)`.
    Blocking,
}

/// How two ends find each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Tcp,
}

/// What a behaviour needs that not every transport has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// Host names, ports, options of TCP.
    Network,
    /// An end that is not in order, told to the peer as such.
    Reset,
    /// A descriptor for each connection.
    Descriptors,
    /// A thread for each connection.
    Threads,
}

impl Transport {
    /// Every transport, also those that this machine lacks.
    pub const ALL: &[Self] = &[Self::Readiness, Self::Blocking];

    /// As it is called in the names of tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Readiness => "readiness",
            Self::Blocking => "blocking",
        }
    }

    /// The reactor models that it can run in.
    pub fn models(self) -> &'static [Model] {
        match self {
            Self::Readiness => &Model::ALL[..4],
            // And a loop with many descriptors, which asks about each of them every time.
            Self::Blocking => &[Model::ThreadPerChannel, Model::OneLoop],
        }
    }

    /// Why this machine cannot run it, if it cannot.
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Readiness | Self::Blocking => None,
        }
    }

    /// Why a behaviour with this need does not apply, if so.
    pub fn lacks(self, need: Need) -> Option<&'static str> {
        if need == Need::Threads && self != Self::Blocking {
            return Some("loops are shared: no thread belongs to a channel");
        }
        match (self.carrier(), need) {
            (_, Need::Threads) => None,
            (Carrier::Tcp, Need::Network | Need::Reset | Need::Descriptors) => None,
        }
    }

    pub(super) fn backend(self) -> Backend {
        match self {
            Self::Readiness => Backend::Readiness,
            Self::Blocking => Backend::Blocking,
        }
    }

    pub(super) fn carrier(self) -> Carrier {
        match self {
            Self::Readiness | Self::Blocking => Carrier::Tcp,
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

/// One behaviour on one transport in one model.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// What carries the bytes.
    pub transport: Transport,
    /// How loops share the work of a server.
    pub model: Model,
    pub(super) behaviour: &'static Behaviour,
}

impl Setup {
    /// The name of the test: `readiness::one_loop::echo::one_byte_at_a_time_comes_back`.
    pub fn test_name(self) -> String {
        let Self { transport, model, behaviour } = self;
        format!("{}::{}::{}::{}", transport.name(), model.name(), behaviour.group(), behaviour.name())
    }

    /// An address that nobody else listens on.
    pub(super) fn listen_at(self) -> String {
        match self.transport.carrier() {
            Carrier::Tcp => "127.0.0.1:0".to_owned(),
        }
    }

    pub(super) fn event_loops(self, loops: usize) -> EventLoopGroup {
        self.transport.backend().event_loops(loops).unwrap()
    }
}
