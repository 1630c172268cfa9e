//! How streams and connections end.
//!
//! | what happens | the peer is told | the child's cause |
//! | --- | --- | --- |
//! | both sides have said all | nothing more | closed in order |
//! | a reply is whole before its request | RST_STREAM(NO_ERROR) | reset with that |
//! | a child closes, or its function returns | RST_STREAM(CANCEL) | its own |
//! | a child panics | 500 if nothing was said yet, else RST_STREAM(INTERNAL_ERROR) | the panic |
//! | the peer resets a stream | nothing | reset with its code |
//! | the peer breaks the rules on a stream | RST_STREAM with the code | the error |
//! | it breaks them on the connection, or its points are used up | GOAWAY with the code | the error |
//! | the server shuts down, or the connection is old | GOAWAY twice: when it begins, and when the peer knows | as each ends |

use super::{
    Core, Cx, DRAIN_PING, Drain, Http2, Http2Error, Phase,
    points::price,
    side::{Role, Side},
    stream::Half,
};
use crate::{
    codec::{
        RequestRefused,
        h2::{code::ErrorCode, frame::encode},
    },
    error::{HttpError, Within},
    message::HttpPart,
};
use netwright_core::{CloseCause, Event, Fault, Segment, ShuttingDown, WriteError};

/// Until the peer has said which streams it knows of, it is told that all may be answered.
const LAST_POSSIBLE: u32 = (1 << 31) - 1;

