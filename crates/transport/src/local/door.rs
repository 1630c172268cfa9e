//! Who listens in this process, by name.

use super::{
    PIPE_LEN,
    end::{End, Limits},
};
use crate::{
    open::{Acceptor, Backlog, Listener},
    options::StreamOptions,
};
use netwright_core::{Address, LocalLoop, driver::Token};
use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// All doors of the process, by their scope and name: hosts of a network that stands in for the system's do not see each other's. A list, because
/// a map is ten times the code and every program has it.
static HALL: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());

fn hall() -> MutexGuard<'static, Vec<Arc<Entry>>> {
    HALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where this name stands in the hall, or where it would.
fn place(hall: &[Arc<Entry>], scope: u64, name: &str) -> Result<usize, usize> {
    hall.binary_search_by(|entry| (entry.scope, &*entry.name).cmp(&(scope, name)))
}

/// What clients need to know of a door.
struct Entry {
    scope: u64,
    name: Arc<str>,
    backlog: Backlog<End>,
    /// Those of the server's connections.
    options: StreamOptions,
    /// How many connections there have been.
    connections: AtomicU64,
}

/// A name that is listened to, for as long as somebody holds it.
pub(super) struct Door {
    entry: Arc<Entry>,
}

/// Takes a name of a scope. `backlog` connections may wait; `options` are those of the server's connections.
///
/// # Errors
/// The name is in use, or it could be taken for a client's address.
pub(super) fn listen(
    scope: u64,
    name: &str,
    backlog: usize,
    options: StreamOptions,
) -> io::Result<Arc<Door>> {
    if name.contains('#') {
        let text = "a local name may not contain `#`, which marks the addresses of clients";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let connections = AtomicU64::new(0);
    let backlog = Backlog::new(backlog);
    let entry = Arc::new(Entry { scope, name: name.into(), backlog, options, connections });
    let mut hall = hall();
    let Err(at) = place(&hall, scope, name) else { return Err(io::ErrorKind::AddrInUse.into()) };
    hall.insert(at, entry.clone());
    drop(hall);
    Ok(Arc::new(Door { entry }))
}

/// Connects to a name of a scope: the client's end. `options` are the client's.
///
/// # Errors
/// Nobody listens: refused. Too many wait already.
pub(super) fn connect(scope: u64, name: &str, options: &StreamOptions) -> io::Result<End> {
    let hall = hall();
    let door = place(&hall, scope, name).ok().map(|at| hall[at].clone());
    drop(hall);
    let door = door.ok_or(io::ErrorKind::ConnectionRefused)?;
    let limits =
        Limits { to_client: limit(options, &door.options), to_server: limit(&door.options, options) };
    let number = door.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let client = Address::Local(format!("{name}#{number}").into());
    let (client, server) = End::pair(client, Address::Local(door.name.clone()), limits);
    match door.backlog.push(server) {
        Ok(()) => Ok(client),
        Err(_) if door.backlog.is_closed() => Err(io::ErrorKind::ConnectionRefused.into()),
        Err(_) => {
            let text =
                format!("{} connections wait there to be accepted, as many as may", door.backlog.max());
            Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
        }
    }
}

/// How much fits into the pipe between two ends.
fn limit(reader: &StreamOptions, writer: &StreamOptions) -> usize {
    let given = reader.buffer_sizes().0.or(writer.buffer_sizes().1);
    given.unwrap_or(PIPE_LEN)
}

impl Listener for Door {
    fn address(&self) -> Address {
        Address::Local(self.entry.name.clone())
    }

    fn attend(self: Arc<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Acceptor>> {
        Ok(self.entry.backlog.attend(self.clone(), local, token))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // In this order: whoever takes the name next is not taken for this one.
        self.entry.backlog.close();
        let mut hall = hall();
        if let Ok(at) = place(&hall, self.entry.scope, &self.entry.name) {
            hall.remove(at);
        }
    }
}
