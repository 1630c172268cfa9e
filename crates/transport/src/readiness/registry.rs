//! What a driver offers to the sources of its loop: to be told when their descriptors are ready.
//!
//! ```text
//!   source ──▶ Rc<Readiness> ──┬─ Edges: mio, which tells what became possible
//!                              ├─ Levels: poll(2), which tells what is possible    a thread for each channel
//!                              └─ Ring: io_uring, as edges                         for what its streams do not carry
//! ```
//! Sources are the same on both: they register, read and write until nothing is left, and tell a level-triggered loop
//! after each call what they want to hear next ([`Readiness::set_interest`]).
//!
//! Loop thread only.

use super::{edges::Edges, wait::Brought};
use crate::sys::AsSource;
#[cfg(all(target_os = "linux", feature = "uring"))]
use crate::uring::Uring;
#[cfg(all(unix, feature = "blocking"))]
use crate::{blocking::Levels, sys::raw};
use mio::Interest;
use netwright_core::{LocalLoop, driver::Token};
#[cfg(all(target_os = "linux", feature = "uring"))]
use std::rc::Weak;
use std::{fmt, io, rc::Rc, time::Duration};

/// Registers descriptors with the driver of a loop; see the [module](super).
///
/// ```
/// use netwright_core::LocalLoop;
/// use netwright_transport::{Readiness, event_loops};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let group = event_loops(1)?;
/// let mut found = group.next().spawn(async {
///     LocalLoop::current().and_then(|local| Readiness::of(&local)).is_some()
/// })?;
/// assert!(found.wait()?);
/// # Ok(())
/// # }
/// ```
pub struct Readiness {
    kind: Kind,
}

enum Kind {
    Edges(Edges),
    #[cfg(all(unix, feature = "blocking"))]
    Levels(Levels),
    /// The ring knows us and not we the ring, so that neither keeps the other alive.
    #[cfg(all(target_os = "linux", feature = "uring"))]
    Ring(Weak<Uring>),
}

/// The same asked of whichever kind it is.
macro_rules! ask {
    ($self:ident.$method:ident($source:ident $(, $what:ident)*)) => {
        match &$self.kind {
            Kind::Edges(edges) => edges.$method($source $(, $what)*),
            #[cfg(all(unix, feature = "blocking"))]
            Kind::Levels(levels) => levels.$method(raw($source) $(, $what)*),
            #[cfg(all(target_os = "linux", feature = "uring"))]
            Kind::Ring(ring) => present(ring)?.$method($source $(, $what)*),
        }
    };
}

/// What a source does.
///
/// Edge-triggered, with a [`ReadinessSeed`](super::ReadinessSeed): an event tells that something *became* possible, and
/// is not repeated until the source has used it up (until `WouldBlock`, or a short read or write).
///
/// Level-triggered, with a [`BlockingSeed`](crate::BlockingSeed): an event tells that something *is* possible, again and
/// again until the source has used it up or says with [`set_interest`](Self::set_interest) that it does not care.
///
/// Windows has levels in both.
///
/// Registering and reregistering report what is possible at that moment as if it were new. Sources are descriptors, on Windows
/// sockets.
impl Readiness {
    /// Has the loop told when `source` becomes ready. The descriptor has to be non-blocking for the source's own sake,
    /// and must be [deregistered](Self::deregister) before it is closed.
    ///
    /// # Errors
    /// `AlreadyExists` if it is registered; `InvalidInput` for a token that no loop gave out; what the system says.
    ///
    /// # Panics
    /// In debug builds, if the descriptor's number is in the table for a descriptor that was closed without being
    /// deregistered, and this can be told. Release builds take the newcomer.
    pub fn register(&self, source: &impl AsSource, token: Token, interest: Interest) -> io::Result<()> {
        ask!(self.register(source, token, interest))
    }

    /// Changes what a registered source wants to hear about, and under which token.
    ///
    /// # Errors
    /// `NotFound` if it is not registered; otherwise as [`register`](Self::register).
    pub fn reregister(&self, source: &impl AsSource, token: Token, interest: Interest) -> io::Result<()> {
        ask!(self.reregister(source, token, interest))
    }

    /// Stops telling about `source`. Events of the poll that is being worked off may still come.
    ///
    /// # Errors
    /// `NotFound` if it is not registered; what the system says. In each case it is not registered afterwards.
    pub fn deregister(&self, source: &impl AsSource) -> io::Result<()> {
        ask!(self.deregister(source))
    }

