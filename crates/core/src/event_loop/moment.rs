//! A point in time as a loop counts it: nanoseconds since the loop's start.
//!
//! A turn takes half a dozen differences of times. Of two `Instant`s one costs as much as a pipeline stage; of these, an
//! instruction. So an `Instant` becomes a [`Moment`] when it is read, and is one again only for others.

use std::time::{Duration, Instant};

/// A point in time of one loop, in the room of a number: what a stage notes with each message. See [`Context::moment`](crate::Context::moment).
///
/// ```
/// use netwright_core::{EmbeddedChannel, Filter, FilterContext, Moment, pipeline};
/// use std::{cell::Cell, rc::Rc, time::Duration};
///
/// /// How long the peer lets us wait between two messages.
/// struct Gap { last: Option<Moment>, longest: Rc<Cell<Duration>> }
///
/// impl<R: 'static, W: 'static> Filter<R, W> for Gap {
///     fn read(&mut self, cx: &mut FilterContext<'_, Self, R, W>, msg: R) {
///         let now = cx.moment();
///         if let Some(last) = self.last.replace(now) {
///             self.longest.set(self.longest.get().max(now.duration_since(last)));
///         }
///         cx.fire_read(msg);
///     }
/// }
///
/// let longest = Rc::default();
/// let gap = Gap { last: None, longest: Rc::clone(&longest) };
/// let mut channel = EmbeddedChannel::new(pipeline().filter(gap).handle(|_, _| {}));
/// channel.write_inbound("hello").advance(Duration::from_secs(7)).write_inbound("again");
/// assert_eq!(longest.get(), Duration::from_secs(7));
/// ```
// Nanoseconds since the start of a loop; 584 years fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

const PER_TICK: u64 = 1_000_000;
const TICKS_PER_SECOND: u64 = 1_000_000_000 / PER_TICK;

/// The first tick of a wheel that began at `origin` at which `deadline` has passed: rounded up, so that no timer is early. A
/// deadline that cannot be named (`None`) is the last tick, which no clock reaches.
pub(crate) fn tick_of(origin: Instant, deadline: Option<Instant>) -> u64 {
    let Some(deadline) = deadline else { return u64::MAX };
    let since = deadline.saturating_duration_since(origin);
    // A second is a whole number of ticks, so only its parts are rounded.
    let parts = u64::from(since.subsec_nanos()).div_ceil(PER_TICK);
    since.as_secs().saturating_mul(TICKS_PER_SECOND).saturating_add(parts)
}

impl Moment {
    /// The start of the loop, whichever it is.
    pub const START: Self = Self(0);

    /// The time from `earlier`, of the same loop, to this; none if it is not earlier.
    pub fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.since(earlier))
    }

    /// The moment `time` later; one that no clock reaches, if that cannot be named.
    #[must_use]
    pub fn saturating_add(self, time: Duration) -> Self {
        self.after(time)
    }

    pub(crate) fn new(origin: Instant, instant: Instant) -> Self {
        let since = instant.saturating_duration_since(origin);
        Self(since.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(since.subsec_nanos())))
    }

    /// Nanoseconds from `earlier` to this; none if it is not earlier.
    #[inline]
    pub(crate) fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `time` later.
    pub(crate) fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The last tick of the timers' wheel that is over.
    #[inline]
    pub(crate) fn tick(self) -> u64 {
        self.0 / PER_TICK
    }

    /// The first tick at which it has come.
    pub(crate) fn first_tick(self) -> u64 {
        self.0.div_ceil(PER_TICK)
    }

    /// How long until a tick; `None` if no clock reaches it.
    #[inline]
    pub(crate) fn until_tick(self, tick: u64) -> Option<Duration> {
        let at = tick.checked_mul(PER_TICK)?;
        Some(Duration::from_nanos(at.saturating_sub(self.0)))
    }

    pub(crate) fn instant(self, origin: Instant) -> Instant {
        origin + Duration::from_nanos(self.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_as_far_from_the_origin_as_its_instant() {
        let origin = Instant::now();
        let later = origin + Duration::new(7, 2_999_999);
        let moment = Moment::new(origin, later);
        assert_eq!(moment.instant(origin), later);
        assert_eq!(moment.tick(), 7002);
        assert_eq!(moment.since(Moment::new(origin, origin + Duration::from_secs(7))), 2_999_999);
        assert_eq!(Moment::new(later, origin).since(moment), 0, "before the start is the start");
    }

    #[test]
    fn a_deadline_is_the_first_tick_that_is_not_before_it() {
        let origin = Instant::now();
        let tick = |after: Duration| tick_of(origin, Some(origin + after));
        assert_eq!(tick(Duration::ZERO), 0);
        assert_eq!(tick(Duration::from_nanos(1)), 1);
        assert_eq!(tick(Duration::from_millis(7)), 7);
        assert_eq!(tick(Duration::new(7, 1_000_001)), 7002);
        assert_eq!(tick(Duration::new(7, 999_999_999)), 8000);
        assert_eq!(
            tick_of(origin + Duration::from_secs(1), Some(origin)),
            0,
            "before the start is the start"
        );
        assert_eq!(tick_of(origin, None), u64::MAX);
    }

    #[test]
    fn ticks_are_as_far_as_they_are_and_none_lies_in_the_past() {
        let origin = Instant::now();
        let moment = Moment::new(origin, origin + Duration::from_micros(1500));
        assert_eq!(moment.until_tick(2), Some(Duration::from_micros(500)));
        assert_eq!(moment.until_tick(1), Some(Duration::ZERO));
        assert_eq!(moment.until_tick(u64::MAX), None);
    }
}
