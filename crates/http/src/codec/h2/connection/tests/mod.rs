//! Servers and clients in memory, against a peer that says each frame.

mod app;
mod ends;
mod exchanges;
mod frames;
mod memory;
mod misuse;
mod peer;
mod windows;
