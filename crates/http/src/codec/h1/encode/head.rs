//! Header lines of messages that are written, and what they say to the codec.

use crate::{
    error::{HttpError, Misuse},
    grammar::{elements, number},
};
use bytes::BytesMut;
use http::{HeaderMap, HeaderValue, header};

/// What the headers of a message to be written say that the codec has to know. Those are written by the codec.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) close: bool,
    pub(crate) date: bool,
    pub(crate) host: bool,
    pub(crate) upgrade: bool,
    pub(crate) expects: bool,
    /// Options of `Connection` that are neither `close` nor `keep-alive`.
    options: Option<Vec<u8>>,
}

impl Written {
    /// Appends all headers but those about the connection and the length, which are noted.
    #[inline]
    pub(crate) fn fields(out: &mut BytesMut, headers: &HeaderMap) -> Result<Self, HttpError> {
        let mut said = Self::default();
        for (name, value) in headers {
            let text = name.as_str();
            match (text.len(), text.as_bytes()[0]) {
                (4, b'd' | b'h') | (14, b'c') | (17, b't') | (10, b'c') | (7, b'u') | (6, b'e')
                    if said.note(name, value)? =>
                {
                    continue;
                }
                _ => {}
            }
            field(out, text, value);
        }
        if said.chunked && said.length.is_some() {
            return Err(Misuse::Length.into());
        }
        Ok(said)
    }

    /// Notes a header. True if it is not to be written as it is.
    fn note(&mut self, name: &http::HeaderName, value: &HeaderValue) -> Result<bool, HttpError> {
        if name == header::CONTENT_LENGTH {
            let length = number(value.as_bytes()).ok_or(Misuse::Length)?;
            if self.length.replace(length).is_some_and(|before| before != length) {
                return Err(Misuse::Length.into());
            }
        } else if name == header::TRANSFER_ENCODING {
            if !value.as_bytes().eq_ignore_ascii_case(b"chunked") || self.chunked {
                return Err(Misuse::Length.into());
            }
            self.chunked = true;
        } else if name == header::CONNECTION {
            for option in elements(value.as_bytes()) {
                if option.eq_ignore_ascii_case(b"close") {
                    self.close = true;
                } else if !option.eq_ignore_ascii_case(b"keep-alive") {
                    let options = self.options.get_or_insert_default();
                    if !options.is_empty() {
                        options.extend_from_slice(b", ");
                    }
                    options.extend_from_slice(option);
                }
            }
        } else {
            self.date |= name == header::DATE;
            self.host |= name == header::HOST;
            self.upgrade |= name == header::UPGRADE;
            self.expects |= name == header::EXPECT;
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether something was said that a reply depends on, beside what a header says of itself.
    #[inline]
    pub(crate) fn decides(&self) -> bool {
        self.length.is_some() || self.chunked || self.close || self.options.is_some()
    }

    /// Appends `connection`, if there is anything to say: what the message said, and what the codec wants.
    #[inline]
    pub(crate) fn connection(&self, out: &mut BytesMut, close: bool, keep_alive: bool) {
        let own: &[u8] = if close {
            b"close"
        } else if keep_alive {
            b"keep-alive"
        } else {
            b""
        };
        let theirs = self.options.as_deref().unwrap_or_default();
        if own.is_empty() && theirs.is_empty() {
            return;
        }
        out.extend_from_slice(b"connection: ");
        out.extend_from_slice(own);
        if !own.is_empty() && !theirs.is_empty() {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(theirs);
        out.extend_from_slice(b"\r\n");
    }
}

#[inline]
pub(crate) fn field(out: &mut BytesMut, name: &str, value: &HeaderValue) {
    let (name, value) = (name.as_bytes(), value.as_bytes());
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[inline]
pub(crate) fn content_length(out: &mut BytesMut, length: u64) {
    if let 10..100 = length {
        // The commonest, in one piece of a length that is known.
        let mut line = *b"content-length: 00\r\n";
        line[16] += (length / 10) as u8;
        line[17] += (length % 10) as u8;
        return out.extend_from_slice(&line);
    }
    any_content_length(out, length);
}

fn any_content_length(out: &mut BytesMut, mut length: u64) {
    // From the end: the line, with its number before what follows it.
    const NAME: &[u8; 16] = b"content-length: ";
    let mut line = [0; NAME.len() + 20 + 2];
    let mut at = line.len() - 2;
    line[at..].copy_from_slice(b"\r\n");
    loop {
        at -= 1;
        line[at] = b'0' + (length % 10) as u8;
        length /= 10;
        if length == 0 {
            break;
        }
    }
    at -= NAME.len();
    line[at..at + NAME.len()].copy_from_slice(NAME);
    out.extend_from_slice(&line[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_as_they_are_read() {
        for number in [0, 9, 10, 57, 99, 100, 1234, u64::MAX] {
            let mut out = BytesMut::new();
            content_length(&mut out, number);
            assert_eq!(out, format!("content-length: {number}\r\n"));
        }
    }
}
