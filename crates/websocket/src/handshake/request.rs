//! What a client asks, and what it makes of the reply.

use super::{BadRequest, HandshakeError, Opened, Rejection, accept_key, has_token, list, single};
use crate::{
    Config,
    deflate::{self, BadExtension},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version, header, uri::InvalidUri};
use netwright_http::{BadAuthority, HostAndPort, ReplyHead, RequestHead};
use std::{sync::Arc, time::Duration};

/// How long a server may take to agree, from the connection on.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);

/// A WebSocket that a client wants: where, and what it offers.
///
/// ```
/// use netwright_websocket::{Config, Request};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let request = Request::new("ws://example.org/chat?room=1")?
///     .config(Config::default().max_message(64 * 1024))
///     .protocols(["chat.v2", "chat.v1"])
///     .header("authorization", "Bearer abc")?;
/// assert_eq!(request.address(), "example.org:80");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Request {
    /// The path and the query.
    uri: Uri,
    secure: bool,
    host: String,
    port: u16,
    config: Arc<Config>,
    headers: HeaderMap,
    protocols: Vec<String>,
    deadline: Duration,
}

impl Request {
    /// A WebSocket at `ws://host:port/path` or `wss://…`.
    ///
    /// # Errors
    /// That is no such address.
    pub fn new(url: &str) -> Result<Self, BadRequest> {
        let uri: Uri = url.parse().map_err(BadRequest::Url)?;
        let bad = || BadRequest::Scheme(url.to_owned());
        let scheme = uri.scheme_str().ok_or_else(bad)?;
        let secure = scheme.eq_ignore_ascii_case("wss");
        if !secure && !scheme.eq_ignore_ascii_case("ws") {
            return Err(bad());
        }
        let authority = uri.authority().ok_or_else(bad)?;
        let place = HostAndPort::parse(authority.as_str()).map_err(|error| match error {
            BadAuthority::Port => BadRequest::Port { port: port_in(authority.as_str()), limit: u16::MAX },
            error => BadRequest::Host(error),
        })?;
        let (host, port) = (place.host.to_owned(), place.port.unwrap_or(if secure { 443 } else { 80 }));
        let uri = target(&uri).map_err(BadRequest::Url)?;
        let config = Arc::new(Config::default());
        let (headers, protocols) = (HeaderMap::new(), Vec::new());
        Ok(Self { uri, secure, host, port, config, headers, protocols, deadline: HANDSHAKE_DEADLINE })
    }

    /// Limits, deadlines and compression of the connection.
    pub fn config(mut self, config: impl Into<Arc<Config>>) -> Self {
        self.config = config.into();
        self
    }

    /// Subprotocols that we speak, the best one first.
    pub fn protocols(mut self, protocols: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.protocols = protocols.into_iter().map(Into::into).collect();
        self
    }

