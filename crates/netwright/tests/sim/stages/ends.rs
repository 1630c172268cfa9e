//! How a connection ends: who brings it about, and which causes its channel may give for it.

use super::{draw::Draw, line::Line, moments::Moment, slips::ON_PURPOSE};
use netwright::{CloseCause, Server};
use netwright_testkit::sim::{Host, Sim};
use std::time::Duration;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer closes when all that it wrote is sent.
    Fin,
    /// The peer closes at once.
    FinAtOnce,
    /// The connection is reset.
    Reset,
    /// The peer sends no more, and reads on.
    HalfClose,
    /// Our side closes, by a handle.
    WeClose,
    /// Our side closes when all that was flushed is sent, by a handle.
    WeCloseWhenFlushed,
    /// Our side closes without asking its stages.
    WeCloseNow,
    /// Our side closes at its stage next to the wire.
    WeCloseAtTheWire,
    /// Our side sends no more.
    WeHalfClose,
    /// Nothing gets through any more, for a while.
    Cut,
    /// What we say does not get through, for a while.
    CutBehindUs,
    /// Nobody says anything, for a while.
    Silence,
    /// The peer's machine loses its power, and comes back after a while.
    PeerCrashes,
    /// The peer's process is killed.
    PeerIsKilled,
}

impl End {
    pub(crate) const ALL: [Self; 14] = [
        Self::Fin,
        Self::FinAtOnce,
        Self::Reset,
        Self::HalfClose,
        Self::WeClose,
        Self::WeCloseWhenFlushed,
        Self::WeCloseNow,
        Self::WeCloseAtTheWire,
        Self::WeHalfClose,
        Self::Cut,
        Self::CutBehindUs,
        Self::Silence,
        Self::PeerCrashes,
        Self::PeerIsKilled,
    ];

    /// Whether the server's channel ends with nothing else happening.
    pub(crate) fn ends_by_itself(self) -> bool {
        match self {
            Self::Fin
            | Self::FinAtOnce
            | Self::Reset
            | Self::HalfClose
            | Self::WeClose
            | Self::WeCloseWhenFlushed
            | Self::WeCloseNow
            | Self::WeCloseAtTheWire
            | Self::PeerIsKilled => true,
            Self::WeHalfClose | Self::Cut | Self::CutBehindUs | Self::Silence | Self::PeerCrashes => false,
        }
    }

    /// Whether the client does not live to hear how it ended.
    pub(crate) fn strikes_the_client(self) -> bool {
        matches!(self, Self::PeerCrashes | Self::PeerIsKilled)
    }

    /// Whether our side does it.
    fn is_ours(self) -> bool {
        matches!(
            self,
            Self::WeClose
                | Self::WeCloseWhenFlushed
                | Self::WeCloseNow
                | Self::WeCloseAtTheWire
                | Self::WeHalfClose
        )
    }

    /// Whether the peer may be gone without the server's hearing of it: a reset is said once, and bad ways lose it.
    pub(crate) fn may_be_lost(self) -> bool {
        !matches!(self, Self::Reset | Self::HalfClose) && !self.closes_here()
    }

    /// Whether it would be no end without a channel of the server.
    pub(crate) fn needs_the_server(self) -> bool {
        !matches!(self, Self::Fin | Self::FinAtOnce | Self::HalfClose | Self::Reset | Self::PeerIsKilled)
    }

    pub(crate) fn closes_here(self) -> bool {
        self.is_ours() && self != Self::WeHalfClose
    }

    /// How long it lasts, for those that do not end a channel.
    pub(crate) fn draw_lasting(self, draw: &Draw<'_>) -> Duration {
        match self {
            Self::Cut | Self::CutBehindUs | Self::PeerCrashes => draw.millis(30_000),
            _ => draw.millis(2_000),
        }
    }

    pub(crate) fn begin(self, sim: &Sim, line: &mut Line<'_>) {
        match self {
            Self::Fin => line.with_client(|client| drop(client.close_when_flushed())),
            Self::FinAtOnce => line.with_client(|client| drop(client.close())),
            Self::Reset => sim.reset(&line.host, line.server),
            Self::HalfClose => line.with_client(|client| client.shut_down_output()),
            Self::WeClose => line.with_server(|server| drop(server.close())),
            Self::WeCloseWhenFlushed => line.with_server(|server| drop(server.close_when_flushed())),
            Self::WeCloseNow => line.with_server(|server| drop(server.close_now(CloseCause::Requested))),
            Self::WeCloseAtTheWire => line.record.close_at_the_wire(),
            Self::WeHalfClose => line.with_server(|server| server.shut_down_output()),
            Self::Cut => {
                sim.cut(&line.host, line.server);
                sim.cut(line.server, &line.host);
            }
            Self::CutBehindUs => sim.cut(line.server, &line.host),
            Self::Silence => {}
            Self::PeerCrashes => line.host.crash(),
            Self::PeerIsKilled => line.host.kill(),
        }
    }

