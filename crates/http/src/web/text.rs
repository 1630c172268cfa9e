//! Characters: which may stand where, and percent-encoding.
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

/// Whether this is a token (RFC 9110, 5.6.2): a header's name, a method, a cookie's name. Never empty.
///
/// ```
/// use netwright_http::web::is_token;
///
/// assert!(is_token(b"x-request-id"));
/// assert!(!is_token(b"x request id") && !is_token(b"") && !is_token(b"na\0me"));
/// ```
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// Whether this byte may be part of a token.
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Whether this may be the value of a header (RFC 9110, 5.5): no control characters but the tab, and no blank at either
/// end. Bytes above 127 are allowed, though nobody says what they mean.
///
/// ```
/// use netwright_http::web::is_field_value;
///
/// assert!(is_field_value(b"text/plain; charset=utf-8") && is_field_value(b""));
/// assert!(!is_field_value(b"one\r\nset-cookie: two") && !is_field_value(b" padded"));
/// ```
pub fn is_field_value(bytes: &[u8]) -> bool {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !blank(bytes.first())
        && !blank(bytes.last())
        && bytes.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

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

/// Text in HTML, also inside of quoted attributes.
pub(crate) fn escape_html(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
}

/// Takes blanks and tabs off both ends.
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    #[test]
    fn exactly_the_illegal_bytes_of_tokens_and_values_are_refused() {
        const TOKEN: &[u8] = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        for byte in 0..=255u8 {
            assert_eq!(is_token(&[b'a', byte]), TOKEN.contains(&byte), "{byte:#x} in a token");
            assert_eq!(HeaderName::from_bytes(&[byte]).is_ok(), is_token(&[byte]), "{byte:#x} in a name");
            let legal = byte == b'\t' || (byte >= 0x20 && byte != 0x7f);
            assert_eq!(is_field_value(&[b'a', byte, b'b']), legal, "{byte:#x} in a value");
            assert_eq!(HeaderValue::from_bytes(&[b'a', byte, b'b']).is_ok(), legal, "{byte:#x} in a value");
        }
        assert!(!is_token(b"") && !is_field_value(b"a ") && !is_field_value(b"\ta"));
    }

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

    #[test]
    fn html_has_no_way_out_of_text_or_attributes() {
        let mut out = String::new();
        escape_html(r#"<a href="x" title='y'>&"#, &mut out);
        assert_eq!(out, "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;");
    }
}
