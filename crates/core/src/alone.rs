//! A value on cache lines of its own: what one core writes all the time must not share a line with what another reads.

use std::ops::Deref;

/// Two lines of 64 bytes, because many processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct Alone<T>(pub(crate) T);

impl<T> Deref for Alone<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
