//! Whose turn it is, and what is sent.
//!
//! ```text
//!   a child has news ──▶ served at once, if there is room and nobody waits
//!                   └──▶ [ turns ] ──▶ served when it is its turn, 16 KiB at a time
//!   no window  ──▶ waits until the peer grants more, for the stream or for the connection
//! ```

use super::{
    Core, Cx, Http2,
    points::{Points, price},
    side::{Body, Role},
    stream::{Half, Stream, Waits},
    window::SendWindow,
};
use crate::codec::h2::priority::Priority;
use crate::{
    codec::{
        date,
        h2::{code::ErrorCode, frame::encode, head, hpack},
        out::Out,
    },
    error::{HttpError, Misuse},
    message::HttpPart,
};
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use netwright_core::{
    Child, ChildKey, CloseCause, Context, Fault, Handler, Outgoing, Segment, WriteError, WritePromise,
};

/// What a stream may send before it is another one's turn, and the longest frame that we send.
const TURN: usize = 16 * 1024;
/// Turns at a time. What is sent fills the connection's room long before; what is thrown away, as a body for who asked for the head, does not.
const TURNS_MAX: usize = 256;
/// Frames of data from this length on earn more.
const MUCH: usize = 1024;
/// The most streams that we remember to have reset, whatever the limits say.
const RESETS_KEPT_MAX: usize = 1000;

/// Everything that is appended to.
pub(super) struct Writer {
    pub(super) out: Out,
    pub(super) encoder: hpack::Encoder,
    /// The longest frame that the peer takes.
    pub(super) frame: usize,
    /// How much may be sent on all streams together.
    pub(super) window: SendWindow,
    /// How much was.
    pub(super) sent: u64,
}

impl Writer {
    /// To be called before anything is appended.
    #[inline]
    pub(super) fn begin(&mut self) {
        if self.out.begin() {
            date::refresh();
        }
    }

    /// Appends a head, which `fields` writes; of one that cannot be written nothing stays.
    #[inline]
    pub(super) fn head<T>(
        &mut self,
        id: u32,
        ends: bool,
        fields: impl FnOnce(&mut hpack::Encoder, &mut BytesMut) -> Result<T, HttpError>,
    ) -> Result<T, HttpError> {
        let Self { out, encoder, frame, .. } = self;
        out.head(|buffer| encode::headers(buffer, id, ends, *frame, |block| fields(encoder, block)))
    }
}

/// What is next in a child's line.
enum Next {
    Head,
    Whole(usize),
    Data(usize),
    File(u64),
    End,
    Interim,
}

impl Next {
    fn of<H>(part: &HttpPart<H>) -> Self {
        match part {
            HttpPart::Head(_) => Self::Head,
            HttpPart::Whole(_, body) => Self::Whole(body.len()),
            HttpPart::Data(data) => Self::Data(data.len()),
            HttpPart::File(region) => Self::File(region.remaining()),
            HttpPart::End(_) => Self::End,
            HttpPart::Interim(_) => Self::Interim,
        }
    }
}

/// How far a stream has come with what it has to send.
enum Sent {
    /// All of it is on its way, or waits for something that calls.
    Enough,
    /// More can be sent when it is its turn again.
    More,
}

