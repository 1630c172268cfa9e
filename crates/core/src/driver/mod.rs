//! The contract between an event loop and what waits for I/O on its behalf.
//!
//! ```text
//!   any thread:    DriverSeed ──start, on the loop's thread──▶ Driver
//!                      └──── DriverWaker ── wake ──▶ ends the present or next poll
//!
//!   each turn:     poll(timeout) ─▶ Events ─▶ the loop ─▶ Source::ready, by token
//!   misbehaving:   512 polls in a row end early and empty ─▶ rebuild, registrations move over
//!   failing:       rebuild, poll again; then pause, rebuild, poll again, for as long as it takes
//! ```
//!
//! A driver owns sockets and kernel objects and knows nothing of pipelines. Sources are what a loop hosts (channels,
//! listeners, a user's own descriptors): the loop keeps them, gives each a [`Token`], and hands every event to the
//! source that its token names. A source registers itself with its driver through [`Driver::extension`].
//!
//! A driver must:
//! 1. return from `poll` no later than `timeout` after the call, and at once if it was woken since the last `poll` ended;
//! 2. never lose a wake-up, also across `rebuild`;
//! 3. after `rebuild`, report everything that is ready on every registration as if it were new.

mod park;

pub use park::{Park, ParkSeed};

use crate::arena::Key;
use std::{any::Any, fmt, io, rc::Rc, sync::Arc, time::Duration};

/// What an event loop polls. Lives on the loop's thread.
///
/// ```
/// use netwright_core::driver::{Driver, DriverSeed, Events};
/// use std::{any::Any, io, rc::Rc, time::Duration};
///
/// /// Counts how often its loop polls, and leaves the rest to another driver.
/// struct Counted {
///     inner: Box<dyn Driver>,
///     polls: u64,
/// }
///
/// impl Driver for Counted {
///     fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()> {
///         self.polls += 1;
///         self.inner.poll(timeout, events)
///     }
///     fn rebuild(&mut self) -> io::Result<usize> {
///         self.inner.rebuild()
///     }
///     fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
///         let Self { inner, polls } = *self;
///         inner.suspend().map_err(|inner| Box::new(Self { inner, polls }) as Box<dyn Driver>)
///     }
///     fn extension(&self) -> Option<Rc<dyn Any>> {
///         self.inner.extension()
///     }
/// }
/// ```
pub trait Driver: 'static {
    /// Waits for events until `timeout` has passed (`None`: for ever) or the waker was used, and appends them.
    ///
    /// An error makes the loop rebuild the driver. If that does not help, the driver is tried again and again, after pauses of
    /// up to a second in which tasks and timers go on. [`Interrupted`](io::ErrorKind::Interrupted) says that a signal came:
    /// then the loop has a look round and polls again.
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()>;

    /// Replaces the kernel object underneath by a fresh one that has the same registrations. Returns how many moved.
    fn rebuild(&mut self) -> io::Result<usize>;

    /// Becomes a seed again, so that another thread can take over later: called with no source registered. A driver
    /// that belongs to its thread for life answers with itself, and its loop cannot be suspended.
    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>>;

    /// What sources need to register themselves. A source asks for the type that it knows, once, by downcast.
    fn extension(&self) -> Option<Rc<dyn Any>> {
        None
    }
}

/// A driver that is set up but not yet on its thread: everything that can fail early has been tried.
///
/// ```
/// use netwright_core::{EventLoopGroup, driver::ParkSeed};
///
/// // Made on the thread that builds the group, started on the loops' own.
/// let group = EventLoopGroup::builder().loops(2).driver(|_index| Ok(ParkSeed::new())).build()?;
/// assert_eq!(group.next().spawn(async { 6 * 7 }).unwrap().wait(), Ok(42));
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
pub trait DriverSeed: Send + 'static {
    /// How other threads end a `poll`.
    fn waker(&self) -> Arc<dyn DriverWaker>;

    /// Becomes the driver, on the thread that will poll it.
    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>>;
}

/// Ends the present or the next `poll` of one driver; from any thread.
///
/// ```
/// use netwright_core::driver::{DriverSeed, Events, ParkSeed};
///
/// let seed = ParkSeed::new();
/// let waker = seed.waker();
/// let mut driver = Box::new(seed).start()?;
/// waker.wake(); // from any thread
/// driver.poll(None, &mut Events::default())?; // ends at once
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait DriverWaker: Send + Sync + 'static {
    /// Called at most once for each time that the loop goes to sleep.
    fn wake(&self);
}

/// Names a source of one loop. A token that has been given back never names another source.
///
/// ```
/// use netwright_core::{LocalLoop, ManualLoop, driver::{Event, Source, Token}};
///
/// struct Nothing;
/// impl Source for Nothing {
///     fn ready(&mut self, _: Event) {}
///     fn shut_down(&mut self) {}
/// }
///
/// ManualLoop::new().enter(|| {
///     let token = LocalLoop::current().unwrap().register(Nothing).unwrap();
///     assert_eq!(Token::from_u64(token.to_u64()), token); // as it comes back from the kernel
/// });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub(crate) Key);

