//! A transport of one's own, written with what is public: names within this process, and two pipes of the system for each connection.
//!
//! ```text
//!   connect("pipe:name") ──▶ who listens, by name ──▶ Backlog ──▶ the server's loops
//!          │                                                          │
//!        Ends ════════ a pipe to the server ═══════════════════════ Ends
//!             ════════ a pipe to the client ═══════
//! ```
//! | file | what it is |
//! | --- | --- |
//! | here | the transport, and where it listens |
//! | `stream` | a connection, and its bytes on a loop |
//!
//! `tests/own_transport.rs` runs the contract suite over it. `netwright::transport::Pipes` is this stream with its corners rounded off; here it is
//! written out, to show what has to be done.

mod stream;

use netwright::{
    Address,
    transport::{
        LocalLoop, Pipes,
        driver::Token,
        open::{Acceptor, Arrival, Backlog, Connect, Connecting, Connection, Listen, Listener, Transport},
    },
};
use std::{
    collections::HashMap,
    future, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
pub use stream::Ends;

/// Finds `pipe:name`. Clones know the same names: one for the server, one for its clients.
pub struct PipeTransport<C> {
    names: Arc<Mutex<HashMap<String, Backlog<C>>>>,
    /// Makes the client's end of a connection, and the server's.
    pair: fn(&Address) -> io::Result<(C, C)>,
}

impl PipeTransport<Ends> {
    /// With the stream that is written out here.
    pub fn new() -> Self {
        Self { names: Arc::default(), pair: Ends::pair }
    }
}

impl Default for PipeTransport<Ends> {
    fn default() -> Self {
        Self::new()
    }
}

impl PipeTransport<Pipes> {
    /// With the stream that comes with Netwright.
    pub fn of_pipes() -> Self {
        let pair = |address: &Address| {
            let (ours, theirs) = Pipes::pair().map_err(io::Error::other)?;
            let named = |end: Pipes| end.between(address.clone(), address.clone());
            Ok((named(ours), named(theirs)))
        };
        Self { names: Arc::default(), pair }
    }
}

impl<C: Connection> PipeTransport<C> {
    fn names(&self) -> MutexGuard<'_, HashMap<String, Backlog<C>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dial(&self, name: &str, address: &Address) -> io::Result<Arrival> {
        let backlog = self.names().get(name).cloned().ok_or(io::ErrorKind::ConnectionRefused)?;
        let (ours, theirs) = (self.pair)(address)?;
        backlog.push(theirs).map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(ours.into())
    }
}

impl<C: Connection> Transport for PipeTransport<C> {
    fn listen(&self, how: &Listen<'_>) -> io::Result<Arc<dyn Listener>> {
        let backlog = Backlog::new(how.backlog);
        let mut names = self.names();
        if names.contains_key(how.name) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        names.insert(how.name.to_owned(), backlog.clone());
        let place = Place { address: how.address.clone(), backlog, transport: self.clone() };
        Ok(Arc::new(place))
    }

    fn connect(&self, how: &Connect<'_>) -> Connecting {
        Box::pin(future::ready(self.dial(how.name, how.address))) // nothing to wait for
    }
}

impl<C> Clone for PipeTransport<C> {
    fn clone(&self) -> Self {
        Self { names: self.names.clone(), pair: self.pair }
    }
}

/// A name that is listened to, until it is dropped.
struct Place<C: Connection> {
    address: Address,
    backlog: Backlog<C>,
    transport: PipeTransport<C>,
}

impl<C: Connection> Listener for Place<C> {
    fn address(&self) -> Address {
        self.address.clone()
    }

    fn attend(self: Arc<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Acceptor>> {
        Ok(self.backlog.attend(self.clone(), local, token))
    }
}

impl<C: Connection> Drop for Place<C> {
    fn drop(&mut self) {
        self.backlog.close();
        if let Address::Other(address) = &self.address {
            let listened = self.transport.names().remove(address.name());
            drop(listened); // behind the lock
        }
    }
}