#[allow(private_bounds)]
impl<S, P, F> Http2<S, P, F>
where
    S: Role,
    P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
    F: FnMut() -> P + 'static,
{
    /// Looks who has something to say, and sends as much as there is room for. At the end of whatever may have called children.
    pub(super) fn look(&mut self, cx: &mut Cx<'_, S, P, F>) {
        let mut turns = 0;
        loop {
            while let Some(key) = self.children.next_ready() {
                self.serve(cx, key, false);
            }
            if self.core.turns.is_empty() || !cx.is_writable() {
                break;
            }
            if turns == TURNS_MAX {
                self.watch_anew(cx); // others on this loop have their turn first
                break;
            }
            turns += 1;
            let Some(place) = self.core.turns.pop() else { break };
            let Some(stream) = self.core.streams.get(place) else { continue };
            stream.waits = Waits::Nothing;
            let key = stream.key;
            self.serve(cx, key, true);
        }
        if self.core.is_over() {
            return; // the last word was said
        }
        if let Some(by) = self.core.recv.take_due() {
            self.core.writer.begin();
            encode::window_update(&mut self.core.writer.out.buffer, 0, by);
        }
        self.core.writer.out.flush(cx);
        cx.flush();
        self.end_if_drained(cx);
    }

    fn serve(&mut self, cx: &mut Cx<'_, S, P, F>, key: ChildKey, its_turn: bool) {
        let core = &mut self.core;
        let (mut ended, mut gave_up) = (None, false);
        let credit = self.children.end_if(key, |child| {
            let place = child.tag();
            let cause = core.serve(cx, place, child, its_turn)?;
            if !S::IS_SERVER {
                gave_up = core
                    .streams
                    .get(place)
                    .is_some_and(|stream| stream.id != 0 && stream.input != Half::Over);
            }
            ended = Some(place);
            Some(cause)
        });
        if gave_up {
            self.gave_up(cx);
        }
        if let (Some(place), Some(credit)) = (ended, credit) {
            self.core.forget(place, credit);
            S::has_room(self, cx);
        }
    }
}

#[allow(private_bounds)]
impl<S: Role> Core<S> {
    /// Does everything for a child that can be done now. The cause of its end, if it is at its end.
    fn serve<P, H>(
        &mut self,
        cx: &mut Context<'_, H>,
        place: u32,
        child: &mut Child<P, HttpPart<S::In>, HttpPart<S::Out>>,
        its_turn: bool,
    ) -> Option<CloseCause>
    where
        P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
        H: Handler<WriteOut = Outgoing>,
    {
        self.return_credit(place, child);
        let crowded = !its_turn && (!self.turns.is_empty() || !cx.is_writable());
        let Self { streams, turns, writer, side, points, .. } = self;
        let stream = streams.get(place)?;
        if stream.waits == Waits::Nothing && child.has_flushed() {
            if crowded {
                stream.waits = Waits::Turn;
                turns.push(place, stream.priority);
            } else {
                let had_number = stream.id != 0;
                let mut sender = Sender { stream, writer, side, points };
                let sent = sender.send(cx, child);
                let (id, priority) = (stream.id, stream.priority);
                if let Ok(Sent::More) = sent {
                    stream.waits = Waits::Turn;
                    turns.again(place, priority);
                }
                if !had_number && id != 0 {
                    streams.is_named(place, id);
                }
                match sent {
                    Ok(Sent::Enough | Sent::More) => {}
                    Err(error) => return Some(self.misused(cx, place, error)),
                }
            }
        }
        if S::IS_SERVER && self.streams.get(place)?.asked.expects {
            self.ask_for_body(place, child);
        }
        self.end_of(cx, place, child)
    }

    /// The peer waits to be told that its body is wanted.
    #[cold]
    fn ask_for_body<P>(&mut self, place: u32, child: &mut Child<P, HttpPart<S::In>, HttpPart<S::Out>>)
    where
        P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
    {
        let Some(stream) = self.streams.get(place) else { return };
        if child.wanted() == 0 {
            child.await_demand();
        } else if stream.output == Half::Idle && !child.is_closing() {
            stream.asked.expects = false;
            S::go_on(&mut self.side, &mut self.writer, stream);
        }
    }

