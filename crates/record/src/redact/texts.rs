//! Covers texts: what handlers, errors and panics said about what they were given.
//!
//! A text may quote what is covered elsewhere, in any form: `invalid header "Cookie: id=7"`, `{"cookie": "id=7"}`, or the value alone. So
//! two rules hold, and both rather cover too much than too little:
//!
//! 1. Behind one of our names and a colon or an equals sign, wherever in a text it stands, everything up to the end of the line is covered.
//! 2. Whatever was covered in the bytes of the same recording is covered in its texts, as a whole and word by word, if it has four
//!    bytes or more: a peer that sends `Cookie: e` is not to make all texts unreadable. Recorders cut long texts, so at the end of a text
//!    its first four bytes or more are enough.
//!
//! What a peer has sent decides how much there is to search for. It is bounded, and beyond that texts are covered as a whole.

use super::COVER;
use memchr::memmem;
use std::{collections::HashSet, iter};

/// Shorter values are no secrets.
const VALUE_MIN: usize = 4;
/// More than there is in a recording of the usual size.
const RUN_MAX: usize = 64 * 1024;
/// Of a value that is longer, this beginning and the words in it: no text is longer.
const VALUE_MAX: usize = 4096;
/// How many values and words are searched for.
const VALUES_MAX: usize = 4096;
/// How many bytes are looked at, for all values together: a worker does that in a second at most.
const WORK_MAX: usize = 1 << 30;
/// Quotes and blanks between a name and what separates it from its value.
const GAP_MAX: usize = 16;

/// What was covered in the bytes of a recording.
#[derive(Debug, Default)]
pub(crate) struct Values {
    all: HashSet<Vec<u8>>,
    /// What was covered last, either way, and goes on.
    runs: [Vec<u8>; 2],
    /// There were more than are kept.
    too_many: bool,
    work: usize,
}

impl Values {
    /// A piece that went this way, before and after it was covered. `whole`: nothing of it is missing.
    pub(crate) fn piece(&mut self, way: usize, before: &[u8], after: &[u8], whole: bool) {
        let mut run = std::mem::take(&mut self.runs[way]);
        for (&before, &after) in iter::zip(before, after) {
            // A star in a value looks the same as its cover.
            if before != after || !run.is_empty() && before == COVER {
                match run.len() < RUN_MAX {
                    true => run.push(before),
                    false => self.too_many = true,
                }
            } else if !run.is_empty() {
                self.add(&run);
                run.clear();
            }
        }
        if !whole {
            self.add(&run);
            run.clear();
        }
        self.runs[way] = run;
    }

    /// Nothing more comes: what was covered last is a value too.
    pub(crate) fn end(&mut self) {
        for run in std::mem::take(&mut self.runs) {
            self.add(&run);
        }
    }

    fn add(&mut self, value: &[u8]) {
        self.add_words(value);
        // Stars behind it may be its own, or no part of what was covered.
        let stars = value.iter().rev().take_while(|byte| **byte == COVER).count();
        if stars > 0 {
            self.add_words(&value[..value.len() - stars]);
        }
    }

    fn add_words(&mut self, value: &[u8]) {
        self.add_one(value);
        let is_between = |byte: &u8| byte.is_ascii_whitespace() || b";,=\"'".contains(byte);
        value.split(is_between).for_each(|word| self.add_one(word));
        // And as a whole what has quotes or equals signs in it: `name=value`, and the value of that.
        for part in value.split(|byte| byte.is_ascii_whitespace() || b";,".contains(byte)) {
            self.add_one(part);
            part.splitn(2, |&byte| byte == b'=').skip(1).for_each(|value| self.add_one(value));
        }
    }

    fn add_one(&mut self, value: &[u8]) {
        let value = value.trim_ascii();
        let value = &value[..value.len().min(VALUE_MAX)];
        if value.len() < VALUE_MIN || self.all.contains(value) {
            return;
        }
        match self.all.len() < VALUES_MAX {
            true => _ = self.all.insert(value.to_owned()),
            false => self.too_many = true,
        }
    }

    /// Covers a text.
    pub(crate) fn cover(&mut self, names: &[String], text: &mut [u8]) {
        self.work = self.work.saturating_add(text.len().saturating_mul(self.all.len() + names.len()));
        if self.too_many || self.work > WORK_MAX {
            return text.fill(COVER);
        }
        let mut covered = vec![false; text.len()];
        for value in &self.all {
            memmem::find_iter(text, value).for_each(|at| covered[at..at + value.len()].fill(true));
            covered[text.len() - begun_at_the_end(text, value)..].fill(true);
        }
        let small = text.to_ascii_lowercase();
        for name in names {
            let mut at = 0;
            while let Some(found) = memmem::find(&small[at..], name.as_bytes()) {
                at += found + name.len();
                if let Some(first) = value_behind(&small[at..]) {
                    let end = end_of_value(text, at + first);
                    covered[at + first..end].fill(true);
                    at = end;
                }
            }
        }
        let hidden = iter::zip(text, covered).filter(|(byte, covered)| *covered && !b"\r\n".contains(byte));
        hidden.for_each(|(byte, _)| *byte = COVER);
    }
}

