//! What stands behind a scheme of addresses.

use super::{Arrival, Listener};
use crate::options::{ListenerOptions, StreamOptions};
use netwright_core::{Address, LocalLoop};
use std::{io, pin::Pin, sync::Arc};

/// What stands behind a scheme: opens listeners and connections by name. See the [module](super) for all that belongs to one.
///
/// A transport that only connects, or only listens, says `Unsupported` to the other.
pub trait Transport: Send + Sync + 'static {
    /// Listens at a name. Called on a loop's thread.
    ///
    /// # Errors
    /// `AddrInUse`: somebody else does, which becomes [`BindError::InUse`](crate::BindError::InUse). Any other error becomes
    /// [`BindError::Io`](crate::BindError::Io).
    fn listen(&self, how: &Listen<'_>) -> io::Result<Arc<dyn Listener>>;

    /// Opens a connection to a name. Called on the loop that will host it, where the future runs too. It is dropped if the connection comes
    /// too late ([`connect_timeout`](crate::ClientBuilder::connect_timeout)) or is no longer wanted: then nothing is to be left of it.
    ///
    /// Errors of the future: `ConnectionRefused` becomes [`ConnectError::Refused`](crate::ConnectError::Refused), `TimedOut`
    /// [`ConnectError::TimedOut`](crate::ConnectError::TimedOut), any other [`ConnectError::Io`](crate::ConnectError::Io).
    fn connect(&self, how: &Connect<'_>) -> Connecting;

    /// Whether it sees to all socket options itself, those that it cannot set refused. If not, which is the default, `bind` and `connect` refuse
    /// for it what only sockets have: what is left are buffer sizes, which it may heed, a `linger` of zero, which its streams are told of by
    /// [`Stream::reset_on_close`](super::Stream::reset_on_close), and a backlog.
    fn has_socket_options(&self) -> bool {
        false
    }
}

/// A connection that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Arrival>>>>;

/// Where and how to listen.
#[derive(Debug)]
#[non_exhaustive]
pub struct Listen<'a> {
    /// The whole address.
    pub address: &'a Address,
    /// What stands behind the scheme.
    pub name: &'a str,
    /// How many connections may wait to be accepted.
    pub backlog: usize,
    /// Options of the listener.
    pub listener: &'a ListenerOptions,
    /// Options of its connections.
    pub options: &'a StreamOptions,
    /// Within which names of the process are to be found: the loop's [network](super::Network::scope) says so; else 0.
    pub scope: u64,
}

/// Where and how to connect.
#[derive(Debug)]
#[non_exhaustive]
pub struct Connect<'a> {
    /// The whole address.
    pub address: &'a Address,
    /// What stands behind the scheme.
    pub name: &'a str,
    /// The loop that will host the channel, and runs the future.
    pub local: &'a LocalLoop,
    /// Options of the connection.
    pub options: &'a StreamOptions,
    /// Within which names of the process are to be found: the loop's [network](super::Network::scope) says so; else 0.
    pub scope: u64,
}

/// What stands behind the scheme of an address that a transport is asked for.
pub(super) fn name(address: &Address) -> &str {
    match address {
        Address::Local(name) => name,
        Address::Other(other) => other.name(),
        _ => "", // sockets of the system: no transport is asked for those
    }
}