    /// Grants again what was read.
    fn return_credit<P>(&mut self, place: u32, child: &mut Child<P, HttpPart<S::In>, HttpPart<S::Out>>)
    where
        P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
    {
        let credit = child.take_credit();
        if credit == 0 {
            return;
        }
        self.was_read(credit);
        let Some(stream) = self.streams.get(place) else { return };
        let unread = child.unread();
        let all_read = unread == 0;
        if stream.small > 0 {
            // Pieces of few bytes are paid back as they are read: as many as there are bytes that were read, of those that waited.
            let (total, small) = ((unread + credit) as u64, u64::from(stream.small));
            let left = (small * unread as u64 + total / 2) / total; // no more than there were
            self.points.earn(stream.small - left as u32);
            stream.small = left as u32;
        }
        if stream.input != Half::Open {
            return;
        }
        stream.recv.give_back(credit);
        // What is still to come may be allowed already.
        let enough = stream.body_in.left.is_some_and(|left| left <= u64::from(stream.recv.left()));
        if enough || !stream.recv.is_due() {
            return;
        }
        if all_read {
            stream.recv.grow(self.limits.http2.stream_window_max);
        }
        if let Some(by) = stream.recv.take_due() {
            self.writer.begin();
            encode::window_update(&mut self.writer.out.buffer, stream.id, by);
        }
    }

    /// Bytes of a stream need not be kept any more.
    fn was_read(&mut self, credit: usize) {
        self.unread = self.unread.saturating_sub(credit as u64);
        let back = self.withheld.min(credit as u64);
        self.withheld -= back;
        self.recv.give_back(back as usize);
    }

    /// Whether a stream is at its end, and why.
    fn end_of<P, H>(
        &mut self,
        cx: &Context<'_, H>,
        place: u32,
        child: &mut Child<P, HttpPart<S::In>, HttpPart<S::Out>>,
    ) -> Option<CloseCause>
    where
        P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
        H: Handler,
    {
        let stream = self.streams.get(place)?;
        if child.take_output_end() && stream.output != Half::Over {
            let body = &stream.body_out;
            let error = match body.announced {
                _ if stream.output == Half::Idle => Some(Misuse::BodyWithoutHead),
                Some(announced) if body.written < announced && !body.nothing => {
                    Some(Misuse::BodyTooShort { announced, written: body.written })
                }
                _ => None,
            };
            if let Some(error) = error {
                return Some(self.misused(cx, place, error.into()));
            }
            if !body.nothing {
                self.writer.begin();
                encode::data_head(&mut self.writer.out.buffer, stream.id, 0, true);
            }
            stream.output = Half::Over;
        }
        if stream.output == Half::Over {
            if stream.input == Half::Over {
                self.points.earn(price::ANSWERED);
                return Some(CloseCause::Requested);
            }
            if S::IS_SERVER && !stream.asked.tunnel {
                // The reply is whole; the rest of the request is not needed.
                self.points.earn(price::ANSWERED);
                self.write_reset(place, ErrorCode::NO_ERROR);
                return Some(CloseCause::Reset(0));
            }
        }
        let cause = child.take_close()?;
        let stream = self.streams.get(place)?;
        let panicked = matches!(cause, CloseCause::Panicked(_));
        if panicked && stream.output == Half::Idle {
            let why = "the server failed over this request";
            let told =
                S::refusal(&mut self.side, &mut self.writer, stream, StatusCode::INTERNAL_SERVER_ERROR, why);
            if told {
                if stream.input != Half::Over {
                    self.write_reset(place, ErrorCode::NO_ERROR);
                }
                return Some(cause);
            }
        }
        let code = match &cause {
            CloseCause::Panicked(_) => ErrorCode::INTERNAL_ERROR,
            // A tunnel whose end was said: what the peer may still say nobody waits for.
            _ if S::IS_SERVER && stream.output == Half::Over => ErrorCode::NO_ERROR,
            CloseCause::Reset(code) => ErrorCode(u32::try_from(*code).unwrap_or(ErrorCode::CANCEL.0)),
            CloseCause::Fault(_) if !stream.asked.tunnel => ErrorCode::INTERNAL_ERROR,
            _ => ErrorCode::CANCEL,
        };
        self.write_reset(place, code);
        Some(cause)
    }

