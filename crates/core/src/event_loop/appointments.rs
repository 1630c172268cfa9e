//! Moments at which stages want to look at their channels: for deadlines that nearly always turn out to have moved.
//!
//! ```text
//!   heap       [t 7: place 2][t 9: place 0][t 9: place 2]      by tick; what nobody waits for any more lies in it until its turn
//!   waiting    [9, stage 1][-][7, stage 4]                     for each place of a source on the loop: what counts
//! ```
//! Ten thousand idle connections have one of these each and nothing else, so one takes 16 bytes, where a timer takes 72: a source has one at a time,
//! which is kept by its place in the loop's table, so that nobody needs a key.
//!
//! Always true between calls:
//! 1. An entry of the heap counts if `waiting` has its tick; the first one does, and a timer of the loop waits for it. So the loop never wakes for nothing.
//! 2. At most half of the heap does not count, but for a few: then it is cleared of these.
//! 3. What is asked for during a turn comes in a later one.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Places of sources have to fit beside ticks. Whoever has no room here takes a timer.
const PLACE_BITS: u32 = 24;
/// And so have numbers of stages.
const STAGE_BITS: u32 = PLACE_BITS;
/// 34 years.
const TICK_BITS: u32 = u64::BITS - PLACE_BITS;
/// So many entries that do not count are too few to look for.
const SLACK: usize = 64;

/// A tick, and the place of a source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u64);

impl Entry {
    fn new(tick: u64, place: u32) -> Self {
        Self(tick << PLACE_BITS | u64::from(place))
    }

    fn tick(self) -> u64 {
        self.0 >> PLACE_BITS
    }

    fn place(self) -> u32 {
        self.0 as u32 & ((1 << PLACE_BITS) - 1)
    }
}

/// What a source waits for: a tick, and which stage wants to look; 0, which is none, if nobody does.
#[derive(Clone, Copy)]
struct Waiting(u64);

impl Waiting {
    const NOBODY: Self = Self(0);

    fn new(tick: u64, stage: u32) -> Self {
        Self(tick << STAGE_BITS | u64::from(stage))
    }

    fn tick(self) -> u64 {
        self.0 >> STAGE_BITS
    }

    fn stage(self) -> u32 {
        self.0 as u32 & ((1 << STAGE_BITS) - 1)
    }
}

#[derive(Default)]
pub(crate) struct Appointments {
    heap: BinaryHeap<Reverse<Entry>>,
    waiting: Vec<Waiting>,
    len: usize,
}

impl Appointments {
    /// Has a stage of the source in this place look at `tick`, in place of what it asked for before. False if another stage of the source waits already,
    /// or there is no room for such numbers.
    pub(crate) fn make(&mut self, place: u32, stage: u32, tick: u64) -> bool {
        if place >> PLACE_BITS > 0 || tick >> TICK_BITS > 0 || stage >> STAGE_BITS > 0 {
            return false;
        }
        let index = place as usize;
        if index >= self.waiting.len() {
            self.waiting.resize(index + 1, Waiting::NOBODY);
        }
        let waiting = &mut self.waiting[index];
        match waiting.stage() {
            0 => self.len += 1,
            same if same != stage => return false,
            _ if waiting.tick() == tick => return true,
            _ => {}
        }
        *waiting = Waiting::new(tick, stage);
        self.heap.push(Reverse(Entry::new(tick, place)));
        if self.heap.len() > 2 * self.len + SLACK {
            self.clear_up();
        }
        self.drop_past();
        true
    }

    /// The stages of the source in this place do not want to look any more, from this one on.
    pub(crate) fn cancel(&mut self, place: u32, from: u32) {
        if let Some(waiting) = self.waiting.get_mut(place as usize)
            && waiting.stage() > 0
            && waiting.stage() >= from
        {
            *waiting = Waiting::NOBODY;
            self.len -= 1;
            self.drop_past();
        }
    }

    /// The first one that is due by this tick: the place of the source, and the stage.
    pub(crate) fn pop_due(&mut self, tick: u64) -> Option<(u32, u32)> {
        let &Reverse(first) = self.heap.peek()?;
        if first.tick() > tick {
            return None;
        }
        let place = first.place();
        let stage = std::mem::replace(&mut self.waiting[place as usize], Waiting::NOBODY).stage();
        self.len -= 1;
        self.drop_past();
        Some((place, stage))
    }

