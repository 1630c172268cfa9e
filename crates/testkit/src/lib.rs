//! What tests of Netwright share.
//!
//! [`CountingAllocator`] counts heap allocations per thread, so that "allocates nothing" can be a test.

mod allocations;

pub use allocations::{CountingAllocator, allocations_during, allocations_so_far};
