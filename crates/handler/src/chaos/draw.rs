//! What is left to chance: a small generator, so that the same seed draws the same.

use super::config::Chance;
use std::time::Duration;

/// SplitMix64: each number of a counter is mixed. Faults have to be spread, not to be secret.
#[derive(Debug, Clone)]
pub(super) struct Draw(u64);

fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Draw {
    pub(super) fn new(seed: u64, connection: u64, direction: u64) -> Self {
        Self(
            mixed(mixed(seed).wrapping_add(mixed(connection.wrapping_add(1))))
                .wrapping_add(mixed(direction + 1)),
        )
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number below this one; 0 if there is none.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(super) fn happens(&mut self, chance: Chance) -> bool {
        chance.millionths() > 0 && self.below(1_000_000) < u64::from(chance.millionths())
    }

    /// A time up to this one.
    pub(super) fn up_to(&mut self, most: Duration) -> Duration {
        match u64::try_from(most.as_nanos()) {
            Ok(0) | Err(_) => Duration::ZERO,
            Ok(nanos) => Duration::from_nanos(self.below(nanos.saturating_add(1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_depends_on_seed_connection_and_direction_and_nothing_else() {
        let first = |seed, connection, direction| Draw::new(seed, connection, direction).next();
        assert_eq!(first(1, 2, 0), first(1, 2, 0));
        let all = [first(1, 2, 0), first(1, 2, 1), first(1, 3, 0), first(2, 2, 0), first(2, 1, 0)];
        assert!((1..all.len()).all(|index| !all[..index].contains(&all[index])), "{all:?}");
    }

    #[test]
    fn a_chance_is_met_about_as_often_as_it_says() {
        let mut draw = Draw::new(7, 1, 0);
        let chance: Chance = "10%".parse().unwrap();
        let times = (0..100_000).filter(|_| draw.happens(chance)).count();
        assert!((9_500..10_500).contains(&times), "{times}");
        assert!(
            (0..1_000).all(|_| draw.happens("100%".parse().unwrap()) && !draw.happens(Chance::default()))
        );
        assert!((0..1_000).all(|_| draw.below(3) < 3 && draw.up_to(Duration::from_nanos(5)).as_nanos() <= 5));
        assert_eq!(draw.below(0), 0);
    }
}
