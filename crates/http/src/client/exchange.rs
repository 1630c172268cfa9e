//! The last stage of a client's connection: one request after the other, each with the promise of its reply.
//!
//! ```text
//!   Ask { request, promise } ──▶ Head Data … End ──▶ codec
//!                  promise  ◀── Response<Body> ◀── Head
//!                  body     ◀── [ pipe ]       ◀── Data …      received when somebody reads
//! ```
//! Always true:
//! 1. A connection goes back to its pool when the reply is over and the request is sent; otherwise it is closed.
//! 2. Every promise is kept or broken: by the reply, by the deadline, or by the end of the connection.

use super::ClientError;
use crate::{
    body::{Body, Piece, Pipe, broken_off},
    error::HttpError,
    head::ReplyHead,
    message::{Part, ReplyPart, RequestPart},
};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use netwright_core::{CloseCause, Context, Fault, Handler, Promise, StageTimer, WritePromise};
use netwright_transport::Pooled;
use std::{
    convert::Infallible,
    future::poll_fn,
    sync::Arc,
    task::{self, Poll, Waker},
    time::Duration,
};

/// A request, and who waits for its reply.
pub(super) struct Ask {
    pub(super) request: Request<Body>,
    pub(super) reply: Promise<Response<Body>, ClientError>,
    /// The connection that this is written to, to be given back when it is free.
    pub(super) pooled: Pooled<Ask>,
    pub(super) times: Times,
}

impl Ask {
    /// It will not be answered, and its connection is of no use.
    #[cfg(feature = "tls")]
    pub(super) fn refuse(self, error: ClientError) {
        self.reply.fail(error);
        self.pooled.discard();
    }
}

/// How long things may take. Zero: no limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) head: Duration,
    pub(super) total: Duration,
}

/// One exchange after the other.
#[derive(Default)]
pub(super) struct Exchange {
    current: Option<Current>,
    /// A message was asked for and has not come.
    asked: bool,
    /// What was asked before there was a connection to ask.
    before: Vec<Ask>,
}

struct Current {
    reply: Option<Promise<Response<Body>, ClientError>>,
    pooled: Option<Pooled<Ask>>,
    incoming: Option<Arc<Pipe>>,
    sending: Option<Sending>,
    /// The reply is over.
    replied: bool,
    head_timer: Option<(StageTimer, Duration)>,
    total_timer: Option<(StageTimer, Duration)>,
}

enum Sending {
    Body(Body),
    /// A future waits for the next piece.
    Waiting,
}

type Cx<'a> = Context<'a, Exchange>;

impl Exchange {
    /// One that takes over what was asked before it was there.
    #[cfg(feature = "tls")]
    pub(super) fn after(asked: Vec<Ask>) -> Self {
        Self { before: asked, ..Self::default() }
    }

    fn begin(&mut self, cx: &mut Cx<'_>, ask: Ask) {
        let Ask { request, reply, pooled, times } = ask;
        if self.current.is_some() {
            reply.fail(HttpError::from(crate::error::Misuse::HeadWithinBody).into());
            return; // the pool lends to one at a time
        }
        let mut arm = |limit: Duration| (!limit.is_zero()).then(|| (cx.arm(limit), limit));
        let (head_timer, total_timer) = (arm(times.head), arm(times.total));
        let (mut head, body) = request.into_parts();
        let sending = match body.into_full() {
            Ok(bytes) => {
                cx.write(Part::Whole(head.into(), bytes));
                None
            }
            Err(body) => {
                if let Some(len) = body.len()
                    && !head.headers.contains_key(header::CONTENT_LENGTH)
                {
                    head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
                }
                cx.write(Part::Head(head.into()));
                match body.into_file() {
                    Ok(region) => {
                        cx.write(Part::File(region));
                        cx.write(Part::End(None));
                        None
                    }
                    Err(body) => Some(Sending::Body(body)),
                }
            }
        };
        self.current = Some(Current {
            reply: Some(reply),
            pooled: Some(pooled),
            incoming: None,
            sending,
            replied: false,
            head_timer,
            total_timer,
        });
        cx.flush();
        self.go_on(cx);
    }

    fn go_on(&mut self, cx: &mut Cx<'_>) {
        self.send(cx);
        let Some(current) = &self.current else { return };
        if current.replied && current.sending.is_none() {
            return self.over(cx);
        }
        if current.incoming.as_ref().is_some_and(|pipe| pipe.is_left()) {
            return self.break_off(cx, ClientError::Closed(CloseCause::Requested));
        }
        let wanted = current.incoming.as_ref().is_none_or(|pipe| pipe.is_wanted());
        if wanted && !current.replied && !self.asked {
            self.asked = true;
            cx.request();
        }
    }

    /// Writes of the request's body what is there and there is room for.
    fn send(&mut self, cx: &mut Cx<'_>) {
        let mut sent = false;
        while let Some(Current { sending: Some(Sending::Body(body)), .. }) = &mut self.current {
            if !cx.is_writable() {
                break;
            }
            match body.poll_piece(&mut task::Context::from_waker(Waker::noop())) {
                Poll::Ready(piece) => {
                    sent = true;
                    self.sent(cx, piece);
                }
                Poll::Pending => {
                    self.wait_for_piece(cx);
                    break;
                }
            }
        }
        if sent {
            cx.flush();
        }
    }

