//! Tokens that channels take, each in its turn.
//!
//! ```text
//!   positions   0 ───────────── released ──────── a ─── b ─────── c ── reserved ─▶
//!                  has passed              grows   └ waits  └ waits  └ waits
//! ```
//! Every piece that wants to pass reserves as many positions as it is long, behind all that were reserved before. It may pass as soon as its first position is
//! released; positions are released at the rate. So what is longer than all that is saved passes too, and those behind it wait the longer; and when a piece will
//! pass is known when it asks: each channel has one timer of its own, nobody keeps a queue, and nothing depends on how many there are.
//! A channel asks for its next piece when it has passed this one, so those that wait take turns.
//!
//! Always true:
//! 1. `released` is at most `reserved + burst`: what nobody takes is not saved beyond that.
//! 2. A piece that gives up hands back what it has reserved: those behind it pass earlier by as much.
//! 3. No lock is held while a channel is woken.
//!
//! A bucket has no clock. A [change](Bucket::set) of the rate begins with the next look at it; everybody who waits is called because of it.

use super::{ShapeFigures, rate::Rate};
use std::{
    fmt,
    num::NonZeroU64,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The longest piece: what one channel passes before it is the next one's turn.
const PIECE_MAX: u64 = 64 << 10;
/// Below this, the cost of a piece does not depend on its length any more.
const PIECE_MIN: u64 = 256;
/// In so many turns a second passes, unless more channels wait.
const PIECES_PER_SECOND: u64 = 64;
/// No message counts for more: one that says so holds others up for a while, and not for ever.
pub(super) const HEAVIEST: u64 = 1 << 40;

/// A token bucket: lets pass what its [`Rate`] says, whoever shares it.
///
/// A clone is the same bucket: given to the stages of several channels, on any loops, it is what they may pass together. They take turns, so a channel with much to send holds none
/// up that has little.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::{Shape, shape::{Bucket, Rate}};
/// use std::time::Duration;
///
/// let all = Bucket::new("1k".parse::<Rate>()?);
/// let mut channel = EmbeddedChannel::new(pipeline().filter(Shape::bytes().write(&all)).handle(|_, _| {}));
/// channel.channel().write_and_flush(vec![b'x'; 100_000]);
/// channel.advance(Duration::from_secs(10));
/// let sent = channel.outbound_bytes().len();
/// assert!((9_900..10_300).contains(&sent));
/// assert_eq!(all.figures().channels_waiting, 1);
///
/// all.set(Rate::unlimited()); // takes effect at once, also for those who wait
/// assert_eq!(channel.run().outbound_bytes().len(), 100_000 - sent);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "TrafficShaping")]
#[derive(Clone)]
pub struct Bucket(pub(super) Arc<Shared>);

pub(super) struct Shared {
    level: Mutex<Level>,
    watchers: Mutex<Watchers>,
    /// What the rate was last set to; `u64::MAX` if there is no limit. For those who only want to know how long a piece is.
    per_second: AtomicU64,
    burst: AtomicU64,
    passed: AtomicU64,
    waiting: AtomicU64,
    channels_waiting: AtomicU64,
    /// How often a channel has asked for its turn.
    asked: AtomicU64,
}

struct Level {
    rate: Option<NonZeroU64>,
    burst: u64,
    reserved: u64,
    /// Released so far, at `since`.
    base: u64,
    /// None before the first look.
    since: Option<Instant>,
    /// Set, and not looked at since.
    next: Option<Rate>,
}

/// Who is called when the rate changes.
pub(super) type Waker = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Watchers {
    places: Vec<Option<Waker>>,
    free: Vec<usize>,
}

/// A place among those who are called; given up when it is dropped.
pub(super) struct Watch {
    bucket: Bucket,
    place: usize,
}

/// The first position of a piece that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

impl Bucket {
    /// A bucket of this rate, full at first.
    pub fn new(rate: impl Into<Rate>) -> Self {
        let rate = rate.into();
        let burst = rate.saved_at_most();
        let level = Level { rate: rate.limit(), burst, reserved: 0, base: burst, since: None, next: None };
        Self(Arc::new(Shared {
            level: Mutex::new(level),
            watchers: Mutex::default(),
            per_second: AtomicU64::new(rate.limit().map_or(u64::MAX, NonZeroU64::get)),
            burst: AtomicU64::new(burst),
            passed: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            channels_waiting: AtomicU64::new(0),
            asked: AtomicU64::new(0),
        }))
    }

    /// Changes the rate, for those who wait as well. What they had to wait for so far is not forgotten.
    pub fn set(&self, rate: impl Into<Rate>) {
        let rate = rate.into();
        self.level().next = Some(rate);
        self.0.per_second.store(rate.limit().map_or(u64::MAX, NonZeroU64::get), Relaxed);
        self.0.burst.store(rate.saved_at_most(), Relaxed);
        let wakers: Vec<Waker> = self.watchers().places.iter().flatten().cloned().collect();
        wakers.iter().for_each(|wake| wake());
    }

    /// How fast it lets things pass.
    pub fn rate(&self) -> Rate {
        let level = self.level();
        match level.next {
            Some(rate) => rate,
            None => level.rate.map_or(Rate::unlimited(), Rate::per_second).burst(level.burst),
        }
    }

    /// What has passed, and what waits.
    pub fn figures(&self) -> ShapeFigures {
        let Shared { passed, waiting, channels_waiting, asked, .. } = &*self.0;
        ShapeFigures {
            passed: passed.load(Relaxed),
            waiting: waiting.load(Relaxed),
            channels_waiting: channels_waiting.load(Relaxed),
            asked: asked.load(Relaxed),
        }
    }

    fn level(&self) -> MutexGuard<'_, Level> {
        self.0.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watchers(&self) -> MutexGuard<'_, Watchers> {
        self.0.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a piece may be: the shorter, the more channels take turns.
    pub(super) fn piece(&self) -> u64 {
        match self.0.per_second.load(Relaxed) {
            u64::MAX => u64::MAX,
            rate => {
                let least = (rate / PIECES_PER_SECOND).clamp(1, PIECE_MIN);
                let turns = self.0.channels_waiting.load(Relaxed).max(PIECES_PER_SECOND);
                let most = PIECE_MAX.min(self.0.burst.load(Relaxed).max(least));
                (rate / turns).clamp(least, most)
            }
        }
    }

    /// Reserves the positions of a piece. It may pass, or has to wait.
    pub(super) fn reserve(&self, now: Instant, amount: u64) -> Result<(), Ticket> {
        self.0.asked.fetch_add(1, Relaxed);
        self.level().reserve(now, amount)
    }

    /// Whether a piece may pass now, or how long it has to wait.
    pub(super) fn is_due(&self, now: Instant, ticket: Ticket) -> Result<(), Duration> {
        self.0.asked.fetch_add(1, Relaxed);
        self.level().is_due(now, ticket)
    }

    /// What was reserved does not pass.
    pub(super) fn give_back(&self, amount: u64) {
        let mut level = self.level();
        level.base = level.base.saturating_add(amount);
    }

    /// Whether it would let as much pass as a new one.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        let mut level = self.level();
        let released = level.look(now);
        level.rate.is_none() || released >= level.reserved.saturating_add(level.burst)
    }

    pub(super) fn count_passed(&self, amount: u64) {
        self.0.passed.fetch_add(amount, Relaxed);
    }

    pub(super) fn begin_to_wait(&self, amount: u64) {
        self.0.channels_waiting.fetch_add(1, Relaxed);
        self.0.waiting.fetch_add(amount, Relaxed);
    }

    pub(super) fn wait_with_more(&self, amount: u64) {
        self.0.waiting.fetch_add(amount, Relaxed);
    }

    pub(super) fn end_to_wait(&self, amount: u64) {
        self.0.channels_waiting.fetch_sub(1, Relaxed);
        self.0.waiting.fetch_sub(amount, Relaxed);
    }

    /// Has somebody called when the rate changes.
    pub(super) fn watch(&self, waker: Waker) -> Watch {
        let mut watchers = self.watchers();
        let place = match watchers.free.pop() {
            Some(place) => {
                watchers.places[place] = Some(waker);
                place
            }
            None => {
                watchers.places.push(Some(waker));
                watchers.places.len() - 1
            }
        };
        drop(watchers);
        Watch { bucket: self.clone(), place }
    }

    #[cfg(test)]
    pub(super) fn watched_by(&self) -> usize {
        self.watchers().places.iter().flatten().count()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watchers = self.bucket.watchers();
        let waker = watchers.places[self.place].take();
        watchers.free.push(self.place);
        drop(watchers);
        drop(waker); // it may be the last that is left of a channel
    }
}

