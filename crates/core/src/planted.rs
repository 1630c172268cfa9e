//! Bugs that are planted on purpose, to see whether tests find them. Not for programs.
//!
//! Only with the feature `_planted`, and then only on a thread that has [planted](plant) one. Each stands as one `if` at the place where somebody could have made
//! the mistake, and shows in some timings only.

use std::cell::Cell;

/// A mistake that somebody could have made.
///
/// ```
/// use netwright_core::planted::{Bug, plant};
///
/// assert!(!Bug::LostWakeUp.is_planted());
/// let planted = plant(Bug::LostWakeUp);
/// assert!(Bug::LostWakeUp.is_planted() && !Bug::DroppedClose.is_planted());
/// drop(planted);
/// assert!(!Bug::LostWakeUp.is_planted());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// A submitter relies on whoever came before it to wake a loop that sleeps, although that may have let it sleep.
    LostWakeUp,
    /// A close by a handle that finds something waiting to be sent is kept for later, and nobody looks again.
    DroppedClose,
    /// A request that must not be repeated is, if its connection breaks before an answer.
    UnsafeRetry,
    /// Of messages that are flushed behind others that still wait, the last two are swapped.
    ReorderedWrite,
    /// A connection that is reset while something waits to be sent does not leave its loop, nor the list of its server.
    LeakOnReset,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

impl Bug {
    /// All there are.
    pub const ALL: [Self; 5] =
        [Self::LostWakeUp, Self::DroppedClose, Self::UnsafeRetry, Self::ReorderedWrite, Self::LeakOnReset];

    /// Whether it is planted on this thread.
    pub fn is_planted(self) -> bool {
        PLANTED.try_with(Cell::get).is_ok_and(|planted| planted == Some(self))
    }
}

/// Plants a bug on this thread, until the guard is dropped.
pub fn plant(bug: Bug) -> Planted {
    Planted { before: PLANTED.replace(Some(bug)) }
}

/// Takes the bug away when it is dropped: made by [`plant`].
#[derive(Debug)]
#[must_use = "the bug is taken away at once if this is dropped"]
pub struct Planted {
    before: Option<Bug>,
}

impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(self.before);
    }
}
