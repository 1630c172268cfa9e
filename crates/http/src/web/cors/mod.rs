//! Which pages of other origins may use us (CORS, as the Fetch standard has it).
//!
//! ```text
//!   request ──▶ [ Cors::decide ] ──▶ Pass                      no origin: nothing to do but Vary
//!                                ├─▶ Grant(headers for the reply)
//!                                ├─▶ Preflight(reply)          answered here, the application does not see it
//!                                └─▶ Refuse(reply)             403: a preflight, or, if strict, any request
//! ```
//! Always true:
//! 1. Nobody gets both any origin and credentials.
//! 2. A reply that depends on the origin says so in `Vary`, also when there was none.
//!
//! Not here: protection against forged requests. A browser refuses to show a reply; the request has been carried out by then.

mod stage;
#[cfg(test)]
mod tests;

pub use stage::CorsStage;

use super::Reply;
use crate::grammar::{elements, is_token};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, request};
use std::{error::Error, fmt, sync::Arc, time::Duration};

/// The browser asks whether a public page may use a server of a private network.
const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");
/// Header names that a preflight may ask for at once.
const REQUESTED_HEADERS_MAX: usize = 64;

/// Which origins may do what. Cheap to clone: one for all connections.
///
/// ```
/// use http::{Method, Request, header};
/// use netwright_http::{RequestHead, web::{Cors, CorsDecision}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cors = Cors::origins(["https://app.example"])?.credentials()?.methods([Method::GET, Method::PUT]);
///
/// let (preflight, _) = Request::builder()
///     .method("OPTIONS")
///     .header("origin", "https://app.example")
///     .header("access-control-request-method", "PUT")
///     .body(())?
///     .into_parts();
/// let CorsDecision::Preflight(reply) = cors.decide(&preflight) else { panic!("it is one") };
/// assert_eq!(reply.headers()["access-control-allow-origin"], "https://app.example");
/// assert_eq!(reply.headers()["access-control-allow-methods"], "GET, PUT");
/// # Ok(())
/// # }
/// ```
///
/// As a stage: [`stage`](Self::stage).
#[derive(Clone)]
pub struct Cors(Arc<Rules>);

#[derive(Clone)]
struct Rules {
    origins: Origins,
    null: bool,
    credentials: bool,
    strict: bool,
    private_network: bool,
    methods: HeaderValue,
    headers: Option<HeaderValue>,
    expose: Option<HeaderValue>,
    max_age: HeaderValue,
}

#[derive(Clone)]
enum Origins {
    Any,
    List(Vec<HeaderValue>),
    Matching(Arc<dyn Fn(&str) -> bool + Send + Sync>),
}

impl Cors {
    /// For all pages, without credentials: data that is public anyway.
    pub fn any() -> Self {
        Self::new(Origins::Any)
    }

