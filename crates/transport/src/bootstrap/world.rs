//! Threads that stand in a world, where loops have no threads and no sockets of their own.

use super::{Backend, Choice};
use std::sync::LazyLock;

/// Whether the calling thread stands in one: then nothing is tried on the system, and all loops are those of the world, whatever they were
/// to wait by.
pub(crate) fn in_world() -> bool {
    netwright_core::world::is_active()
}

/// What [`Backend::Auto`] stands for there.
pub(super) fn choice() -> &'static Choice {
    static CHOICE: LazyLock<Choice> = LazyLock::new(|| Choice {
        backend: Backend::Readiness,
        why: "this thread stands in a simulated world, whose loops need no system".to_owned(),
    });
    &CHOICE
}
