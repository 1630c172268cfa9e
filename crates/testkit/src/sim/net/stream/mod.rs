//! Connections: TCP as a program sees it.
//!
//! ```text
//!   Connecting ── SYN-ACK ─▶ Open ── both ends told ─▶ (TIME_WAIT, for who closed first) ─▶ gone
//!   Arriving ──── ACK ─────▶  │
//!       └────────────────────┴── reset, silence for too long ─▶ Broken, until the program closes
//! ```
//! Always true between calls:
//! 1. `unacknowledged <= sent <= unacknowledged + flight`; what is in flight or waits is at most the send buffer.
//! 2. A sender never sends beyond what the receiver has room for, so nothing that arrives has to be thrown away.
//! 3. Segments of one end never overtake each other; they may be lost, and are then sent again.
//! 4. There is one entry in the agenda for each end that waits for a time, none for others.
//!
//! Not here: congestion control, urgent data, path MTU.

mod arrive;
mod close;
mod connect;
mod input;
mod listen;
mod output;
mod retry;
mod segment;
mod settings;

use super::{
    Failure, Happened, HostId, Net, News, Time,
    account::{Ending, Side},
    agenda::{Due, Key},
    host::Socket,
};
use input::Input;
pub(super) use listen::Listener;
pub(crate) use listen::{Listen, ListenerId};
use output::Output;
pub(super) use segment::Segment;
use segment::Signal;
pub(crate) use settings::Keepalive;
#[cfg(test)]
pub(crate) use settings::Readiness;
use std::{fmt, net::SocketAddr};

/// One end of a connection, by the order in which they came to be.
///
/// ```
/// # use netwright_testkit::sim::StreamId;
/// assert_eq!(StreamId(3).to_string(), "s3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Arriving,
    Open,
    Broken,
}

/// Who answers for an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Program,
    /// It waits to be accepted.
    Listener(ListenerId),
    /// The program has closed it; the system sends what is left.
    System,
}

#[derive(Debug)]
pub(super) struct End {
    host: HostId,
    /// Nobody, if no host has the address.
    peer: Option<HostId>,
    local: SocketAddr,
    remote: SocketAddr,
    side: Side,
    /// Addresses are shown as IPv6.
    mapped: bool,
    state: State,
    owner: Owner,
    outcome: Option<Result<(), Failure>>,
    /// What a call is still to be told.
    error: Option<Failure>,
    input: Input,
    output: Output,
    /// Our end was sent before the peer's came.
    closed_first: bool,
    /// Both ends were told; the port is kept for a while (TIME_WAIT).
    is_waiting_out: bool,
    began: Time,
    keepalive: Option<Keepalive>,
    probes: u32,
    heard: Time,
    /// When its last segment arrives: the next one does so no earlier.
    last_arrival: Time,
    retry_at: Option<Time>,
    probe_at: Option<Time>,
    gone_at: Option<Time>,
    timer: Option<Key>,
}

impl Net {
    fn end_mut(&mut self, id: StreamId) -> Option<&mut End> {
        self.streams.get_mut(id.0 as usize)?.as_deref_mut()
    }

    fn end(&self, id: StreamId) -> Option<&End> {
        self.streams.get(id.0 as usize)?.as_deref()
    }

    /// The end that a program holds.
    fn held(&mut self, id: StreamId) -> Result<&mut End, Failure> {
        self.end_mut(id).filter(|end| end.owner == Owner::Program).ok_or(Failure::NotOpen)
    }

    #[allow(clippy::too_many_arguments)] // what an end is made of, once
    fn add_end(
        &mut self,
        host: HostId,
        peer: Option<HostId>,
        local: SocketAddr,
        remote: SocketAddr,
        side: Side,
        state: State,
        owner: Owner,
    ) -> StreamId {
        let id = StreamId(self.streams.len() as u32);
        let limits = &self.host(host).limits;
        let end = End {
            host,
            peer,
            local,
            remote,
            side,
            mapped: false,
            state,
            owner,
            outcome: None,
            error: None,
            input: Input::new(limits),
            output: Output::new(limits),
            closed_first: false,
            is_waiting_out: false,
            began: self.now,
            keepalive: None,
            probes: 0,
            heard: self.now,
            last_arrival: Time::START,
            retry_at: None,
            probe_at: None,
            gone_at: None,
            timer: None,
        };
        self.streams.push(Some(Box::new(end)));
        self.accounts.add_side(side);
        self.host_mut(host).connections.insert((local, remote), id);
        id
    }

    /// The connection is broken: whoever holds it is told.
    pub(super) fn break_off(&mut self, id: StreamId, why: Failure) {
        let Some(end) = self.end(id) else { return };
        let (state, owner, host) = (end.state, end.owner, end.host);
        if state == State::Broken {
            return;
        }
        self.note(Happened::Breaks { stream: id, why });
        let discards = self.host(host).limits.reset_discards;
        let discards = why == Failure::ConnectionReset && self.chance.chance(discards);
        self.detach(id);
        let Some(end) = self.end_mut(id) else { return };
        end.state = State::Broken;
        end.output.discard();
        end.input.discard_early();
        if discards {
            end.input.discard();
        }
        match (state, owner) {
            (State::Connecting, _) => {
                end.outcome = Some(Err(why));
                self.news.push(News::Outcome(id));
            }
            (State::Arriving, Owner::Listener(listener)) => {
                self.leave_queue(listener);
                self.forget(id);
            }
            (_, Owner::System) => self.forget(id),
            (_, Owner::Program) => {
                end.error = Some(why);
                self.news.push(News::Broken(id));
            }
            // It is still accepted; whoever does so finds out.
            (_, Owner::Listener(_)) => end.error = Some(why),
        }
    }

    /// No segment finds this end any more, and no time is waited for.
    fn detach(&mut self, id: StreamId) {
        let Some(end) = self.end_mut(id) else { return };
        (end.retry_at, end.probe_at, end.gone_at) = (None, None, None);
        let (host, key, timer) = (end.host, (end.local, end.remote), end.timer.take());
        if let Some(timer) = timer {
            self.agenda.cancel(timer);
        }
        let connections = &mut self.host_mut(host).connections;
        if connections.get(&key) == Some(&id) {
            connections.remove(&key);
        }
    }

    /// The end is no more.
    pub(super) fn forget(&mut self, id: StreamId) {
        self.detach(id);
        let Some(end) = self.streams[id.0 as usize].take() else { return };
        self.accounts.ended(end.side, Ending::Abandoned);
        self.host_mut(end.host).open.remove(&Socket::Stream(id));
    }

    /// Has the agenda call when the next of an end's times has come.
    fn arm(&mut self, id: StreamId) {
        let Some(end) = self.streams.get_mut(id.0 as usize).and_then(|end| end.as_deref_mut()) else {
            return;
        };
        let next = [end.retry_at, end.probe_at, end.gone_at].into_iter().flatten().min();
        if end.timer.map(|(at, _)| at) == next {
            return;
        }
        if let Some(timer) = end.timer.take() {
            self.agenda.cancel(timer);
        }
        end.timer = next.map(|at| self.agenda.plan(at, Due::Timer(id)));
    }
}
