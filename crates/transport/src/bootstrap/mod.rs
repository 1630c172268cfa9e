//! From a pipeline to a server that listens, a client that connects, or sockets for datagrams.
//!
//! | reactor model | how |
//! | --- | --- |
//! | one loop for all | `Server::builder().group(event_loops(1)?)` |
//! | one acceptor loop, N workers | `.acceptors(event_loops(1)?).group(event_loops(n)?)` |
//! | N acceptor loops, M workers | `.acceptors(event_loops(n)?).group(event_loops(m)?)`: each acceptor has its own socket on the same port |
//! | each worker accepts for itself | `.shared_port(true)` |
//! | a thread for each connection | `.thread_per_channel(ThreadPerChannel::new())`, or `.backend(Backend::Blocking)` |

mod client;
mod datagrams;
mod entrance;
mod error;
mod hosts;
mod race;
mod server;

pub use crate::live::ServerShutdown;
pub use client::{Client, ClientBuilder};
pub use datagrams::{Datagrams, DatagramsBuilder};
pub use error::{BindError, ConnectError};
pub use server::{Accepted, BoundPipeline, Server, ServerBuilder, ServerFigures};

use crate::{blocking::BlockingSeed, readiness::ReadinessSeed};
use netwright_core::{BuildError, EventLoopGroup};

/// What waits for I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Backend {
    /// The best that works on this machine. Readiness is the only one so far.
    #[default]
    Auto,
    /// `epoll`, `kqueue` or IOCP, by `mio`.
    Readiness,
    /// A thread that blocks in `poll(2)`: for loops with few sockets. A server or client of this backend that is given no
    /// group has a thread for each connection ([`ThreadPerChannel`](crate::ThreadPerChannel)).
    Blocking,
}

impl Backend {
    /// A group of event loops that can host sockets by this backend.
    pub fn event_loops(self, loops: usize) -> Result<EventLoopGroup, BuildError> {
        match self {
            Self::Auto | Self::Readiness => event_loops(loops),
            Self::Blocking => EventLoopGroup::builder().loops(loops).driver(|_| BlockingSeed::new()).build(),
        }
    }
}

/// A group of `loops` event loops that can host sockets.
///
/// ```
/// let group = netwright_transport::event_loops(2)?;
/// assert_eq!(group.len(), 2);
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
pub fn event_loops(loops: usize) -> Result<EventLoopGroup, BuildError> {
    EventLoopGroup::builder().loops(loops).driver(|_| ReadinessSeed::new()).build()
}
