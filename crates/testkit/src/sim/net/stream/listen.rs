//! Listening and accepting.

use super::{Owner, Segment, Signal, State, StreamId, retry::HANDSHAKE_RETRY};
use crate::sim::net::{
    Failure, Happened, HostId, Net, News, Time,
    account::Side,
    agenda::Due,
    host::{Bound, Socket},
    link::spread,
    time::nanoseconds,
};
use std::{collections::VecDeque, net::SocketAddr, time::Duration};

/// A listener, by the order in which they came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListenerId(pub(crate) u32);

/// Where to listen, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listen {
    /// May be unspecified (`0.0.0.0`, `::`), and have port 0.
    pub(crate) address: SocketAddr,
    /// Others may listen there as well, if they say so too (`SO_REUSEPORT`): connections are spread by a hash of who connects.
    pub(crate) shared: bool,
    /// `::` does not stand for IPv4 as well.
    pub(crate) only_v6: bool,
    /// Connections that may wait; by default what the host's limits say.
    pub(crate) backlog: Option<usize>,
}

impl Listen {
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { address, shared: false, only_v6: false, backlog: None }
    }
}

#[derive(Debug)]
pub(in crate::sim::net) struct Listener {
    host: HostId,
    bound: Bound,
    backlog: usize,
    queue: VecDeque<StreamId>,
    /// Connections that have not shown up yet.
    coming: usize,
    waited_for: bool,
}

impl Net {
    /// Listens.
    pub(crate) fn listen(&mut self, now: Time, host: HostId, how: Listen) -> Result<ListenerId, Failure> {
        self.at(now);
        self.host(host).check_descriptors()?;
        let ip = how.address.ip();
        if !ip.is_unspecified() && !self.host(host).has(ip.to_canonical()) {
            return Err(Failure::AddressNotAvailable);
        }
        let port = match how.address.port() {
            0 => self.ephemeral(host, |host, port| {
                let is_used = host.connections.keys().any(|(local, _)| local.port() == port);
                !host.listening.contains_key(&port) && !is_used
            })?,
            port => port,
        };
        let address = SocketAddr::new(ip, port);
        let bound = Bound { address, only_v6: how.only_v6, shared: how.shared };
        let others = self.host(host).listening.get(&port).into_iter().flatten();
        if others.filter_map(|other| self.listener(*other)).any(|other| other.bound.conflicts(&bound)) {
            return Err(Failure::AddressInUse);
        }
        let id = ListenerId(self.listeners.len() as u32);
        let backlog = how.backlog.unwrap_or(self.host(host).limits.backlog).max(1);
        let listener = Listener { host, bound, backlog, queue: VecDeque::new(), coming: 0, waited_for: true };
        self.listeners.push(Some(listener));
        let this = self.host_mut(host);
        this.listening.entry(port).or_default().push(id);
        this.open.insert(Socket::Listener(id));
        self.note(Happened::Listens { host, listener: id.0, port });
        Ok(id)
    }

    /// Where it listens: with the port that was free, if none was asked for.
    pub(crate) fn listens_at(&self, id: ListenerId) -> Option<SocketAddr> {
        self.listener(id).map(|listener| listener.bound.address)
    }

    /// The connection that has waited longest, and who it is. What has come on it already is no news: [`look`](Self::look).
    pub(crate) fn accept(&mut self, now: Time, id: ListenerId) -> Result<(StreamId, SocketAddr), Failure> {
        self.at(now);
        let host = self.listener(id).ok_or(Failure::NotOpen)?.host;
        // As the system has it: also if nobody waits.
        self.host(host).check_descriptors()?;
        let listener = self.listener_mut(id).ok_or(Failure::NotOpen)?;
        let Some(stream) = listener.queue.pop_front() else {
            listener.waited_for = true;
            return Err(Failure::WouldBlock);
        };
        if let Some(end) = self.end_mut(stream) {
            end.owner = Owner::Program;
        }
        self.host_mut(host).open.insert(Socket::Stream(stream));
        self.note(Happened::Accepted { stream, listener: id.0 });
        let peer = self.peer_address(stream).ok_or(Failure::NotOpen)?;
        Ok((stream, peer))
    }

    /// Whether a connection waits.
    pub(crate) fn can_accept(&self, id: ListenerId) -> bool {
        self.listener(id).is_some_and(|listener| !listener.queue.is_empty())
    }

