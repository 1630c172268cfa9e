//! Our own parts in a simulation: what a seed draws, and what must hold whatever it draws.

mod found;
mod stages;
