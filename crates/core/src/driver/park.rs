//! The driver that does nothing: it parks the thread and can be woken.
//!
//! For loops that only run tasks and timers, and the smallest example of the contract.

use super::{Driver, DriverSeed, DriverWaker, Events};
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// Waits by parking its thread.
///
/// ```
/// use netwright_core::driver::{DriverSeed, Events, ParkSeed};
/// use std::time::Duration;
///
/// let mut park = Box::new(ParkSeed::new()).start()?; // a `Park`
/// park.poll(Some(Duration::from_millis(1)), &mut Events::default())?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Park {
    signal: Arc<Signal>,
}

/// A [`Park`] that is not on its thread yet.
///
/// ```
/// use netwright_core::{EventLoop, driver::ParkSeed};
///
/// let event_loop = EventLoop::builder().driver(ParkSeed::new()).build()?; // as it is by default
/// assert_eq!(event_loop.spawn(async { 1 + 1 }).unwrap().wait(), Ok(2));
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
#[derive(Default)]
pub struct ParkSeed {
    signal: Arc<Signal>,
}

impl ParkSeed {
    /// A new one.
    pub fn new() -> Self {
        Self::default()
    }
}

/// `woken` is the truth; parking only waits for it. A stray unpark from elsewhere is harmless.
#[derive(Default)]
struct Signal {
    woken: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl DriverSeed for ParkSeed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        self.signal.clone()
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        self.signal.set_thread(Some(thread::current()));
        Ok(Box::new(Park { signal: self.signal }))
    }
}

impl DriverWaker for Signal {
    fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        // Before the thread exists there is nobody to unpark, and the first poll finds `woken`.
        if let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
            thread.unpark();
        }
    }
}

impl Signal {
    fn set_thread(&self, thread: Option<Thread>) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = thread;
    }
}

impl Driver for Park {
    fn poll(&mut self, timeout: Option<Duration>, _: &mut Events) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            // The most frequent call, from loops that have tasks: no clock, and no write unless there is news.
            if self.signal.woken.load(Ordering::Relaxed) {
                self.signal.woken.swap(false, Ordering::Acquire);
            }
            return Ok(());
        }
        // A deadline too far to name is no deadline.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let forever = timeout.is_none() || deadline.is_none();
        while !self.signal.woken.swap(false, Ordering::Acquire) {
            if forever {
                thread::park();
                continue;
            }
            let left = deadline.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
        Ok(())
    }

    fn rebuild(&mut self) -> io::Result<usize> {
        Ok(0)
    }

    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
        self.signal.set_thread(None);
        Ok(Box::new(ParkSeed { signal: self.signal }))
    }
}