impl Token {
    /// The number to hand to the kernel.
    pub fn to_u64(self) -> u64 {
        self.0.to_u64()
    }

    /// The token that [`to_u64`](Self::to_u64) came from.
    pub fn from_u64(number: u64) -> Self {
        Self(Key::from_u64(number))
    }
}

/// What happened to a source.
///
/// ```
/// use netwright_core::{LocalLoop, ManualLoop, driver::{Event, Ready, Source}};
/// use std::{cell::Cell, rc::Rc};
///
/// struct Looks(Rc<Cell<Option<Event>>>);
/// impl Source for Looks {
///     fn ready(&mut self, event: Event) {
///         self.0.set(Some(event));
///     }
///     fn shut_down(&mut self) {}
/// }
///
/// let (mut manual, seen) = (ManualLoop::new(), Rc::new(Cell::new(None)));
/// let token = manual.enter(|| {
///     let local = LocalLoop::current().unwrap();
///     let token = local.register(Looks(seen.clone())).unwrap();
///     local.call(token);
///     token
/// });
/// manual.run_until_idle();
/// assert_eq!(seen.get(), Some(Event { token, ready: Ready::NONE }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Whom it concerns.
    pub token: Token,
    /// What is possible now.
    pub ready: Ready,
}

/// What a source may try now: a small set of flags.
///
/// ```
/// use netwright_core::driver::Ready;
///
/// let ready = Ready::READ | Ready::READ_CLOSED;
/// assert!(ready.contains(Ready::READ) && !ready.contains(Ready::WRITE));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready(u8);

impl Ready {
    /// Nothing in particular: the source was called for its own reasons.
    pub const NONE: Self = Self(0);
    /// Bytes, a connection or an end of stream may be there.
    pub const READ: Self = Self(1);
    /// There may be room to write, or a connect has ended.
    pub const WRITE: Self = Self(1 << 1);
    /// The peer will send no more.
    pub const READ_CLOSED: Self = Self(1 << 2);
    /// An error waits to be fetched.
    pub const ERROR: Self = Self(1 << 3);
    /// Urgent bytes are there, before which a read ends although more has come: read until nothing is left.
    pub const URGENT: Self = Self(1 << 4);

    /// Whether all of `other` is in `self`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Ready {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::READ, "READ"),
            (Self::WRITE, "WRITE"),
            (Self::READ_CLOSED, "READ_CLOSED"),
            (Self::ERROR, "ERROR"),
            (Self::URGENT, "URGENT"),
        ];
        f.debug_set()
            .entries(names.iter().filter(|(flag, _)| self.contains(*flag)).map(|(_, name)| name))
            .finish()
    }
}

/// The events of one poll; the loop reuses the room.
///
/// ```
/// use netwright_core::driver::{Event, Events, Ready, Token};
///
/// let mut events = Events::default();
/// events.push(Event { token: Token::from_u64(1), ready: Ready::READ }); // as a driver does in `poll`
/// assert_eq!(events.len(), 1);
/// ```
#[derive(Debug, Default)]
pub struct Events {
    list: Vec<Event>,
}

impl Events {
    /// Adds an event. Events reach their sources in the order in which they are added.
    pub fn push(&mut self, event: Event) {
        self.list.push(event);
    }

    /// Whether the poll brought nothing.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.list.drain(..)
    }
}

/// Something that a loop hosts and that its driver has events for. Lives on the loop's thread.
///
/// ```
/// use netwright_core::{LocalLoop, ManualLoop, driver::{Event, Source}};
/// use std::{cell::Cell, rc::Rc};
///
/// /// Something that a loop hosts: told when there is something to do.
/// struct Bell { rings: Rc<Cell<u32>> }
///
/// impl Source for Bell {
///     fn ready(&mut self, _: Event) {
///         self.rings.set(self.rings.get() + 1);
///     }
///     fn shut_down(&mut self) {}
/// }
///
/// let (mut manual, rings) = (ManualLoop::new(), Rc::new(Cell::new(0)));
/// manual.enter(|| {
///     let local = LocalLoop::current().unwrap();
///     let bell = local.register(Bell { rings: rings.clone() }).unwrap();
///     local.call(bell);
/// });
/// manual.run_until_idle();
/// assert_eq!(rings.get(), 1);
/// ```
pub trait Source: Any {
    /// Something happened. Never called while the source is already running.
    fn ready(&mut self, event: Event);

    /// A timer that was armed for this source with [`LocalLoop::arm`](crate::LocalLoop::arm) is due.
    fn signal(&mut self, signal: u64) {
        let _ = signal;
    }

    /// A call of this source has panicked, with this message. It is the last call: what it can still tell to those who count on it, it
    /// tells now, and is dropped.
    fn panicked(&mut self, message: &str) {
        let _ = message;
    }

    /// The loop shuts down: close. A source that has more to do may stay registered until the shutdown's timeout.
    fn shut_down(&mut self);
}