    /// The application wrote what cannot be sent.
    #[cold]
    fn misused<H: Handler>(&mut self, cx: &Context<'_, H>, place: u32, error: HttpError) -> CloseCause {
        tracing::error!(channel = %cx.view().id(), %error, "a message was not written as it should be, ending its stream");
        if let Some(stream) = self.streams.get(place) {
            let (status, why) = (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
            let told = stream.output == Half::Idle
                && S::refusal(&mut self.side, &mut self.writer, stream, status, &why);
            let code = if told { ErrorCode::NO_ERROR } else { ErrorCode::INTERNAL_ERROR };
            if !told || stream.input != Half::Over {
                self.write_reset(place, code);
            }
        }
        CloseCause::Fault(Fault::new(error))
    }

    /// Tells the peer that a stream is over.
    pub(super) fn write_reset(&mut self, place: u32, code: ErrorCode) {
        let Some(stream) = self.streams.get(place) else { return };
        let id = stream.id;
        if id != 0 {
            self.write_reset_of(id, code);
        }
    }

    pub(super) fn write_reset_of(&mut self, id: u32, code: ErrorCode) {
        self.writer.begin();
        encode::reset(&mut self.writer.out.buffer, id, code);
        // Frames that the peer sent before it knew are frames of streams that it took to be open, and it has no more of these.
        let open = if S::IS_SERVER { self.limits.http2.streams } else { self.peer.streams };
        while self.resets.len() >= open.clamp(1, RESETS_KEPT_MAX) {
            self.resets.pop_front();
        }
        self.resets.push_back(id);
    }

    /// A stream has ended, and so much of what it had not read comes back.
    pub(super) fn forget(&mut self, place: u32, credit: usize) {
        self.was_read(credit);
        if let Some((Waits::Turn, priority)) = self.streams.remove(place) {
            self.turns.remove(place, priority);
        }
    }

    /// All that waited for this may go on.
    pub(super) fn line_up(&mut self, what: Waits) {
        for (place, stream) in self.streams.iter_mut() {
            if stream.waits == what && (what != Waits::Window || stream.send.available() > 0) {
                stream.waits = Waits::Turn;
                self.turns.push(place, stream.priority);
            }
        }
    }

    pub(super) fn line_up_one(&mut self, place: u32) {
        if let Some(stream) = self.streams.get(place) {
            stream.waits = Waits::Turn;
            self.turns.push(place, stream.priority);
        }
    }

    /// The peer has said how urgent a stream is.
    pub(super) fn prioritise(&mut self, id: u32, priority: Priority) {
        let Some(stream) = self.streams.place(id).and_then(|place| self.streams.get(place)) else { return };
        let before = std::mem::replace(&mut stream.priority, priority);
        if stream.waits == Waits::Turn
            && let Some(place) = self.streams.place(id)
        {
            self.turns.remove(place, before);
            self.turns.push(place, priority);
        }
    }
}

/// One stream's turn.
struct Sender<'a, S> {
    stream: &'a mut Stream,
    writer: &'a mut Writer,
    side: &'a mut S,
    points: &'a mut Points,
}

