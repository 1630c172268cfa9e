use super::*;

/// `(` begins, `)` ends, anything else is between; both at once is all.
struct Parentheses;

impl Aggregate for Parentheses {
    type Part = &'static str;
    type Whole = String;
    fn which(&self, part: &&'static str) -> Part {
        match (part.starts_with('('), part.ends_with(')')) {
            (true, true) => Part::Only,
            (true, false) => Part::Start,
            (false, true) => Part::Last,
            (false, false) => Part::Middle,
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
    let mut aggregator = Aggregator::max(limit, Parentheses);
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