    /// Listens no more. Who was not accepted is reset.
    pub(crate) fn close_listener(&mut self, now: Time, id: ListenerId) -> Result<(), Failure> {
        self.at(now);
        let host = self.drop_listener(id).ok_or(Failure::NotOpen)?;
        self.note(Happened::ListenerCloses { listener: id.0 });
        let all = self.host(host).connections.values().copied().collect::<Vec<_>>();
        for stream in all {
            if self.end(stream).is_some_and(|end| end.owner == Owner::Listener(id)) {
                self.abandon(stream);
            }
        }
        Ok(())
    }

    /// Takes a listener out of everything, whatever becomes of its connections.
    pub(in crate::sim::net) fn drop_listener(&mut self, id: ListenerId) -> Option<HostId> {
        let listener = self.listeners.get_mut(id.0 as usize)?.take()?;
        let host = self.host_mut(listener.host);
        host.open.remove(&Socket::Listener(id));
        let port = listener.bound.address.port();
        if let Some(at_port) = host.listening.get_mut(&port) {
            at_port.retain(|other| *other != id);
            if at_port.is_empty() {
                host.listening.remove(&port);
            }
        }
        // Those that broke while they waited are in no table but this.
        for stream in listener.queue {
            if self.end(stream).is_some_and(|end| end.state == State::Broken) {
                self.forget(stream);
            }
        }
        Some(listener.host)
    }

    fn listener(&self, id: ListenerId) -> Option<&Listener> {
        self.listeners.get(id.0 as usize)?.as_ref()
    }

    fn listener_mut(&mut self, id: ListenerId) -> Option<&mut Listener> {
        self.listeners.get_mut(id.0 as usize)?.as_mut()
    }

    /// Somebody wants to connect.
    pub(super) fn syn_arrives(&mut self, segment: Segment) {
        let (host, connection) = (segment.to, segment.connection);
        let Some(id) = self.listener_for(host, segment.target, segment.source) else {
            return self.answer_by_reset(&segment);
        };
        let now = self.now;
        let Some(listener) = self.listener_mut(id) else { return };
        if listener.queue.len() + listener.coming >= listener.backlog {
            return self.note(Happened::BacklogFull { listener: id.0, connection });
        }
        listener.coming += 1;
        let shows_mapped = listener.bound.address.is_ipv6() && segment.target.is_ipv4();
        let side = Side { connection, accepted: true };
        let (local, remote, owner) = (segment.target, segment.source, Owner::Listener(id));
        let stream = self.add_end(host, Some(segment.from), local, remote, side, State::Arriving, owner);
        if let Some(end) = self.end_mut(stream) {
            end.mapped = shows_mapped;
            end.output.widen(segment.window);
            end.retry_at = Some(now + HANDSHAKE_RETRY);
        }
        self.transmit(stream, Signal::SynAck);
        self.arm(stream);
    }

    /// Who listens at `to`: whoever fits best, and of those who share it the one that the hash says.
    fn listener_for(&self, host: HostId, to: SocketAddr, from: SocketAddr) -> Option<ListenerId> {
        let at_port = self.host(host).listening.get(&to.port())?;
        let fits = |id: &ListenerId| self.listener(*id).and_then(|listener| listener.bound.fits(to.ip()));
        let best = at_port.iter().filter_map(fits).max()?;
        let all: Vec<_> = at_port.iter().copied().filter(|id| fits(id) == Some(best)).collect();
        Some(all[spread(&(from, to), all.len())])
    }

    /// The handshake is done: it shows up to whoever accepts, now or later.
    pub(super) fn has_arrived(&mut self, id: StreamId) {
        let now = self.now;
        let Some(end) = self.end_mut(id) else { return };
        end.begin(now, 0);
        let (Owner::Listener(listener), host) = (end.owner, end.host) else { return };
        let (low, high) = self.host(host).limits.accept_delay.clone().into_inner();
        if high.is_zero() {
            return self.show(listener, id);
        }
        let delay = self.chance.between(nanoseconds(low)..=nanoseconds(high.max(low)));
        self.agenda.plan(now + Duration::from_nanos(delay), Due::Show(listener, id));
    }

    pub(in crate::sim::net) fn show(&mut self, id: ListenerId, stream: StreamId) {
        let Some(connection) = self.end(stream).map(|end| end.side.connection) else { return };
        // Of a listener that is closed, only connections that had broken before are left.
        let Some(listener) = self.listener_mut(id) else { return self.forget(stream) };
        listener.coming -= 1;
        listener.queue.push_back(stream);
        if std::mem::take(&mut listener.waited_for) {
            self.news.push(News::Acceptable(id));
        }
        self.note(Happened::Shows { stream, connection, listener: id.0 });
    }

    /// One who was coming comes no more.
    pub(super) fn leave_queue(&mut self, id: ListenerId) {
        if let Some(listener) = self.listener_mut(id) {
            listener.coming -= 1;
        }
    }
}
