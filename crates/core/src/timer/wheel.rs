//! Pending timers, ordered by deadline: a hierarchical timing wheel on plain ticks.
//!
//! A tick is read as eleven digits of six bits. A timer waits at the level of the highest digit in which its deadline
//! differs from the current tick, in the slot of the deadline's digit there:
//!
//! ```text
//!   current = … 0 3 10
//!
//!   due       [w]                          deadline <= current, in the order in which they are popped
//!   level 0   … 10 [11: t] … [63: u]       this block of 64 ticks, one tick per slot: exact
//!   level 1   …  3 [ 4: x] … [63: y]       this block of 4096 ticks, 64 ticks per slot
//!   level 2   …  0 [ 1: z] …               z moves down a level when current reaches … 1 0 0
//!      ⋮
//!   level 10                               up to and including u64::MAX
//! ```
//! Always true between calls:
//! 1. A timer is in `due` exactly if its deadline is `<= current`; otherwise deadline and `current` alone give its slot.
//!    So equal deadlines always share a list, and as lists are appended to and moved down in order, they stay in the
//!    order in which they were armed.
//! 2. Filled slots lie ahead of `current`, and whatever waits at a level is earlier than all that waits above it: the
//!    first bit of the first occupied level is the next slot to open.
//! 3. A slot's bit in `occupied` is set exactly if its list is not empty.
//!
//! A timer is thus never early (only `advance` to its deadline makes it due) and never lost (no slot is skipped).
//!
//! **Order.** Timers are popped by `max(deadline, current when armed)`, then in the order in which they were armed. For
//! timers armed in time that is their deadline. One armed overdue queues behind everything that is due by then, so a
//! timer that re-arms itself for the past holds up no other one.
//!
//! **Cost.** Arm and cancel touch the entry, its slot and at most two neighbours, however many are pending. A timer is
//! moved down at most once per level. Memory is that of the most timers ever pending at once.
//!
//! Not here: what a tick means, and who wakes the loop. No code of `T` runs inside, except when the wheel is dropped.
//! Loop thread only.

use crate::arena::{Arena, Key, NIL};

const DIGIT_BITS: u32 = 6;
/// One slot per bit of `occupied`, so that the next one is found with one instruction.
const SLOTS: usize = 1 << DIGIT_BITS;
/// Enough digits for every `u64`: no deadline needs clamping.
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
const _: () = assert!(SLOTS == u64::BITS as usize);

/// Timers of type `T`, handed back when a given tick is reached.
pub(crate) struct Wheel<T> {
    current: u64,
    due: List,
    occupied: [u64; LEVELS],
    // Boxed: 8 KiB, and the wheel's owner should stay cheap to move.
    slots: Box<[[List; SLOTS]; LEVELS]>,
    entries: Arena<Entry<T>>,
}

/// Names one armed timer, and nothing once it was popped or cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TimerKey(pub(crate) Key);

struct Entry<T> {
    deadline: u64,
    prev: u32,
    next: u32,
    value: T,
}

impl<T> Wheel<T> {
    /// An empty wheel at tick 0.
    pub(crate) fn new() -> Self {
        Self {
            current: 0,
            due: List::EMPTY,
            occupied: [0; LEVELS],
            slots: Box::new([[List::EMPTY; SLOTS]; LEVELS]),
            entries: Arena::new(),
        }
    }

    /// Adds a timer for `deadline_tick`. A deadline `<= current()` is due at once: the next `pop_due` finds it, behind
    /// what is due already. `u64::MAX` is a tick like any other, and one that no clock reaches.
    ///
    /// On a wheel left behind by the clock this is correct but puts the timer on a higher level than needed, which may
    /// cost an early wake: `advance` before arming when the clock was read anyway.
    pub(crate) fn arm(&mut self, deadline_tick: u64, value: T) -> TimerKey {
        let key = self.entries.insert(Entry { deadline: deadline_tick, prev: NIL, next: NIL, value });
        self.link(key.index());
        TimerKey(key)
    }

