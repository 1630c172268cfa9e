//! Whether the peer is still there: it says something now and then, and takes what waits for it.
//!
//! ```text
//!   ├─────── ping_after ──────┤                     nothing is heard: a ping, and pong_deadline for an answer
//!   ├───────── x              ┤                     something is: the time begins anew, and is looked at in quarters,
//!              ├─────┼─────┼─────┼─────┤            so that a ping is a quarter late at most
//! ```
//! A clock that is read for each message would be exact, and cost more than the message; looks that are always quarters would wake
//! idle connections four times as often.
//!
//! Always true:
//! 1. Who is not listened to is not blamed for silence: a pause counts as if something was heard.
//! 2. Who is listened to or not, a peer for which something waits takes some of it within ten times `ping_after`, or is
//!    given up. No pause excuses that: it may be the reason for the pause. So long, because the system takes more of us only
//!    when a good part of its buffer is free, and a slow peer is not one that is gone; one that takes nothing at all is cut
//!    before, where the bytes leave (`LeastRate`).
//!
//! No clock and no channel: `due` is told what there is to see, and says what to do.

use std::time::Duration;

/// In so many parts a silence is measured.
const PARTS: u8 = 4;
/// Parts without anything being taken that are too many.
const STUCK_MAX: u16 = 10 * PARTS as u16;

/// What is known of the peer.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Something has come since the last look.
    heard: bool,
    /// Why the deadline runs, if it does.
    deadline: Option<Suspicion>,
    /// Parts of the time that the next look closes.
    parts: u8,
    /// Parts without a sound.
    silent: u8,
    /// Parts in which nothing of what waits was taken.
    stuck: u16,
    /// Whether something waited at the last look, and how much had been taken until then.
    waited: bool,
    taken: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suspicion {
    Silent,
    Stuck,
}

/// What there is to see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// Whether nobody listens to the peer.
    pub(crate) paused: bool,
    /// Whether something waits for the peer to take it.
    pub(crate) waits: bool,
    /// Bytes that were written so far.
    pub(crate) written: u64,
    /// How many of them are not taken. What lies between may count some more for each message, or for those that it makes of
    /// them; what was taken is the difference, which grows by whatever is taken, and by nothing else.
    pub(crate) pending: u64,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Look again after this time.
    Look(Duration),
    /// Send a ping, and look again after this time.
    Ping(Duration),
    /// The peer is gone.
    GiveUp,
}

impl Watch {
    /// Something has come. True if the look that is due should be put off by [`first`](Self::first).
    #[inline]
    pub(crate) fn hears(&mut self) -> bool {
        self.heard = true;
        self.parts == PARTS
    }

    /// Begins; when to look first.
    pub(crate) fn begin(&mut self, ping_after: Duration) -> Duration {
        (self.heard, self.deadline, self.silent, self.parts) = (false, None, 0, PARTS);
        ping_after
    }

    /// The first that was heard since it began: silence begins now. When to look first.
    pub(crate) fn first(&mut self, ping_after: Duration) -> Duration {
        (self.heard, self.parts) = (false, 1);
        ping_after / u32::from(PARTS)
    }

    /// A pong has come: if one was waited for, silence begins anew, now.
    pub(crate) fn answered(&mut self, ping_after: Duration) -> Option<Duration> {
        (self.deadline == Some(Suspicion::Silent)).then(|| self.begin(ping_after))
    }

