//! What passes between the codec and the stages behind it.
//!
//! ```text
//!   a message in one piece      Whole(head, body)                   most requests, most replies
//!   a message as a stream       Head(head) Data … Data End          as it comes, with back pressure between any two
//!   an answer before the answer Interim(head)                       1xx; the message itself follows
//! ```
//! Always true, in both directions:
//! 1. Messages follow each other; nothing of one comes between the parts of another.
//! 2. After `Head` come any number of `Data`, then exactly one `End`; after `Whole` the message is over.

use crate::head::{ReplyHead, RequestHead};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use netwright_core::FileRegion;

/// A piece of a message whose head is an `H`.
#[derive(Debug)]
pub enum Part<H> {
    /// A head alone; its body follows in pieces.
    Head(H),
    /// A message in one piece. The body may be empty.
    Whole(H, Bytes),
    /// A piece of the body.
    Data(Bytes),
    /// A piece of the body that lies in a file. Only written, never read.
    File(FileRegion),
    /// The body is over. What was announced as trailers comes with it.
    End(Option<Box<HeaderMap>>),
    /// An answer before the answer (1xx). Only of replies.
    Interim(H),
}

/// A piece of a request.
pub type RequestPart = Part<RequestHead>;
/// A piece of a reply.
pub type ReplyPart = Part<ReplyHead>;

impl<B: Into<Bytes>> From<Response<B>> for ReplyPart {
    /// A reply in one piece.
    #[inline]
    fn from(reply: Response<B>) -> Self {
        let (head, body) = reply.into_parts();
        Self::Whole(head.into(), body.into())
    }
}

impl<B: Into<Bytes>> From<Request<B>> for RequestPart {
    /// A request in one piece.
    fn from(request: Request<B>) -> Self {
        let (head, body) = request.into_parts();
        Self::Whole(head.into(), body.into())
    }
}
