//! What has arrived at one end and was not read.

use super::{Signal, State};
use crate::sim::net::{Failure, HostLimits, Net, StreamId, Time, account::Ending, rope::Rope};
use bytes::Bytes;
use std::collections::BTreeMap;

/// What one receive brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// None at all: the end.
    pub(crate) bytes: Bytes,
    /// Another receive would bring something at once. If not, there will be news.
    pub(crate) more: bool,
}

#[derive(Debug)]
pub(super) struct Input {
    ready: Rope,
    /// The number of the next byte that is expected.
    next: u64,
    /// How many were read.
    read: u64,
    /// What came behind something that was lost.
    early: BTreeMap<u64, (Bytes, bool)>,
    ended: bool,
    capacity: usize,
    /// How far the peer may send, as it was told last.
    advertised: u64,
    short: f64,
    /// The program waits for news.
    pub(super) waited_for: bool,
}

impl Input {
    pub(super) fn new(limits: &HostLimits) -> Self {
        Self {
            ready: Rope::default(),
            next: 0,
            read: 0,
            early: BTreeMap::new(),
            ended: false,
            capacity: limits.receive_buffer.max(1),
            advertised: 0,
            short: limits.short_receives,
            waited_for: true,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Everything up to the peer's end has arrived.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn widen(&mut self, capacity: usize) {
        self.capacity = self.capacity.max(capacity);
    }

    /// What the peer is told: up to where everything has come, and up to where there is room.
    pub(super) fn advertise(&mut self) -> (u64, u64) {
        self.advertised = self.read + self.capacity as u64;
        (self.next + u64::from(self.ended), self.advertised)
    }

    /// Whether there is so much more room than the peer knows that it should be told.
    fn owes_an_update(&self) -> bool {
        !self.ended
            && self.read + self.capacity as u64 - self.advertised >= (self.capacity as u64).div_ceil(2)
    }

    /// Takes what has arrived. Returns whether anything can be read, or has ended, that could not before.
    pub(super) fn arrived(&mut self, at: u64, bytes: Bytes, last: bool) -> bool {
        let len = bytes.len() as u64;
        if at > self.next {
            // Within what was advertised, so it is bounded.
            if len > 0 || last {
                self.early.insert(at, (bytes, last));
            }
            return false;
        }
        if at < self.next || self.ended {
            return false; // came before
        }
        self.accept(bytes, last);
        while let Some((bytes, last)) = self.early.remove(&self.next) {
            self.accept(bytes, last);
        }
        len > 0 || last
    }

    fn accept(&mut self, bytes: Bytes, last: bool) {
        self.next += bytes.len() as u64;
        self.ready.push(bytes);
        self.ended |= last;
    }

    /// Whether these bytes are ones that have not come before.
    pub(super) fn is_new(&self, at: u64, bytes: &Bytes) -> bool {
        at + bytes.len() as u64 > self.next
    }

    pub(super) fn discard_early(&mut self) {
        self.early.clear();
    }

    /// The connection is broken, and what was not read is gone. An end behind that is never told: there is a gap before it.
    pub(super) fn discard(&mut self) {
        self.ended &= self.ready.is_empty();
        self.ready.clear();
    }
}

impl Net {
    /// How many bytes have arrived and were not read.
    pub(crate) fn unread(&self, id: StreamId) -> usize {
        self.end(id).map_or(0, |end| end.input.ready.len())
    }

    /// The next bytes that have arrived, at most `max`. None at all: the peer sends no more.
    pub(crate) fn receive(&mut self, now: Time, id: StreamId, max: usize) -> Result<Received, Failure> {
        self.at(now);
        let end = self.held(id)?;
        let (broken, side) = (end.state == State::Broken, end.side);
        if end.input.is_empty() {
            if end.input.ended {
                self.accounts.told_the_end(side);
                return Ok(Received { bytes: Bytes::new(), more: false });
            }
            if broken {
                let why = end.error.take();
                self.accounts.ended(side, Ending::Broken(why.unwrap_or(Failure::ConnectionReset)));
                return why.map_or(Ok(Received { bytes: Bytes::new(), more: false }), Err);
            }
            end.input.waited_for = true;
            return Err(Failure::WouldBlock);
        }
        let (there, short) = (end.input.ready.len().min(max.max(1)), end.input.short);
        let n = if there > 1 && self.chance.chance(short) {
            self.chance.between(1..=there as u64) as usize
        } else {
            there
        };
        let end = self.held(id)?;
        let bytes = end.input.ready.take(n);
        end.input.read += n as u64;
        let more = !end.input.is_empty() || end.input.ended || broken;
        end.input.waited_for = !more;
        let update = !broken && end.input.owes_an_update();
        self.accounts.read(side, &bytes);
        if update {
            self.transmit(id, Signal::Ack);
        }
        Ok(Received { bytes, more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_early_or_twice_is_read_once_and_in_order() {
        let mut input = Input::new(&HostLimits::default());
        let piece = Bytes::from_static;
        assert!(!input.arrived(3, piece(b"def"), false), "there is a hole before it");
        assert!(!input.arrived(6, piece(b""), true), "and so before the end");
        assert!(input.arrived(0, piece(b"abc"), false));
        assert!(!input.arrived(3, piece(b"def"), false), "came before");
        assert_eq!((input.advertise().0, &input.ready.take(9)[..]), (7, &b"abcdef"[..]));
        assert!(input.has_ended() && input.early.is_empty());
    }
}
