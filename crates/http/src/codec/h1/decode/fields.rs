//! Header lines: found, checked and put into a map, once for requests, replies and trailers.
//!
//! ```text
//!   Name: value\r\n        no space before the name or the colon, no bare CR or LF, no line that goes on in the next
//!   …
//!   \r\n                   the end of the head
//! ```
//! Always true of a head that passes:
//! 1. Every line ends in CR LF, and neither byte is anywhere else.
//! 2. Names are tokens; values have no control byte but HTAB. The `http` crate's types check that once, as they are made.
//! 3. Values are pieces of the head's own buffer.
//!
//! Not here: what the fields mean together (`framing`).

use super::{framing::Facts, seen::Seen};
use crate::error::{Grammar, HttpError, Limit};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use memchr::memchr;
use std::{cell::RefCell, ops::Range, sync::LazyLock};

static END: LazyLock<memchr::memmem::Finder<'static>> =
    LazyLock::new(|| memchr::memmem::Finder::new(b"\r\n\r\n"));

/// Looks for the end of a head that may come in pieces, and looks at every byte once.
#[derive(Debug, Default)]
pub(crate) struct HeadScan {
    /// So many bytes are known to hold no end and nothing that has no place in a head.
    seen: usize,
}

impl HeadScan {
    /// The length of the head, its end included; `None` if it is not all there.
    ///
    /// # Errors
    /// More than `max` bytes, or something that no head begins with.
    #[inline]
    pub(crate) fn find(
        &mut self,
        bytes: &[u8],
        max: usize,
        limit: Limit,
    ) -> Result<Option<usize>, HttpError> {
        let from = self.seen.saturating_sub(3);
        if let Some(at) = END.find(&bytes[from..]) {
            let len = from + at + 4;
            self.seen = 0;
            if len > max {
                return Err(too_much(limit, max, len));
            }
            return Ok(Some(len));
        }
        self.wait(bytes, max, limit)
    }

    /// So many bytes of a head are there.
    pub(crate) fn seen(&self) -> usize {
        self.seen
    }

    #[cold]
    fn wait(&mut self, bytes: &[u8], max: usize, limit: Limit) -> Result<Option<usize>, HttpError> {
        for (at, &byte) in bytes.iter().enumerate().skip(self.seen) {
            match byte {
                b'\n' if at == 0 || bytes[at - 1] != b'\r' => return Err(Grammar::LineEnd.into()),
                b'\n' | b'\r' | b'\t' => {}
                0..0x20 | 0x7f => return Err(Grammar::ControlByte(byte).into()),
                _ => {}
            }
            if at > 0 && bytes[at - 1] == b'\r' && byte != b'\n' {
                return Err(Grammar::LineEnd.into());
            }
        }
        self.seen = bytes.len();
        if bytes.len() >= max {
            return Err(too_much(limit, max, bytes.len() + 1));
        }
        Ok(None)
    }
}

pub(crate) fn too_much(limit: Limit, max: usize, got: usize) -> HttpError {
    HttpError::TooMuch { limit, max: max as u64, got: got as u64 }
}

/// The line that begins at `at`, without its end, and where the next one begins.
#[inline]
pub(crate) fn line(bytes: &[u8], at: usize) -> Result<(Range<usize>, usize), HttpError> {
    match memchr(b'\n', &bytes[at..]) {
        Some(len) if len > 0 && bytes[at + len - 1] == b'\r' => Ok((at..at + len - 1, at + len + 1)),
        _ => Err(Grammar::LineEnd.into()),
    }
}

thread_local! {
    static SEEN: RefCell<Seen<(HeaderName, HeaderValue)>> = const { RefCell::new(Seen::new()) };
}

/// Puts the lines from `at` up to the empty one into `headers`.
pub(crate) fn parse(
    head: &Bytes,
    at: usize,
    headers: &mut HeaderMap,
    facts: &mut Facts,
    max: usize,
) -> Result<(), HttpError> {
    SEEN.with_borrow_mut(|seen| parse_lines(head, at, headers, facts, max, seen))
}

fn parse_lines(
    head: &Bytes,
    mut at: usize,
    headers: &mut HeaderMap,
    facts: &mut Facts,
    max: usize,
    seen: &mut Seen<(HeaderName, HeaderValue)>,
) -> Result<(), HttpError> {
    let bytes = &head[..];
    let mut count = 0;
    while at < bytes.len() {
        let (range, next) = line(bytes, at)?;
        let line = &bytes[range.clone()];
        if line.is_empty() {
            break; // the head ends behind the first empty line
        }
        count += 1;
        if count > max {
            return Err(too_much(Limit::Headers, max, count));
        }
        let (name, value) = match seen.find(line) {
            Some((name, value)) => {
                facts.note(name, value.as_bytes())?;
                (name.clone(), value.clone())
            }
            None => {
                let (name, place) = field(line)?;
                facts.note(&name, &line[place.clone()])?;
                let value = head.slice(range.start + place.start..range.start + place.end);
                let value = HeaderValue::from_maybe_shared(value).map_err(|_| Grammar::HeaderValue)?;
                if !is_secret(&name) {
                    seen.missed(line, |copy| {
                        let value = HeaderValue::from_maybe_shared(copy.slice(place)).ok()?;
                        Some((name.clone(), value))
                    });
                }
                (name, value)
            }
        };
        if headers.try_append(name, value).is_err() {
            return Err(too_much(Limit::Headers, headers.len(), count));
        }
        at = next;
    }
    Ok(())
}