    /// A header beside those of the handshake: cookies, authorization, an origin.
    ///
    /// # Errors
    /// There cannot be such a header, or the handshake itself sets it.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, BadRequest> {
        let bad = || BadRequest::Header(name.to_owned());
        let value = HeaderValue::from_str(value).map_err(|_| bad())?;
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let ours = [
            header::HOST,
            header::UPGRADE,
            header::CONNECTION,
            header::CONTENT_LENGTH,
            header::TRANSFER_ENCODING,
        ];
        if name.as_str().starts_with("sec-websocket-") || ours.contains(&name) {
            return Err(bad());
        }
        self.headers.append(name, value);
        Ok(self)
    }

    /// How long the server may take. Default: [`HANDSHAKE_DEADLINE`].
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Where to connect to, as `host:port`. With `tcp:` in front it is that for every client, also if the host is called `unix`
    /// or `local`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The host's name alone, as its certificate has to have it.
    pub fn host(&self) -> &str {
        self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&self.host)
    }

    /// Whether it is to go through TLS (`wss`).
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    pub(crate) fn shared_config(&self) -> &Arc<Config> {
        &self.config
    }

    pub(crate) fn time(&self) -> Duration {
        self.deadline
    }

    /// The request, with this key: 16 random bytes in base64.
    pub fn head(&self, key: &str) -> RequestHead {
        let mut head = RequestHead::new();
        head.uri = self.uri.clone();
        head.headers = self.headers.clone();
        let mut set = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                head.headers.insert(name, value);
            }
        };
        let default = if self.secure { 443 } else { 80 };
        set(header::HOST, &if self.port == default { self.host.clone() } else { self.address() });
        set(header::UPGRADE, "websocket");
        set(header::CONNECTION, "Upgrade");
        set(header::SEC_WEBSOCKET_VERSION, "13");
        set(header::SEC_WEBSOCKET_KEY, key);
        if !self.protocols.is_empty() {
            set(header::SEC_WEBSOCKET_PROTOCOL, &self.protocols.join(", "));
        }
        if let Some(deflate) = &self.config.deflate {
            set(header::SEC_WEBSOCKET_EXTENSIONS, &deflate::offer(deflate));
        }
        head
    }

    /// What the reply to a request with this key means.
    ///
    /// # Errors
    /// There is no WebSocket: why.
    pub fn check(&self, key: &str, reply: &ReplyHead) -> Result<Opened, HandshakeError> {
        let headers = &reply.headers;
        if reply.status != StatusCode::SWITCHING_PROTOCOLS {
            return Err(Rejection::of(reply).into());
        }
        if reply.version < Version::HTTP_11 {
            return Err(HandshakeError::Http(reply.version));
        }
        if !has_token(headers, &header::UPGRADE, "websocket")
            || !has_token(headers, &header::CONNECTION, "upgrade")
        {
            return Err(HandshakeError::NotUpgraded);
        }
        if single(headers, &header::SEC_WEBSOCKET_ACCEPT) != Ok(Some(&accept_key(key))) {
            return Err(HandshakeError::Proof);
        }
        let protocol = match single(headers, &header::SEC_WEBSOCKET_PROTOCOL) {
            Ok(None) => None,
            Ok(Some(chosen)) if self.protocols.iter().any(|ours| ours == chosen) => Some(chosen.to_owned()),
            _ => {
                let chosen: Vec<&str> = list(headers, &header::SEC_WEBSOCKET_PROTOCOL).collect();
                return Err(HandshakeError::Protocol(chosen.join(", ")));
            }
        };
        // One that cannot be read is one that was not offered, and not none.
        let extensions = headers.get_all(header::SEC_WEBSOCKET_EXTENSIONS).into_iter();
        let extensions: Vec<&str> = extensions
            .map(|value| {
                value.to_str().map_err(|_| HandshakeError::Extension(BadExtension::unreadable(value)))
            })
            .collect::<Result<_, _>>()?;
        let deflate =
            deflate::check(self.config.deflate.as_ref(), extensions).map_err(HandshakeError::Extension)?;
        Ok(Opened { protocol, deflate })
    }
}

/// What stands where an authority has its port, whatever it is.
fn port_in(authority: &str) -> String {
    let behind_host = authority.rsplit_once(']').map_or(authority, |(_, rest)| rest);
    behind_host.split_once(':').map_or(behind_host, |(_, port)| port).to_owned()
}

/// What a request names as its target: the path, which is the root if there is only a query.
fn target(uri: &Uri) -> Result<Uri, InvalidUri> {
    match uri.path_and_query().map_or("/", |path| path.as_str()) {
        path if path.starts_with('/') => path.parse(),
        query => format!("/{query}").parse(),
    }
}