    /// The tick of the first one.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(first)| first.tick())
    }

    /// How many wait.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    /// Nobody waits any more.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Drops what does not count in front of what does.
    fn drop_past(&mut self) {
        while let Some(&Reverse(first)) = self.heap.peek()
            && !counts(&self.waiting, first)
        {
            self.heap.pop();
        }
    }

    #[cold]
    fn clear_up(&mut self) {
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.retain(|Reverse(entry)| counts(&self.waiting, *entry));
        entries.sort_unstable();
        entries.dedup(); // one that was cancelled and made again
        self.heap = entries.into();
    }
}

fn counts(waiting: &[Waiting], entry: Entry) -> bool {
    let waiting = waiting[entry.place() as usize];
    waiting.stage() > 0 && waiting.tick() == entry.tick()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn moments_that_are_far_apart_are_told_apart() {
        let far = 1 << 32; // 49 days
        let mut appointments = Appointments::default();
        assert!(appointments.make(3, 1, 100));
        assert!(appointments.make(3, 1, 100 + far));
        assert_eq!((appointments.pop_due(100), appointments.next()), (None, Some(100 + far)));
        assert!(appointments.make(3, 1, 100));
        assert_eq!(appointments.pop_due(100), Some((3, 1)));
        assert!(!appointments.make(3, 1 << STAGE_BITS, 100), "a stage without room takes a timer");
    }

    #[test]
    fn whatever_is_made_and_cancelled_they_come_in_time_and_once() {
        let (mut appointments, mut known) = (Appointments::default(), BTreeMap::<u32, (u64, u32)>::new());
        let (mut state, mut now) = (7_u64, 0);
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..100_000 {
            let (place, stage) = (draw(50) as u32, 1 + draw(3) as u32);
            match draw(8) {
                0..=3 => {
                    let tick = now + 1 + draw(500);
                    let taken = known.get(&place).is_some_and(|(_, other)| *other != stage);
                    assert_eq!(appointments.make(place, stage, tick), !taken);
                    if !taken {
                        known.insert(place, (tick, stage));
                    }
                }
                4..=5 => {
                    appointments.cancel(place, stage);
                    if known.get(&place).is_some_and(|(_, other)| *other >= stage) {
                        known.remove(&place);
                    }
                }
                _ => {
                    now += draw(20);
                    let first = |known: &BTreeMap<u32, (u64, u32)>| {
                        known.iter().map(|(place, (tick, stage))| (*tick, *place, *stage)).min()
                    };
                    assert_eq!(appointments.next(), first(&known).map(|(tick, ..)| tick));
                    while let Some((place, stage)) = appointments.pop_due(now) {
                        let (tick, due, whose) = first(&known).unwrap();
                        assert!(tick <= now);
                        assert_eq!((place, stage), (due, whose));
                        known.remove(&place);
                    }
                    assert!(known.values().all(|(tick, _)| *tick > now));
                }
            }
            assert_eq!(appointments.len(), known.len());
            assert!(appointments.heap.len() <= 2 * known.len() + SLACK + 1);
        }
    }

    #[test]
    fn one_that_is_made_again_and_again_takes_the_room_of_a_few() {
        let mut appointments = Appointments::default();
        for _ in 0..10_000 {
            assert!(appointments.make(0, 1, 100));
            assert!(appointments.make(1, 1, 50));
            appointments.cancel(0, 0);
        }
        assert!(appointments.heap.len() <= 2 * SLACK);
    }

    #[test]
    fn what_has_no_room_is_refused() {
        let mut appointments = Appointments::default();
        assert!(!appointments.make(1 << PLACE_BITS, 1, 1));
        assert!(!appointments.make(0, 1, 1 << TICK_BITS));
        assert_eq!((appointments.len(), appointments.next()), (0, None));
    }

    #[test]
    fn one_takes_sixteen_bytes() {
        assert_eq!(size_of::<Entry>() + size_of::<Waiting>(), 16);
    }
}