    fn wait_for_piece(&mut self, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        let Some(Sending::Body(mut body)) = current.sending.replace(Sending::Waiting) else { return };
        let next = async move {
            let piece = poll_fn(|cx| body.poll_piece(cx)).await;
            (body, piece)
        };
        cx.spawn(next, |stage: &mut Self, cx, (body, piece)| {
            let Some(current) = stage.current.as_mut().filter(|current| current.sending.is_some()) else {
                return;
            };
            current.sending = Some(Sending::Body(body));
            stage.sent(cx, piece);
            cx.flush();
            stage.go_on(cx);
        });
    }

    fn sent(&mut self, cx: &mut Cx<'_>, piece: Result<Piece, HttpError>) {
        match piece {
            Ok(Piece::Data(bytes)) => cx.write(Part::Data(bytes)),
            Ok(Piece::End(trailers)) => {
                if let Some(current) = &mut self.current {
                    current.sending = None;
                }
                cx.write(Part::End(trailers));
            }
            Err(error) => self.break_off(cx, error.into()),
        }
    }

    fn head(&mut self, cx: &mut Cx<'_>, head: ReplyHead, body: Option<Bytes>) {
        let Some(current) = &mut self.current else { return };
        if let Some((timer, _)) = current.head_timer.take() {
            cx.disarm(timer);
        }
        let body = match body {
            Some(bytes) => {
                current.replied = true;
                Body::from(bytes)
            }
            None => {
                let back = cx.caller();
                let pipe = Pipe::poking(move || back.call(|stage: &mut Self, cx| stage.go_on(cx)));
                current.incoming = Some(pipe.clone());
                let length = head.headers.get(header::CONTENT_LENGTH);
                Body::incoming(pipe, length.and_then(|length| length.to_str().ok()?.parse().ok()))
            }
        };
        if let Some(reply) = current.reply.take() {
            reply.succeed(Response::from_parts(head.into_parts(), body));
        }
    }

    /// The exchange is complete: the connection is free.
    fn over(&mut self, cx: &mut Cx<'_>) {
        if let Some(mut current) = self.current.take() {
            current.disarm(cx);
            drop(current.pooled.take());
        }
    }

    /// The exchange will not be completed, and the connection cannot be used again.
    fn break_off(&mut self, cx: &mut Cx<'_>, error: ClientError) {
        let Some(mut current) = self.current.take() else { return };
        current.disarm(cx);
        current.fail(error);
        cx.close();
    }
}

impl Current {
    fn disarm(&mut self, cx: &mut Cx<'_>) {
        for (timer, _) in [self.head_timer.take(), self.total_timer.take()].into_iter().flatten() {
            cx.disarm(timer);
        }
    }

    fn fail(&mut self, error: ClientError) {
        if let Some(pipe) = self.incoming.take() {
            pipe.end(Err(match &error {
                ClientError::Http(error) => error.clone(),
                ClientError::Closed(_) => broken_off(),
                other => HttpError::Aborted(other.to_string()),
            }));
        }
        if let Some(reply) = self.reply.take() {
            reply.fail(error);
        }
        if let Some(pooled) = self.pooled.take() {
            pooled.discard();
        }
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        self.fail(ClientError::LoopEnded); // if nothing else was said before
    }
}

impl Handler for Exchange {
    type Read = ReplyPart;
    type ReadOut = Infallible;
    type Write = Ask;
    type WriteOut = RequestPart;

    fn active(&mut self, cx: &mut Cx<'_>) {
        cx.pause();
        // A server may close what nobody uses: that is seen only if somebody reads.
        self.asked = true;
        cx.request();
        for ask in std::mem::take(&mut self.before) {
            self.begin(cx, ask);
        }
    }

    fn read(&mut self, cx: &mut Cx<'_>, part: ReplyPart) {
        self.asked = false;
        match part {
            Part::Whole(head, body) => self.head(cx, head, Some(body)),
            Part::Head(head) => self.head(cx, head, None),
            Part::Data(bytes) => {
                if let Some(pipe) = self.current.as_ref().and_then(|current| current.incoming.as_ref()) {
                    drop(pipe.put(bytes));
                }
            }
            Part::End(trailers) => {
                if let Some(current) = &mut self.current {
                    current.replied = true;
                    if let Some(pipe) = current.incoming.take() {
                        pipe.end(Ok(trailers));
                    }
                }
            }
            Part::Interim(_) | Part::File(_) => {}
        }
        self.go_on(cx);
        if self.current.is_none() && !self.asked {
            self.asked = true;
            cx.request();
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

    fn error(&mut self, cx: &mut Cx<'_>, fault: Fault) {
        let error = match fault.downcast_ref::<HttpError>() {
            Some(error) => ClientError::Http(error.clone()),
            None => ClientError::Closed(CloseCause::Fault(fault.clone())),
        };
        if let Some(mut current) = self.current.take() {
            current.disarm(cx);
            current.fail(error);
        }
        cx.close_because(CloseCause::Fault(fault));
    }

    fn timer(&mut self, cx: &mut Cx<'_>, timer: StageTimer) {
        let Some(current) = &self.current else { return };
        let due = |timer_of: Option<(StageTimer, Duration)>| {
            timer_of.filter(|(armed, _)| *armed == timer).map(|(_, limit)| limit)
        };
        if let Some(limit) = due(current.head_timer) {
            self.break_off(cx, ClientError::TimedOut { what: "the reply", limit });
        } else if let Some(limit) = due(current.total_timer) {
            self.break_off(cx, ClientError::TimedOut { what: "the end of the reply", limit });
        }
    }

    fn inactive(&mut self, cx: &mut Cx<'_>, cause: CloseCause) {
        if let Some(mut current) = self.current.take() {
            current.fail(ClientError::Closed(cause.clone()));
        }
        cx.fire_inactive(cause);
    }

    fn name(&self) -> &'static str {
        "Exchange"
    }
}
