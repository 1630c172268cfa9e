//! What one end has to send: what waits, what is in flight, and how far the peer has room.

use super::{End, Signal, State};
use crate::sim::net::{
    Failure, HostLimits, Net, News, StreamId, Time, agenda::Due, rope::Rope, time::nanoseconds,
};
use bytes::{Buf, Bytes};
use std::{collections::VecDeque, time::Duration};

/// The largest segment, as network cards that cut them themselves have it.
const SEGMENT_MAX: usize = 16 * 1024;

/// The shortest time until what was not acknowledged is sent again.
const RETRY_MIN: Duration = Duration::from_millis(200);

/// The longest.
const RETRY_MAX: Duration = Duration::from_secs(120);

/// The time as long as nothing was measured.
const RETRY_FIRST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Flight {
    at: u64,
    bytes: Bytes,
    last: bool,
    departs: Time,
    /// The round of retransmissions in which it was sent last; 0: once only.
    round: u32,
}

#[derive(Debug)]
pub(super) struct Output {
    waiting: Rope,
    pub(super) flight: VecDeque<Flight>,
    /// Up to where the peer has acknowledged. Our end counts as a byte.
    unacknowledged: u64,
    /// Up to where everything was sent at least once.
    sent: u64,
    /// Up to where the peer has room.
    window: u64,
    capacity: usize,
    /// No more will be written.
    pub(super) ending: bool,
    end_sent: bool,
    pub(super) backoff: u32,
    /// What was sent before a retransmission, until all of it is acknowledged.
    recover: Option<u64>,
    round: u32,
    /// Smoothed round-trip time and its deviation (RFC 6298), in nanoseconds.
    measured: Option<(u64, u64)>,
    pub(super) stuck_since: Option<Time>,
    pub(super) give_up: Duration,
    short: f64,
    waited_for: bool,
}

impl Output {
    pub(super) fn new(limits: &HostLimits) -> Self {
        Self {
            waiting: Rope::default(),
            flight: VecDeque::new(),
            unacknowledged: 0,
            sent: 0,
            window: 0,
            capacity: limits.send_buffer.max(1),
            ending: false,
            end_sent: false,
            backoff: 0,
            recover: None,
            round: 0,
            measured: None,
            stuck_since: None,
            give_up: limits.give_up,
            short: limits.short_sends,
            waited_for: false,
        }
    }

    /// Bytes that were written and not acknowledged, and our end.
    pub(super) fn unacknowledged(&self) -> usize {
        (self.sent - self.unacknowledged) as usize
            + self.waiting.len()
            + usize::from(self.ending && !self.end_sent)
    }

    pub(super) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.unacknowledged())
    }

    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
    }

    /// Our end was sent, and acknowledged with everything before it.
    pub(super) fn is_finished(&self) -> bool {
        self.end_sent && self.flight.is_empty()
    }

    /// The peer has no room for what waits, and nothing is on its way that would tell when it has.
    pub(super) fn is_blocked(&self) -> bool {
        self.flight.is_empty() && !self.waiting.is_empty()
    }

    /// A segment without bytes, to which the peer answers by what it has got.
    pub(super) fn probe(&self) -> Signal {
        Signal::Data { at: self.sent, bytes: Bytes::new(), last: false }
    }

    pub(super) fn measure(&mut self, took: Duration) {
        let took = nanoseconds(took);
        self.measured = Some(match self.measured {
            None => (took, took / 2),
            Some((smooth, deviation)) => {
                ((7 * smooth + took) / 8, (3 * deviation + smooth.abs_diff(took)) / 4)
            }
        });
    }

    /// How long to wait for an acknowledgement.
    pub(super) fn patience(&self) -> Duration {
        let first = match self.measured {
            None => RETRY_FIRST,
            Some((smooth, deviation)) => Duration::from_nanos(smooth + 4 * deviation).max(RETRY_MIN),
        };
        first.saturating_mul(1 << self.backoff.min(16)).min(RETRY_MAX)
    }

    /// Everything in flight may be lost. Begins to send it again, from its beginning.
    pub(super) fn start_over(&mut self) -> Option<Signal> {
        self.recover = Some(self.sent);
        self.round += 1;
        self.next_again()
    }

    /// The next segment that was not sent again in this round.
    fn next_again(&mut self) -> Option<Signal> {
        let (recover, round) = (self.recover?, self.round);
        // Those that were are in front.
        let again = self.flight.iter_mut().find(|flight| flight.round < round)?;
        if again.at >= recover {
            return None;
        }
        again.round = round;
        Some(Signal::Data { at: again.at, bytes: again.bytes.clone(), last: again.last })
    }

    /// The next segment that was never sent, if the peer has room for it.
    fn next_new(&mut self) -> Option<Signal> {
        let room = self.window.saturating_sub(self.sent).min(SEGMENT_MAX as u64) as usize;
        let last = self.waiting.is_empty();
        if last && (!self.ending || self.end_sent) || !last && room == 0 {
            return None;
        }
        let bytes = self.waiting.take(room);
        let at = self.sent;
        self.sent += bytes.len() as u64 + u64::from(last);
        self.end_sent |= last;
        let flight =
            Flight { at, bytes: bytes.clone(), last, departs: Time::START, round: self.round_of_new() };
        self.flight.push_back(flight);
        Some(Signal::Data { at, bytes, last })
    }

    /// What is sent for the first time during a recovery need not be sent again in it.
    fn round_of_new(&self) -> u32 {
        if self.recover.is_some() { self.round } else { 0 }
    }

    /// Takes what was acknowledged out of the flight. Returns whether there was anything, and when the last of it had left, if that
    /// tells how long an acknowledgement takes: not if something before it was lost, which it had to wait for.
    fn acknowledge(&mut self, up_to: u64) -> (bool, Option<Time>) {
        let (before, measures) = (self.unacknowledged, self.recover.is_none());
        let mut departed = None;
        while let Some(flight) = self.flight.front() {
            if flight.at + flight.bytes.len() as u64 + u64::from(flight.last) > up_to {
                break;
            }
            departed = Some(flight.departs);
            self.flight.pop_front();
        }
        self.unacknowledged = self.unacknowledged.max(up_to.min(self.sent));
        if self.recover.is_some_and(|recover| self.unacknowledged >= recover) {
            // What is left was sent in a recovery, and is sent again if the next one begins.
            self.recover = None;
            self.round = 0;
            self.flight.iter_mut().for_each(|flight| flight.round = 0);
        }
        (self.unacknowledged > before, departed.filter(|_| measures))
    }

    /// There is so much room that writing is worth it, as the system sees it: a third.
    pub(super) fn is_writable(&self) -> bool {
        self.room() * 3 >= self.capacity
    }

    pub(super) fn discard(&mut self) {
        self.waiting.clear();
        self.flight.clear();
        self.unacknowledged = self.sent;
    }

    pub(super) fn widen(&mut self, window: u64) {
        if window > self.window && self.is_blocked() {
            self.backoff = 0;
        }
        self.window = self.window.max(window);
    }
}

