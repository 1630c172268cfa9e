//! What nobody is to foresee: masks, and keys of handshakes.

use netwright_core::world;

/// Random bytes: those of the world, in a simulation.
pub(crate) fn drawn<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if !world::fill_random(&mut bytes) {
        rand::fill(&mut bytes[..]);
    }
    bytes
}
