//! The list of children that have something to tell their parent.
//!
//! ```text
//!   list ──▶ [c7: 41][c2: 42][c9: 43] ──▶ next
//!              └ looked_at is 40: whoever has a number above that is on the list
//! ```
//! Always true:
//! 1. Numbers count up and are never used again, so whoever has a number up to `looked_at` has come off the list: nobody has to be told.
//! 2. A child that ends while it is on the list leaves its token behind, which names nobody. So there may be more tokens here than
//!    children.

use crate::driver::Token;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

#[derive(Default)]
pub(super) struct NewsList {
    ready: RefCell<VecDeque<Token>>,
    /// How many have been put on the list so far, and how many have come off it.
    listed: Cell<u64>,
    looked_at: Cell<u64>,
}

impl NewsList {
    /// Puts a child on the list, and says which number it has there.
    #[inline]
    pub(super) fn list(&self, token: Token) -> u64 {
        self.ready.borrow_mut().push_back(token);
        self.listed.set(self.listed.get() + 1);
        self.listed.get()
    }

    /// The last number that has come off the list.
    pub(super) fn looked_at(&self) -> u64 {
        self.looked_at.get()
    }

    /// Whether who has this number is still on the list.
    #[inline]
    pub(super) fn is_listed(&self, number: u64) -> bool {
        number > self.looked_at.get()
    }

    #[inline]
    pub(super) fn next(&self) -> Option<Token> {
        let next = self.ready.borrow_mut().pop_front()?;
        self.looked_at.set(self.looked_at.get() + 1);
        Some(next)
    }

    /// Has room for so many beside those that are on the list.
    pub(super) fn make_room(&self, more: usize) {
        self.ready.borrow_mut().reserve(more);
    }

    /// Nobody is left who could be on the list.
    pub(super) fn clear(&self) {
        self.ready.borrow_mut().clear();
        self.looked_at.set(self.listed.get());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_come_off_the_list_is_not_on_it_however_many_come_behind() {
        let news = NewsList::default();
        let number = news.list(Token::from_u64(1));
        assert!(news.is_listed(number));
        news.next();
        let long = u64::from(u32::MAX) / 2 + 2; // a busy connection, and a conversation that says nothing for hours
        news.listed.set(news.listed.get() + long);
        news.looked_at.set(news.looked_at.get() + long);
        assert!(!news.is_listed(number));
        assert!(news.is_listed(news.list(Token::from_u64(2))));
    }
}
