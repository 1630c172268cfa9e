use super::*;
use std::{cell::RefCell, rc::Rc};

/// `(` begins, `)` ends, anything else is between; both at once is all.
struct Parentheses;

impl Aggregate for Parentheses {
    type Part = &'static str;
    type Whole = String;
    fn which(&mut self, part: &&'static str) -> WhichPart {
        match (part.starts_with('('), part.ends_with(')')) {
            (true, true) => WhichPart::Only,
            (true, false) => WhichPart::Start,
            (false, true) => WhichPart::Last,
            (false, false) => WhichPart::Middle,
        }
    }
    fn len(&self, part: &&'static str) -> usize {
        part.len()
    }
    fn begin(&mut self, part: &'static str) -> String {
        part.to_owned()
    }
    fn add(&mut self, whole: &mut String, part: &'static str) {
        whole.push_str(part);
    }
}

/// What comes of these parts: wholes and errors.
fn put_together(limit: usize, parts: &[&'static str]) -> Vec<String> {
    put_together_by(Aggregator::max(limit, Parentheses), parts)
}

fn put_together_by<A>(mut aggregator: Aggregator<A>, parts: &[&'static str]) -> Vec<String>
where
    A: Aggregate<Part = &'static str, Whole = String>,
{
    let mut all = Vec::new();
    let mut out = Messages::new();
    for part in parts {
        let error = aggregator.decode(part, &mut out).err();
        all.extend(std::iter::from_fn(|| out.pop()));
        all.extend(error.map(|error| error.to_string()));
    }
    all.extend(aggregator.decode_last(&mut out).err().map(|error| error.to_string()));
    all
}

#[test]
fn parts_become_a_whole_and_a_whole_stays_one() {
    assert_eq!(put_together(6, &["(a", "b", "c)", "(d)", "(e", ")"]), ["(abc)", "(d)", "(e)"]);
}

#[test]
fn a_message_over_the_limit_is_an_error_once_and_the_next_one_is_put_together() {
    let parts = ["(ab", "cd", "ef", "gh)", "(i)", "(j", "k)"];
    assert_eq!(put_together(4, &parts), ["a message of 5 bytes or more, the limit is 4", "(i)", "(jk)"]);
}

#[test]
fn parts_out_of_order_are_errors_and_the_next_start_begins_anew() {
    assert_eq!(
        put_together(9, &["a", "b)", "(c", "(d", "e)", "(f"]),
        [
            "a part of 1 bytes came without a beginning",
            "a message began when 2 bytes of the last one had come",
            "(de)",
            "the channel ended when 2 bytes of a message had come"
        ]
    );
}

/// Words up to one that ends a sentence: only what came before tells where a word stands.
#[derive(Default)]
struct Sentences {
    open: bool,
    refused: Rc<RefCell<Vec<AggregateError>>>,
}

impl Aggregate for Sentences {
    type Part = &'static str;
    type Whole = String;
    fn which(&mut self, word: &&'static str) -> WhichPart {
        let goes_on = !word.ends_with('.');
        match (std::mem::replace(&mut self.open, goes_on), goes_on) {
            (false, true) => WhichPart::Start,
            (false, false) => WhichPart::Only,
            (true, true) => WhichPart::Middle,
            (true, false) => WhichPart::Last,
        }
    }
    fn len(&self, word: &&'static str) -> usize {
        word.len()
    }
    fn begin(&mut self, word: &'static str) -> String {
        word.to_owned()
    }
    fn add(&mut self, whole: &mut String, word: &'static str) {
        whole.push_str(word);
    }
    fn refused(&mut self, error: &AggregateError) {
        self.refused.borrow_mut().push(*error);
    }
}

const TOO_LONG: &str = "a message of 5 bytes or more, the limit is 4";

#[test]
fn nothing_of_a_message_that_was_refused_passes_whichever_of_its_parts_is_too_long() {
    let all = |parts: &[&'static str]| put_together_by(Aggregator::max(4, Sentences::default()), parts);
    assert_eq!(all(&["ab", "cde", "f", "g.", "h", "i.", "j."]), [TOO_LONG, "hi.", "j."], "a middle one");
    assert_eq!(all(&["abcde", "f", "g.", "h", "i.", "j."]), [TOO_LONG, "hi.", "j."], "the first");
    assert_eq!(all(&["ab", "cd.", "h", "i.", "j."]), [TOO_LONG, "hi.", "j."], "the last");
    assert_eq!(all(&["abcd.", "h", "i.", "j."]), [TOO_LONG, "hi.", "j."], "the only one");
}

#[test]
fn who_puts_parts_together_is_told_once_of_each_message_that_is_refused() {
    let sentences = Sentences::default();
    let refused = sentences.refused.clone();
    put_together_by(Aggregator::max(4, sentences), &["ab", "cde", "f", "g.", "h.", "abcde.", "i"]);
    let too_long = |got| AggregateError::TooLong { limit: 4, got };
    assert_eq!(refused.take(), [too_long(5), too_long(6), AggregateError::Unfinished { got: 1 }]);
}

#[test]
fn a_message_that_was_refused_ends_with_its_last_part() {
    let (long, lone) = (TOO_LONG, "a part of 1 bytes came without a beginning");
    assert_eq!(put_together(4, &["(ab", "cd", "e)", "f", "g)", "(h)"]), [long, lone, "(h)"]);
}
