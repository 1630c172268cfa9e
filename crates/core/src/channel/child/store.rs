//! Stages that wait for another conversation.
//!
//! ```text
//!   put ──▶ [ a ][ b ][ c ] ──▶ take            the last one in is the first one out, while it is in the cache
//!             └── idle: so many were never needed since the last look, and go with the next one
//! ```
//! No clock is read when one comes or goes: whatever was here all the time between two looks was not needed.

/// Few things of one kind, for whoever needs one next.
pub(super) struct Store<T> {
    kept: Vec<T>,
    /// The fewest that there were since the last look.
    idle: usize,
}

impl<T> Store<T> {
    pub(super) const fn new() -> Self {
        Self { kept: Vec::new(), idle: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn put(&mut self, thing: T) {
        self.kept.push(thing);
    }

    pub(super) fn take(&mut self) -> Option<T> {
        let thing = self.kept.pop();
        self.idle = self.idle.min(self.kept.len());
        thing
    }

    /// Some time has passed: gives up what nobody has needed in it.
    pub(super) fn look(&mut self) -> Vec<T> {
        let idle: Vec<T> = self.kept.drain(..self.idle).collect();
        self.idle = self.kept.len();
        idle
    }

    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.idle = 0;
        std::mem::take(&mut self.kept)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Store;

    #[test]
    fn what_was_not_needed_between_two_looks_goes_and_what_was_stays() {
        let mut store = Store::new();
        (0..4).for_each(|n| store.put(n));
        assert!(store.look().is_empty(), "all of it is new");
        assert_eq!(store.take(), Some(3));
        assert_eq!(store.take(), Some(2));
        store.put(4);
        assert_eq!(store.look(), [0, 1], "two of four would have been enough");
        assert_eq!(store.look(), [4]);
        assert_eq!(store.take(), None);
    }
}
