//! Requests that a server reads.
//!
//! ```text
//!   pseudo-fields, each once     :method GET   :scheme https   :path /a?b   :authority example.org
//!   then all others              accept: */*   cookie: a=1     cookie: b=2
//!
//!   the head                     GET /a?b      host: example.org   accept: */*   cookie: a=1; b=2
//! ```
//! The target is a path, as with HTTP/1.1, so that an application need not ask how its request came; only that of a `CONNECT` is
//! an authority, unless it is an extended one (RFC 8441).

use super::{
    again::Again,
    fields::{self, Kind},
};
use crate::{
    authority,
    codec::h2::{
        field::{Field, Line, Pseudo},
        hpack::{Decoder, HeadLimits, HpackError},
        priority::Priority,
    },
    error::{Framing, Grammar, HttpError, Limit},
    limits::HttpLimits,
    message::{Protocol, RequestHead, recycle_request_box, request_box},
};
use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Method, Uri, Version, header, request, uri::Authority};

/// The head of a request, and what it says to the connection.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: RequestHead,
    pub(crate) facts: RequestFacts,
}

/// What a head says to the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RequestFacts {
    /// At most what a body may have.
    pub(crate) content_length: Option<u64>,
    /// The reply has no body, whatever its headers say.
    pub(crate) head: bool,
    /// `CONNECT`, extended or not: a 2xx makes the stream a tunnel.
    pub(crate) connect: bool,
    /// An extended `CONNECT`: what it asks for is in the extensions of the head, as [`Protocol`].
    pub(crate) extended: bool,
    /// Who asks may wait for a 100 before it sends the body.
    pub(crate) expects: bool,
    /// The scheme was `https`, whatever the connection is.
    pub(crate) https: bool,
    /// How urgent the reply is.
    pub(crate) priority: Priority,
}

impl Request {
    /// One that came by HTTP/1.1, without a body.
    pub(crate) fn asked_by_http1(mut head: RequestHead) -> Self {
        for name in [header::CONNECTION, header::UPGRADE, HeaderName::from_static("http2-settings")] {
            head.headers.remove(name);
        }
        head.version = Version::HTTP_2;
        let facts = RequestFacts { head: head.method == Method::HEAD, ..RequestFacts::default() };
        Self { head, facts }
    }
}

/// Reads the requests of a connection.
#[derive(Debug, Default)]
pub(crate) struct RequestReader {
    again: Again,
}

impl RequestReader {
    /// Reads the block of a request. `extended` says that our settings allow an extended `CONNECT`.
    ///
    /// # Errors
    /// Without a block that can be decoded, the connection has to end; without a good head, the stream.
    #[inline]
    pub(crate) fn read(
        &mut self,
        decoder: &mut Decoder,
        block: &[u8],
        limits: &HttpLimits,
        extended: bool,
    ) -> Result<Result<Request, HttpError>, HpackError> {
        if let Some(request) = self.again.find(decoder, block, limits) {
            return Ok(Ok(request));
        }
        let generation = decoder.generation();
        let read = read(decoder, block, limits, extended)?;
        Ok(read.map(|request| self.again.came(decoder, generation, block, request)))
    }
}

fn read(
    decoder: &mut Decoder,
    block: &[u8],
    limits: &HttpLimits,
    extended: bool,
) -> Result<Result<Request, HttpError>, HpackError> {
    let mut taking = Taking::new(extended);
    let mut failed = None;
    let decoded = decoder.decode(block, HeadLimits::from(limits), |field| {
        if failed.is_none()
            && let Err(error) = taking.take(field)
        {
            failed = Some(error);
        }
    })?;
    let result = match failed {
        Some(error) => Err(error),
        None => decoded.result().and_then(|()| taking.finish(limits)),
    };
    Ok(match result {
        Ok(facts) => Ok(Request { head: RequestHead::boxed(taking.parts), facts }),
        Err(error) => {
            taking.parts.extensions.clear();
            recycle_request_box(taking.parts);
            Err(error)
        }
    })
}

struct Taking {
    parts: Box<request::Parts>,
    extended: bool,
    method: Option<Method>,
    https: Option<bool>,
    path: Option<Bytes>,
    authority: Option<HeaderValue>,
    protocol: Option<Protocol>,
    host: Option<HeaderValue>,
    cookie: Option<HeaderValue>,
    /// More than one cookie, joined.
    crumbs: BytesMut,
    content_length: Option<u64>,
    expects: bool,
    priority: Priority,
    /// A field that is not a pseudo-field has come.
    regular: bool,
}

