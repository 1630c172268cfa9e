//! How connections end, by order of the program.

use super::{Owner, Signal, State};
use crate::sim::net::{Failure, Happened, HostId, Net, StreamId, Time, host::Socket};
use std::time::Duration;

/// How long the system waits for the peer's end when nobody holds ours.
const PEER_END_WAIT: Duration = Duration::from_secs(60);

impl Net {
    /// The peer is told that no more will come. Reading goes on.
    pub(crate) fn shut_down_output(&mut self, now: Time, id: StreamId) -> Result<(), Failure> {
        self.at(now);
        let end = self.held(id)?;
        if end.state != State::Open {
            return Err(Failure::NotConnected);
        }
        self.end_output(id);
        self.finish(id);
        Ok(())
    }

    /// Closes. With bytes unread, or if it is to be abortive, the peer gets a reset; otherwise what was written is still sent, then the
    /// end.
    pub(crate) fn close(&mut self, now: Time, id: StreamId, abortive: bool) -> Result<(), Failure> {
        self.at(now);
        let end = self.held(id)?;
        let (state, host) = (end.state, end.host);
        let abortive = state == State::Open && (abortive || !end.input.is_empty());
        self.note(Happened::Closes { stream: id, abortive });
        self.host_mut(host).open.remove(&Socket::Stream(id));
        if state != State::Open || abortive {
            self.abandon(id);
        } else {
            self.leave_to_system(id);
        }
        Ok(())
    }

    /// Resets what is open, and forgets it.
    pub(super) fn abandon(&mut self, id: StreamId) {
        if self.end(id).is_some_and(|end| matches!(end.state, State::Open | State::Arriving)) {
            self.transmit(id, Signal::Reset);
        }
        self.forget(id);
    }

    fn leave_to_system(&mut self, id: StreamId) {
        let now = self.now;
        let Some(end) = self.end_mut(id) else { return };
        end.owner = Owner::System;
        (end.keepalive, end.probe_at) = (None, None);
        // A peer that never has room for the rest is not waited for without end.
        end.gone_at = Some(end.gone_at.unwrap_or(now + end.output.give_up + PEER_END_WAIT));
        let side = end.side;
        self.accounts.ended(side, crate::sim::net::Ending::Abandoned);
        self.end_output(id);
        self.finish(id);
    }

    fn end_output(&mut self, id: StreamId) {
        let Some(end) = self.end_mut(id) else { return };
        if !end.output.ending {
            end.output.ending = true;
            end.closed_first = !end.input.has_ended();
        }
        self.pump(id);
    }

    /// Looks whether both ends have been told, and what comes then.
    pub(super) fn finish(&mut self, id: StreamId) {
        let now = self.now;
        let Some(end) = self.end_mut(id) else { return };
        if end.state != State::Open || !end.output.is_finished() {
            return;
        }
        let (host, by_system) = (end.host, end.owner == Owner::System);
        match (end.input.has_ended(), end.closed_first) {
            (true, false) if by_system => return self.forget(id),
            (true, false) => {}
            (true, true) => {
                let wait = self.host(host).limits.time_wait;
                if let Some(end) = self.end_mut(id)
                    && !end.is_waiting_out
                {
                    end.is_waiting_out = true;
                    end.gone_at = Some(now + wait);
                    end.probe_at = None;
                }
            }
            (false, _) if by_system => {
                end.gone_at = Some(end.gone_at.map_or(now + PEER_END_WAIT, |at| at.min(now + PEER_END_WAIT)));
            }
            (false, _) => {}
        }
        self.arm(id);
    }
}

/// What faults need to know.
impl Net {
    pub(in crate::sim::net) fn connection_of(&self, id: StreamId) -> Option<u32> {
        self.end(id).filter(|end| end.state != State::Broken).map(|end| end.side.connection)
    }

    pub(in crate::sim::net) fn peer_host(&self, id: StreamId) -> Option<HostId> {
        self.end(id)?.peer
    }

    /// Both ends of a connection, as far as they are there.
    pub(in crate::sim::net) fn ends_of(&self, id: StreamId) -> Vec<StreamId> {
        let Some(end) = self.end(id) else { return Vec::new() };
        let peer = end.peer.and_then(|peer| self.host(peer).connections.get(&(end.remote, end.local)));
        let of_this = |other: &StreamId| {
            self.end(*other).is_some_and(|other| other.side.connection == end.side.connection)
        };
        [id].into_iter().chain(peer.copied().filter(of_this)).collect()
    }

    /// All that the system of a host knows of.
    pub(in crate::sim::net) fn all_ends_on(&self, host: HostId) -> Vec<StreamId> {
        self.host(host).connections.values().copied().collect()
    }

    /// Gone, and nobody is told.
    pub(in crate::sim::net) fn vanish(&mut self, id: StreamId) {
        self.forget(id);
    }
}
