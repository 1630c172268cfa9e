//! Connecting.

use super::{Owner, Signal, State, retry::HANDSHAKE_RETRY};
use crate::sim::net::{
    Failure, Happened, HostId, Net, News, StreamId, Time,
    account::Side,
    host::{Socket, plain},
};
use std::net::SocketAddr;

impl Net {
    /// Begins to connect to `to`, from an address or from whichever fits. There is news when [`outcome`](Self::outcome) is there.
    pub(crate) fn connect(
        &mut self,
        now: Time,
        host: HostId,
        to: SocketAddr,
        from: Option<SocketAddr>,
    ) -> Result<StreamId, Failure> {
        self.at(now);
        self.host(host).check_descriptors()?;
        let shows_mapped = matches!(to, SocketAddr::V6(to) if to.ip().to_ipv4_mapped().is_some());
        let remote = plain(to);
        let ip = match from.map(|from| from.ip().to_canonical()).filter(|ip| !ip.is_unspecified()) {
            Some(ip) if ip.is_ipv4() != remote.is_ipv4() => return Err(Failure::NetworkUnreachable),
            Some(ip) if self.host(host).has(ip) => ip,
            Some(_) => return Err(Failure::AddressNotAvailable),
            None => self.host(host).source_for(remote.ip())?,
        };
        let is_free = |host: &crate::sim::net::host::Host, port: u16| {
            !host.connections.contains_key(&(SocketAddr::new(ip, port), remote))
        };
        let port = match from.map_or(0, |from| from.port()) {
            0 => {
                self.ephemeral(host, |host, port| is_free(host, port) && !host.listening.contains_key(&port))?
            }
            port if is_free(self.host(host), port) => port,
            _ => return Err(Failure::AddressNotAvailable),
        };
        let local = SocketAddr::new(ip, port);
        let peer = self.route(host, remote.ip());
        let side = Side { connection: self.accounts.open(), accepted: false };
        let id = self.add_end(host, peer, local, remote, side, State::Connecting, Owner::Program);
        self.host_mut(host).open.insert(Socket::Stream(id));
        self.note(Happened::Connects { stream: id, connection: side.connection, from: host, to: peer });
        if let Some(end) = self.end_mut(id) {
            end.mapped = shows_mapped;
            end.retry_at = Some(now + HANDSHAKE_RETRY);
        }
        self.transmit(id, Signal::Syn);
        self.arm(id);
        Ok(id)
    }

    /// How connecting went, once it is known.
    pub(crate) fn outcome(&self, id: StreamId) -> Option<Result<(), Failure>> {
        self.end(id).map_or(Some(Err(Failure::NotOpen)), |end| end.outcome)
    }

    pub(super) fn connected(&mut self, id: StreamId, window: u64) {
        let now = self.now;
        let Some(end) = self.end_mut(id) else { return };
        end.begin(now, window);
        end.outcome = Some(Ok(()));
        self.note(Happened::Connected { stream: id });
        self.news.push(News::Outcome(id));
        self.transmit(id, Signal::Ack);
        self.pump(id);
    }
}

impl super::End {
    /// The handshake is done.
    pub(super) fn begin(&mut self, now: Time, window: u64) {
        self.state = State::Open;
        if self.output.backoff == 0 {
            self.output.measure(now - self.began);
        }
        self.output.backoff = 0;
        self.output.widen(window);
        self.retry_at = None;
        self.probe_at = self.keepalive.map(|keepalive| now + keepalive.idle);
    }
}