    /// Whether events repeat until they are used up or [`set_interest`](Self::set_interest) says otherwise.
    pub fn is_level(&self) -> bool {
        match self.kind {
            Kind::Edges(_) => Edges::IS_LEVEL,
            #[cfg(all(unix, feature = "blocking"))]
            Kind::Levels(_) => true,
            #[cfg(all(target_os = "linux", feature = "uring"))]
            Kind::Ring(_) => false,
        }
    }

    /// What the driver of a loop offers, be it made for readiness or an io_uring that watches descriptors as well.
    pub fn of(local: &LocalLoop) -> Option<Rc<Self>> {
        #[cfg(all(target_os = "linux", feature = "uring"))]
        if let Some(ring) = local.driver::<Uring>() {
            return Some(ring.readiness());
        }
        local.driver()
    }

    /// On a level-triggered loop: what the source can use from now on. With neither it still hears, once each, that the
    /// peer has ended, hung up or reset. Edge-triggered loops need none of this, and nothing happens there.
    ///
    /// # Errors
    /// `NotFound` if it is not registered.
    #[inline]
    pub fn set_interest(&self, source: &impl AsSource, reads: bool, writes: bool) -> io::Result<()> {
        match &self.kind {
            #[cfg(all(target_os = "linux", feature = "uring"))]
            Kind::Ring(_) => Ok(()),
            Kind::Edges(edges) => edges.set_interest(source, reads, writes),
            #[cfg(all(unix, feature = "blocking"))]
            Kind::Levels(levels) => levels.set_interest(raw(source), reads, writes),
        }
    }
}

impl Readiness {
    /// How many descriptors are registered.
    pub fn len(&self) -> usize {
        match &self.kind {
            Kind::Edges(edges) => edges.len(),
            #[cfg(all(unix, feature = "blocking"))]
            Kind::Levels(levels) => levels.len(),
            #[cfg(all(target_os = "linux", feature = "uring"))]
            Kind::Ring(ring) => present(ring).map_or(0, |ring| ring.watched()),
        }
    }

    /// Whether no descriptor is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What the drivers do: each makes its own kind and asks for no other.
impl Readiness {
    pub(super) fn new(poll: mio::Poll) -> Self {
        Self { kind: Kind::Edges(Edges::new(poll)) }
    }

    #[inline]
    fn edges(&self) -> io::Result<&Edges> {
        match &self.kind {
            Kind::Edges(edges) => Ok(edges),
            #[cfg(any(all(unix, feature = "blocking"), all(target_os = "linux", feature = "uring")))]
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    #[inline(always)] // with the system call in it: see `return_stack`
    pub(super) fn poll(&self, brought: &mut Brought, timeout: Option<Duration>) -> io::Result<()> {
        self.edges()?.poll(brought, timeout)
    }

    /// Whose event it is that a poll brought under this number.
    #[inline(always)]
    pub(super) fn whose(&self, number: mio::Token) -> Option<Token> {
        match &self.kind {
            Kind::Edges(edges) => edges.whose(number),
            #[cfg(any(all(unix, feature = "blocking"), all(target_os = "linux", feature = "uring")))]
            _ => Some(Token::from_u64(number.0 as u64)), // the same on both, so that there is nothing to choose
        }
    }

    pub(super) fn take_poll(&self) -> Option<mio::Poll> {
        self.edges().ok()?.take_poll()
    }

    pub(super) fn move_to(&self, poll: mio::Poll) -> io::Result<usize> {
        self.edges()?.move_to(poll)
    }

    #[cfg(all(target_os = "linux", feature = "uring"))]
    pub(crate) fn of_ring(ring: Weak<Uring>) -> Self {
        Self { kind: Kind::Ring(ring) }
    }

    #[cfg(all(unix, feature = "blocking"))]
    pub(crate) fn new_levels() -> Self {
        Self { kind: Kind::Levels(Levels::default()) }
    }

    #[cfg(all(unix, feature = "blocking"))]
    #[inline]
    pub(crate) fn levels(&self) -> io::Result<&Levels> {
        match &self.kind {
            Kind::Levels(levels) => Ok(levels),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

#[cfg(all(target_os = "linux", feature = "uring"))]
fn present(ring: &Weak<Uring>) -> io::Result<Rc<Uring>> {
    ring.upgrade().ok_or_else(|| io::ErrorKind::NotConnected.into())
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness")
            .field("registered", &self.len())
            .field("level", &self.is_level())
            .finish_non_exhaustive()
    }
}
