//! What the fields of all heads have in common.

use crate::{
    error::{Framing, Grammar, HttpError},
    grammar::number,
};
use http::{HeaderName, HeaderValue, header};

/// What a field is to whoever makes a head of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Host,
    Cookie,
    Length,
    Expect,
    /// How urgent the reply is (RFC 9218).
    Priority,
}

/// Says what a header is, if there may be one like it. Most concern nobody here: their length and first letter say so.
#[inline]
pub(super) fn kind(name: &HeaderName, value: &HeaderValue) -> Result<Kind, HttpError> {
    let bytes = value.as_bytes();
    if let [b' ' | b'\t', ..] | [.., b' ' | b'\t'] = bytes {
        return Err(Grammar::HeaderValue.into());
    }
    let text = name.as_str().as_bytes();
    match (text.len(), text[0]) {
        (4, b'h') | (6, b'c' | b'e') | (14, b'c') | (8, b'p') => Ok(told_kind(name)),
        (10, b'c' | b'k') | (16, b'p') | (17, b't') | (7, b'u') | (2, b't') => rare_kind(name, bytes),
        _ => Ok(Kind::Plain),
    }
}

fn told_kind(name: &HeaderName) -> Kind {
    if name == header::HOST {
        Kind::Host
    } else if name == header::COOKIE {
        Kind::Cookie
    } else if name == header::CONTENT_LENGTH {
        Kind::Length
    } else if name == header::EXPECT {
        Kind::Expect
    } else if name.as_str() == "priority" {
        Kind::Priority
    } else {
        Kind::Plain
    }
}

fn rare_kind(name: &HeaderName, value: &[u8]) -> Result<Kind, HttpError> {
    if is_of_connection(name) || name == header::TE && !value.eq_ignore_ascii_case(b"trailers") {
        Err(Grammar::ConnectionField.into())
    } else {
        Ok(Kind::Plain)
    }
}

/// Whether a header speaks of the connection.
pub(super) fn is_of_connection(name: &HeaderName) -> bool {
    name == header::CONNECTION
        || name == header::TRANSFER_ENCODING
        || name == header::UPGRADE
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Notes a `Content-Length`.
pub(super) fn note_length(noted: &mut Option<u64>, value: &HeaderValue) -> Result<(), HttpError> {
    let length = number(value.as_bytes()).ok_or(Framing::BadLength)?;
    if noted.replace(length).is_some() { Err(Framing::TwoLengths.into()) } else { Ok(()) }
}