    /// What follows when it has lasted as long as it does.
    pub(crate) fn go_on(self, sim: &Sim, line: &mut Line<'_>) {
        match self {
            Self::Cut | Self::CutBehindUs => {
                sim.heal();
                line.with_client(|client| drop(client.close_when_flushed()));
            }
            Self::PeerCrashes => {
                let _ = line.host.restart();
                line.with_server(|server| drop(server.close()));
            }
            _ => line.with_client(|client| drop(client.close_when_flushed())),
        }
    }

    /// Whether the server's channel may have ended for this reason.
    pub(crate) fn explains(self, cause: &CloseCause, line: &Line<'_>) -> bool {
        let closes_itself = line.script.moment == Moment::BehindAClose;
        match cause {
            CloseCause::Panicked(text) => text == ON_PURPOSE && line.record.has_slipped(),
            CloseCause::Requested if line.was_closed => true,
            // Taken over by a program whose system has closed its sockets.
            CloseCause::Io(_) if line.host_ends => true,
            // A close that waits for a peer that does not read: that one may lose its patience first.
            CloseCause::Io(_) if self == Self::WeCloseWhenFlushed && !line.script.approach.reads => true,
            _ if line.server_ends && matches!(cause, CloseCause::ShutDown | CloseCause::Requested) => true,
            CloseCause::PeerClosed => !self.closes_here() && !matches!(self, Self::Reset | Self::PeerCrashes),
            // A peer that closes before it has read everything resets the connection.
            CloseCause::Io(_) => {
                !self.closes_here() && (self != Self::HalfClose || !line.script.approach.reads)
            }
            CloseCause::Requested => {
                // An application that hears of the peer's end closes by itself; behind the end of both ways nobody has to.
                let behind_the_peers = line.hears_of_half_closure && self != Self::Reset;
                let follows = matches!(self, Self::WeHalfClose | Self::PeerCrashes);
                closes_itself || self.closes_here() || behind_the_peers || follows
            }
            CloseCause::TooSlow(_) => true,
            _ => false,
        }
    }
}

/// How a server ends, with all its connections.
pub(crate) struct ServerEnd {
    pub(crate) at: Duration,
    how: How,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Drains(Duration),
    IsCut,
    LoopsEnd,
    /// Its machine loses its power, and is back after that.
    HostCrashes(Duration),
    /// The same for its process, whose sockets the system closes.
    HostIsKilled(Duration),
}

impl ServerEnd {
    pub(crate) fn draw(sim: &Sim, draw: &Draw<'_>) -> Self {
        let how = match draw.below(5) {
            0 => How::Drains(draw.millis(3_000)),
            1 => How::IsCut,
            2 => How::LoopsEnd,
            3 => How::HostCrashes(draw.millis(5_000)),
            _ => How::HostIsKilled(draw.millis(5_000)),
        };
        Self { at: sim.now() + draw.millis(300), how }
    }

    /// It ends. If its host does: when that is back.
    pub(crate) fn happen(&self, host: &Host, held: &mut Option<Server>) -> Option<Duration> {
        let server = held.as_ref()?;
        let mut back = None;
        match self.how {
            How::Drains(deadline) => host.enter(|| drop(server.drain(deadline))),
            How::IsCut => host.enter(|| drop(server.shutdown_now())),
            How::LoopsEnd => {
                let ending = || server.group().shutdown_gracefully(Duration::ZERO, Duration::from_secs(600));
                host.enter(|| drop(ending()));
            }
            How::HostCrashes(time) => {
                host.crash();
                back = Some(self.at + time);
            }
            How::HostIsKilled(time) => {
                host.kill();
                back = Some(self.at + time);
            }
        }
        if back.is_some() {
            // Nobody holds it any more, and the loops by which it had replaced those that it lost go as well.
            host.enter(|| drop(held.take()));
            if matches!(self.how, How::HostCrashes(_)) { host.crash() } else { host.kill() }
        }
        back
    }
}
