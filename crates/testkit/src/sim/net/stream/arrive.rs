//! Segments arrive.

use super::{Owner, Segment, Signal, State};
use crate::sim::net::{Failure, Happened, Net, News, StreamId};

impl Net {
    pub(in crate::sim::net) fn segment_arrives(&mut self, segment: Segment) {
        let (signal, at, len) = segment.signal.describe();
        let (connection, to) = (segment.connection, segment.to);
        if !self.host(to).up || self.paths.is_cut(segment.from, to) {
            return self.note(Happened::Lost { connection, to: Some(to), signal, at, len });
        }
        self.note(Happened::Arrives { connection, to, signal, at, len });
        let id = self.host(to).connections.get(&(segment.target, segment.source)).copied();
        let owned = id.filter(|id| self.end(*id).is_some_and(|end| end.side.connection == connection));
        match (owned, id, &segment.signal) {
            (Some(id), ..) => self.segment_for(id, segment),
            (None, _, Signal::Reset) => {}
            (None, Some(old), Signal::Syn) => {
                if self.end(old).is_some_and(|end| end.is_waiting_out && end.owner == Owner::System) {
                    self.forget(old);
                    self.syn_arrives(segment);
                } else {
                    // Whoever connects again from the same port answers by a reset, if the old connection is not theirs any more.
                    self.transmit(old, Signal::Ack);
                }
            }
            (None, None, Signal::Syn) => self.syn_arrives(segment),
            (None, ..) => self.answer_by_reset(&segment),
        }
    }

    fn segment_for(&mut self, id: StreamId, segment: Segment) {
        let now = self.now;
        let Some(end) = self.end_mut(id) else { return };
        (end.heard, end.probes) = (now, 0);
        match (end.state, segment.signal) {
            (State::Connecting, Signal::Reset) => self.break_off(id, Failure::ConnectionRefused),
            (_, Signal::Reset) if end.is_waiting_out => {}
            (_, Signal::Reset) => {
                let ended = end.input.has_ended();
                self.break_off(id, if ended { Failure::BrokenPipe } else { Failure::ConnectionReset });
            }
            (State::Connecting, Signal::SynAck) => self.connected(id, segment.window),
            (State::Connecting | State::Broken, _) => {}
            (State::Arriving, Signal::Syn) => {
                self.transmit(id, Signal::SynAck);
            }
            (State::Open, Signal::Syn | Signal::SynAck) => {
                self.transmit(id, Signal::Ack);
            }
            (State::Arriving, Signal::SynAck) => {}
            (state, signal) => {
                if state == State::Arriving {
                    self.has_arrived(id);
                }
                self.acknowledged(id, segment.acknowledged, segment.window);
                if let Signal::Data { at, bytes, last } = signal {
                    self.data_arrives(id, at, bytes, last);
                }
                self.finish(id);
            }
        }
    }

    fn data_arrives(&mut self, id: StreamId, at: u64, bytes: bytes::Bytes, last: bool) {
        let Some(end) = self.end_mut(id) else { return };
        if end.owner == Owner::System && !bytes.is_empty() && end.input.is_new(at, &bytes) {
            // Nobody will read it, and the peer should know.
            return self.abandon(id);
        }
        let had_ended = end.input.has_ended();
        let new = end.input.arrived(at, bytes, last);
        let ended = end.input.has_ended() && !had_ended;
        if end.owner == Owner::Program {
            if new && end.input.waited_for {
                end.input.waited_for = false;
                self.news.push(News::Readable(id));
            }
            if ended {
                self.news.push(News::Ended(id));
            }
        }
        self.transmit(id, Signal::Ack);
    }
}
