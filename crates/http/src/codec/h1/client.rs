//! The codec of a client as a stage.
//!
//! ```text
//!   bytes ◀── out ◀─── Requests ◀────── RequestPart         awaited: [GET] [HEAD] [CONNECT]
//!   bytes ──▶ input ─▶ ReplyDecoder ──▶ ReplyPart            a reply belongs to the first of them
//! ```
//! Always true:
//! 1. Replies are read as what their requests make them: those to HEAD have no body, a 2xx to CONNECT ends HTTP.
//! 2. A connection that the server or a request wants closed is closed when the reply is over; requests that still wait for
//!    replies then fail with [`HttpError::Premature`]. Whoever is behind is told before ([`LastReply`]).
//! 3. A reply that ends with its connection is complete only if the peer ended it in order.
//! 4. What came before a request was written is never its reply.

use super::{
    asked::Asked,
    decode::{ReplyDecoder, Said},
    encode::Requests,
    wire::Wire,
};
use crate::{
    error::{Grammar, HttpError, Limit, Misuse, Within},
    limits::HttpLimits,
    message::{HttpPart, ReplyPart, RequestPart},
};
use bytes::BytesMut;
use netwright_core::{
    CloseCause, Context, Event, Fault, Handler, Leftover, Outgoing, Weight, WriteError, WritePromise,
};
use std::sync::{Arc, LazyLock};

/// Answers before an answer. Servers send one or two.
pub(crate) const INTERIM_MAX: u32 = 32;

/// Told by [`HttpClient`] to the stages behind it, once and before the part that ends the reply: no other reply will come on
/// this connection. The server or the request said that it closes, what follows is not HTTP any more, or bytes lie behind the
/// reply that nobody asked for. Whoever keeps connections for later does not keep this one.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, Event, pipeline};
/// use netwright_http::{HttpClient, LastReply, ReplyPart, RequestPart};
///
/// #[derive(Default)]
/// struct Keeps { not_this_one: bool }
///
/// impl Application for Keeps {
///     type Read = ReplyPart;
///     type Write = RequestPart;
///     fn read(&mut self, _: &mut AppContext<'_, Self>, _: ReplyPart) {
///         assert!(self.not_this_one);
///     }
///     fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
///         self.not_this_one |= event.get::<LastReply>().is_some();
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(HttpClient::new()).app(Keeps::default()));
/// channel.write_outbound(http::Request::get("http://example/").body("").unwrap().into());
/// channel.write_inbound("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
/// assert!(!channel.is_open());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastReply;

/// HTTP/1.1 as a client speaks it: the stage next to the wire, or behind TLS.
///
/// What is written to it are [`RequestPart`]s; what it passes on are [`ReplyPart`]s, in the order of their requests. A
/// `Host` and a length are added where they are missing.
///
/// ```
/// use bytes::Bytes;
/// use http::Request;
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{HttpClient, HttpPart};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(HttpClient::new()));
/// channel.write_outbound(Request::get("http://example/hello").body(Bytes::new()).unwrap().into());
/// assert_eq!(channel.outbound_bytes(), b"GET /hello HTTP/1.1\r\nhost: example\r\n\r\n");
/// channel.write_inbound("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
/// let Some(HttpPart::Whole(head, body)) = channel.read_inbound() else { panic!() };
/// assert_eq!((head.status.as_u16(), &body[..]), (200, &b"hello"[..]));
/// ```
#[derive(Debug)]
pub struct HttpClient {
    limits: Arc<HttpLimits>,
    wire: Wire,
    decoder: ReplyDecoder,
    requests: Requests,
    interim: u32,
    /// The connection ends with the reply that is being read.
    closes: bool,
    /// That was told.
    told_last: bool,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    Switched,
    Over,
}

static DEFAULTS: LazyLock<Arc<HttpLimits>> = LazyLock::new(|| Arc::new(HttpLimits::client()));

/// The limits of clients that have none of their own.
pub(crate) fn client_limits() -> Arc<HttpLimits> {
    DEFAULTS.clone()
}

impl HttpClient {
    /// A codec with [`HttpLimits::client`].
    pub fn new() -> Self {
        Self::with(DEFAULTS.clone())
    }

    /// A codec with limits of your own; an `Arc` of them is shared by many connections. Those that are about time are not
    /// used: whoever waits for a reply knows how long.
    pub fn with(limits: impl Into<Arc<HttpLimits>>) -> Self {
        Self {
            limits: limits.into(),
            wire: Wire::default(),
            decoder: ReplyDecoder::default(),
            requests: Requests::default(),
            interim: 0,
            closes: false,
            told_last: false,
            phase: Phase::Reading,
        }
    }

    /// Targets with scheme and host are written as they are, as proxies want them.
    pub fn absolute_targets(mut self, absolute: bool) -> Self {
        self.requests.absolute = absolute;
        self
    }