#[allow(private_bounds)]
impl<S, P, F> Http2<S, P, F>
where
    S: Role,
    P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
    F: FnMut() -> P + 'static,
{
    // ---- streams ----

    /// Ends a stream of which the peer knows that it is over.
    pub(super) fn end_stream(&mut self, cx: &mut Cx<'_, S, P, F>, place: u32, cause: CloseCause) {
        let Some(stream) = self.core.streams.get(place) else { return };
        let credit = self.children.end(stream.key, cause);
        self.core.forget(place, credit);
        S::has_room(self, cx);
    }

    /// The peer broke the rules on one stream.
    #[cold]
    pub(super) fn refuse_stream(&mut self, cx: &mut Cx<'_, S, P, F>, error: Http2Error) {
        let Some(id) = error.stream else { return };
        if S::is_idle(&self.core, id) {
            let Http2Error { why, .. } = error; // what nobody has opened cannot be reset
            return self.fail(cx, Http2Error::connection(error.code, why));
        }
        tracing::debug!(channel = %cx.view().id(), %error, "stream reset");
        if let Err(error) = self.charge(cx, price::RESET) {
            return self.fail(cx, error);
        }
        self.core.write_reset_of(id, error.code);
        if let Some(place) = self.core.streams.place(id) {
            self.tell_refusal(place, &error.clone().into());
            self.end_stream(cx, place, CloseCause::Fault(Fault::new(HttpError::from(error))));
        }
    }

    /// A limit was passed, or a deadline: the peer is told by a reply, if none has begun.
    #[cold]
    pub(super) fn refuse(&mut self, cx: &mut Cx<'_, S, P, F>, place: u32, error: HttpError) {
        tracing::debug!(channel = %cx.view().id(), %error, "refused");
        self.tell_refusal(place, &error);
        let core = &mut self.core;
        let Some(stream) = core.streams.get(place) else { return };
        let (status, why) = (error.status(), error.to_string());
        let told =
            stream.output == Half::Idle && S::refusal(&mut core.side, &mut core.writer, stream, status, &why);
        let code = if told { ErrorCode::NO_ERROR } else { ErrorCode::CANCEL };
        if !told || stream.input != Half::Over {
            core.write_reset(place, code);
        }
        self.end_stream(cx, place, CloseCause::Fault(Fault::new(error)));
    }

    fn tell_refusal(&mut self, place: u32, error: &HttpError) {
        if let (true, Some(stream)) = (S::IS_SERVER, self.core.streams.get(place)) {
            let event = Event::new(RequestRefused(error.clone()));
            self.children.with(stream.key, |child| child.tell(event));
        }
    }

    // ---- the connection ----

    /// The peer broke the rules, and nothing that it sends can be trusted any more.
    #[cold]
    pub(super) fn fail(&mut self, cx: &mut Cx<'_, S, P, F>, error: Http2Error) {
        if self.core.is_over() {
            return;
        }
        tracing::debug!(channel = %cx.view().id(), %error, "refused");
        let (code, why) = (error.code, error.why.clone());
        let error = HttpError::from(error);
        let cause = CloseCause::Fault(Fault::new(error.clone()));
        self.refuse_asks();
        self.end_streams(cx, &cause, Some(&error));
        self.core.write_goaway(self.core.last_answered(), code, why.as_bytes());
        self.core.writer.out.flush(cx);
        cx.flush();
        self.core.input.take();
        self.finish(cx, cause);
    }

    /// All is said. The peer gets time to read it: what it still sends, if only credit, would have the system take the rest from it if the
    /// socket were closed.
    fn finish(&mut self, cx: &mut Cx<'_, S, P, F>, cause: CloseCause) {
        self.core.clock.stop(cx);
        if self.core.input_over {
            self.core.phase = Phase::Closing;
            return cx.close_when_flushed();
        }
        let in_order = !matches!(cause, CloseCause::Fault(_));
        self.core.phase = Phase::Lingering;
        self.core.clock.cause = Some(cause);
        self.linger(cx, in_order);
        cx.shut_down_output();
    }

    /// Ends all streams.
    fn end_streams(&mut self, cx: &mut Cx<'_, S, P, F>, cause: &CloseCause, refused: Option<&HttpError>) {
        for place in self.core.streams.all() {
            if let Some(error) = refused {
                self.tell_refusal(place, error);
            }
            self.end_stream(cx, place, cause.clone());
        }
    }

    /// Ends the connection now, because of something that is nobody's mistake.
    pub(super) fn end_now(&mut self, cx: &mut Cx<'_, S, P, F>, cause: CloseCause) {
        self.say_goodbye(&cause);
        self.core.writer.out.flush(cx);
        cx.flush();
        self.core.phase = Phase::Closing;
        cx.close_because(cause);
    }

    /// The last frame of a connection.
    pub(super) fn say_goodbye(&mut self, cause: &CloseCause) {
        if self.core.is_over() || matches!(self.core.phase, Phase::Preface(_)) {
            return;
        }
        let code = match cause {
            CloseCause::Panicked(_) | CloseCause::Fault(_) => ErrorCode::INTERNAL_ERROR,
            _ => ErrorCode::NO_ERROR,
        };
        self.core.write_goaway(self.core.last_answered(), code, b"");
    }

    /// The peer sends no more. What it has asked for as a whole is answered.
    pub(super) fn input_ended(&mut self, cx: &mut Cx<'_, S, P, F>) {
        self.core.input_over = true;
        match self.core.phase {
            Phase::Closing => return,
            Phase::Lingering => return self.peer_has_ended(cx),
            Phase::Preface(_) | Phase::Open => {}
        }
        self.core.input.take(); // half a frame stays half a frame
        self.core.block = None;
        self.core.clock.input_over();
        let gone = S::gone(&self.core);
        for place in self.core.streams.all() {
            let Some(stream) = self.core.streams.get(place) else { continue };
            if stream.input != Half::Over || !S::IS_SERVER {
                let within = if stream.input == Half::Idle { Within::Waiting } else { Within::Body };
                let error = gone.clone().unwrap_or(HttpError::Premature { within });
                self.tell_refusal(place, &error);
                self.end_stream(cx, place, CloseCause::Fault(Fault::new(error)));
            }
        }
        self.core.drain = Drain::Last(self.core.last); // nothing can come any more
        self.look(cx);
    }

    // ---- in order ----

    /// What was asked is answered, and what is asked until the peer knows; then the connection ends.
    pub(super) fn drain(&mut self, cx: &mut Cx<'_, S, P, F>) {
        if self.core.drain != Drain::No || self.core.is_over() {
            return;
        }
        self.core.drain = Drain::Announced;
        self.core.clock.draining(cx.now());
        if !S::IS_SERVER {
            return self.drain_behind_last(cx); // nobody opens streams but us
        }
        if !self.core.clock.greeted {
            return self.end_now(cx, CloseCause::ShutDown);
        }
        self.tell_shutdown();
        self.core.write_goaway(LAST_POSSIBLE, ErrorCode::NO_ERROR, b"");
        encode::ping(&mut self.core.writer.out.buffer, false, DRAIN_PING);
        self.watch_anew(cx);
        self.look(cx);
    }

    /// Streams that go on until somebody ends them, tunnels for instance, have to know.
    fn tell_shutdown(&mut self) {
        for place in self.core.streams.all() {
            if let Some(stream) = self.core.streams.get(place) {
                self.children.with(stream.key, |child| child.tell(Event::new(ShuttingDown)));
            }
        }
    }

    /// The peer knows of the end.
    pub(super) fn drain_behind_last(&mut self, cx: &mut Cx<'_, S, P, F>) {
        self.core.drain = Drain::Last(self.core.last);
        self.refuse_asks();
        self.core.write_goaway(self.core.last, ErrorCode::NO_ERROR, b"");
        self.core.writer.out.flush(cx);
        cx.flush();
        self.end_if_drained(cx);
    }

    /// No more streams are opened here.
    pub(super) fn refuse_asks(&mut self) {
        for (ask, done) in std::mem::take(&mut self.asks) {
            drop(ask);
            done.fail(WriteError::Closed(CloseCause::ShutDown));
        }
    }

    pub(super) fn end_if_drained(&mut self, cx: &mut Cx<'_, S, P, F>) {
        let drained = matches!(self.core.drain, Drain::Last(_)) && self.core.streams.is_empty();
        if !drained || self.core.is_over() {
            return;
        }
        if S::IS_SERVER && self.core.opened > 0 {
            return self.finish(cx, CloseCause::Requested);
        }
        self.core.phase = Phase::Closing; // who has read all that was asked for waits for nothing
        cx.close_when_flushed();
    }
}

impl<S: Side> Core<S> {
    /// The last stream that was looked at: never more than what was said before.
    fn last_answered(&self) -> u32 {
        match self.drain {
            Drain::Last(last) if S::IS_SERVER => last,
            _ => self.last,
        }
    }

    fn write_goaway(&mut self, last: u32, code: ErrorCode, why: &[u8]) {
        self.writer.begin();
        encode::go_away(&mut self.writer.out.buffer, last, code, &why[..why.len().min(256)]);
    }
}
