//! Closes a channel whose peer does not take what is written.
//!
//! ```text
//!   unsent  0 ───▁▃▅▅▅▅▅▅▅▅▅▅▅    nothing leaves for `limit`: closed. Each byte that leaves begins it anew
//!   looks   │   │   │   │   │     every quarter of the limit, whether anything is written or not: a write touches no timer
//! ```
//! Always true: a limit is never over early, and is noticed at most a quarter late twice: when the backlog began, and when the time is over.

use crate::idle::Limit;
use netwright_core::{CloseCause, Filter, FilterContext, Moment, Place, StageTimer};
use std::time::Duration;

/// In so many parts a limit is measured.
const PARTS: u32 = 4;

/// Closes the channel, with [`CloseCause::TimedOut`], when its peer does not take what was written and flushed.
///
/// Slow is not stuck: the limit is for the time in which **nothing** leaves though something waits, and any byte that leaves begins it anew. A peer that
/// takes a byte now and then on purpose is cut by [`total`](Self::total), the time within which all that is flushed at one moment has to have left. What the
/// system takes from us counts as having left; see `docs/time-servers.md` for what it may keep.
///
/// Servers have a limit of this kind without any stage, by rate, which the system looks after
/// ([`LeastRate`](netwright_core::LeastRate)). This one is for a limit in time, and for clients.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
/// use netwright_handler::WriteTimeout;
/// use std::time::Duration;
///
/// let stages = pipeline().filter(WriteTimeout::after(Duration::from_secs(20)));
/// let mut channel = EmbeddedChannel::new(stages.handle(|cx, bytes| cx.write_and_flush(bytes)));
/// channel.advance(Duration::from_secs(3600)).write_inbound("hello").advance(Duration::from_secs(3600));
/// assert!(channel.is_open(), "nothing waits");
/// channel.block_output(true).write_inbound("hello").advance(Duration::from_secs(20));
/// assert!(channel.is_open(), "that something waits is found within a quarter of the limit");
/// channel.advance(Duration::from_secs(10));
/// assert!(matches!(channel.channel().close_cause(), Some(CloseCause::TimedOut(limit)) if limit.as_secs() == 20));
/// ```
///
/// What is found is at most half of the limit late, and never early. Zero is no limit.
#[derive(Debug)]
#[doc(alias = "WriteTimeoutHandler")]
pub struct WriteTimeout {
    limit: Limit,
    total: Limit,
    watch: Option<Watch>,
}

/// What is known of what waits.
#[derive(Debug)]
struct Watch {
    /// What the last look saw.
    taken: u64,
    waits: bool,
    /// Since when something waits and nothing leaves.
    stuck: Moment,
    /// So much had been flushed at a moment, of which something still waits.
    mark: u64,
    marked: Moment,
}

/// What a look sees.
#[derive(Debug, Clone, Copy)]
struct Seen {
    now: Moment,
    taken: u64,
    unsent: u64,
}

impl Watch {
    fn begin(Seen { now, taken, unsent }: Seen) -> Self {
        Self { taken, waits: unsent > 0, stuck: now, mark: taken.saturating_add(unsent), marked: now }
    }

    /// How long nothing has left, and how long something has waited.
    fn look(&mut self, Seen { now, taken, unsent }: Seen) -> (Duration, Duration) {
        let waited = std::mem::replace(&mut self.waits, unsent > 0);
        let begins = unsent == 0 || !waited; // when it began, between two looks, nobody knows
        if begins || taken != self.taken {
            (self.taken, self.stuck) = (taken, now);
        }
        if begins || taken >= self.mark {
            (self.mark, self.marked) = (taken.saturating_add(unsent), now);
        }
        (now.duration_since(self.stuck), now.duration_since(self.marked))
    }
}

impl WriteTimeout {
    /// One that closes when nothing has left for this long, though something waits.
    pub fn after(limit: Duration) -> Self {
        Self { limit: Limit::new(limit), total: Limit::NONE, watch: None }
    }

