//! Servers and clients in memory, against a peer that says each frame.

mod app;
mod client;
mod ends;
mod exchanges;
mod frames;
mod memory;
mod misuse;
mod peer;
mod windows;
