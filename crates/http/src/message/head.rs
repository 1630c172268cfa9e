//! Heads of messages as they pass from stage to stage.
//!
//! A head is large (a request's has 224 bytes), and a stage that passes one on moves it: through the queue between two stages
//! more than once. So it lies in a box that stays where it is, and boxes are used again.
//!
//! Always true: a head that is [`Known`] has not been lent for changes since the codec made it. The codec makes a head from one
//! that comes back only if that is so.

use super::recycle;
use crate::codec::recycle_request;
use http::{Method, Request, Response, StatusCode, Uri, Version, request, response};
use std::ops::{Deref, DerefMut};

/// The head of a message: `P` are the parts of an [`http::Request`] or an [`http::Response`], and can be used as if they were
/// here.
///
/// ```
/// use http::{Method, StatusCode};
/// use netwright_http::{ReplyHead, RequestHead};
///
/// let mut request = RequestHead::new();
/// request.method = Method::PUT;
/// assert_eq!(request.uri.path(), "/");
///
/// let reply = ReplyHead::from(StatusCode::NOT_FOUND);
/// assert_eq!(reply.into_parts().status, 404);
/// ```
#[derive(Debug)]
pub struct Head<P> {
    parts: Box<P>,
    known: Known,
}

/// The head of a request: method, target, version, headers.
///
/// ```
/// use netwright_http::RequestHead;
///
/// let mut head = RequestHead::new();
/// head.headers.insert("host", "example".parse().unwrap());
/// assert_eq!((head.method.as_str(), head.uri.path()), ("GET", "/"));
/// ```
pub type RequestHead = Head<request::Parts>;
/// The head of a reply: status, version, headers.
///
/// ```
/// use netwright_http::ReplyHead;
///
/// let mut head = ReplyHead::from(http::StatusCode::NOT_FOUND);
/// head.headers.insert("content-type", "text/plain".parse().unwrap());
/// assert_eq!(head.status, 404);
/// ```
pub type ReplyHead = Head<response::Parts>;

/// Which of the heads that codecs keep a head was made from, if it is still as it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known(u64);

impl Known {
    pub(crate) const NOTHING: Self = Self(0);

    /// Headers of the kept head of this number, which is not 0; method and target too if the line is whole.
    #[inline]
    pub(crate) fn new(number: u64, line_is_whole: bool) -> Self {
        Self(number << 1 | u64::from(line_is_whole))
    }

    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0 >> 1
    }

    #[inline]
    pub(crate) fn line_is_whole(self) -> bool {
        self.0 & 1 == 1
    }
}

impl<P> Head<P> {
    /// The parts, out of their box.
    pub fn into_parts(self) -> P {
        *self.parts
    }

    pub(crate) fn boxed(parts: Box<P>) -> Self {
        Self { parts, known: Known::NOTHING }
    }

    pub(crate) fn into_box(self) -> Box<P> {
        self.parts
    }

    /// For the codec: a head that it has just made.
    #[inline]
    pub(crate) fn known(parts: Box<P>, known: Known) -> Self {
        Self { parts, known }
    }

    #[inline]
    pub(crate) fn what_is_known(&self) -> Known {
        self.known
    }
}

impl<P> Deref for Head<P> {
    type Target = P;

    #[inline]
    fn deref(&self) -> &P {
        &self.parts
    }
}

impl<P> DerefMut for Head<P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut P {
        self.known = Known::NOTHING;
        &mut self.parts
    }
}

impl RequestHead {
    /// `GET /`, without headers.
    pub fn new() -> Self {
        let mut parts = recycle::request_box();
        (parts.method, parts.uri, parts.version) = (Method::GET, Uri::default(), Version::HTTP_11);
        Self::boxed(parts)
    }

    /// Gives the head back when its request is answered: its memory is used for one of the next requests on this thread.
    #[inline]
    pub fn recycle(self) {
        recycle_request(self);
    }

    /// For the codec: the same headers, asked for by another line.
    pub(crate) fn with_line(mut self, method: Method, uri: Uri) -> Self {
        (self.parts.method, self.parts.uri) = (method, uri);
        self
    }
}

impl ReplyHead {
    /// 200, without headers.
    pub fn new() -> Self {
        Self::from(Response::new(()))
    }

    /// Gives the head back when it is not needed any more: its memory is used for one of the next replies on this thread.
    pub fn recycle(self) {
        recycle::recycle_reply_head(self);
    }
}

impl From<request::Parts> for RequestHead {
    fn from(parts: request::Parts) -> Self {
        Self::boxed(Box::new(parts))
    }
}

impl From<response::Parts> for ReplyHead {
    #[inline]
    fn from(parts: response::Parts) -> Self {
        Self::boxed(recycle::reply_box(parts))
    }
}

impl From<Request<()>> for RequestHead {
    fn from(request: Request<()>) -> Self {
        request.into_parts().0.into()
    }
}

impl From<Response<()>> for ReplyHead {
    fn from(reply: Response<()>) -> Self {
        reply.into_parts().0.into()
    }
}

impl From<StatusCode> for ReplyHead {
    /// A head without headers.
    fn from(status: StatusCode) -> Self {
        let mut head = Self::new();
        head.status = status;
        head
    }
}

impl Default for RequestHead {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for ReplyHead {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_may_have_changed_a_head_is_noticed() {
        let known = Known::new(5, true);
        let mut head = Head::known(Box::new(Request::new(()).into_parts().0), known);
        assert!(head.headers.is_empty());
        assert_eq!((head.what_is_known().number(), known.line_is_whole()), (5, true));
        head.headers.clear();
        assert_eq!(head.what_is_known(), Known::NOTHING);
    }
}
