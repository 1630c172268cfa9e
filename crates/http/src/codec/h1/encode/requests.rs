//! The client's side of each exchange: how a request is written, and which replies it makes the codec wait for.
//!
//! ```text
//!   requests written: r1  r2  r3 …         awaited: [r1 r2 r3]      current: the rest of r3
//!   replies read:     a1 …                 a reply belongs to the first of them
//! ```
//! Always true: nothing of a request that cannot be written stays in the buffer, and nothing follows one that closes.

use super::{
    body::{BodyOut, Unfinished},
    head::{Written, content_length},
};
use crate::{
    codec::{h1::asked::Asked, out::Out},
    error::{HttpError, Misuse},
    message::{HttpPart, RequestHead, RequestPart, recycle_request_box},
};
use bytes::BytesMut;
use http::{Method, Version, header};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Targets with scheme and host are written as they are.
    pub(crate) absolute: bool,
    awaited: VecDeque<Asked>,
    current: Unfinished,
}

impl Requests {
    /// The request to which the next reply belongs.
    #[inline]
    pub(crate) fn awaited(&self) -> Option<Asked> {
        self.awaited.front().copied()
    }

    /// Its reply is over.
    pub(crate) fn answered(&mut self) {
        self.awaited.pop_front();
    }

    /// No more replies will come.
    pub(crate) fn give_up(&mut self) {
        self.awaited.clear();
    }

    /// Whether a request has begun and is not over.
    pub(crate) fn is_within(&self) -> bool {
        self.current.is_within()
    }

    /// Appends a part of a request.
    pub(crate) fn write(&mut self, part: RequestPart, out: &mut Out) -> Result<(), HttpError> {
        match part {
            HttpPart::Whole(head, body) => {
                out.head(|buffer| self.head(buffer, &head, Some(body.len() as u64)))?;
                recycle_request_box(head.into_box());
                out.bytes(body);
            }
            HttpPart::Head(head) => {
                let body = out.head(|buffer| self.head(buffer, &head, None))?;
                recycle_request_box(head.into_box());
                self.current.begin(body);
            }
            HttpPart::Interim(_) => return Err(Misuse::Direction.into()),
            rest => _ = self.current.append(rest, out)?,
        }
        Ok(())
    }

    /// Appends the head of a request whose body is so long, if that is known.
    fn head(
        &mut self,
        out: &mut BytesMut,
        head: &RequestHead,
        whole: Option<u64>,
    ) -> Result<BodyOut, HttpError> {
        if self.current.is_within() {
            return Err(Misuse::HeadWithinBody.into());
        }
        if self.awaited.back().is_some_and(|last| last.close) {
            return Err(Misuse::AfterClose.into());
        }
        let http10 = head.version == Version::HTTP_10;
        out.extend_from_slice(head.method.as_str().as_bytes());
        out.extend_from_slice(b" ");
        target(out, head, self.absolute)?;
        out.extend_from_slice(if http10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
        if !head.headers.contains_key(header::HOST) {
            let authority = head.uri.authority().ok_or(Misuse::Target)?;
            out.extend_from_slice(b"host: ");
            out.extend_from_slice(without_user(authority.as_str()).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        let said = Written::fields(out, &head.headers)?;
        let body = match whole.or(said.length) {
            Some(len) => {
                let body = BodyOut::whole(len, said.length)?;
                let expects_body = [Method::POST, Method::PUT, Method::PATCH].contains(&head.method);
                if len > 0 || said.length.is_some() || expects_body {
                    content_length(out, len);
                }
                body
            }
            None if http10 => return Err(Misuse::Length.into()), // its end could not be told
            None => {
                out.extend_from_slice(b"transfer-encoding: chunked\r\n");
                BodyOut::Chunked
            }
        };
        said.connection(out, said.close, false);
        out.extend_from_slice(b"\r\n");
        self.awaited.push_back(Asked {
            head: head.method == Method::HEAD,
            connect: head.method == Method::CONNECT,
            upgrade: said.upgrade,
            http10,
            close: said.close || http10, // we never ask a server of HTTP/1.0 to keep it
            expects: said.expects,
        });
        Ok(body)
    }
}

/// The target in the form that the request needs (RFC 9112, section 3.2).
fn target(out: &mut BytesMut, head: &RequestHead, absolute: bool) -> Result<(), HttpError> {
    let uri = &head.uri;
    if head.method == Method::CONNECT {
        let authority =
            uri.authority().filter(|authority| authority.port().is_some()).ok_or(Misuse::Target)?;
        out.extend_from_slice(authority.as_str().as_bytes());
        return Ok(());
    }
    if absolute && let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) {
        out.extend_from_slice(scheme.as_bytes());
        out.extend_from_slice(b"://");
        out.extend_from_slice(without_user(authority.as_str()).as_bytes());
    }
    match uri.path_and_query() {
        Some(path) if path.as_str() == "*" && head.method != Method::OPTIONS => {
            return Err(Misuse::Target.into());
        }
        Some(path) => {
            if path.as_str().starts_with('?') {
                out.extend_from_slice(b"/"); // a target has a path (RFC 9112, section 3.2.1)
            }
            out.extend_from_slice(path.as_str().as_bytes());
        }
        None => out.extend_from_slice(b"/"),
    }
    Ok(())
}

/// Host and port: who the user is stays with us.
fn without_user(authority: &str) -> &str {
    authority.rsplit('@').next().unwrap_or_default()
}
