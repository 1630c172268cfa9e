//! What the peer says, frame by frame.

use super::{
    Block, Core, Cx, DRAIN_PING, Drain, Http2, Http2Error, WINDOW_DEFAULT,
    points::price,
    side::{Role, Side},
    stream::{Half, Waits},
    window::{Overflow, RecvWindow, WINDOW_MAX},
};
use crate::codec::h2::priority::Priority;
use crate::{
    codec::h2::{
        code::ErrorCode,
        frame::{Frame, Settings, encode},
    },
    error::{HttpError, Limit},
    message::HttpPart,
};
use bytes::{Bytes, BytesMut};
use netwright_core::{CloseCause, Segment};
use std::time::Instant;

/// Small pieces that wait are joined up to this length.
const JOINED: usize = 4096;
/// Pieces below this length are joined with what waits before them. One that cannot be is charged for: it costs more than its bytes.
const SMALL: usize = 256;
/// So much of what a peer says with its GOAWAY is logged.
const DEBUG_SHOWN: usize = 256;

impl<S: Side> Core<S> {
    /// The peer knows our settings, and holds itself to them from here on.
    fn acknowledged(&mut self) {
        if std::mem::replace(&mut self.clock.acknowledged, true) {
            return;
        }
        self.decoder.set_max(self.limits.http2.table as usize);
        let less =
            self.stream_window_before().saturating_sub(self.limits.http2.stream_window.min(WINDOW_MAX));
        for (_, stream) in self.streams.iter_mut() {
            stream.recv.shrink(less);
        }
    }

    /// What the peer believes that a new stream may send.
    pub(super) fn new_window(&self) -> RecvWindow {
        let size = self.limits.http2.stream_window.min(WINDOW_MAX);
        let mut window = RecvWindow::new(size);
        if !self.clock.acknowledged {
            window.widen(self.stream_window_before() - size);
        }
        window
    }

    /// What a stream may send whose peer may not have heard of our settings.
    fn stream_window_before(&self) -> u32 {
        self.limits.http2.stream_window.clamp(WINDOW_DEFAULT, WINDOW_MAX)
    }

    fn charge(&mut self, points: u32, now: impl FnOnce() -> Instant) -> Result<(), Http2Error> {
        if self.points.charge(points, now) {
            return Ok(());
        }
        let most = self.limits.http2.points;
        Err(Http2Error::connection(
            ErrorCode::ENHANCE_YOUR_CALM,
            format!("resets, empty frames, pings and the like have used up all of {most} points"),
        ))
    }
}