    /// For pages of these origins, each `scheme://host` or `scheme://host:port`, in lower case, as browsers write them.
    ///
    /// # Errors
    /// One is not an origin: it has a path, no scheme, a wildcard, or capital letters.
    pub fn origins<'a>(origins: impl IntoIterator<Item = &'a str>) -> Result<Self, CorsError> {
        let list = origins.into_iter().map(origin).collect::<Result<_, _>>()?;
        Ok(Self::new(Origins::List(list)))
    }

    /// For pages of origins that a function knows.
    ///
    /// Compare whole origins or whole labels: what merely ends in `example.org` may be `evilexample.org`.
    pub fn matching(knows: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self::new(Origins::Matching(Arc::new(knows)))
    }

    fn new(origins: Origins) -> Self {
        Self(Arc::new(Rules {
            origins,
            null: false,
            credentials: false,
            strict: false,
            private_network: false,
            methods: HeaderValue::from_static("GET, HEAD, POST"),
            headers: Some(HeaderValue::from_static("content-type")),
            expose: None,
            max_age: HeaderValue::from_static("600"),
        }))
    }

    /// Also for pages without an origin of their own: files, sandboxed frames. Anybody can make such a page.
    pub fn null_origin(mut self) -> Self {
        self.rules().null = true;
        self
    }

    /// Lets browsers send cookies and other credentials along.
    ///
    /// # Errors
    /// Any origin is allowed: then every page of the world could act as its visitor.
    pub fn credentials(mut self) -> Result<Self, CorsError> {
        if matches!(self.0.origins, Origins::Any) {
            return Err(CorsError { value: "*".to_owned(), what: "credentials need a list of origins" });
        }
        self.rules().credentials = true;
        Ok(self)
    }

    /// Methods that a page may use. Default: `GET`, `HEAD` and `POST`.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.rules().methods = list(methods.into_iter().map(|method| method.to_string()));
        self
    }

    /// Request headers that a page may set, beside those that are always allowed. Default: `content-type`.
    pub fn headers(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.rules().headers = Some(list(names.into_iter().map(|name| name.to_string())));
        self
    }

    /// A page may set all request headers.
    pub fn any_headers(mut self) -> Self {
        self.rules().headers = None;
        self
    }

    /// Reply headers that a page may read, beside those that it always may. Default: none.
    pub fn expose(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.rules().expose = Some(list(names.into_iter().map(|name| name.to_string())));
        self
    }

    /// How long a browser may remember the answer to a preflight. Default: 10 minutes.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.rules().max_age = HeaderValue::from(age.as_secs());
        self
    }

    /// Pages from the public internet may use us though we are in a private network.
    pub fn private_network(mut self) -> Self {
        self.rules().private_network = true;
        self
    }

    /// Requests of other origins are refused with 403 instead of carried out without their reply being shown.
    pub fn strict(mut self) -> Self {
        self.rules().strict = true;
        self
    }

    fn rules(&mut self) -> &mut Rules {
        Arc::make_mut(&mut self.0)
    }

    /// What to do with a request.
    pub fn decide(&self, request: &request::Parts) -> CorsDecision {
        let rules = &*self.0;
        let mut origins = request.headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else { return CorsDecision::Pass };
        let preflight = request.method == Method::OPTIONS
            && request.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let granted = if origins.next().is_some() { None } else { rules.grants(origin) };
        match granted {
            Some(allow) if preflight => CorsDecision::Preflight(rules.preflight(&request.headers, allow)),
            Some(allow) => CorsDecision::Grant(rules.grant(allow)),
            None if preflight => CorsDecision::Refuse(rules.refusal(origin)),
            None if rules.strict && !is_own(origin, &request.headers) => {
                CorsDecision::Refuse(rules.refusal(origin))
            }
            None => CorsDecision::Pass,
        }
    }

    /// Whether replies differ by origin, so that caches have to know.
    pub fn varies(&self) -> bool {
        !matches!(self.0.origins, Origins::Any) || self.0.null
    }

    /// A stage that decides and does it; behind the codec, before whatever answers.
    pub fn stage(&self) -> CorsStage {
        CorsStage::new(self.clone())
    }
}

impl Rules {
    /// What to allow this origin as.
    fn grants(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        if origin == "null" {
            return self.null.then(|| origin.clone());
        }
        match &self.origins {
            Origins::Any => Some(HeaderValue::from_static("*")),
            Origins::List(list) => list.contains(origin).then(|| origin.clone()),
            Origins::Matching(knows) => {
                let known = origin.to_str().is_ok_and(|text| is_origin(text) && knows(text));
                known.then(|| origin.clone())
            }
        }
    }

