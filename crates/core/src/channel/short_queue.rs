//! A queue that keeps its first element in place.
//!
//! ```text
//!   first   rest
//!   [ a ]   [ b, c, … ]      `rest` is empty unless `first` is there
//! ```
//! Most queues of a channel hold one element for a moment and nothing for hours: then nothing is allocated.

use crate::spill::Spill;
use std::collections::vec_deque;

pub(crate) struct ShortQueue<T> {
    first: Option<T>,
    rest: Spill<T>,
}

impl<T> ShortQueue<T> {
    pub(crate) const fn new() -> Self {
        Self { first: None, rest: Spill::new() }
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    /// The first, if there is no other.
    #[inline]
    pub(crate) fn only(&self) -> Option<&T> {
        if self.rest.is_empty() { self.first.as_ref() } else { None }
    }

    /// The first of a queue that is empty.
    #[inline(always)]
    pub(crate) fn push_first(&mut self, element: T) {
        debug_assert!(self.first.is_none(), "there is a first one already");
        self.first = Some(element);
    }

    #[inline(always)]
    pub(crate) fn push_back(&mut self, element: T) {
        if self.first.is_none() {
            self.first = Some(element);
        } else {
            self.rest.push_back(element);
        }
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let first = self.first.take();
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
        }
        first
    }

    /// The first, where there is no other.
    #[inline]
    pub(crate) fn take_only(&mut self) -> Option<T> {
        debug_assert!(self.rest.is_empty(), "the next one has to move up");
        self.first.take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.rest.iter())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(self.rest.iter_mut())
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.rest.retain(&mut keep);
        if self.first.as_ref().is_some_and(|first| !keep(first)) {
            self.first = self.rest.pop_front();
        }
    }

    /// Those of the last two that are behind the first `kept` change places.
    #[cfg(feature = "_planted")]
    pub(crate) fn swap_last_two(&mut self, kept: usize) {
        let mut last = self.iter_mut().skip(kept.max(1)).fold((None, None), |(_, b), next| (b, Some(next)));
        if let (Some(a), Some(b)) = (&mut last.0, &mut last.1) {
            std::mem::swap(*a, *b);
        }
    }

    /// Room for elements behind the first.
    pub(crate) fn capacity(&self) -> usize {
        self.rest.capacity()
    }

    pub(crate) fn shrink_to(&mut self, capacity: usize) {
        self.rest.shrink_to(capacity);
    }
}

impl<T> Default for ShortQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> IntoIterator for ShortQueue<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, vec_deque::IntoIter<T>>;

    fn into_iter(mut self) -> Self::IntoIter {
        self.first.take().into_iter().chain(self.rest.take())
    }
}
