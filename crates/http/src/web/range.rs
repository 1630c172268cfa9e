//! Byte ranges (RFC 9110, 14).

use crate::grammar::{elements, trim};
use http::{HeaderMap, header};
use std::ops::Range;

/// Which bytes of a representation to send.
///
/// ```
/// use netwright_http::web::Ranges;
///
/// let mut headers = http::HeaderMap::new();
/// assert_eq!(Ranges::of(&headers, 100, 16), Ranges::All);
/// headers.insert("range", "bytes=90-".parse().unwrap());
/// assert_eq!(Ranges::of(&headers, 100, 16), Ranges::Some(vec![90..100]));
/// headers.insert("range", "bytes=100-".parse().unwrap());
/// assert_eq!(Ranges::of(&headers, 100, 16), Ranges::Unsatisfiable);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// All of them: none were asked for, or what was asked for makes no sense, or too much of it.
    All,
    /// These, in the order in which they were asked for. At least one, none of them empty, all within the length.
    Some(Vec<Range<u64>>),
    /// None: all that was asked for lies behind the end. 416.
    Unsatisfiable,
}

impl Ranges {
    /// What the headers ask for, of something that has `len` bytes.
    ///
    /// More than `limit` ranges, or ranges that together are longer than the whole, are answered with the whole: nobody
    /// needs them, and they are a known way to make servers work.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use netwright_http::web::Ranges;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("range", "bytes=0-4, -3".parse().unwrap());
    /// assert_eq!(Ranges::of(&headers, 100, 16), Ranges::Some(vec![0..5, 97..100]));
    /// ```
    pub fn of(headers: &HeaderMap, len: u64, limit: usize) -> Self {
        let mut values = headers.get_all(header::RANGE).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Self::All };
        let value = value.as_bytes();
        let Some(specs) =
            value.get(..6).filter(|unit| unit.eq_ignore_ascii_case(b"bytes=")).map(|_| &value[6..])
        else {
            return Self::All;
        };
        let (mut ranges, mut count, mut total) = (Vec::new(), 0, 0u64);
        for spec in elements(specs) {
            count += 1;
            if count > limit {
                return Self::All;
            }
            match parse(spec, len) {
                Some(Some(range)) => {
                    total = total.saturating_add(range.end - range.start);
                    ranges.push(range);
                }
                Some(None) => {}
                None => return Self::All,
            }
        }
        match ranges.as_slice() {
            [] if count > 0 => Self::Unsatisfiable,
            [] => Self::All,
            [_, _, ..] if total > len => Self::All,
            _ => Self::Some(ranges),
        }
    }
}

/// A range; `Some(None)` if it is well-formed and lies behind the end.
fn parse(spec: &[u8], len: u64) -> Option<Option<Range<u64>>> {
    let at = memchr::memchr(b'-', spec)?;
    let (first, last) = (trim(&spec[..at]), trim(&spec[at + 1..]));
    if first.is_empty() {
        let count = number(last)?.min(len);
        return Some((count > 0).then(|| len - count..len));
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    Some((first < len).then(|| first..last.saturating_add(1).min(len)))
}

/// Digits alone. A number that is too large is as good as the largest.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init)] // a list of ranges with one range is meant
    fn ranges_are_read_and_cut_to_what_is_there() {
        let some = |ranges: &[Range<u64>]| Ranges::Some(ranges.to_vec());
        for (value, expected) in [
            ("bytes=0-0", some(&[0..1])),
            ("bytes=0-", some(&[0..10])),
            ("Bytes=5-99", some(&[5..10])),
            ("bytes=-3", some(&[7..10])),
            ("bytes=-99", some(&[0..10])),
            ("bytes=9-9", some(&[9..10])),
            ("bytes= 0-1 , ,3-4", some(&[0..2, 3..5])),
            ("bytes=4-5,0-1", some(&[4..6, 0..2])),
            ("bytes=0-1,20-30", some(&[0..2])),
            ("bytes=0-99999999999999999999999999", some(&[0..10])),
            ("bytes=10-", Ranges::Unsatisfiable),
            ("bytes=99999999999999999999999999-", Ranges::Unsatisfiable),
            ("bytes=-0", Ranges::Unsatisfiable),
            // Not well-formed, so as if there were none.
            ("bytes=", Ranges::All),
            ("bytes=a-b", Ranges::All),
            ("bytes=3-1", Ranges::All),
            ("bytes=1", Ranges::All),
            ("bytes=-", Ranges::All),
            ("bytes=+1-2", Ranges::All),
            ("bytes=1-2-3", Ranges::All),
            ("lines=1-2", Ranges::All),
            ("", Ranges::All),
            // More than the whole, or more than four.
            ("bytes=0-9,0-0", Ranges::All),
            ("bytes=0-0,1-1,2-2,3-3", some(&[0..1, 1..2, 2..3, 3..4])),
            ("bytes=0-0,1-1,2-2,3-3,4-4", Ranges::All),
        ] {
            let headers = HeaderMap::from_iter([(header::RANGE, value.parse().unwrap())]);
            assert_eq!(Ranges::of(&headers, 10, 4), expected, "{value:?}");
        }
        assert_eq!(Ranges::of(&HeaderMap::new(), 10, 4), Ranges::All);
        let headers = HeaderMap::from_iter([(header::RANGE, "bytes=0-".parse().unwrap())]);
        assert_eq!(Ranges::of(&headers, 0, 4), Ranges::Unsatisfiable);
    }
}
