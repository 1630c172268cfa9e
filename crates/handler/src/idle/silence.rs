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

use super::IdleKind;
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
    /// Whether anything waits at all: also what a stage nearer to the wire keeps, and lets leave piece by piece.
    pub(crate) pending: bool,
}

impl Seen {
    /// Bytes that have left, and that wait, in the room that an idle channel has for them. That there are some stays true.
    fn in_short(self) -> (u32, u32) {
        (self.taken as u32, u32::try_from(self.unsent).unwrap_or(u32::MAX))
    }
}

impl From<Glance<'_>> for Seen {
    fn from(glance: Glance<'_>) -> Self {
        Self {
            now: glance.moment(),
            reading: glance.is_reading(),
            changes: glance.reading_changes(),
            taken: glance.taken_bytes(),
            unsent: glance.unsent_bytes(),
            pending: glance.pending_bytes() > 0,
        }
    }
}

/// Since when the peer says nothing to somebody who listens.
#[derive(Debug)]
pub(crate) struct Listening {
    /// The last message of the peer, and how often reading had changed by then.
    heard: Moment,
    changes: u32,
    /// Since when silence counts that is the peer's own, as of the last look.
    since: Moment,
}

impl Listening {
    /// Silence begins.
    pub(crate) fn begin(seen: Seen) -> Self {
        Self { heard: seen.now, changes: seen.changes, since: seen.now }
    }

    /// The peer has said something.
    #[inline]
    pub(crate) fn hears(&mut self, glance: Glance<'_>) {
        self.hears_at(glance.moment(), glance.reading_changes());
    }

    #[inline]
    fn hears_at(&mut self, now: Moment, changes: u32) {
        (self.heard, self.changes) = (now, changes);
    }

    /// Since when it has said nothing.
    pub(crate) fn look(&mut self, seen: Seen) -> Moment {
        self.since = self.since.max(self.heard);
        if !seen.reading || seen.changes != self.changes {
            (self.since, self.changes) = (seen.now, seen.changes);
        }
        self.since
    }
}

/// When the last thing happened in each direction.
#[derive(Debug)]
pub(crate) struct Silence {
    /// The last message of the peer, and how often reading had changed by then, or by the last look.
    heard: Moment,
    changes: u32,
    /// How many bytes had left by the last look, as far as it fits: for whether that has changed.
    taken: u32,
    /// The last time that something was asked of the wire.
    asked: Moment,
    /// The last time that something was written, or left.
    said: Moment,
}

/// What looks have found that few channels have: most are read all the time, and their peers take at once what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unusual {
    /// Since when silence counts that is the peer's own, if reading was stopped since it was last heard.
    since: Moment,
    /// What the last look saw.
    unsent: u32,
    pending: bool,
    /// The peer has said that it sends no more.
    input_ended: bool,
}

impl Unusual {
    pub(crate) const NOTHING: Self =
        Self { since: Moment::START, unsent: 0, pending: false, input_ended: false };

    /// Silence begins.
    pub(crate) fn begin(&mut self, seen: Seen) {
        (_, self.unsent) = seen.in_short();
        self.pending = seen.pending;
    }

    /// The peer sends no more.
    pub(crate) fn input_ends(&mut self) {
        self.input_ended = true;
    }
}

impl Silence {
    /// Before the channel is active: nothing is measured.
    pub(crate) const NEVER: Self =
        Self { heard: Moment::START, changes: 0, taken: 0, asked: Moment::START, said: Moment::START };

    /// Silence begins.
    pub(crate) fn begin(seen: Seen) -> Self {
        let (taken, _) = seen.in_short();
        Self { heard: seen.now, changes: seen.changes, taken, asked: seen.now, said: seen.now }
    }

    /// The peer has said something, and perhaps was answered.
    #[inline]
    pub(crate) fn hears(&mut self, glance: Glance<'_>, wrote: bool) {
        let now = glance.moment();
        self.hears_at(now, glance.reading_changes());
        if wrote {
            self.asked = now;
        }
    }

