//! One contract for every transport: what channels over real connections do, written once.
//!
//! ```text
//!   Behaviour  "a half-closed peer still gets its answer"   what it shows, what it needs
//!       ×  Transport  readiness, blocking, Unix, local …    what carries the bytes
//!       ×  Model      one loop, acceptors, a shared port …  which loops do it
//!       ×  Variation  peers of ours, asking, on workers     in one model each: it varies what the model does not
//!       =  Case       readiness::one_loop::half_close::…    one test
//! ```
//! Always true:
//! 1. A behaviour takes a [`Setup`] and nothing else: no transport is named in one, and what it needs that not every
//!    transport has is said in its entry ([`Need`]), so that the table can tell where it does not apply and why.
//! 2. What a machine lacks is told, with the reason; it never counts as passed.
//! 3. No behaviour sleeps. What must not happen is looked for after all loops have taken a few turns; a loop that must not
//!    spin is given a short timer, and its turns are counted.
//!
//! A transport from outside (see `netwright_transport::open`) is run through it as a [`Subject`], with nothing but what is public; what it does
//! not have it says itself, and what that concerns is skipped, with the reason.
//!
//! Run by `crates/transport/tests/contract.rs`; the table is in `docs/contract.md` and printed by
//! `cargo run -p netwright-testkit --features contract --example contract_table`.
//!
//! Not here: datagrams, which are no streams; single options, `scratch`, pools: unit tests of `netwright-transport`.

mod behaviour;
mod case;
pub mod netty;
mod run;
mod setup;
mod subject;
mod support;
mod table;

mod accept;
mod admission;
mod children;
mod connect;
mod deaf;
mod demand;
mod echo;
pub mod ends;
mod faults;
mod files;
mod half_close;
mod handover;
mod joints;
mod kills;
mod lifecycle;
mod linger;
mod listening;
mod loops;
mod models;
mod pace;
mod pieces;
mod quiet;
mod signals;
mod tails;
mod threads;
mod through;
mod turns;
mod urgent;
#[cfg(windows)]
mod windows;
mod write;

pub use behaviour::Behaviour;
use behaviour::behaviour;
use case::ON_PURPOSE;
pub use case::{Case, cases, cases_of};
pub use run::run;
pub use setup::{Model, Need, Setup, Transport, Variation};
use std::sync::LazyLock;
pub use subject::Subject;
pub use table::markdown;

/// Every behaviour, in the order of the files they are in.
pub fn suite() -> &'static [Behaviour] {
    static SUITE: LazyLock<Vec<Behaviour>> = LazyLock::new(|| {
        [
            accept::BEHAVIOURS,
            admission::BEHAVIOURS,
            children::BEHAVIOURS,
            connect::BEHAVIOURS,
            deaf::BEHAVIOURS,
            demand::BEHAVIOURS,
            echo::BEHAVIOURS,
            ends::BEHAVIOURS,
            faults::BEHAVIOURS,
            files::BEHAVIOURS,
            half_close::BEHAVIOURS,
            handover::BEHAVIOURS,
            joints::BEHAVIOURS,
            kills::BEHAVIOURS,
            lifecycle::BEHAVIOURS,
            linger::BEHAVIOURS,
            listening::BEHAVIOURS,
            loops::BEHAVIOURS,
            models::BEHAVIOURS,
            pace::BEHAVIOURS,
            pieces::BEHAVIOURS,
            quiet::BEHAVIOURS,
            signals::BEHAVIOURS,
            tails::BEHAVIOURS,
            threads::BEHAVIOURS,
            through::BEHAVIOURS,
            turns::BEHAVIOURS,
            urgent::BEHAVIOURS,
            write::BEHAVIOURS,
        ]
        .concat()
    });
    &SUITE
}
