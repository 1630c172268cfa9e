//! Lines that were seen before, and what they mean: of the headers of a request, most are those of other requests, and so is its
//! first line.
//!
//! ```text
//!   accept: text/html   ──▶ place 17 of 64 ──▶ equal, byte by byte: a copy of what was made of it then
//!                                          └─▶ another one: parsed; kept if it comes to this place twice in a row
//! ```
//! Always true:
//! 1. What a line means is what was made of the same bytes.
//! 2. Each loop keeps [`PLACES`] lines of at most [`LINE_MAX`] bytes, in memory of their own.
//! 3. Who never says anything twice pays for one look at one place.

use bytes::Bytes;

const PLACES: usize = 64;
/// Longer lines are not kept.
const LINE_MAX: usize = 256;
/// Shorter ones are parsed as fast.
const LINE_MIN: usize = 8;

/// Meanings of lines. Each line has one place, which others may want too.
#[derive(Debug)]
pub(crate) struct Seen<T> {
    places: Vec<Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    /// Of the last line that was not found here.
    missed: u64,
    line: Bytes,
    meaning: Option<T>,
}

impl<T> Seen<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new() }
    }

    /// What a line means that was kept.
    #[inline]
    pub(crate) fn find(&self, line: &[u8]) -> Option<&T> {
        let place = self.places.get(place_of(sum(line)?))?;
        if place.line == line { place.meaning.as_ref() } else { None }
    }

    /// Has a line kept that was not found, if it was the last one that was not found at its place. `make` gets a copy of it.
    #[inline]
    pub(crate) fn missed(&mut self, line: &[u8], make: impl FnOnce(&Bytes) -> Option<T>) {
        let Some(sum) = sum(line) else { return };
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || Kept { missed: 0, line: Bytes::new(), meaning: None });
        }
        let place = &mut self.places[place_of(sum)];
        if place.missed != sum {
            place.missed = sum;
            return;
        }
        place.keep(line, make);
    }
}

impl<T> Kept<T> {
    #[cold]
    fn keep(&mut self, line: &[u8], make: impl FnOnce(&Bytes) -> Option<T>) {
        self.missed = 0;
        self.line = Bytes::copy_from_slice(line);
        self.meaning = make(&self.line);
    }
}

/// Some of a line in one word: its ends, which differ more often than what is between them, and its length. `None` if it is
/// not to be kept.
#[inline]
fn sum(line: &[u8]) -> Option<u64> {
    if !(LINE_MIN..=LINE_MAX).contains(&line.len()) {
        return None;
    }
    let (first, last) = (line.first_chunk::<8>()?, line.last_chunk::<8>()?);
    let ends = u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(29);
    Some((ends ^ line.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
}

#[inline]
fn place_of(sum: u64) -> usize {
    (sum >> (u64::BITS - PLACES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(seen: &mut Seen<usize>, line: &str, meaning: usize) {
        if seen.find(line.as_bytes()).is_none() {
            seen.missed(line.as_bytes(), |copy| {
                assert_eq!(copy, line);
                Some(meaning)
            });
        }
    }

    #[test]
    fn a_line_is_kept_when_it_is_missed_twice_and_found_from_then_on() {
        let mut seen = Seen::new();
        for (times, found) in [(1, None), (2, None), (3, Some(7))] {
            assert_eq!(seen.find(b"accept: text/html").copied(), found, "{times}");
            see(&mut seen, "accept: text/html", 7);
        }
        assert_eq!(seen.find(b"accept: text/htm"), None);
        assert_eq!(seen.find(b"Accept: text/html"), None);
    }

    #[test]
    fn what_is_too_short_or_too_long_is_never_kept_nor_what_means_nothing() {
        let mut seen = Seen::new();
        let long = "x".repeat(LINE_MAX + 1);
        for line in ["", "a: b", "1234567", &long] {
            (0..4).for_each(|_| see(&mut seen, line, 1));
            assert_eq!(seen.find(line.as_bytes()), None, "{line}");
        }
        (0..4).for_each(|_| seen.missed(b"no meaning", |_| None));
        assert_eq!(seen.find(b"no meaning"), None);
    }

    #[test]
    fn lines_that_share_a_place_take_turns_and_are_never_taken_for_each_other() {
        let mut seen = Seen::new();
        let lines: Vec<String> = (0..1000).map(|number| format!("x-number: {number:04} and more")).collect();
        for _ in 0..3 {
            for (number, line) in lines.iter().enumerate() {
                (0..2).for_each(|_| see(&mut seen, line, number));
                assert_eq!(seen.find(line.as_bytes()), Some(&number));
            }
        }
        let kept = lines.iter().enumerate().filter(|(number, line)| {
            seen.find(line.as_bytes()).is_some_and(|found| {
                assert_eq!(found, number);
                true
            })
        });
        assert!((1..=PLACES).contains(&kept.count()));
    }
}
