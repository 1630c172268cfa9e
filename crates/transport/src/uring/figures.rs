//! What a ring has done, and what it holds.

/// Figures of one loop's ring. Counters start with the ring and outlive a rebuild.
///
/// ```
/// use netwright_core::LocalLoop;
/// use netwright_transport::{Backend, uring::Uring};
///
/// if let Ok(group) = Backend::Uring.event_loops(1) {
///     let figures = group.next().spawn(async { LocalLoop::current().unwrap().driver::<Uring>().map(|ring| ring.figures()) });
///     assert_eq!(figures.unwrap().wait().unwrap().map(|figures| figures.strays), Some(0));
/// }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UringFigures {
    /// Registrations: connections, listeners, connects and watched descriptors, and those whose end is not reaped yet.
    pub registered: usize,
    /// Operations that the kernel has and that have not ended.
    pub in_flight: usize,
    /// Of these, operations on files.
    pub files_in_flight: usize,
    /// Operations on files that wait for others to end: see [`UringSettings::files`](super::UringSettings::files).
    pub files_waiting: usize,
    /// How many buffers there are to receive into.
    pub buffers: usize,
    /// How many of them the kernel has at the moment.
    pub buffers_provided: usize,
    /// Buffers that were used up and that somebody still holds a piece of, as far as they are followed.
    pub buffers_lent: usize,
    /// How often a receive found no buffer. It goes on in the next turn.
    pub exhausted: u64,
    /// How often completions had to wait in the kernel because the queue for them was full. None is lost.
    pub overflows: u64,
    /// System calls that entered the ring.
    pub enters: u64,
    /// Operations submitted.
    pub submissions: u64,
    /// Completions reaped.
    pub completions: u64,
    /// Completions whose registration was not found. Never more than zero, unless there is a mistake here.
    pub strays: u64,
}