    #[inline]
    fn hears_at(&mut self, now: Moment, changes: u32) {
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
    pub(crate) fn look(&mut self, unusual: &mut Unusual, seen: Seen) {
        if !seen.reading || seen.changes != self.changes {
            (unusual.since, self.changes) = (seen.now, seen.changes);
        } else if unusual.since <= self.heard {
            unusual.since = Moment::START;
        }
        let (taken, unsent) = seen.in_short();
        let backlog = unusual.unsent > 0 || unsent > 0 || unusual.pending || seen.pending;
        let written = self.taken.wrapping_add(unusual.unsent) != taken.wrapping_add(unsent);
        if taken != self.taken && backlog {
            self.said = seen.now;
        } else if written {
            self.said = self.said.max(self.asked);
        }
        self.taken = taken;
        (unusual.unsent, unusual.pending) = (unsent, seen.pending);
    }

    /// Since when there is silence of a kind, as of the last look. None for what there will be no more of.
    pub(crate) fn of(&self, kind: IdleKind, unusual: &Unusual) -> Option<Moment> {
        let since = unusual.since.max(self.heard);
        match kind {
            IdleKind::Read => (!unusual.input_ended).then_some(since),
            IdleKind::Write => Some(self.said),
            IdleKind::All if unusual.input_ended => Some(self.said),
            IdleKind::All if unusual.unsent > 0 => Some(self.heard.max(self.said)),
            IdleKind::All => Some(since.max(self.said)),
        }
    }
}

/// A limit of which zero is none, in half the room of a number: milliseconds, or seconds where those are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(u32);

/// Set for a limit in seconds.
const SECONDS: u32 = 1 << 31;

impl Limit {
    pub(crate) const NONE: Self = Self(0);

    /// A limit, rounded up. From 68 years on all are the same.
    pub(crate) fn new(limit: Duration) -> Self {
        let millis = limit.as_nanos().div_ceil(1_000_000);
        Self(match u32::try_from(millis) {
            Ok(millis) if millis < SECONDS => millis,
            _ => {
                let seconds = u32::try_from(millis.div_ceil(1000)).unwrap_or(u32::MAX);
                seconds.min(SECONDS - 1) | SECONDS
            }
        })
    }

    /// The time, if there is a limit.
    pub(crate) fn get(self) -> Option<Duration> {
        match self.0 {
            0 => None,
            millis if millis < SECONDS => Some(Duration::from_millis(millis.into())),
            seconds => Some(Duration::from_secs((seconds - SECONDS).into())),
        }
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
        Seen { now: at(seconds), reading: true, changes: 0, taken: 0, unsent: 0, pending: false }
    }

    /// Both parts.
    struct Watched {
        silence: Silence,
        unusual: Unusual,
    }

    impl Watched {
        fn begin() -> Self {
            Self { silence: Silence::begin(seen(0)), unusual: Unusual::NOTHING }
        }

        fn look(&mut self, seen: Seen) {
            self.silence.look(&mut self.unusual, seen);
        }

        fn of(&self, kind: IdleKind) -> Option<Moment> {
            self.silence.of(kind, &self.unusual)
        }
    }

    #[test]
    fn silence_begins_with_the_last_that_was_heard() {
        let mut silence = Watched::begin();
        silence.silence.hears_at(at(3), 0);
        silence.look(seen(10));
        assert_eq!(silence.of(IdleKind::Read), Some(at(3)));
        assert_eq!(silence.of(IdleKind::Write), Some(at(0)));
        assert_eq!(silence.of(IdleKind::All), Some(at(3)));
        silence.unusual.input_ends();
        assert_eq!(silence.of(IdleKind::Read), None, "there is nothing to be heard any more");
        assert_eq!(silence.of(IdleKind::All), Some(at(0)));
    }

