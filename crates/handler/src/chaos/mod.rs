//! Faults of a bad network, on a good one: what a program does then is seen before users see it.
//!
//! [`Chaos`] says which, in values or in words, and makes the stage of each connection.

mod config;
mod draw;
mod stage;

pub use config::{Chance, Chaos, ChaosError, Faults};
pub use stage::{ChaosCut, ChaosStage};