    fn said(&mut self, cx: &mut Context<'_, Self>, said: Said, asked: Asked) -> Result<(), HttpError> {
        match said {
            Said::Interim => {
                self.interim += 1;
                if self.interim > INTERIM_MAX {
                    let (max, got) = (u64::from(INTERIM_MAX), u64::from(self.interim));
                    return Err(HttpError::TooMuch { limit: Limit::Interim, max, got });
                }
            }
            Said::Reply { close, switches } => {
                self.interim = 0;
                self.closes |= (close || asked.close) && !switches;
                if switches {
                    self.phase = Phase::Switched;
                }
                if switches || self.closes {
                    self.tell_last(cx);
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn tell_last(&mut self, cx: &mut Context<'_, Self>) {
        if !std::mem::replace(&mut self.told_last, true) {
            cx.fire_event(Event::new(LastReply));
        }
    }

    fn over(&mut self, cx: &mut Context<'_, Self>) {
        self.requests.answered();
        if self.requests.awaited().is_none() && !self.wire.input.is_empty() {
            self.tell_last(cx); // nobody has asked for what is behind it
        }
        if self.closes {
            self.phase = Phase::Over;
            cx.close_when_flushed();
        }
    }

    #[cold]
    fn fail(&mut self, cx: &mut Context<'_, Self>, error: HttpError) {
        self.phase = Phase::Over;
        self.requests.give_up();
        drop(self.wire.input.take());
        let fault = Fault::new(error);
        cx.fire_error(fault.clone());
        // Behind what was written because of the error, which passes this stage when this call has returned.
        cx.caller().call(move |_, cx| cx.close_because(CloseCause::Fault(fault)));
    }

    /// The peer sends no more.
    fn input_ended(&mut self, cx: &mut Context<'_, Self>, in_order: bool) {
        if self.phase != Phase::Reading {
            return;
        }
        if in_order && self.decoder.ends_with_connection() {
            self.phase = Phase::Over;
            self.requests.answered();
            cx.fire_read(HttpPart::End(None));
        }
        let within = if !self.decoder.is_between() {
            Within::Body
        } else if !self.wire.input.is_empty() {
            Within::Head
        } else if self.requests.awaited().is_some() {
            Within::Waiting
        } else {
            return;
        };
        self.fail(cx, HttpError::Premature { within });
    }
}

impl Default for HttpClient {
    fn default() -> Self {
        Self::new()
    }
}

impl Handler for HttpClient {
    type Read = BytesMut;
    type ReadOut = ReplyPart;
    type Write = RequestPart;
    type WriteOut = Outgoing;
    const WEIGHT: Weight<RequestPart> = HttpPart::WEIGHT;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        if self.phase != Phase::Over {
            self.wire.input.feed(bytes);
        }
        if self.phase == Phase::Switched
            && let Some(error) = self.wire.unclaimed(self.limits.linger)
        {
            self.fail(cx, error);
        }
    }

    fn pull(&mut self, cx: &mut Context<'_, Self>) -> Option<ReplyPart> {
        if self.phase != Phase::Reading {
            self.wire.input.put_aside();
            return None;
        }
        let Some(asked) = self.requests.awaited() else {
            if !self.wire.input.is_empty() {
                self.fail(cx, Grammar::Unasked.into());
            }
            self.wire.input.put_aside();
            return None;
        };
        match self.decoder.next(&mut self.wire.input.bytes, &self.limits, asked) {
            Ok(Some((part, said))) => {
                if let Err(error) = said.map_or(Ok(()), |said| self.said(cx, said, asked)) {
                    self.fail(cx, error);
                    return None;
                }
                if matches!(part, HttpPart::Whole(..) | HttpPart::End(_)) {
                    self.over(cx);
                }
                Some(part)
            }
            Ok(None) => {
                self.wire.input.put_aside();
                None
            }
            Err(error) => {
                self.fail(cx, error);
                None
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, part: RequestPart, mut done: WritePromise) {
        if self.phase != Phase::Reading {
            return done.fail(WriteError::Fault(Fault::new(HttpError::from(Misuse::AfterClose))));
        }
        if !self.wire.claim(cx, &mut done) {
            return;
        }
        self.wire.out.begin();
        match self.requests.write(part, &mut self.wire.out) {
            Ok(()) => self.wire.out.written(cx, done),
            Err(error) => {
                done.fail(WriteError::Fault(Fault::new(error.clone())));
                if self.requests.is_within() {
                    self.fail(cx, error); // the server could not tell where the next one begins
                } else {
                    cx.fire_error(error);
                }
            }
        }
    }

    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        self.wire.flush(cx);
    }

    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        self.input_ended(cx, true);
        cx.fire_input_closed();
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        // Of what our side has decided the peer is not to blame: that is told as it is.
        let ours = matches!(cause, CloseCause::TimedOut(_) | CloseCause::TooSlow(_) | CloseCause::ShutDown);
        if !ours {
            self.input_ended(cx, matches!(cause, CloseCause::PeerClosed));
        }
        self.phase = Phase::Over;
        cx.fire_inactive(cause);
    }

    fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        self.wire.close(cx, cause, done);
    }

    fn shut_down_output(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
        self.wire.shut_down_output(cx, done);
    }

    fn leftover(&mut self) -> Leftover<BytesMut> {
        self.wire.leftover()
    }

    fn name(&self) -> &'static str {
        "HttpClient"
    }
}
