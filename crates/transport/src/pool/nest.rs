//! Keeps long chains of returns off the stack.
//!
//! A waiter whose future was dropped gets its connection all the same, drops it on the spot, and so the next one is
//! served from inside that drop: a chain as long as the line of waiters, on a stack that is not. Beyond a few nested
//! ones, the outermost does the rest.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

/// As for promises: enough for the usual case to happen at once.
const NESTED_MAX: usize = 8;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static LATER: RefCell<VecDeque<Box<dyn FnOnce()>>> = const { RefCell::new(VecDeque::new()) };
}

/// Runs `job` now, or, when many are under way on this thread's stack, as soon as the outermost of them is done.
pub(super) fn run(job: impl FnOnce() + 'static) {
    let depth = DEPTH.get();
    if depth >= NESTED_MAX {
        return LATER.with_borrow_mut(|later| later.push_back(Box::new(job)));
    }
    let _counted = Counted::enter(depth);
    job();
    if depth == 0 {
        while let Some(job) = next() {
            job();
        }
    }
}

/// A thread that is dropping its thread-locals, and with them a connection, has nothing left to do later.
fn next() -> Option<Box<dyn FnOnce()>> {
    LATER.try_with(|later| later.borrow_mut().pop_front()).ok().flatten()
}

struct Counted {
    before: usize,
}

impl Counted {
    fn enter(before: usize) -> Self {
        DEPTH.set(before + 1);
        Self { before }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        DEPTH.set(self.before);
    }
}
