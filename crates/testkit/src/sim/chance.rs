//! Randomness from a seed: xoshiro256++ by Blackman and Vigna, its state filled by SplitMix64 as they advise.
//!
//! The same seed gives the same numbers on every machine. Not for secrets.

use std::ops::RangeInclusive;

/// A generator of random numbers that can be repeated.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    seed: u64,
    state: [u64; 4],
}

impl Chance {
    /// A generator that is determined by `seed`.
    pub(crate) fn seed(seed: u64) -> Self {
        let mut at = seed;
        Self { seed, state: std::array::from_fn(|_| split_mix(&mut at)) }
    }

    /// A generator of its own for one purpose. It depends on the seed and the label alone, not on what was drawn before, so that one
    /// part of a simulation does not disturb another.
    pub(crate) fn fork(&self, label: &str) -> Self {
        let mut hash = super::net::Fnv::default();
        hash.bytes(label.as_bytes());
        let mut at = self.seed ^ hash.value();
        Self::seed(split_mix(&mut at))
    }

    /// Any number.
    pub(crate) fn u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number from 0 to `bound`, without it; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The upper half of a product of 128 bits: a bias below 2⁻⁴⁰ for the bounds that we have.
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number of the range, both ends included.
    pub(crate) fn between(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        match high.saturating_sub(low).checked_add(1) {
            Some(width) => low + self.below(width),
            None => self.u64(),
        }
    }

    /// True with the probability `p`. Draws nothing if `p` leaves no choice.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        if p <= 0.0 {
            return false;
        }
        p >= 1.0 || ((self.u64() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// Fills `bytes` with random ones.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.u64().to_le_bytes()[..piece.len()]);
        }
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_seed_others() {
        let draw = |seed| {
            let mut chance = Chance::seed(seed);
            std::array::from_fn::<u64, 8, _>(|_| chance.u64())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn the_numbers_are_those_of_the_published_algorithm() {
        let mut chance = Chance { seed: 0, state: [1, 2, 3, 4] };
        let first: [u64; 4] = std::array::from_fn(|_| chance.u64());
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn a_fork_depends_on_seed_and_label_alone() {
        let mut chance = Chance::seed(3);
        let before = chance.fork("links").u64();
        chance.u64();
        assert_eq!(chance.fork("links").u64(), before);
        assert_ne!(chance.fork("names").u64(), before);
    }

    #[test]
    fn draws_stay_within_their_bounds_and_reach_them() {
        let mut chance = Chance::seed(1);
        let drawn: Vec<u64> = (0..1_000).map(|_| chance.between(3..=5)).collect();
        assert!((3..=5).all(|n| drawn.contains(&n)) && drawn.iter().all(|n| (3..=5).contains(n)));
        assert_eq!((chance.below(0), chance.between(9..=9)), (0, 9));
        assert!(!chance.chance(0.0) && chance.chance(1.0));
        let heads = (0..10_000).filter(|_| chance.chance(0.25)).count();
        assert!((2_200..2_800).contains(&heads), "{heads}");
        let mut bytes = [0; 13];
        chance.fill(&mut bytes);
        assert!(bytes.iter().any(|byte| *byte != 0));
    }
}
