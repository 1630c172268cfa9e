//! From a pipeline to a server that listens, a client that connects, or sockets for datagrams.
//!
//! | reactor model | how |
//! | --- | --- |
//! | one loop for all | `Server::builder().group(event_loops(1)?)` |
//! | one acceptor loop, N workers | `.acceptors(event_loops(1)?).group(event_loops(n)?)` |
//! | N acceptor loops, M workers | `.acceptors(event_loops(n)?).group(event_loops(m)?)`: each acceptor has its own socket on the same port |
//! | each worker accepts for itself | `.shared_port(true)` |
//! | a thread for each connection | `.thread_per_channel(ThreadPerChannel::new())`, or `.backend(Backend::Blocking)` |
//!
//! | file | what it is |
//! | --- | --- |
//! | `server`, `client`, `datagrams` | the builders, and what they make |
//! | `setters` | what all builders are told in the same words |
//! | `entrance` | where a server listens: a socket, a Unix socket, or what another transport has |
//! | `listening` | which loop listens where, until when, and again after a loop has died |
//! | `observer` | who looks on |
//! | `through` | sockets, a network in their place, or another transport |
//! | `world` | threads on which nothing is the system's |
//! | `handover`, `hosts` | from the loop that accepts to the loop that hosts |
//! | `deciding` | held on the loop that accepts until somebody has decided; who may come in at all: `crate::admission` |
//! | `race` | several addresses for one connection |
//! | `attempts` | connections that are being opened, and may be given up |

mod around;
mod attempts;
mod client;
mod datagrams;
mod deciding;
mod entrance;
mod error;
mod handover;
mod hosts;
mod listen_end;
mod listening;
mod observer;
mod race;
mod refusals;
mod server;
mod setters;
mod through;
mod world;

pub use crate::live::ServerShutdown;
pub use client::{Client, ClientBuilder, Direct, ThroughProxies};
pub use datagrams::{Datagrams, DatagramsBuilder};
pub use error::{BindError, ConnectError};
pub use listen_end::ListenEnd;
pub use observer::{Refusal, ServerObserver};
pub use refusals::Refusals;
pub use server::{Accepted, BoundPipeline, Server, ServerBuilder, ServerFigures};

use crate::readiness::ReadinessSeed;
use netwright_core::{BuildError, EventLoopGroup, EventLoopGroupBuilder};
use std::{fmt, sync::OnceLock};
use world::in_world;

/// What waits for I/O.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Backend, Server};
///
/// let server = Server::builder()
///     .group(Backend::Readiness.event_loops(1)?) // `Backend::Auto` for the best that works here
///     .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
///     .bind("127.0.0.1:0")
///     .wait()?;
/// # drop(server);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Backend {
    /// The best that works on this machine; see [`Backend::choose`].
    #[default]
    Auto,
    /// `epoll`, `kqueue` or IOCP, by `mio`.
    Readiness,
    /// io_uring, on Linux. Without the feature `uring` its loops cannot be made, and the error says so.
    Uring,
    /// A thread that blocks in `poll(2)`: for loops with few sockets. A server or client of this backend that is given no
    /// group has a thread for each connection ([`ThreadPerChannel`](crate::ThreadPerChannel)). Without the feature `blocking` its loops cannot
    /// be made, and the error says so.
    Blocking,
}

impl Backend {
    /// A group of event loops that can host sockets by this backend.
    ///
    /// With [`Backend::Auto`], a machine on which one ring works but not so many falls back to readiness.
    #[doc(alias = "runtime")]
    pub fn event_loops(self, loops: usize) -> Result<EventLoopGroup, BuildError> {
        match self {
            Self::Blocking => self.group().loops(loops).build(),
            polling => polling.polling_loops(loops),
        }
    }

    /// The same of the backends that nobody has to choose: a program that does not choose has no code of the others.
    fn polling_loops(self, loops: usize) -> Result<EventLoopGroup, BuildError> {
        let group = self.polling_group().loops(loops).build();
        if self == Self::Auto
            && !in_world()
            && Self::choose().backend == Self::Uring
            && let Err(error) = &group
        {
            tracing::warn!(%error, loops, "not enough rings for these loops, taking readiness");
            return Self::Readiness.polling_group().loops(loops).build();
        }
        group
    }

