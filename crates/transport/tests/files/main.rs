//! Files on rings and by workers: one table of behaviours for every way, then what only one way has.

#![cfg(unix)]

mod behaviours;
mod faults;
mod limits;
mod loops;
mod pieces;
mod support;
