//! An async function from a request to its reply, as the last stage.
//!
//! ```text
//!   Head ─▶ call ─▶ future ──┐ done                      in the order of the requests
//!   Data ─▶ [ pipe ] ◀─ read │                           ┌────────────────────────────┐
//!   End                      └─▶ [ ready ][ waiting ][ ready ] ── Whole, or Head Data … End ──▶ codec
//! ```
//! Always true:
//! 1. Nothing is read that nobody wants: a request when there is room for one, a piece of a body when it is waited for.
//! 2. Replies leave in the order of their requests, and a reply's body is asked for more only when there is room to write.
//! 3. The futures run on the channel's loop, and end with the channel.
//! 4. Demand is given back as it was found.

use crate::{
    body::{Body, Next, Piece, Pipe, Sending, broken_off},
    codec::RequestRefused,
    error::HttpError,
    grammar::content_length,
    message::{HttpPart, ReplyPart, RequestHead, RequestPart},
};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use netwright_core::{AppContext, Application, ApplicationStage, CloseCause, Event, Fault};
use std::{
    collections::VecDeque,
    sync::Arc,
    task::{self, Poll, Waker},
};

/// Bytes of a body that nobody wants and that are read all the same, so that the connection can go on.
const THROWN_AWAY_MAX: u64 = 256 * 1024;

/// Answers requests with an async function. It runs on the channel's loop and need not be `Send`; what it has not asked for
/// is not read.
///
/// ```
/// use http::{Request, Response};
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{Body, HttpError, HttpServer, serve};
///
/// async fn length(mut request: Request<Body>) -> Response<String> {
///     let mut bytes = 0;
///     while let Ok(Some(piece)) = request.body_mut().read().await {
///         bytes += piece.len();
///     }
///     Response::new(format!("{bytes} bytes"))
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(length)));
/// channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
/// channel.write_inbound("def");
/// assert!(channel.outbound_bytes().ends_with(b"\r\n\r\n6 bytes"));
/// ```
pub fn serve<F, T, B>(call: F) -> ServeRequests<F>
where
    F: FnMut(Request<Body>) -> T + 'static,
    T: Future<Output = Response<B>> + 'static,
    B: Into<Body> + 'static,
{
    ServeRequests {
        call,
        concurrency: 1,
        calls: VecDeque::new(),
        next: 0,
        incoming: None,
        sending: None,
        flowed: None,
        asked: false,
        in_read: false,
        unflushed: false,
        blocked: false,
    }
}

/// Made by [`serve`].
///
/// ```
/// use http::{Request, Response};
/// use netwright_core::pipeline;
/// use netwright_http::{Body, HttpServer, serve};
///
/// let echo = serve(async |request: Request<Body>| Response::new(request.into_body())); // a `ServeRequests`
/// let _stages = pipeline().add(HttpServer::new()).app(echo);
/// ```
pub struct ServeRequests<F> {
    call: F,
    concurrency: usize,
    /// In the order of their requests. The last one has number `next - 1`.
    calls: VecDeque<Call>,
    next: u64,
    /// The body that is being received.
    incoming: Option<Incoming>,
    /// The body that is being sent.
    sending: Option<Sending>,
    /// Whether messages came without being asked for before this stage, and do so when it has left.
    flowed: Option<bool>,
    /// A message was asked for and has not come.
    asked: bool,
    /// Messages arrive, and `read_complete` will flush.
    in_read: bool,
    unflushed: bool,
    /// The body that is being sent waits for room.
    blocked: bool,
}

struct Call {
    /// Of the reply only the head was asked for.
    head_only: bool,
    reply: Option<Response<Body>>,
}

struct Incoming {
    pipe: Arc<Pipe>,
    /// Bytes that are still to come, if that is known.
    left: Option<u64>,
    thrown_away: u64,
}

impl<F> ServeRequests<F> {
    /// How many requests are worked on at a time; replies keep their order. Default: 1.
    pub fn concurrency(mut self, requests: usize) -> Self {
        self.concurrency = requests.max(1);
        self
    }
}

type Cx<'a, F> = AppContext<'a, ServeRequests<F>>;

