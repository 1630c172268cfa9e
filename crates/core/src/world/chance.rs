//! What is left to chance: the world's where there is one.

use std::hash::{BuildHasher, RandomState};

/// Fills `bytes` by the world's chance. False, and nothing done, outside of a world: then whoever asks has means of his own.
///
/// ```
/// use netwright_core::world::fill_random;
///
/// let mut mask = [0; 4];
/// if !fill_random(&mut mask) {
///     mask = [1, 2, 3, 4]; // drawn by a generator of one's own
/// }
/// ```
#[inline]
pub fn fill_random(bytes: &mut [u8]) -> bool {
    let Some(world) = super::current() else { return false };
    world.fill_random(bytes);
    true
}

/// A number that peers cannot foresee, for keys of hashes and the like, and not for secrets. In a world the same each time.
///
/// ```
/// use netwright_core::world::random;
///
/// assert_ne!(random(), random());
/// ```
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    match fill_random(&mut bytes) {
        true => u64::from_le_bytes(bytes),
        false => RandomState::new().hash_one(0),
    }
}