#[allow(private_bounds)]
impl<S, P, F> Http2<S, P, F>
where
    S: Role,
    P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
    F: FnMut() -> P + 'static,
{
    /// Takes points for something that it costs us.
    #[inline]
    pub(super) fn charge(&mut self, cx: &mut Cx<'_, S, P, F>, points: u32) -> Result<(), Http2Error> {
        self.core.charge(points, || cx.now())
    }

    /// Does what a frame says.
    #[inline]
    pub(super) fn take(&mut self, cx: &mut Cx<'_, S, P, F>, frame: Frame) -> Result<(), Http2Error> {
        if !self.core.clock.greeted && !matches!(frame, Frame::Settings(_)) {
            let why = "the first frame is not SETTINGS";
            return Err(Http2Error::connection(ErrorCode::PROTOCOL_ERROR, why));
        }
        match frame {
            Frame::Headers { stream, block, end_headers: true, end_stream } => {
                S::fields(self, cx, Block { stream, end_stream, bytes: block, continuations: 0 })
            }
            Frame::Data { stream, data, padding, end, begins } => {
                if data.is_empty() && !end && begins.is_some() {
                    self.charge(cx, price::EMPTY)?; // a whole frame of nothing, or of padding
                }
                self.data(cx, stream, data, padding, end)
            }
            Frame::WindowUpdate { stream, by } => self.window_update(cx, stream, by),
            rare => self.take_rare(cx, rare),
        }
    }

    #[inline(never)]
    fn take_rare(&mut self, cx: &mut Cx<'_, S, P, F>, frame: Frame) -> Result<(), Http2Error> {
        match frame {
            Frame::Headers { stream, block, end_stream, .. } => {
                if block.is_empty() {
                    self.charge(cx, price::EMPTY)?;
                }
                let bytes = BytesMut::from(&block[..]);
                self.core.block = Some(Box::new(Block { stream, end_stream, bytes, continuations: 0 }));
                Ok(())
            }
            Frame::Continuation { block, end_headers, .. } => self.continuation(cx, &block, end_headers),
            Frame::Reset { stream, code } => self.was_reset(cx, stream, code),
            Frame::Settings(settings) => self.settings(cx, settings),
            Frame::SettingsAck => {
                self.core.acknowledged();
                self.charge(cx, price::FRAME)
            }
            Frame::Ping { ack: false, data } => {
                self.charge(cx, price::FRAME)?;
                self.core.writer.begin();
                encode::ping(&mut self.core.writer.out.buffer, true, data);
                Ok(())
            }
            Frame::Ping { ack: true, data } => {
                self.charge(cx, price::FRAME)?;
                self.core.clock.answered();
                if data == DRAIN_PING && self.core.drain == Drain::Announced {
                    self.drain_behind_last(cx);
                }
                Ok(())
            }
            Frame::GoAway { last, code, debug } => {
                self.charge(cx, price::FRAME)?;
                let said = debug[..debug.len().min(DEBUG_SHOWN)].escape_ascii().to_string();
                tracing::debug!(channel = %cx.view().id(), last, %code, said, "the peer goes away");
                S::goes_away(self, cx, last, code, &said);
                Ok(())
            }
            Frame::PriorityUpdate { stream, value } => {
                self.charge(cx, price::FRAME)?;
                self.core.prioritise(stream, Priority::parse(&value));
                Ok(())
            }
            Frame::Priority { .. } | Frame::Unknown { .. } => self.charge(cx, price::FRAME),
            Frame::Push { .. } => {
                Err(Http2Error::connection(ErrorCode::PROTOCOL_ERROR, "a push, which nobody has asked for"))
            }
            Frame::Data { .. } | Frame::WindowUpdate { .. } => Ok(()), // taken above
        }
    }

    /// More of a block of fields.
    fn continuation(
        &mut self,
        cx: &mut Cx<'_, S, P, F>,
        bytes: &[u8],
        end_headers: bool,
    ) -> Result<(), Http2Error> {
        let max = self.core.limits.http2.continuations;
        let Some(block) = &mut self.core.block else { return Ok(()) }; // the decoder has seen to it
        block.continuations += 1;
        if block.continuations > max || bytes.is_empty() {
            let why = format!("a head in more than {max} CONTINUATION frames, or in empty ones");
            return Err(Http2Error::connection(ErrorCode::ENHANCE_YOUR_CALM, why));
        }
        block.bytes.extend_from_slice(bytes);
        if !end_headers {
            return Ok(());
        }
        match self.core.block.take() {
            Some(block) => S::fields(self, cx, block.freeze()),
            None => Ok(()),
        }
    }

    #[inline]
    fn data(
        &mut self,
        cx: &mut Cx<'_, S, P, F>,
        id: u32,
        data: Bytes,
        padding: usize,
        end: bool,
    ) -> Result<(), Http2Error> {
        let core = &mut self.core;
        let len = data.len();
        if !core.recv.received(len + padding) {
            let why = "more data than the connection's window allows";
            return Err(Http2Error::connection(ErrorCode::FLOW_CONTROL_ERROR, why));
        }
        let Some(place) = core.streams.place(id) else {
            core.recv.give_back(len + padding);
            return self.stray(id);
        };
        let Some(stream) = core.streams.get(place) else { return Ok(()) };
        if stream.input != Half::Open {
            core.recv.give_back(len + padding);
            let code = match stream.input {
                Half::Idle => ErrorCode::PROTOCOL_ERROR,
                _ => ErrorCode::STREAM_CLOSED,
            };
            return Err(Http2Error::stream(code, id, "data where there can be none"));
        }
        if !stream.recv.received(len + padding) {
            core.recv.give_back(len + padding);
            let why = "more data than the stream's window allows";
            return Err(Http2Error::stream(ErrorCode::FLOW_CONTROL_ERROR, id, why));
        }
        if padding > 0 {
            stream.recv.give_back(padding);
            core.recv.give_back(padding);
            // Nobody reads it, so nobody else would grant it again.
            if !end && let Some(by) = stream.recv.take_due() {
                core.writer.begin();
                encode::window_update(&mut core.writer.out.buffer, id, by);
            }
        }
        stream.body_in.got += len as u64;
        if let Some(left) = &mut stream.body_in.left {
            let rest = left.checked_sub(len as u64).filter(|rest| !end || *rest == 0);
            let Some(rest) = rest else {
                core.recv.give_back(len);
                let why = "the body is not as long as was announced";
                return Err(Http2Error::stream(ErrorCode::PROTOCOL_ERROR, id, why));
            };
            *left = rest;
        }
        let (got, max) = (stream.body_in.got, core.limits.body);
        if got > max && !stream.asked.tunnel {
            core.recv.give_back(len);
            self.refuse(cx, place, HttpError::TooMuch { limit: Limit::Body, max, got });
            return Ok(());
        }
        core.unread += len as u64;
        if core.unread <= core.limits.http2.unread {
            core.recv.give_back(len);
        } else {
            core.withheld += len as u64;
        }
        if end {
            stream.input = Half::Over;
        }
        // Also of one that is not there yet: its request may come with all that is said in it.
        let tunnel = stream.asked.tunnel || stream.asked.connect;
        let mut joined = false;
        let waits = self.children.with(stream.key, |child| {
            let waits = child.wanted() == 0 || child.unread() > 0;
            if waits && len < SMALL && len > 0 && child.join_last(len, |part| join(part, &data)) {
                joined = true;
            } else if len > 0 {
                // What outlives this turn must not keep the loop's buffer.
                let data = if waits { Bytes::copy_from_slice(&data) } else { data };
                child.received(HttpPart::Data(data), len);
            }
            if end {
                child.drop_unread_at_end(false);
                child.received(HttpPart::End(None), 0);
                if tunnel {
                    child.input_closed();
                }
            }
            waits
        });
        if waits == Some(true) && len < SMALL && len > 0 && !joined {
            stream.small += 1;
            self.core.charge(price::FRAME, || cx.now())?;
        }
        if end && (waits != Some(false) || tunnel) {
            self.said_all(cx, place);
        }
        Ok(())
    }

    /// The peer has said all on a stream, and its child has not been told yet, so that it has no news of its own. If nothing is to be
    /// sent either, that is the end; what waits is read behind it.
    pub(super) fn said_all(&mut self, cx: &mut Cx<'_, S, P, F>, place: u32) {
        if self.core.streams.get(place).is_some_and(|stream| stream.output == Half::Over) {
            self.core.points.earn(price::ANSWERED);
            self.end_stream(cx, place, CloseCause::Requested);
        }
    }

    fn window_update(&mut self, cx: &mut Cx<'_, S, P, F>, id: u32, by: u32) -> Result<(), Http2Error> {
        self.charge(cx, price::FRAME)?;
        if id == 0 {
            return self.grant(by);
        }
        let core = &mut self.core;
        let Some(place) = core.streams.place(id) else {
            return if S::is_idle(core, id) { Err(idle()) } else { Ok(()) };
        };
        let Some(stream) = core.streams.get(place) else { return Ok(()) };
        stream.send.grant(by).map_err(|Overflow| {
            Http2Error::stream(ErrorCode::FLOW_CONTROL_ERROR, id, "the stream's window is too large")
        })?;
        if stream.waits == Waits::Window && stream.send.available() > 0 {
            core.line_up_one(place);
        }
        Ok(())
    }

    /// So much more may be sent on all streams together.
    fn grant(&mut self, by: u32) -> Result<(), Http2Error> {
        let core = &mut self.core;
        let was_empty = core.writer.window.available() == 0;
        core.writer.window.grant(by).map_err(|Overflow| {
            Http2Error::connection(ErrorCode::FLOW_CONTROL_ERROR, "the connection's window is too large")
        })?;
        if was_empty {
            core.line_up(Waits::Connection);
        }
        Ok(())
    }

    fn was_reset(&mut self, cx: &mut Cx<'_, S, P, F>, id: u32, code: ErrorCode) -> Result<(), Http2Error> {
        // A server can only reset what we have asked for, and each of these once.
        let known = self.core.streams.place(id).is_some();
        if S::IS_SERVER || !known {
            self.charge(cx, price::RESET)?;
        }
        match self.core.streams.place(id) {
            Some(place) => {
                let said_all = self.core.streams.get(place).is_some_and(|stream| stream.input == Half::Over);
                // What the peer has said in full is read to its end. A server that has answered and resets its stream needs no more of the
                // request, whatever code it takes for that (haproxy: CANCEL); a client that does wants no answer.
                let in_order = said_all && (code == ErrorCode::NO_ERROR || !S::IS_SERVER);
                let cause = if in_order { CloseCause::PeerClosed } else { CloseCause::Reset(code.0.into()) };
                self.end_stream(cx, place, cause);
            }
            None if S::is_idle(&self.core, id) => return Err(idle()),
            None => {}
        }
        Ok(())
    }

    fn settings(&mut self, cx: &mut Cx<'_, S, P, F>, settings: Settings) -> Result<(), Http2Error> {
        if std::mem::replace(&mut self.core.clock.greeted, true) {
            self.charge(cx, price::FRAME)?;
        }
        if !S::IS_SERVER && settings.enable_push == Some(true) {
            let why = "a server says that it may be pushed to";
            return Err(Http2Error::connection(ErrorCode::PROTOCOL_ERROR, why));
        }
        let held_back = std::mem::take(&mut self.core.held_back);
        if held_back > 0 {
            self.grant(held_back)?;
        }
        self.apply(settings)?;
        self.core.writer.begin();
        encode::settings_ack(&mut self.core.writer.out.buffer);
        S::has_settings(self, cx);
        Ok(())
    }

    /// Does what the peer asks for.
    pub(super) fn apply(&mut self, settings: Settings) -> Result<(), Http2Error> {
        let core = &mut self.core;
        if let Some(window) = settings.initial_window_size {
            let by = i64::from(window) - i64::from(core.peer.window);
            core.peer.window = window;
            for (_, stream) in core.streams.iter_mut() {
                stream.send.change(by).map_err(|Overflow| {
                    let why = "a setting makes a stream's window too large";
                    Http2Error::connection(ErrorCode::FLOW_CONTROL_ERROR, why)
                })?;
            }
            core.line_up(Waits::Window);
        }
        if let Some(size) = settings.header_table_size {
            core.writer.encoder.set_max(settings.header_table_least.unwrap_or(size) as usize);
            core.writer.encoder.set_max(size as usize);
        }
        if let Some(frame) = settings.max_frame_size {
            core.writer.frame = frame as usize;
        }
        if let Some(streams) = settings.max_concurrent_streams {
            core.peer.streams = streams as usize;
        }
        if let Some(connect) = settings.enable_connect_protocol {
            core.peer.connect_protocol = connect;
        }
        Ok(())
    }

    /// A frame of a stream that is not there.
    pub(super) fn stray(&mut self, id: u32) -> Result<(), Http2Error> {
        if S::is_idle(&self.core, id) {
            return Err(idle());
        }
        if self.core.resets.contains(&id) {
            return Ok(()); // sent before it knew
        }
        Err(Http2Error::stream(ErrorCode::STREAM_CLOSED, id, "a frame of a stream that has ended"))
    }
}

/// Has a piece of a body that waits take a small one behind it.
fn join<H>(part: &mut HttpPart<H>, more: &[u8]) -> bool {
    let HttpPart::Data(data) = part else { return false };
    if data.len() + more.len() > JOINED {
        return false;
    }
    let mut all = std::mem::take(data).try_into_mut().unwrap_or_else(|data| BytesMut::from(&data[..]));
    all.extend_from_slice(more);
    *data = all.freeze();
    true
}

fn idle() -> Http2Error {
    Http2Error::connection(ErrorCode::PROTOCOL_ERROR, "a frame of a stream that was not opened")
}
