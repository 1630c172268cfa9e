//! A queue that is nearly always empty: one pointer until it is used.

use std::collections::{VecDeque, vec_deque};

/// What does not fit elsewhere, in order.
#[allow(clippy::box_collection)] // a third of the size in every idle channel, for one more allocation in a busy one
pub(crate) struct Spill<T>(Option<Box<VecDeque<T>>>);

impl<T> Spill<T> {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|queue| queue.is_empty())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |queue| queue.len())
    }

    pub(crate) fn push_back(&mut self, element: T) {
        self.0.get_or_insert_default().push_back(element);
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        self.0.as_mut()?.pop_front()
    }

    pub(crate) fn back_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()?.back_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|queue| queue.iter())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flat_map(|queue| queue.iter_mut())
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        if let Some(queue) = &mut self.0 {
            queue.retain(keep);
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.0.as_ref().map_or(0, |queue| queue.capacity())
    }

    pub(crate) fn shrink_to(&mut self, capacity: usize) {
        if let Some(queue) = &mut self.0 {
            queue.shrink_to(capacity);
        }
    }

    /// Takes everything.
    pub(crate) fn take(&mut self) -> vec_deque::IntoIter<T> {
        self.0.take().map_or_else(VecDeque::new, |queue| *queue).into_iter()
    }
}

impl<T> Default for Spill<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> std::fmt::Debug for Spill<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spill").field("len", &self.len()).finish()
    }
}
