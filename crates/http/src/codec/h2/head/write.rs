//! Heads and trailers into blocks.
//!
//! What speaks of the connection is left out: HTTP/2 says it otherwise. So a stage that writes for HTTP/1.1 need not be told.

use super::fields::is_of_connection;
use crate::{
    codec::{
        date,
        h1::is_forbidden,
        h2::{
            field::Pseudo,
            hpack::{Beside, Encoder},
        },
    },
    error::{HttpError, Misuse},
    grammar::{elements, number},
    message::{Protocol, ReplyHead, RequestHead},
};
use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

/// What is written of the length of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// This. Headers that say something else are an error.
    Is(u64),
    /// What headers say, or this if they say nothing.
    OrElse(u64),
    /// What headers say.
    AsSaid,
    /// Nothing: there can be no body.
    Nothing,
}

/// What the headers of a message say to the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) length: Option<u64>,
    /// The connection is to end with it.
    pub(crate) close: bool,
    /// Who asks waits for a 100 before it sends the body.
    pub(crate) expects: bool,
    date: bool,
}

/// Appends the block of a reply. With `with_date`, a `date` is added if there is none.
///
/// # Errors
/// Headers that contradict each other or `length`: nothing is appended then, and the encoder is as it was.
#[inline]
pub(crate) fn reply(
    encoder: &mut Encoder,
    out: &mut BytesMut,
    head: &ReplyHead,
    length: Length,
    with_date: bool,
) -> Result<Said, HttpError> {
    if with_date {
        date::show(|date| dated_reply(encoder, out, head, length, date))
    } else {
        dated_reply(encoder, out, head, length, b"")
    }
}

#[inline]
fn dated_reply(
    encoder: &mut Encoder,
    out: &mut BytesMut,
    head: &ReplyHead,
    length: Length,
    date: &[u8],
) -> Result<Said, HttpError> {
    let beside = Beside { status: head.status.as_u16(), length: length.unsaid(), date };
    if let Some(block) = encoder.find_again(beside, &head.headers) {
        out.extend_from_slice(block);
        return Ok(Said::default());
    }
    new_reply(encoder, out, head, length, beside)
}

fn new_reply(
    encoder: &mut Encoder,
    out: &mut BytesMut,
    head: &ReplyHead,
    length: Length,
    beside: Beside<'_>,
) -> Result<Said, HttpError> {
    let said = look(&head.headers)?;
    let length = said.written(length)?;
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Misuse::Upgrade.into());
    }
    let (generation, at) = (encoder.generation(), out.len());
    encoder.begin(out);
    encoder.pseudo(out, Pseudo::Status, head.status.as_str().as_bytes());
    headers(encoder, out, &head.headers);
    if let Some(length) = length {
        content_length(encoder, out, length);
    }
    if !beside.date.is_empty() && !said.date {
        encoder.plain(out, &header::DATE, beside.date);
    }
    if said == Said::default() {
        encoder.keep_again(generation, beside, &head.headers, &out[at..]);
    }
    Ok(said)
}

/// Appends the block of a request. `https` says which scheme it has if its target says none.
///
/// # Errors
/// Headers that contradict each other or `length`, or no host: nothing is appended then, and the encoder is as it was.
pub(crate) fn request(
    encoder: &mut Encoder,
    out: &mut BytesMut,
    head: &RequestHead,
    length: Length,
    https: bool,
) -> Result<Said, HttpError> {
    let said = look(&head.headers)?;
    let length = said.written(length)?;
    let uri = &head.uri;
    let protocol = head.extensions.get::<Protocol>().filter(|_| head.method == Method::CONNECT);
    let tunnel = head.method == Method::CONNECT && protocol.is_none();
    let authority = match uri.authority() {
        // Who the user is stays with us.
        Some(authority) => authority.as_str().rsplit('@').next().map(str::as_bytes),
        None => None,
    };
    let host = head.headers.get(header::HOST).map(HeaderValue::as_bytes);
    let authority = if tunnel {
        uri.port_u16().ok_or(Misuse::Target)?;
        authority
    } else {
        host.or(authority)
    };
    let authority = authority.filter(|authority| !authority.is_empty()).ok_or(Misuse::Target)?;
    let path = match uri.path_and_query().map_or("/", |path| path.as_str()) {
        "*" if head.method != Method::OPTIONS => return Err(Misuse::Target.into()),
        "" => "/",
        path => path,
    };
    encoder.begin(out);
    encoder.pseudo(out, Pseudo::Method, head.method.as_str().as_bytes());
    if !tunnel {
        let scheme = uri.scheme_str().unwrap_or(if https { "https" } else { "http" });
        encoder.pseudo(out, Pseudo::Scheme, scheme.as_bytes());
        match path.strip_prefix('?') {
            // A target has a path.
            Some(_) => encoder.pseudo(out, Pseudo::Path, ["/", path].concat().as_bytes()),
            None => encoder.pseudo(out, Pseudo::Path, path.as_bytes()),
        }
    }
    encoder.pseudo(out, Pseudo::Authority, authority);
    if let Some(protocol) = protocol {
        encoder.pseudo(out, Pseudo::Protocol, protocol.as_str().as_bytes());
    }
    headers(encoder, out, &head.headers);
    if let Some(length) = length {
        content_length(encoder, out, length);
    }
    Ok(said)
}

