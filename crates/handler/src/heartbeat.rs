//! Heartbeats: a message to a peer that is silent, and the end if it stays so.
//!
//! ```text
//!   a message ─▶ seen                    silence ─▶ ping ─▶ a message: seen again
//!                                                     └─ none within the time for an answer, and nothing of ours was taken ─▶ closed
//! ```
//! Always true:
//! 1. Whatever the peer sends is a sign of life, and costs one look at the turn's clock: the one timer is moved when it is due.
//! 2. One ping at a time. A slow peer that still takes what we have sent before it is not gone.
//! 3. While reading is paused nobody is judged: what would save the peer may wait unread.

use netwright_core::{CloseCause, Filter, FilterContext, StageTimer};
use std::{
    fmt,
    time::{Duration, Instant},
};

/// A timer is never for no time at all.
const SOON: Duration = Duration::from_millis(1);

type IsPong<R> = Box<dyn FnMut(&R) -> bool>;

/// Sends a message when the peer has been silent for a while, and closes the connection, as [timed out](CloseCause::TimedOut), if it stays silent. For protocols in which a
/// message asks for an answer.
///
/// It stands behind the codec, and in front of [`Requests`](crate::Requests) if there is one: the answer to a ping is none to a request.
///
/// ```
/// use netwright_codec::{LineFrames, Utf8};
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::Heartbeat;
/// use std::time::Duration;
///
/// let heartbeat = Heartbeat::new(Duration::from_secs(30), || "PING".to_owned())
///     .pongs(|line: &String| line == "PONG") // which nobody else sees
///     .answer_within(Duration::from_secs(5));
/// let lines = pipeline().add(LineFrames::max(100)).add(Utf8::strict());
/// let mut channel = EmbeddedChannel::new(lines.filter(heartbeat));
///
/// channel.advance(Duration::from_secs(30));
/// assert_eq!(channel.outbound_bytes(), b"PING\n");
/// channel.write_inbound("PONG\n");
/// assert!(channel.read_inbound().is_none());
/// channel.advance(Duration::from_secs(30 + 5)); // nobody answers this time
/// assert!(!channel.is_open());
/// ```
#[doc(alias = "keepalive")]
#[doc(alias = "ping")]
pub struct Heartbeat<R, W> {
    silence: Duration,
    answer: Duration,
    ping: Box<dyn FnMut() -> W>,
    is_pong: Option<IsPong<R>>,
    /// When the peer was last heard.
    heard: Option<Instant>,
    /// Nothing was heard since a ping was written. What the transport had taken then, or at the last look since.
    asked: Option<u64>,
    /// Answers to pings that have not come yet: other messages may have come first.
    pongs_due: u32,
    timer: Option<StageTimer>,
}

impl<R: 'static, W: 'static> Heartbeat<R, W> {
    /// A ping made by this closure after so much silence. Zero: none, ever. The answer may take as long again, unless it is said otherwise.
    pub fn new(silence: Duration, ping: impl FnMut() -> W + 'static) -> Self {
        Self {
            silence,
            answer: silence,
            ping: Box::new(ping),
            is_pong: None,
            heard: None,
            asked: None,
            pongs_due: 0,
            timer: None,
        }
    }

    /// How long the answer may take; any message is one.
    pub fn answer_within(mut self, time: Duration) -> Self {
        self.answer = time;
        self
    }

    /// Which messages answer pings: as many of them as there were pings go no further. Default: everything goes on.
    pub fn pongs(mut self, is_pong: impl FnMut(&R) -> bool + 'static) -> Self {
        self.is_pong = Some(Box::new(is_pong));
        self
    }

    fn look_after(&mut self, cx: &mut FilterContext<'_, Self, R, W>, time: Duration) {
        self.timer = Some(cx.arm(time.max(SOON)));
    }

    fn look(&mut self, cx: &mut FilterContext<'_, Self, R, W>) {
        let silent = self.heard.map_or(Duration::ZERO, |heard| cx.now().saturating_duration_since(heard));
        let taken = cx.view().taken_bytes();
        match self.asked {
            _ if cx.view().is_paused() => {
                self.asked = None;
                self.heard = Some(cx.now());
                self.look_after(cx, self.silence);
            }
            None if silent < self.silence => self.look_after(cx, self.silence - silent),
            None => {
                self.asked = Some(taken);
                self.pongs_due = self.pongs_due.saturating_add(1);
                let ping = (self.ping)();
                cx.write_and_flush(ping);
                self.look_after(cx, self.answer);
            }
            // What lies before the ping is still on its way.
            Some(before) if taken != before && has_unsent(cx) => {
                self.asked = Some(taken);
                self.look_after(cx, self.answer);
            }
            Some(_) => cx.close_because(CloseCause::TimedOut(silent)),
        }
    }
}

fn has_unsent<R: 'static, W: 'static>(cx: &FilterContext<'_, Heartbeat<R, W>, R, W>) -> bool {
    cx.view().pending_bytes() > 0 || cx.view().unsent_bytes() > 0
}

