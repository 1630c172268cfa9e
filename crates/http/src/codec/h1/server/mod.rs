//! The codec of a server as a stage.
//!
//! ```text
//!   bytes ──▶ input ─▶ RequestDecoder ──▶ RequestPart            one for each pull; none while paused
//!                            │ error                              waits for the replies before it, then is the last reply
//!   bytes ◀── out ◀──── Replies ◀──────── ReplyPart
//!
//!   Reading ──▶ Switched      after a whole 101, or a whole 2xx to CONNECT: bytes are kept for whoever comes next
//!      └──────▶ Tunnel        after the head of one: bytes pass as data, both ways
//!      └──────▶ Lingering     the last reply is sent; what still comes is thrown away, for a while
//!      └──────▶ Closing
//! ```
//! Always true:
//! 1. A peer that is refused hears why, if a status can still be sent: behind the replies to what it asked before.
//! 2. At most [`HttpLimits::in_flight`] requests wait for replies, and at most a head more is read.
//! 3. Behind a request that may end HTTP on this connection nothing is looked at before its reply is known.
//! 4. A connection that is idle between requests holds no buffer, and one timer.
//! 5. A peer that has said that it sends no more is answered to its last request, then the connection ends.
//! 6. In a tunnel each direction ends by itself, and how long it may be silent is the application's business.
//!
//! Not here: grammar (`decode`), what replies look like (`encode`), how long
//! a peer may take (`time`).

mod ends;
mod time;

use self::time::Timers;
use super::{
    asked::Asked,
    decode::RequestDecoder,
    encode::{Replies, Then},
    wire::Wire,
};
use crate::{
    codec::date,
    error::{HttpError, Misuse},
    limits::HttpLimits,
    message::{HttpPart, ReplyPart, RequestPart},
};
use bytes::BytesMut;
use http::StatusCode;
use netwright_core::{
    CloseCause, Context, Event, Fault, HalfClosure, Handler, Hold, Leftover, Outgoing, ShuttingDown,
    StageTimer, Weight, WritePromise,
};
use std::sync::{Arc, LazyLock};

/// An event for the stages behind the codec: the peer broke the protocol or a limit, and the connection ends. A body that was
/// being read will not be completed. The peer is told by the codec.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, Event, pipeline};
/// use netwright_http::{HttpServer, RequestRefused, ReplyPart, RequestPart};
///
/// struct Counts(u32);
///
/// impl Application for Counts {
///     type Read = RequestPart;
///     type Write = ReplyPart;
///
///     fn read(&mut self, _: &mut AppContext<'_, Self>, _: RequestPart) {}
///
///     fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
///         if let Some(RequestRefused(why)) = event.get() {
///             self.0 += 1;
///             eprintln!("{} of this connection refused: {why}", self.0);
///         }
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(Counts(0)));
/// channel.write_inbound("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
/// assert!(channel.outbound_bytes().starts_with(b"HTTP/1.1 400 "));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRefused(pub HttpError);

/// HTTP/1.1 as a server speaks it: the stage next to the wire, or behind TLS.
///
/// What it passes on are [`RequestPart`]s; what is written to it are [`ReplyPart`]s, in the order of their requests.
///
/// ```
/// use http::Response;
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{HttpServer, HttpPart};
///
/// let hello = pipeline().add(HttpServer::new()).handle(|cx, part| {
///     if let HttpPart::Whole(request, _) = part {
///         cx.write_and_flush(Response::new(format!("hello, {}", request.uri)).into());
///     }
/// });
/// let mut channel = EmbeddedChannel::new(hello);
/// channel.write_inbound("GET /world HTTP/1.1\r\nHost: example\r\n\r\n");
/// let reply = String::from_utf8(channel.outbound_bytes()).unwrap();
/// assert!(reply.starts_with("HTTP/1.1 200 OK\r\ncontent-length: 13\r\ndate: "));
/// assert!(reply.ends_with("\r\n\r\nhello, /world"));
/// ```
#[derive(Debug)]
pub struct HttpServer {
    limits: Arc<HttpLimits>,
    wire: Wire,
    decoder: RequestDecoder,
    replies: Replies,
    phase: Phase,
    /// Requests so far.
    decoded: u64,
    /// The request that is being read may wait for a 100 before it sends its body.
    expecting: bool,
    /// The request that was read last may end HTTP here: nothing behind it is looked at before it is answered.
    may_switch: bool,
    /// The peer has said that it sends no more.
    input_over: bool,
    /// Reading from the transport is held.
    holding: Option<Box<Hold>>,
    /// The peer is read to its end, whoever asks for messages.
    insists: Option<Box<Hold>>,
    refused: Option<Refusal>,
    timers: Timers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    Switched,
    Tunnel,
    /// A tunnel of which our side has said all.
    TunnelEnds,
    Lingering,
    Closing,
}

#[derive(Debug)]
struct Refusal {
    error: HttpError,
    /// It is about the body of the request that was decoded last, and not about one that never came to be.
    of_body: bool,
}

