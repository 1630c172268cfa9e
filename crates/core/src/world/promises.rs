//! Which promises that were made in a world have not ended: at its end there should be none.
//!
//! Kept for each thread, because a world runs on one. Outside of worlds nothing is counted, and a promise costs one look at that more.

use std::{cell::RefCell, collections::BTreeMap};

thread_local! {
    /// How many of each kind. Below zero: one that was made before the count began.
    static PENDING: RefCell<BTreeMap<&'static str, i64>> = const { RefCell::new(BTreeMap::new()) };
}

/// A promise of this kind is made. Returns whether that is counted.
#[inline]
pub(crate) fn made(kind: fn() -> &'static str) -> bool {
    super::is_active() && count(kind(), 1)
}

/// A promise that was counted has ended.
#[cold]
pub(crate) fn ended(kind: &'static str) {
    count(kind, -1);
}

#[cold]
fn count(kind: &'static str, change: i64) -> bool {
    PENDING.try_with(|pending| *pending.borrow_mut().entry(kind).or_default() += change).is_ok()
}

/// The promises that were made on this thread in a world, since the count [began](forget_promises), and have not ended: the type of what each is for, and
/// how many of them there are.
///
/// ```
/// use netwright_core::{PromiseError, promise, world};
///
/// let (done, _) = promise::<u32, PromiseError>();
/// assert!(world::pending_promises().is_empty()); // not made in a world
/// done.succeed(1);
/// ```
pub fn pending_promises() -> Vec<(&'static str, u64)> {
    PENDING.with_borrow(|pending| {
        pending
            .iter()
            .filter(|(_, many)| **many > 0)
            .map(|(kind, many)| (*kind, many.unsigned_abs()))
            .collect()
    })
}

/// Begins the count of [pending promises](pending_promises) anew.
pub fn forget_promises() {
    let _ = PENDING.try_with(|pending| pending.borrow_mut().clear());
}
