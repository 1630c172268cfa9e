//! A close that waits for the peer, on the loop.
//!
//! ```text
//!   close ─▶ our end is announced behind what was sent ─▶ the peer has acknowledged everything: closed
//!                     │  ▲                              ─▶ it has reset the connection: closed
//!                     └──┘ a timer, and every event     ─▶ the time is over: reset
//! ```
//! The system could wait by itself (`SO_LINGER` with a time), but it does so in `close`, which then blocks its thread even if
//! the socket does not. A thread for each such close would let peers that do not read start as many threads as they like, and
//! a pool of threads would be full of them, so that the time of the others is over before their turn. So the system is never
//! told of the time. What is not acknowledged can be asked for, in one call that does not block; nobody tells when that
//! changes, so it is asked for again after pauses that double: a peer that reads at once is waited for a millisecond, and
//! one that does not read costs a call in a quarter of a second.
//!
//! Nothing is read meanwhile, and nothing else happens to the channel: what was flushed before is with the system, or has failed
//! with the close. A loop that ends first leaves the rest to the system.

use super::Stream;
use netwright_core::{CloseCause, LocalLoop, SourceTimer, driver::Token};
use std::time::{Duration, Instant};

/// The signal of our timer. Those of stages have the number of their stage in the upper half, which is never 0.
pub(super) const LINGER: u64 = 0;

/// The first pause between two looks, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(250)];

/// A stream whose close waits.
pub(super) struct Lingering<S> {
    stream: S,
    cause: CloseCause,
    until: Option<Instant>,
    pause: Duration,
    timer: Option<SourceTimer>,
}

impl<S: Stream> Lingering<S> {
    /// Announces our end. `Err`: the connection is none any more.
    pub(super) fn begin(
        mut stream: S,
        cause: CloseCause,
        until: Option<Instant>,
    ) -> Result<Self, CloseCause> {
        stream.settle(false, false);
        match stream.shut_down_output() {
            Ok(()) => Ok(Self { stream, cause, until, pause: PAUSES[0], timer: None }),
            Err(_) => Err(cause),
        }
    }

    /// Our timer is due.
    pub(super) fn signal(&mut self) {
        self.timer = None;
    }

    /// Whether it is over; if not, the timer runs.
    pub(super) fn is_over(&mut self, local: &LocalLoop, token: Token) -> bool {
        // A connection that was reset keeps what was not acknowledged for ever.
        if self.stream.take_error().is_some() || self.stream.unacknowledged().unwrap_or(0) == 0 {
            return true;
        }
        let left = self.until.map_or(Duration::MAX, |until| until.saturating_duration_since(local.now()));
        if left.is_zero() {
            self.stream.reset_on_close();
            return true;
        }
        if self.timer.is_none() {
            self.timer = Some(local.arm(token, self.pause.min(left), LINGER));
            self.pause = (self.pause * 2).min(PAUSES[1]);
        }
        false
    }

    /// Closes the stream. Why, is given back.
    pub(super) fn end(self, local: &LocalLoop) -> CloseCause {
        if let Some(timer) = self.timer {
            local.disarm(timer);
        }
        self.cause
    }
}