static DEFAULTS: LazyLock<Arc<HttpLimits>> = LazyLock::new(Arc::default);

/// Limits that all connections share that were given none of their own.
pub(crate) fn default_limits() -> Arc<HttpLimits> {
    DEFAULTS.clone()
}

impl HttpServer {
    /// A codec with the default [`HttpLimits`].
    pub fn new() -> Self {
        Self::with(DEFAULTS.clone())
    }

    /// A codec with limits of your own; an `Arc` of them is shared by many connections.
    pub fn with(limits: impl Into<Arc<HttpLimits>>) -> Self {
        Self {
            limits: limits.into(),
            wire: Wire::default(),
            decoder: RequestDecoder::default(),
            replies: Replies::default(),
            phase: Phase::Reading,
            decoded: 0,
            expecting: false,
            may_switch: false,
            input_over: false,
            holding: None,
            insists: None,
            refused: None,
            timers: Timers::default(),
        }
    }

    /// Whether `date` is added to replies that have none. Default: yes, as servers with a clock have to.
    pub fn date(mut self, date: bool) -> Self {
        self.replies.date = date;
        self
    }

    /// Requests that were answered to the end.
    fn answered(&self) -> u64 {
        self.decoded - self.replies.waiting() as u64
    }

    /// Whether a next request may be looked at.
    #[inline]
    fn takes_requests(&self) -> bool {
        !self.replies.closing && !self.may_switch && self.replies.waiting() < self.limits.in_flight
    }

    #[inline]
    fn asked(&mut self, cx: &mut Context<'_, Self>, mut asked: Asked, whole: bool) {
        self.decoded += 1;
        asked.close |=
            self.decoded >= self.limits.requests || self.input_over && whole && self.wire.input.is_empty();
        self.may_switch = asked.connect || asked.upgrade;
        self.expecting = asked.expects && !whole && self.wire.input.is_empty();
        self.replies.asked(asked);
        if let Some(timer) = self.timers.head.take() {
            cx.disarm(timer);
        }
    }

    /// More bytes are needed, or an answer.
    #[inline]
    fn wait(&mut self, cx: &mut Context<'_, Self>) {
        self.wire.input.put_aside();
        if self.input_over {
            return self.input_ended(cx);
        }
        if !self.decoder.is_between() {
            self.wait_for_body(cx);
        } else if !self.wire.input.is_empty() {
            self.wait_for_head(cx);
        }
    }

    fn wait_for_body(&mut self, cx: &mut Context<'_, Self>) {
        // In order: what was asked before is answered first. And only if nothing has been answered to this one yet.
        // Whoever is paused has not asked for the body: this call is for the sake of an event.
        let asked_for = self.replies.waiting() == 1 && !self.replies.is_within() && !cx.view().is_paused();
        if self.expecting && asked_for {
            self.expecting = false;
            self.wire.out.begin();
            self.wire.out.buffer.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.wire.flush(cx);
        }
        self.watch_body(cx);
    }

    /// The next request has to wait for a reply: what has come of it is kept, and soon nothing more is read.
    #[cold]
    fn wait_for_reply(&mut self, cx: &mut Context<'_, Self>) {
        self.replies.closing |= self.input_over && self.wire.input.is_empty();
        if self.replies.closing {
            if self.replies.waiting() == 0 {
                return self.finish(cx, CloseCause::Requested); // all was answered before it was known to be the last
            }
            drop(self.wire.input.take()); // nobody will look at it
            return;
        }
        self.wire.input.put_aside();
        self.hold_if_much(cx);
    }

    fn hold_if_much(&mut self, cx: &mut Context<'_, Self>) {
        if self.holding.is_none() && self.wire.input.len() >= self.limits.head {
            self.holding = Some(Box::new(cx.hold_input()));
        }
    }

    fn release(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(hold) = self.holding.take() {
            hold.release(cx);
        }
    }

    fn replied(&mut self, cx: &mut Context<'_, Self>, then: Then) {
        self.release(cx);
        match then {
            Then::More => return,
            Then::Continued => return self.expecting = false,
            Then::Next => self.may_switch &= self.replies.waiting() > 0,
            Then::Close => return self.finish(cx, CloseCause::Requested),
            Then::Switch => {
                self.phase = Phase::Switched;
                self.stop_reading(cx);
                return self.wire.flush(cx);
            }
            Then::Tunnel => {
                self.phase = Phase::Tunnel;
                return self.stop_reading(cx);
            }
        }
        if self.refused.is_some() {
            self.tell_refusal(cx);
        }
    }
}

impl Default for HttpServer {
    fn default() -> Self {
        Self::new()
    }
}

