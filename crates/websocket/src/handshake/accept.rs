//! What a server makes of a request.

use super::{accept_key, has_token, is_key, list, single};
use crate::{Agreed, Config, deflate};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, Version, header, request};
use netwright_http::{HttpPart, Protocol, ReplyHead, ReplyPart};
use std::{error::Error, fmt, sync::Arc};

/// Which requests become WebSocket connections, and how these are set up. One for all connections of a server.
///
/// ```
/// use netwright_websocket::{Accept, Config};
///
/// let accept = Accept::new(Config::default())
///     .path("/chat")
///     .protocols(["chat.v2", "chat.v1"])
///     .origins(|origin| origin == "https://example.org");
/// # drop(accept);
/// ```
#[derive(Clone)]
pub struct Accept {
    config: Arc<Config>,
    path: Option<String>,
    protocols: Vec<String>,
    #[allow(clippy::type_complexity)]
    origins: Option<Arc<dyn Fn(&str) -> bool + Send + Sync>>,
}

/// What was agreed to when a connection was opened.
///
/// ```
/// use netwright_websocket::Opened;
///
/// let opened = Opened::default();
/// assert_eq!((opened.protocol, opened.deflate), (None, None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Opened {
    /// The subprotocol.
    pub protocol: Option<String>,
    /// The compression.
    pub deflate: Option<Agreed>,
}

/// Why a request for a WebSocket was refused. The connection stays an HTTP connection.
///
/// ```
/// use netwright_websocket::Refusal;
///
/// assert_eq!(Refusal::Version(None).status(), http::StatusCode::UPGRADE_REQUIRED);
/// assert_eq!(Refusal::Origin("https://elsewhere.test".to_owned()).status(), http::StatusCode::FORBIDDEN);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It is not a GET.
    Method(Method),
    /// It is older than HTTP/1.1.
    Http(Version),
    /// It has a body.
    Body,
    /// It came by HTTP/2, and its stream was over with it.
    Over,
    /// `Connection` does not say `upgrade`.
    Connection,
    /// The version is not 13, or there is none.
    Version(Option<String>),
    /// There is not exactly one key, of 16 bytes in base64.
    Key,
    /// There is more than one origin, or it is not allowed.
    Origin(String),
}

impl Refusal {
    /// The status that tells the client.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Version(_) => StatusCode::UPGRADE_REQUIRED,
            Self::Origin(_) => StatusCode::FORBIDDEN,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// The reply that tells the client.
    pub fn reply(&self) -> ReplyPart {
        let mut head = head(self.status());
        let headers = &mut head.headers;
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        match self {
            Self::Method(_) => drop(headers.insert(header::ALLOW, HeaderValue::from_static("GET"))),
            Self::Version(_) => {
                headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            }
            _ => {}
        }
        HttpPart::Whole(head, Bytes::from(format!("{self}\n")))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method(method) => write!(f, "a WebSocket is asked for with GET, not with {method}"),
            Self::Http(version) => write!(f, "a WebSocket is asked for in HTTP/1.1, not in {version:?}"),
            Self::Over => f.write_str("a WebSocket is asked for on a stream that goes on"),
            Self::Body => f.write_str("a request for a WebSocket has no body"),
            Self::Connection => f.write_str("the Connection header does not say upgrade"),
            Self::Version(Some(version)) => write!(f, "the WebSocket version is 13, not {version:?}"),
            Self::Version(None) => f.write_str("the WebSocket version is 13, and none was asked for"),
            Self::Key => f.write_str("there must be one Sec-WebSocket-Key, of 16 bytes in base64"),
            Self::Origin(origin) => write!(f, "the origin {origin:?} is not allowed"),
        }
    }
}

impl Error for Refusal {}

impl Accept {
    /// Every request for a WebSocket is taken, whatever its path and origin.
    pub fn new(config: impl Into<Arc<Config>>) -> Self {
        Self { config: config.into(), path: None, protocols: Vec::new(), origins: None }
    }

    /// Only requests for this path are taken; others go on to the HTTP application.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// The subprotocols that are spoken, the best one first. If a client offers none of them, none is chosen.
    pub fn protocols(mut self, protocols: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.protocols = protocols.into_iter().map(Into::into).collect();
        self
    }

    /// Which origins are allowed: pages of others cannot make a browser of a user of yours talk to you. Clients that are no
    /// browsers send none, and are not asked.
    pub fn origins(mut self, allowed: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.origins = Some(Arc::new(allowed));
        self
    }

    /// What connections are set up with.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Whether this request is for us: it asks in HTTP/1.1 for its connection, or in HTTP/2 for its stream, to become a WebSocket, on
    /// our path.
    pub fn concerns(&self, request: &request::Parts) -> bool {
        let upgrades = || {
            request.version >= Version::HTTP_11
                && has_token(&request.headers, &header::UPGRADE, "websocket")
                && has_token(&request.headers, &header::CONNECTION, "upgrade")
        };
        (is_extended_connect(request) || upgrades())
            && self.path.as_ref().is_none_or(|path| path == request.uri.path())
    }

