//! Bytes by chance, which can be repeated, and bytes that tell where they belong.

use std::thread;

/// Random numbers (SplitMix64). The seed is printed if the test fails; `NETWRIGHT_SEED` repeats it.
pub(crate) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    pub(crate) fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let given = std::env::var("NETWRIGHT_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        Self { seed, state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `bound`, without it.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(len).collect()
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the test failed with NETWRIGHT_SEED={}", self.seed);
        }
    }
}

/// Bytes that tell where they belong: the position, in a pattern that no buffer size divides.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(pattern_at).collect()
}

pub(crate) fn pattern_at(position: usize) -> u8 {
    (position % 251) as u8 ^ (position / 65_521) as u8
}
