//! What the grammar of headers is made of: tokens, values, lists. For the codec, and for whoever reads what headers say.

use http::{HeaderMap, header};

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

/// Takes blanks and tabs off both ends.
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Everything between the commas of a list header, empty elements too, without the blanks around it. Quotes are not looked at.
pub(crate) fn all_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim)
}

/// The elements of a list header, the empty ones left out.
pub(crate) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    all_elements(value).filter(|element| !element.is_empty())
}

/// A number as `Content-Length` has it: digits and nothing else.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

/// The length of a body, if its message says one.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    number(headers.get(header::CONTENT_LENGTH)?.as_bytes())
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
}