    /// The time of the last answer is over.
    pub(crate) fn due(&mut self, seen: Seen, ping_after: Duration, pong_deadline: Duration) -> Next {
        let heard = std::mem::take(&mut self.heard) || seen.paused;
        let total = seen.written.cast_signed() - seen.pending.cast_signed();
        let taken = !seen.waits || !self.waited || total > self.taken;
        (self.waited, self.taken) = (seen.waits, total);
        match self.deadline.take() {
            Some(Suspicion::Silent) if !heard => return Next::GiveUp,
            Some(Suspicion::Stuck) if !taken => return Next::GiveUp,
            _ => {}
        }
        self.silent = if heard { 0 } else { self.silent + self.parts };
        self.stuck = if taken { 0 } else { self.stuck + u16::from(self.parts) };
        self.parts = 0; // unless this look is followed by one that closes a part
        if self.silent >= PARTS {
            self.deadline = Some(Suspicion::Silent);
            return Next::Ping(pong_deadline);
        }
        if self.stuck >= STUCK_MAX {
            self.deadline = Some(Suspicion::Stuck);
            return Next::Look(pong_deadline);
        }
        self.parts = 1;
        Next::Look(ping_after / u32::from(PARTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: Duration = Duration::from_secs(20);
    const PONG: Duration = Duration::from_secs(5);
    const QUARTER: Duration = Duration::from_secs(5);

    fn nothing() -> Seen {
        Seen { paused: false, waits: false, written: 0, pending: 0 }
    }

    /// So many bytes were written, and so many of them taken.
    fn seen(written: u64, taken: u64) -> Seen {
        Seen { paused: true, waits: written > taken, written, pending: written - taken }
    }

    fn due(watch: &mut Watch, seen: Seen) -> Next {
        watch.due(seen, PING, PONG)
    }

    #[test]
    fn silence_is_measured_in_quarters_once_something_was_heard() {
        let mut watch = Watch::default();
        assert_eq!(watch.begin(PING), PING);
        assert!(watch.hears(), "the first");
        assert_eq!(watch.first(PING), QUARTER);
        assert!(!watch.hears());
        for _ in 0..4 {
            assert_eq!(due(&mut watch, nothing()), Next::Look(QUARTER));
        }
        assert_eq!(due(&mut watch, nothing()), Next::Ping(PONG));
        assert_eq!(due(&mut watch, nothing()), Next::GiveUp);
    }

    #[test]
    fn an_answer_begins_the_silence_anew_at_its_own_time() {
        let mut watch = Watch::default();
        watch.begin(PING);
        assert_eq!(watch.answered(PING), None, "nobody had asked");
        assert_eq!(due(&mut watch, nothing()), Next::Ping(PONG));
        watch.hears();
        assert_eq!(watch.answered(PING), Some(PING));
        assert_eq!(due(&mut watch, nothing()), Next::Ping(PONG));
    }

    #[test]
    fn who_takes_nothing_is_given_up_whatever_it_sends_and_whether_we_listen() {
        let mut watch = Watch::default();
        watch.begin(PING);
        watch.hears();
        watch.first(PING);
        assert_eq!(
            due(&mut watch, seen(1000, 900)),
            Next::Look(QUARTER),
            "it may have been written just now"
        );
        for more in 0..u64::from(STUCK_MAX) - 1 {
            watch.hears();
            assert_eq!(due(&mut watch, seen(1000 + more, 900)), Next::Look(QUARTER));
        }
        watch.hears();
        assert_eq!(due(&mut watch, seen(1100, 900)), Next::Look(PONG));
        watch.hears();
        assert_eq!(due(&mut watch, seen(1100, 900)), Next::GiveUp);
    }

    #[test]
    fn who_takes_a_little_now_and_then_stays() {
        let mut watch = Watch::default();
        watch.begin(PING);
        for look in 0..500 {
            let taken = look / 4;
            assert_ne!(due(&mut watch, seen(1000 + taken, taken)), Next::GiveUp, "as much waits as before");
        }
    }

    #[test]
    fn what_messages_are_counted_for_beside_their_bytes_does_not_matter() {
        let mut watch = Watch::default();
        watch.begin(PING);
        // A hundred short messages count for ten times their bytes, and one after the other is taken, one in four looks.
        for look in 0..300 {
            let seen = Seen { paused: true, waits: true, written: 1000, pending: 10_000 - 100 * (look / 4) };
            assert_ne!(due(&mut watch, seen), Next::GiveUp, "at look {look}");
        }
    }

    #[test]
    fn who_is_not_listened_to_is_not_blamed_for_silence() {
        let mut watch = Watch::default();
        watch.begin(PING);
        for _ in 0..100 {
            assert_eq!(due(&mut watch, seen(100, 100)), Next::Look(QUARTER));
        }
    }
}
