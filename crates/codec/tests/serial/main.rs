//! Every format behind frames: round trips, hostile messages, what they may allocate.

mod bounds;
mod formats;
mod fuzz;
mod hostile;
mod types;

use netwright_testkit::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
