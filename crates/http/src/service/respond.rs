//! A closure from a whole request to a whole reply, as the last stage: the shortest way through.

use super::aggregate::{Collect, Collected, too_large};
use crate::{
    codec::RequestRefused,
    message::{HttpPart, ReplyPart, RequestHead, RequestPart},
};
use bytes::Bytes;
use http::{Extensions, HeaderMap, Method, Response, Uri, Version};
use netwright_core::{AppContext, Application, Event, Place};

/// Bodies that are put together unless told otherwise.
const BODY_MAX: usize = 1 << 20;

/// Answers every request at once with what `answer` makes of it. Bodies are put together first, up to 1 MiB or
/// [`body_max`](Respond::body_max).
///
/// ```
/// use http::Response;
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{HttpServer, respond};
///
/// let hello = pipeline().add(HttpServer::new()).app(respond(|request| {
///     Response::new(format!("hello, {}", request.uri().path()))
/// }));
/// let mut channel = EmbeddedChannel::new(hello);
/// channel.write_inbound("GET /ada HTTP/1.1\r\nHost: example\r\n\r\n");
/// assert!(channel.outbound_bytes().ends_with(b"\r\n\r\nhello, /ada"));
/// ```
///
/// The request is lent, not given ([`Received`]): what is left of it is used again, so that a connection that is kept alive
/// allocates nothing for the headers of its requests.
pub fn respond<F, B>(answer: F) -> Respond<F>
where
    F: FnMut(&Received) -> Response<B> + 'static,
    B: Into<Bytes> + 'static,
{
    Respond { answer, collect: Collect::new(BODY_MAX), body_max: BODY_MAX }
}

/// A request in one piece, as it is lent to whoever answers it. What it has is named as in [`http::Request`].
///
/// ```
/// use http::Response;
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{HttpServer, Received, respond};
///
/// let length = |request: &Received| Response::new(format!("{} {}", request.method(), request.uri().path()));
/// let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(respond(length)));
/// channel.write_inbound("GET /here HTTP/1.1\r\nHost: example\r\n\r\n");
/// assert!(channel.outbound_bytes().ends_with(b"\r\n\r\nGET /here"));
/// ```
#[derive(Debug)]
pub struct Received {
    head: RequestHead,
    body: Bytes,
}

impl Received {
    /// The method.
    pub fn method(&self) -> &Method {
        &self.head.method
    }

    /// The target.
    pub fn uri(&self) -> &Uri {
        &self.head.uri
    }

    /// The version.
    pub fn version(&self) -> Version {
        self.head.version
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// What stages before this one have added.
    pub fn extensions(&self) -> &Extensions {
        &self.head.extensions
    }

    /// All of the head.
    pub fn head(&self) -> &RequestHead {
        &self.head
    }

    /// The body. To keep it, clone it: that copies no bytes.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
}

/// Made by [`respond`].
///
/// ```
/// use http::Response;
/// use netwright_core::pipeline;
/// use netwright_http::{HttpServer, Received, respond};
///
/// let hello = respond(|_: &Received| Response::new("hello")); // a `Respond`
/// let _stages = pipeline().add(HttpServer::new()).app(hello);
/// ```
#[derive(Debug)]
pub struct Respond<F> {
    answer: F,
    collect: Collect,
    body_max: usize,
}

impl<F> Respond<F> {
    /// Bodies of at most so many bytes; larger ones are answered with 413.
    pub fn body_max(mut self, bytes: usize) -> Self {
        self.collect = Collect::new(bytes);
        self.body_max = bytes;
        self
    }
}

impl<F, B> Respond<F>
where
    F: FnMut(&Received) -> Response<B> + 'static,
    B: Into<Bytes> + 'static,
{
    #[inline(always)]
    fn answer<P: Place>(&mut self, cx: &mut AppContext<'_, Self, P>, head: RequestHead, body: Bytes) {
        let request = Received { head, body };
        cx.write((self.answer)(&request).into());
        request.head.recycle();
    }
}

impl<F, B, P: Place> Application<P> for Respond<F>
where
    F: FnMut(&Received) -> Response<B> + 'static,
    B: Into<Bytes> + 'static,
{
    type Read = RequestPart;
    type Write = ReplyPart;

    fn read(&mut self, cx: &mut AppContext<'_, Self, P>, part: RequestPart) {
        match part {
            // Nearly all of them: no need to put anything together.
            HttpPart::Whole(head, body) if body.len() <= self.body_max => {
                self.answer(cx, head, body);
            }
            part => match self.collect.add(part) {
                Collected::Nothing => {}
                Collected::Request(head, body) => self.answer(cx, head, body),
                Collected::TooLarge { close } => cx.write(too_large(self.body_max, close)),
            },
        }
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self, P>) {
        cx.flush();
    }

    fn start_over(&mut self) -> bool {
        self.collect.give_up();
        true
    }

    fn event(&mut self, _: &mut AppContext<'_, Self, P>, event: Event) {
        if event.get::<RequestRefused>().is_some() {
            self.collect.give_up();
        }
    }
}
