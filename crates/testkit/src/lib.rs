//! What tests of Netwright share.
//!
//! - [`CountingAllocator`] counts heap allocations per thread, so that "allocates nothing" can be a test.
//!   [`assert_allocations!`] is one.
//! - `verify`, behind the feature of that name: `verify_decoder!`, what every decoder has to keep however its bytes come,
//!   with random pieces and hostile lengths; `fuzz_decoder!`, attacks that last as long as one likes.
//! - `Wire`, behind the same feature: a channel in memory that costs nothing itself, for what messages may cost.
//! - `contract`, behind the feature of that name: the behaviours of channels over real connections, written once and run over
//!   every transport.
//! - `hostile`, behind the feature of that name: peers that do everything they should not, drawn from a seed.
//! - `sim`, behind the feature of that name: whole programs, unchanged, on hosts of a simulated network; everything comes from a seed.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod allocations;
// What a full queue, a reset before accept or a descriptor limit look like is the system's affair, and the contract says how
// Linux has it. What of it holds on Windows, and what does not and why, is in `contract/windows.rs`.
#[cfg(all(feature = "contract", any(target_os = "linux", windows)))]
#[allow(clippy::needless_borrows_for_generic_args)]
// what waits for loops takes them by value or by reference
pub mod contract;

#[cfg(feature = "hostile")]
pub mod hostile;

#[cfg(feature = "sim")]
pub mod sim;

#[cfg(feature = "verify")]
pub mod verify;
#[cfg(feature = "verify")]
mod wire;

pub use allocations::{
    CountingAllocator, allocations_during, allocations_so_far, bytes_allocated_during, bytes_in_use,
    peak_during,
};
#[cfg(feature = "verify")]
pub use wire::Wire;

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
