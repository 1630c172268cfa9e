//! Datagram sockets: UDP as a program sees it.

use super::{
    Failure, Happened, HostId, Net, News, Time,
    agenda::Due,
    host::{Bound, Socket, mapped, plain},
    link::{Oversized, spread},
    time::nanoseconds,
};
use bytes::Bytes;
use std::{collections::VecDeque, net::SocketAddr, time::Duration};

/// A datagram socket, by the order in which they came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DatagramId(pub(crate) u32);

/// Where a datagram socket is, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramSettings {
    /// May be unspecified, and have port 0.
    pub(crate) address: SocketAddr,
    /// Only datagrams from there are received, and it is told if nobody is there.
    pub(crate) peer: Option<SocketAddr>,
    /// Others may be bound there as well, if they say so too: datagrams are spread by a hash of the sender.
    pub(crate) shared: bool,
    /// `::` does not stand for IPv4 as well.
    pub(crate) only_v6: bool,
}

impl DatagramSettings {
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { address, peer: None, shared: false, only_v6: false }
    }
}

/// A datagram that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    /// Which of the host's addresses it was sent to.
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Bytes,
}

#[derive(Debug)]
pub(super) struct Binding {
    host: HostId,
    bound: Bound,
    peer: Option<SocketAddr>,
    queue: VecDeque<Datagram>,
    queued: usize,
    capacity: usize,
    dropped: u64,
    error: Option<Failure>,
    waited_for: bool,
}

/// What a datagram counts for beside its bytes, while it waits to be read: empty ones are bounded too.
const OVERHEAD: usize = 64;

/// A datagram on its way, or the news that nobody was there.
#[derive(Debug)]
pub(super) struct Packet {
    from: HostId,
    to: HostId,
    source: SocketAddr,
    target: SocketAddr,
    bytes: Bytes,
    is_unreachable: bool,
}

impl Net {
    /// Opens a datagram socket.
    pub(crate) fn bind(
        &mut self,
        now: Time,
        host: HostId,
        how: DatagramSettings,
    ) -> Result<DatagramId, Failure> {
        self.at(now);
        self.host(host).check_descriptors()?;
        let ip = how.address.ip();
        if !ip.is_unspecified() && !self.host(host).has(ip.to_canonical()) {
            return Err(Failure::AddressNotAvailable);
        }
        let port = match how.address.port() {
            0 => self.ephemeral(host, |host, port| !host.bound.contains_key(&port))?,
            port => port,
        };
        let bound = Bound { address: SocketAddr::new(ip, port), only_v6: how.only_v6, shared: how.shared };
        let others = self.host(host).bound.get(&port).into_iter().flatten();
        if others.filter_map(|other| self.binding(*other)).any(|other| other.bound.conflicts(&bound)) {
            return Err(Failure::AddressInUse);
        }
        let id = DatagramId(self.datagrams.len() as u32);
        let capacity = self.host(host).limits.receive_buffer;
        self.datagrams.push(Some(Binding {
            host,
            bound,
            peer: how.peer.map(plain),
            queue: VecDeque::new(),
            queued: 0,
            capacity,
            dropped: 0,
            error: None,
            waited_for: true,
        }));
        let this = self.host_mut(host);
        this.bound.entry(port).or_default().push(id);
        this.open.insert(Socket::Datagram(id));
        self.note(Happened::Binds { host, socket: id.0, port });
        Ok(id)
    }

    /// Where it is bound: with the port that was free, if none was asked for.
    pub(crate) fn bound_to(&self, id: DatagramId) -> Option<SocketAddr> {
        self.binding(id).map(|binding| binding.bound.address)
    }

    /// From now on only datagrams from `peer` are received, or from everybody.
    #[cfg(test)]
    pub(crate) fn set_peer(&mut self, id: DatagramId, peer: Option<SocketAddr>) -> Result<(), Failure> {
        self.binding_mut(id).map(|binding| binding.peer = peer.map(plain))
    }

