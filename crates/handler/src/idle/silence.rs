//! How long nothing has happened, found out by looking now and then.
//!
//! ```text
//!   messages      ─ ▪ ─── ▪▪ ────────────────────▶ each is noted with its moment, and touches no timer
//!   looks         ├──── limit ────┤
//!                         ├──── limit ────┤         the look finds when silence began, and the next one is when it is over
//! ```
//! Always true:
//! 1. No limit is over early. Of what comes from the peer and of what is written the moment is known, so what is found out about them is not late
//!    either. Bytes that leave behind a backlog are only seen by a look: they count as if they had left just then.
//! 2. The peer's silence counts while somebody listens. If reading was stopped for a while, silence begins when a look finds that out. It is at
//!    most one limit late then, and never early.
//! 3. A peer that does not take what waits for it is not excused by a pause: it may be the reason for the pause.
//!
//! No channel and no clock: what there is to see comes as [`Seen`].

use netwright_core::{Glance, Moment};
use std::time::Duration;

/// What a look sees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) now: Moment,
    /// Whether the peer is listened to, and how often that has changed.
    pub(crate) reading: bool,
    pub(crate) changes: u32,
    /// Bytes that have left, and bytes that wait to.
    pub(crate) taken: u64,
    pub(crate) unsent: u64,
}

impl From<Glance<'_>> for Seen {
    fn from(glance: Glance<'_>) -> Self {
        Self {
            now: glance.moment(),
            reading: glance.is_reading(),
            changes: glance.reading_changes(),
            taken: glance.taken_bytes(),
            unsent: glance.unsent_bytes(),
        }
    }
}

/// Since when it is silent, in each direction.
#[derive(Debug)]
pub(crate) struct Silence {
    /// The last message of the peer, and how often reading had changed by then.
    heard: Moment,
    changes: u32,
    /// Since when silence counts that is the peer's own.
    listened: Moment,
    /// The last time that something was asked of the wire.
    asked: Moment,
    /// The last time that something was written, or left.
    said: Moment,
    /// What the last look saw.
    taken: u64,
    unsent: u64,
}

impl Silence {
    /// Silence begins.
    pub(crate) fn begin(seen: Seen) -> Self {
        let Seen { now, changes, taken, unsent, .. } = seen;
        Self { heard: now, changes, listened: now, asked: now, said: now, taken, unsent }
    }

    /// The peer has said something.
    #[inline]
    pub(crate) fn hears(&mut self, now: Moment, changes: u32) {
        (self.heard, self.changes) = (now, changes);
    }

    /// Something was asked of the wire.
    #[inline]
    pub(crate) fn asks(&mut self, now: Moment) {
        self.asked = now;
    }

    /// So much has left that there is room again.
    pub(crate) fn has_room(&mut self, now: Moment) {
        self.said = now;
    }

    /// Finds out what has happened since the last look.
    pub(crate) fn look(&mut self, seen: Seen) {
        self.listened = self.listened.max(self.heard);
        if !seen.reading || seen.changes != self.changes {
            (self.listened, self.changes) = (seen.now, seen.changes);
        }
        let backlog = self.unsent > 0 || seen.unsent > 0;
        let written = self.taken.wrapping_add(self.unsent) != seen.taken.wrapping_add(seen.unsent);
        if seen.taken != self.taken && backlog {
            self.said = seen.now;
        } else if written {
            self.said = self.said.max(self.asked);
        }
        (self.taken, self.unsent) = (seen.taken, seen.unsent);
    }

    /// Since when the peer has said nothing to somebody who listened, as of the last look.
    pub(crate) fn of_reads(&self) -> Moment {
        self.listened
    }

    /// Since when nothing was written and nothing has left.
    pub(crate) fn of_writes(&self) -> Moment {
        self.said
    }

    /// Since when nothing happened at all; of the peer's input there is `None` any more once it has ended.
    pub(crate) fn of_all(&self, input_ended: bool) -> Moment {
        match input_ended {
            true => self.said,
            false if self.unsent > 0 => self.heard.max(self.said),
            false => self.listened.max(self.said),
        }
    }
}

/// A limit of which zero is none, in the room of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(u64);

