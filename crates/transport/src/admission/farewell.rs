//! A refusal in words: bytes, the end of the output, and a moment for the peer to read them.
//!
//! ```text
//!   words ▶ end of our output ▶ what comes is thrown away ─┬─ the peer's end ─▶ closed
//!                                                          └─ a second, or too much of it ─▶ closed
//! ```
//! A socket that is closed with bytes unread takes back what it has sent: so the peer's request is read, and not looked at.

use super::Gate;
use crate::{
    live::Guard,
    stream::{Adoption, Carried, ChannelSettings, adopt},
};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    Address, AppContext, Application, CloseCause, Fault, HalfClosure, IntoPipeline, LocalLoop, StageTimer,
    internal::catch, pipeline,
};
use std::{
    io,
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};

/// How many are told at a time, in all; others are reset.
pub(crate) const FAREWELLS_MAX: usize = 64;
/// How long one has for it.
const FAREWELL_TIME: Duration = Duration::from_secs(1);
/// How much of what one sends meanwhile is thrown away: a request, not an upload.
const THROWN_AWAY_MAX: usize = 64 * 1024;

/// One of those who are told at the moment.
struct Turn(Arc<Gate>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.farewells.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Farewell {
    words: Bytes,
    thrown_away: usize,
    _turn: Turn,
}

impl Application for Farewell {
    type Read = BytesMut;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.arm(FAREWELL_TIME);
        cx.write_and_flush(std::mem::take(&mut self.words));
        cx.shut_down_output();
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.thrown_away = self.thrown_away.saturating_add(bytes.len());
        if self.thrown_away > THROWN_AWAY_MAX {
            cx.close();
        }
    }

    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.close_when_flushed();
    }

    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
        if cx.view().unsent_bytes() > 0 {
            // A part of the words, and an end in order, would look like all of them.
            cx.close_because(CloseCause::io(io::ErrorKind::ConnectionReset.into()));
        } else {
            cx.close();
        }
    }

    fn error(&mut self, cx: &mut AppContext<'_, Self>, _: Fault) {
        cx.close();
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }
}

/// Tells a peer, by a channel of the loop of the calling thread that nobody else knows of. Gives the connection back if too many are told at
/// the moment.
pub(super) fn say(
    gate: &Arc<Gate>,
    local: &LocalLoop,
    connection: Carried,
    peer: &Address,
    words: Bytes,
) -> Result<(), Carried> {
    static SETTINGS: OnceLock<Arc<ChannelSettings>> = OnceLock::new();
    let one_more = |told: usize| (told < FAREWELLS_MAX).then_some(told + 1);
    if gate.farewells.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
        return Err(connection);
    }
    gate.told_politely.fetch_add(1, Ordering::Relaxed); // first: the peer may look when it knows
    let farewell = Farewell { words, thrown_away: 0, _turn: Turn(gate.clone()) };
    let settings = SETTINGS.get_or_init(Arc::default);
    let adoption = Adoption::new(local, connection, peer.clone(), settings);
    // A transport of somebody else's may panic; the connection is lost either way.
    let told = catch(|| {
        let stages = IntoPipeline::<Bytes, BytesMut, Bytes>::into_pipeline(pipeline().app(farewell));
        adopt(adoption, stages, Guard::default())
    });
    if let Ok(Err(error)) = told {
        tracing::debug!(%peer, %error, "a refused connection could not be told so");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Admission;
    use netwright_core::{EmbeddedChannel, Event, Filter, FilterContext, Place};

    /// Has the connection begin when it is told to, so that its output can be blocked before.
    struct Later;

    impl<R: 'static, W: 'static, P: Place> Filter<R, W, P> for Later {
        fn active(&mut self, _: &mut FilterContext<'_, Self, R, W, P>) {}

        fn event(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, _: Event) {
            cx.fire_active();
        }
    }

    #[test]
    fn words_that_a_peer_does_not_take_in_time_end_by_a_reset_and_others_in_order() {
        for blocked in [true, false] {
            let gate = Gate::new(Admission::new(), usize::MAX);
            gate.farewells.fetch_add(1, Ordering::Relaxed);
            let farewell = Farewell { words: "no".into(), thrown_away: 0, _turn: Turn(gate.clone()) };
            let mut channel = EmbeddedChannel::of(pipeline().filter(Later).app(farewell));
            channel.block_output(blocked).channel().fire_event(Event::new(()));
            channel.run().advance(FAREWELL_TIME - Duration::from_millis(1));
            assert!(channel.is_open());
            channel.advance(Duration::from_millis(1));
            let cause = channel.channel().close_cause();
            let reset = matches!(&cause, Some(CloseCause::Io(error)) if error.kind() == io::ErrorKind::ConnectionReset);
            assert_eq!(reset, blocked, "{cause:?}");
            assert!(!channel.is_open());
            drop(channel);
            assert_eq!(gate.farewells.load(Ordering::Relaxed), 0);
        }
    }
}
