//! Percent-encoding.
//!
//! Always true:
//! 1. Decoding is strict: a `%` is followed by two hex digits, and what comes out is UTF-8, or there is an error that says where.
//! 2. Decoding is done once. What looks encoded afterwards is text.
//! 3. What has nothing to be decoded or encoded is borrowed.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::{borrow::Cow, error::Error, fmt};

/// What stays as it is in one segment of a path, or as a name or value in a query: RFC 3986's unreserved characters.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// A path keeps its slashes, and what else `pchar` allows.
const PATH: &AsciiSet = &COMPONENT
    .remove(b'/')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// Why text could not be percent-decoded.
///
/// ```
/// use netwright_http::web::{PercentError, percent_decode};
///
/// assert_eq!(percent_decode(b"100%"), Err(PercentError::Incomplete { at: 3 }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PercentError {
    /// The `%` at this place is not followed by two hex digits.
    Incomplete {
        /// Where the `%` is.
        at: usize,
    },
    /// What comes out is not UTF-8 from this byte of the output on.
    NotUtf8 {
        /// Where it is.
        at: usize,
    },
}

impl fmt::Display for PercentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete { at } => write!(f, "the % at byte {at} is not followed by two hex digits"),
            Self::NotUtf8 { at } => write!(f, "what is percent-encoded is not UTF-8 at byte {at}"),
        }
    }
}

impl Error for PercentError {}

/// Decodes `%41` to `A`. A `+` stays one.
///
/// ```
/// use netwright_http::web::percent_decode;
///
/// assert_eq!(percent_decode(b"caf%C3%A9+1").unwrap(), "café+1");
/// assert_eq!(percent_decode(b"%252e").unwrap(), "%2e"); // once
/// assert!(percent_decode(b"100%").is_err() && percent_decode(b"%ff").is_err());
/// ```
pub fn percent_decode(text: &[u8]) -> Result<Cow<'_, str>, PercentError> {
    decode(text, false)
}

/// Decodes as forms and queries have it: a `+` is a blank.
pub(crate) fn form_decode(text: &[u8]) -> Result<Cow<'_, str>, PercentError> {
    decode(text, true)
}

fn decode(text: &[u8], plus: bool) -> Result<Cow<'_, str>, PercentError> {
    let not_utf8 = |error: std::str::Utf8Error| PercentError::NotUtf8 { at: error.valid_up_to() };
    let special = |byte: &u8| *byte == b'%' || (plus && *byte == b'+');
    let Some(first) = text.iter().position(special) else {
        return std::str::from_utf8(text).map(Cow::Borrowed).map_err(not_utf8);
    };
    let mut out = Vec::with_capacity(text.len());
    out.extend_from_slice(&text[..first]);
    let mut at = first;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'%' => {
                let digit = |place: usize| text.get(place).and_then(|&digit| char::from(digit).to_digit(16));
                let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else {
                    return Err(PercentError::Incomplete { at });
                };
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            b'+' if plus => out.push(b' '),
            other => out.push(other),
        }
        at += 1;
    }
    String::from_utf8(out).map(Cow::Owned).map_err(|error| not_utf8(error.utf8_error()))
}

/// Encodes a name, a value, or one segment of a path: everything but letters, digits, `-`, `.`, `_` and `~`.
///
/// ```
/// use netwright_http::web::percent_encode;
///
/// assert_eq!(percent_encode("a b/c&d=é"), "a%20b%2Fc%26d%3D%C3%A9");
/// ```
pub fn percent_encode(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, COMPONENT).into()
}

/// Encodes a whole path: slashes stay.
///
/// ```
/// use netwright_http::web::percent_encode_path;
///
/// assert_eq!(percent_encode_path("/my files/50%.txt"), "/my%20files/50%25.txt");
/// ```
pub fn percent_encode_path(path: &str) -> Cow<'_, str> {
    utf8_percent_encode(path, PATH).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_is_strict_and_says_where() {
        for (text, at) in
            [("%", 0), ("a%4", 1), ("%zz", 0), ("ab%-1", 2), ("%41%", 3), ("% 41", 0), ("%+1", 0)]
        {
            assert_eq!(percent_decode(text.as_bytes()), Err(PercentError::Incomplete { at }), "{text}");
        }
        assert_eq!(percent_decode(b"a%c3%28"), Err(PercentError::NotUtf8 { at: 1 }));
        assert_eq!(percent_decode(&[b'a', 0xff]), Err(PercentError::NotUtf8 { at: 1 }));
        assert_eq!(form_decode(b"a+b%2Bc").unwrap(), "a b+c");
        assert!(matches!(percent_decode(b"plain+").unwrap(), Cow::Borrowed("plain+")));
    }

    #[test]
    fn what_is_encoded_comes_back() {
        let text: String = (0..0x500u32).filter_map(char::from_u32).collect();
        assert_eq!(percent_decode(percent_encode(&text).as_bytes()).unwrap(), text);
        assert_eq!(percent_decode(percent_encode_path(&text).as_bytes()).unwrap(), text);
        assert!(percent_encode(&text).bytes().all(|byte| byte.is_ascii_graphic() && byte != b'+'));
    }
}
