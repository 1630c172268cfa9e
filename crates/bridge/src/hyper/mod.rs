//! What hyper asks of a runtime: I/O, an executor, a timer. With them a stock hyper server or client runs on an event loop;
//! an example is in the description of the crate.

mod executor;
mod io;
mod timer;

pub use executor::LoopExecutor;
pub use timer::{LoopSleep, LoopTimer};