    /// Sends a datagram: to `to`, or to the peer of a connected socket.
    pub(crate) fn send_to(
        &mut self,
        now: Time,
        id: DatagramId,
        bytes: Bytes,
        to: Option<SocketAddr>,
    ) -> Result<(), Failure> {
        self.at(now);
        let binding = self.binding_mut(id)?;
        if let Some(error) = binding.error.take() {
            return Err(error);
        }
        let (host, bound) = (binding.host, binding.bound);
        let target = to.map(plain).or(binding.peer).ok_or(Failure::NotConnected)?;
        if bound.address.is_ipv4() != target.is_ipv4() && !(target.is_ipv4() && bound.is_for_both()) {
            return Err(Failure::NetworkUnreachable);
        }
        let ip = match bound.address.ip() {
            ip if ip.is_unspecified() => self.host(host).source_for(target.ip())?,
            ip => ip.to_canonical(),
        };
        let (source, len) = (SocketAddr::new(ip, bound.address.port()), bytes.len());
        let lost = |to, why| Happened::DatagramLost { from: host, to, len, why };
        let Some(to) = self.route(host, target.ip()) else {
            self.note(lost(None, "no such host"));
            return Ok(());
        };
        let link = self.paths.link(host, to);
        if len > link.mtu {
            return match link.oversized {
                Oversized::Refuse => Err(Failure::MessageTooLong),
                Oversized::Drop => {
                    self.note(lost(Some(to), "too large"));
                    Ok(())
                }
            };
        }
        if link.rate.is_some() && self.paths.backlog(now, host, to).saturating_add(len as u64) > link.queue {
            self.note(lost(Some(to), "queue full"));
            return Ok(());
        }
        let (twice, late) = (link.duplication, link.reordering);
        let held_back = 2 * (nanoseconds(link.latency) + nanoseconds(link.jitter)) + LATE_MIN;
        let copies = 1 + u8::from(self.chance.chance(twice));
        for _ in 0..copies {
            let passage = self.paths.pass(&mut self.chance, now, (host, to), len);
            let Some(mut arrives) = passage.arrives else {
                self.note(lost(Some(to), "on its way"));
                continue;
            };
            if self.chance.chance(late) {
                arrives = arrives + Duration::from_nanos(self.chance.between(LATE_MIN..=held_back));
            }
            let packet =
                Packet { from: host, to, source, target, bytes: bytes.clone(), is_unreachable: false };
            self.agenda.plan(arrives, Due::Packet(Box::new(packet)));
        }
        Ok(())
    }

    /// The datagram that has waited longest.
    pub(crate) fn receive_from(&mut self, id: DatagramId) -> Result<Datagram, Failure> {
        let binding = self.binding_mut(id)?;
        if let Some(error) = binding.error.take() {
            return Err(error);
        }
        let Some(datagram) = binding.queue.pop_front() else {
            binding.waited_for = true;
            return Err(Failure::WouldBlock);
        };
        binding.queued -= datagram.bytes.len() + OVERHEAD;
        Ok(datagram)
    }

    /// Whether there is a datagram, or an error, to be received.
    #[cfg(test)]
    pub(crate) fn has_datagrams(&self, id: DatagramId) -> bool {
        self.binding(id).is_some_and(|binding| !binding.queue.is_empty() || binding.error.is_some())
    }

    /// The error that no call has told yet.
    #[cfg(test)]
    pub(crate) fn take_datagram_error(&mut self, id: DatagramId) -> Option<Failure> {
        self.binding_mut(id).ok()?.error.take()
    }

    /// How many datagrams found no room.
    #[cfg(test)]
    pub(crate) fn dropped(&self, id: DatagramId) -> u64 {
        self.binding(id).map_or(0, |binding| binding.dropped)
    }

