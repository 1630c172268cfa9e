//! The wheel against a sorted map, and the sentences of its header one by one.

use super::*;
use std::collections::BTreeMap;

/// Panics unless every list, bit and count agrees with rules 1 to 3 of the module header.
fn check_rules<T>(wheel: &Wheel<T>) {
    let mut seen = check_list(wheel, &wheel.due, None);
    for level in 0..LEVELS {
        for slot in 0..SLOTS {
            let list = &wheel.slots[level][slot];
            assert_eq!(
                wheel.occupied[level] >> slot & 1 == 1,
                list.len > 0,
                "bit of level {level} slot {slot}"
            );
            seen += check_list(wheel, list, Some((level, slot)));
        }
    }
    assert_eq!(seen, wheel.len(), "timers in lists, and in the table");
}

fn check_list<T>(wheel: &Wheel<T>, list: &List, place: Option<(usize, usize)>) -> usize {
    let (mut index, mut prev, mut count) = (list.head, NIL, 0);
    while index != NIL {
        let entry = wheel.entries.at(index);
        assert_eq!(entry.prev, prev);
        assert_eq!(slot_of(entry.deadline, wheel.current), place, "place of deadline {}", entry.deadline);
        (prev, index, count) = (index, entry.next, count + 1);
    }
    assert_eq!((list.tail, list.len as usize), (prev, count));
    count
}

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn seeded(seed: u64) -> Self {
        // Spread small seeds over all bits; the state must not be 0.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    /// Any size of number is as likely as any other.
    fn any_size(&mut self) -> u64 {
        let bits = self.below(64) as u32;
        self.next() >> bits
    }
}

/// The wheel beside a map that is right by construction; every call goes to both.
struct Checked {
    seed: u64,
    wheel: Wheel<u64>,
    // By the order that the header promises: (max(deadline, current when armed), number of the arming).
    model: BTreeMap<(u64, u64), u64>,
    current: u64,
    armed: u64,
    // Every key ever made, fired and cancelled ones too.
    keys: Vec<(TimerKey, (u64, u64))>,
}

impl Checked {
    fn new(seed: u64) -> Self {
        Self { seed, wheel: Wheel::new(), model: BTreeMap::new(), current: 0, armed: 0, keys: Vec::new() }
    }

    fn arm(&mut self, deadline: u64) {
        let rank = (deadline.max(self.current), self.armed);
        let key = self.wheel.arm(deadline, self.armed);
        self.model.insert(rank, self.armed);
        self.keys.push((key, rank));
        self.armed += 1;
    }

    fn cancel(&mut self, nth: usize) {
        let (key, rank) = self.keys[nth];
        assert_eq!(self.wheel.cancel(key), self.model.remove(&rank), "seed {}: cancel {rank:?}", self.seed);
    }

    fn pop(&mut self, now: u64) -> bool {
        self.current = self.current.max(now);
        let first = self.model.first_entry().filter(|first| first.key().0 <= self.current);
        let expected = first.map(|first| first.remove());
        assert_eq!(self.wheel.pop_due(now), expected, "seed {}: pop at {now}", self.seed);
        expected.is_some()
    }

    fn check(&self) {
        let seed = self.seed;
        assert_eq!(self.wheel.len(), self.model.len(), "seed {seed}");
        assert_eq!(self.wheel.is_empty(), self.model.is_empty(), "seed {seed}");
        assert_eq!(self.wheel.current(), self.current, "seed {seed}");
        match (self.wheel.next_deadline(), self.model.first_key_value()) {
            (None, None) => {}
            (Some(told), Some((&(earliest, _), _))) if earliest <= self.current => {
                assert_eq!(told, self.current, "seed {seed}: something is due");
            }
            (Some(told), Some((&(earliest, _), _))) => {
                assert!(told <= earliest, "seed {seed}: told {told}, due {earliest}: late");
                assert!(told > self.current, "seed {seed}: told {told} at {}: spins", self.current);
                let same_block = earliest / 64 == self.current / 64;
                assert!(
                    !same_block || told == earliest,
                    "seed {seed}: told {told}, due {earliest}: not exact"
                );
            }
            (told, earliest) => panic!("seed {seed}: told {told:?}, earliest {earliest:?}"),
        }
    }

    fn some_deadline(&self, random: &mut Random) -> u64 {
        let ahead = match random.below(10) {
            0 => return u64::MAX - random.below(3),
            1 => return self.current.saturating_sub(random.any_size()),
            2 => return random.any_size(),
            // On and beside the edges of slots.
            3 | 4 => {
                let shift = 6 * random.below(11);
                let edge =
                    (self.current >> shift).saturating_add(1 + random.below(3)).saturating_mul(1 << shift);
                return edge.saturating_sub(1).saturating_add(random.below(3));
            }
            5 => random.any_size(),
            6 => random.below(10_000),
            7 => random.below(300),
            _ => random.below(8),
        };
        self.current.saturating_add(ahead)
    }

