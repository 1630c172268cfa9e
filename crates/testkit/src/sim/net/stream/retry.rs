//! What an end does when nobody answers.

use super::{Owner, Signal, State};
use crate::sim::net::{Failure, Net, StreamId};
use std::time::Duration;

/// After 1 s, 3 s, 7 s … a handshake is tried again.
pub(super) const HANDSHAKE_RETRY: Duration = Duration::from_secs(1);

/// How often a SYN is sent again: the seventh wait ends after 127 s.
const SYN_RETRIES: u32 = 6;

/// How often a SYN-ACK is sent again.
const SYN_ACK_RETRIES: u32 = 5;

impl Net {
    pub(in crate::sim::net) fn stream_timer(&mut self, id: StreamId) {
        let now = self.now;
        let Some(end) = self.end_mut(id) else { return };
        end.timer = None;
        if end.gone_at.is_some_and(|at| at <= now) {
            return self.is_gone(id);
        }
        if end.retry_at.is_some_and(|at| at <= now) {
            end.retry_at = None;
            match end.state {
                State::Connecting => self.retry_handshake(id, Signal::Syn, SYN_RETRIES),
                State::Arriving => self.retry_handshake(id, Signal::SynAck, SYN_ACK_RETRIES),
                State::Open => self.retry(id),
                State::Broken => {}
            }
        }
        if self.end(id).is_some_and(|end| end.probe_at.is_some_and(|at| at <= now)) {
            self.probe(id);
        }
        self.arm(id);
    }

    /// What the system kept for a while is no longer kept.
    fn is_gone(&mut self, id: StreamId) {
        let Some(end) = self.end_mut(id) else { return };
        if !end.output.is_finished() {
            self.transmit(id, Signal::Reset);
        }
        match self.end(id).map(|end| end.owner) {
            Some(Owner::System) | None => self.forget(id),
            Some(_) => {
                // The program may still read what has come.
                self.detach(id);
                if let Some(end) = self.end_mut(id) {
                    end.state = State::Broken;
                }
            }
        }
    }

    fn retry_handshake(&mut self, id: StreamId, signal: Signal, retries: u32) {
        let now = self.now;
        let Some(end) = self.end_mut(id) else { return };
        if end.output.backoff >= retries {
            return self.break_off(id, Failure::TimedOut);
        }
        end.output.backoff += 1;
        end.retry_at = Some(now + HANDSHAKE_RETRY * (1 << end.output.backoff));
        self.transmit(id, signal);
    }

    fn retry(&mut self, id: StreamId) {
        let now = self.now;
        let Some(end) = self.end_mut(id) else { return };
        let output = &mut end.output;
        if output.stuck_since.is_some_and(|since| now >= since + output.give_up) {
            return self.break_off(id, Failure::TimedOut);
        }
        output.backoff += 1;
        let signal = if output.is_blocked() { Some(output.probe()) } else { output.start_over() };
        end.wait_for_acknowledgement(now);
        if let Some(signal) = signal {
            self.transmit(id, signal);
        }
    }

    /// Nothing has come for a while, and the program wanted the peer to be asked then.
    fn probe(&mut self, id: StreamId) {
        let now = self.now;
        let Some(end) = self.end_mut(id) else { return };
        let Some(keepalive) = end.keepalive else { return end.probe_at = None };
        let due = end.heard + keepalive.idle;
        if due > now {
            end.probe_at = Some(due);
        } else if !end.output.flight.is_empty() {
            // Retransmissions find out by themselves.
            end.probe_at = Some(now + keepalive.idle);
        } else if end.probes >= keepalive.probes {
            self.break_off(id, Failure::TimedOut);
        } else {
            end.probes += 1;
            end.probe_at = Some(now + keepalive.interval.max(Duration::from_millis(1)));
            let signal = end.output.probe();
            self.transmit(id, signal);
        }
    }
}
