//! Requests out of bytes: a plain state machine, one part for each call.
//!
//! ```text
//!   Head ──▶ Whole                     no body, or one that is there and short
//!     └────▶ Head, Data …, End ──▶ Head
//! ```
//! Always true:
//! 1. Nothing of one request is read as part of another: where one ends is certain, or it is refused.
//! 2. After an error nothing more is decoded.
//! 3. What is held beyond the input is bounded by [`HttpLimits`].

use super::{
    fields::{self, too_much},
    framing::{Facts, Length},
    message::{Message, take_head},
    request_line::{first_line, is_path, is_target_too_long, line_of, target_len},
    same_again::{self, Again, recycle_request},
};
use crate::{
    codec::h1::asked::Asked,
    error::{Framing, Grammar, HttpError, Limit},
    limits::HttpLimits,
    message::{HttpPart, RequestHead, RequestPart, request_box},
};
use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderValue, Method, Version, header};

/// Decodes requests.
#[derive(Debug, Default)]
pub(crate) struct RequestDecoder {
    message: Message,
    /// An empty line before the request was let pass; a second one is not.
    skipped_line: bool,
    /// What the head that was decoded last asked for, until somebody takes it.
    asked: Option<Asked>,
}

impl RequestDecoder {
    /// Whether the next byte begins a request.
    #[inline]
    pub(crate) fn is_between(&self) -> bool {
        self.message.is_between()
    }

    /// So many bytes of an unfinished head are there.
    pub(crate) fn head_seen(&self) -> usize {
        self.message.head_seen()
    }

    /// What was asked, after a head.
    #[inline]
    pub(crate) fn take_asked(&mut self) -> Option<Asked> {
        self.asked.take()
    }

    /// The next part; `None` if more bytes are needed.
    #[inline]
    pub(crate) fn next(
        &mut self,
        input: &mut BytesMut,
        limits: &HttpLimits,
    ) -> Result<Option<RequestPart>, HttpError> {
        if !self.message.is_between() {
            return self.message.rest(input, limits);
        }
        if input.is_empty() {
            return Ok(None);
        }
        self.head(input, limits)
    }

    fn head(&mut self, input: &mut BytesMut, limits: &HttpLimits) -> Result<Option<RequestPart>, HttpError> {
        if input[0] == b'\r' && !self.skip_empty_line(input)? {
            return Ok(None);
        }
        if self.message.head_seen() == 0
            && let Some(again) = same_again::find(input, limits)
            && let Some(again) = if again.other_line { other_line(again, input, limits) } else { Some(again) }
        {
            input.advance(again.len);
            self.skipped_line = false;
            self.asked = Some(again.asked);
            return Ok(Some(HttpPart::Whole(again.head, Bytes::new())));
        }
        let found = match self.message.find_head(input, limits) {
            // Whichever is passed first: a first line that does not end is a target that is too long.
            Ok(None) | Err(HttpError::TooMuch { .. }) if is_target_too_long(input, limits) => {
                return Err(too_much(Limit::Target, limits.target, input.len().min(limits.target + 1)));
            }
            found => found?,
        };
        let Some(len) = found else { return Ok(None) };
        self.skipped_line = false;
        let keep = same_again::comes_again(&input[..len]);
        let head = if keep {
            let head = Bytes::copy_from_slice(&input[..len]);
            input.advance(len);
            head
        } else {
            take_head(input, len)
        };
        let (parts, asked, length) = parse(&head, limits, keep)?;
        self.asked = Some(asked);
        // A request says how long its body is, or has none.
        let length = if length == Length::Unknown { Length::Known(0) } else { length };
        self.message.begin(parts, length, input, limits).map(Some)
    }

    /// One empty line before a request is let pass: some clients send one behind a body. False if more bytes are needed.
    #[cold]
    fn skip_empty_line(&mut self, input: &mut BytesMut) -> Result<bool, HttpError> {
        if input.len() < 2 {
            return Ok(false);
        }
        if self.skipped_line || input[1] != b'\n' {
            return Err(Grammar::FirstLine.into());
        }
        self.skipped_line = true;
        input.advance(2);
        if input.first() == Some(&b'\r') {
            return Err(Grammar::FirstLine.into());
        }
        Ok(!input.is_empty())
    }
}

/// A request whose headers are known, with another first line; `None` if it has to be parsed after all.
fn other_line(again: Again, input: &[u8], limits: &HttpLimits) -> Option<Again> {
    let Again { len, other_line, asked, head } = again;
    let Some((method, uri)) = line_of(&input[..len], head.version, limits) else {
        recycle_request(head);
        return None;
    };
    let asked = Asked { head: method == Method::HEAD, ..asked };
    let head = head.with_line(method, uri);
    Some(Again { len, other_line, asked, head })
}

fn parse(head: &Bytes, limits: &HttpLimits, keep: bool) -> Result<(RequestHead, Asked, Length), HttpError> {
    let (line, fields_at) = fields::line(head, 0)?;
    let line_len = line.len();
    let (method, uri, version) = first_line(head, line, limits)?;
    let mut parts = request_box();
    parts.version = version;
    let mut facts = Facts::default();
    fields::parse(head, fields_at, &mut parts.headers, &mut facts, limits.headers)?;
    parts.uri = uri;
    if facts.hosts != 1 {
        check_hosts(&facts, version)?;
    }
    if let Some(authority) = parts.uri.authority()
        && method != Method::CONNECT
    {
        // The target says whom the request is for; what `Host` says does not count (RFC 9112, section 3.2.2).
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| Grammar::Target)?;
        parts.headers.insert(header::HOST, host);
    }
    let length = facts.framing(version)?;
    facts.expectation()?;
    let connect = method == Method::CONNECT;
    if connect && !matches!(length, Length::Unknown | Length::Known(0)) {
        return Err(Framing::Body.into());
    }
    let http10 = version == Version::HTTP_10;
    let asked = Asked {
        head: method == Method::HEAD,
        connect,
        upgrade: !http10 && !connect && facts.wants_upgrade(),
        http10,
        close: facts.close || http10 && !facts.keep_alive,
        expects: !http10 && facts.expects,
    };
    parts.method = method;
    if keep && length == Length::Unknown && !asked.expects && !asked.upgrade && is_path(head, &parts.method) {
        let target_len = target_len(line_len, &parts.method);
        let known = same_again::keep(head, fields_at, target_len, asked, &parts);
        return Ok((RequestHead::known(parts, known), asked, length));
    }
    Ok((RequestHead::boxed(parts), asked, length))
}

#[cold]
fn check_hosts(facts: &Facts, version: Version) -> Result<(), HttpError> {
    match facts.hosts {
        0 if version == Version::HTTP_11 => Err(Grammar::NoHost.into()),
        0 | 1 => Ok(()),
        _ => Err(Grammar::TwoHosts.into()),
    }
}
