//! Ends a connection in order when it is old.
//!
//! ```text
//!   active ───── age, less what chance takes off ─────▶ ShuttingDown ── grace ──▶ closed, if it is still there
//! ```

use crate::idle::Limit;
use netwright_core::{
    CloseCause, Event, Fault, Filter, FilterContext, Place, ShuttingDown, StageTimer, world,
};
use std::{error::Error, fmt, time::Duration};

/// Ends a connection in order when it is old, so that clients come back, to another server behind the same name, say.
///
/// When its time has come, the stages behind it are told [`ShuttingDown`], as by a server that
/// [drains](https://docs.rs/netwright/latest/netwright/server/struct.Server.html#method.drain): HTTP/1.1 answers what was asked with
/// `connection: close`, WebSocket closes with 1001, an async function hears it by [`Peer::shutting_down`](netwright_core::Peer::shutting_down).
/// What is not over after the [grace](Self::grace), ten seconds if nothing else is said, is closed, with [`LifetimeOver`]. Put it in front of the stages that are to
/// hear of it.
///
/// Connections that came together would go together, and come back together: chance takes up to a tenth off each one's
/// [age](Self::of); see [`jitter`](Self::jitter).
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
/// use netwright_handler::{Lifetime, LifetimeOver};
/// use std::time::Duration;
///
/// let hour = Duration::from_secs(3600);
/// let stages = pipeline().filter(Lifetime::of(hour).jitter(0.0).grace(Duration::from_secs(5)));
/// let mut channel = EmbeddedChannel::new(stages.handle(|cx, bytes| cx.write_and_flush(bytes))); // does not listen
/// channel.advance(hour + Duration::from_secs(4));
/// assert!(channel.is_open());
/// channel.advance(Duration::from_secs(1));
/// match channel.channel().close_cause() {
///     Some(CloseCause::Fault(fault)) => assert!(fault.downcast_ref::<LifetimeOver>().is_some()),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug)]
#[doc(alias = "max_connection_age")]
pub struct Lifetime {
    age: Limit,
    /// From 0 to 1.
    jitter: f64,
    grace: Duration,
    /// It was told that the end is near.
    warned: bool,
}

/// Why a channel was closed by its [`Lifetime`]: its time was over, and so was the time to finish in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifetimeOver {
    /// The age that channels have at most, before they are told to finish.
    pub age: Duration,
    /// The time that they have then.
    pub grace: Duration,
}

impl fmt::Display for LifetimeOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { age, grace } = self;
        write!(f, "connections live for {age:?}, and this one did not finish within {grace:?} after that")
    }
}

impl Error for LifetimeOver {}

const GRACE: Duration = Duration::from_secs(10);
/// A tenth.
const JITTER: f64 = 0.1;

impl Lifetime {
    /// Connections grow at most this old before they are told to finish. Zero is no limit.
    pub fn of(age: Duration) -> Self {
        Self { age: Limit::new(age), jitter: JITTER, grace: GRACE, warned: false }
    }

    /// Up to this part of the age is taken off by chance, for each connection anew; 0.1 if nothing else is said. What is not between 0 and 1 counts as the
    /// nearer of the two.
    #[must_use]
    pub fn jitter(mut self, part: f64) -> Self {
        self.jitter = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
        self
    }

    /// The time for finishing. With zero, connections are closed as soon as they have been told.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// An age that chance has taken something off.
    fn draw(&self) -> Option<Duration> {
        let age = self.age.get()?;
        let drawn = f64::from(world::random() as u32) / f64::from(u32::MAX);
        let off = age.as_nanos() as f64 * self.jitter * drawn;
        Some(age.saturating_sub(Duration::from_nanos(off as u64)))
    }
}

impl<R: 'static, W: 'static, P: Place> Filter<R, W, P> for Lifetime {
    const PASSES: bool = true;

    fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {
        if let Some(age) = self.draw() {
            cx.arm(age);
        }
        cx.fire_active();
    }

    fn timer(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, _: StageTimer) {
        if std::mem::replace(&mut self.warned, true) {
            let over = LifetimeOver { age: self.age.get().unwrap_or_default(), grace: self.grace };
            return cx.close_because(CloseCause::Fault(Fault::from(over)));
        }
        cx.arm(self.grace);
        cx.fire_event(Event::new(ShuttingDown));
    }

    fn start_over(&mut self) -> bool {
        self.warned = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_takes_off_no_more_than_it_may_and_not_always_the_same() {
        let hour = Duration::from_secs(3600);
        let ages: Vec<Duration> = (0..200).filter_map(|_| Lifetime::of(hour).jitter(0.25).draw()).collect();
        assert!(ages.iter().all(|age| *age <= hour && *age >= hour * 3 / 4), "{ages:?}");
        assert!(ages.iter().any(|age| *age < hour * 7 / 8) && ages.iter().any(|age| *age > hour * 7 / 8));
    }

    #[test]
    fn numbers_that_are_no_part_count_as_the_nearest_one() {
        for (part, jitter) in [(-1.0, 0.0), (f64::NAN, 0.0), (7.0, 1.0)] {
            assert_eq!(Lifetime::of(Duration::from_secs(1)).jitter(part).jitter, jitter);
        }
        assert!(Lifetime::of(Duration::MAX).jitter(1.0).draw().is_some(), "nothing overflows");
        assert_eq!(Lifetime::of(Duration::ZERO).draw(), None);
    }
}
