//! Tells, or closes, when nothing happens on a channel.
//!
//! ```text
//!   wire ═════════════ messages go by ═════════════▶ application
//!                          ┆ noted: when
//!                      [ Idle ] ──── IdleEvent ────▶
//!                          ▲ one appointment, for when a limit may be over
//! ```
//! Always true:
//! 1. A message touches no timer. There is one appointment, whatever limits there are, and the next is made when it has come.
//! 2. Nothing is told before the channel is active, nor when it has ended; and nothing of a peer's silence when it has said that it sends no more.
//! 3. While reading is stopped, each silence is told once: events that nobody takes do not pile up.
//! 4. What was said of a stage, and that there is nothing unusual about it, is one value for all that were made alike ([`shared`]).

mod event;
mod shared;
mod silence;

pub use event::{IdleEvent, IdleKind};
pub(crate) use silence::{Limit, Listening, Seen};
use silence::{Silence, Unusual};

use netwright_core::{CloseCause, Event, Filter, FilterContext, Glance, Moment, Place, StageTimer};
use std::{sync::Arc, time::Duration};

const KINDS: [IdleKind; 3] = [IdleKind::Read, IdleKind::Write, IdleKind::All];

/// Tells the stages behind it, or closes the channel, when nothing has happened for a time.
///
/// There is a limit for each [kind](IdleKind) of silence. By default a silence is told as an [`IdleEvent`], again and again until something happens;
/// with [`closing`](Self::closing) the first one ends the channel, with [`CloseCause::TimedOut`]. To write something now and then and give up
/// a peer that does not answer, use `Idle::write(…)` for the one and [`ReadTimeout`](crate::ReadTimeout) for the other.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
/// use netwright_handler::Idle;
/// use std::{sync::Arc, time::Duration};
///
/// let stages = pipeline().filter(Idle::all(Duration::from_secs(30)).closing());
/// let mut channel = EmbeddedChannel::new(stages.handle(|cx, bytes| cx.write_and_flush(bytes)));
/// channel.advance(Duration::from_secs(29)).write_inbound("still here").advance(Duration::from_secs(29));
/// assert!(channel.is_open());
/// channel.advance(Duration::from_secs(1));
/// assert!(matches!(channel.channel().close_cause(), Some(CloseCause::TimedOut(limit)) if limit.as_secs() == 30));
/// ```
///
/// - **Reads** are messages that pass it: bytes next to the wire, requests behind a decoder of requests. Silence counts **only while we read**: a peer that
///   is not listened to, because the application has paused or waits for something, is not blamed. When reading goes on, silence begins anew, at most
///   one limit later.
/// - **Writes** are what is written and flushed behind it. Slow is not idle: while something waits to be sent, each byte that leaves counts.
/// - **All** is silence in both directions. A peer that does not take what waits for it is silent, also while reading is paused because of that.
/// - A peer that has said that it sends no more is not waited for: of a half-closed channel only writes count.
/// - Zero is no limit. Times are kept in milliseconds, from 24 days on in seconds, rounded up; the longest is 68 years. None ends early.
///
/// A message and its answer take some twenty instructions more and no look at the clock, 150 beside a stage that writes another type; an idle connection
/// keeps 72 bytes more, all that the loop keeps of it included. Any number of them may be in a pipeline.
#[derive(Debug)]
#[doc(alias = "IdleStateHandler")]
#[doc(alias = "keep-alive")]
#[doc(alias = "heartbeat")]
pub struct Idle {
    silence: Silence,
    state: Arc<State>,
}

/// What was said of an idle stage, and what rarely has to be kept of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    limits: [Limit; 3],
    closes: bool,
    unusual: Unusual,
    /// What was told of each kind of silence.
    told: [Told; 3],
}

/// What was told of one kind of silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    times: u32,
    /// When it was last told.
    last: Moment,
}

impl Told {
    const NOTHING: Self = Self { times: 0, last: Moment::START };
}

impl State {
    /// Nothing is known but what was said.
    fn new(limits: [Limit; 3], closes: bool) -> Self {
        Self { limits, closes, unusual: Unusual::NOTHING, told: [Told::NOTHING; 3] }
    }

    fn with(mut self, kind: IdleKind, limit: Duration) -> Self {
        self.limits[kind as usize] = Limit::new(limit);
        self
    }
}

impl Idle {
    fn new(kind: IdleKind, limit: Duration) -> Self {
        let none = State::new([Limit::NONE; 3], false);
        Self { silence: Silence::NEVER, state: shared::of(none.with(kind, limit)) }
    }

    /// A limit for the time in which the peer says nothing.
    pub fn read(limit: Duration) -> Self {
        Self::new(IdleKind::Read, limit)
    }

