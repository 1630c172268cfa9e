//! The network itself: a plain state machine. Time is passed in, randomness comes from the seed, nothing is ever waited for.
//!
//! ```text
//!   program ── connect, send, receive, close ─▶ ends ── segments ─▶ links ─▶ agenda ── advance(now) ─▶ ends of the peer
//!           ◀────────────── take_news ──────────────────────────────────────────────────────────────────────┘
//! ```
//! | module | what it knows |
//! | --- | --- |
//! | `host` | addresses, descriptors, ports |
//! | `link` | how long a segment takes, and whether it arrives |
//! | `agenda` | what is due when |
//! | `stream` | connections: handshake, windows, retransmission, ends |
//! | `datagram` | datagram sockets |
//! | `names` | who has which name |
//! | `faults` | partitions, crashes, resets |
//! | `account` | what was written and read, and whether that agrees |
//! | `trace` | what happened, in order |
//!
//! Always true between calls:
//! 1. Everything that is due by the time of the last `advance` has happened.
//! 2. The same calls with the same seed have the same results: collections are walked in the order of their keys, and those
//!    are numbers in the order of creation.
//! 3. Whoever was told `WouldBlock` gets news when that has changed, once.
//!
//! Not here: channels, loops, clocks.

mod account;
mod agenda;
mod datagram;
mod failure;
mod faults;
mod fnv;
mod host;
mod link;
mod names;
mod rope;
mod stream;
#[cfg(test)]
mod tests;
mod time;
mod trace;

pub(crate) use account::Ending;
#[cfg(test)]
pub(crate) use account::Flow;
pub use account::Violation;
pub(crate) use datagram::{DatagramId, DatagramSettings};
pub use failure::Failure;
pub(crate) use fnv::Fnv;
#[cfg(test)]
pub(crate) use host::Socket;
pub use host::{HostId, HostLimits};
pub use link::{Link, Oversized};
pub(crate) use names::{LookupFailure, LookupId, NameAnswer};
#[cfg(test)]
pub(crate) use stream::Readiness;
pub use stream::StreamId;
pub(crate) use stream::{Keepalive, Listen, ListenerId};
pub use time::Time;
pub use trace::{Happened, Record};

use super::chance::Chance;
use account::Accounts;
use agenda::{Agenda, Due};
use host::Host;
use link::Paths;
use names::Names;
use std::{collections::BTreeMap, net::IpAddr};
use stream::{End, Listener};
use trace::Trace;

/// What has changed for a socket, a listener or a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum News {
    /// The outcome of a connect is there, whichever.
    Outcome(StreamId),
    /// Bytes have come for one who was told that there are none.
    Readable(StreamId),
    /// There is room for one who was told that there is none, or who wrote less than they had.
    Writable(StreamId),
    /// The peer's end has arrived, behind what may be there to be read.
    Ended(StreamId),
    /// The connection is broken.
    Broken(StreamId),
    /// A connection has come for one who was told that there is none.
    Acceptable(ListenerId),
    /// A datagram, or an error, has come for one who was told that there is none.
    Datagram(DatagramId),
    /// A lookup has its answer.
    Answered(LookupId),
}

/// A network with all its hosts. See the module.
#[derive(Debug)]
pub(crate) struct Net {
    now: Time,
    chance: Chance,
    agenda: Agenda,
    steps: u64,
    hosts: Vec<Host>,
    routes: BTreeMap<IpAddr, HostId>,
    paths: Paths,
    streams: Vec<Option<Box<End>>>,
    listeners: Vec<Option<Listener>>,
    datagrams: Vec<Option<datagram::Binding>>,
    names: Names,
    news: Vec<News>,
    trace: Trace,
    accounts: Accounts,
}

impl Net {
    /// An empty network that draws from `chance`.
    pub(crate) fn new(chance: Chance) -> Self {
        Self {
            now: Time::START,
            chance,
            agenda: Agenda::default(),
            steps: 0,
            hosts: Vec::new(),
            routes: BTreeMap::new(),
            paths: Paths::default(),
            streams: Vec::new(),
            listeners: Vec::new(),
            datagrams: Vec::new(),
            names: Names::default(),
            news: Vec::new(),
            trace: Trace::default(),
            accounts: Accounts::default(),
        }
    }

    /// When something happens next, if nobody does anything.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.agenda.next_due()
    }

    /// Lets everything happen that is due by `now`.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some((at, due)) = self.agenda.take(now) {
            self.now = self.now.max(at);
            self.steps += 1;
            match due {
                Due::Segment(segment) => self.segment_arrives(*segment),
                Due::Timer(id) => self.stream_timer(id),
                Due::Show(listener, id) => self.show(listener, id),
                Due::WriteAgain(id) => self.write_again(id),
                Due::Packet(packet) => self.packet_arrives(*packet),
                Due::Answer(id) => self.answer(id),
            }
        }
        self.now = self.now.max(now);
    }

    /// What has changed since it was asked last, in order.
    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// How many events have happened: what a simulation costs.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// The link from one host to another, as its own from now on. From a host to itself is its loopback.
    pub(crate) fn link_mut(&mut self, from: HostId, to: HostId) -> &mut Link {
        self.paths.link_mut(from, to)
    }

    /// The link of all pairs that have none of their own.
    pub(crate) fn default_link_mut(&mut self) -> &mut Link {
        self.paths.default_mut()
    }

    /// The records since they were taken last, oldest first. Only the last [`trace_limit`](Self::set_trace_limit) are kept.
    pub(crate) fn take_trace(&mut self) -> Vec<Record> {
        self.trace.take()
    }

    /// How many records are kept until they are taken. Default: 100,000.
    #[cfg(test)]
    pub(crate) fn set_trace_limit(&mut self, limit: usize) {
        self.trace.set_limit(limit);
    }

    /// How many records went without having been taken.
    #[cfg(test)]
    pub(crate) fn trace_left_out(&self) -> u64 {
        self.trace.left_out()
    }

    /// A hash of all records since the start, taken or not.
    pub(crate) fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }

    /// Whether what was read agrees with what was written on all connections.
    pub(crate) fn check(&self) -> Result<(), Vec<Violation>> {
        self.accounts.check()
    }

    /// As [`check`](Self::check), and whether all programs have closed everything.
    pub(crate) fn check_closed(&self) -> Result<(), Vec<Violation>> {
        let mut all = self.check().err().unwrap_or_default();
        for (n, host) in self.hosts.iter().enumerate().filter(|(_, host)| !host.open.is_empty()) {
            all.push(Violation::LeftOpen { host: HostId(n as u32), sockets: host.open.len() });
        }
        if all.is_empty() { Ok(()) } else { Err(all) }
    }

    /// What both directions of a connection have carried so far: what this end wrote, and what it read.
    #[cfg(test)]
    pub(crate) fn account(&self, id: StreamId) -> Option<(&Flow, &Flow)> {
        self.accounts.of(id)
    }

    /// The sockets that programs hold open on a host.
    #[cfg(test)]
    pub(crate) fn open_sockets(&self, host: HostId) -> &std::collections::BTreeSet<Socket> {
        &self.host(host).open
    }

    fn note(&mut self, happened: Happened) {
        self.trace.note(self.now, happened);
    }

    /// A call at `now`, which may be later than what was advanced to.
    fn at(&mut self, now: Time) {
        self.now = self.now.max(now);
    }
}