    fn some_now(&self, random: &mut Random) -> u64 {
        let step = match random.below(16) {
            0 => return self.current.saturating_sub(random.below(100)),
            1..=4 => return self.wheel.next_deadline().unwrap_or(self.current),
            // Seldom: a few of these take the run to u64::MAX, where nothing is left to test.
            5 if random.below(20) == 0 => random.any_size(),
            5..=7 => random.below(300_000),
            8..=11 => random.below(200),
            _ => random.below(3),
        };
        self.current.saturating_add(step)
    }
}

#[test]
fn any_mix_of_arm_cancel_and_advance_agrees_with_a_sorted_map() {
    for seed in 0..200 {
        let random = &mut Random::seeded(seed);
        let mut timers = Checked::new(seed);
        if seed % 2 == 1 {
            timers.pop(random.any_size());
        }
        for step in 0..1_500 {
            match random.below(8) {
                0..=3 => {
                    let deadline = timers.some_deadline(random);
                    // Several at once, so that equal deadlines are common.
                    for _ in 0..1 + random.below(3) {
                        timers.arm(deadline);
                    }
                }
                4 | 5 if !timers.keys.is_empty() => {
                    let recent = timers.keys.len().min(40) as u64;
                    timers.cancel(timers.keys.len() - 1 - random.below(recent) as usize);
                }
                _ => {
                    let now = timers.some_now(random);
                    let stop_after = if random.below(3) == 0 { random.below(4) } else { u64::MAX };
                    let mut popped = 0;
                    while popped < stop_after && timers.pop(now) {
                        popped += 1;
                        if popped < 20 && random.below(4) == 0 {
                            timers.arm(timers.some_deadline(random));
                        }
                    }
                }
            }
            timers.check();
            if step % 50 == 0 {
                check_rules(&timers.wheel);
            }
        }
        let rest: Vec<u64> = timers.model.values().copied().collect();
        assert_eq!(timers.wheel.drain(), rest, "seed {seed}");
        assert!(timers.keys.iter().all(|&(key, _)| timers.wheel.cancel(key).is_none()), "seed {seed}");
        check_rules(&timers.wheel);
    }
}

#[test]
fn equal_deadlines_fire_in_arm_order_though_each_was_armed_on_another_level() {
    const DEADLINE: u64 = (5 << 18) + (3 << 12) + (2 << 6) + 1;
    let mut wheel = Wheel::new();
    for (now, level) in [(0, 3), (5 << 18, 2), (DEADLINE - 129, 1), (DEADLINE - 1, 0)] {
        assert_eq!(wheel.pop_due(now), None);
        assert_eq!(slot_of(DEADLINE, now).unwrap().0, level);
        wheel.arm(DEADLINE, level);
        wheel.arm(DEADLINE + 1, level);
    }
    assert_eq!(std::iter::from_fn(|| wheel.pop_due(DEADLINE)).collect::<Vec<_>>(), [3, 2, 1, 0]);
    assert_eq!(std::iter::from_fn(|| wheel.pop_due(u64::MAX)).collect::<Vec<_>>(), [3, 2, 1, 0]);
}

#[test]
fn a_timer_is_not_due_one_tick_early_and_due_on_its_tick() {
    for deadline in
        (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).filter(|&tick| tick > 0)
    {
        let mut wheel = Wheel::new();
        wheel.arm(deadline, ());
        assert_eq!(wheel.pop_due(deadline - 1), None, "deadline {deadline}");
        assert_eq!(wheel.next_deadline(), Some(deadline), "one tick before, the tick is known exactly");
        assert_eq!(wheel.pop_due(deadline), Some(()), "deadline {deadline}");
    }
}

#[test]
fn sleeping_until_next_deadline_wakes_early_at_most_once_per_level_and_never_late() {
    for seed in 0..500 {
        let random = &mut Random::seeded(seed);
        let mut wheel = Wheel::new();
        wheel.pop_due(random.any_size() / 2);
        let deadline = wheel.current() + 1 + random.any_size() / 2;
        let level = slot_of(deadline, wheel.current()).unwrap().0;
        wheel.arm(deadline, ());
        let mut early = 0;
        loop {
            let told = wheel.next_deadline().unwrap();
            assert!(
                told > wheel.current() && told <= deadline,
                "seed {seed}: told {told}, deadline {deadline}"
            );
            if wheel.pop_due(told).is_some() {
                assert_eq!(told, deadline, "seed {seed}");
                break;
            }
            early += 1;
        }
        assert!(early <= level, "seed {seed}: {early} early wakes from level {level}");
    }
}

#[test]
fn a_timer_armed_overdue_fires_in_the_same_drain_behind_all_that_is_due() {
    let mut wheel = Wheel::new();
    wheel.arm(20, "twenty");
    wheel.arm(10, "ten");
    assert_eq!(wheel.pop_due(100), Some("ten"));
    wheel.arm(7, "seven, late");
    wheel.arm(5, "five, late");
    wheel.arm(101, "next tick");
    wheel.arm(100, "this tick");
    assert_eq!(wheel.next_deadline(), Some(100), "a drain that stops here is resumed at once");
    let rest: Vec<_> = std::iter::from_fn(|| wheel.pop_due(100)).collect();
    assert_eq!(rest, ["twenty", "seven, late", "five, late", "this tick"]);
    assert_eq!(wheel.pop_due(101), Some("next tick"));
}