/// The name in a line, and where its value is.
#[inline]
fn field(line: &[u8]) -> Result<(HeaderName, Range<usize>), HttpError> {
    if is_space(line[0]) {
        return Err(Grammar::Folded.into());
    }
    // Names are short: what looks for a byte in long texts takes longer to begin than this to end.
    let colon = line.iter().position(|&byte| byte == b':').ok_or(Grammar::NoColon)?;
    let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| Grammar::HeaderName)?;
    Ok((name, trimmed(line, colon + 1)))
}

/// Whether a header's value is nothing to keep longer than its request.
fn is_secret(name: &HeaderName) -> bool {
    [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION, header::SET_COOKIE].contains(name)
}

#[inline]
fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Where the value lies, without the spaces around it.
#[inline]
fn trimmed(line: &[u8], mut start: usize) -> Range<usize> {
    let mut end = line.len();
    while start < end && is_space(line[start]) {
        start += 1;
    }
    while end > start && is_space(line[end - 1]) {
        end -= 1;
    }
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(lines: &[u8]) -> Result<HeaderMap, HttpError> {
        let head = Bytes::copy_from_slice(lines);
        let mut headers = HeaderMap::new();
        parse(&head, 0, &mut headers, &mut Facts::default(), 10)?;
        Ok(headers)
    }

    #[test]
    fn values_lose_the_spaces_around_them_and_keep_those_within() {
        let headers = parsed(b"a: \t x  y\t \r\nB:\r\nc:z\r\na:2\r\n\r\n").unwrap();
        assert_eq!(headers["a"], "x  y");
        assert_eq!(headers["b"], "");
        assert_eq!(headers.get_all("a").iter().count(), 2);
        assert_eq!(headers.len(), 4);
    }

    #[test]
    fn each_thing_that_is_no_header_line_has_its_own_error() {
        use Grammar::*;
        for (lines, error) in [
            (&b"a b: x\r\n\r\n"[..], HeaderName),
            (b"a : x\r\n\r\n", HeaderName),
            (b"a\t: x\r\n\r\n", HeaderName),
            (b": x\r\n\r\n", HeaderName),
            (b"a\x00b: x\r\n\r\n", HeaderName),
            (b"a\xe4: x\r\n\r\n", HeaderName),
            (b"no colon\r\n\r\n", NoColon),
            (b"a: x\r\n folded\r\n\r\n", Folded),
            (b"a: x\r\n\tfolded: y\r\n\r\n", Folded),
            (b" a: first\r\n\r\n", Folded),
            (b"a: x\nb: y\r\n\r\n", LineEnd),
            (b"a: x\r\nb: y\n\r\n", LineEnd),
            (b"a: x\ry\r\n\r\n", HeaderValue),
            (b"a: x\x00\r\n\r\n", HeaderValue),
            (b"a: x\x0b\r\n\r\n", HeaderValue),
            (b"a: \x7f\r\n\r\n", HeaderValue),
        ] {
            assert_eq!(parsed(lines).unwrap_err(), error.into(), "{}", lines.escape_ascii());
        }
    }

    /// Behaviour 94.
    #[test]
    fn exactly_the_token_characters_are_allowed_in_names_and_all_but_controls_in_values() {
        for byte in 0..=255u8 {
            let token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            let name = parsed(&[b'x', byte, b':', b'1', b'\r', b'\n', b'\r', b'\n']);
            assert_eq!(name.is_ok(), token || byte == b':', "{byte:#04x} in a name");
            let allowed = byte == b'\t' || byte >= 0x20 && byte != 0x7f;
            let value = parsed(&[b'x', b':', b'1', byte, b'1', b'\r', b'\n', b'\r', b'\n']);
            assert_eq!(value.is_ok(), allowed, "{byte:#04x} in a value");
        }
    }

    #[test]
    fn the_end_of_a_head_is_found_however_it_is_split_and_every_byte_is_looked_at_once() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
        let mut scan = HeadScan::default();
        for len in 0..27 {
            assert_eq!(scan.find(&head[..len], 100, Limit::Head), Ok(None), "{len}");
        }
        assert_eq!(scan.find(head, 100, Limit::Head), Ok(Some(27)));
        assert_eq!(scan.find(head, 27, Limit::Head), Ok(Some(27)));
        assert_eq!(scan.find(head, 26, Limit::Head), Err(too_much(Limit::Head, 26, 27)));
        assert_eq!(scan.find(&head[..20], 20, Limit::Head), Err(too_much(Limit::Head, 20, 21)));
    }

    #[test]
    fn what_no_head_begins_with_is_refused_before_its_end_is_there() {
        for start in [&b"\x16\x03\x01\x00"[..], b"GET / HTTP/1.1\n", b"GET\0", b"a\rb"] {
            let error = HeadScan::default().find(start, 100, Limit::Head).unwrap_err();
            assert!(matches!(error, HttpError::Grammar(_)), "{error}");
        }
    }
}
