//! What waits between two stages: a queue that is nearly always empty, one pointer until it is used, and little code. It is compiled for
//! every stage, and a ring buffer is many times the code of two lists.
//!
//! ```text
//!   pop_front ◀── front: the oldest, last one first   ◀── turned around when that is empty ── back: newest last ◀── push_back
//! ```

pub(crate) struct Waiting<T>(Option<Box<Lists<T>>>);

struct Lists<T> {
    front: Vec<T>,
    back: Vec<T>,
}

impl<T> Waiting<T> {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        match &self.0 {
            None => true,
            Some(lists) => lists.front.is_empty() && lists.back.is_empty(),
        }
    }

    #[inline]
    pub(crate) fn is_allocated(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn front(&self) -> Option<&T> {
        let lists = self.0.as_ref()?;
        match lists.front.last() {
            None => lists.back.first(),
            first => first,
        }
    }

    #[inline(never)]
    pub(crate) fn push_back(&mut self, element: T) {
        match &mut self.0 {
            Some(lists) => lists.back.push(element),
            None => self.0 = Some(Box::new(Lists { front: Vec::new(), back: vec![element] })),
        }
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        match &mut self.0 {
            None => None,
            Some(lists) => lists.pop_front(),
        }
    }

    /// How many are of a kind.
    pub(crate) fn count(&self, is_one: fn(&T) -> bool) -> usize {
        match &self.0 {
            None => 0,
            Some(lists) => count(&lists.front, is_one) + count(&lists.back, is_one),
        }
    }
}

impl<T> Lists<T> {
    #[inline(never)]
    fn pop_front(&mut self) -> Option<T> {
        if self.front.is_empty() {
            while let Some(newest) = self.back.pop() {
                self.front.push(newest);
            }
        }
        self.front.pop()
    }
}

fn count<T>(list: &[T], is_one: fn(&T) -> bool) -> usize {
    let mut count = 0;
    for element in list {
        count += usize::from(is_one(element));
    }
    count
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn what_goes_in_comes_out_in_order_however_it_is_mixed() {
        let (mut waiting, mut known, mut next) = (Waiting::new(), VecDeque::new(), 0_u32);
        for step in 0..2000_u32 {
            // Bursts of pushes and of pops, of lengths that do not go together.
            if step % 7 < 4 + step % 2 || step % 11 == 3 {
                waiting.push_back(next);
                known.push_back(next);
                next += 1;
            } else {
                assert_eq!(waiting.pop_front(), known.pop_front());
            }
            assert_eq!(waiting.front(), known.front());
            assert_eq!(waiting.is_empty(), known.is_empty());
            let even = |number: &u32| number.is_multiple_of(2);
            assert_eq!(waiting.count(even), known.iter().filter(|number| even(number)).count());
        }
        assert!(next > 1000);
        while let Some(number) = known.pop_front() {
            assert_eq!(waiting.pop_front(), Some(number));
        }
        assert_eq!(waiting.pop_front(), None);
    }

    #[test]
    fn one_that_is_not_used_is_a_pointer() {
        assert_eq!(size_of::<Waiting<[u64; 9]>>(), size_of::<usize>());
    }
}