impl<S: Role> Sender<'_, S> {
    fn send<P, H>(
        &mut self,
        cx: &mut Context<'_, H>,
        child: &mut Child<P, HttpPart<S::In>, HttpPart<S::Out>>,
    ) -> Result<Sent, HttpError>
    where
        P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
        H: Handler<WriteOut = Outgoing>,
    {
        let mut left = TURN;
        while let Some(next) = child.first().map(Next::of) {
            if self.stream.output == Half::Over {
                // None of what belongs to no message is sent: the rest of a reply to HEAD, or what comes behind an end.
                if let Some((_, done)) = child.take_first() {
                    done.fail(WriteError::Fault(Fault::new(HttpError::from(Misuse::NoRequest))));
                }
                continue;
            }
            if left == 0 || !cx.is_writable() {
                return Ok(Sent::More);
            }
            self.writer.begin();
            match next {
                Next::Whole(len) => self.whole(cx, child, len)?,
                Next::Head | Next::Interim => {
                    let Some((part, done)) = child.take_first() else { break };
                    match part {
                        HttpPart::Head(head) => {
                            let body = S::head(self.side, self.writer, self.stream, head, None)?;
                            self.stream.output = Half::Open;
                            if body == Body::Nothing {
                                self.stream.body_out.nothing = true;
                            }
                        }
                        HttpPart::Interim(head) => S::interim(self.side, self.writer, self.stream, head)?,
                        _ => {}
                    }
                    self.writer.out.written(cx, done);
                }
                Next::Data(len) => {
                    self.check(len as u64)?;
                    match self.piece(cx, child, len, left)? {
                        Some(sent) => left -= sent.min(left),
                        None => return Ok(Sent::Enough),
                    }
                }
                Next::File(len) => {
                    self.check(len)?;
                    let len = usize::try_from(len).unwrap_or(usize::MAX);
                    match self.piece(cx, child, len, left)? {
                        Some(sent) => left -= sent.min(left),
                        None => return Ok(Sent::Enough),
                    }
                }
                Next::End => {
                    let Some((HttpPart::End(trailers), done)) = child.take_first() else { break };
                    self.end(trailers.as_deref())?;
                    self.writer.out.written(cx, done);
                }
            }
        }
        Ok(Sent::Enough)
    }

    /// A message in one piece: its head now, its body now if that is not long.
    fn whole<P, H>(
        &mut self,
        cx: &mut Context<'_, H>,
        child: &mut Child<P, HttpPart<S::In>, HttpPart<S::Out>>,
        len: usize,
    ) -> Result<(), HttpError>
    where
        P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
        H: Handler<WriteOut = Outgoing>,
    {
        if len <= self.allowed(TURN) {
            let Some((HttpPart::Whole(head, body), done)) = child.take_first() else { return Ok(()) };
            let follows = S::head(self.side, self.writer, self.stream, head, Some(len as u64))?;
            self.stream.output = Half::Over;
            if follows == Body::Follows {
                self.stream.body_out.written = len as u64;
                self.account(len);
                encode::data_head(&mut self.writer.out.buffer, self.stream.id, len, true);
                self.writer.out.bytes(body);
            }
            self.writer.out.written(cx, done);
            return Ok(());
        }
        if self.stream.output != Half::Idle {
            return Err(Misuse::HeadWithinBody.into());
        }
        // Its body stays in the line, and is sent from there.
        let head = child.take_part(|part| match std::mem::replace(part, HttpPart::End(None)) {
            HttpPart::Whole(head, body) => {
                *part = HttpPart::Data(body);
                Some(head)
            }
            other => {
                *part = other;
                None
            }
        });
        let Some(head) = head.flatten() else { return Ok(()) };
        let follows = S::head(self.side, self.writer, self.stream, head, Some(len as u64))?;
        self.stream.output = Half::Open;
        self.stream.asked.ends_with_data = true;
        if follows == Body::Nothing {
            self.stream.output = Half::Over;
            if let Some((_, done)) = child.take_first() {
                self.writer.out.written(cx, done);
            }
        }
        Ok(())
    }

    /// Whether so many bytes more may be written at all.
    fn check(&mut self, len: u64) -> Result<(), HttpError> {
        let body = &self.stream.body_out;
        if self.stream.output == Half::Idle {
            return Err(Misuse::BodyWithoutHead.into());
        }
        let total = body.written.saturating_add(len);
        match body.announced {
            Some(announced) if total > announced && !body.nothing => {
                Err(Misuse::BodyTooLong { announced, written: total }.into())
            }
            _ => Ok(()),
        }
    }

    /// How much of that both windows and the peer's longest frame allow now.
    #[inline]
    fn allowed(&self, most: usize) -> usize {
        most.min(self.stream.send.available()).min(self.writer.window.available()).min(self.writer.frame)
    }

    #[inline]
    fn account(&mut self, len: usize) {
        self.stream.send.took(len);
        self.writer.window.took(len);
        self.writer.sent += len as u64;
        self.points.earn(if len < MUCH { price::SENT } else { price::SENT_MUCH });
    }

    /// As much of the first part, which is a piece of a body, as may be sent. `None`: nothing now.
    fn piece<P, H>(
        &mut self,
        cx: &mut Context<'_, H>,
        child: &mut Child<P, HttpPart<S::In>, HttpPart<S::Out>>,
        len: usize,
        left: usize,
    ) -> Result<Option<usize>, HttpError>
    where
        P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
        H: Handler<WriteOut = Outgoing>,
    {
        let now = if self.stream.body_out.nothing { len } else { self.allowed(left).min(len) };
        if now == 0 && len > 0 {
            let own = self.stream.send.available() == 0;
            self.stream.waits = if own { Waits::Window } else { Waits::Connection };
            return Ok(None);
        }
        let (piece, done) = if now == len {
            let Some((part, done)) = child.take_first() else { return Ok(None) };
            let piece = match part {
                HttpPart::Data(data) => Outgoing::Bytes(data),
                HttpPart::File(region) => region.within_message().into(),
                _ => return Ok(None),
            };
            (piece, done)
        } else {
            let Some(piece) = child.take_part(|part| split(part, now)) else { return Ok(None) };
            (piece, WritePromise::untracked())
        };
        if self.stream.body_out.nothing {
            self.writer.out.written(cx, done); // of what nobody gets nothing is sent
            return Ok(Some(now.max(1))); // but it takes time: who never ends has turns as others have
        }
        self.stream.body_out.written += now as u64;
        let whole = now == len;
        let ends_here = whole && self.stream.asked.ends_with_data;
        let end = if whole && !ends_here { self.take_plain_end(child)? } else { None };
        let last = ends_here || end.is_some();
        if now > 0 || last {
            self.account(now);
            encode::data_head(&mut self.writer.out.buffer, self.stream.id, now, last);
            self.writer.out.outgoing(piece);
        }
        if last {
            self.stream.output = Half::Over;
        }
        self.writer.out.written(cx, done);
        if let Some(done) = end {
            self.writer.out.written(cx, done);
        }
        Ok(Some(now.max(1)))
    }

    /// The end of the body, if that is what comes next and there is nothing to be said with it: then it goes along with the data.
    fn take_plain_end<P>(
        &mut self,
        child: &mut Child<P, HttpPart<S::In>, HttpPart<S::Out>>,
    ) -> Result<Option<WritePromise>, HttpError>
    where
        P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
    {
        if !matches!(child.first(), Some(HttpPart::End(None))) {
            return Ok(None);
        }
        self.is_whole()?;
        Ok(child.take_first().map(|(_, done)| done))
    }

    /// Whether all that was announced has been written.
    fn is_whole(&self) -> Result<(), HttpError> {
        let body = &self.stream.body_out;
        match body.announced {
            Some(announced) if body.written < announced && !body.nothing => {
                Err(Misuse::BodyTooShort { announced, written: body.written }.into())
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, trailers: Option<&http::HeaderMap>) -> Result<(), HttpError> {
        if self.stream.output == Half::Idle {
            return Err(Misuse::BodyWithoutHead.into());
        }
        self.is_whole()?;
        if !self.stream.body_out.nothing {
            match trailers.filter(|trailers| !trailers.is_empty()) {
                Some(trailers) => self.writer.head(self.stream.id, true, |encoder, block| {
                    head::write::trailers(encoder, block, trailers)
                })?,
                None => encode::data_head(&mut self.writer.out.buffer, self.stream.id, 0, true),
            }
        }
        self.stream.output = Half::Over;
        Ok(())
    }
}

/// Takes so many bytes off the front of a piece of a body.
fn split<H>(part: &mut HttpPart<H>, len: usize) -> Outgoing {
    match part {
        HttpPart::Data(data) => Outgoing::Bytes(data.split_to(len)),
        HttpPart::File(region) => {
            let mut piece = Outgoing::from(region.clone().within_message());
            let piece = piece.split_to(len as u64);
            region.advance(len as u64);
            piece
        }
        _ => Outgoing::Bytes(Bytes::new()),
    }
}
