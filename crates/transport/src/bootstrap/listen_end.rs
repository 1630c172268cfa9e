//! Why a server no longer listens.

use netwright_core::{Address, LoopError};
use std::{fmt, io, sync::Arc};

/// Why a server, or one of its listeners, no longer listens: [`Server::closed`](super::Server::closed),
/// [`ServerObserver::closed`](super::ServerObserver::closed).
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{ListenEnd, Server, event_loops};
/// use std::time::Duration;
///
/// let group = event_loops(1)?;
/// let server =
///     Server::builder().group(group.clone()).pipeline(|_| pipeline().handle(|_, _| {})).bind("local:short-lived").wait()?;
/// let closed = server.closed();
/// group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(1))?; // behind the server's back
/// assert!(matches!(closed.wait()?, ListenEnd::LoopsEnded));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ListenEnd {
    /// It was asked to stop: [`stop_listening`](super::Server::stop_listening), a shutdown of the server, or nobody holds it
    /// any more.
    Asked,
    /// The loops that accepted were shut down.
    LoopsEnded,
    /// The last loop that accepted died, and no other one could take its place.
    LoopDied(LoopError),
    /// The socket has ceased to listen, or could not be opened again after its loop had died.
    Failed {
        /// Where the server listened.
        address: Address,
        /// What the system said.
        error: Arc<io::Error>,
    },
}

impl fmt::Display for ListenEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("it was asked to stop listening"),
            Self::LoopsEnded => f.write_str("the loops that accepted were shut down"),
            Self::LoopDied(error) => write!(f, "the loop that accepted died: {error}"),
            Self::Failed { address, error } => write!(f, "listening on {address} failed: {error}"),
        }
    }
}