impl Level {
    /// How far positions are released.
    fn look(&mut self, now: Instant) -> u64 {
        let since = *self.since.get_or_insert(now);
        let mut released = match self.rate {
            Some(rate) => self.base.saturating_add(passes_in(rate, now.saturating_duration_since(since))),
            None => self.reserved,
        };
        if let Some(next) = self.next.take() {
            if self.rate.is_none() {
                released = self.reserved.saturating_add(next.saved_at_most());
            }
            (self.rate, self.burst) = (next.limit(), next.saved_at_most());
            (self.base, self.since) = (released, Some(now.max(since)));
        }
        let most = self.reserved.saturating_add(self.burst);
        if released >= most {
            released = most;
            (self.base, self.since) = (most, Some(now.max(since)));
        }
        released
    }

    fn reserve(&mut self, now: Instant, amount: u64) -> Result<(), Ticket> {
        let released = self.look(now);
        if self.rate.is_none() {
            return Ok(());
        }
        let first = self.reserved;
        self.reserved = first.saturating_add(amount.min(HEAVIEST));
        if first <= released { Ok(()) } else { Err(Ticket(first)) }
    }

    fn is_due(&mut self, now: Instant, ticket: Ticket) -> Result<(), Duration> {
        let released = self.look(now);
        let Some(rate) = self.rate else { return Ok(()) };
        if ticket.0 <= released {
            return Ok(());
        }
        let since = self.since.unwrap_or(now);
        let nanos = (u128::from(ticket.0 - self.base) * NANOS).div_ceil(u128::from(rate.get()));
        let wait = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Err(wait.saturating_sub(now.saturating_duration_since(since)).max(Duration::from_nanos(1)))
    }
}

