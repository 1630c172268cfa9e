//! What a filter sees of its channel when a message passes it.

use crate::{channel::ChannelCore, event_loop::Moment};

/// What a [`Filter`](super::Filter) sees that lets messages [pass](super::Filter::PASSES): when it is, how much has left, and whether anybody listens
/// to the peer.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Filter, FilterContext, Glance, StageTimer, pipeline};
/// use std::{cell::Cell, rc::Rc, time::Duration};
///
/// /// How often it was looked at the peer in the middle of a pause.
/// struct Looks { changes: u32, pauses: Rc<Cell<u32>> }
///
/// impl<R: 'static, W: 'static> Filter<R, W> for Looks {
///     const PASSES: bool = true;
///
///     fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W>) {
///         cx.arm(Duration::from_secs(1));
///         cx.fire_active();
///     }
///     fn passed_read(&mut self, glance: Glance<'_>, _: bool) {
///         self.changes = glance.reading_changes();
///     }
///     fn timer(&mut self, cx: &mut FilterContext<'_, Self, R, W>, _: StageTimer) {
///         let glance = cx.glance();
///         let listened = glance.is_reading() && self.changes == glance.reading_changes();
///         self.pauses.set(self.pauses.get() + u32::from(!listened));
///     }
/// }
///
/// let pauses = Rc::default();
/// let looks = Looks { changes: 0, pauses: Rc::clone(&pauses) };
/// let mut channel = EmbeddedChannel::new(pipeline().filter(looks).handle(|_, _| {}));
/// channel.write_inbound("hello").channel().pause();
/// channel.advance(Duration::from_secs(1));
/// assert_eq!(pauses.get(), 1);
/// ```
#[derive(Clone, Copy)]
pub struct Glance<'a> {
    core: &'a ChannelCore,
}

impl<'a> Glance<'a> {
    #[inline]
    pub(super) fn at(core: &'a ChannelCore) -> Self {
        Self { core }
    }

    /// See [`Context::moment`](super::Context::moment).
    #[inline]
    pub fn moment(self) -> Moment {
        self.core.moment()
    }

    /// Whether what the peer sends is read: nobody has paused, and no stage holds it back.
    #[inline]
    pub fn is_reading(self) -> bool {
        self.core.demand.takes_input()
    }

    /// How often reading was stopped or went on since the channel began, as a number that wraps. If it is what it was, and the channel
    /// [is reading](Self::is_reading), it has done so all the time: the peer's silence was the peer's own.
    #[inline]
    pub fn reading_changes(self) -> u32 {
        self.core.demand.changes()
    }

    /// See [`ChannelView::taken_bytes`](super::ChannelView::taken_bytes).
    #[inline]
    pub fn taken_bytes(self) -> u64 {
        self.core.taken_bytes()
    }

    /// See [`ChannelView::unsent_bytes`](super::ChannelView::unsent_bytes).
    #[inline]
    pub fn unsent_bytes(self) -> u64 {
        self.core.unsent_bytes()
    }

    /// See [`ChannelView::pending_bytes`](super::ChannelView::pending_bytes).
    #[inline]
    pub fn pending_bytes(self) -> usize {
        self.core.account.pending_bytes()
    }
}
