//! Servers and clients in memory, against a peer that says each frame.

mod exchanges;
mod peer;
