//! Whose turn it is to send (RFC 9218): eight levels of urgency, one list each.
//!
//! ```text
//!   urgency 0  [s5]                 served first
//!           3  [s1][s9][s7]         who does not share stays at the front until it is done; who does goes to the back
//!           7  [s3]
//! ```
//! Always true: `used` has a bit for each list that is not empty.

use crate::codec::h2::priority::Priority;
use std::collections::VecDeque;

/// Streams that have something to send.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    lists: [VecDeque<u32>; 8],
    used: u8,
}

impl Turns {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(crate) fn push(&mut self, stream: u32, priority: Priority) {
        self.list(priority).push_back(stream);
    }

    /// Puts a stream back that has had its turn.
    pub(crate) fn again(&mut self, stream: u32, priority: Priority) {
        if priority.incremental {
            self.push(stream, priority);
        } else {
            self.list(priority).push_front(stream);
        }
    }

    fn list(&mut self, priority: Priority) -> &mut VecDeque<u32> {
        self.used |= 1 << priority.urgency();
        &mut self.lists[usize::from(priority.urgency())]
    }

    /// Takes the one whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        if self.used == 0 {
            return None;
        }
        let urgency = self.used.trailing_zeros() as usize;
        let list = &mut self.lists[urgency];
        let stream = list.pop_front();
        if list.is_empty() {
            self.used &= !(1 << urgency);
            if list.capacity() > 64 {
                *list = VecDeque::new(); // a crowd has gone
            }
        }
        stream
    }

    /// Takes a stream out.
    pub(crate) fn remove(&mut self, stream: u32, priority: Priority) {
        let list = &mut self.lists[usize::from(priority.urgency())];
        list.retain(|other| *other != stream);
        if list.is_empty() {
            self.used &= !(1 << priority.urgency());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urgent_go_first_and_those_that_share_take_turns() {
        let (plain, sharing) = (Priority::default(), Priority::parse(b"u=3,i"));
        let mut turns = Turns::default();
        for (stream, priority) in [(1, plain), (2, sharing), (3, Priority::parse(b"u=0")), (4, plain)] {
            turns.push(stream, priority);
        }
        assert_eq!(turns.pop(), Some(3));
        assert_eq!(turns.pop(), Some(1));
        turns.again(1, plain);
        assert_eq!(turns.pop(), Some(1), "it goes on until it is done");
        assert_eq!(turns.pop(), Some(2));
        turns.again(2, sharing);
        turns.remove(4, plain);
        assert_eq!((turns.pop(), turns.pop(), turns.is_empty()), (Some(2), None, true));
    }
}