impl Net {
    /// Takes as much of `data` as there is room for, sometimes less. Whoever wrote less than they had gets news when there is more room.
    pub(crate) fn send(&mut self, now: Time, id: StreamId, data: &mut impl Buf) -> Result<usize, Failure> {
        self.at(now);
        let end = self.held(id)?;
        if let Some(error) = end.error.take() {
            return Err(error);
        }
        if end.state == State::Broken || end.output.ending {
            return Err(Failure::BrokenPipe);
        }
        let asked = data.remaining();
        if asked == 0 {
            return Ok(0);
        }
        let room = if end.state == State::Open { end.output.room() } else { 0 };
        if room == 0 {
            end.output.waited_for = true;
            return Err(Failure::WouldBlock);
        }
        let (mut n, short, side) = (asked.min(room), end.output.short, end.side);
        if n > 1 && self.chance.chance(short) {
            n = self.chance.between(1..=n as u64) as usize;
        }
        let bytes = data.copy_to_bytes(n);
        self.accounts.wrote(side, &bytes);
        let end = self.held(id)?;
        end.output.waiting.push(bytes);
        end.output.waited_for = n < asked;
        if n < asked && n < room {
            let soon = Duration::from_micros(self.chance.between(1..=1_000));
            self.agenda.plan(now + soon, Due::WriteAgain(id));
        }
        self.pump(id);
        Ok(n)
    }

    pub(in crate::sim::net) fn write_again(&mut self, id: StreamId) {
        if let Some(end) = self.end_mut(id)
            && end.output.waited_for
            && end.output.room() > 0
        {
            end.output.waited_for = false;
            self.news.push(News::Writable(id));
        }
    }

    /// Sends what waits, as far as the peer has room, and sees to it that it is sent again.
    pub(super) fn pump(&mut self, id: StreamId) {
        while let Some(end) = self.end_mut(id).filter(|end| end.state == State::Open)
            && let Some(signal) = end.output.next_new()
        {
            let departs = self.transmit(id, signal);
            if let Some(end) = self.end_mut(id)
                && let Some(flight) = end.output.flight.back_mut()
            {
                flight.departs = departs;
            }
        }
        let now = self.now;
        if let Some(end) = self.end_mut(id).filter(|end| end.state == State::Open) {
            if end.output.flight.is_empty() && end.output.waiting.is_empty() {
                (end.retry_at, end.output.stuck_since) = (None, None);
            } else if end.retry_at.is_none() {
                end.wait_for_acknowledgement(now);
            }
        }
        self.arm(id);
    }

    /// The peer tells what it has got and how much room it has.
    pub(super) fn acknowledged(&mut self, id: StreamId, up_to: u64, window: u64) {
        let now = self.now;
        let Some(end) = self.end_mut(id) else { return };
        end.output.widen(window);
        let (progress, departed) = end.output.acknowledge(up_to);
        if let Some(departed) = departed {
            end.output.measure(now - departed);
        }
        if progress || end.output.flight.is_empty() {
            // Whoever answers is alive, with or without room.
            (end.retry_at, end.output.stuck_since) = (None, None);
        }
        if progress {
            end.output.backoff = 0;
            let output = &mut end.output;
            let writable = output.waited_for && !output.ending && output.is_writable();
            output.waited_for &= !writable;
            let again = [output.next_again(), output.next_again()];
            if writable && end.owner == super::Owner::Program {
                self.news.push(News::Writable(id));
            }
            for signal in again.into_iter().flatten() {
                self.transmit(id, signal);
            }
        }
        self.pump(id);
    }
}

impl End {
    pub(super) fn wait_for_acknowledgement(&mut self, now: Time) {
        let since = *self.output.stuck_since.get_or_insert(now);
        let sent = self.output.flight.front().map_or(now, |flight| flight.departs.max(now));
        self.retry_at = Some((sent + self.output.patience()).min((since + self.output.give_up).max(now)));
    }
}
