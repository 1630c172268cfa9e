//! Replies out of bytes: a plain state machine, one part for each call. What a reply is depends on its request.
//!
//! ```text
//!   Head ──▶ Interim ──▶ Head            1xx
//!     ├────▶ Whole                       no body, or one that is there and short
//!     ├────▶ Head, Data …, End           a length, chunks, or all until the end of the connection
//!     └────▶ Whole, then bytes           101, or a 2xx to CONNECT
//! ```

use super::{
    body::{Body, Piece},
    fields::{self, HeadScan},
    framing::{Facts, Length},
};
use crate::{
    error::{Grammar, HttpError, Limit},
    limits::Limits,
    message::{Part, ReplyHead, ReplyPart, header_map},
};
use bytes::{Bytes, BytesMut};
use http::{StatusCode, Version};

/// What a reply depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Awaited {
    pub(crate) head: bool,
    pub(crate) connect: bool,
    pub(crate) upgrade: bool,
    /// The request said that the connection closes behind its reply.
    pub(crate) close: bool,
}

/// What a head says beside its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// An answer before the answer.
    Interim,
    /// The reply: whether the connection ends with it, and whether what follows is not HTTP.
    Reply { close: bool, switches: bool },
}

/// Decodes replies.
#[derive(Debug, Default)]
pub(crate) struct ReplyDecoder {
    scan: HeadScan,
    body: Option<Body>,
}

impl ReplyDecoder {
    /// Whether the next byte begins a reply.
    pub(crate) fn is_between(&self) -> bool {
        self.body.is_none()
    }

    /// The connection has ended. True if that is the end of the body.
    pub(crate) fn ends_with_connection(&mut self) -> bool {
        let until_close = matches!(self.body, Some(Body::UntilClose { .. }));
        if until_close {
            self.body = None;
        }
        until_close
    }

    /// The next part, and with a head what it says; `None` if more bytes are needed.
    pub(crate) fn next(
        &mut self,
        input: &mut BytesMut,
        limits: &Limits,
        awaited: Awaited,
    ) -> Result<Option<(ReplyPart, Option<Said>)>, HttpError> {
        if let Some(body) = &mut self.body {
            return Ok(match body.next(input, limits)? {
                Some(Piece::Data(bytes)) => Some((Part::Data(bytes), None)),
                Some(Piece::End(trailers)) => {
                    self.body = None;
                    Some((Part::End(trailers), None))
                }
                None => None,
            });
        }
        if input.is_empty() {
            return Ok(None);
        }
        let Some(len) = self.scan.find(input, limits.head, Limit::Head)? else { return Ok(None) };
        let head =
            if input.len() == len { std::mem::take(input).freeze() } else { input.split_to(len).freeze() };
        let (parts, mut facts) = parse(&head, limits)?;
        let status = parts.status.as_u16();
        let switches = status == 101 || awaited.connect && parts.status.is_success();
        if status == 101 && !awaited.upgrade {
            return Err(Grammar::Unasked.into());
        }
        if parts.status.is_informational() && !switches {
            return Ok(Some((Part::Interim(parts), Some(Said::Interim))));
        }
        // Also where no body follows: a reply whose lengths contradict each other is not to be trusted.
        let length = facts.framing(parts.version)?;
        let http10 = parts.version == Version::HTTP_10;
        let mut close = facts.close || http10 && !facts.keep_alive;
        let length = match length {
            _ if switches || awaited.head || status == 204 || status == 304 => Length::Known(0),
            length => length,
        };
        close |= length == Length::Unknown;
        let said = Some(Said::Reply { close, switches });
        if let Length::Known(length) = length {
            if length > limits.body {
                return Err(HttpError::TooMuch { limit: Limit::Body, max: limits.body, got: length });
            }
            if length == 0 {
                return Ok(Some((Part::Whole(parts, Bytes::new()), said)));
            }
            if length <= limits.whole as u64 && length <= input.len() as u64 {
                let body = input.split_to(length as usize).freeze();
                return Ok(Some((Part::Whole(parts, body), said)));
            }
        }
        self.body = Some(Body::new(length));
        Ok(Some((Part::Head(parts), said)))
    }
}

fn parse(head: &Bytes, limits: &Limits) -> Result<(ReplyHead, Facts), HttpError> {
    let (line, fields_at) = fields::line(head, 0)?;
    let line = &head[line];
    let version = match line.first_chunk::<9>() {
        Some(b"HTTP/1.1 ") => Version::HTTP_11,
        Some(b"HTTP/1.0 ") => Version::HTTP_10,
        Some([version @ .., b' ']) if version.starts_with(b"HTTP/") => {
            return Err(HttpError::Version(*version));
        }
        _ => return Err(Grammar::FirstLine.into()),
    };
    let (status, reason) = line[9..].split_at_checked(3).ok_or(Grammar::Status)?;
    let status = StatusCode::from_bytes(status).map_err(|_| Grammar::Status)?;
    let bad = |&byte: &u8| byte != b'\t' && (byte < 0x20 || byte == 0x7f);
    if !status.as_str().bytes().all(|byte| byte.is_ascii_digit())
        || status.as_u16() > 599
        || !reason.is_empty() && reason[0] != b' '
    {
        return Err(Grammar::Status.into());
    }
    if reason.iter().any(bad) {
        return Err(Grammar::FirstLine.into());
    }
    let mut parts = ReplyHead::new();
    parts.headers = header_map();
    parts.status = status;
    parts.version = version;
    let mut facts = Facts::default();
    fields::parse(head, fields_at, &mut parts.headers, &mut facts, limits.headers)?;
    Ok((parts, facts))
}
