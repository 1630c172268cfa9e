//! What a program may ask of a connection, and set.

use super::State;
use crate::sim::net::{Failure, Net, StreamId, Time, host::mapped};
use std::{net::SocketAddr, time::Duration};

/// What a socket could do now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// A receive would give bytes, the end, or an error.
    pub(crate) read: bool,
    /// A send would take bytes, or give an error.
    pub(crate) write: bool,
    /// The peer sends no more, or the connection is broken.
    pub(crate) read_closed: bool,
    /// What the next call will fail with.
    pub(crate) error: Option<Failure>,
}

/// Probes of a connection on which nothing comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keepalive {
    /// Silence before the first one.
    pub(crate) idle: Duration,
    /// Between one and the next.
    pub(crate) interval: Duration,
    /// How many may stay unanswered.
    pub(crate) probes: u32,
}

impl Default for Keepalive {
    /// As Linux has it.
    fn default() -> Self {
        Self { idle: Duration::from_secs(7_200), interval: Duration::from_secs(75), probes: 9 }
    }
}

impl Net {
    /// What a call could do now; of a socket that is not open, everything fails.
    pub(crate) fn look(&self, id: StreamId) -> Readiness {
        let Some(end) = self.end(id) else {
            return Readiness { read: true, write: true, read_closed: true, error: Some(Failure::NotOpen) };
        };
        let broken = end.state == State::Broken;
        let ended = end.input.has_ended() || broken;
        Readiness {
            read: !end.input.is_empty() || ended,
            write: broken || end.state == State::Open && end.output.is_writable(),
            read_closed: ended,
            error: end.error,
        }
    }

    /// Takes the error that no call has told yet.
    pub(crate) fn take_error(&mut self, id: StreamId) -> Option<Failure> {
        self.held(id).ok()?.error.take()
    }

    pub(crate) fn local_address(&self, id: StreamId) -> Option<SocketAddr> {
        self.end(id).map(|end| if end.mapped { mapped(end.local) } else { end.local })
    }

    pub(crate) fn peer_address(&self, id: StreamId) -> Option<SocketAddr> {
        self.end(id).map(|end| if end.mapped { mapped(end.remote) } else { end.remote })
    }

    /// How much of what was sent, and of our end, the peer's system has not acknowledged (`SIOCOUTQ`).
    pub(crate) fn unacknowledged(&self, id: StreamId) -> usize {
        self.end(id).map_or(0, |end| end.output.unacknowledged())
    }

    /// How long sent bytes may stay unacknowledged before the connection counts as dead (`TCP_USER_TIMEOUT`).
    pub(crate) fn set_give_up(&mut self, id: StreamId, after: Duration) -> Result<(), Failure> {
        self.held(id).map(|end| end.output.give_up = after)
    }

    /// Sets the sizes of the buffers. The peer has been promised the room that was there: a receive buffer does not become smaller.
    pub(crate) fn set_buffers(
        &mut self,
        id: StreamId,
        send: Option<usize>,
        receive: Option<usize>,
    ) -> Result<(), Failure> {
        let end = self.held(id)?;
        if let Some(send) = send {
            end.output.set_capacity(send);
        }
        if let Some(receive) = receive {
            end.input.widen(receive);
        }
        Ok(())
    }

    /// Asks for probes of a silent peer (`SO_KEEPALIVE`), or for none.
    pub(crate) fn set_keepalive(
        &mut self,
        now: Time,
        id: StreamId,
        keepalive: Option<Keepalive>,
    ) -> Result<(), Failure> {
        self.at(now);
        let end = self.held(id)?;
        end.keepalive = keepalive;
        end.probes = 0;
        if end.state == State::Open {
            end.probe_at = keepalive.map(|keepalive| now + keepalive.idle);
        }
        self.arm(id);
        Ok(())
    }
}
