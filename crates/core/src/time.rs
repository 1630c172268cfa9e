//! Time for futures on an event loop: sleep, interval, timeout, deadline.
//!
//! All of them keep the time of the loop on which they are polled first, so a loop with a clock moved by hand moves them
//! too. Dropping one takes its timer out of the loop.
//!
//! ```
//! use netwright_core::{EventLoop, time};
//! use std::time::Duration;
//!
//! let event_loop = EventLoop::new();
//! let mut slow = event_loop.spawn(async {
//!     let slow = time::sleep(Duration::from_secs(3600));
//!     time::timeout(Duration::from_millis(1), slow).await.is_err()
//! }).unwrap();
//! assert_eq!(slow.wait(), Ok(true));
//! ```

use crate::event_loop::{LocalLoop, Scheduled};
use pin_project_lite::pin_project;
use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

/// The present moment, by the clock of the calling thread's loop.
///
/// # Panics
/// Not on a loop's thread.
///
/// ```
/// use netwright_core::{ManualLoop, time};
/// use std::time::Duration;
///
/// let mut manual = ManualLoop::new();
/// let before = manual.enter(time::now);
/// manual.advance(Duration::from_secs(60));
/// assert_eq!(manual.enter(time::now) - before, Duration::from_secs(60));
/// ```
pub fn now() -> Instant {
    here("time::now").now()
}

fn here(what: &str) -> LocalLoop {
    LocalLoop::current().unwrap_or_else(|| panic!("{what} was used outside of an event loop"))
}

/// Resolves after `delay`. Never early.
///
/// Polling it panics outside of an event loop.
///
/// ```
/// use netwright_core::{ManualLoop, time};
/// use std::time::Duration;
///
/// let mut manual = ManualLoop::new();
/// let mut tea = manual.handle().spawn(async {
///     time::sleep(Duration::from_secs(180)).await;
///     "tea is ready"
/// }).unwrap();
/// manual.run_until_idle();
/// manual.advance(Duration::from_secs(180));
/// assert_eq!(tea.wait(), Ok("tea is ready"));
/// ```
pub fn sleep(delay: Duration) -> Sleep {
    Sleep { until: Until::After(delay) }
}

/// Resolves at `moment` by the loop's clock, or at once if that has passed.
///
/// Polling it panics outside of an event loop.
///
/// ```
/// use netwright_core::{EventLoop, time};
/// use std::time::Duration;
///
/// let event_loop = EventLoop::new();
/// let mut woke = event_loop.spawn(async {
///     let moment = time::now() + Duration::from_millis(1);
///     time::sleep_until(moment).await;
///     time::now() >= moment
/// })?;
/// assert_eq!(woke.wait(), Ok(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sleep_until(moment: Instant) -> Sleep {
    Sleep { until: Until::At(moment) }
}

/// Made by [`sleep`] and [`sleep_until`].
///
/// ```
/// use netwright_core::time::{Sleep, sleep};
/// use std::time::Duration;
///
/// let nap: Sleep = sleep(Duration::from_secs(60)); // begins when it is first polled
/// # drop(nap);
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct Sleep {
    until: Until,
}

enum Until {
    After(Duration),
    At(Instant),
    Running(Scheduled<()>),
    /// The loop takes no timers any more and is about to drop what waits for them.
    Never,
    Over,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let delay = match self.until {
            Until::After(delay) => Some(delay),
            Until::At(moment) => Some(moment.saturating_duration_since(here("time::sleep_until").now())),
            _ => None,
        };
        if let Some(delay) = delay {
            let scheduled = here("time::sleep").schedule(delay, || ());
            self.until = scheduled.map_or(Until::Never, Until::Running);
        }
        match &mut self.until {
            Until::Running(scheduled) => match ready!(Pin::new(scheduled).poll(cx)) {
                Ok(()) => {
                    self.until = Until::Over;
                    Poll::Ready(())
                }
                Err(_) => {
                    self.until = Until::Never;
                    Poll::Pending
                }
            },
            Until::Over => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Until::Running(scheduled) = &self.until {
            scheduled.cancel();
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.until {
            Until::After(_) | Until::At(_) => "not polled yet",
            Until::Running(_) => "sleeping",
            Until::Never => "loop ending",
            Until::Over => "over",
        };
        f.debug_tuple("Sleep").field(&state).finish()
    }
}

/// Ticks every `period`, the first time after one period. A tick that comes late does not move the ones after it; ticks
/// that were missed altogether are left out, not made up for.
///
/// # Panics
/// `period` is zero. [`Interval::tick`] panics outside of an event loop.
///
/// ```
/// use netwright_core::{EventLoop, time};
/// use std::time::Duration;
///
/// let event_loop = EventLoop::new();
/// let mut ticks = event_loop.spawn(async {
///     let mut interval = time::interval(Duration::from_millis(1));
///     let first = interval.tick().await;
///     interval.tick().await - first
/// })?;
/// assert!(ticks.wait()? >= Duration::from_millis(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "the period of an interval is zero, but must be longer");
    Interval { period, next: None, sleep: None }
}

