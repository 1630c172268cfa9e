//! Whose turn it is to send (RFC 9218): eight levels of urgency, one list each.
//!
//! ```text
//!   urgency 0  [s5]                 served first
//!           3  [s1][s9][s7]         who does not share stays at the front until it is done; who does goes to the back
//!           7  [s3]
//! ```
//! Always true: `used` has a bit for each list that is not empty.

use std::collections::VecDeque;

/// How urgent a reply is, and whether it can be used piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Priority {
    /// 0 is the most urgent, 7 the least.
    urgency: u8,
    /// Replies of the same urgency take turns.
    pub(crate) incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// What a `priority` field or a PRIORITY_UPDATE says: `u=1, i`. What is not understood is as if it was not said.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let mut priority = Self::default();
        for item in text.split(|byte| *byte == b',') {
            let item = item.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            match item {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

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
        self.used |= 1 << priority.urgency;
        &mut self.lists[usize::from(priority.urgency)]
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
        let list = &mut self.lists[usize::from(priority.urgency)];
        list.retain(|other| *other != stream);
        if list.is_empty() {
            self.used &= !(1 << priority.urgency);
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

    #[test]
    fn what_is_said_of_priority_is_understood_or_ignored() {
        let said = |text: &str| Priority::parse(text.as_bytes());
        assert_eq!(said("u=5, i"), Priority { urgency: 5, incremental: true });
        assert_eq!(said(" i ;x=1 , u=0 "), Priority { urgency: 0, incremental: true });
        assert_eq!(said("i=?0"), Priority::default());
        for nonsense in ["", "u=8", "u=", "u=12", "x", ",,,", "\u{0}", "u=-1"] {
            assert_eq!(said(nonsense), Priority::default(), "{nonsense:?}");
        }
    }
}
