//! Replies that everybody needs.

use super::html::escape_html;
use crate::{ReplyPart, header_map};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use std::{error::Error, fmt};

/// Makes replies with the headers that go with their bodies.
///
/// ```
/// use http::StatusCode;
/// use netwright_http::web::Reply;
///
/// let reply = Reply::text("hello");
/// assert_eq!(reply.headers()["content-type"], "text/plain; charset=utf-8");
///
/// let gone = Reply::status(StatusCode::GONE);
/// assert_eq!(gone.body(), "410 Gone\n");
///
/// let moved = Reply::redirect(StatusCode::SEE_OTHER, "/elsewhere").unwrap();
/// assert_eq!(moved.headers()["location"], "/elsewhere");
/// ```
///
/// Not a value: its functions make [`http::Response`]s. [`whole`](Self::whole) turns one into what a pipeline takes.
#[derive(Debug)]
pub enum Reply {}

impl Reply {
    /// 200 with plain text.
    pub fn text(text: impl Into<Bytes>) -> Response<Bytes> {
        Self::with(StatusCode::OK, "text/plain; charset=utf-8", text.into())
    }

    /// 200 with a page.
    pub fn html(page: impl Into<Bytes>) -> Response<Bytes> {
        Self::with(StatusCode::OK, "text/html; charset=utf-8", page.into())
    }

    /// 200 with bytes of any kind.
    pub fn bytes(bytes: impl Into<Bytes>) -> Response<Bytes> {
        Self::with(StatusCode::OK, "application/octet-stream", bytes.into())
    }

    /// 200 with a value as JSON.
    ///
    /// # Errors
    /// The value cannot be written as JSON: a map has keys that are no text, or its own `Serialize` refuses.
    #[cfg(feature = "json")]
    pub fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<Response<Bytes>, serde_json::Error> {
        let body = serde_json::to_vec(value)?;
        Ok(Self::with(StatusCode::OK, "application/json", body.into()))
    }

    /// A status and its name as text; 1xx, 204 and 304 without text, as they have to be.
    pub fn status(status: StatusCode) -> Response<Bytes> {
        if status.is_informational() || matches!(status.as_u16(), 204 | 304) {
            let mut reply = Response::new(Bytes::new());
            *reply.status_mut() = status;
            return reply;
        }
        Self::with(status, "text/plain; charset=utf-8", format!("{status}\n").into())
    }

    /// 404.
    pub fn not_found() -> Response<Bytes> {
        Self::status(StatusCode::NOT_FOUND)
    }

    /// 400 and what was wrong, as text.
    pub fn bad_request(why: impl fmt::Display) -> Response<Bytes> {
        Self::with(StatusCode::BAD_REQUEST, "text/plain; charset=utf-8", format!("{why}\n").into())
    }

    /// Sends the client elsewhere: 301, 302, 303, 307 or 308.
    ///
    /// # Errors
    /// The status is another one, or the location has characters that must be percent-encoded.
    pub fn redirect(status: StatusCode, location: &str) -> Result<Response<Bytes>, RedirectError> {
        let error = |what| RedirectError { location: location.chars().take(64).collect(), what };
        if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Err(error("only 301, 302, 303, 307 and 308 redirect"));
        }
        if location.is_empty() || !location.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(error("it is empty, or has blanks, control characters or something beyond ASCII"));
        }
        let value = HeaderValue::from_str(location).map_err(|_| error("it is no header's value"))?;
        let mut page = String::from("<!doctype html><title>Elsewhere</title><a href=\"");
        escape_html(location, &mut page);
        page.push_str("\">elsewhere</a>\n");
        let mut reply = Self::with(status, "text/html; charset=utf-8", page.into());
        reply.headers_mut().insert(header::LOCATION, value);
        Ok(reply)
    }

    /// A response in one piece, as pipelines take it.
    pub fn whole(response: Response<Bytes>) -> ReplyPart {
        response.into()
    }

    fn with(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Bytes> {
        let mut reply = Response::new(body);
        *reply.status_mut() = status;
        *reply.headers_mut() = header_map();
        reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        reply
    }
}

/// Why there is no redirect.
///
/// ```
/// use netwright_http::web::Reply;
///
/// assert!(Reply::redirect(http::StatusCode::FOUND, "/next").is_ok());
/// assert!(Reply::redirect(http::StatusCode::OK, "/next").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectError {
    /// Where it should have led.
    pub location: String,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for RedirectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "redirect to {:?}: {}", self.location, self.what)
    }
}

impl Error for RedirectError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_the_headers_of_their_bodies() {
        for (reply, content_type) in [
            (Reply::text("a"), "text/plain; charset=utf-8"),
            (Reply::html("a"), "text/html; charset=utf-8"),
            (Reply::bytes(&b"a"[..]), "application/octet-stream"),
        ] {
            assert_eq!(
                (reply.status(), &reply.headers()["content-type"]),
                (StatusCode::OK, &content_type.parse().unwrap())
            );
        }
        assert_eq!(Reply::not_found().body(), "404 Not Found\n");
        let empty = Reply::status(StatusCode::NO_CONTENT);
        assert!(empty.body().is_empty() && empty.headers().is_empty());
        assert!(matches!(Reply::whole(Reply::text("a")), crate::HttpPart::Whole(_, body) if body == "a"));
    }

    #[test]
    fn redirects_lead_nowhere_but_where_they_say() {
        let reply = Reply::redirect(StatusCode::FOUND, "/a?b=\"<script>").unwrap();
        assert!(!std::str::from_utf8(reply.body()).unwrap().contains("<script>"));
        for wrong in ["", "/a b", "/a\r\nset-cookie: x", "/é"] {
            assert!(Reply::redirect(StatusCode::FOUND, wrong).is_err(), "{wrong:?}");
        }
        assert!(Reply::redirect(StatusCode::OK, "/").unwrap_err().to_string().contains("only 301"));
    }

    #[cfg(feature = "json")]
    #[test]
    fn json_is_written_and_says_so() {
        let reply = Reply::json(&[1, 2]).unwrap();
        assert_eq!(
            (reply.body().as_ref(), &reply.headers()["content-type"]),
            (&b"[1,2]"[..], &"application/json".parse().unwrap())
        );
    }
}