    /// Takes a pending timer out; `None` if it was popped or cancelled before.
    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let index = key.0.index();
        let deadline = self.entries.get(key.0)?.deadline;
        match slot_of(deadline, self.current) {
            None => self.due.unlink(&mut self.entries, index),
            Some((level, slot)) => {
                let list = &mut self.slots[level][slot];
                list.unlink(&mut self.entries, index);
                if list.len == 0 {
                    self.occupied[level] &= !(1 << slot);
                }
            }
        }
        Some(self.entries.remove_at(index).value)
    }

    /// Moves on to `now_tick` and returns how many timers are due and not yet popped.
    ///
    /// The next that many pops return exactly those timers, as whatever becomes due later queues behind them (and moves
    /// up if one of them is cancelled meanwhile). This is the bound for a drain in which timers arm timers: without
    /// one, a timer that re-arms itself for the past keeps the drain going for ever.
    ///
    /// ```text
    /// for _ in 0..wheel.advance(now) {
    ///     let Some(timer) = wheel.pop_due(now) else { break }; // one cancelled another
    ///     timer.fire();
    /// }
    /// ```
    ///
    /// Ticks do not run backwards: a `now_tick` below [`current`](Self::current) counts as `current`.
    pub(crate) fn advance(&mut self, now_tick: u64) -> usize {
        // Not at `now == current`: all that is due by then is in `due` already.
        if now_tick > self.current {
            while let Some((level, slot, start)) = self.first_slot()
                && start <= now_tick
            {
                self.current = start;
                self.open(level, slot);
            }
            self.current = now_tick;
        }
        self.due.len as usize
    }

    /// Moves on to `now_tick` and takes out the first timer due by then; the order is the module's.
    ///
    /// Timers armed between two calls are returned by the same drain if they are due: see [`advance`](Self::advance)
    /// for how to bound it. A caller that stops early loses nothing, [`next_deadline`](Self::next_deadline) then says
    /// "now".
    pub(crate) fn pop_due(&mut self, now_tick: u64) -> Option<T> {
        if self.advance(now_tick) == 0 {
            return None;
        }
        let index = self.due.head;
        self.due.unlink(&mut self.entries, index);
        Some(self.entries.remove_at(index).value)
    }

    /// The tick at which to call `pop_due` next, never later than the earliest deadline; `None` with no timer pending.
    ///
    /// - Something is due already: `current()`.
    /// - The earliest deadline is in this block of 64 ticks: that deadline.
    /// - It is further away: the first tick of its slot, which is `> current()` and may be before the deadline. A caller
    ///   that sleeps until then and calls `pop_due` finds the timer at least one level further down, so it wakes early
    ///   at most once per level above the first.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        if self.due.len > 0 { Some(self.current) } else { self.first_slot().map(|(.., start)| start) }
    }

    /// Takes out all timers, due or not, in the order in which they would have been popped. The wheel stays at its tick.
    ///
    /// They are handed over together so that the caller may drop them where their `Drop` can do no harm.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        let current = self.current;
        let mut values = Vec::with_capacity(self.len());
        values.extend(std::iter::from_fn(|| self.pop_due(u64::MAX)));
        // An empty wheel may stand at any tick.
        self.current = current;
        values
    }

    /// How many timers are pending, due ones included.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no timer is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The latest tick that `advance` or `pop_due` was given; 0 at first.
    #[cfg(test)]
    pub(crate) fn current(&self) -> u64 {
        self.current
    }

    /// Appends an entry to the list where its deadline belongs.
    fn link(&mut self, index: u32) {
        match slot_of(self.entries.at(index).deadline, self.current) {
            None => self.due.push(&mut self.entries, index),
            Some((level, slot)) => {
                self.slots[level][slot].push(&mut self.entries, index);
                self.occupied[level] |= 1 << slot;
            }
        }
    }

    /// Empties the slot whose first tick is `current`: into `due` at level 0, else into `due` and the levels below.
    fn open(&mut self, level: usize, slot: usize) {
        let list = std::mem::replace(&mut self.slots[level][slot], List::EMPTY);
        self.occupied[level] &= !(1 << slot);
        if level == 0 {
            self.due.append(&mut self.entries, list);
            return;
        }
        // The levels below are empty (rule 2), so nothing armed later can get ahead.
        let mut index = list.head;
        while index != NIL {
            let next = self.entries.at(index).next;
            self.link(index);
            index = next;
        }
    }

    /// Level, slot and first tick of the filled slot that opens next.
    fn first_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let slot = self.occupied[level].trailing_zeros();
        let shift = DIGIT_BITS * level as u32;
        // The top level has no digits above it to keep.
        let above = u64::MAX.checked_shl(shift + DIGIT_BITS).unwrap_or(0);
        Some((level, slot as usize, self.current & above | u64::from(slot) << shift))
    }
}

/// Level and slot of a deadline, seen from `current`; `None` if it is due.
fn slot_of(deadline: u64, current: u64) -> Option<(usize, usize)> {
    if deadline <= current {
        return None;
    }
    let level = (deadline ^ current).ilog2() / DIGIT_BITS;
    Some((level as usize, (deadline >> (DIGIT_BITS * level)) as usize % SLOTS))
}

/// A first-in-first-out chain through the entries: `prev` and `next` are indices, `NIL` at both ends.
#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    const EMPTY: Self = Self { head: NIL, tail: NIL, len: 0 };

    /// Adds an entry that is in no list (whatever its links say) at the end.
    fn push<T>(&mut self, entries: &mut Arena<Entry<T>>, index: u32) {
        let tail = std::mem::replace(&mut self.tail, index);
        let entry = entries.at_mut(index);
        (entry.prev, entry.next) = (tail, NIL);
        match tail {
            NIL => self.head = index,
            tail => entries.at_mut(tail).next = index,
        }
        self.len += 1;
    }

    /// Adds a whole list, not empty, at the end.
    fn append<T>(&mut self, entries: &mut Arena<Entry<T>>, list: Self) {
        match self.tail {
            NIL => self.head = list.head,
            tail => {
                entries.at_mut(tail).next = list.head;
                entries.at_mut(list.head).prev = tail;
            }
        }
        self.tail = list.tail;
        self.len += list.len;
    }

    /// Takes an entry of this list out of it, wherever it stands.
    fn unlink<T>(&mut self, entries: &mut Arena<Entry<T>>, index: u32) {
        let &Entry { prev, next, .. } = entries.at(index);
        match prev {
            NIL => self.head = next,
            prev => entries.at_mut(prev).next = next,
        }
        match next {
            NIL => self.tail = prev,
            next => entries.at_mut(next).prev = prev,
        }
        self.len -= 1;
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests.rs"]
mod tests;