impl Limit {
    pub(crate) const NONE: Self = Self(0);

    /// A limit that takes longer than 584 years is that.
    pub(crate) fn new(limit: Duration) -> Self {
        Self(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time, if there is a limit.
    pub(crate) fn get(self) -> Option<Duration> {
        (self.0 > 0).then(|| Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A moment so many seconds after the start of a loop.
    fn at(seconds: u64) -> Moment {
        Moment::START.saturating_add(Duration::from_secs(seconds))
    }

    fn seen(seconds: u64) -> Seen {
        Seen { now: at(seconds), reading: true, changes: 0, taken: 0, unsent: 0 }
    }

    #[test]
    fn silence_begins_with_the_last_that_was_heard() {
        let mut silence = Silence::begin(seen(0));
        silence.hears(at(3), 0);
        silence.look(seen(10));
        assert_eq!(silence.of_reads(), at(3));
        assert_eq!(silence.of_writes(), at(0));
        assert_eq!(silence.of_all(false), at(3));
        assert_eq!(silence.of_all(true), at(0), "there is nothing to be heard any more");
    }

    #[test]
    fn who_is_not_listened_to_is_not_blamed_for_silence() {
        let mut silence = Silence::begin(seen(0));
        silence.look(Seen { reading: false, changes: 1, ..seen(10) });
        assert_eq!(silence.of_reads(), at(10));
        silence.look(Seen { changes: 2, ..seen(20) });
        assert_eq!(silence.of_reads(), at(20), "since when it is listened to again, nobody knows");
        silence.look(Seen { changes: 2, ..seen(30) });
        assert_eq!(silence.of_reads(), at(20));
    }

    #[test]
    fn a_message_that_stops_reading_for_its_own_time_is_heard_when_it_came() {
        let mut silence = Silence::begin(seen(0));
        silence.hears(at(3), 2); // a pause and what ended it are over when the message has passed
        silence.look(Seen { changes: 2, ..seen(10) });
        assert_eq!(silence.of_reads(), at(3));
    }

    #[test]
    fn what_is_written_and_leaves_at_once_was_said_when_it_was_written() {
        let mut silence = Silence::begin(seen(0));
        silence.asks(at(4));
        silence.look(Seen { taken: 100, ..seen(10) });
        assert_eq!(silence.of_writes(), at(4));
        silence.asks(at(12)); // a flush of nothing
        silence.look(Seen { taken: 100, ..seen(20) });
        assert_eq!(silence.of_writes(), at(4));
    }

    #[test]
    fn slow_is_not_idle_and_stuck_is() {
        let mut silence = Silence::begin(seen(0));
        silence.asks(at(1));
        for second in 1..=10 {
            silence.look(Seen { taken: 10 * second, unsent: 1000 - 10 * second, ..seen(10 * second) });
            assert_eq!(silence.of_writes(), at(10 * second));
        }
        silence.look(Seen { taken: 100, unsent: 900, ..seen(200) });
        assert_eq!(silence.of_writes(), at(100));
        assert_eq!(silence.of_all(false), at(100), "though reading may have stopped because of it");
        silence.look(Seen { taken: 1000, unsent: 0, ..seen(250) });
        assert_eq!(silence.of_writes(), at(250), "the last of it");
    }

    #[test]
    fn a_pause_excuses_nobody_who_does_not_take_what_waits() {
        let mut silence = Silence::begin(seen(0));
        silence.hears(at(5), 0);
        silence.look(Seen { reading: false, changes: 1, unsent: 10, ..seen(20) });
        assert_eq!(silence.of_reads(), at(20));
        assert_eq!(silence.of_all(false), at(5));
    }

    #[test]
    fn zero_is_no_limit_and_the_longest_time_is_one_that_no_clock_reaches() {
        assert_eq!(Limit::new(Duration::ZERO).get(), None);
        assert_eq!(Limit::new(Duration::from_secs(3)).get(), Some(Duration::from_secs(3)));
        let longest = Limit::new(Duration::MAX).get().unwrap();
        assert_eq!(at(7).saturating_add(longest), at(8).saturating_add(longest));
    }
}
