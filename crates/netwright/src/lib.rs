//! Netwright: a network application framework with Netty's architecture, for Rust.
//!
//! This crate gathers what the others offer; it has no logic of its own. Begin with [`EventLoop`].

#![forbid(unsafe_code)]

/// Frames and text as stages.
pub use netwright_codec as codec;
pub use netwright_core::*;
pub use netwright_transport::*;