    #[test]
    fn who_is_not_listened_to_is_not_blamed_for_silence() {
        let mut silence = Watched::begin();
        silence.look(Seen { reading: false, changes: 1, ..seen(10) });
        assert_eq!(silence.of(IdleKind::Read), Some(at(10)));
        silence.look(Seen { changes: 2, ..seen(20) });
        assert_eq!(
            silence.of(IdleKind::Read),
            Some(at(20)),
            "since when it is listened to again, nobody knows"
        );
        silence.look(Seen { changes: 2, ..seen(30) });
        assert_eq!(silence.of(IdleKind::Read), Some(at(20)));
    }

    #[test]
    fn a_message_that_stops_reading_for_its_own_time_is_heard_when_it_came() {
        let mut silence = Watched::begin();
        silence.silence.hears_at(at(3), 2); // a pause and what ended it are over when the message has passed
        silence.look(Seen { changes: 2, ..seen(10) });
        assert_eq!(silence.of(IdleKind::Read), Some(at(3)));
    }

    #[test]
    fn what_is_written_and_leaves_at_once_was_said_when_it_was_written() {
        let mut silence = Watched::begin();
        silence.silence.asks(at(4));
        silence.look(Seen { taken: 100, ..seen(10) });
        assert_eq!(silence.of(IdleKind::Write), Some(at(4)));
        silence.silence.asks(at(12)); // a flush of nothing
        silence.look(Seen { taken: 100, ..seen(20) });
        assert_eq!(silence.of(IdleKind::Write), Some(at(4)));
    }

    #[test]
    fn slow_is_not_idle_and_stuck_is() {
        let mut silence = Watched::begin();
        silence.silence.asks(at(1));
        for second in 1..=10 {
            silence.look(Seen { taken: 10 * second, unsent: 1000 - 10 * second, ..seen(10 * second) });
            assert_eq!(silence.of(IdleKind::Write), Some(at(10 * second)));
        }
        silence.look(Seen { taken: 100, unsent: 900, ..seen(200) });
        assert_eq!(silence.of(IdleKind::Write), Some(at(100)));
        assert_eq!(silence.of(IdleKind::All), Some(at(100)), "though reading may have stopped because of it");
        silence.look(Seen { taken: 1000, unsent: 0, ..seen(250) });
        assert_eq!(silence.of(IdleKind::Write), Some(at(250)), "the last of it");
    }

    #[test]
    fn a_pause_excuses_nobody_who_does_not_take_what_waits() {
        let mut silence = Watched::begin();
        silence.silence.hears_at(at(5), 0);
        silence.look(Seen { reading: false, changes: 1, unsent: 10, ..seen(20) });
        assert_eq!(silence.of(IdleKind::Read), Some(at(20)));
        assert_eq!(silence.of(IdleKind::All), Some(at(5)));
    }

    #[test]
    fn a_limit_is_kept_in_milliseconds_and_a_long_one_in_seconds() {
        for (given, kept) in [
            (Duration::ZERO, None),
            (Duration::from_nanos(1), Some(Duration::from_millis(1))),
            (Duration::from_micros(1500), Some(Duration::from_millis(2))),
            (Duration::from_secs(3), Some(Duration::from_secs(3))),
            (Duration::from_millis((1 << 31) - 1), Some(Duration::from_millis((1 << 31) - 1))),
            (Duration::from_millis(1 << 31), Some(Duration::from_secs(2_147_484))),
            (Duration::from_secs(1 << 31), Some(Duration::from_secs((1 << 31) - 1))),
            (Duration::MAX, Some(Duration::from_secs((1 << 31) - 1))),
        ] {
            assert_eq!(Limit::new(given).get(), kept, "{given:?}");
        }
    }

    #[test]
    fn what_an_idle_channel_keeps_of_it_is_small() {
        assert_eq!(size_of::<Silence>(), 32);
        assert_eq!(size_of::<super::super::Idle>(), 40);
    }
}
