//! The fields that a peer wants to refer to: the dynamic table of a decoder.
//!
//! ```text
//!   index 62 ──▶ [newest][…][…][oldest] ──▶ given up when the sum of weights passes the size
//! ```
//! Always true: the weights of all entries are together at most `max`, which is at most what we allowed.

use crate::codec::h2::field::Field;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Table {
    fields: VecDeque<Field>,
    weight: usize,
    max: usize,
    /// Grows with each change: while it is the same, indices mean the same.
    generation: u64,
}

impl Table {
    pub(super) fn new(max: usize) -> Self {
        Self { fields: VecDeque::new(), weight: 0, max, generation: 0 }
    }

    /// The field at this place, counted from the newest one.
    #[inline]
    pub(super) fn get(&self, place: usize) -> Option<&Field> {
        self.fields.get(place)
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
        self.generation += 1;
        self.make_room(0);
    }

    /// Adds a field. One that is larger than the table leaves it empty.
    pub(super) fn insert(&mut self, field: Field) {
        self.generation += 1;
        let weight = field.weight();
        self.make_room(weight);
        if weight <= self.max {
            self.weight += weight;
            self.fields.push_front(field);
        }
    }

    fn make_room(&mut self, weight: usize) {
        while self.weight + weight > self.max {
            let Some(oldest) = self.fields.pop_back() else { break };
            self.weight -= oldest.weight();
        }
    }

    #[cfg(test)]
    pub(super) fn fields(&self) -> (impl Iterator<Item = &Field>, usize) {
        (self.fields.iter(), self.weight)
    }
}
