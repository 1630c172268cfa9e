//! hyper's timer: the timers of one loop, through a handle that may be anywhere.
//!
//! A deadline that is moved later costs no timer: the one that is armed fires, sees that it is early, and is armed anew.

use hyper::rt::{Sleep, Timer};
use netwright_core::{EventLoop, Scheduled, WeakEventLoop};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

/// Keeps the time of one loop for hyper. It does not keep the loop alive.
///
/// ```
/// use hyper::rt::Timer;
/// use netwright_bridge::LoopTimer;
/// use netwright_core::EventLoop;
/// use std::time::Duration;
///
/// let event_loop = EventLoop::new();
/// let timer = LoopTimer::of(&event_loop);
/// event_loop.spawn(async move { timer.sleep(Duration::from_millis(1)).await }).unwrap().wait().unwrap();
/// ```
#[derive(Clone)]
pub struct LoopTimer {
    event_loop: WeakEventLoop,
}

impl LoopTimer {
    /// The time of the loop that the calling thread runs.
    ///
    /// # Panics
    /// Not on a loop's thread.
    pub fn here() -> Self {
        let current = EventLoop::current();
        Self::of(&current.unwrap_or_else(|| panic!("LoopTimer::here was used outside of an event loop")))
    }

    /// The time of that loop.
    pub fn of(event_loop: &EventLoop) -> Self {
        Self { event_loop: event_loop.downgrade() }
    }
}

impl Timer for LoopTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        let now = self.now();
        // What cannot be named is further away than anybody will wait.
        let deadline =
            now.checked_add(duration).unwrap_or_else(|| now + Duration::from_secs(u32::MAX.into()));
        self.sleep_until(deadline)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(LoopSleep { event_loop: self.event_loop.clone(), deadline, armed: None })
    }

    fn now(&self) -> Instant {
        self.event_loop.upgrade().map_or_else(Instant::now, |event_loop| event_loop.now())
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<LoopSleep>() {
            Some(mut sleep) => sleep.reset(new_deadline),
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

impl fmt::Debug for LoopTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopTimer").finish_non_exhaustive()
    }
}

/// Made by [`LoopTimer`]. Polled anywhere; resolves at its deadline by the loop's clock, or when the loop has ended.
///
/// ```
/// use hyper::rt::Timer;
/// use netwright_bridge::LoopTimer;
/// use netwright_core::EventLoop;
/// use std::time::Duration;
///
/// let event_loop = EventLoop::new();
/// let sleep = LoopTimer::of(&event_loop).sleep(Duration::from_secs(60)); // a `LoopSleep`, as hyper wants it
/// # drop(sleep);
/// ```
pub struct LoopSleep {
    event_loop: WeakEventLoop,
    deadline: Instant,
    armed: Option<(Scheduled<()>, Instant)>,
}

impl LoopSleep {
    fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
        // A timer that fires too early finds out by itself; one that would be late is of no use.
        if self.armed.as_ref().is_some_and(|(_, fires)| *fires > deadline) {
            self.disarm();
        }
    }

    fn disarm(&mut self) {
        if let Some((timer, _)) = self.armed.take() {
            timer.cancel();
        }
    }
}

impl Future for LoopSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some((timer, _)) = &mut self.armed {
                let fired = ready!(Pin::new(timer).poll(cx));
                self.armed = None;
                if fired.is_err() {
                    return Poll::Ready(()); // the loop has ended: whoever waits shall not wait for ever
                }
            }
            let Some(event_loop) = self.event_loop.upgrade() else { return Poll::Ready(()) };
            if event_loop.now() >= self.deadline {
                return Poll::Ready(());
            }
            match event_loop.schedule_at(self.deadline, || ()) {
                Ok(timer) => self.armed = Some((timer, self.deadline)),
                Err(_) => return Poll::Ready(()),
            }
        }
    }
}

impl Drop for LoopSleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

impl Sleep for LoopSleep {}

impl fmt::Debug for LoopSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopSleep").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
