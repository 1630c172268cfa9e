//! A table whose places are reused and whose keys are not: what a loop hands to the kernel, or to a user, in place of
//! a reference.
//!
//! ```text
//!   Key { index: 2, generation: 7 }       as a token: generation in the high half, index in the low half
//!                  ▼
//!     0       1       2       3
//!   [full 1][free 4][full 7][free 2]      the numbers are generations
//!              ▲               │ ▲
//!              └───── next ────┘ └ free: the place left last is filled first, while it is still in the cache
//! ```
//! Always true between calls:
//! 1. A key finds the value it was made for, or nothing: no two values ever share index and generation.
//! 2. `len` counts the full places; every other place is in the free list, once, or retired.
//! 3. Filling a free place does not allocate. The table grows only when no place is free, and never shrinks.
//!
//! Not here: links between entries (their owner keeps indices, see [`Arena::at`]). One thread only.

/// Ends the free list. Never a place's index, so it is also free as an end mark for an owner's own links.
pub(crate) const NIL: u32 = u32::MAX;

/// A generational slab: insert, find and remove in constant time.
pub(crate) struct Arena<T> {
    places: Vec<Entry<T>>,
    free: u32,
    len: usize,
}

/// Names one value of one [`Arena`], and nothing once that value is removed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

enum Entry<T> {
    Full { generation: u32, value: T },
    Free { generation: u32, next: u32 },
    // Its generations are used up: filled again it would answer to a key from four billion values ago.
    Retired,
}

impl Key {
    /// The key as a token for the kernel. A key of an arena is never below `1 << 32` nor `u64::MAX`, so those are free
    /// for the caller's own tokens.
    pub(crate) fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The key that [`to_u64`](Self::to_u64) made this token from. Any number is safe: one that never was a key finds
    /// nothing, unless it happens to equal a live one.
    pub(crate) fn from_u64(token: u64) -> Self {
        Self { index: token as u32, generation: (token >> 32) as u32 }
    }