    /// A limit for the time in which nothing is written, and nothing leaves of what waits.
    pub fn write(limit: Duration) -> Self {
        Self::new(IdleKind::Write, limit)
    }

    /// A limit for the time in which nothing happens in either direction.
    pub fn all(limit: Duration) -> Self {
        Self::new(IdleKind::All, limit)
    }

    /// Adds a limit of another kind, or replaces that of the same kind.
    ///
    /// ```
    /// use netwright_handler::{Idle, IdleKind};
    /// use std::{sync::Arc, time::Duration};
    ///
    /// let idle = Idle::read(Duration::from_secs(60)).and(IdleKind::Write, Duration::from_secs(20));
    /// assert_eq!(idle.limit(IdleKind::Write), Some(Duration::from_secs(20)));
    /// assert_eq!(idle.limit(IdleKind::All), None);
    /// ```
    #[must_use]
    pub fn and(mut self, kind: IdleKind, limit: Duration) -> Self {
        self.state = shared::of(self.state.with(kind, limit));
        self
    }

    /// Has the channel closed, with [`CloseCause::TimedOut`], as soon as one of the limits is over.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.state = shared::of(State { closes: true, ..*self.state });
        self
    }

    /// The limit for a kind of silence, if there is one.
    pub fn limit(&self, kind: IdleKind) -> Option<Duration> {
        self.state.limits[kind as usize].get()
    }

    fn has_limits(&self) -> bool {
        self.state.limits.iter().any(|limit| *limit != Limit::NONE)
    }

    /// Keeps what is known now: with all others that know the same, if that is nothing unusual.
    fn keep(&mut self, state: State) {
        if *self.state == state {
            return;
        }
        match state == State::new(state.limits, state.closes) {
            true => self.state = shared::of(state),
            false => *Arc::make_mut(&mut self.state) = state,
        }
    }

    /// The limits that are over now, and when one of them may be over next.
    fn look(&mut self, seen: Seen) -> ([Option<IdleEvent>; 3], Option<Moment>) {
        let (mut over, mut next, mut state) = ([None; 3], None::<Moment>, *self.state);
        self.silence.look(&mut state.unusual, seen);
        for kind in KINDS {
            let (limit, told) = (state.limits[kind as usize].get(), &mut state.told[kind as usize]);
            let (Some(limit), Some(since)) = (limit, self.silence.of(kind, &state.unusual)) else { continue };
            if since >= told.last {
                *told = Told::NOTHING; // what has happened in answer to what was told has happened since
            }
            let mut due = since.max(told.last).saturating_add(limit);
            if due <= seen.now {
                due = seen.now.saturating_add(limit);
                let times = told.times.saturating_add(u32::from(told.times == 0 || seen.reading));
                if times != told.times {
                    over[kind as usize] = Some(IdleEvent { kind, limit, times });
                }
                *told = Told { times, last: seen.now };
            }
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        self.keep(state);
        (over, next)
    }
}

impl<R: 'static, W: 'static, P: Place> Filter<R, W, P> for Idle {
    const PASSES: bool = true;

    fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {
        if self.has_limits() {
            let seen = cx.glance().into();
            self.silence = Silence::begin(seen);
            let mut state = State::new(self.state.limits, self.state.closes);
            state.unusual.begin(seen);
            self.keep(state);
            let (_, next) = self.look(seen);
            next.into_iter().for_each(|next| cx.look_at(next));
        }
        cx.fire_active();
    }

    #[inline]
    fn passed_read(&mut self, glance: Glance<'_>, wrote: bool) {
        self.silence.hears(glance, wrote);
    }

    #[inline]
    fn passed_write(&mut self, glance: Glance<'_>) {
        self.silence.asks(glance.moment());
    }

    fn writability(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, writable: bool) {
        if writable {
            self.silence.has_room(cx.moment());
        }
        cx.fire_writability(writable);
    }

    fn input_closed(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {
        let mut state = *self.state;
        state.unusual.input_ends();
        self.keep(state);
        cx.fire_input_closed();
    }

    fn timer(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, _: StageTimer) {
        let (over, next) = self.look(cx.glance().into());
        if self.state.closes
            && let Some(IdleEvent { limit, .. }) = over.into_iter().flatten().next()
        {
            return cx.close_because(CloseCause::TimedOut(limit));
        }
        next.into_iter().for_each(|next| cx.look_at(next));
        for event in over.into_iter().flatten() {
            cx.fire_event(Event::new(event));
        }
    }

    fn start_over(&mut self) -> bool {
        self.keep(State::new(self.state.limits, self.state.closes)); // and silence begins anew when the channel is active
        true
    }
}
