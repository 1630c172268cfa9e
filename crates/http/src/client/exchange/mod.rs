//! The last stage of a client's connection: one request after the other, each with the promise of its reply.
//!
//! ```text
//!   Ask { request, promise } ──▶ Head Data … End ──▶ codec
//!                  promise  ◀── Response<Body> ◀── Head
//!                  body     ◀── [ pipe ]       ◀── Data …      received when somebody reads
//! ```
//! Always true:
//! 1. A connection goes back to its pool when [`Dues`] say so; otherwise it is closed.
//! 2. Every promise is kept or broken: by the reply, by the deadline, or by the end of the connection.
//! 3. What cannot be written any more comes back unsent.
//! 4. On a stream of HTTP/2 there is one exchange, and what breaks it off closes the stream alone.
//!
//! | state | deadline |
//! | --- | --- |
//! | something of the request is unsent | its least rate; else ten times [`Times::head`] without any of it being taken |
//! | the request is sent, the head of the reply has not come | [`Times::head`] |
//! | the head has come, and somebody waits for the next piece of the body | [`Times::piece`] |
//! | all of it | [`Times::total`] |
//! | no exchange | none: the pool closes what nobody uses |

mod current;

use self::current::{Current, LOOKS, SOON, UNCHANGED_MAX, Upload};
use super::{
    WebClientError,
    ask::{Ask, GivenUp, Parts, Times},
    dues::{self, Dues, Verdict},
    room::Room,
    speaks::Speaks,
};
use crate::{
    LastReply,
    body::{Body, Later, Next, Piece, Pipe, Sending},
    codec::http2::ErrorCode,
    error::HttpError,
    grammar::content_length,
    message::{HttpPart, ReplyHead, ReplyPart, RequestPart},
};
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use netwright_core::{
    CloseCause, Context, Event, Fault, Handler, Promise, StageTimer, WritePromise, internal::catch, time,
};
use std::{
    convert::Infallible,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

/// One exchange after the other.
#[derive(Default)]
pub(super) struct Exchange {
    current: Option<Current>,
    /// A message was asked for and has not come.
    asked: bool,
    /// Nothing can be written any more.
    over: bool,
    /// What the proxy at the other end is told of us with each request.
    authorization: Option<HeaderValue>,
    /// It is the only stage of one stream of a connection, of which this is known.
    stream: Option<Arc<Room>>,
}

type Cx<'a> = Context<'a, Exchange>;

impl Exchange {
    /// One whose connection leads to a proxy that wants to know who we are. A request that says so itself is left as it is.
    pub(super) fn authorized(self, authorization: Option<HeaderValue>) -> Self {
        Self { authorization, ..self }
    }

    /// One on a stream of HTTP/2, which ends with its exchange.
    pub(super) fn on_stream(room: Arc<Room>) -> Self {
        Self { stream: Some(room), ..Self::default() }
    }

    /// Somebody does not wait any more: perhaps the one that this is for.
    pub(super) fn given_up(&mut self, cx: &mut Cx<'_>) {
        let waits = self.current.as_ref().and_then(|current| current.reply.as_ref());
        if waits.is_some_and(Promise::is_cancelled) {
            self.break_off(cx, WebClientError::Cancelled);
        }
    }

    fn begin(&mut self, cx: &mut Cx<'_>, mut ask: Ask) {
        if let Some(ready) = ask.ready.take() {
            match &self.stream {
                Some(room) => {
                    ready.succeed(Speaks::Http2(room.clone()));
                    cx.close(); // there is nothing to be said
                }
                None => ready.succeed(Speaks::Http1),
            }
            return;
        }
        if self.over || cx.view().close_cause().is_some() {
            let cause = cx.view().close_cause().cloned().unwrap_or(CloseCause::Requested);
            return ask.give_back(WebClientError::Closed(cause));
        }
        if self.current.is_some() {
            // The pool lends to one at a time.
            return ask.give_back(HttpError::from(crate::error::Misuse::HeadWithinBody).into());
        }
        let Times { head: limit, piece: piece_limit, total } = ask.times;
        let waited = ask.since.map_or(Duration::ZERO, |since| time::now().saturating_duration_since(since));
        if let Some(begun) = &ask.begun {
            let _ = begun.set(cx.caller()); // before it is asked whether somebody waits
        }
        let Some(Parts { request, reply, lease }) = ask.take() else { return };
        if reply.is_cancelled() {
            if self.stream.is_some() {
                cx.close(); // nobody waits for it any more
            }
            return; // and the connection goes back: nothing was written
        }
        let total_timer = (!total.is_zero()).then(|| (cx.arm(total.saturating_sub(waited).max(SOON)), total));
        let (mut head, body) = request.into_parts();
        if let Some(authorization) = &self.authorization {
            head.headers.entry(header::PROXY_AUTHORIZATION).or_insert_with(|| authorization.clone());
        }
        let mut current = Current {
            reply: Some(reply),
            lease: Some(lease),
            incoming: None,
            sending: None,
            dues: Dues { request: dues::Request::Written, replied: false, last: false },
            tracked: true,
            heard: false,
            limit,
            watch: None,
            upload: Upload::default(),
            pieces: None,
            piece_limit,
            silent_since: None,
            total_timer,
        };
        match body.into_full() {
            Ok(bytes) if bytes.is_empty() => {
                current.tracked = false;
                cx.write(HttpPart::Whole(head.into(), bytes));
            }
            Ok(bytes) => self.write_last(cx, HttpPart::Whole(head.into(), bytes)),
            Err(body) => {
                body.announce(&mut head.headers);
                cx.write(HttpPart::Head(head.into()));
                match body.into_file() {
                    Ok(region) => {
                        cx.write(HttpPart::File(region));
                        self.write_last(cx, HttpPart::End(None));
                    }
                    Err(body) => {
                        current.dues.request = dues::Request::Begun;
                        current.sending = Some(Sending::Body(body));
                    }
                }
            }
        }
        current.watch = current.watch_time().map(|time| cx.arm(time));
        self.current = Some(current);
        cx.flush();
        self.go_on(cx);
    }

    /// Writes the end of a request with a body, and hears when it is sent.
    fn write_last(&mut self, cx: &mut Cx<'_>, part: RequestPart) {
        let written = cx.write_tracked(part);
        // One that fails is told otherwise: by the error, or by the end.
        cx.spawn(written, |stage: &mut Self, cx, written| {
            if written.is_ok() {
                stage.request_sent(cx);
            }
        });
    }

    fn request_sent(&mut self, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        current.dues.request = dues::Request::Sent;
        if let Some(watch) = current.watch.take() {
            cx.disarm(watch);
        }
        if current.reply.is_some() {
            current.watch = current.watch_time().map(|time| cx.arm(time)); // from now on for the head
        }
        self.go_on(cx);
    }

    fn go_on(&mut self, cx: &mut Cx<'_>) {
        self.send(cx);
        let Some(current) = &mut self.current else { return };
        match current.dues.verdict() {
            Verdict::Wait => {}
            verdict => return self.over(cx, verdict),
        }
        if current.incoming.as_ref().is_some_and(|pipe| pipe.is_left()) {
            return self.break_off(cx, WebClientError::Closed(CloseCause::Requested));
        }
        let wanted = current.incoming.as_ref().is_none_or(|pipe| pipe.is_wanted());
        if wanted && !current.dues.replied && !self.asked {
            current.silent_since = current.incoming.is_some().then(time::now);
            self.ask(cx);
        }
    }

    /// Writes of the request's body what is there and there is room for.
    fn send(&mut self, cx: &mut Cx<'_>) {
        let mut sent = false;
        while let Some(Current { sending: Some(sending @ Sending::Body(_)), .. }) = &mut self.current {
            if !cx.is_writable() {
                break;
            }
            match catch(|| sending.next()) {
                Ok(Some(Next::Piece(piece))) => {
                    sent = true;
                    self.sent(cx, piece);
                }
                Ok(Some(Next::Later(later))) => {
                    cx.spawn(caught(later), |stage: &mut Self, cx, waited| match waited {
                        Ok((body, piece)) => stage.waited(cx, body, piece),
                        Err(panic) => stage.break_off(cx, WebClientError::Panicked(panic)),
                    });
                    break;
                }
                Ok(None) => break,
                Err(panic) => return self.break_off(cx, WebClientError::Panicked(panic)),
            }
        }
        if sent {
            cx.flush();
        }
    }

    /// A piece has come that was waited for, of an exchange that may be over.
    fn waited(&mut self, cx: &mut Cx<'_>, body: Body, piece: Result<Piece, HttpError>) {
        let Some(current) = self.current.as_mut().filter(|current| current.sending.is_some()) else { return };
        current.sending = Some(Sending::Body(body));
        self.sent(cx, piece);
        cx.flush();
        self.go_on(cx);
    }

    fn sent(&mut self, cx: &mut Cx<'_>, piece: Result<Piece, HttpError>) {
        match piece {
            Ok(Piece::Data(bytes)) => {
                if let Some(current) = &mut self.current {
                    current.upload.written += bytes.len() as u64;
                }
                cx.write(HttpPart::Data(bytes));
            }
            Ok(Piece::End(trailers)) => {
                if let Some(current) = &mut self.current {
                    current.sending = None;
                    current.dues.request = dues::Request::Written;
                }
                self.write_last(cx, HttpPart::End(trailers));
            }
            Err(error) => self.break_off(cx, error.into()),
        }
    }

    fn head(&mut self, cx: &mut Cx<'_>, head: ReplyHead, body: Option<Bytes>) {
        let Some(current) = &mut self.current else { return };
        if !current.tracked {
            match cx.view().unsent_bytes() + cx.view().pending_bytes() as u64 {
                0 => current.dues.request = dues::Request::Sent,
                _ => current.dues.last = true, // an answer to what the server cannot have
            }
        }
        if current.dues.request == dues::Request::Sent
            && let Some(watch) = current.watch.take()
        {
            cx.disarm(watch);
        }
        let body = match body {
            Some(bytes) => {
                current.dues.replied = true;
                Body::from(bytes)
            }
            None => {
                let back = cx.caller();
                let pipe = Pipe::poking(move || back.call(|stage: &mut Self, cx| stage.go_on(cx)));
                current.incoming = Some(pipe.clone());
                current.watch_pieces(cx, false);
                Body::incoming(pipe, content_length(&head.headers))
            }
        };
        if let Some(reply) = current.reply.take() {
            reply.succeed(Response::from_parts(head.into_parts(), body));
        }
    }

    /// Asks for one message more, unless one is asked for.
    fn ask(&mut self, cx: &mut Cx<'_>) {
        if !std::mem::replace(&mut self.asked, true) {
            cx.request();
        }
    }

    /// The exchange is complete.
    fn over(&mut self, cx: &mut Cx<'_>, verdict: Verdict) {
        let Some(mut current) = self.current.take() else { return };
        current.disarm(cx);
        let Some(lease) = current.lease.take() else { return };
        if self.stream.is_some() {
            self.over = true; // the stream sees itself that both sides have said all
            drop(lease);
        } else if verdict == Verdict::Lend {
            // The reply may have been over before its request was sent. Then nobody reads who would see that the server closes.
            self.ask(cx);
            drop(lease); // goes back
        } else {
            self.over = true;
            lease.discard();
        }
    }

    /// The exchange will not be completed, and the connection cannot be used again.
    fn break_off(&mut self, cx: &mut Cx<'_>, error: WebClientError) {
        let Some(mut current) = self.current.take() else { return };
        self.over = true;
        current.disarm(cx);
        current.fail(error);
        cx.close();
    }
}

/// Why a stream ended.
fn of_stream(cause: &CloseCause) -> WebClientError {
    match cause {
        CloseCause::Reset(code) if *code == u64::from(ErrorCode::REFUSED_STREAM.0) => WebClientError::Refused,
        CloseCause::Fault(fault) => match fault.downcast_ref::<HttpError>() {
            Some(error) => WebClientError::Http(error.clone()),
            None => WebClientError::Closed(cause.clone()),
        },
        _ => WebClientError::Closed(cause.clone()),
    }
}

/// Waits for a piece. If its body panics, whoever asked for the reply is told so.
async fn caught(mut later: Later) -> Result<(Body, Result<Piece, HttpError>), String> {
    let poll = |cx: &mut task::Context<'_>| match catch(|| Pin::new(&mut later).poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    };
    poll_fn(poll).await
}

impl Handler for Exchange {
    type Read = ReplyPart;
    type ReadOut = Infallible;
    type Write = Ask;
    type WriteOut = RequestPart;

    fn active(&mut self, cx: &mut Cx<'_>) {
        cx.pause();
        // A server may close what nobody uses: that is seen only if somebody reads.
        self.ask(cx);
    }

    fn read(&mut self, cx: &mut Cx<'_>, part: ReplyPart) {
        self.asked = false;
        if let Some(current) = &mut self.current {
            current.heard = true;
        }
        match part {
            HttpPart::Whole(head, body) => self.head(cx, head, Some(body)),
            HttpPart::Head(head) => self.head(cx, head, None),
            HttpPart::Data(bytes) => {
                if let Some(pipe) = self.current.as_ref().and_then(|current| current.incoming.as_ref()) {
                    drop(pipe.put(bytes));
                }
            }
            HttpPart::End(trailers) => {
                if let Some(current) = &mut self.current {
                    current.dues.replied = true;
                    if let Some(pipe) = current.incoming.take() {
                        pipe.end(Ok(trailers));
                    }
                }
            }
            HttpPart::Interim(_) | HttpPart::File(_) => {}
        }
        self.go_on(cx);
        if self.current.is_none() && !self.over {
            self.ask(cx);
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, ask: Ask, done: WritePromise) {
        self.begin(cx, ask);
        done.succeed();
    }

    fn writability(&mut self, cx: &mut Cx<'_>, writable: bool) {
        if writable {
            self.go_on(cx);
        }
    }

    fn event(&mut self, cx: &mut Cx<'_>, event: Event) {
        if event.get::<GivenUp>().is_some() {
            return self.given_up(cx);
        }
        if event.get::<LastReply>().is_none() {
            return;
        }
        match &mut self.current {
            Some(current) => current.dues.last = true,
            None => self.over = true,
        }
    }

    fn close(&mut self, cx: &mut Cx<'_>, cause: CloseCause, done: WritePromise) {
        self.over = true;
        cx.close_with(cause, done);
    }

    fn input_closed(&mut self, _: &mut Cx<'_>) {
        if self.current.is_none() {
            self.over = true;
        }
    }

    fn error(&mut self, cx: &mut Cx<'_>, fault: Fault) {
        self.over = true;
        let error = match fault.downcast_ref::<HttpError>() {
            Some(error) => WebClientError::Http(error.clone()),
            None => WebClientError::Closed(CloseCause::Fault(fault.clone())),
        };
        if let Some(mut current) = self.current.take() {
            current.disarm(cx);
            current.fail(error);
        }
        cx.close_because(CloseCause::Fault(fault));
    }

    fn timer(&mut self, cx: &mut Cx<'_>, timer: StageTimer) {
        let Some(current) = &mut self.current else { return };
        let limit = current.limit;
        if let Some((armed, limit)) = current.total_timer
            && armed == timer
        {
            self.break_off(cx, WebClientError::TimedOut { what: "the end of the reply", limit });
        } else if current.pieces == Some(timer) {
            let limit = current.piece_limit;
            if !current.watch_pieces(cx, self.asked) {
                self.break_off(cx, WebClientError::TimedOut { what: "the next piece of the reply", limit });
            }
        } else if current.watch != Some(timer) {
        } else if !current.is_uploading() {
            self.break_off(cx, WebClientError::TimedOut { what: "the reply", limit });
        } else if current.upload.is_stuck(cx.view().unsent_bytes(), cx.view().pending_bytes()) {
            let limit = limit.saturating_mul(UNCHANGED_MAX / LOOKS);
            self.break_off(cx, WebClientError::TimedOut { what: "room for more of the request", limit });
        } else {
            current.watch = current.watch_time().map(|time| cx.arm(time));
        }
    }

    fn inactive(&mut self, cx: &mut Cx<'_>, cause: CloseCause) {
        self.over = true;
        if let Some(mut current) = self.current.take() {
            current.fail(if self.stream.is_some() {
                of_stream(&cause)
            } else {
                WebClientError::Closed(cause.clone())
            });
        }
        cx.fire_inactive(cause);
    }

    /// A stream leaves its stage to the next one.
    fn start_over(&mut self) -> bool {
        (self.asked, self.over) = (false, false);
        self.current.is_none()
    }

    fn name(&self) -> &'static str {
        "Exchange"
    }
}