const NANOS: u128 = 1_000_000_000;

/// How much is released in some time.
fn passes_in(rate: NonZeroU64, time: Duration) -> u64 {
    let amount = u128::from(rate.get()).saturating_mul(time.as_nanos()) / NANOS;
    u64::try_from(amount).unwrap_or(u64::MAX)
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("rate", &self.rate()).field("figures", &self.figures()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn pieces_pass_in_the_order_in_which_they_asked_and_at_the_rate() {
        let bucket = Bucket::new(Rate::try_from(100).unwrap().burst(0));
        let start = Instant::now();
        assert_eq!(bucket.reserve(start, 50), Ok(()), "nothing is owed");
        let first = bucket.reserve(start, 100).unwrap_err();
        let second = bucket.reserve(start, 1).unwrap_err();
        assert_eq!(bucket.is_due(start, first), Err(secs(0.5)));
        assert_eq!(bucket.is_due(start, second), Err(secs(1.5)));
        assert_eq!(bucket.is_due(start + secs(0.5), first), Ok(()));
        assert_eq!(bucket.is_due(start + secs(0.5), second), Err(secs(1.0)));
    }

    #[test]
    fn what_gives_up_makes_others_pass_earlier() {
        let bucket = Bucket::new(Rate::try_from(100).unwrap().burst(0));
        let start = Instant::now();
        bucket.reserve(start, 100).unwrap();
        bucket.reserve(start, 100).unwrap_err();
        let last = bucket.reserve(start, 100).unwrap_err();
        bucket.give_back(100);
        assert_eq!(bucket.is_due(start, last), Err(secs(1.0)));
    }

    #[test]
    fn no_more_is_saved_than_the_burst_and_none_of_it_is_lost_to_looks() {
        let bucket = Bucket::new(Rate::try_from(1_000).unwrap().burst(100));
        let start = Instant::now();
        assert!(bucket.is_full(start));
        bucket.reserve(start, 100).unwrap();
        assert!(!bucket.is_full(start));
        for millis in 0..100 {
            assert!(!bucket.is_full(start + Duration::from_millis(millis)));
        }
        assert!(bucket.is_full(start + secs(0.1)));
        let late = start + secs(1000.0);
        bucket.reserve(late, 101).unwrap();
        bucket.reserve(late, 1).unwrap_err();
    }

    #[test]
    fn a_change_counts_from_the_next_look_on_and_keeps_what_was_waited() {
        let bucket = Bucket::new(Rate::try_from(10).unwrap().burst(0));
        let start = Instant::now();
        bucket.reserve(start, 100).unwrap();
        let ticket = bucket.reserve(start, 1).unwrap_err();
        bucket.set(Rate::try_from(1_000).unwrap());
        assert_eq!(bucket.is_due(start + secs(5.0), ticket), Err(secs(0.05)));
        assert_eq!(bucket.is_due(start + secs(5.05), ticket), Ok(()));
        bucket.set(Rate::unlimited());
        assert_eq!(bucket.reserve(start + secs(5.05), u64::MAX), Ok(()));
        bucket.set(Rate::try_from(10).unwrap());
        assert_eq!(bucket.reserve(start + secs(5.05), 1), Ok(()), "what passed without a limit is not owed");
    }

    #[test]
    fn amounts_and_times_beyond_all_measure_end_nothing() {
        let bucket = Bucket::new(Rate::try_from(1).unwrap());
        let start = Instant::now();
        (0..3).for_each(|_| assert!(bucket.reserve(start, u64::MAX).is_ok() || !bucket.is_full(start)));
        let ticket = bucket.reserve(start, u64::MAX).unwrap_err();
        assert!(bucket.is_due(start, ticket).unwrap_err() > secs(1e9));
        bucket.give_back(u64::MAX);
        let fast = Bucket::new(Rate::try_from(u64::MAX - 1).unwrap().burst(u64::MAX));
        (0..3).for_each(|_| fast.reserve(start + secs(1e9), HEAVIEST).unwrap());
        assert_eq!(fast.piece(), PIECE_MAX);
    }

    #[test]
    fn pieces_become_short_when_many_wait_and_at_low_rates() {
        let bucket = Bucket::new(Rate::try_from(1_000_000).unwrap());
        assert_eq!(bucket.piece(), 15_625);
        (0..1_000).for_each(|_| bucket.begin_to_wait(1));
        assert_eq!(bucket.piece(), 1_000);
        (0..9_000).for_each(|_| bucket.begin_to_wait(1));
        assert_eq!(bucket.piece(), PIECE_MIN);
        assert_eq!(Bucket::new(Rate::try_from(640).unwrap()).piece(), 10);
        assert_eq!(Bucket::new(Rate::try_from(1).unwrap()).piece(), 1);
        assert_eq!(Bucket::new(Rate::unlimited()).piece(), u64::MAX);
    }

    #[test]
    fn places_of_those_who_watch_are_used_again() {
        let bucket = Bucket::new(Rate::unlimited());
        let nobody: Waker = Arc::new(|| {});
        let first = bucket.watch(nobody.clone());
        let second = bucket.watch(nobody.clone());
        drop(first);
        let third = bucket.watch(nobody);
        assert_eq!((bucket.watched_by(), bucket.watchers().places.len()), (2, 2));
        drop((second, third));
        assert_eq!(bucket.watched_by(), 0);
    }
}