impl Taking {
    fn new(extended: bool) -> Self {
        Self {
            parts: request_box(),
            extended,
            method: None,
            https: None,
            path: None,
            authority: None,
            protocol: None,
            host: None,
            cookie: None,
            crumbs: BytesMut::new(),
            content_length: None,
            expects: false,
            priority: Priority::default(),
            regular: false,
        }
    }

    #[inline]
    fn take(&mut self, field: &Field) -> Result<(), HttpError> {
        match &field.line {
            Line::Header(name, value) => {
                self.regular = true;
                match fields::kind(name, value)? {
                    Kind::Plain => {}
                    Kind::Length => fields::note_length(&mut self.content_length, value)?,
                    Kind::Expect => self.expect(value)?,
                    Kind::Priority => self.priority = Priority::parse(value.as_bytes()),
                    Kind::Cookie => return self.cookie(value),
                    Kind::Host => return self.host(value),
                }
                self.parts
                    .headers
                    .try_append(name.clone(), value.clone())
                    .map_err(|_| Grammar::HeaderName)?;
                Ok(())
            }
            Line::Pseudo(..) if self.regular => Err(Grammar::PseudoLate.into()),
            Line::Pseudo(pseudo, value) => self.pseudo(*pseudo, value),
            Line::BadName => Err(Grammar::HeaderName.into()),
            Line::BadValue(_) => Err(Grammar::HeaderValue.into()),
        }
    }

    #[inline]
    fn pseudo(&mut self, pseudo: Pseudo, value: &Bytes) -> Result<(), HttpError> {
        let twice = match pseudo {
            Pseudo::Method => {
                self.method.replace(Method::from_bytes(value).map_err(|_| Grammar::Method)?).is_some()
            }
            Pseudo::Scheme => self.https.replace(is_https(value)?).is_some(),
            Pseudo::Path => self.path.replace(value.clone()).is_some(),
            Pseudo::Authority => {
                authority::split(value).map_err(|_| Grammar::Host)?;
                let value = HeaderValue::from_maybe_shared(value.clone()).map_err(|_| Grammar::Host)?;
                self.parts.headers.insert(header::HOST, value.clone());
                self.authority.replace(value).is_some()
            }
            Pseudo::Protocol => {
                self.protocol.replace(Protocol::new(value.clone()).ok_or(Grammar::Protocol)?).is_some()
            }
            Pseudo::Status => return Err(Grammar::PseudoUnexpected.into()),
        };
        if twice { Err(Grammar::PseudoTwice.into()) } else { Ok(()) }
    }

    fn host(&mut self, value: &HeaderValue) -> Result<(), HttpError> {
        authority::split(value.as_bytes()).map_err(|_| Grammar::Host)?;
        if self.authority.is_none() {
            self.parts.headers.insert(header::HOST, value.clone());
        }
        if self.host.replace(value.clone()).is_some() { Err(Grammar::TwoHosts.into()) } else { Ok(()) }
    }

    fn expect(&mut self, value: &HeaderValue) -> Result<(), HttpError> {
        if value.as_bytes().eq_ignore_ascii_case(b"100-continue") {
            self.expects = true;
            return Ok(());
        }
        let text = value.as_bytes();
        Err(HttpError::Expectation(String::from_utf8_lossy(&text[..text.len().min(32)]).into_owned()))
    }

    /// Cookies may come in pieces, so that each can be in the table (RFC 9113, section 8.2.3).
    fn cookie(&mut self, value: &HeaderValue) -> Result<(), HttpError> {
        match &mut self.cookie {
            None => self.cookie = Some(value.clone()),
            Some(first) => {
                if self.crumbs.is_empty() {
                    self.crumbs.extend_from_slice(first.as_bytes());
                }
                self.crumbs.extend_from_slice(b"; ");
                self.crumbs.extend_from_slice(value.as_bytes());
                first.set_sensitive(first.is_sensitive() || value.is_sensitive());
            }
        }
        Ok(())
    }