/// Made by [`interval`].
///
/// ```
/// use netwright_core::time::{Interval, interval};
/// use std::time::Duration;
///
/// async fn three_times(mut every: Interval) {
///     for _ in 0..3 {
///         every.tick().await;
///     }
/// }
///
/// let _future = three_times(interval(Duration::from_secs(1)));
/// ```
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    /// When the next tick is due; the inner `None`: never, it is too far away for any clock.
    next: Option<Option<Instant>>,
    sleep: Option<Sleep>,
}

impl Interval {
    /// Waits for the next tick, and tells when it was due. Giving the wait up loses no tick.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// [`tick`](Self::tick) for code that polls.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let due = match self.next {
            Some(next) => next,
            None => *self.next.insert(now().checked_add(self.period)),
        };
        let Some(due) = due else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| sleep_until(due));
        ready!(Pin::new(sleep).poll(cx));
        self.sleep = None;
        self.next = Some(next_tick(due, now(), self.period));
        Poll::Ready(due)
    }
}

/// The first tick after `now` of those that follow `due`; `None` if no clock reaches it.
fn next_tick(due: Instant, now: Instant, period: Duration) -> Option<Instant> {
    let late = now.saturating_duration_since(due);
    if late < period {
        return due.checked_add(period);
    }
    let into_period = late.as_nanos() % period.as_nanos();
    let left = period.as_nanos() - into_period;
    // Less than `period`, which is no longer than `late`: both parts fit.
    now.checked_add(Duration::new((left / 1_000_000_000) as u64, (left % 1_000_000_000) as u32))
}

/// The future's output, unless `limit` passes first: then the future is dropped.
///
/// ```
/// use netwright_core::{EventLoop, time};
/// use std::{future::{pending, ready}, time::Duration};
///
/// let event_loop = EventLoop::new();
/// let mut tried = event_loop.spawn(async {
///     let limit = Duration::from_millis(1);
///     (time::timeout(limit, ready(1)).await, time::timeout(limit, pending::<()>()).await.is_err())
/// })?;
/// assert_eq!(tried.wait()?, (Ok(1), true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn timeout<F: Future>(limit: Duration, future: F) -> Timeout<F> {
    Timeout { future: Some(future), sleep: sleep(limit), limit: Some(limit) }
}

/// The future's output, unless `moment` comes first: then the future is dropped.
///
/// ```
/// use netwright_core::{EventLoop, time};
/// use std::{future::pending, time::Duration};
///
/// let event_loop = EventLoop::new();
/// let mut late = event_loop.spawn(async {
///     let moment = time::now() + Duration::from_millis(1); // for everything that is done until then
///     time::deadline(moment, pending::<()>()).await.is_err()
/// })?;
/// assert_eq!(late.wait(), Ok(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn deadline<F: Future>(moment: Instant, future: F) -> Timeout<F> {
    Timeout { future: Some(future), sleep: sleep_until(moment), limit: None }
}

pin_project! {
    /// Made by [`timeout`] and [`deadline`].
    ///
    /// ```
    /// use netwright_core::time::{Timeout, timeout};
    /// use std::{future::{Ready, ready}, time::Duration};
    ///
    /// let soon: Timeout<Ready<u8>> = timeout(Duration::from_secs(1), ready(1));
    /// # drop(soon);
    /// ```
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: Option<F>,
        sleep: Sleep,
        limit: Option<Duration>,
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        // The future first: an answer that is there counts, however late it is looked at.
        if let Some(future) = this.future.as_mut().as_pin_mut() {
            if let Poll::Ready(output) = future.poll(cx) {
                this.future.set(None);
                return Poll::Ready(Ok(output));
            }
            ready!(Pin::new(this.sleep).poll(cx));
            this.future.set(None);
        }
        Poll::Ready(Err(Elapsed { limit: *this.limit }))
    }
}

/// Something took too long.
///
/// ```
/// use netwright_core::{EventLoop, time};
/// use std::{future::pending, time::Duration};
///
/// let event_loop = EventLoop::new();
/// let mut late = event_loop.spawn(time::timeout(Duration::from_millis(1), pending::<()>()))?;
/// let elapsed = late.wait()?.unwrap_err();
/// assert_eq!(elapsed.to_string(), "not done within 1ms");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed {
    limit: Option<Duration>,
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Some(limit) => write!(f, "not done within {limit:?}"),
            None => f.write_str("not done by the deadline"),
        }
    }
}

impl std::error::Error for Elapsed {}
