//! Requests out of bytes: a plain state machine, one part for each call.
//!
//! ```text
//!   Head ──▶ Whole                     no body, or one that is there and short
//!     └────▶ Head, Data …, End ──▶ Head
//! ```
//! Always true:
//! 1. Nothing of one request is read as part of another: where one ends is certain, or it is refused.
//! 2. After an error nothing more is decoded.
//! 3. What is held beyond the input is bounded by [`Limits`].

use super::{
    body::{Body, Piece},
    fields::{self, HeadScan, too_much},
    framing::{Facts, Length},
    same_again::{self, Again, recycle_request},
    seen::Seen,
};
use crate::{
    authority::{self, HostAndPort},
    error::{Framing, Grammar, HttpError, Limit},
    limits::Limits,
    message::{Part, RequestHead, RequestPart, request_box},
};
use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderValue, Method, Uri, Version, header, uri::Authority};
use memchr::memchr;
use std::{cell::RefCell, ops::Range};

/// What the reply to a request, and what follows it, depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Asked {
    /// The reply has no body, whatever its headers say.
    pub(crate) head: bool,
    /// A 2xx ends HTTP on this connection.
    pub(crate) connect: bool,
    /// A 101 does.
    pub(crate) upgrade: bool,
    /// HTTP/1.0: no chunks, and `Connection: keep-alive` has to be said.
    pub(crate) http10: bool,
    /// The connection ends with the reply.
    pub(crate) close: bool,
    /// The peer may wait for a 100 before it sends the body.
    pub(crate) expects: bool,
}

/// Decodes requests.
#[derive(Debug, Default)]
pub(crate) struct RequestDecoder {
    scan: HeadScan,
    /// An empty line before the request was let pass; a second one is not.
    skipped_line: bool,
    body: Option<Body>,
    /// What the head that was decoded last asked for, until somebody takes it.
    asked: Option<Asked>,
}

impl RequestDecoder {
    /// Whether the next byte begins a request.
    #[inline]
    pub(crate) fn is_between(&self) -> bool {
        self.body.is_none()
    }

    /// So many bytes of an unfinished head are there.
    pub(crate) fn head_seen(&self) -> usize {
        self.scan.seen()
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
        limits: &Limits,
    ) -> Result<Option<RequestPart>, HttpError> {
        if let Some(body) = &mut self.body {
            return Ok(match body.next(input, limits)? {
                Some(Piece::Data(bytes)) => Some(Part::Data(bytes)),
                Some(Piece::End(trailers)) => {
                    self.body = None;
                    Some(Part::End(trailers))
                }
                None => None,
            });
        }
        if input.is_empty() {
            return Ok(None);
        }
        self.head(input, limits)
    }