    /// What is agreed to, and the reply that says so.
    ///
    /// # Errors
    /// The request is refused: why.
    pub fn judge(&self, request: &request::Parts) -> Result<(Opened, ReplyPart), Refusal> {
        let headers = &request.headers;
        let of_stream = is_extended_connect(request);
        if !of_stream {
            if request.method != Method::GET {
                return Err(Refusal::Method(request.method.clone()));
            }
            if request.version < Version::HTTP_11 {
                return Err(Refusal::Http(request.version));
            }
            if !has_token(headers, &header::CONNECTION, "upgrade") {
                return Err(Refusal::Connection);
            }
        }
        match single(headers, &header::SEC_WEBSOCKET_VERSION) {
            Ok(Some("13")) => {}
            Ok(version) => return Err(Refusal::Version(version.map(str::to_owned))),
            Err(()) => return Err(Refusal::Version(Some("more than one".to_owned()))),
        }
        // By HTTP/2 there is none: that nobody else could have answered is known without.
        let key = match of_stream {
            true => None,
            false => {
                let key = single(headers, &header::SEC_WEBSOCKET_KEY).ok().flatten();
                Some(key.filter(|key| is_key(key)).ok_or(Refusal::Key)?)
            }
        };
        if let Some(allowed) = &self.origins {
            match single(headers, &header::ORIGIN) {
                Ok(None) => {}
                Ok(Some(origin)) if allowed(origin) => {}
                Ok(Some(origin)) => return Err(Refusal::Origin(origin.to_owned())),
                Err(()) => return Err(Refusal::Origin("more than one".to_owned())),
            }
        }
        let mut reply = head(if of_stream { StatusCode::OK } else { StatusCode::SWITCHING_PROTOCOLS });
        let out = &mut reply.headers;
        if let Some(key) = key {
            out.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            if let Ok(proof) = HeaderValue::try_from(accept_key(key)) {
                out.insert(header::SEC_WEBSOCKET_ACCEPT, proof);
            }
        }
        let mut opened = Opened::default();
        let offered =
            |ours: &&String| list(headers, &header::SEC_WEBSOCKET_PROTOCOL).any(|theirs| theirs == **ours);
        if let Some(protocol) = self.protocols.iter().find(offered)
            && let Ok(value) = HeaderValue::try_from(protocol)
        {
            out.insert(header::SEC_WEBSOCKET_PROTOCOL, value);
            opened.protocol = Some(protocol.clone());
        }
        let offers = headers.get_all(header::SEC_WEBSOCKET_EXTENSIONS).into_iter();
        if let Some(deflate) = &self.config.deflate
            && let Some((agreed, value)) =
                deflate::accept(deflate, offers.filter_map(|value| value.to_str().ok()))
            && let Ok(value) = HeaderValue::try_from(value)
        {
            out.insert(header::SEC_WEBSOCKET_EXTENSIONS, value);
            opened.deflate = Some(agreed);
        }
        Ok((opened, if of_stream { HttpPart::Head(reply) } else { HttpPart::Whole(reply, Bytes::new()) }))
    }
}

/// Whether a stream of HTTP/2 is to become a WebSocket (RFC 8441).
pub(super) fn is_extended_connect(request: &request::Parts) -> bool {
    request.method == Method::CONNECT && request.extensions.get() == Some(&Protocol::WEBSOCKET)
}

fn head(status: StatusCode) -> ReplyHead {
    status.into()
}

