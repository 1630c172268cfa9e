//! HTTP/2's server under attack, in memory: what each attack costs it, that it ends, and who is served meanwhile.
//!
//! | file | what it is |
//! | --- | --- |
//! | `peer` | a peer that says frames as bytes, and may cut, repeat and distort them |
//! | `floods` | many frames that cost us more than the peer |
//! | `held` | memory that is held: windows, heads, bodies, what is never read |
//! | `slow` | drips and silence |
//! | `smuggling` | requests that would be others if they were passed on as HTTP/1.1 |
//! | `random` | anything: frames in any order, cut anywhere |

mod floods;
mod held;
mod peer;
mod random;
mod slow;
mod smuggling;

use netwright_testkit::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
