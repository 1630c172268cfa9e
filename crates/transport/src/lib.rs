//! Transports for Netwright: what carries bytes between a channel and a peer.
//!
//! ```text
//!   netwright-core             this crate                                the system
//!   EventLoop ── Driver ─────▶ readiness (mio: epoll, kqueue, IOCP) ───▶ one poll per loop
//!                              blocking (poll(2)) ────────────────────▶ a thread for each channel
//!   Source ── register ──────▶ Readiness
//!                              open: Stream, Transport ────────────────▶ whatever somebody else brings
//!                              ListenerOptions, StreamOptions ─────────▶ setsockopt, checked before
//!                              Resolver, interleave ───────────────────▶ getaddrinfo, off the loop
//!                              raise_descriptor_limit ─────────────────▶ RLIMIT_NOFILE
//! ```
//!
//! # Where to find what
//!
//! - A loop that hosts sockets, or a descriptor of your own: [`readiness`].
//! - A thread for each channel: [`blocking`], [`ThreadPerChannel`].
//! - UDP and Unix datagrams: [`Datagrams`].
//! - Files that no loop waits for, and files as what channels send: [`files`].
//! - Connections that are kept for the next one who needs one: [`Pool`].
//! - Connections through proxies: [`proxy`], [`ClientBuilder::through`].
//! - Channels within the process, by name: bind and connect to `local:name`. Unix sockets: `unix:/path`, `unix:@name`;
//!   [`PeerCredentials`], [`ReceivedDescriptors`].
//! - Pipes and child processes as channels, where there are Unix descriptors: `Pipes`, for [`Client::adopt`].
//! - Transports of one's own, found by a scheme of addresses that a builder is told of: [`open`]. What stands in for the network of the system:
//!   [`open::Network`].
//! - Socket options, for listeners and for connections: [`options`].
//! - From a name to addresses, in the order in which to try them: [`resolve`].
//! - Ctrl-C and SIGTERM, and servers that end in order because of them: `signals` (feature `signals`).
//! - How many connections the process may have: [`limits`]; who may come in at all: [`admission`].
//!
//! Not here: loops and pipelines (`netwright-core`), protocols (their own crates, which never see a transport).

#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod admission;
mod attributes;
#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(not(feature = "blocking"))]
#[path = "blocking/absent.rs"]
mod blocking;
mod bootstrap;
mod datagram;
pub mod files;
pub mod limits;
mod live;
#[cfg(feature = "local")]
mod local;
pub mod open;
pub mod options;
#[cfg(unix)]
mod pipes;
mod pool;
mod probe;
pub mod proxy;
pub mod readiness;
pub mod resolve;
mod return_stack;
mod scratch;
#[cfg(feature = "signals")]
pub mod signals;
mod socket;
mod stream;
mod sys;
#[cfg(all(target_os = "linux", feature = "uring"))]
pub mod uring;

pub use admission::{
    AcceptRate, AccessDenied, AccessList, Admission, AdmissionControl, Incoming, LiveAccessList, Network,
    NetworkError, Networks, Verdict,
};
pub use blocking::ThreadError;
#[cfg(feature = "blocking")]
pub use blocking::{BlockingSeed, ThreadFigures, ThreadPerChannel, ThreadPerChannelBuilder};
pub use bootstrap::{
    Accepted, Backend, BindError, BoundPipeline, Choice, Client, ClientBuilder, ConnectError, Datagrams,
    DatagramsBuilder, Direct, ListenEnd, Refusal, Refusals, Server, ServerBuilder, ServerFigures,
    ServerObserver, ServerShutdown, ThroughProxies, event_loops,
};
pub use datagram::{
    Datagram, DatagramError, DatagramFigures, DatagramSocket, Multicast, MulticastError, PortUnreachable,
    Truncated, Undelivered,
};
pub use limits::{DescriptorLimit, Raised, descriptor_limit, raise_descriptor_limit};
pub use options::{DatagramOptions, ListenerOptions, OptionError, OptionWhy, StreamOptions};
#[cfg(unix)]
pub use pipes::{Pipes, PipesError};
pub use pool::{Pool, PoolBuilder, PoolError, PoolFigures, Pooled};
pub use probe::{Probe, ProbeStep};
pub use proxy::{BadProxy, NoTls, Proxies, Proxy, ProxyChain, ProxyError, ProxyWhy, Purpose};
pub use readiness::{Interest, Readiness, ReadinessSeed};
pub use resolve::{FamilyPreference, Resolve, ResolveError, Resolver, interleave};
#[cfg(unix)]
pub use socket::unix::{DescriptorError, PeerCredentials, ReceivedDescriptors};
pub use stream::EnvelopeError;

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
