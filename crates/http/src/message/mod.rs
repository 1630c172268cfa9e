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

mod head;
mod protocol;
mod recycle;

pub(crate) use head::Known;
pub use head::{Head, ReplyHead, RequestHead};
pub use protocol::Protocol;
pub(crate) use recycle::{buffer, recycle_buffer, recycle_reply_head, recycle_request_box, request_box};
pub use recycle::{header_map, recycle_headers};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use netwright_core::{FileRegion, Weight};

/// A piece of a message whose head is an `H`.
///
/// ```
/// use http::Response;
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{HttpServer, HttpPart, RequestPart};
///
/// // The last stage sees parts, if it does not want to be a service.
/// let stages = pipeline().add(HttpServer::new()).handle(|cx, part: RequestPart| {
///     if let HttpPart::Whole(head, body) = part {
///         let text = format!("{} {}: {} bytes", head.method, head.uri, body.len());
///         cx.write_and_flush(Response::new(text).into());
///     }
/// });
/// let mut channel = EmbeddedChannel::new(stages);
/// channel.write_inbound("GET /here HTTP/1.1\r\nHost: example\r\n\r\n");
/// assert!(channel.outbound_bytes().ends_with(b"\r\n\r\nGET /here: 0 bytes"));
/// ```
#[derive(Debug)]
pub enum HttpPart<H> {
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
///
/// ```
/// use netwright_http::{HttpPart, RequestPart};
///
/// let all = RequestPart::from(http::Request::get("/").body("").unwrap());
/// assert!(matches!(all, HttpPart::Whole(..)));
/// ```
pub type RequestPart = HttpPart<RequestHead>;
/// A piece of a reply.
///
/// ```
/// use netwright_http::{HttpPart, ReplyPart};
///
/// // A body of unknown length, in pieces.
/// let (head, ()) = http::Response::new(()).into_parts();
/// let parts: [ReplyPart; 3] = [HttpPart::Head(head.into()), HttpPart::Data("hello".into()), HttpPart::End(None)];
/// # drop(parts);
/// ```
pub type ReplyPart = HttpPart<ReplyHead>;

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

impl<H> HttpPart<H> {
    /// Parts count for the bytes of their bodies while they are on their way to be written, as the codecs say. Files count for
    /// nothing, because the system has them. For a codec of your own that takes parts.
    pub const WEIGHT: Weight<Self> = Weight::of(|part| match part {
        HttpPart::Whole(_, bytes) | HttpPart::Data(bytes) => bytes.len(),
        HttpPart::Head(_) | HttpPart::File(_) | HttpPart::End(_) | HttpPart::Interim(_) => 0,
    });
}
