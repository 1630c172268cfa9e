//! Datagram channels over real sockets, UDP and Unix: behaviour 65 of the list that people who know Netty expect, and what
//! else can happen to a datagram.
//!
//! Peers are plain blocking sockets of the standard library and channels of our own, all on loopback. Loopback may drop
//! datagrams when a buffer is full, so whoever sends many waits for answers in between.
//!
//! No test sleeps. What must not happen is looked for after the loop has taken a few turns; a loop that must not spin is
//! given a short timer, and its turns are counted.

#![cfg(target_os = "linux")]

mod batches;
mod blocking;
mod demand;
mod embedded;
mod exchange;
mod faults;
mod multicast;
mod support;
mod unix;