impl Handler for HttpServer {
    type Read = BytesMut;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = Outgoing;
    const WEIGHT: Weight<ReplyPart> = HttpPart::WEIGHT;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.watch_idle(cx);
        cx.fire_active();
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        match self.phase {
            Phase::Reading if self.refused.is_none() => {
                self.timers.came(bytes.len());
                self.wire.input.feed(bytes);
            }
            Phase::Reading => {} // the connection ends with what was refused
            Phase::Switched => {
                self.wire.input.feed(bytes);
                self.wire.input.put_aside();
                if let Some(error) = self.wire.unclaimed(self.limits.linger) {
                    cx.close_because(CloseCause::Fault(Fault::new(error)));
                }
            }
            Phase::Tunnel | Phase::TunnelEnds => {
                self.timers.came(bytes.len());
                self.wire.input.feed(bytes);
            }
            Phase::Lingering => {
                self.timers.lingered += bytes.len() as u64;
                if self.timers.lingered > self.limits.linger {
                    cx.close();
                }
            }
            Phase::Closing => {}
        }
    }

    fn pull(&mut self, cx: &mut Context<'_, Self>) -> Option<RequestPart> {
        if matches!(self.phase, Phase::Tunnel | Phase::TunnelEnds) && !self.wire.input.is_empty() {
            return Some(HttpPart::Data(self.wire.input.take().freeze()));
        }
        if self.phase != Phase::Reading || self.refused.is_some() {
            return None;
        }
        if self.decoder.is_between() && !self.takes_requests() {
            self.wait_for_reply(cx);
            return None;
        }
        match self.decoder.next(&mut self.wire.input.bytes, &self.limits) {
            Ok(Some(part)) => {
                match &part {
                    HttpPart::End(_) => {
                        self.body_is_over(cx);
                        self.expecting = false;
                    }
                    HttpPart::Data(_) => self.expecting = false,
                    _ => {}
                }
                if let Some(asked) = self.decoder.take_asked() {
                    self.asked(cx, asked, matches!(part, HttpPart::Whole(..)));
                }
                Some(part)
            }
            Ok(None) => {
                self.wait(cx);
                None
            }
            Err(error) => {
                self.refuse(cx, error);
                None
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart, mut done: WritePromise) {
        match self.phase {
            Phase::Reading => {}
            Phase::Tunnel => return self.write_to_tunnel(cx, part, done),
            _ => return self.misused(cx, Misuse::AfterClose.into(), done),
        }
        if !self.wire.claim(cx, &mut done) {
            return;
        }
        if self.wire.out.begin() && self.replies.date {
            date::refresh();
        }
        match self.replies.write(part, &mut self.wire.out, self.expecting && self.replies.waiting() == 1) {
            Ok(then) => {
                self.wire.out.written(cx, done);
                if then != Then::More || self.holding.is_some() {
                    self.replied(cx, then);
                }
            }
            Err(error) => self.misused(cx, error, done),
        }
    }

    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        self.wire.flush(cx);
    }

    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        let ends = event.get::<ShuttingDown>().is_some();
        cx.fire_event(event);
        if ends && self.phase == Phase::Reading {
            self.replies.closing = true; // what was asked is answered, and no more
            // The rest of a body is read; a head that is not whole is not a request.
            if self.decoder.is_between() {
                self.finish_if_answered(cx, CloseCause::ShutDown);
            }
        }
    }

    /// A client that has sent its last request still wants the answer.
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        if self.phase == Phase::Lingering {
            self.phase = Phase::Closing;
            return cx.close_when_flushed(); // it may still read
        }
        if matches!(self.phase, Phase::Tunnel | Phase::TunnelEnds) {
            self.input_over = true;
            cx.fire_input_closed();
            return self.end_tunnel(cx);
        }
        self.input_ended(cx);
        cx.fire_input_closed();
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.ended(cx);
        self.phase = Phase::Closing;
        cx.fire_inactive(cause);
    }

    fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        self.wire.close(cx, cause, done);
    }

    fn shut_down_output(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
        self.wire.shut_down_output(cx, done);
    }

    fn timer(&mut self, cx: &mut Context<'_, Self>, timer: StageTimer) {
        self.due(cx, timer);
    }

    /// But not for a request that will never be whole.
    fn owes(&self) -> bool {
        let whole = self.replies.waiting().saturating_sub(usize::from(!self.decoder.is_between()));
        self.phase == Phase::Reading && self.refused.is_none() && whole > 0
    }

    /// Whoever was to answer has panicked: the peer hears that it was not the line.
    fn panicked(&mut self, cx: &mut Context<'_, Self>) {
        if self.phase == Phase::Reading && self.replies.waiting() > 0 && !self.replies.is_within() {
            self.phase = Phase::Closing;
            if self.wire.out.begin() {
                date::refresh();
            }
            let why = "the server failed over this request";
            self.replies.refuse(&mut self.wire.out.buffer, StatusCode::INTERNAL_SERVER_ERROR, why);
            self.wire.flush(cx);
        }
    }

    fn leftover(&mut self) -> Leftover<BytesMut> {
        self.wire.leftover()
    }

    fn name(&self) -> &'static str {
        "HttpServer"
    }
}
