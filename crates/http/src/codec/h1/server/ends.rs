//! How a connection ends: with a peer that is refused, an application that wrote what cannot be, or in order.

use super::{HttpServer, Phase, Refusal, RequestRefused};
use crate::{
    codec::date,
    error::{HttpError, Misuse, Within},
    message::{HttpPart, ReplyPart},
};
use http::StatusCode;
use netwright_core::{CloseCause, Context, Event, Fault, WriteError, WritePromise};

impl HttpServer {
    #[cold]
    pub(super) fn refuse(&mut self, cx: &mut Context<'_, Self>, error: HttpError) {
        let of_body = !self.decoder.is_between();
        tracing::debug!(channel = %cx.view().id(), %error, "refused");
        self.throw_away();
        self.refused = Some(Refusal { error: error.clone(), of_body });
        cx.fire_event(Event::new(RequestRefused(error)));
        self.tell_refusal(cx);
    }

    /// Writes the reply to what was refused, once everything that was asked before is answered.
    pub(super) fn tell_refusal(&mut self, cx: &mut Context<'_, Self>) {
        let Some(refusal) = &self.refused else { return };
        let before = self.decoded - u64::from(refusal.of_body);
        if self.answered() < before {
            return;
        }
        let (error, of_body) = (refusal.error.clone(), refusal.of_body);
        let half_written = self.replies.is_within();
        let answered = of_body && self.answered() == self.decoded;
        if !half_written && !answered {
            self.write_refusal(error.status(), &error);
        }
        self.refused = None;
        let cause = CloseCause::Fault(Fault::new(error));
        if half_written {
            // The peer sees that the reply is not whole by its end.
            self.wire.flush(cx);
            self.phase = Phase::Closing;
            return cx.close_because(cause);
        }
        self.finish(cx, cause);
    }

    fn write_refusal(&mut self, status: StatusCode, error: &HttpError) {
        if self.wire.out.begin() {
            date::refresh();
        }
        self.replies.refuse(&mut self.wire.out.buffer, status, &error.to_string());
    }

    /// The application wrote what cannot be sent.
    #[cold]
    pub(super) fn misused(&mut self, cx: &mut Context<'_, Self>, error: HttpError, done: WritePromise) {
        done.fail(WriteError::Fault(Fault::new(error.clone())));
        if matches!(error, HttpError::Misuse(Misuse::NoRequest | Misuse::AfterClose)) {
            tracing::debug!(channel = %cx.view().id(), %error, "nothing was written");
            return;
        }
        tracing::error!(channel = %cx.view().id(), %error, "a reply was not written as it should be, closing the connection");
        let cause = CloseCause::Fault(Fault::new(error.clone()));
        if self.replies.is_within() || self.replies.waiting() == 0 {
            self.wire.flush(cx);
            self.phase = Phase::Closing;
            return cx.close_because(cause);
        }
        self.write_refusal(StatusCode::INTERNAL_SERVER_ERROR, &error);
        self.finish(cx, cause);
    }

    /// A piece of what is no HTTP any more, or the end of our side.
    pub(super) fn write_to_tunnel(
        &mut self,
        cx: &mut Context<'_, Self>,
        part: ReplyPart,
        mut done: WritePromise,
    ) {
        if !self.wire.claim(cx, &mut done) {
            return;
        }
        match part {
            HttpPart::Data(bytes) => self.wire.out.bytes(bytes),
            HttpPart::File(region) => self.wire.out.file(region.within_message()),
            HttpPart::End(_) => {
                self.phase = Phase::TunnelEnds;
                self.wire.flush(cx);
                cx.shut_down_output_with(done);
                self.watch_tunnel(cx);
                return self.end_tunnel(cx);
            }
            HttpPart::Head(_) | HttpPart::Whole(..) | HttpPart::Interim(_) => {
                return self.misused(cx, Misuse::HeadWithinBody.into(), done);
            }
        }
        self.wire.out.written(cx, done);
    }

    /// Both directions may be over.
    pub(super) fn end_tunnel(&mut self, cx: &mut Context<'_, Self>) {
        if self.input_over && self.phase == Phase::TunnelEnds {
            self.phase = Phase::Closing;
            cx.close_when_flushed();
        }
    }

    /// Everything is written. The peer gets time to read it if something of its own is still on its way: closing a socket
    /// with bytes unread would take the reply from it.
    pub(super) fn finish(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.wire.flush(cx);
        self.release(cx);
        self.stop_reading(cx);
        let unread = !self.decoder.is_between() || !self.wire.input.is_empty();
        let in_order = !matches!(cause, CloseCause::Fault(_));
        if in_order && !unread {
            self.phase = Phase::Closing;
            return cx.close_when_flushed();
        }
        self.phase = Phase::Lingering;
        self.throw_away();
        self.linger(cx);
        cx.shut_down_output();
    }

    /// What has come is not looked at.
    fn throw_away(&mut self) {
        self.timers.lingered += self.wire.input.take().len() as u64;
    }

    /// The peer sends no more. What has come is looked at first, as far as it is not waiting for replies.
    pub(super) fn input_ended(&mut self, cx: &mut Context<'_, Self>) {
        if self.phase != Phase::Reading || self.refused.is_some() {
            return;
        }
        self.input_over = true;
        if self.decoder.is_between() && self.wire.input.is_empty() {
            self.replies.closing = true; // the last reply closes
            self.finish_if_answered(cx, CloseCause::PeerClosed);
        } else if let Some(within) = self.is_premature() {
            self.refuse(cx, HttpError::Premature { within });
        }
    }

    /// The channel has ended. Nobody is told but the stages behind.
    pub(super) fn ended(&mut self, cx: &mut Context<'_, Self>) {
        if self.phase == Phase::Reading
            && self.refused.is_none()
            && let Some(within) = self.is_premature()
        {
            cx.fire_event(Event::new(RequestRefused(HttpError::Premature { within })));
        }
    }

    /// In what an end of input would be now.
    fn is_premature(&self) -> Option<Within> {
        match (self.decoder.is_between(), self.wire.input.is_empty()) {
            (false, _) => Some(Within::Body),
            (true, false) if self.takes_requests() => Some(Within::Head),
            _ => None,
        }
    }

    pub(super) fn finish_if_answered(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        if self.replies.waiting() == 0 {
            self.finish(cx, cause);
        }
    }
}
