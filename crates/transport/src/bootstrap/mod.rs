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
use std::{fmt, sync::OnceLock};

/// What waits for I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Backend {
    /// The best that works on this machine; see [`Backend::choose`].
    #[default]
    Auto,
    /// `epoll`, `kqueue` or IOCP, by `mio`.
    Readiness,
    /// io_uring, on Linux.
    Uring,
    /// A thread that blocks in `poll(2)`: for loops with few sockets. A server or client of this backend that is given no
    /// group has a thread for each connection ([`ThreadPerChannel`](crate::ThreadPerChannel)).
    Blocking,
}

impl Backend {
    /// A group of event loops that can host sockets by this backend.
    pub fn event_loops(self, loops: usize) -> Result<EventLoopGroup, BuildError> {
        match self {
            Self::Auto => Self::choose().backend.event_loops(loops),
            Self::Readiness => {
                EventLoopGroup::builder().loops(loops).driver(|_| ReadinessSeed::new()).build()
            }
            #[cfg(target_os = "linux")]
            Self::Uring => {
                EventLoopGroup::builder().loops(loops).driver(|_| crate::uring::UringSeed::new()).build()
            }
            #[cfg(not(target_os = "linux"))]
            Self::Uring => {
                let error = std::io::Error::new(std::io::ErrorKind::Unsupported, "only Linux has io_uring");
                Err(BuildError::Driver { index: 0, error })
            }
            Self::Blocking => EventLoopGroup::builder().loops(loops).driver(|_| BlockingSeed::new()).build(),
        }
    }

    /// What [`Backend::Auto`] stands for on this machine, and why. Found out when first asked, by trying
    /// ([`Probe`](crate::Probe)), and kept for the life of the process.
    pub fn choose() -> &'static Choice {
        static CHOICE: OnceLock<Choice> = OnceLock::new();
        CHOICE.get_or_init(Choice::make)
    }
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
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Choice {
    /// What was taken; never [`Backend::Auto`].
    pub backend: Backend,
    /// Why, in one sentence.
    pub why: String,
}

impl Choice {
    fn make() -> Self {
        Self { backend: Backend::Readiness, why: "there is no other that hosts many sockets".to_owned() }
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
    Backend::Auto.event_loops(loops)
}