    fn finish(&mut self, limits: &HttpLimits) -> Result<RequestFacts, HttpError> {
        let method = self.method.take().ok_or(Grammar::PseudoMissing)?;
        let connect = method == Method::CONNECT;
        let extended = self.protocol.is_some();
        if extended && !(connect && self.extended) {
            return Err(Grammar::PseudoUnexpected.into());
        }
        self.parts.uri = if connect && !extended { self.tunnel()? } else { self.path(&method, limits)? };
        if let (Some(host), Some(authority)) = (&self.host, &self.authority)
            && host != authority
            && !are_same(host, authority, self.https)
        {
            return Err(Grammar::HostsDiffer.into());
        }
        if let Some(length) = self.content_length {
            if connect {
                return Err(Framing::Body.into());
            }
            if length > limits.body {
                return Err(HttpError::TooMuch { limit: Limit::Body, max: limits.body, got: length });
            }
        }
        if let Some(cookie) = self.cookie.take() {
            self.parts.headers.insert(header::COOKIE, joined(cookie, std::mem::take(&mut self.crumbs))?);
        }
        if let Some(protocol) = self.protocol.take() {
            self.parts.extensions.insert(protocol);
        }
        let head = method == Method::HEAD;
        (self.parts.method, self.parts.version) = (method, Version::HTTP_2);
        Ok(RequestFacts {
            content_length: self.content_length,
            head,
            connect,
            extended,
            expects: self.expects,
            priority: self.priority,
            https: self.https == Some(true),
        })
    }

    /// The target of a request that is for a resource.
    #[inline]
    fn path(&mut self, method: &Method, limits: &HttpLimits) -> Result<Uri, HttpError> {
        let path = self.path.take().ok_or(Grammar::PseudoMissing)?;
        if self.https.is_none() {
            return Err(Grammar::PseudoMissing.into());
        }
        if self.authority.is_none() && (self.host.is_none() || method == Method::CONNECT) {
            return Err(Grammar::NoHost.into());
        }
        target(path, method, limits)
    }

    /// The target of a `CONNECT`.
    #[cold]
    fn tunnel(&mut self) -> Result<Uri, HttpError> {
        if self.path.is_some() || self.https.is_some() {
            return Err(Grammar::PseudoUnexpected.into());
        }
        let authority = self.authority.as_ref().ok_or(Grammar::PseudoMissing)?.as_bytes();
        let (_, port) = authority::split(authority).map_err(|_| Grammar::Target)?;
        port.filter(|&port| port > 0).ok_or(Grammar::Target)?;
        Authority::try_from(authority).map(Uri::from).map_err(|_| Grammar::Target.into())
    }
}

/// The target that a path is, or a star.
#[inline]
pub(super) fn target(path: Bytes, method: &Method, limits: &HttpLimits) -> Result<Uri, HttpError> {
    let len = path.len();
    if len > limits.target {
        let (max, got) = (limits.target as u64, len as u64);
        return Err(HttpError::TooMuch { limit: Limit::Target, max, got });
    }
    match *path {
        [b'/'] => Ok(Uri::default()),
        [b'/', ..] if path.is_ascii() => {
            let uri = Uri::from_maybe_shared(path).map_err(|_| Grammar::Target)?;
            // What is shorter has lost a fragment, which has no place here.
            let whole = uri.path_and_query().is_some_and(|path| path.as_str().len() == len);
            if whole { Ok(uri) } else { Err(Grammar::Target.into()) }
        }
        [b'*'] if method == Method::OPTIONS => {
            Uri::from_maybe_shared(path).map_err(|_| Grammar::Target.into())
        }
        _ => Err(Grammar::Target.into()),
    }
}

#[inline]
fn is_https(scheme: &[u8]) -> Result<bool, HttpError> {
    match scheme {
        b"https" => Ok(true),
        b"http" => Ok(false),
        _ if scheme.eq_ignore_ascii_case(b"https") => Ok(true),
        _ if scheme.eq_ignore_ascii_case(b"http") => Ok(false),
        _ => Err(Grammar::Scheme.into()),
    }
}

/// Whether two hosts that are written differently are the same.
#[cold]
fn are_same(one: &HeaderValue, other: &HeaderValue, https: Option<bool>) -> bool {
    let default = https.map(|https| if https { 443 } else { 80 });
    let parts = |value: &HeaderValue| {
        let (len, port) = authority::split(value.as_bytes()).ok()?;
        Some((value.as_bytes()[..len].to_ascii_lowercase(), port.or(default)))
    };
    parts(one).is_some_and(|one| Some(one) == parts(other))
}

fn joined(cookie: HeaderValue, crumbs: BytesMut) -> Result<HeaderValue, HttpError> {
    if crumbs.is_empty() {
        return Ok(cookie);
    }
    let mut all = HeaderValue::from_maybe_shared(crumbs.freeze()).map_err(|_| Grammar::HeaderValue)?;
    all.set_sensitive(cookie.is_sensitive());
    Ok(all)
}
