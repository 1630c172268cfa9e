//! Requests as a whole: their bodies put together, up to a limit.
//!
//! ```text
//!   Head Data Data End ──▶ Request<Bytes>                Response<Bytes> ──▶ Whole
//!   Head (Content-Length above the limit) ──▶ 413, the body is thrown away, the connection goes on
//!   Head Data Data … above the limit      ──▶ 413, the connection ends
//! ```
//! Always true: the codec's own 413 comes behind the replies to what was asked before.

use crate::{
    codec::RequestRefused,
    grammar::content_length,
    message::{HttpPart, ReplyHead, ReplyPart, RequestHead, RequestPart},
};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, Response, StatusCode, header};
use netwright_core::{Context, Event, Handler, Weight, WritePromise};
use std::collections::VecDeque;

/// Bytes of a body that is too large and is read and thrown away, so that the connection can go on. Beyond that it is
/// cheaper for everybody to connect again.
const THROWN_AWAY_MAX: u64 = 1 << 20;

/// Room that is made for a body on its word alone.
const ROOM_UNPROVEN: usize = 16 * 1024;

/// Puts the parts of requests together.
#[derive(Debug)]
pub(crate) struct Collect {
    max: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Between,
    Body(Box<(RequestHead, Pieces)>),
    /// It was answered already.
    ThrownAway,
}

/// What comes of a part.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // moved once; a box would be an allocation for each request
pub(crate) enum Collected {
    Nothing,
    Request(RequestHead, Bytes),
    /// Too large. Whether the connection has to end with the reply.
    TooLarge {
        close: bool,
    },
}

#[derive(Debug, Default)]
struct Pieces {
    /// The only piece so far: most bodies have no other.
    first: Bytes,
    all: BytesMut,
}

impl Pieces {
    fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    fn push(&mut self, bytes: Bytes) {
        if self.len() == 0 {
            self.first = bytes;
        } else {
            if !self.first.is_empty() {
                self.all.reserve((self.first.len() + bytes.len()).max(ROOM_UNPROVEN / 4));
                self.all.extend_from_slice(&std::mem::take(&mut self.first));
            }
            self.all.extend_from_slice(&bytes);
        }
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}

impl Collect {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, state: State::Between }
    }

    pub(crate) fn add(&mut self, part: RequestPart) -> Collected {
        match part {
            HttpPart::Whole(head, body) if body.len() <= self.max => Collected::Request(head, body),
            HttpPart::Whole(..) => Collected::TooLarge { close: false },
            HttpPart::Head(head) => self.begin(head),
            HttpPart::Data(bytes) => {
                let State::Body(body) = &mut self.state else { return Collected::Nothing };
                if body.1.len() + bytes.len() > self.max {
                    self.state = State::ThrownAway;
                    return Collected::TooLarge { close: true };
                }
                body.1.push(bytes);
                Collected::Nothing
            }
            HttpPart::End(_) => match std::mem::replace(&mut self.state, State::Between) {
                State::Body(body) => Collected::Request(body.0, body.1.into_bytes()),
                _ => Collected::Nothing,
            },
            HttpPart::File(_) | HttpPart::Interim(_) => Collected::Nothing, // never read
        }
    }

    fn begin(&mut self, head: RequestHead) -> Collected {
        let announced = content_length(&head.headers).filter(|&announced| announced > self.max as u64);
        if let Some(announced) = announced {
            self.state = State::ThrownAway;
            return Collected::TooLarge { close: announced > THROWN_AWAY_MAX };
        }
        self.state = State::Body(Box::new((head, Pieces::default())));
        Collected::Nothing
    }

    /// What was begun will not be completed.
    pub(crate) fn give_up(&mut self) {
        self.state = State::Between;
    }
}

/// The reply to a request that is too large.
pub(crate) fn too_large(max: usize, close: bool) -> ReplyPart {
    let mut head = ReplyHead::from(StatusCode::PAYLOAD_TOO_LARGE);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if close {
        head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    HttpPart::Whole(head, Bytes::from(format!("the body is too large: the limit is {max} bytes\n")))
}

/// A stage that puts requests together, and takes replies in one piece.
///
/// ```
/// use http::{Request, Response};
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{HttpAggregate, HttpServer};
///
/// let echo = pipeline()
///     .add(HttpServer::new())
///     .add(HttpAggregate::max(1024))
///     .handle(|cx, request| cx.write_and_flush(Response::new(request.into_body())));
/// let mut channel = EmbeddedChannel::new(echo);
/// channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n");
/// channel.write_inbound("3\r\nllo\r\n0\r\n\r\n");
/// assert!(channel.outbound_bytes().ends_with(b"\r\n\r\nhello"));
/// ```
#[derive(Debug)]
pub struct HttpAggregate {
    collect: Collect,
    /// Whose replies come next: the application's, or ours with or without a close.
    owed: VecDeque<Owed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Application,
    TooLarge { close: bool },
}

impl HttpAggregate {
    /// Bodies of at most so many bytes.
    pub fn max(max: usize) -> Self {
        Self { collect: Collect::new(max), owed: VecDeque::new() }
    }

    /// Writes the replies that are ours and whose turn it is.
    fn pay(&mut self, cx: &mut Context<'_, Self>) {
        while let Some(&Owed::TooLarge { close }) = self.owed.front() {
            self.owed.pop_front();
            cx.write(too_large(self.collect.max, close));
            cx.flush();
        }
    }
}

impl Handler for HttpAggregate {
    type Read = RequestPart;
    type ReadOut = Request<Bytes>;
    type Write = Response<Bytes>;
    type WriteOut = ReplyPart;
    const WEIGHT: Weight<Response<Bytes>> = Weight::of(|reply| reply.body().len());

    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        match self.collect.add(part) {
            Collected::Nothing => {}
            Collected::Request(head, body) => {
                self.owed.push_back(Owed::Application);
                cx.fire_read(Request::from_parts(head.into_parts(), body));
            }
            Collected::TooLarge { close } => {
                self.owed.push_back(Owed::TooLarge { close });
                self.pay(cx);
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, reply: Response<Bytes>, done: WritePromise) {
        cx.write_with(reply.into(), done);
        if self.owed.front() == Some(&Owed::Application) {
            self.owed.pop_front();
        }
        self.pay(cx);
    }

    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        if event.get::<RequestRefused>().is_some() {
            self.collect.give_up();
        }
        cx.fire_event(event);
    }

    fn name(&self) -> &'static str {
        "HttpAggregate"
    }

    fn start_over(&mut self) -> bool {
        self.collect.give_up();
        self.owed.clear();
        true
    }
}
