//! What stands in for the machine: a simulation that drives loops and workers itself, and has time and chance of its own.
//!
//! ```text
//!   enter(world) ── a loop, or workers, are built on this thread ──▶ no thread: the world takes their work over, and drives it
//!        │                                                              LoopBody ──drive──▶ DrivenLoop: turn, turn, turn …
//!        ├───────── wait() on a promise ───────────────────────────▶ does not block: the world goes on until the promise is complete
//!        └───────── the time, chance, the number of cores ─────────▶ are the world's
//! ```
//! A program runs in a world unchanged: it builds its groups, servers and clients as always, on a thread that has [entered](enter) one. Nothing
//! of it sees the difference, but that it always happens in the same way. The world that comes with Netwright is `Sim`, in the test kit.
//!
//! Always true:
//! 1. A loop, or workers, belong to the world in which they were built, for life. What is built outside of a world has threads.
//! 2. A thread is in one world at a time; whoever enters another one comes back by dropping the guard.
//! 3. Everything that a world drives, it drives on the thread on which it is driven first: what lives on loops is not `Send`.
//!
//! Outside of a world all of this is one look at a thread-local, where it is looked at all.

mod chance;
mod common;
mod driven;
pub(crate) mod promises;

pub use self::{
    chance::{fill_random, random},
    common::Common,
    driven::{DrivenLoop, LoopBody, Turned},
    promises::{forget_promises, pending_promises},
};
pub use crate::workers::{Worked, WorkersBody};

use crate::{clock::Clock, driver::DriverSeed};
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::{Instant, SystemTime},
};

/// A machine that is made up: see the [module](self).
///
/// Methods are called on the world's own thread, but for programs that start threads of their own.
pub trait World: Send + Sync + 'static {
    /// The time of the monotonic clock here.
    fn now(&self) -> Instant;

    /// The time of the clock on the wall here.
    fn system_time(&self) -> SystemTime;

    /// Draws bytes: all that is left to chance comes from here.
    fn fill_random(&self, bytes: &mut [u8]);

    /// How many cores the machine has: the default number of loops and workers goes by it.
    fn cores(&self) -> usize;

    /// The driver of a loop that is built here, whatever its builder was told, and a number by which its [`LoopBody`] can be told.
    fn driver(&self) -> (u64, Box<dyn DriverSeed>);

    /// Takes a loop over that would get its thread now.
    fn take_loop(&self, body: LoopBody);

    /// Takes the threads of a pool of workers over.
    fn take_workers(&self, body: WorkersBody);

    /// Lets something happen, while somebody waits for something, until `deadline` at the most. False if nothing is left that could ever happen, or
    /// the deadline has come.
    fn go_on(&self, deadline: Option<Instant>) -> bool;

    /// What belongs to a process, and to each of several that share the thread.
    fn common(&self) -> &Common;

    /// A panic was contained: of a handler, a task, a listener, the drop of a value. By default it is not looked at.
    fn panicked(&self, message: &str) {
        let _ = message;
    }

    /// Something is not as it must be, by the books that are kept here: what a channel that has gone still counts, for example. By default it is not
    /// looked at.
    fn flaw(&self, what: String) {
        drop(what);
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn World>>> = const { RefCell::new(None) };
    /// Whether there is one: a look at it is all that most ever pay.
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is in a world.
#[inline]
pub fn is_active() -> bool {
    ACTIVE.try_with(Cell::get).unwrap_or(false)
}

/// The world that the calling thread is in.
#[inline]
pub fn current() -> Option<Arc<dyn World>> {
    if is_active() { of_this_thread() } else { None }
}

#[cold]
fn of_this_thread() -> Option<Arc<dyn World>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Brings the calling thread into a world, until the guard is dropped.
pub fn enter(world: Arc<dyn World>) -> Entered {
    let before = CURRENT.replace(Some(world));
    ACTIVE.set(true);
    Entered { before }
}

/// Leaves a world when it is dropped: made by [`enter`].
#[must_use = "the world is left at once if this is dropped"]
pub struct Entered {
    before: Option<Arc<dyn World>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        ACTIVE.set(self.before.is_some());
        let left = CURRENT.replace(self.before.take());
        drop(left); // somebody's code: after the borrow
    }
}

/// The time of the clock on the wall: the world's, or the system's.
///
/// ```
/// use netwright_core::world::system_time;
/// use std::time::SystemTime;
///
/// assert!(system_time() <= SystemTime::now()); // no world here
/// ```
pub fn system_time() -> SystemTime {
    current().map_or_else(SystemTime::now, |world| world.system_time())
}

/// The time of the monotonic clock: the world's, or the system's.
///
/// ```
/// use netwright_core::world::now;
/// use std::time::Instant;
///
/// assert!(now() <= Instant::now()); // no world here
/// ```
pub fn now() -> Instant {
    current().map_or_else(Instant::now, |world| world.now())
}

/// How many cores there are; one where nobody can say.
pub fn cores() -> usize {
    match current() {
        Some(world) => world.cores(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Tells the world of a panic that was contained, if there is one to tell.
pub(crate) fn panicked(message: &str) {
    if let Some(world) = current() {
        world.panicked(message);
    }
}

/// Tells the world of a flaw, if there is one to tell.
#[cold]
pub(crate) fn flaw(what: impl FnOnce() -> String) {
    if let Some(world) = current() {
        world.flaw(what());
    }
}

/// The clock of a world.
pub(crate) struct WorldClock(pub(crate) Arc<dyn World>);

impl Clock for WorldClock {
    fn now(&self) -> Instant {
        self.0.now()
    }
}