    /// A group under construction whose loops can host sockets by this backend, for a name, a number of loops and other
    /// settings of one's own.
    pub fn group(self) -> EventLoopGroupBuilder {
        if in_world() {
            return EventLoopGroup::builder();
        }
        match self {
            #[cfg(feature = "blocking")]
            Self::Blocking => EventLoopGroup::builder().driver(|_| crate::blocking::BlockingSeed::new()),
            #[cfg(not(feature = "blocking"))]
            Self::Blocking => EventLoopGroup::builder().driver(|_| missing(NO_BLOCKING)),
            polling => polling.polling_group(),
        }
    }

    fn polling_group(self) -> EventLoopGroupBuilder {
        let group = EventLoopGroup::builder();
        if in_world() {
            return group;
        }
        let backend = match self {
            Self::Auto => Self::choose().backend,
            chosen => chosen,
        };
        match backend {
            #[cfg(all(target_os = "linux", feature = "uring"))]
            Self::Uring => group.driver(|_| crate::uring::UringSeed::new()),
            #[cfg(not(all(target_os = "linux", feature = "uring")))]
            Self::Uring => group.driver(|_| missing(NO_URING)),
            _ => group.driver(|_| ReadinessSeed::new()),
        }
    }

    /// What [`Backend::Auto`] stands for on this machine, and why. Found out when first asked, by trying
    /// ([`Probe`](crate::Probe)), and kept for the life of the process.
    pub fn choose() -> &'static Choice {
        static CHOICE: OnceLock<Choice> = OnceLock::new();
        if in_world() {
            return world::choice();
        }
        CHOICE.get_or_init(Choice::make)
    }
}

/// Why there is no io_uring here whatever the system has, if so.
#[cfg(all(target_os = "linux", not(feature = "uring")))]
const NO_URING: &str = "this program was built without io_uring, which the feature `uring` adds";
#[cfg(not(target_os = "linux"))]
const NO_URING: &str = "only Linux has io_uring";
#[cfg(not(feature = "blocking"))]
const NO_BLOCKING: &str =
    "this program was built without loops that block, which the feature `blocking` adds";

#[cfg(not(all(target_os = "linux", feature = "uring", feature = "blocking")))]
fn missing(why: &str) -> std::io::Result<ReadinessSeed> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, why))
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Readiness => "readiness",
            Self::Uring => "uring",
            Self::Blocking => "blocking",
        })
    }
}

/// What [`Backend::Auto`] stands for.
///
/// ```
/// use netwright_transport::Backend;
///
/// let choice = Backend::choose(); // tried once, then remembered
/// assert_ne!(choice.backend, Backend::Auto);
/// println!("{}: {}", choice.backend, choice.why);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Choice {
    /// What was taken; never [`Backend::Auto`].
    pub backend: Backend,
    /// Why, in one sentence.
    pub why: String,
}

impl Choice {
    #[cfg(not(all(target_os = "linux", feature = "uring")))]
    fn make() -> Self {
        Self { backend: Backend::Readiness, why: NO_URING.to_owned() }
    }

    #[cfg(all(target_os = "linux", feature = "uring"))]
    fn make() -> Self {
        let uring = crate::Probe::run_on(Backend::Uring, Backend::polling_loops);
        let choice = if uring.works() {
            let why = format!("all {} operations tried on io_uring work", uring.steps.len());
            Self { backend: Backend::Uring, why }
        } else {
            Self { backend: Backend::Readiness, why: format!("io_uring does not work here ({uring})") }
        };
        tracing::info!(backend = %choice.backend, why = choice.why, "chose a backend");
        choice
    }
}

/// A group of `loops` event loops that can host sockets, by the best that works on this machine: [`Backend::Auto`]. For another one there is
/// [`Backend::event_loops`].
///
/// ```
/// let group = netwright_transport::event_loops(2)?;
/// assert_eq!(group.len(), 2);
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
pub fn event_loops(loops: usize) -> Result<EventLoopGroup, BuildError> {
    Backend::Auto.polling_loops(loops)
}
