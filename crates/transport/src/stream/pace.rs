//! A peer that does not take what waits for it.
//!
//! ```text
//!   a send is not taken as a whole ─▶ watched, by a timer ─▶ nothing waits any more: no longer watched
//!                                           │  ▲          ─▶ taken as fast as it has to be: watched on
//!                                           └──┘          ─▶ too far behind: cut, with a reset
//! ```
//! What a peer has taken is what the system has taken of us, less what it still keeps. The system takes the next bytes only
//! when a third of its buffer, which may be megabytes, is free again: without asking it, a peer that takes a hundred
//! kilobytes a second would seem to take nothing for a quarter of a minute.
//!
//! A timer costs a channel nothing while its peer takes everything at once, and at most three in the grace otherwise. The cut is
//! a reset, because the system would go on keeping those bytes for a peer that is no longer ours.

use super::Stream;
use netwright_core::{LeastRate, LocalLoop, Outbound, Pace, SourceTimer, driver::Token};
use std::time::{Duration, Instant};

/// The signal of our timer. Those of stages have the number of their stage in the upper half.
pub(super) const LOOK: u64 = u64::MAX - 1;

/// A channel whose peer did not take everything at once.
pub(super) struct Watched {
    pace: Pace,
    timer: SourceTimer,
    looked: Instant,
    /// Everything was taken since the last look.
    drained: bool,
}

/// What a look found.
pub(super) enum Found {
    /// Nothing waits.
    Nothing,
    /// The peer takes it; there is another look.
    Taken,
    /// The peer is too far behind.
    TooSlow,
}

impl Watched {
    /// Something waits from now on.
    #[cold]
    pub(super) fn begin(
        rate: LeastRate,
        stream: &mut impl Stream,
        outbound: &Outbound,
        local: &LocalLoop,
        token: Token,
    ) -> Box<Self> {
        let mut pace = Pace::new(rate, 0);
        // What it took in a rush lies in its system, whose window opens again when a good part of that has been read: that counts.
        pace.look(Duration::ZERO, taken(stream, outbound));
        let timer = local.arm(token, pace.next_look(), LOOK);
        Box::new(Self { pace, timer, looked: local.now(), drained: false })
    }

    /// The channel ends: no further look.
    pub(super) fn end(self, local: &LocalLoop) {
        local.disarm(self.timer);
    }

    /// Nothing waits at the moment.
    pub(super) fn drained(&mut self) {
        self.drained = true;
    }

    /// The timer is due.
    pub(super) fn look(
        &mut self,
        stream: &mut impl Stream,
        outbound: &Outbound,
        local: &LocalLoop,
        token: Token,
    ) -> Found {
        if !outbound.has_flushed() {
            return Found::Nothing;
        }
        let now = local.now();
        let passed = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        let in_time = self.pace.look(passed, taken(stream, outbound));
        // What waits now may have come a moment ago. And who has nothing on its way waits for us.
        if std::mem::take(&mut self.drained) || stream.on_its_way() == Some(0) {
            self.pace.caught_up();
        } else if !in_time {
            return Found::TooSlow;
        }
        self.timer = local.arm(token, self.pace.next_look(), LOOK);
        Found::Taken
    }
}

/// What the peer has taken, as far as the system tells.
fn taken(stream: &mut impl Stream, outbound: &Outbound) -> u64 {
    let on_its_way = stream.on_its_way().unwrap_or(0) as u64;
    outbound.taken_bytes().saturating_sub(on_its_way)
}
