//! Which rule takes the bytes.
//!
//! Always true: a rule is asked when all before it have said no, and never again after it has said so itself. So the order
//! of rules is their rank, and each look asks as many rules as drop out, and one more.

use super::Verdict;
use std::collections::VecDeque;

pub(super) type Rule = Box<dyn FnMut(&[u8]) -> Verdict>;

/// Rules in their order, with what each one brings.
pub(super) struct Choice<C> {
    rules: VecDeque<(Rule, C)>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Look<C> {
    /// More bytes will tell.
    Open,
    Chosen(C),
    Nobody,
}

impl<C> Choice<C> {
    pub(super) fn new() -> Self {
        Self { rules: VecDeque::new() }
    }

    pub(super) fn add(&mut self, rule: Rule, brings: C) {
        self.rules.push_back((rule, brings));
    }

    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Looks at everything that was read. If nothing more is waited for, who needs more has said no.
    pub(super) fn look(&mut self, bytes: &[u8], last: bool) -> Look<C> {
        while let Some((rule, _)) = self.rules.front_mut() {
            let verdict = rule(bytes);
            if verdict == Verdict::More && !last {
                return Look::Open;
            }
            let front = self.rules.pop_front();
            if verdict == Verdict::Take
                && let Some((_, brings)) = front
            {
                return Look::Chosen(brings);
            }
        }
        Look::Nobody
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{super::prefix, *};

    fn choice(starts: &[&'static str]) -> Choice<&'static str> {
        let mut choice = Choice::new();
        for &start in starts {
            choice.add(Box::new(prefix(start)), start);
        }
        choice
    }

    #[test]
    fn an_earlier_rule_that_needs_more_goes_before_a_later_one_that_would_take() {
        let mut rules = choice(&["abc", "a"]);
        assert_eq!(rules.look(b"a", false), Look::Open);
        assert_eq!(rules.look(b"ab", false), Look::Open);
        assert_eq!(rules.look(b"abc", false), Look::Chosen("abc"));
        let mut rules = choice(&["abc", "a"]);
        assert_eq!(rules.look(b"ab", false), Look::Open);
        assert_eq!(rules.look(b"abx", false), Look::Chosen("a"));
    }

    #[test]
    fn when_nothing_more_is_waited_for_who_needs_more_has_said_no() {
        assert_eq!(choice(&["abc", "a"]).look(b"ab", true), Look::Chosen("a"));
        assert_eq!(choice(&["abc", "abd"]).look(b"ab", true), Look::Nobody);
    }

    #[test]
    fn a_rule_that_said_no_is_not_asked_again() {
        let mut choice = Choice::new();
        let mut asked = 0;
        let once = move |_: &[u8]| {
            asked += 1;
            assert_eq!(asked, 1);
            Verdict::No
        };
        choice.add(Box::new(once), "once");
        choice.add(Box::new(prefix("xyz")), "xyz");
        assert_eq!(choice.look(b"x", false), Look::Open);
        assert_eq!(choice.look(b"xy", false), Look::Open);
        assert_eq!(choice.look(b"x!", false), Look::Nobody);
    }
}
