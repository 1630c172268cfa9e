//! Bounds how deep notifications nest, and keeps their panics from spreading.
//!
//! ```text
//!   complete A ─► listener ─► complete B ─► ... ─► complete H ─► listener ─► complete I
//!   depth 1                   depth 2              depth 8                   queued; A's thread runs it on the way out
//! ```
//! A listener may complete another promise, whose listener completes a third: a chain as long as the program likes, on
//! a stack that is not. Always true: the queue of a thread is empty whenever no notification runs on it, and no panic of
//! foreign code gets past one.
//!
//! Not here: the order among the listeners of one promise (`core`).

use crate::world;
use std::{
    any::Any,
    cell::{Cell, RefCell},
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Nested notifications on one thread. Netty's default too: enough for the usual promise-behind-a-promise to run at
/// once, few enough for small stacks.
pub(super) const NESTED_MAX: usize = 8;

pub(super) type Job = Box<dyn FnOnce()>;

struct Trampoline {
    depth: Cell<usize>,
    jobs: RefCell<VecDeque<Job>>,
}

impl Trampoline {
    const fn new() -> Self {
        Self { depth: Cell::new(0), jobs: RefCell::new(VecDeque::new()) }
    }
}

#[cfg(not(loom))]
thread_local! {
    static TRAMPOLINE: Trampoline = const { Trampoline::new() };
}

// Loom's threads share one thread of the system, so they need loom's thread-locals.
#[cfg(loom)]
loom::thread_local! {
    static TRAMPOLINE: Trampoline = Trampoline::new();
}

/// Leave to notify on this stack until dropped; `None` at the bound: [`defer`] then.
pub(super) fn enter() -> Option<Nested> {
    let room = TRAMPOLINE.try_with(|trampoline| {
        let depth = trampoline.depth.get();
        let room = depth < NESTED_MAX;
        if room {
            trampoline.depth.set(depth + 1);
        }
        room
    });
    match room {
        Ok(true) => Some(Nested { counted: true }),
        Ok(false) => None,
        // The thread is dropping its thread-locals, and with them a promise: no queue is left, so run at once.
        Err(_) => Some(Nested { counted: false }),
    }
}

/// Leaves `job` to the outermost notifier of this thread. Only after [`enter`] said no: then there is one.
pub(super) fn defer(job: Job) {
    TRAMPOLINE.with(|trampoline| trampoline.jobs.borrow_mut().push_back(job));
}

/// Runs what was deferred on this thread, oldest first, and what that defers in turn.
///
/// Besides the outermost notifier, a blocking wait does this: what it waits for may be in the queue of its own thread.
pub(super) fn drain() {
    // The pop is a statement of its own: the borrow ends before the job runs.
    while let Some(job) = next_job() {
        // Listeners and wakers are contained by themselves. Whatever else gets out must not cost the jobs behind it.
        catch("notification", job);
    }
}

fn next_job() -> Option<Job> {
    TRAMPOLINE.try_with(|trampoline| trampoline.jobs.borrow_mut().pop_front()).ok().flatten()
}

/// One notification in progress; the outermost one drains the queue when it ends.
pub(super) struct Nested {
    counted: bool,
}

impl Drop for Nested {
    fn drop(&mut self) {
        if !self.counted {
            return;
        }
        let depth = TRAMPOLINE.try_with(|trampoline| trampoline.depth.get()).unwrap_or(0);
        if depth == 1 {
            drain(); // still counted, so that what these jobs notify nests below this one
        }
        let _ = TRAMPOLINE.try_with(|trampoline| trampoline.depth.set(depth.saturating_sub(1)));
    }
}

/// Calls the user's code; if it panics, reports that and carries on with `None`.
pub(super) fn catch<R>(what: &'static str, call: impl FnOnce() -> R) -> Option<R> {
    // Unwind safety: the call owns what it captured, and sees the result by shared reference only.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => Some(result),
        Err(panic) => {
            report(what, panic);
            None
        }
    }
}

#[cold]
#[inline(never)] // compiled here, and not in every user's crate
fn report(what: &'static str, panic: Box<dyn Any + Send>) {
    // A subscriber, or the drop of the panic's own value, may panic as well; the promise must still be completed.
    let reported = catch_unwind(AssertUnwindSafe(move || {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        world::panicked(text.unwrap_or("(not text)"));
        tracing::error!(
            panic = text.unwrap_or("(not text)"),
            "a promise's {what} panicked; the promise goes on"
        );
    }));
    if let Err(again) = reported {
        std::mem::forget(again);
    }
}