impl<F, T, B> ServeRequests<F>
where
    F: FnMut(Request<Body>) -> T + 'static,
    T: Future<Output = Response<B>> + 'static,
    B: Into<Body> + 'static,
{
    fn begin(&mut self, cx: &mut Cx<'_, F>, head: RequestHead, body: Body) {
        let number = self.next;
        self.next += 1;
        let head_only = head.method == Method::HEAD;
        let mut future = Box::pin((self.call)(Request::from_parts(head.into_parts(), body)));
        // Most are done at once, and need no waker. Those that are not are polled again, with one.
        match future.as_mut().poll(&mut task::Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => {
                self.calls.push_back(Call { head_only, reply: Some(reply.map(Into::into)) })
            }
            Poll::Pending => {
                self.calls.push_back(Call { head_only, reply: None });
                cx.spawn(future, move |stage: &mut ApplicationStage<Self>, cx, reply| {
                    stage.in_read = false;
                    let place = stage.calls.len() as u64 - (stage.next - number);
                    if let Some(call) = stage.calls.get_mut(place as usize) {
                        call.reply = Some(reply.map(Into::into));
                    }
                    stage.go_on(cx);
                });
            }
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_, F>, head: RequestHead) {
        let back = cx.caller();
        let pipe = Pipe::poking(move || {
            back.call(|stage: &mut ApplicationStage<Self>, cx| {
                stage.in_read = false;
                stage.go_on(cx);
            });
        });
        let left = content_length(&head.headers);
        self.incoming = Some(Incoming { pipe: pipe.clone(), left, thrown_away: 0 });
        self.begin(cx, head, Body::incoming(pipe, left));
    }

    fn received(&mut self, cx: &mut Cx<'_, F>, bytes: Bytes) {
        let Some(incoming) = &mut self.incoming else { return };
        let len = bytes.len() as u64;
        incoming.left = incoming.left.map(|left| left.saturating_sub(len));
        if incoming.pipe.put(bytes).is_err() {
            incoming.thrown_away += len;
            if incoming.thrown_away > THROWN_AWAY_MAX {
                self.incoming = None;
                cx.flush();
                cx.close_when_flushed(); // its reply is sent
            }
        }
    }

    /// Does what can be done: writes, then asks for more.
    fn go_on(&mut self, cx: &mut Cx<'_, F>) {
        loop {
            if self.sending.is_some() {
                self.send(cx);
            }
            if self.sending.is_some() || !matches!(self.calls.front(), Some(Call { reply: Some(_), .. })) {
                break;
            }
            if let Some(Call { head_only, reply: Some(reply) }) = self.calls.pop_front() {
                self.reply(cx, reply, head_only);
            }
        }
        if !self.in_read && std::mem::take(&mut self.unflushed) {
            cx.flush();
        }
        self.ask(cx);
    }

    /// Asks for the next message, if somebody wants it.
    fn ask(&mut self, cx: &mut Cx<'_, F>) {
        let busy = self.calls.len() + usize::from(self.sending.is_some());
        let wanted = match &self.incoming {
            // What nobody reads is read when everything else is done.
            Some(incoming) => incoming.pipe.is_wanted() || busy == 0 && incoming.pipe.is_left(),
            None => busy < self.concurrency && cx.is_writable(),
        };
        if wanted && !self.asked {
            self.asked = true;
            cx.request();
        }
    }

    fn reply(&mut self, cx: &mut Cx<'_, F>, reply: Response<Body>, head_only: bool) {
        self.unflushed = true;
        let (mut head, body) = reply.into_parts();
        let body = match body.into_full() {
            Ok(bytes) => {
                // Nothing is to come of this exchange but the rest of the request. If that is long, it is cheaper to part.
                let last = self.calls.is_empty();
                let rest = self.incoming.as_ref().filter(|_| last).map(|incoming| incoming.left);
                if rest.is_some_and(|left| left.is_none_or(|left| left > THROWN_AWAY_MAX)) {
                    head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                return cx.write(HttpPart::Whole(head.into(), bytes));
            }
            Err(body) => body,
        };
        body.announce(&mut head.headers);
        cx.write(HttpPart::Head(head.into()));
        if head_only {
            return cx.write(HttpPart::End(None)); // nobody gets the rest, which may have no end
        }
        match body.into_file() {
            Ok(region) => {
                cx.write(HttpPart::File(region));
                cx.write(HttpPart::End(None));
            }
            Err(body) => self.sending = Some(Sending::Body(body)),
        }
    }

    /// Writes of the body what is there and there is room for.
    fn send(&mut self, cx: &mut Cx<'_, F>) {
        if cx.view().close_cause().is_some() {
            self.sending = None; // nobody will read it, and requests that came before the end wait behind it
            return;
        }
        while let Some(sending @ Sending::Body(_)) = &mut self.sending {
            if !cx.is_writable() {
                self.blocked = true;
                return;
            }
            match sending.next() {
                Some(Next::Piece(piece)) => self.sent(cx, piece),
                None => return,
                Some(Next::Later(later)) => {
                    cx.spawn(later, |stage: &mut ApplicationStage<Self>, cx, (body, piece)| {
                        stage.in_read = false;
                        if cx.view().close_cause().is_some() {
                            return; // given up with the end
                        }
                        stage.sending = Some(Sending::Body(body));
                        stage.sent(cx, piece);
                        stage.go_on(cx);
                    });
                    return;
                }
            }
        }
    }

    fn sent(&mut self, cx: &mut Cx<'_, F>, piece: Result<Piece, HttpError>) {
        self.unflushed = true;
        match piece {
            Ok(Piece::Data(bytes)) => cx.write(HttpPart::Data(bytes)),
            Ok(Piece::End(trailers)) => {
                self.sending = None;
                cx.write(HttpPart::End(trailers));
            }
            Err(error) => {
                self.sending = None;
                cx.flush();
                cx.close_because(CloseCause::Fault(Fault::new(error))); // the peer sees that it is not whole
            }
        }
    }

    fn break_off(&mut self, error: HttpError) {
        if let Some(incoming) = self.incoming.take() {
            incoming.pipe.end(Err(error));
        }
    }
}

impl<F, T, B> Application for ServeRequests<F>
where
    F: FnMut(Request<Body>) -> T + 'static,
    T: Future<Output = Response<B>> + 'static,
    B: Into<Body> + 'static,
{
    type Read = RequestPart;
    type Write = ReplyPart;

    fn active(&mut self, cx: &mut Cx<'_, F>) {
        self.flowed = Some(cx.view().is_flowing());
        cx.pause();
        self.ask(cx);
    }

    fn read(&mut self, cx: &mut Cx<'_, F>, part: RequestPart) {
        self.asked = false;
        self.in_read = true;
        match part {
            HttpPart::Whole(head, body) => self.begin(cx, head, Body::from(body)),
            HttpPart::Head(head) => self.receive(cx, head),
            HttpPart::Data(bytes) => self.received(cx, bytes),
            HttpPart::End(trailers) => {
                if let Some(incoming) = self.incoming.take() {
                    incoming.pipe.end(Ok(trailers));
                }
            }
            HttpPart::File(_) | HttpPart::Interim(_) => {} // never read
        }
        self.go_on(cx);
    }

    fn read_complete(&mut self, cx: &mut Cx<'_, F>) {
        self.in_read = false;
        if std::mem::take(&mut self.unflushed) {
            cx.flush();
        }
    }

    fn writability(&mut self, cx: &mut Cx<'_, F>, writable: bool) {
        if writable {
            self.blocked = false;
            self.in_read = false;
            self.go_on(cx);
        }
    }

    fn event(&mut self, _: &mut Cx<'_, F>, event: Event) {
        if let Some(RequestRefused(error)) = event.get() {
            self.break_off(error.clone());
        }
    }

    fn inactive(&mut self, _: &mut Cx<'_, F>, _: CloseCause) {
        self.break_off(broken_off());
    }

    /// What was under way has ended with its conversation.
    fn start_over(&mut self) -> bool {
        self.calls.clear();
        (self.next, self.incoming, self.sending, self.flowed) = (0, None, None, None);
        (self.asked, self.in_read, self.unflushed, self.blocked) = (false, false, false, false);
        true
    }

    /// Whoever comes in its place, a WebSocket perhaps, finds demand as it was.
    fn leaving(&mut self, cx: &mut Cx<'_, F>) {
        match self.flowed {
            Some(true) => cx.resume(),
            Some(false) => cx.pause(), // what was asked for and has not come was for this stage
            None => {}
        }
    }
}
