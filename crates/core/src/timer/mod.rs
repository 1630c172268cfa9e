//! Timers of an event loop: the structure that orders them, apart from any clock.

pub(crate) mod wheel;
