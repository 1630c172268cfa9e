//! A client with connections that are kept: redirects, deadlines, proxies, streamed bodies.
//!
//! ```text
//!   get(url) ──▶ task on a loop ── site of scheme, host and port ──▶ a connection of HTTP/1.1: [TLS] codec exchange
//!                   ▲     │                                     └──▶ a stream of a shared one: [TLS] HTTP/2 ═ exchange
//!                   └─────┴─ redirect? another site, perhaps ◀── reply ─┘
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `builder`, `asking` | how a client is set up; a request that is under way |
//! | `follow` | from a request to its reply, over redirects and connections that end |
//! | `given_up` | a request for which nobody waits any more |
//! | `pools` | the sites that are known, and how connections to them are made |
//! | `site` | the connections to one of them: its pool, and beside it those that are shared |
//! | `shared`, `room` | connections that speak HTTP/2, who waits for a stream, how many streams there may be |
//! | `speaks` | what a connection speaks, by the handshake of TLS |
//! | `lease` | what a request has of a connection: all of it, or a stream |
//! | `exchange` | the last stage of a connection, or of a stream: a request, then its reply |
//! | `ask` | a request on its way to one, and what comes of it |
//! | `dues` | when a connection may be lent again |
//! | `redirect` | where a redirect leads, and what may go along |
//! | `origin` | scheme, host and port |
//! | `error` | why there is no reply |
//!
//! Always true:
//! 1. A connection of HTTP/1.1 is used by one exchange at a time, and again only if everything that was written is sent and everything that
//!    was to come has come (`dues`). One of HTTP/2 is used by as many as the server takes, each on a stream of its own.
//! 2. A request of which nothing was written goes to another connection as it is.
//! 3. A request that a connection took with it into its end is sent once more, if it may be: nothing of a reply had come,
//!    the connection had been used or had waited before, the method can be repeated, and the body is still there.
//! 4. A request of which the server has said that it has not looked at it is sent again, whatever its method, if its body is still there.
//! 5. What breaks off an exchange of HTTP/2 resets its stream, and touches no other.

mod ask;
mod asking;
mod builder;
mod dues;
mod error;
mod exchange;
mod follow;
mod given_up;
mod lease;
mod origin;
mod pools;
mod redirect;
mod room;
mod shared;
mod site;
mod speaks;
#[cfg(test)]
mod tests;

pub use asking::Asking;
pub use builder::WebClientBuilder;
pub use error::WebClientError;

use crate::{Body, limits::HttpLimits};
use http::{Method, Request, Uri};
use netwright_core::EventLoopGroup;
use origin::Origin;
use site::Site;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

/// Asks servers, and keeps connections to them. Cheap to clone; any thread may use it.
///
/// ```no_run
/// use netwright_http::client::WebClient;
///
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let client = WebClient::builder().build()?;
/// let reply = client.get("http://example.com/").await?;
/// println!("{}: {} bytes", reply.status(), reply.into_body().collect(1 << 20).await?.len());
/// # Ok(())
/// # }
/// ```
///
/// Outside of async code, [`Asking::wait`] waits for the reply.
#[derive(Clone)]
pub struct WebClient {
    inner: Arc<Inner>,
}

struct Inner {
    group: EventLoopGroup,
    settings: WebClientBuilder,
    limits: Arc<HttpLimits>,
    sites: Mutex<BTreeMap<Origin, Arc<Site>>>,
}

impl WebClient {
    /// Sets up a client.
    pub fn builder() -> WebClientBuilder {
        WebClientBuilder::new()
    }

    /// Asks for what is at a URL.
    pub fn get(&self, url: impl AsRef<str>) -> Asking {
        self.ask(Method::GET, url.as_ref(), Body::empty())
    }

    /// Asks for the headers of what is at a URL.
    pub fn head(&self, url: impl AsRef<str>) -> Asking {
        self.ask(Method::HEAD, url.as_ref(), Body::empty())
    }

    /// Sends something to a URL.
    pub fn post(&self, url: impl AsRef<str>, body: impl Into<Body>) -> Asking {
        self.ask(Method::POST, url.as_ref(), body.into())
    }

    /// What the client holds just now.
    pub fn figures(&self) -> WebClientFigures {
        let sites: Vec<Arc<Site>> = self.inner.sites().values().cloned().collect();
        let mut all = WebClientFigures { hosts: sites.len(), ..WebClientFigures::default() };
        sites.iter().for_each(|site| site.count(&mut all));
        all
    }

    fn ask(&self, method: Method, url: &str, body: Body) -> Asking {
        match url.parse::<Uri>() {
            Ok(uri) => {
                let mut request = Request::new(body);
                (*request.method_mut(), *request.uri_mut()) = (method, uri);
                self.request(request)
            }
            Err(_) => Asking::failed(WebClientError::Url { url: url.to_owned(), why: "it is not a URL" }),
        }
    }

    /// Sends a request of any kind. Its URI says whom it is for.
    pub fn request(&self, request: Request<impl Into<Body>>) -> Asking {
        let (inner, request) = (self.inner.clone(), request.map(Into::into));
        match self.inner.group.next().spawn(async move { inner.follow(request).await }) {
            Ok(handle) => Asking { state: Ok(handle) },
            Err(_) => Asking::failed(WebClientError::LoopEnded),
        }
    }
}

/// What a [`WebClient`] holds: connections of all hosts together.
///
/// ```
/// let client = netwright_http::client::WebClient::builder().build()?;
/// assert_eq!((client.figures().hosts, client.figures().idle), (0, 0)); // nothing before the first request
/// # Ok::<_, netwright_http::client::WebClientError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WebClientFigures {
    /// Schemes, hosts and ports that it knows.
    pub hosts: usize,
    /// Connections that wait to be used.
    pub idle: usize,
    /// Connections with an exchange on them.
    pub in_use: usize,
    /// Connections that are being made.
    pub connecting: usize,
    /// Requests that wait for a connection, or for a stream of one.
    pub waiting: usize,
    /// Connections that speak HTTP/2 and take requests, idle or in use.
    pub shared: usize,
    /// Requests on them.
    pub streams: usize,
}

impl fmt::Debug for WebClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.inner.sites().len();
        f.debug_struct("WebClient").field("hosts", &hosts).finish_non_exhaustive()
    }
}