    /// Closes a datagram socket.
    pub(crate) fn unbind(&mut self, now: Time, id: DatagramId) -> Result<(), Failure> {
        self.at(now);
        self.drop_binding(id).ok_or(Failure::NotOpen)?;
        self.note(Happened::Unbinds { socket: id.0 });
        Ok(())
    }

    pub(super) fn drop_binding(&mut self, id: DatagramId) -> Option<()> {
        let binding = self.datagrams.get_mut(id.0 as usize)?.take()?;
        let host = self.host_mut(binding.host);
        host.open.remove(&Socket::Datagram(id));
        let port = binding.bound.address.port();
        if let Some(at_port) = host.bound.get_mut(&port) {
            at_port.retain(|other| *other != id);
            if at_port.is_empty() {
                host.bound.remove(&port);
            }
        }
        Some(())
    }

    pub(super) fn packet_arrives(&mut self, packet: Packet) {
        let Packet { from, to, source, target, .. } = packet;
        let len = packet.bytes.len();
        let lost = |why| Happened::DatagramLost { from, to: Some(to), len, why };
        if !self.host(to).up || self.paths.is_cut(from, to) {
            return self.note(lost("on its way"));
        }
        let Some(id) = self.binding_for(to, target, source) else {
            if packet.is_unreachable {
                return;
            }
            self.note(lost("nobody is there"));
            let Some(arrives) = self.paths.pass(&mut self.chance, self.now, (to, from), 0).arrives else {
                return;
            };
            let (source, target) = (target, source);
            let answer =
                Packet { from: to, to: from, source, target, bytes: Bytes::new(), is_unreachable: true };
            self.agenda.plan(arrives, Due::Packet(Box::new(answer)));
            return;
        };
        let Ok(binding) = self.binding_mut(id) else { return };
        if packet.is_unreachable {
            // Who is not connected could not tell which of their datagrams it was.
            if binding.peer != Some(source) {
                return;
            }
            binding.error = Some(Failure::ConnectionRefused);
        } else if binding.queued + len + OVERHEAD > binding.capacity.max(len + OVERHEAD) {
            binding.dropped += 1;
            return self.note(lost("no room"));
        } else {
            let shows_mapped = binding.bound.address.is_ipv6();
            let show = |address| if shows_mapped { mapped(address) } else { address };
            binding.queued += len + OVERHEAD;
            binding.queue.push_back(Datagram { from: show(source), to: show(target), bytes: packet.bytes });
        }
        if std::mem::take(&mut binding.waited_for) {
            self.news.push(News::Datagram(id));
        }
        if !packet.is_unreachable {
            self.note(Happened::DatagramArrives { from, to, socket: id.0, len });
        }
    }

    /// Whose it is: who is connected to the sender, then who is bound exactly there, then anybody; of those who share it, the one
    /// that the hash says.
    fn binding_for(&self, host: HostId, to: SocketAddr, from: SocketAddr) -> Option<DatagramId> {
        let at_port = self.host(host).bound.get(&to.port())?;
        let fits = |id: &DatagramId| {
            let binding = self.binding(*id)?;
            let fit = binding.bound.fits(to.ip())?;
            match binding.peer {
                None => Some(fit),
                Some(peer) => (peer == from).then_some(fit + CONNECTED),
            }
        };
        let best = at_port.iter().filter_map(fits).max()?;
        let all: Vec<_> = at_port.iter().copied().filter(|id| fits(id) == Some(best)).collect();
        Some(all[spread(&from, all.len())])
    }

    fn binding(&self, id: DatagramId) -> Option<&Binding> {
        self.datagrams.get(id.0 as usize)?.as_ref()
    }

    fn binding_mut(&mut self, id: DatagramId) -> Result<&mut Binding, Failure> {
        self.datagrams.get_mut(id.0 as usize).and_then(Option::as_mut).ok_or(Failure::NotOpen)
    }
}

/// A connected socket fits better than any other.
const CONNECTED: u8 = 4;

/// A datagram that is held back comes at least so much later.
const LATE_MIN: u64 = 1_000;
