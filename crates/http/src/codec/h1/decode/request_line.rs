//! The first line of a request: method, target, version.

use super::{
    fields::{self, too_much},
    seen::Seen,
};
use crate::{
    authority::{self, HostAndPort},
    error::{Grammar, HttpError, Limit},
    limits::HttpLimits,
};
use bytes::Bytes;
use http::{Method, Uri, Version, uri::Authority};
use memchr::memchr;
use std::{cell::RefCell, ops::Range};

/// Method, target and version, as they were made of a first line.
type FirstLine = (Method, Uri, Version);

thread_local! {
    static SEEN: RefCell<Seen<FirstLine>> = const { RefCell::new(Seen::new()) };
}

/// Reads a line, or finds what was read of it before.
pub(super) fn first_line(
    head: &Bytes,
    line: Range<usize>,
    limits: &HttpLimits,
) -> Result<FirstLine, HttpError> {
    let bytes = &head[line.clone()];
    if let Some(seen) = SEEN.with_borrow(|seen| seen.find(bytes).cloned()) {
        // What another server on this loop allows is not what this one does.
        if target_len(bytes.len(), &seen.0) <= limits.target {
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

/// What follows the target in a first line.
const VERSION_LEN: usize = " HTTP/1.1".len();
/// Room for method and version beside the target in a first line.
const AROUND_TARGET: usize = 64;

/// Whether a first line that has not ended has a target that is too long.
pub(super) fn is_target_too_long(input: &[u8], limits: &HttpLimits) -> bool {
    let most = limits.target + AROUND_TARGET;
    input.len() > most && memchr(b'\n', &input[..most]).is_none()
}

/// How long the target of a line is that has passed.
pub(super) fn target_len(line_len: usize, method: &Method) -> usize {
    line_len - method.as_str().len() - " ".len() - VERSION_LEN
}

/// Method and target of a first line, if they are of the usual kind.
pub(super) fn line_of(head: &[u8], version: Version, limits: &HttpLimits) -> Option<(Method, Uri)> {
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

/// Whether the target is a path.
pub(super) fn is_path(head: &[u8], method: &Method) -> bool {
    *method != Method::CONNECT && head[method.as_str().len() + 1] == b'/'
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
