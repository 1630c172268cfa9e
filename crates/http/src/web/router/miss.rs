//! Why there is no handler, and what to answer then.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use std::{error::Error, fmt};

/// Why a request has no handler.
///
/// ```
/// use netwright_http::web::Router;
///
/// let router = Router::new().get("/orders", ())?;
/// let nowhere = router.find(&http::Method::GET, "/nowhere").unwrap_err();
/// let not_so = router.find(&http::Method::DELETE, "/orders").unwrap_err();
/// assert_eq!((nowhere.reply().status().as_u16(), not_so.reply().status().as_u16()), (404, 405));
/// # Ok::<(), netwright_http::web::RouteError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss<'r> {
    /// No route has this path: 404.
    Path,
    /// The path is there, but not for this method: 405.
    Method {
        /// Those for which it is there.
        allow: &'r HeaderValue,
    },
    /// Somebody asks what can be asked for, and nobody has an answer of their own: 204.
    Options {
        /// The answer.
        allow: &'r HeaderValue,
    },
}

impl Miss<'_> {
    /// What to answer.
    pub fn reply(&self) -> Response<Bytes> {
        let (status, text, allow) = match self {
            Self::Path => (StatusCode::NOT_FOUND, "not found\n", None),
            Self::Method { allow } => (StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n", Some(*allow)),
            Self::Options { allow } => (StatusCode::NO_CONTENT, "", Some(*allow)),
        };
        let mut reply = Response::new(Bytes::from_static(text.as_bytes()));
        *reply.status_mut() = status;
        if let Some(allow) = allow {
            reply.headers_mut().insert(header::ALLOW, allow.clone());
        }
        if !text.is_empty() {
            let text = HeaderValue::from_static("text/plain; charset=utf-8");
            reply.headers_mut().insert(header::CONTENT_TYPE, text);
        }
        reply
    }
}

impl fmt::Display for Miss<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path => f.write_str("no route has this path"),
            Self::Method { allow } => {
                write!(f, "the route takes only {}", allow.to_str().unwrap_or_default())
            }
            Self::Options { allow } => write!(f, "the route takes {}", allow.to_str().unwrap_or_default()),
        }
    }
}

impl Error for Miss<'_> {}
