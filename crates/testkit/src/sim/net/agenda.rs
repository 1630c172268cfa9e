//! What is to happen, by time; what is due at the same time happens in the order in which it was planned.

use super::{ListenerId, LookupId, StreamId, Time, datagram::Packet, stream::Segment};
use std::collections::BTreeMap;

/// Where an entry of the agenda is found again.
pub(super) type Key = (Time, u64);

#[derive(Debug)]
pub(super) enum Due {
    /// A segment of a connection arrives.
    Segment(Box<Segment>),
    /// Something of a connection is due: a retransmission, a probe, the end of TIME_WAIT.
    Timer(StreamId),
    /// A connection shows up to whoever accepts.
    Show(ListenerId, StreamId),
    /// Whoever wrote less than they had may write again.
    WriteAgain(StreamId),
    /// A datagram arrives, or the news that nobody was there.
    Packet(Box<Packet>),
    /// A name server answers, or does not.
    Answer(LookupId),
}

#[derive(Debug, Default)]
pub(super) struct Agenda {
    entries: BTreeMap<Key, Due>,
    planned: u64,
}

impl Agenda {
    pub(super) fn plan(&mut self, at: Time, due: Due) -> Key {
        let key = (at, self.planned);
        self.planned += 1;
        self.entries.insert(key, due);
        key
    }

    /// How many there have ever been.
    pub(super) fn planned(&self) -> u64 {
        self.planned
    }

    pub(super) fn cancel(&mut self, key: Key) {
        self.entries.remove(&key);
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.entries.first_key_value().map(|((at, _), _)| *at)
    }

    /// The first entry that is due by `now`, and its time.
    pub(super) fn take(&mut self, now: Time) -> Option<(Time, Due)> {
        if self.next_due()? > now {
            return None;
        }
        self.entries.pop_first().map(|((at, _), due)| (at, due))
    }
}
