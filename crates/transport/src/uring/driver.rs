//! The driver contract of `netwright_core::driver`, kept by io_uring.
//!
//! ```text
//!   UringSeed { ring: disabled, buffers: registered, waker } ──start: enabled by the loop's thread──▶ UringDriver
//!                                                            ◀──suspend: a fresh, disabled ring──────
//!   any thread: wake ─▶ write to the eventfd ─▶ completes the ring's poll of it
//! ```
//! Always true:
//! 1. A wake-up ends the present or the next poll, whichever ring the driver has: the eventfd is never read, so a ring that
//!    begins to watch it after the write completes at once.
//! 2. A rebuild that cannot have a new ring changes nothing.

use super::{Uring, UringSettings, buffers::Buffers, engine::Engine, ring::Ring};
use netwright_core::driver::{Driver, DriverSeed, DriverWaker, Event, Events};
use rustix::event::{EventfdFlags, eventfd};
use std::{
    any::Any,
    fmt, io,
    os::fd::{AsRawFd, OwnedFd},
    rc::Rc,
    sync::Arc,
    thread,
    time::Duration,
};

/// An io_uring driver that is not on its thread yet.
///
/// ```no_run
/// use netwright_core::EventLoop;
/// use netwright_transport::uring::UringSeed;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let event_loop = EventLoop::builder().driver(UringSeed::new()?).build()?;
/// # Ok(())
/// # }
/// ```
pub struct UringSeed {
    // Dropped before the buffers that it refers to.
    ring: Ring,
    buffers: Buffers,
    waker: Arc<EventWaker>,
    settings: UringSettings,
}

impl UringSeed {
    /// A ring with the default sizes. Asks the system for all it takes: fails here, with a
    /// [`UringError`](super::UringError) inside, and not later.
    pub fn new() -> io::Result<Self> {
        Self::with(UringSettings::new())
    }

    /// A ring of these sizes.
    pub fn with(settings: UringSettings) -> io::Result<Self> {
        crate::return_stack::look();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Self::woken_by(Arc::new(EventWaker { eventfd: eventfd(0, flags)? }), settings)
    }

    fn woken_by(waker: Arc<EventWaker>, settings: UringSettings) -> io::Result<Self> {
        let (ring, buffers) = ring_of_no_thread(settings)?;
        Ok(Self { ring, buffers, waker, settings })
    }

    pub(super) fn into_driver(self) -> io::Result<UringDriver> {
        let Self { ring, buffers, waker, settings } = self;
        ring.enable()?;
        let engine = Engine::new(ring, buffers, waker.eventfd.as_raw_fd(), &settings);
        Ok(UringDriver { uring: Uring::new(engine), waker, settings })
    }
}

fn ring(settings: &UringSettings) -> io::Result<(Ring, Buffers)> {
    let ring = Ring::new(settings)?;
    let buffers = Buffers::new(settings);
    buffers.register(&ring)?;
    Ok((ring, buffers))
}

/// A ring that the calling thread has no part in.
///
/// When a ring is closed, the kernel interrupts the thread that made it, wherever that is: a read with a time limit would
/// fail there. So a thread makes it that ends at once.
fn ring_of_no_thread(settings: UringSettings) -> io::Result<(Ring, Buffers)> {
    let maker = thread::Builder::new().name("netwright-uring".to_owned()).spawn(move || ring(&settings))?;
    maker.join().unwrap_or_else(|_| Err(io::Error::other("making a ring panicked")))
}

impl DriverSeed for UringSeed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        self.waker.clone()
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(self.into_driver()?))
    }
}

impl fmt::Debug for UringSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringSeed").field("mode", &self.ring.mode()).finish_non_exhaustive()
    }
}

struct EventWaker {
    eventfd: OwnedFd,
}

impl DriverWaker for EventWaker {
    fn wake(&self) {
        if let Err(error) = rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes()) {
            // It counts to 2^64 before it is full.
            tracing::error!(%error, "an event loop could not be woken");
        }
    }
}

pub(super) struct UringDriver {
    pub(super) uring: Rc<Uring>,
    // Behind the ring that watches it.
    waker: Arc<EventWaker>,
    settings: UringSettings,
}

impl UringDriver {
    #[inline]
    pub(super) fn wait(&mut self, timeout: Option<Duration>, each: impl FnMut(Event)) -> io::Result<()> {
        let left_behind = self.uring.with(|engine| {
            engine.turn(timeout, each)?;
            Ok(engine.take_left_behind())
        })?;
        drop(left_behind);
        Ok(())
    }
}

impl Driver for UringDriver {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()> {
        self.wait(timeout, |event| events.push(event))
    }

    fn rebuild(&mut self) -> io::Result<usize> {
        let (ring, buffers) = ring(&self.settings)?;
        ring.enable()?;
        self.uring.with(|engine| engine.move_to(ring, buffers))
    }

    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
        let idle = self.uring.with(|engine| Ok(engine.registered() == 0)).unwrap_or(false);
        match UringSeed::woken_by(self.waker.clone(), self.settings) {
            Ok(seed) if idle => Ok(Box::new(seed)), // the old ring ends with this driver
            _ => Err(self),
        }
    }

    fn extension(&self) -> Option<Rc<dyn Any>> {
        Some(self.uring.clone())
    }
}

impl Drop for UringDriver {
    fn drop(&mut self) {
        if let Some(engine) = self.uring.take() {
            engine.end();
        }
    }
}
