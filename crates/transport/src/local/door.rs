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
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// All doors of the process, by their scope and name: hosts of a network that stands in for the system's do not see each other's.
static HALL: Mutex<Hall> = Mutex::new(BTreeMap::new());

type Hall = BTreeMap<(u64, Arc<str>), Entry>;

fn hall() -> MutexGuard<'static, Hall> {
    HALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What clients need to know of a door.
#[derive(Clone)]
struct Entry {
    scope: u64,
    name: Arc<str>,
    backlog: Backlog<End>,
    /// Those of the server's connections.
    options: StreamOptions,
    /// How many connections there have been.
    connections: Arc<AtomicU64>,
}

impl Entry {
    fn key(&self) -> (u64, Arc<str>) {
        (self.scope, self.name.clone())
    }
}

/// A name that is listened to, for as long as somebody holds it.
pub(super) struct Door {
    entry: Entry,
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
    let (name, backlog) = (Arc::from(name), Backlog::new(backlog));
    let entry = Entry { scope, name, backlog, options, connections: Arc::default() };
    let mut hall = hall();
    if hall.contains_key(&entry.key()) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    hall.insert(entry.key(), entry.clone());
    Ok(Arc::new(Door { entry }))
}

/// Connects to a name of a scope: the client's end. `options` are the client's.
///
/// # Errors
/// Nobody listens: refused. Too many wait already.
pub(super) fn connect(scope: u64, name: &str, options: &StreamOptions) -> io::Result<End> {
    let found = hall().get(&(scope, Arc::from(name))).cloned();
    let door = found.ok_or(io::ErrorKind::ConnectionRefused)?;
    let limits =
        Limits { to_client: limit(options, &door.options), to_server: limit(&door.options, options) };
    let number = door.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let client = Address::Local(format!("{name}#{number}").into());
    let (client, server) = End::pair(client, Address::Local(door.name), limits);
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
        hall().remove(&self.entry.key());
    }
}