    /// The place in the table, for owners that link their entries; shared by all keys that ever used the place.
    pub(crate) fn index(self) -> u32 {
        self.index
    }
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Arena<T> {
    /// An empty arena; allocates at the first insert.
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: NIL, len: 0 }
    }

    /// Makes room for one value and no more, if nothing was stored yet: for an arena that rarely has a second one.
    pub(crate) fn begin_small(&mut self) {
        if self.places.capacity() == 0 {
            self.places.reserve_exact(1);
        }
    }

    /// Stores `value` in the place freed last, or in a new one.
    ///
    /// # Panics
    /// With `u32::MAX` places in use: an index would no longer fit.
    pub(crate) fn insert(&mut self, value: T) -> Key {
        let key = match self.places.get(self.free as usize) {
            Some(&Entry::Free { generation, next }) => {
                let key = Key { index: self.free, generation };
                self.free = next;
                self.places[key.index as usize] = Entry::Full { generation, value };
                key
            }
            Some(_) => unreachable!("place {} is in the free list but not free", self.free),
            None => {
                let index = u32::try_from(self.places.len()).unwrap_or(NIL);
                assert_ne!(index, NIL, "arena is full: {} places, the limit is {NIL}", self.places.len());
                // Generations start at 1, so that no token is small: see `to_u64`.
                self.places.push(Entry::Full { generation: 1, value });
                Key { index, generation: 1 }
            }
        };
        self.len += 1;
        key
    }

    /// The value of `key`, if it is still here.
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        match self.places.get(key.index as usize) {
            Some(Entry::Full { generation, value }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// The value of `key`, to change.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.places.get_mut(key.index as usize) {
            Some(Entry::Full { generation, value }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// Takes the value of `key` out; from now on `key` finds nothing.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.contains(key).then(|| self.remove_at(key.index))
    }

    /// Takes all values out, by index; from now on their keys find nothing.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        let keys: Vec<Key> = self.keys().collect();
        keys.into_iter().filter_map(|key| self.remove(key)).collect()
    }

    /// Whether the value of `key` is still here.
    pub(crate) fn contains(&self, key: Key) -> bool {
        self.get(key).is_some()
    }

    /// The key of the value in a place, if there is one.
    pub(crate) fn key_at(&self, index: u32) -> Option<Key> {
        match self.places.get(index as usize) {
            Some(Entry::Full { generation, .. }) => Some(Key { index, generation: *generation }),
            _ => None,
        }
    }

    /// How many values are stored.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether no value is stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All values with their keys, by index. Visits every place that ever was in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        // Indices fit: `insert` stops before `NIL`.
        (0..).zip(&self.places).filter_map(|(index, place)| match place {
            Entry::Full { generation, value } => Some((Key { index, generation: *generation }, value)),
            Entry::Free { .. } | Entry::Retired => None,
        })
    }

    /// All values, by index.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.places.into_iter().filter_map(|place| match place {
            Entry::Full { value, .. } => Some(value),
            Entry::Free { .. } | Entry::Retired => None,
        })
    }

    /// All keys, by index; collect them to change the arena on the way.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.iter().map(|(key, _)| key)
    }

    /// The value in a place that the caller knows to be full, because its own links lead there.
    ///
    /// # Panics
    /// If the place is not full: the caller's links are broken.
    pub(crate) fn at(&self, index: u32) -> &T {
        match &self.places[index as usize] {
            Entry::Full { value, .. } => value,
            Entry::Free { .. } | Entry::Retired => panic!("a link leads to place {index}, which is not full"),
        }
    }

    /// Like [`at`](Self::at), to change.
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut T {
        match &mut self.places[index as usize] {
            Entry::Full { value, .. } => value,
            Entry::Free { .. } | Entry::Retired => panic!("a link leads to place {index}, which is not full"),
        }
    }

    /// Takes the value out of a place known to be full; panics like [`at`](Self::at).
    pub(crate) fn remove_at(&mut self, index: u32) -> T {
        let place = &mut self.places[index as usize];
        let emptied = match place {
            Entry::Full { generation: u32::MAX, .. } => Entry::Retired,
            Entry::Full { generation, .. } => Entry::Free { generation: *generation + 1, next: self.free },
            Entry::Free { .. } | Entry::Retired => panic!("a link leads to place {index}, which is not full"),
        };
        if matches!(emptied, Entry::Free { .. }) {
            self.free = index;
        }
        self.len -= 1;
        match std::mem::replace(place, emptied) {
            Entry::Full { value, .. } => value,
            Entry::Free { .. } | Entry::Retired => unreachable!("place {index} was full a moment ago"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_key_finds_its_value_until_it_is_removed_and_never_again() {
        let mut arena = Arena::new();
        let key = arena.insert("a");
        assert_eq!(arena.get(key), Some(&"a"));
        *arena.get_mut(key).unwrap() = "b";
        assert_eq!(arena.remove(key), Some("b"));

        let heir = arena.insert("c");
        assert_eq!(heir.index(), key.index(), "the place is reused");
        assert_ne!(heir, key);
        assert!(!arena.contains(key));
        assert_eq!(arena.get_mut(key), None);
        assert_eq!(arena.remove(key), None);
        assert_eq!(arena.get(heir), Some(&"c"), "a stale key leaves the heir of its place alone");
    }

    #[test]
    fn places_are_refilled_last_freed_first_without_growing() {
        let mut arena = Arena::new();
        let keys: Vec<_> = (0..8).map(|n| arena.insert(n)).collect();
        let capacity = arena.places.capacity();
        for key in &keys {
            arena.remove(*key);
        }
        assert!(arena.is_empty());
        let again: Vec<_> = (0..8).map(|n| arena.insert(n).index()).collect();
        assert_eq!(again, [7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(arena.places.capacity(), capacity);
        assert_eq!(arena.len(), 8);
    }

    #[test]
    fn a_key_survives_the_trip_as_a_token_and_foreign_tokens_find_nothing() {
        let mut arena = Arena::new();
        let first = arena.insert('x');
        arena.remove(first);
        let key = arena.insert('y');
        assert_eq!(Key::from_u64(key.to_u64()), key);
        assert!(first.to_u64() >= 1 << 32, "small tokens are left to the caller");
        for token in [0, 1, u64::from(u32::MAX), first.to_u64(), key.to_u64() + 1, u64::MAX] {
            assert_eq!(arena.get(Key::from_u64(token)), None, "token {token:#x}");
        }
    }

    #[test]
    fn a_place_that_used_up_its_generations_is_retired_instead_of_repeating_a_key() {
        let mut arena = Arena::new();
        let old = arena.insert(0);
        arena.remove(old);
        arena.places[0] = Entry::Free { generation: u32::MAX, next: NIL };
        let last = arena.insert(1);
        assert_eq!((last.index, last.generation), (0, u32::MAX));
        assert_eq!(arena.remove(last), Some(1));

        let next = arena.insert(2);
        assert_eq!(next.index(), 1, "place 0 is not filled again");
        assert!(!arena.contains(old) && !arena.contains(last));
        assert_eq!(arena.keys().collect::<Vec<_>>(), [next]);
        assert_eq!(arena.len(), 1);
    }

    #[test]
    fn iterating_shows_exactly_the_live_values_with_working_keys() {
        let mut arena = Arena::new();
        let keys: Vec<_> = (0..100).map(|n| arena.insert(n)).collect();
        for key in keys.iter().step_by(3) {
            arena.remove(*key);
        }
        let expected: HashSet<_> = keys.iter().copied().filter(|key| arena.contains(*key)).collect();
        assert_eq!(arena.keys().collect::<HashSet<_>>(), expected);
        assert_eq!(expected.len(), arena.len());
        assert!(arena.iter().all(|(key, value)| arena.get(key) == Some(value) && value % 3 != 0));
    }

    #[test]
    #[should_panic(expected = "place 0, which is not full")]
    fn following_a_broken_link_panics_with_the_place() {
        let mut arena = Arena::new();
        let key = arena.insert(());
        arena.remove(key);
        arena.at(key.index());
    }
}
