//! Which event loop, if any, the calling thread is running right now.
//!
//! One thread-local number, set while a loop runs. It answers "may I block here?" and "am I on that loop?" without
//! touching anything shared.

use std::cell::Cell;

thread_local! {
    static RUNNING: Cell<usize> = const { Cell::new(0) };
}

/// The id of the loop that this thread is running, or `None` off every loop.
pub(crate) fn current_id() -> Option<usize> {
    // A thread-local may be gone while the thread's other thread-locals are dropped: then no loop runs here.
    RUNNING.try_with(Cell::get).ok().filter(|&id| id != 0)
}

/// Whether this thread is running loop `id`.
pub(crate) fn is_current(id: usize) -> bool {
    current_id() == Some(id)
}

/// Marks this thread as running loop `id` until the guard is dropped; loops may nest (a manual loop driven by a task
/// of another one).
pub(crate) fn enter(id: usize) -> Entered {
    debug_assert_ne!(id, 0, "0 means no loop");
    Entered { before: RUNNING.replace(id) }
}

/// Restores what was before [`enter`].
pub(crate) struct Entered {
    before: usize,
}

impl Drop for Entered {
    fn drop(&mut self) {
        RUNNING.set(self.before);
    }
}
