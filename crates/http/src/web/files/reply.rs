//! Replies with files in them.

use crate::{HttpPart, ReplyHead, ReplyPart};
use bytes::Bytes;
use http::{HeaderValue, Method, Response, header, request};

/// A reply whose body may lie in a file.
///
/// ```
/// use netwright_http::web::Files;
///
/// let files = Files::below(std::env::temp_dir())?;
/// let (request, ()) = http::Request::get("/no-such-file-here").body(()).unwrap().into_parts();
/// let reply = files.answer(&request.into());
/// assert_eq!(reply.head().status, 404);
/// for part in reply.into_parts() {
///     drop(part); // to be written
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileReply {
    pub(super) head: ReplyHead,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Whole(Bytes),
    Parts(Vec<ReplyPart>),
}

impl FileReply {
    pub(super) fn plain(reply: Response<Bytes>, request: &request::Parts) -> Self {
        let (head, body) = reply.into_parts();
        let mut head = ReplyHead::from(head);
        if request.method == Method::HEAD && !body.is_empty() {
            head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
            return Self { head, body: Body::Parts(Vec::new()) };
        }
        Self { head, body: Body::Whole(body) }
    }

    /// Its head.
    pub fn head(&self) -> &ReplyHead {
        &self.head
    }

    /// Its head, to add headers.
    pub fn head_mut(&mut self) -> &mut ReplyHead {
        &mut self.head
    }

    /// Whether something of it lies in a file, which is open until it is sent.
    pub(super) fn has_file(&self) -> bool {
        matches!(&self.body, Body::Parts(parts) if parts.iter().any(|part| matches!(part, HttpPart::File(_))))
    }

    /// The parts to be written, in their order.
    pub fn into_parts(self) -> impl Iterator<Item = ReplyPart> {
        let (first, rest, end) = match self.body {
            Body::Whole(body) => (HttpPart::Whole(self.head, body), Vec::new(), None),
            Body::Parts(parts) => (HttpPart::Head(self.head), parts, Some(HttpPart::End(None))),
        };
        std::iter::once(first).chain(rest).chain(end)
    }
}

/// How many bytes a part adds to its body.
pub(super) fn part_len(part: &ReplyPart) -> u64 {
    match part {
        HttpPart::Data(data) => data.len() as u64,
        HttpPart::File(region) => region.remaining(),
        _ => 0,
    }
}
