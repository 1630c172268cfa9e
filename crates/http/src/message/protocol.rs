//! What a request asks to speak on its stream: the `:protocol` of an extended `CONNECT` (RFC 8441).

use crate::grammar::is_token;
use bytes::Bytes;
use std::fmt;

/// What an extended `CONNECT` asks for: the extension of a request by HTTP/2 that wants to speak something else on its stream.
///
/// A server finds it in the [extensions](http::request::Parts::extensions) of such a request, whose method is `CONNECT` and whose
/// target is a path; a client puts it there.
///
/// ```
/// use http::{Method, Request};
/// use netwright_http::Protocol;
///
/// let request = Request::builder()
///     .method(Method::CONNECT)
///     .uri("https://example.org/chat")
///     .extension(Protocol::WEBSOCKET)
///     .body(())?;
/// let asks = request.extensions().get::<Protocol>();
/// assert_eq!(asks.map(Protocol::as_str), Some("websocket"));
/// # Ok::<_, http::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Protocol(Bytes);

impl Protocol {
    /// WebSocket (RFC 8441).
    pub const WEBSOCKET: Self = Self(Bytes::from_static(b"websocket"));

    /// A protocol by its name. `None`: the name is not a token.
    ///
    /// ```
    /// use netwright_http::Protocol;
    ///
    /// assert_eq!(Protocol::new("connect-udp").unwrap().as_str(), "connect-udp");
    /// assert_eq!(Protocol::new("web socket"), None);
    /// ```
    pub fn new(name: impl Into<Bytes>) -> Option<Self> {
        let name = name.into();
        is_token(&name).then_some(Self(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default() // a token is of ASCII
    }
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Protocol").field(&self.as_str()).finish()
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
