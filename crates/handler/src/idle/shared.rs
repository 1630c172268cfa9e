//! One state for all idle stages that were made alike and know nothing unusual: a server makes one for each connection, from the same few words.

use super::State;
use std::{cell::RefCell, collections::VecDeque, sync::Arc};

/// So many are remembered: servers have a few kinds of idle stages, and each is made in two or three steps.
const KNOWN: usize = 8;

thread_local! {
    static RECENT: RefCell<VecDeque<Arc<State>>> = const { RefCell::new(VecDeque::new()) };
}

/// This state, shared with others if somebody on this thread has made it lately.
pub(super) fn of(state: State) -> Arc<State> {
    let shared = RECENT.try_with(|recent| {
        let mut recent = recent.borrow_mut();
        if let Some(known) = recent.iter().find(|known| ***known == state) {
            return known.clone();
        }
        let made = Arc::new(state);
        recent.truncate(KNOWN - 1);
        recent.push_front(made.clone());
        made
    });
    shared.unwrap_or_else(|_| Arc::new(state)) // the thread ends
}

#[cfg(test)]
mod tests {
    use super::super::{Idle, IdleKind};
    use super::*;
    use std::time::Duration;

    #[test]
    fn those_that_are_made_alike_share_and_what_one_finds_out_is_its_own() {
        let make =
            || Idle::read(Duration::from_secs(3)).and(IdleKind::Write, Duration::from_secs(5)).closing();
        let (mut one, other) = (make(), make());
        assert!(Arc::ptr_eq(&one.state, &other.state));
        let mut state = *one.state;
        state.unusual.input_ends();
        one.keep(state);
        assert!(!Arc::ptr_eq(&one.state, &other.state));
        assert!(!Arc::ptr_eq(&one.state, &Idle::read(Duration::from_secs(3)).state));
        one.keep(State::new(one.state.limits, one.state.closes));
        assert!(Arc::ptr_eq(&one.state, &make().state));
    }

    #[test]
    fn a_few_are_remembered() {
        for seconds in 0..100 {
            drop(Idle::read(Duration::from_secs(seconds)));
        }
        assert!(RECENT.with(|recent| recent.borrow().len()) <= KNOWN);
    }
}
