//! Refills the processor's return stack after a system call, where the system leaves it in a bad state.
//!
//! ```text
//!   call, call, syscall ─▶ the kernel returns without the return stack: its entries stay, and ours are pushed out
//!   ret ─▶ predicted to go to a kernel address ─▶ some 2,000 cycles, once for each system call that we return from
//!
//!   call, call, syscall, 32 × call, 32 × ret ─▶ the stack is full of addresses of ours
//!   ret ─▶ predicted wrongly, to an address of ours ─▶ 20 cycles
//! ```
//! AMD's Zen 3 and 4 processors have to be kept from speculating past returns of the kernel ("Speculative Return Stack
//! Overflow"). Linux does it with a return sequence, "Safe RET", that leaves one entry on the return stack for each
//! return: after any system call the whole stack points into the kernel. The first return of the program after that is
//! then dear. Measured with a hand-written echo loop on Zen 4: 4.3 µs per message with everything in one function, 5.0 µs
//! with one function around the system calls, 4.3 µs again with this.
//!
//! Always true: without that mitigation nothing happens here but one load and a branch.

use std::sync::atomic::{AtomicBool, Ordering};

/// Entries of the return stack on Zen 3 and Zen 4. Fewer do nothing, more do no harm.
const ENTRIES: u32 = 32;

static SPOILED: AtomicBool = AtomicBool::new(false);

/// Finds out whether it is needed. To be called before the first connection; a file that is not there means no.
pub(crate) fn look() {
    let mitigation = std::fs::read_to_string("/sys/devices/system/cpu/vulnerabilities/spec_rstack_overflow");
    let need = mitigation.is_ok_and(|text| text.contains("Safe RET"));
    SPOILED.store(need, Ordering::Relaxed);
}

/// To be called right after a system call, in the function that made it, before anything returns.
#[inline(always)]
pub(crate) fn refill() {
    if SPOILED.load(Ordering::Relaxed) {
        fill();
    }
}

/// The way in for pipelines of other crates, so that [`nest`] is known in this one alone and calls itself directly.
#[inline(never)]
fn fill() {
    nest(ENTRIES);
}

/// Calls itself so many times; what comes after the call keeps the compiler from making a loop of it. One function and not
/// a chain of 32: the kernel leaves little of ours in the branch predictor either, and the chain costs half a microsecond.
#[inline(never)]
fn nest(more: u32) {
    if more > 1 {
        nest(more - 1);
        std::hint::black_box(());
    }
}