#[test]
fn a_drain_bounded_by_advance_ends_and_serves_every_timer_that_was_due() {
    let mut wheel = Wheel::new();
    wheel.arm(1, "again");
    wheel.arm(2, "once");
    let mut fired = Vec::new();
    for now in [50, 51] {
        for _ in 0..wheel.advance(now) {
            let Some(name) = wheel.pop_due(now) else { break };
            fired.push((now, name));
            if name == "again" {
                wheel.arm(1, "again");
            }
        }
    }
    assert_eq!(fired, [(50, "again"), (50, "once"), (51, "again")]);
    assert_eq!(wheel.len(), 1);
}

#[test]
fn a_fired_or_cancelled_key_cancels_nothing_even_when_its_place_is_taken() {
    let mut wheel = Wheel::new();
    let fired = wheel.arm(1, "fired");
    assert_eq!(wheel.pop_due(1), Some("fired"));
    assert_eq!(wheel.cancel(fired), None);
    let cancelled = wheel.arm(9, "cancelled");
    assert_eq!(wheel.cancel(cancelled), Some("cancelled"));
    let heir = wheel.arm(9, "heir");
    assert_eq!(heir.0.index(), fired.0.index());
    assert_eq!((wheel.cancel(fired), wheel.cancel(cancelled)), (None, None));
    assert_eq!(wheel.pop_due(9), Some("heir"));
}

#[test]
fn a_due_timer_can_be_cancelled_until_it_is_popped() {
    let mut wheel = Wheel::new();
    let keys = [1, 1, 2, 90].map(|deadline| wheel.arm(deadline, deadline));
    assert_eq!(wheel.advance(100), 4);
    assert_eq!(wheel.cancel(keys[1]), Some(1));
    assert_eq!(wheel.cancel(keys[3]), Some(90));
    check_rules(&wheel);
    assert_eq!(wheel.advance(100), 2);
    assert_eq!([wheel.pop_due(100), wheel.pop_due(100), wheel.pop_due(100)], [Some(1), Some(2), None]);
}

#[test]
fn a_million_armed_and_cancelled_timers_leave_nothing_and_use_one_place() {
    let mut wheel = Wheel::new();
    for n in 0..1_000_000u64 {
        let key = wheel.arm(n * 37, n);
        assert_eq!(key.0.index(), 0, "timer {n} takes the place of the one before");
        assert_eq!(wheel.cancel(key), Some(n));
    }
    assert_eq!((wheel.len(), wheel.next_deadline()), (0, None));
    check_rules(&wheel);
}

#[test]
fn a_second_crowd_of_timers_fits_into_the_places_of_the_first() {
    const CROWD: u64 = 1_000_000;
    let mut wheel = Wheel::new();
    for round in 0..2 {
        let keys: Vec<_> = (0..CROWD).map(|n| wheel.arm(n * n % 777_777, n)).collect();
        assert!(keys.iter().all(|key| u64::from(key.0.index()) < CROWD), "round {round} grew the table");
        assert!((0..CROWD).zip(&keys).all(|(n, key)| wheel.cancel(*key) == Some(n)));
        assert!(wheel.is_empty());
    }
    check_rules(&wheel);
}

#[test]
fn the_last_tick_is_a_deadline_that_never_comes_and_does_no_harm() {
    let mut wheel = Wheel::new();
    let never = wheel.arm(u64::MAX, "never");
    wheel.arm(3, "soon");
    assert_eq!(wheel.pop_due(2), None);
    assert_eq!(wheel.next_deadline(), Some(3));
    assert_eq!(wheel.pop_due(u64::MAX - 1), Some("soon"));
    assert_eq!(wheel.pop_due(u64::MAX - 1), None);
    assert_eq!(wheel.next_deadline(), Some(u64::MAX));
    assert_eq!(wheel.cancel(never), Some("never"));
    // Only a caller that names that tick gets there, and the wheel still works.
    wheel.arm(u64::MAX, "the end");
    assert_eq!(wheel.pop_due(u64::MAX), Some("the end"));
    wheel.arm(u64::MAX, "after it");
    assert_eq!(wheel.pop_due(0), Some("after it"), "a tick that lies back counts as the current one");
    assert_eq!((wheel.pop_due(u64::MAX), wheel.next_deadline()), (None, None));
}

#[test]
fn drain_hands_back_everything_in_order_and_leaves_a_working_wheel() {
    let mut wheel = Wheel::new();
    wheel.pop_due(1_000);
    for deadline in [u64::MAX, 5_000, 1_001, 900, 5_000, 1 << 40] {
        wheel.arm(deadline, deadline);
    }
    assert_eq!(wheel.drain(), [900, 1_001, 5_000, 5_000, 1 << 40, u64::MAX]);
    assert_eq!((wheel.len(), wheel.current(), wheel.next_deadline()), (0, 1_000, None));
    wheel.arm(1_002, 1);
    assert_eq!((wheel.pop_due(1_001), wheel.pop_due(1_002)), (None, Some(1)));
    check_rules(&wheel);
}
