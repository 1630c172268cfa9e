//! Programs in a simulation: the same each time, and every end is looked at.

mod datagrams;
mod faults;
mod programs;
