//! How long a peer may take, in every state that it can leave a connection in.
//!
//! | what is waited for | limit | then |
//! | --- | --- | --- |
//! | the preface, the first SETTINGS, their acknowledgement | `setup_time` | GOAWAY(SETTINGS_TIMEOUT) |
//! | the rest of a frame that has to be whole, or of a head | `head_time`, longer by `head_rate` | GOAWAY(ENHANCE_YOUR_CALM) |
//! | a body that somebody reads | `body_rate` over `body_time` | 408, or a reset if a reply has begun |
//! | a window for a reply that is ready | `take_rate` over `take_time` | reset |
//! | the connection's window, for several | `take_rate` for each of them | as many are reset as that is too little for |
//! | the other side of a tunnel of which our side has said all | `idle_time` | reset |
//! | room in the socket | the channel's least rate | closed |
//! | a request, while there is no stream | `idle_time` | GOAWAY, closed |
//! | an answer to our ping: after `ping_time` of silence, or when a client gives up a reply in silence | `setup_time` | closed |
//! | the end of the streams of a connection that drains | `grace` | closed |
//! | the peer's end, behind a GOAWAY for a mistake | `linger_time` | closed |
//! | the same, behind the last reply | `grace`, but at least `linger_time` | closed |
//!
//! Always true: one timer is armed for the first of these that may be due, so a request or a frame touches none. What counts by bytes
//! is looked at once in a period: who is too slow for a whole one has to go, so that takes between one period and two.

use super::{
    Cx, Drain, Http2, Http2Error, Phase,
    side::Role,
    stream::{Half, Waits},
};
use crate::{
    codec::h2::{code::ErrorCode, frame::encode},
    error::HttpError,
    message::HttpPart,
};
use netwright_core::{CloseCause, Segment, StageTimer, world};
use std::time::{Duration, Instant};

/// A timer is never for no time at all.
const SOON: Duration = Duration::from_millis(1);
/// The ping by which we learn whether a silent peer is there.
const ALIVE_PING: [u8; 8] = *b"alive?!?";

/// Who has said nothing for so long may be asked whether it is there.
const SILENT: Duration = Duration::from_secs(1);

/// What is known about time.
#[derive(Debug, Default)]
pub(super) struct Clock {
    timer: Option<StageTimer>,
    /// When that is due.
    due: Option<Instant>,
    began: Option<Instant>,
    /// The peer's settings have come, and it has acknowledged ours.
    pub(super) greeted: bool,
    pub(super) acknowledged: bool,
    heard: Option<Instant>,
    /// Since when a frame is not whole.
    frame_since: Option<Instant>,
    pinged: Option<Instant>,
    /// Since when there was no stream, and how many had been opened by then.
    idle: Option<(Instant, u64)>,
    /// When streams were looked at last.
    looked: Option<Instant>,
    /// How long the connection may be used.
    age: Duration,
    drains_since: Option<Instant>,
    linger: Option<StageTimer>,
    linger_unsent: bool,
    lingered: u64,
    /// What had been sent on all streams together when they were looked at.
    sent: u64,
    /// Why the connection ends when it has lingered.
    pub(super) cause: Option<CloseCause>,
}

impl Clock {
    #[inline]
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = Some(now);
    }

    /// Nothing is waited for any more that the peer would have to say.
    pub(super) fn input_over(&mut self) {
        (self.frame_since, self.pinged) = (None, None);
    }

    /// The peer is there.
    pub(super) fn answered(&mut self) {
        self.pinged = None;
    }

    pub(super) fn draining(&mut self, now: Instant) {
        self.drains_since = Some(now);
    }

    pub(super) fn stop<H: netwright_core::Handler>(&mut self, cx: &mut netwright_core::Context<'_, H>) {
        self.due = None;
        if let Some(timer) = self.timer.take() {
            cx.disarm(timer);
        }
    }
}

/// The first of several moments.
struct First(Option<Instant>);

impl First {
    fn or(&mut self, at: Instant) {
        self.0 = Some(self.0.map_or(at, |first| first.min(at)));
    }
}

