//! Who listens in this process, by name, and connections that wait to be accepted.

use super::{
    PIPE_LEN,
    end::{End, Limits},
};
use crate::options::StreamOptions;
use netwright_core::{Address, SourceCaller};
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// All doors of the process.
static HALL: Mutex<BTreeMap<Arc<str>, Arc<Inner>>> = Mutex::new(BTreeMap::new());

fn hall() -> MutexGuard<'static, BTreeMap<Arc<str>, Arc<Inner>>> {
    HALL.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Inner {
    name: Arc<str>,
    backlog: usize,
    options: StreamOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<End>,
    /// Who accepts, each with a number of its own.
    acceptors: Vec<(u64, SourceCaller)>,
    last_acceptor: u64,
    /// How many connections there have been.
    connections: u64,
    /// For good: nobody holds it any more.
    closed: bool,
}

/// A name that is listened to, for as long as somebody holds it.
pub(super) struct Door {
    inner: Arc<Inner>,
}

/// Takes a name. `backlog` connections may wait; `options` are those of the server's connections.
///
/// # Errors
/// The name is in use, or it could be taken for a client's address.
pub(super) fn listen(name: &Arc<str>, backlog: usize, options: StreamOptions) -> io::Result<Door> {
    if name.contains('#') {
        let text = "a local name may not contain `#`, which marks the addresses of clients";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let inner = Arc::new(Inner { name: name.clone(), backlog, options, state: Mutex::default() });
    let mut hall = hall();
    if hall.contains_key(name) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    hall.insert(name.clone(), inner.clone());
    Ok(Door { inner })
}

/// Connects to a name: the client's end. `options` are the client's.
///
/// # Errors
/// Nobody listens, or too many wait already: refused.
pub(super) fn connect(name: &str, options: &StreamOptions) -> io::Result<End> {
    let found = hall().get(name).cloned();
    let inner = found.ok_or(io::ErrorKind::ConnectionRefused)?;
    let limits =
        Limits { to_client: limit(options, &inner.options), to_server: limit(&inner.options, options) };
    let mut state = inner.lock();
    if state.closed || state.waiting.len() >= inner.backlog {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    state.connections += 1;
    let number = state.connections;
    let client = Address::Local(format!("{name}#{number}").into());
    let (client, server) = End::pair(client, Address::Local(inner.name.clone()), limits);
    state.waiting.push_back(server);
    // Each in turn: the one that is called takes it, unless another is faster.
    let acceptors = state.acceptors.len();
    let bell = state.acceptors.get(number as usize % acceptors.max(1)).map(|(_, caller)| caller.clone());
    drop(state);
    if let Some(bell) = bell {
        bell.call();
    }
    Ok(client)
}

/// How much fits into the pipe between two ends.
fn limit(reader: &StreamOptions, writer: &StreamOptions) -> usize {
    let given = reader.buffer_sizes().0.or(writer.buffer_sizes().1);
    given.unwrap_or(PIPE_LEN)
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door {
    pub(super) fn address(&self) -> Address {
        Address::Local(self.inner.name.clone())
    }

    /// Has somebody called for each connection. What waits already is not announced. Returns a number for
    /// [`leave`](Self::leave).
    pub(super) fn attend(&self, caller: SourceCaller) -> u64 {
        let mut state = self.inner.lock();
        state.last_acceptor += 1;
        let number = state.last_acceptor;
        state.acceptors.push((number, caller));
        number
    }

    /// Somebody accepts no more; what waits is left to the others.
    pub(super) fn leave(&self, number: u64) {
        let mut state = self.inner.lock();
        state.acceptors.retain(|(known, _)| *known != number);
        let others = if state.waiting.is_empty() { Vec::new() } else { state.acceptors.clone() };
        drop(state);
        for (_, caller) in others {
            caller.call();
        }
    }

    /// The connection that has waited longest.
    pub(super) fn accept(&self) -> Option<End> {
        self.inner.lock().waiting.pop_front()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        hall().remove(&self.inner.name);
        for mut end in waiting {
            end.reset_on_close();
        }
    }
}
