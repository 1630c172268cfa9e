//! Extensions of chunks (RFC 9112, section 7.1.1). Nobody here uses them; but what is none, another reader may take for something
//! else.
//!
//! ```text
//!   ;name  ;name=token  ;name="quoted \" text"        with spaces around ";" and "="
//! ```

use crate::grammar::is_token_byte;

/// Whether this is extensions and nothing else: what stands between the digits of a size and its line end.
pub(crate) fn are_extensions(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        let Some(behind) = strip_sign(rest, b';') else { return false };
        let Some(behind) = strip_token(behind) else { return false };
        rest = match strip_sign(behind, b'=') {
            None => behind,
            Some(value) => match strip_quoted(value).or_else(|| strip_token(value)) {
                Some(behind) => behind,
                None => return false,
            },
        };
    }
    true
}

/// What is behind a sign and the spaces around it.
fn strip_sign(text: &[u8], sign: u8) -> Option<&[u8]> {
    Some(without_spaces(without_spaces(text).strip_prefix(&[sign])?))
}

fn without_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    &text[spaces..]
}

fn strip_token(text: &[u8]) -> Option<&[u8]> {
    let len = text.iter().take_while(|&&byte| is_token_byte(byte)).count();
    (len > 0).then(|| &text[len..])
}

fn strip_quoted(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"\"")?;
    loop {
        rest = match rest {
            [b'"', behind @ ..] => return Some(behind),
            [b'\\', quoted, behind @ ..] if is_text(*quoted) => behind,
            [byte, behind @ ..] if *byte != b'\\' && is_text(*byte) => behind,
            _ => return None,
        };
    }
}

/// Whether it is no control byte.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || byte >= 0x20 && byte != 0x7f
}
