//! Replies out of bytes: a plain state machine, one part for each call. What a reply is depends on its request.
//!
//! ```text
//!   Head ──▶ Interim ──▶ Head            1xx
//!     ├────▶ Whole                       no body, or one that is there and short
//!     ├────▶ Head, Data …, End           a length, chunks, or all until the end of the connection
//!     └────▶ Whole, then bytes           101, or a 2xx to CONNECT
//! ```

use super::{
    fields,
    framing::{Facts, Length},
    message::{Message, take_head},
};
use crate::{
    codec::h1::asked::{Asked, is_bodiless},
    error::{Grammar, HttpError},
    limits::HttpLimits,
    message::{HttpPart, ReplyHead, ReplyPart, header_map},
};
use bytes::{Bytes, BytesMut};
use http::{StatusCode, Version};

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
    message: Message,
}

impl ReplyDecoder {
    /// Whether the next byte begins a reply.
    pub(crate) fn is_between(&self) -> bool {
        self.message.is_between()
    }

    /// The connection has ended. True if that is the end of the body.
    pub(crate) fn ends_with_connection(&mut self) -> bool {
        self.message.ends_with_connection()
    }

    /// The next part, and with a head what it says; `None` if more bytes are needed.
    pub(crate) fn next(
        &mut self,
        input: &mut BytesMut,
        limits: &HttpLimits,
        asked: Asked,
    ) -> Result<Option<(ReplyPart, Option<Said>)>, HttpError> {
        if !self.message.is_between() {
            return Ok(self.message.rest(input, limits)?.map(|part| (part, None)));
        }
        if input.is_empty() {
            return Ok(None);
        }
        let Some(len) = self.message.find_head(input, limits)? else { return Ok(None) };
        let head = take_head(input, len);
        let (parts, mut facts) = parse(&head, limits)?;
        let switches = asked.switches(parts.status);
        if parts.status == StatusCode::SWITCHING_PROTOCOLS && !asked.upgrade {
            return Err(Grammar::Unasked.into());
        }
        if parts.status.is_informational() && !switches {
            return Ok(Some((HttpPart::Interim(parts), Some(Said::Interim))));
        }
        // Also where no body follows: a reply whose lengths contradict each other is not to be trusted.
        let length = facts.framing(parts.version)?;
        let http10 = parts.version == Version::HTTP_10;
        let mut close = facts.close || http10 && !facts.keep_alive;
        let length = match length {
            _ if switches || asked.head || is_bodiless(parts.status) => Length::Known(0),
            length => length,
        };
        close |= length == Length::Unknown;
        let part = self.message.begin(parts, length, input, limits)?;
        Ok(Some((part, Some(Said::Reply { close, switches }))))
    }
}

fn parse(head: &Bytes, limits: &HttpLimits) -> Result<(ReplyHead, Facts), HttpError> {
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