    fn head(&mut self, input: &mut BytesMut, limits: &Limits) -> Result<Option<RequestPart>, HttpError> {
        if input[0] == b'\r' && !self.skip_empty_line(input)? {
            return Ok(None);
        }
        if self.scan.seen() == 0
            && let Some(again) = same_again::find(input, limits)
            && let Some(again) = if again.other_line { other_line(again, input, limits) } else { Some(again) }
        {
            input.advance(again.len);
            self.skipped_line = false;
            self.asked = Some(again.asked);
            return Ok(Some(Part::Whole(again.head, Bytes::new())));
        }
        let found = match self.scan.find(input, limits.head, Limit::Head) {
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
        } else if input.len() == len {
            std::mem::take(input).freeze()
        } else {
            input.split_to(len).freeze()
        };
        let (parts, asked, length) = parse(&head, limits, keep)?;
        self.asked = Some(asked);
        let length = match length {
            Length::Unknown | Length::Known(0) => {
                return Ok(Some(Part::Whole(parts, Bytes::new())));
            }
            length => length,
        };
        if let Length::Known(length) = length {
            if length > limits.body {
                return Err(HttpError::TooMuch { limit: Limit::Body, max: limits.body, got: length });
            }
            if length <= limits.whole as u64 && length <= input.len() as u64 {
                let body = input.split_to(length as usize).freeze();
                return Ok(Some(Part::Whole(parts, body)));
            }
        }
        self.body = Some(Body::new(length));
        Ok(Some(Part::Head(parts)))
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

/// What follows the target in a first line.
const VERSION_LEN: usize = " HTTP/1.1".len();
/// Room for method and version beside the target in a first line.
const AROUND_TARGET: usize = 64;

fn is_target_too_long(input: &[u8], limits: &Limits) -> bool {
    let most = limits.target + AROUND_TARGET;
    input.len() > most && memchr(b'\n', &input[..most]).is_none()
}

/// A request whose headers are known, with another first line; `None` if it has to be parsed after all.
fn other_line(again: Again, input: &[u8], limits: &Limits) -> Option<Again> {
    let Again { len, other_line, asked, head } = again;
    let Some((method, uri)) = line_of(&input[..len], head.version, limits) else {
        recycle_request(head);
        return None;
    };
    let asked = Asked { head: method == Method::HEAD, ..asked };
    let head = head.with_line(method, uri);
    Some(Again { len, other_line, asked, head })
}

/// Method and target of a first line, if they are of the usual kind.
fn line_of(head: &[u8], version: Version, limits: &Limits) -> Option<(Method, Uri)> {
    let (line, _) = fields::line(head, 0).ok()?;
    let ending: &[u8] = if version == Version::HTTP_11 { b" HTTP/1.1" } else { b" HTTP/1.0" };
    let line = head[line].strip_suffix(ending)?;
    let method_end = memchr(b' ', line)?;
    let target = &line[method_end + 1..];
    if target.len() > limits.target || target.first() != Some(&b'/') || memchr(b' ', target).is_some() {
        return None;
    }
    let method = Method::from_bytes(&line[..method_end]).ok().filter(|method| *method != Method::CONNECT)?;
    let uri =
        if target.len() == 1 { Uri::default() } else { uri(Bytes::copy_from_slice(target), &method).ok()? };
    Some((method, uri))
}

/// Method, target and version, as they were made of a first line.
type FirstLine = (Method, Uri, Version);

thread_local! {
    static SEEN: RefCell<Seen<FirstLine>> = const { RefCell::new(Seen::new()) };
}

fn first_line(head: &Bytes, line: Range<usize>, limits: &Limits) -> Result<FirstLine, HttpError> {
    let bytes = &head[line.clone()];
    if let Some(seen) = SEEN.with_borrow(|seen| seen.find(bytes).cloned()) {
        // What another server on this loop allows is not what this one does.
        if bytes.len() - seen.0.as_str().len() - " ".len() - VERSION_LEN <= limits.target {
            return Ok(seen);
        }
    }
    let method_end = memchr(b' ', bytes).ok_or(Grammar::FirstLine)?;
    let target_end = method_end + 1 + memchr(b' ', &bytes[method_end + 1..]).ok_or(Grammar::FirstLine)?;
    let target = method_end + 1..target_end;
    let version = match &bytes[target_end + 1..] {
        b"HTTP/1.1" => Version::HTTP_11,
        b"HTTP/1.0" => Version::HTTP_10,
        other => return Err(bad_version(other)),
    };
    if target.is_empty() {
        return Err(Grammar::FirstLine.into());
    }
    if target.len() > limits.target {
        return Err(too_much(Limit::Target, limits.target, target.len()));
    }
    let method = Method::from_bytes(&bytes[..method_end]).map_err(|_| Grammar::Method)?;
    let uri_of =
        |line: &Bytes, start: usize| uri(line.slice(start + target.start..start + target.end), &method);
    let uri = uri_of(head, line.start)?;
    SEEN.with_borrow_mut(|seen| {
        seen.missed(bytes, |copy| Some((method.clone(), uri_of(copy, 0).ok()?, version)));
    });
    Ok((method, uri, version))
}

fn parse(head: &Bytes, limits: &Limits, keep: bool) -> Result<(RequestHead, Asked, Length), HttpError> {
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
        let target_len = line_len - parts.method.as_str().len() - " ".len() - VERSION_LEN;
        let known = same_again::keep(head, fields_at, target_len, asked, &parts);
        return Ok((RequestHead::known(parts, known), asked, length));
    }
    Ok((RequestHead::boxed(parts), asked, length))
}

/// Whether the target is a path.
fn is_path(head: &[u8], method: &Method) -> bool {
    *method != Method::CONNECT && head[method.as_str().len() + 1] == b'/'
}

#[cold]
fn bad_version(bytes: &[u8]) -> HttpError {
    match bytes.first_chunk::<8>() {
        Some(version) if bytes.len() == 8 && version.starts_with(b"HTTP/") => {
            if version[5].is_ascii_digit() && version[6] == b'.' && version[7].is_ascii_digit() {
                HttpError::Version(*version)
            } else {
                Grammar::FirstLine.into()
            }
        }
        _ => Grammar::FirstLine.into(),
    }
}

#[cold]
fn check_hosts(facts: &Facts, version: Version) -> Result<(), HttpError> {
    match facts.hosts {
        0 if version == Version::HTTP_11 => Err(Grammar::NoHost.into()),
        0 | 1 => Ok(()),
        _ => Err(Grammar::TwoHosts.into()),
    }
}

/// The target, in the one form that its method allows (RFC 9112, section 3.2).
#[inline]
fn uri(target: Bytes, method: &Method) -> Result<Uri, HttpError> {
    if target[0] == b'/' && *method != Method::CONNECT {
        if target.len() == 1 {
            return Ok(Uri::default());
        }
        if !target.is_ascii() {
            return Err(Grammar::Target.into());
        }
        let len = target.len();
        let uri = Uri::from_maybe_shared(target).map_err(|_| Grammar::Target)?;
        // What is shorter has lost a fragment, which has no place here.
        let whole = uri.path_and_query().is_some_and(|path| path.as_str().len() == len);
        return if whole { Ok(uri) } else { Err(Grammar::Target.into()) };
    }
    rare_uri(target, method)
}

#[cold]
fn rare_uri(target: Bytes, method: &Method) -> Result<Uri, HttpError> {
    let bad = || HttpError::from(Grammar::Target);
    if !target.is_ascii() || memchr(b'#', &target).is_some() {
        return Err(bad());
    }
    if *method == Method::CONNECT {
        let (_, port) = authority::split(&target).map_err(|_| bad())?;
        port.filter(|&port| port > 0).ok_or_else(bad)?;
        return Authority::from_maybe_shared(target).map(Uri::from).map_err(|_| bad());
    }
    if &target[..] == b"*" {
        return if *method == Method::OPTIONS {
            Uri::from_maybe_shared(target).map_err(|_| bad())
        } else {
            Err(bad())
        };
    }
    let uri = Uri::from_maybe_shared(target).map_err(|_| bad())?;
    let known = uri.scheme_str().is_some_and(|scheme| scheme == "http" || scheme == "https");
    if known && HostAndPort::of(&uri).is_ok() { Ok(uri) } else { Err(bad()) }
}
