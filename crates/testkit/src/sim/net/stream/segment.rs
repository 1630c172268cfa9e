//! Segments, and how they get to the link.

use crate::sim::net::{Happened, HostId, Net, StreamId, Time, agenda::Due};
use bytes::Bytes;
use std::net::SocketAddr;

#[derive(Debug)]
pub(in crate::sim::net) struct Segment {
    pub(super) from: HostId,
    pub(super) to: HostId,
    pub(super) source: SocketAddr,
    pub(super) target: SocketAddr,
    /// Which connection it belongs to: what initial sequence numbers are for.
    pub(super) connection: u32,
    pub(super) signal: Signal,
    /// What the sender has got so far, and how far it has room.
    pub(super) acknowledged: u64,
    pub(super) window: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Signal {
    Syn,
    SynAck,
    Data { at: u64, bytes: Bytes, last: bool },
    Ack,
    Reset,
}

impl Signal {
    /// Its name in the trace, where it begins, and its length.
    pub(super) fn describe(&self) -> (&'static str, u64, usize) {
        match self {
            Self::Syn => ("SYN", 0, 0),
            Self::SynAck => ("SYN-ACK", 0, 0),
            Self::Data { at, last: true, .. } => ("FIN", *at, 0),
            Self::Data { at, bytes, .. } => ("data", *at, bytes.len()),
            Self::Ack => ("ACK", 0, 0),
            Self::Reset => ("RST", 0, 0),
        }
    }
}

impl Net {
    /// Gives a segment of an end to the link. Returns when it leaves.
    pub(super) fn transmit(&mut self, id: StreamId, signal: Signal) -> Time {
        let now = self.now;
        let Some(end) = self.streams[id.0 as usize].as_deref_mut() else { return now };
        let (acknowledged, window) = end.input.advertise();
        let (connection, (name, at, len)) = (end.side.connection, signal.describe());
        let lost = Happened::Lost { connection, to: end.peer, signal: name, at, len };
        let Some(to) = end.peer else {
            self.note(lost);
            return now;
        };
        let passage = self.paths.pass(&mut self.chance, now, (end.host, to), len);
        let Some(arrives) = passage.arrives else {
            self.note(lost);
            return passage.departs;
        };
        end.last_arrival = end.last_arrival.max(arrives);
        let (source, target, from, arrives) = (end.local, end.remote, end.host, end.last_arrival);
        let segment = Segment { from, to, source, target, connection, signal, acknowledged, window };
        self.agenda.plan(arrives, Due::Segment(Box::new(segment)));
        passage.departs
    }

    /// Answers by a reset what belongs to no connection.
    pub(super) fn answer_by_reset(&mut self, to: &Segment) {
        let passage = self.paths.pass(&mut self.chance, self.now, (to.to, to.from), 0);
        let connection = to.connection;
        let Some(arrives) = passage.arrives else {
            return self.note(Happened::Lost { connection, to: Some(to.from), signal: "RST", at: 0, len: 0 });
        };
        let segment = Segment {
            from: to.to,
            to: to.from,
            source: to.target,
            target: to.source,
            connection,
            signal: Signal::Reset,
            acknowledged: 0,
            window: 0,
        };
        self.agenda.plan(arrives, Due::Segment(Box::new(segment)));
    }
}