/// How many bytes at the end of the text are the beginning of the value.
fn begun_at_the_end(text: &[u8], value: &[u8]) -> usize {
    let most = text.len().min(value.len());
    let mut lengths = (VALUE_MIN..=most).rev();
    lengths.find(|len| text[text.len() - len..] == value[..*len]).unwrap_or(0)
}

/// Where the value begins in what stands behind a name, if one does.
fn value_behind(behind: &[u8]) -> Option<usize> {
    let is_gap = |byte: &u8| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'\\' | b'`');
    let gap = behind.iter().take(GAP_MAX).take_while(|byte| is_gap(byte)).count();
    let separator = match behind.get(gap)? {
        b':' | b'=' => true,
        // A pair, as `Debug` shows it.
        b',' => gap > 0,
        _ => false,
    };
    let blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
    separator.then(|| gap + 1 + behind[gap + 1..].iter().take_while(blank).count())
}

/// The end of the line, and of lines that continue it.
fn end_of_value(text: &[u8], mut at: usize) -> usize {
    while let Some(line) = memchr::memchr(b'\n', &text[at..]) {
        at += line + 1;
        if !matches!(text.get(at), Some(b' ' | b'\t')) {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(values: &mut Values, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        values.cover(&["cookie".to_owned(), "authorization".to_owned()], &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_stands_behind_a_name_is_covered_to_the_end_of_its_line() {
        for (text, covered) in [
            ("bad header Cookie: id=7", "bad header Cookie: ****"),
            ("bad header `cookie=7`\nhost: a", "bad header `cookie=**\nhost: a"),
            ("{\"cookie\": \"id=7\"}", "{\"cookie\": *******"),
            ("[(\"cookie\", \"id=7\")]", "[(\"cookie\", ********"),
            ("\"GET / HTTP/1.1\\r\\nCookie:x\"", "\"GET / HTTP/1.1\\r\\nCookie:**"),
            ("AUTHORIZATION : Basic abc\r\n more\r\nno", "AUTHORIZATION : *********\r\n*****\r\nno"),
            ("no cookie, no header", "no cookie, no header"),
            ("too many cookies: 7", "too many cookies: 7"),
            ("cookie", "cookie"),
            ("cookie:", "cookie:"),
        ] {
            assert_eq!(shown(&mut Values::default(), text), covered, "{text:?}");
        }
    }

    #[test]
    fn what_was_covered_elsewhere_is_covered_alone_too_as_a_whole_and_in_words() {
        let mut values = Values::default();
        // Split over two pieces, with a star in it.
        values.piece(0, b"Cookie: id=7; token=se", b"Cookie: **************", true);
        values.piece(0, b"cr*t==\r\nhost: a", b"******\r\nhost: a", true);
        values.piece(1, b"Basic dXNlcg==", b"**************", false);
        values.end();
        assert_eq!(shown(&mut values, "no such token: \"secr*t==\""), "no such *****: \"********\"");
        assert_eq!(shown(&mut values, "invalid base64: dXNlcg=="), "invalid base64: ********");
        assert_eq!(shown(&mut values, "id=7; token=secr*t== again"), "******************** again");
        values.piece(0, b"cookie: **stars**\r\n", b"cookie: *********\r\n", true);
        assert_eq!(shown(&mut values, "no such id: stars"), "no such id: *****");
        assert_eq!(shown(&mut values, "7 is too short to be a secret"), "7 is too short to be a secret");
    }

    #[test]
    fn more_values_than_are_searched_for_cover_texts_as_a_whole() {
        for over in [0, 1] {
            let mut values = Values::default();
            for number in 0..VALUES_MAX + over {
                let value = format!("value{number:06}");
                values.piece(0, value.as_bytes(), &[COVER; 11], false);
            }
            let expected = if over == 0 { "all is well" } else { "***********" };
            assert_eq!(shown(&mut values, "all is well"), expected);
        }
    }

    #[test]
    fn a_text_that_is_full_of_names_is_gone_through_once() {
        let text = "cookie:".repeat(100_000);
        assert_eq!(shown(&mut Values::default(), &text), format!("cookie:{}", "*".repeat(text.len() - 7)));
    }

    #[test]
    fn a_value_without_end_is_searched_for_in_parts_and_beyond_a_bound_texts_are_covered_as_a_whole() {
        for (pieces, text) in [(60, "all is well"), (100, "***********")] {
            let mut values = Values::default();
            for _ in 0..pieces {
                values.piece(0, &[b'x'; 1000], &[COVER; 1000], true);
            }
            values.end();
            assert!(values.all.iter().all(|value| value.len() <= VALUE_MAX));
            assert_eq!(shown(&mut values, &"x".repeat(VALUE_MAX)), "*".repeat(VALUE_MAX));
            assert_eq!(shown(&mut values, "all is well"), text);
        }
    }

    #[test]
    fn the_beginning_of_a_value_at_the_end_of_a_text_is_covered() {
        let mut values = Values::default();
        values.piece(0, b"secret7", &[COVER; 7], false);
        for (text, covered) in [
            ("it was secret7", "it was *******"),
            ("it was secret", "it was ******"),
            ("it was secr", "it was ****"),
            ("it was sec", "it was sec"),
            ("secr, it was", "secr, it was"),
            ("secr", "****"),
            ("", ""),
        ] {
            assert_eq!(shown(&mut values, text), covered);
        }
    }
}
