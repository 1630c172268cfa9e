//! Servers and clients in memory, against a peer that says each frame.

mod client;
mod exchanges;
mod peer;