impl TryFrom<&str> for Request {
    type Error = BadRequest;
    fn try_from(url: &str) -> Result<Self, BadRequest> {
        Self::new(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accept, Deflate};
    use netwright_http::HttpPart;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn reply(change: impl FnOnce(&mut ReplyHead)) -> ReplyHead {
        let reply = http::Response::builder()
            .status(101)
            .header("upgrade", "WebSocket")
            .header("connection", "upgrade");
        let reply = reply.header("sec-websocket-accept", accept_key(KEY));
        let mut head = ReplyHead::from(reply.body(()).unwrap());
        change(&mut head);
        head
    }

    #[test]
    fn what_a_client_asks_a_server_accepts_and_the_client_understands() {
        let config = Arc::new(Config::default().deflate(Deflate::default()));
        let request = Request::new("ws://example/x").unwrap().config(config.clone()).protocols(["a", "b"]);
        let accept = Accept::new(config).protocols(["b"]);
        let head = request.head(KEY);
        assert!(accept.concerns(&head));
        let (agreed, HttpPart::Whole(mut reply, _)) = accept.judge(&head).unwrap() else { panic!() };
        reply.headers.insert("connection", HeaderValue::from_static("upgrade")); // what the codec adds
        let opened = request.check(KEY, &reply).unwrap();
        assert_eq!(opened, agreed);
        assert_eq!((opened.protocol.as_deref(), opened.deflate.is_some()), (Some("b"), true));
    }

    #[test]
    fn addresses_are_taken_apart() {
        let request = Request::new("wss://example.org/x").unwrap();
        assert_eq!(
            (request.address(), request.host(), request.is_secure()),
            ("example.org:443".into(), "example.org", true)
        );
        let request = Request::new("ws://[::1]:8080/").unwrap();
        assert_eq!((request.address(), request.host()), ("[::1]:8080".into(), "::1"));
        assert_eq!(request.head(KEY).headers["host"], "[::1]:8080");
        let request = Request::new("WSS://example.org/x").unwrap();
        assert_eq!((request.address(), request.is_secure()), ("example.org:443".into(), true));
        for bad in
            ["http://example/", "example", "ws:///x", "ws://", "", "ws://a b/", "ws://a:b/", "ws://a@b/"]
        {
            assert!(Request::new(bad).is_err(), "{bad}");
        }
        assert!(Request::new("ws://example/").unwrap().header("Sec-WebSocket-Key", "x").is_err());
        assert!(Request::new("ws://example/").unwrap().header("Cookie", "a\r\nb: c").is_err());
    }

    #[test]
    fn a_port_that_is_none_is_refused_and_no_other_one_is_taken_for_it() {
        for (port, url) in
            [("65536", "ws://example:65536/"), ("99999", "wss://[::1]:99999/x"), ("80x", "ws://a:80x/")]
        {
            match Request::new(url) {
                Err(error @ BadRequest::Port { .. }) => {
                    let text = error.to_string();
                    assert!(text.contains(port) && text.contains("65535"), "{text}");
                }
                other => panic!("{url}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_query_without_a_path_is_one_of_the_root() {
        let head = Request::new("ws://example?room=1").unwrap().head(KEY);
        assert_eq!(head.uri.path_and_query().map(|path| path.as_str()), Some("/?room=1"));
    }

    #[test]
    fn a_reply_has_to_be_right_in_everything() {
        let request = Request::new("ws://example/").unwrap().protocols(["a"]);
        let refused = |change: fn(&mut ReplyHead)| request.check(KEY, &reply(change)).unwrap_err();
        assert!(request.check(KEY, &reply(|_| {})).is_ok());
        let rejected = refused(|head| head.status = StatusCode::OK);
        assert!(
            matches!(rejected, HandshakeError::Rejected(rejection) if rejection.status == StatusCode::OK)
        );
        assert_eq!(
            refused(|head| head.version = Version::HTTP_10),
            HandshakeError::Http(Version::HTTP_10),
            "nothing in HTTP/1.0 changes the protocol"
        );
        assert_eq!(refused(|head| drop(head.headers.remove("upgrade"))), HandshakeError::NotUpgraded);
        assert_eq!(refused(|head| drop(head.headers.remove("connection"))), HandshakeError::NotUpgraded);
        assert_eq!(refused(|head| drop(head.headers.remove("sec-websocket-accept"))), HandshakeError::Proof);
        let set = |head: &mut ReplyHead| {
            drop(head.headers.insert("sec-websocket-protocol", HeaderValue::from_static("b")));
        };
        assert_eq!(refused(set), HandshakeError::Protocol("b".to_owned()));
        let set = |head: &mut ReplyHead| {
            drop(
                head.headers
                    .insert("sec-websocket-extensions", HeaderValue::from_static("permessage-deflate")),
            );
        };
        assert!(matches!(refused(set), HandshakeError::Extension(_)));
        let set = |head: &mut ReplyHead| {
            let unreadable = HeaderValue::from_bytes(b"x-\xff").unwrap();
            drop(head.headers.insert("sec-websocket-extensions", unreadable));
        };
        assert!(matches!(refused(set), HandshakeError::Extension(_)));
        assert_eq!(request.check("AAAAAAAAAAAAAAAAAAAAAA==", &reply(|_| {})), Err(HandshakeError::Proof));
    }
}