impl fmt::Debug for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accept")
            .field("path", &self.path)
            .field("protocols", &self.protocols)
            .field("checks_origins", &self.origins.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Deflate;
    use http::Request;
    use netwright_http::RequestHead;

    fn request(change: impl FnOnce(&mut RequestHead)) -> RequestHead {
        let request = Request::get("/chat?room=1")
            .header("host", "example")
            .header("upgrade", "WebSocket")
            .header("connection", "keep-alive, Upgrade")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let mut head = RequestHead::from(request.body(()).unwrap());
        change(&mut head);
        head
    }

    fn refused(accept: &Accept, change: impl FnOnce(&mut RequestHead)) -> (u16, Refusal) {
        let refusal = accept.judge(&request(change)).unwrap_err();
        (refusal.status().as_u16(), refusal)
    }

    fn set(name: &'static str, value: &'static str) -> impl FnOnce(&mut RequestHead) {
        move |head| drop(head.headers.insert(name, HeaderValue::from_static(value)))
    }

    #[test]
    fn a_proper_request_is_accepted_with_its_proof() {
        let accept = Accept::new(Config::default()).path("/chat");
        let request = request(|_| {});
        assert!(accept.concerns(&request));
        let (opened, HttpPart::Whole(reply, _)) = accept.judge(&request).unwrap() else { panic!() };
        assert_eq!(opened, Opened::default());
        assert_eq!(reply.status, 101);
        assert_eq!(reply.headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(reply.headers["upgrade"], "websocket");
        assert!(!reply.headers.contains_key("sec-websocket-protocol"));
    }

    #[test]
    fn a_stream_of_http2_is_accepted_without_a_key_and_by_the_same_rules() {
        let accept =
            Accept::new(Config::default()).path("/chat").protocols(["v1"]).origins(|origin| origin == "a");
        let stream = |change: fn(&mut RequestHead)| {
            let request = Request::builder().method(Method::CONNECT).uri("https://example/chat");
            let request = request.version(Version::HTTP_2).extension(Protocol::WEBSOCKET);
            let request =
                request.header("sec-websocket-version", "13").header("sec-websocket-protocol", "v1");
            let mut head = RequestHead::from(request.body(()).unwrap());
            change(&mut head);
            head
        };
        let asked = stream(|_| {});
        assert!(accept.concerns(&asked));
        let (opened, HttpPart::Head(reply)) = accept.judge(&asked).unwrap() else { panic!() };
        assert_eq!((opened.protocol.as_deref(), reply.status.as_u16()), (Some("v1"), 200));
        assert_eq!(reply.headers.len(), 1, "{:?}", reply.headers);
        let foreign = stream(|head| drop(head.headers.insert("origin", HeaderValue::from_static("b"))));
        assert_eq!(accept.judge(&foreign).unwrap_err().status(), 403);
        let old = stream(|head| drop(head.headers.remove("sec-websocket-version")));
        assert_eq!(accept.judge(&old).unwrap_err(), Refusal::Version(None));
        let other = stream(|head| drop(head.extensions.insert(Protocol::new("connect-udp").unwrap())));
        assert!(!accept.concerns(&other));
    }

    #[test]
    fn requests_for_others_are_not_ours() {
        let accept = Accept::new(Config::default()).path("/other");
        assert!(!accept.concerns(&request(|_| {})));
        assert!(!Accept::new(Config::default()).concerns(&request(set("upgrade", "h2c"))));
        assert!(
            !Accept::new(Config::default()).concerns(&request(|head| drop(head.headers.remove("upgrade"))))
        );
    }

    #[test]
    fn each_fault_has_its_status() {
        let accept = Accept::new(Config::default()).origins(|origin| origin == "https://good.example");
        assert_eq!(refused(&accept, |head| head.method = Method::POST), (405, Refusal::Method(Method::POST)));
        assert_eq!(refused(&accept, |head| head.version = Version::HTTP_10).0, 400);
        assert_eq!(refused(&accept, set("connection", "keep-alive")), (400, Refusal::Connection));
        let old = Refusal::Version(Some("8".to_owned()));
        assert_eq!(refused(&accept, set("sec-websocket-version", "8")), (426, old.clone()));
        let HttpPart::Whole(reply, _) = old.reply() else { panic!() };
        assert_eq!(reply.headers["sec-websocket-version"], "13");
        assert_eq!(refused(&accept, |head| drop(head.headers.remove("sec-websocket-version"))).0, 426);
        for key in
            ["", "short", "dGhlIHNhbXBsZSBub25jZQ=", "!GhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ==x"]
        {
            let set = |head: &mut RequestHead| {
                drop(head.headers.insert("sec-websocket-key", HeaderValue::from_static(key)));
            };
            assert_eq!(refused(&accept, set), (400, Refusal::Key), "{key}");
        }
        let twice = |head: &mut RequestHead| {
            let key = head.headers["sec-websocket-key"].clone();
            head.headers.append("sec-websocket-key", key);
        };
        assert_eq!(refused(&accept, twice).0, 400);
        assert_eq!(refused(&accept, set("origin", "https://evil.example")).0, 403);
        assert!(accept.judge(&request(set("origin", "https://good.example"))).is_ok());
        assert!(accept.judge(&request(|_| {})).is_ok());
    }

    #[test]
    fn our_best_protocol_and_compression_are_chosen() {
        let accept = Accept::new(Config::default().deflate(Deflate::default())).protocols(["v2", "v1"]);
        let offer = request(|head| {
            head.headers.insert("sec-websocket-protocol", HeaderValue::from_static("v1, v2"));
            head.headers.insert("sec-websocket-extensions", HeaderValue::from_static("permessage-deflate"));
        });
        let (opened, HttpPart::Whole(reply, _)) = accept.judge(&offer).unwrap() else { panic!() };
        assert_eq!(opened.protocol.as_deref(), Some("v2"));
        assert_eq!(reply.headers["sec-websocket-protocol"], "v2");
        assert!(opened.deflate.is_some() && reply.headers.contains_key("sec-websocket-extensions"));
        let (opened, _) = accept.judge(&request(set("sec-websocket-protocol", "v3"))).unwrap();
        assert_eq!(opened, Opened::default());
    }
}