    /// Also closes when what waited at one moment has not left as a whole after this time, however steadily a byte does now and then.
    ///
    /// ```
    /// use netwright_handler::WriteTimeout;
    /// use std::time::Duration;
    ///
    /// let timeout = WriteTimeout::after(Duration::from_secs(20)).total(Duration::from_secs(600));
    /// assert_eq!(timeout.limit(), Some(Duration::from_secs(20)));
    /// ```
    #[must_use]
    pub fn total(mut self, total: Duration) -> Self {
        self.total = Limit::new(total);
        self
    }

    /// The limit for the time in which nothing leaves, if there is one.
    pub fn limit(&self) -> Option<Duration> {
        self.limit.get()
    }

    /// The time between two looks; none if there is no limit.
    fn step(&self) -> Option<Duration> {
        let least = [self.limit.get(), self.total.get()].into_iter().flatten().min()?;
        Some(least / PARTS)
    }

    fn seen<R: 'static, W: 'static, P: Place>(cx: &FilterContext<'_, Self, R, W, P>) -> Seen {
        let glance = cx.glance();
        Seen { now: glance.moment(), taken: glance.taken_bytes(), unsent: glance.unsent_bytes() }
    }
}

impl<R: 'static, W: 'static, P: Place> Filter<R, W, P> for WriteTimeout {
    const PASSES: bool = true;

    fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {
        if let Some(step) = self.step() {
            self.watch = Some(Watch::begin(Self::seen(cx)));
            cx.look_at(cx.moment().saturating_add(step));
        }
        cx.fire_active();
    }

    fn inactive(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, cause: CloseCause) {
        self.watch = None;
        cx.fire_inactive(cause);
    }

    fn timer(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, _: StageTimer) {
        let (step, seen) = (self.step(), Self::seen(cx));
        let (Some(watch), Some(step)) = (&mut self.watch, step) else { return };
        let (stuck, waited) = watch.look(seen);
        let over = [(stuck, self.limit), (waited, self.total)]
            .into_iter()
            .find_map(|(time, limit)| limit.get().filter(|limit| time >= *limit));
        match over {
            Some(limit) => cx.close_because(CloseCause::TimedOut(limit)),
            None => cx.look_at(seen.now.saturating_add(step)),
        }
    }

    fn start_over(&mut self) -> bool {
        self.watch = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright_core::{EmbeddedChannel, pipeline};

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// An echo whose peer takes nothing.
    fn stuck(timeout: WriteTimeout) -> impl FnMut(u64) -> bool {
        let stages = pipeline().filter(timeout).handle(|cx, bytes| cx.write_and_flush(bytes));
        let mut channel = EmbeddedChannel::of(stages);
        channel.advance(secs(6)).block_output(true).write_inbound("hello");
        move |seconds| {
            channel.advance(secs(seconds));
            channel.is_open()
        }
    }

    #[test]
    fn a_peer_that_takes_nothing_is_cut_never_early_and_at_most_half_of_the_limit_late() {
        let mut goes_on = stuck(WriteTimeout::after(secs(20)));
        assert!(goes_on(20));
        assert!(!goes_on(10));
    }

    #[test]
    fn who_takes_a_byte_now_and_then_stays_unless_there_is_a_total() {
        let at = |now: u64, taken| {
            let now = Moment::START.saturating_add(secs(now));
            Seen { now, taken, unsent: 1000 - taken }
        };
        let mut watch = Watch::begin(at(0, 0));
        for look in 1..=100 {
            let (stuck, waited) = watch.look(at(5 * look, look));
            assert_eq!((stuck, waited), (secs(0), secs(5 * look)));
        }
        assert_eq!(watch.look(at(510, 100)).0, secs(10));
        assert_eq!(watch.look(Seen { unsent: 5, ..at(520, 1000) }), (secs(0), secs(0)), "others wait now");
    }

    #[test]
    fn zero_is_no_limit_and_arms_no_timer() {
        for timeout in
            [WriteTimeout::after(Duration::ZERO), WriteTimeout::after(Duration::MAX).total(Duration::ZERO)]
        {
            let mut goes_on = stuck(timeout);
            assert!(goes_on(1_000_000));
        }
    }
}