/// Appends the block behind a body.
///
/// # Errors
/// A trailer that may only stand in a head.
pub(crate) fn trailers(
    encoder: &mut Encoder,
    out: &mut BytesMut,
    trailers: &HeaderMap,
) -> Result<(), HttpError> {
    if trailers.keys().any(is_forbidden) {
        return Err(Misuse::Trailer.into());
    }
    encoder.begin(out);
    headers(encoder, out, trailers);
    Ok(())
}

impl Length {
    /// The length that is written if headers say nothing.
    #[inline]
    fn unsaid(self) -> Option<u64> {
        match self {
            Self::Is(length) | Self::OrElse(length) => Some(length),
            Self::AsSaid | Self::Nothing => None,
        }
    }
}

impl Said {
    /// The length that is written.
    #[inline]
    fn written(self, length: Length) -> Result<Option<u64>, HttpError> {
        Ok(match (length, self.length) {
            (Length::Nothing, _) => None,
            (Length::AsSaid, said) => said,
            (Length::OrElse(length), said) => said.or(Some(length)),
            (Length::Is(written), Some(announced)) if written > announced => {
                return Err(Misuse::BodyTooLong { announced, written }.into());
            }
            (Length::Is(written), Some(announced)) if written < announced => {
                return Err(Misuse::BodyTooShort { announced, written }.into());
            }
            (Length::Is(length), _) => Some(length),
        })
    }
}

/// What a header is to whoever writes it. Most concern nobody here: their length and first letter say so.
#[inline]
fn concerns(name: &HeaderName) -> bool {
    let text = name.as_str().as_bytes();
    matches!(
        (text.len(), text[0]),
        (4, b'd' | b'h')
            | (14, b'c')
            | (17, b't')
            | (10, b'c' | b'k')
            | (16, b'p')
            | (7, b'u')
            | (6, b'e')
            | (2, b't')
    )
}

/// Looks at all headers before one is written.
#[inline]
fn look(headers: &HeaderMap) -> Result<Said, HttpError> {
    let mut said = Said::default();
    for (name, value) in headers {
        if concerns(name) {
            said.note(name, value)?;
        }
    }
    Ok(said)
}

impl Said {
    fn note(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<(), HttpError> {
        if name == header::CONTENT_LENGTH {
            let length = number(value.as_bytes()).ok_or(Misuse::Length)?;
            if self.length.replace(length).is_some_and(|before| before != length) {
                return Err(Misuse::Length.into());
            }
        } else if name == header::CONNECTION {
            self.close |= elements(value.as_bytes()).any(|option| option.eq_ignore_ascii_case(b"close"));
        } else {
            self.date |= name == header::DATE;
            self.expects |= name == header::EXPECT;
        }
        Ok(())
    }
}

#[inline]
fn headers(encoder: &mut Encoder, out: &mut BytesMut, headers: &HeaderMap) {
    for (name, value) in headers {
        if !concerns(name) || is_passed_on(name, value) {
            encoder.header(out, name, value);
        }
    }
}

fn is_passed_on(name: &HeaderName, value: &HeaderValue) -> bool {
    !(name == header::CONTENT_LENGTH
        || name == header::HOST
        || is_of_connection(name)
        || name == header::TE && !value.as_bytes().eq_ignore_ascii_case(b"trailers"))
}

#[inline]
fn content_length(encoder: &mut Encoder, out: &mut BytesMut, mut length: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (length % 10) as u8;
        length /= 10;
        if length == 0 {
            break;
        }
    }
    encoder.plain(out, &header::CONTENT_LENGTH, &digits[at..]);
}
