//! Closes a channel whose peer says nothing.

use crate::idle::{Limit, Listening, Seen};
use netwright_core::{CloseCause, Filter, FilterContext, Glance, Place, StageTimer};
use std::time::Duration;

/// Closes the channel, with [`CloseCause::TimedOut`], when the peer has said nothing for a time in which we listened.
///
/// What counts is what passes it: next to the wire any byte, behind a decoder of requests only whole requests, so that a peer which sends one byte now
/// and then does not stay. A peer that is not listened to, because the application has paused, is not blamed; nor is one that has said that it sends no
/// more. [`Idle`](crate::Idle) has the same measure, and says more about it. Zero is no limit.
///
/// ```
/// use netwright_codec::LineFrames;
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
/// use netwright_handler::ReadTimeout;
/// use std::time::Duration;
///
/// // A line within ten seconds, however its bytes come.
/// let stages = pipeline().add(LineFrames::max(80)).filter(ReadTimeout::after(Duration::from_secs(10)));
/// let mut channel = EmbeddedChannel::new(stages.handle(|_, _| {}));
/// channel.write_inbound("hello\n");
/// for _ in 0..9 {
///     channel.advance(Duration::from_secs(1)).write_inbound("x");
/// }
/// assert!(channel.is_open());
/// channel.advance(Duration::from_secs(1));
/// assert!(matches!(channel.channel().close_cause(), Some(CloseCause::TimedOut(_))));
/// ```
#[derive(Debug)]
#[doc(alias = "ReadTimeoutHandler")]
#[doc(alias = "slowloris")]
pub struct ReadTimeout {
    limit: Limit,
    /// While something is waited for.
    peer: Option<Listening>,
}

impl ReadTimeout {
    /// One that closes after a silence of this long.
    pub fn after(limit: Duration) -> Self {
        Self { limit: Limit::new(limit), peer: None }
    }

    /// The limit, if there is one.
    pub fn limit(&self) -> Option<Duration> {
        self.limit.get()
    }
}

impl<R: 'static, W: 'static, P: Place> Filter<R, W, P> for ReadTimeout {
    const PASSES: bool = true;

    fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {
        if let Some(limit) = self.limit.get() {
            self.peer = Some(Listening::begin(cx.glance().into()));
            cx.look_at(cx.moment().saturating_add(limit));
        }
        cx.fire_active();
    }

    #[inline]
    fn passed_read(&mut self, glance: Glance<'_>, _: bool) {
        if let Some(peer) = &mut self.peer {
            peer.hears(glance);
        }
    }

    fn input_closed(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {
        self.peer = None; // nothing is waited for any more
        cx.fire_input_closed();
    }

    fn inactive(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, cause: CloseCause) {
        self.peer = None;
        cx.fire_inactive(cause);
    }

    fn timer(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, _: StageTimer) {
        let (Some(peer), Some(limit)) = (&mut self.peer, self.limit.get()) else { return };
        let seen = Seen::from(cx.glance());
        let due = peer.look(seen).saturating_add(limit);
        if due <= seen.now {
            return cx.close_because(CloseCause::TimedOut(limit));
        }
        cx.look_at(due);
    }

    fn start_over(&mut self) -> bool {
        self.peer = None;
        true
    }
}
