//! What happened, in order.

use super::{Failure, Fnv, HostId, StreamId, Time};
use std::{
    collections::VecDeque,
    fmt,
    hash::{Hash, Hasher},
};

/// One event of the simulated network. Sockets and connections are numbered in the order in which they came to be.
///
/// ```
/// use netwright_testkit::sim::{Happened, HostId};
///
/// assert_eq!(Happened::Crashed(HostId(1)).to_string(), "h1 crashes");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // the lines that `Display` writes say it
pub enum Happened {
    Listens { host: HostId, listener: u32, port: u16 },
    ListenerCloses { listener: u32 },
    Connects { stream: StreamId, connection: u32, from: HostId, to: Option<HostId> },
    Connected { stream: StreamId },
    Shows { stream: StreamId, connection: u32, listener: u32 },
    Accepted { stream: StreamId, listener: u32 },
    BacklogFull { listener: u32, connection: u32 },
    Arrives { connection: u32, to: HostId, signal: &'static str, at: u64, len: usize },
    Lost { connection: u32, to: Option<HostId>, signal: &'static str, at: u64, len: usize },
    Closes { stream: StreamId, abortive: bool },
    Breaks { stream: StreamId, why: Failure },
    Binds { host: HostId, socket: u32, port: u16 },
    Unbinds { socket: u32 },
    DatagramArrives { from: HostId, to: HostId, socket: u32, len: usize },
    DatagramLost { from: HostId, to: Option<HostId>, len: usize, why: &'static str },
    Asks { host: HostId, lookup: u32 },
    Answered { lookup: u32, found: bool },
    Cut { from: HostId, to: HostId },
    Healed { from: HostId, to: HostId },
    HealedAll,
    Crashed(HostId),
    Restarted(HostId),
    Killed(HostId),
    ResetByOrder { connection: u32 },
}

struct To(Option<HostId>);

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(host) => host.fmt(f),
            None => f.write_str("nobody"),
        }
    }
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listens { host, listener, port } => write!(f, "{host} l{listener} listens at {port}"),
            Self::ListenerCloses { listener } => write!(f, "l{listener} closes"),
            Self::Connects { stream, connection, from, to } => {
                write!(f, "{from} {stream} connects to {} as c{connection}", To(*to))
            }
            Self::Connected { stream } => write!(f, "{stream} is connected"),
            Self::Shows { stream, connection, listener } => {
                write!(f, "l{listener} has {stream} of c{connection}")
            }
            Self::Accepted { stream, listener } => write!(f, "l{listener} accepts {stream}"),
            Self::BacklogFull { listener, connection } => {
                write!(f, "l{listener} has no place for c{connection}")
            }
            Self::Arrives { connection, to, signal, at, len } => {
                write!(f, "c{connection} {signal} {at}+{len} arrives at {to}")
            }
            Self::Lost { connection, to, signal, at, len } => {
                write!(f, "c{connection} {signal} {at}+{len} to {} is lost", To(*to))
            }
            Self::Closes { stream, abortive: false } => write!(f, "{stream} closes"),
            Self::Closes { stream, abortive: true } => write!(f, "{stream} closes by a reset"),
            Self::Breaks { stream, why } => write!(f, "{stream} breaks: {why}"),
            Self::Binds { host, socket, port } => write!(f, "{host} d{socket} is bound to {port}"),
            Self::Unbinds { socket } => write!(f, "d{socket} closes"),
            Self::DatagramArrives { from, to, socket, len } => {
                write!(f, "datagram of {len} from {from} arrives at {to} d{socket}")
            }
            Self::DatagramLost { from, to, len, why } => {
                write!(f, "datagram of {len} from {from} to {} is lost: {why}", To(*to))
            }
            Self::Asks { host, lookup } => write!(f, "{host} asks for a name, n{lookup}"),
            Self::Answered { lookup, found: true } => write!(f, "n{lookup} is found"),
            Self::Answered { lookup, found: false } => write!(f, "n{lookup} is not found"),
            Self::Cut { from, to } => write!(f, "{from} to {to} is cut"),
            Self::Healed { from, to } => write!(f, "{from} to {to} is healed"),
            Self::HealedAll => f.write_str("everything is healed"),
            Self::Crashed(host) => write!(f, "{host} crashes"),
            Self::Restarted(host) => write!(f, "{host} is up again"),
            Self::Killed(host) => write!(f, "the programs of {host} are killed"),
            Self::ResetByOrder { connection } => write!(f, "c{connection} is reset by order"),
        }
    }
}

/// An event and its time.
///
/// ```
/// use netwright_testkit::sim::{Happened, HostId, Record, Time};
///
/// let record = Record { at: Time(2_000_000_000), what: Happened::Restarted(HostId(0)) };
/// assert_eq!(record.to_string(), "2.000000000 h0 is up again");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// When it happened.
    pub at: Time,
    /// What happened.
    pub what: Happened,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.what)
    }
}

#[derive(Debug)]
pub(super) struct Trace {
    records: VecDeque<Record>,
    limit: usize,
    left_out: u64,
    hash: Fnv,
}

impl Default for Trace {
    fn default() -> Self {
        Self { records: VecDeque::new(), limit: 100_000, left_out: 0, hash: Fnv::default() }
    }
}

impl Trace {
    pub(super) fn note(&mut self, at: Time, what: Happened) {
        let record = Record { at, what };
        record.hash(&mut self.hash);
        self.records.push_back(record);
        self.shorten();
    }

    pub(super) fn take(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records).into()
    }

    #[cfg(test)]
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.shorten();
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash.finish()
    }

    #[cfg(test)]
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    fn shorten(&mut self) {
        while self.records.len() > self.limit {
            self.records.pop_front();
            self.left_out += 1;
        }
    }
}