    fn grant(&self, allow: HeaderValue) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allow);
        if self.credentials {
            headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        if let Some(expose) = &self.expose {
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, expose.clone());
        }
        headers
    }

    fn preflight(&self, asked: &HeaderMap, allow: HeaderValue) -> Response<Bytes> {
        let mut reply = Reply::status(StatusCode::NO_CONTENT);
        let headers = reply.headers_mut();
        *headers = self.grant(allow);
        headers.remove(header::ACCESS_CONTROL_EXPOSE_HEADERS); // of replies that a page sees
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, self.methods.clone());
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, self.max_age.clone());
        let names = self.headers.clone().or_else(|| requested_headers(asked));
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
        }
        if asked.get(REQUEST_PRIVATE_NETWORK).is_some_and(|value| value == "true") {
            let answer = if self.private_network { "true" } else { "false" };
            headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static(answer));
        }
        let vary = "origin, access-control-request-method, access-control-request-headers";
        headers.insert(header::VARY, HeaderValue::from_static(vary));
        reply
    }

    fn refusal(&self, origin: &HeaderValue) -> Response<Bytes> {
        let text: String = String::from_utf8_lossy(origin.as_bytes()).chars().take(128).collect();
        let mut reply = Reply::text(format!("origin {text:?} is not allowed\n"));
        *reply.status_mut() = StatusCode::FORBIDDEN;
        reply.headers_mut().insert(header::VARY, HeaderValue::from_static("origin"));
        reply
    }
}

impl fmt::Debug for Cors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origins: &dyn fmt::Debug = match &self.0.origins {
            Origins::Any => &"any",
            Origins::List(list) => list,
            Origins::Matching(_) => &"matching",
        };
        f.debug_struct("Cors")
            .field("origins", origins)
            .field("credentials", &self.0.credentials)
            .finish_non_exhaustive()
    }
}

/// What [`Cors::decide`] wants.
///
/// ```
/// use netwright_http::{RequestHead, web::{Cors, CorsDecision}};
///
/// let cors = Cors::origins(["https://example.test"])?;
/// let (head, ()) = http::Request::get("/").body(()).unwrap().into_parts();
/// let mut head = RequestHead::from(head);
/// assert!(matches!(cors.decide(&head), CorsDecision::Pass)); // no other origin asks
/// head.headers.insert("origin", "https://example.test".parse().unwrap());
/// assert!(matches!(cors.decide(&head), CorsDecision::Grant(_)));
/// # Ok::<(), netwright_http::web::CorsError>(())
/// ```
#[derive(Debug)]
pub enum CorsDecision {
    /// The request goes on, and its reply gets nothing.
    Pass,
    /// The request goes on, and its reply gets these headers, in place of any of the same names.
    Grant(HeaderMap),
    /// The request asked for permission, and this is the answer.
    Preflight(Response<Bytes>),
    /// The request is refused with this.
    Refuse(Response<Bytes>),
}

/// What a preflight asks to set, if all of it can be a header's name.
fn requested_headers(asked: &HeaderMap) -> Option<HeaderValue> {
    let value = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS)?;
    let mut names = elements(value.as_bytes());
    (names.by_ref().take(REQUESTED_HEADERS_MAX).all(is_token) && names.next().is_none())
        .then(|| value.clone())
}

/// Whether the origin names the host that was asked: browsers name the origin also for pages of our own.
fn is_own(origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    let origin = origin.as_bytes();
    let authority = [&b"https://"[..], b"http://"].iter().find_map(|scheme| origin.strip_prefix(*scheme));
    host.zip(authority).is_some_and(|(host, authority)| host.eq_ignore_ascii_case(authority))
}

fn origin(text: &str) -> Result<HeaderValue, CorsError> {
    let error = |what| CorsError { value: text.chars().take(64).collect(), what };
    if !is_origin(text) {
        return Err(error(
            "an origin is scheme://host or scheme://host:port in lower case, and nothing else",
        ));
    }
    HeaderValue::from_str(text).map_err(|_| error("it is no header's value"))
}

fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let scheme_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    let host_byte =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._:[]".contains(&byte);
    !scheme.is_empty() && scheme.bytes().all(scheme_byte) && !host.is_empty() && host.bytes().all(host_byte)
}

/// Names as a list header. All of them are tokens.
fn list(names: impl Iterator<Item = String>) -> HeaderValue {
    let text = names.collect::<Vec<_>>().join(", ");
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Why rules cannot be as they were asked for.
///
/// ```
/// use netwright_http::web::Cors;
///
/// let error = Cors::any().credentials().unwrap_err(); // anybody's page, with the user's cookies
/// println!("{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsError {
    /// The origin in question.
    pub value: String,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for CorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CORS for {:?}: {}", self.value, self.what)
    }
}

impl Error for CorsError {}