impl<R: 'static, W: 'static> Filter<R, W> for Heartbeat<R, W> {
    fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W>) {
        self.heard = Some(cx.now());
        if !self.silence.is_zero() {
            self.look_after(cx, self.silence);
        }
        cx.fire_active();
    }

    fn read(&mut self, cx: &mut FilterContext<'_, Self, R, W>, message: R) {
        self.heard = Some(cx.now());
        self.asked = None;
        if self.pongs_due > 0 && self.is_pong.as_mut().is_some_and(|is_pong| is_pong(&message)) {
            self.pongs_due -= 1;
            return;
        }
        cx.fire_read(message);
    }

    fn timer(&mut self, cx: &mut FilterContext<'_, Self, R, W>, timer: StageTimer) {
        if self.timer == Some(timer) {
            self.timer = None;
            self.look(cx);
        }
    }

    fn start_over(&mut self) -> bool {
        (self.heard, self.asked, self.pongs_due, self.timer) = (None, None, 0, None);
        true
    }
}

impl<R, W> fmt::Debug for Heartbeat<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heartbeat")
            .field("silence", &self.silence)
            .field("answer", &self.answer)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Requester, Requests};
    use netwright_codec::{LineFrames, Utf8};
    use netwright_core::{EmbeddedChannel, pipeline};

    type Channel = EmbeddedChannel<String, String>;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn heartbeat() -> Heartbeat<String, String> {
        Heartbeat::new(secs(30), || "PING".to_owned())
            .answer_within(secs(5))
            .pongs(|line: &String| line == "PONG")
    }

    fn channel(heartbeat: Heartbeat<String, String>) -> Channel {
        EmbeddedChannel::new(pipeline().add(LineFrames::max(1 << 20)).add(Utf8::strict()).filter(heartbeat))
    }

    fn sent(channel: &mut Channel) -> String {
        String::from_utf8(channel.outbound_bytes()).unwrap()
    }

    #[test]
    fn a_ping_is_sent_after_full_silence_and_any_message_puts_it_off() {
        let mut channel = channel(heartbeat());
        channel.advance(secs(29)).write_inbound("hello\n").advance(secs(29));
        assert_eq!(sent(&mut channel), "");
        channel.advance(secs(1));
        assert_eq!(sent(&mut channel), "PING\n");
        assert_eq!(channel.read_inbound().unwrap(), "hello");
    }

    #[test]
    fn a_silent_peer_is_closed_at_the_time_for_an_answer_and_not_before() {
        let mut channel = channel(heartbeat());
        channel.advance(secs(34));
        assert!(channel.is_open());
        channel.advance(secs(1));
        assert!(
            matches!(channel.channel().close_cause(), Some(CloseCause::TimedOut(silent)) if silent == secs(35))
        );
        assert_eq!(sent(&mut channel), "PING\n");
    }

    #[test]
    fn another_message_saves_the_peer_and_its_late_pong_is_still_swallowed() {
        let mut channel = channel(heartbeat());
        channel.advance(secs(30)).write_inbound("busy\n").advance(secs(29));
        assert_eq!(sent(&mut channel), "PING\n");
        channel.advance(secs(1));
        assert_eq!(sent(&mut channel), "PING\n"); // the second
        channel.write_inbound("PONG\nPONG\nPONG\n");
        let seen: Vec<_> = std::iter::from_fn(|| channel.read_inbound()).collect();
        assert_eq!(seen, ["busy", "PONG"]); // which nobody had asked for
    }

    #[test]
    fn while_reading_is_paused_nobody_is_judged() {
        let mut channel = channel(heartbeat());
        channel.advance(secs(30));
        channel.channel().pause();
        channel.run().write_inbound("PONG\n").advance(secs(1_000));
        assert!(channel.is_open());
        channel.channel().resume();
        channel.run().advance(secs(29));
        assert!(channel.is_open() && channel.read_inbound().is_none());
    }

    #[test]
    fn a_peer_that_takes_nothing_is_closed_whatever_waits_for_it() {
        let mut channel = channel(heartbeat());
        channel.block_output(true).write_outbound("x".repeat(100_000));
        channel.advance(secs(35));
        assert!(!channel.is_open());
    }

    #[test]
    fn without_silence_there_is_no_heartbeat() {
        let mut channel = channel(Heartbeat::new(Duration::ZERO, || "PING".to_owned()));
        channel.advance(secs(1_000_000));
        assert!(channel.is_open() && sent(&mut channel).is_empty());
    }

    #[test]
    fn pongs_are_no_replies_to_requests_in_flight() {
        let lines = pipeline().add(LineFrames::max(100)).add(Utf8::strict()).filter(heartbeat());
        let mut channel = EmbeddedChannel::of(lines.last(Requests::in_order().deadline(secs(100))));
        let requester = Requester::new(channel.channel().clone());
        let mut slow = requester.ask("slow".to_owned());
        channel.run().advance(secs(30)).write_inbound("PONG\ndone\n");
        assert_eq!(slow.wait().unwrap(), "done");
    }
}
