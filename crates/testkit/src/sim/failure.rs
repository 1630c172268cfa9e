//! How a run failed, for whoever runs it again: what it was on its thread.

use super::script::Fault;
use std::{
    cell::{Cell, RefCell},
    panic,
    sync::Once,
    time::{Duration, Instant},
};

/// Where it was, and which faults had been asked for.
type Failed = (Option<String>, Vec<(Duration, Fault)>);

thread_local! {
    /// This thread wants to know where panics are.
    static LISTENS: Cell<bool> = const { Cell::new(false) };
    /// Where the last panic was.
    static PANICKED_AT: RefCell<Option<String>> = const { RefCell::new(None) };
    /// The panic that ended the last run that failed.
    static FAILED: RefCell<Failed> = const { RefCell::new((None, Vec::new())) };
    /// Runs on this thread say nothing of their failures, and end then.
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A run begins on this thread: nothing has failed yet, and where panics are is noted from now on.
pub(super) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if LISTENS.get() {
                PANICKED_AT.set(info.location().map(ToString::to_string));
            }
            if !is_quiet() {
                others(info);
            }
        }));
    });
    LISTENS.set(true);
    PANICKED_AT.take();
    FAILED.take();
}

/// The run has failed, with these faults. Behind that, other panics are nobody's business.
pub(super) fn has_failed(script: Vec<(Duration, Fault)>) {
    FAILED.set((PANICKED_AT.take(), script));
}

/// Where the last run on this thread failed, and which faults it had asked for.
pub(super) fn last() -> Failed {
    let (place, script) = FAILED.take();
    (place.or_else(|| PANICKED_AT.take()), script)
}

/// Runs on this thread look for something: they say nothing of their failures, and end then.
pub(super) fn be_quiet(until: Instant) {
    UNTIL.set(Some(until));
}

pub(super) fn is_quiet() -> bool {
    UNTIL.get().is_some()
}

/// # Panics
/// A run that looks for something has taken too long.
pub(super) fn look_at_the_time() {
    if let Some(until) = UNTIL.get() {
        assert!(Instant::now() < until, "this run takes too long");
    }
}