#[allow(private_bounds)]
impl<S, P, F> Http2<S, P, F>
where
    S: Role,
    P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
    F: FnMut() -> P + 'static,
{
    pub(super) fn begin_watch(&mut self, cx: &mut Cx<'_, S, P, F>) {
        let (now, limits) = (cx.now(), &self.core.limits.http2);
        let tenth = limits.age / 10;
        // Somewhere between nine and eleven tenths.
        let part = f64::from(world::random() as u32) / f64::from(u32::MAX);
        self.core.clock.age = limits.age - tenth + tenth.mul_f64(2.0 * part);
        self.core.clock.began = Some(now);
        self.core.clock.heard = Some(now);
        self.arm(cx, now, now + limits.setup_time);
    }

    fn arm(&mut self, cx: &mut Cx<'_, S, P, F>, now: Instant, due: Instant) {
        self.core.clock.stop(cx);
        self.core.clock.due = Some(due);
        self.core.clock.timer = Some(cx.arm(due.saturating_duration_since(now).max(SOON)));
    }

    /// Something new is waited for, which may be due before what was waited for so far.
    #[inline]
    pub(super) fn due_within(&mut self, cx: &mut Cx<'_, S, P, F>, time: Duration) {
        let now = cx.now();
        if self.core.clock.due.is_some_and(|due| due > now + time) {
            self.arm(cx, now, now + time);
        }
    }

    /// Everything may be due at another time.
    pub(super) fn watch_anew(&mut self, cx: &mut Cx<'_, S, P, F>) {
        self.due_within(cx, SOON);
    }

    fn period(&self) -> Duration {
        let limits = &self.core.limits;
        limits.body_time.min(limits.http2.take_time).max(SOON)
    }

    /// A stream was opened.
    #[inline]
    pub(super) fn watch_stream(&mut self, cx: &mut Cx<'_, S, P, F>) {
        let period = self.period();
        self.due_within(cx, period);
    }

    /// What has come was looked at, and frames were found in it or not: the rest of one may have to be waited for.
    #[inline]
    pub(super) fn watch_frame(&mut self, cx: &mut Cx<'_, S, P, F>, found: bool) {
        if self.core.input.is_empty() && self.core.block.is_none() {
            self.core.clock.frame_since = None;
        } else if found || self.core.clock.frame_since.is_none() {
            self.core.clock.frame_since = Some(cx.now());
            let time = self.core.limits.head_time;
            self.due_within(cx, time);
        }
    }

    /// A timer is due.
    pub(super) fn due(&mut self, cx: &mut Cx<'_, S, P, F>, timer: StageTimer) {
        if self.core.clock.linger == Some(timer) {
            self.core.clock.linger = None;
            return self.linger_due(cx);
        }
        if self.core.clock.timer != Some(timer) || self.core.is_over() {
            return;
        }
        (self.core.clock.timer, self.core.clock.due) = (None, None);
        let now = cx.now();
        if let Some(next) = self.look_at_clock(cx, now) {
            self.arm(cx, now, next);
        }
        self.look(cx);
    }

    /// Does what is due. When something may be due again, if the connection goes on.
    fn look_at_clock(&mut self, cx: &mut Cx<'_, S, P, F>, now: Instant) -> Option<Instant> {
        let mut next = First(None);
        let limits = self.core.limits.clone();
        let setup = limits.http2.setup_time;
        let began = self.core.clock.began.unwrap_or(now);
        let silent = self.core.input_over; // then it says nothing of all that any more
        if !silent && (!self.core.clock.greeted || !self.core.clock.acknowledged) {
            if now >= began + setup {
                let what =
                    if self.core.clock.greeted { "an acknowledgement of our settings" } else { "settings" };
                let why = format!("no {what} within {setup:?}");
                self.fail(cx, Http2Error::connection(ErrorCode::SETTINGS_TIMEOUT, why));
                return None;
            }
            next.or(began + setup);
        }
        if let Some(since) = self.core.clock.frame_since {
            let got = self.core.input.len() + self.core.block.as_ref().map_or(0, |block| block.bytes.len());
            let earned = Duration::from_secs((got / limits.head_rate.max(1)) as u64);
            let allowed = (limits.head_time + earned).min(limits.head_time * 3);
            if now >= since + allowed {
                let why = format!("a frame was not whole after {allowed:?}");
                self.fail(cx, Http2Error::connection(ErrorCode::ENHANCE_YOUR_CALM, why));
                return None;
            }
            next.or(since + allowed);
        }
        if let Some(since) = self.core.clock.drains_since {
            if now >= since + limits.http2.grace {
                self.end_now(cx, CloseCause::TimedOut(limits.http2.grace));
                return None;
            }
            next.or(since + limits.http2.grace);
            if self.core.drain == Drain::Announced {
                if now >= since + setup {
                    self.drain_behind_last(cx); // it has had its time
                } else {
                    next.or(since + setup);
                }
            }
        } else if !self.core.clock.age.is_zero() {
            if now >= began + self.core.clock.age {
                self.drain(cx);
                return Some(now + SOON);
            }
            next.or(began + self.core.clock.age);
        }
        self.keep_alive(cx, now, &mut next)?;
        if self.core.streams.is_empty() {
            self.look_at_idle(cx, now, &mut next)?;
        } else {
            self.core.clock.idle = None;
            let period = self.period();
            if self.core.clock.looked.is_none_or(|looked| now >= looked + period) {
                self.core.clock.looked = Some(now);
                self.look_at_streams(cx);
            }
            next.or(self.core.clock.looked.unwrap_or(now) + period);
        }
        (!self.core.is_over()).then_some(next.0.unwrap_or(now + setup))
    }

    /// Asks whether a silent peer is there.
    fn keep_alive(&mut self, cx: &mut Cx<'_, S, P, F>, now: Instant, next: &mut First) -> Option<()> {
        let limits = &self.core.limits.http2;
        let (every, time) = (limits.ping_time, limits.setup_time);
        if self.core.input_over {
            return Some(());
        }
        if let Some(pinged) = self.core.clock.pinged {
            if now >= pinged + time {
                self.end_now(cx, CloseCause::TimedOut(time));
                return None;
            }
            next.or(pinged + time);
            return Some(());
        }
        if every.is_zero() {
            return Some(());
        }
        let heard = self.core.clock.heard.unwrap_or(now);
        if now >= heard + every {
            self.ask_if_alive(now);
            next.or(now + time);
        } else {
            next.or(heard + every);
        }
        Some(())
    }

    fn ask_if_alive(&mut self, now: Instant) {
        self.core.clock.pinged = Some(now);
        self.core.writer.begin();
        encode::ping(&mut self.core.writer.out.buffer, false, ALIVE_PING);
    }

    /// Nobody waits for a reply any more that has not come. If nothing else has come either, the peer may have gone without a word, and
    /// whatever is asked next would wait in vain as well.
    #[cold]
    pub(super) fn gave_up(&mut self, cx: &mut Cx<'_, S, P, F>) {
        let now = cx.now();
        let silent = self.core.clock.heard.is_none_or(|heard| now >= heard + SILENT);
        if silent && self.core.clock.pinged.is_none() && !self.core.is_over() {
            self.ask_if_alive(now);
            let time = self.core.limits.http2.setup_time;
            self.due_within(cx, time);
        }
    }

    fn look_at_idle(&mut self, cx: &mut Cx<'_, S, P, F>, now: Instant, next: &mut First) -> Option<()> {
        let (limit, opened) = (self.core.limits.idle_time, self.core.opened);
        let since = match self.core.clock.idle {
            Some((since, seen)) if seen == opened => since,
            _ => now, // there was one a moment ago
        };
        self.core.clock.idle = Some((since, opened));
        if now >= since + limit {
            self.end_now(cx, CloseCause::TimedOut(limit));
            return None;
        }
        next.or(since + limit);
        Some(())
    }

    /// Looks at each stream whether its peer gets on with it.
    fn look_at_streams(&mut self, cx: &mut Cx<'_, S, P, F>) {
        let limits = self.core.limits.clone();
        let period = self.period();
        let least = |rate: u64| (u128::from(rate) * period.as_millis() / 1000).max(1) as u64;
        // Several may wait for the same window, of which the first ones get all: they are only as slow as all together.
        let all = self.core.writer.sent;
        let mut shares =
            (all - std::mem::replace(&mut self.core.clock.sent, all)) / least(limits.http2.take_rate.into());
        for place in self.core.streams.all() {
            let Some(stream) = self.core.streams.get(place) else { continue };
            let wanted = self.children.with(stream.key, |child| child.wanted() > 0 && child.unread() == 0);
            // Who waits for a reply knows how long.
            let reads =
                S::IS_SERVER && stream.input == Half::Open && !stream.asked.expects && !stream.asked.tunnel;
            let before = stream.watch;
            let got = stream.body_in.got - before.got;
            let sent = stream.body_out.written.saturating_sub(before.sent);
            stream.watch.got = stream.body_in.got;
            stream.watch.sent = stream.body_out.written;
            stream.watch.waits_for_input = reads && wanted == Some(true);
            stream.watch.waits_for_window = matches!(stream.waits, Waits::Window | Waits::Connection);
            let (now_in, now_out) = (stream.watch.waits_for_input, stream.watch.waits_for_window);
            let half_a_tunnel =
                stream.asked.tunnel && stream.output == Half::Over && stream.input == Half::Open && got == 0;
            stream.watch.silent = if half_a_tunnel { before.silent + 1 } else { 0 };
            if period.saturating_mul(stream.watch.silent) > limits.idle_time {
                let why = format!("nothing came through a tunnel for {:?} behind our end", limits.idle_time);
                let id = stream.id;
                self.refuse_stream(cx, Http2Error::stream(ErrorCode::CANCEL, id, why));
                continue;
            }
            let body_rate = limits.body_rate as u64;
            if body_rate > 0 && before.waits_for_input && now_in && got < least(body_rate) {
                let error = HttpError::BodyTooSlow { time: period, least: least(body_rate), got };
                self.refuse(cx, place, error);
                continue;
            }
            let take_rate = u64::from(limits.http2.take_rate);
            if take_rate > 0 && before.waits_for_window && now_out && sent < least(take_rate) {
                if stream.waits == Waits::Connection && shares > 0 {
                    shares -= 1;
                    continue;
                }
                let why = format!(
                    "the peer allowed {sent} bytes of its reply in {period:?}, the limit is {}",
                    least(take_rate)
                );
                let id = stream.id;
                self.refuse_stream(cx, Http2Error::stream(ErrorCode::CANCEL, id, why));
            }
        }
    }

    // ---- behind the last word ----

    /// Reads for a while what the peer still sends: a socket closed with bytes unread would take the last words from it. In order, that is
    /// until it has read all of them, during which it may send nothing but credit, and that seldom.
    pub(super) fn linger(&mut self, cx: &mut Cx<'_, S, P, F>, in_order: bool) {
        let (now, limits) = (cx.now(), &self.core.limits);
        let grace = match self.core.clock.drains_since {
            Some(since) if in_order => (since + limits.http2.grace).saturating_duration_since(now),
            _ => Duration::ZERO,
        };
        let time = limits.linger_time.max(grace);
        self.core.clock.linger = Some(cx.arm(time));
        self.core.insists = Some(Box::new(cx.insist()));
    }

    pub(super) fn lingered(&mut self, cx: &mut Cx<'_, S, P, F>, bytes: usize) {
        self.core.clock.lingered += bytes as u64;
        if self.core.clock.lingered > self.core.limits.linger {
            self.end_lingering(cx);
        }
    }

    /// The peer has said that it sends no more, which is what was waited for.
    pub(super) fn peer_has_ended(&mut self, cx: &mut Cx<'_, S, P, F>) {
        if cx.view().unsent_bytes() == 0 {
            return self.end_lingering(cx);
        }
        self.core.phase = Phase::Closing;
        cx.close_when_flushed(); // it may still read
    }

    fn linger_due(&mut self, cx: &mut Cx<'_, S, P, F>) {
        let unsent = cx.view().unsent_bytes() > 0;
        if self.core.phase != Phase::Lingering {
            return;
        }
        if unsent || self.core.clock.linger_unsent {
            self.core.clock.linger_unsent = unsent;
            self.core.clock.linger = Some(cx.arm(self.core.limits.linger_time));
            return; // the least rate of the channel sees to it that this ends
        }
        self.end_lingering(cx);
    }

    fn end_lingering(&mut self, cx: &mut Cx<'_, S, P, F>) {
        self.core.phase = Phase::Closing;
        let cause = self.core.clock.cause.take().unwrap_or(CloseCause::Requested);
        cx.close_because(cause);
    }
}
