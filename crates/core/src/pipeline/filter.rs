//! Stages that keep the types of what passes: limits, logs that change things, timeouts, shaping.
//!
//! A [`Filter`] is named by the pair of types that pass it, and has a default for every hook, also for `read` and `write`. One that is written for
//! any pair (`impl<R, W> Filter<R, W> for …`) fits anywhere in any pipeline, and has no type parameters of its own.

use super::{Context, Event, Glance, Handler, Leftover, OnLoop, Place, StageTimer, simple::short_name};
use crate::channel::{CloseCause, Fault, HalfClosure, WritePromise};
use std::{
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

/// The view of a [`Filter`] on its pipeline and channel.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Filter, FilterContext, Outgoing, WritePromise, pipeline};
/// use bytes::BytesMut;
///
/// /// Lets nothing out before the peer has said something.
/// struct SpeakWhenSpokenTo(bool);
///
/// impl Filter<BytesMut, Outgoing> for SpeakWhenSpokenTo {
///     fn read(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, Outgoing>, bytes: BytesMut) {
///         self.0 = true;
///         cx.fire_read(bytes);
///     }
///     fn write(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, Outgoing>, out: Outgoing, done: WritePromise) {
///         if self.0 {
///             cx.write_with(out, done); // dropped otherwise, which its promise reports
///         }
///     }
/// }
///
/// let stages = pipeline().filter(SpeakWhenSpokenTo(false)).handle(|cx, bytes| cx.write_and_flush(bytes));
/// let mut channel = EmbeddedChannel::new(stages);
/// channel.write_outbound("hello?");
/// channel.write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// ```
pub type FilterContext<'a, F, R, W, P = OnLoop> = Context<'a, FilterStage<F, R, W>, P>;

/// One job on messages that stay what they are. Every hook has a default that passes things on, so a filter names those that it cares about.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Filter, FilterContext, pipeline};
///
/// /// Closes a channel with its hundredth message.
/// #[derive(Default)]
/// struct Hundred(u32);
///
/// impl<R: 'static, W: 'static> Filter<R, W> for Hundred {
///     fn read(&mut self, cx: &mut FilterContext<'_, Self, R, W>, msg: R) {
///         self.0 += 1;
///         cx.fire_read(msg);
///         if self.0 == 100 {
///             cx.close();
///         }
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().filter(Hundred::default()).handle(|_, _| {}));
/// (0..99).for_each(|_| drop(channel.write_inbound("hello")));
/// assert!(channel.is_open());
/// channel.write_inbound("hello");
/// assert!(!channel.is_open());
/// ```
///
/// One that only looks on is an [`Observer`](super::Observer); one that makes other messages of what it reads or is asked to write is a
/// [`Handler`]. The hooks are those of [`Handler`], where each is explained.
#[doc(alias = "middleware")]
#[doc(alias = "ChannelDuplexHandler")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a filter of what is read as `{R}` and written as `{W}`",
    label = "no `Filter<{R}, {W}>`",
    note = "a filter for whatever passes is `impl<R: 'static, W: 'static> Filter<R, W> for …`"
)]
#[allow(unused_variables)]
pub trait Filter<R: 'static, W: 'static, P: Place = OnLoop>: Sized + 'static {
    /// Whether messages pass the filter without being given to it, as well as all that is asked of the wire: for one that cares about time, events or
    /// the end of a channel, and not about what is said. Then [`read`](Self::read), [`pull`](Self::pull), [`read_complete`](Self::read_complete),
    /// [`write`](Self::write), [`flush`](Self::flush), [`close`](Self::close) and [`shut_down_output`](Self::shut_down_output) are not called. A message costs
    /// next to nothing more, and [`Channel::stages`](crate::Channel::stages) counts none. That something passed is told by
    /// [`passed_read`](Self::passed_read) and [`passed_write`](Self::passed_write).
    ///
    /// ```
    /// use netwright_core::{CloseCause, EmbeddedChannel, Filter, FilterContext, Moment, pipeline};
    /// use bytes::BytesMut;
    /// use std::{cell::Cell, rc::Rc, time::Duration};
    ///
    /// /// How long channels live.
    /// struct Age { began: Option<Moment>, age: Rc<Cell<Duration>> }
    ///
    /// impl<R: 'static, W: 'static> Filter<R, W> for Age {
    ///     const PASSES: bool = true;
    ///
    ///     fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W>) {
    ///         self.began = Some(cx.moment());
    ///         cx.fire_active();
    ///     }
    ///     fn inactive(&mut self, cx: &mut FilterContext<'_, Self, R, W>, cause: CloseCause) {
    ///         self.age.set(cx.moment().duration_since(self.began.unwrap()));
    ///         cx.fire_inactive(cause);
    ///     }
    /// }
    ///
    /// let age = Rc::default();
    /// let stages = pipeline().filter(Age { began: None, age: Rc::clone(&age) }).handle(|cx, bytes| cx.write_and_flush(bytes));
    /// let mut channel = EmbeddedChannel::new(stages);
    /// channel.write_inbound("hello").advance(Duration::from_secs(5)).close_by_peer();
    /// assert_eq!(age.get(), Duration::from_secs(5));
    /// ```
    const PASSES: bool = false;

    /// A message has passed towards the application, and all that it caused there has happened; with `wrote`, this includes what
    /// [`passed_write`](Self::passed_write) tells otherwise, be it because of another message of the same call. Only if the filter [`PASSES`](Self::PASSES).
    #[inline]
    fn passed_read(&mut self, glance: Glance<'_>, wrote: bool) {}
    /// Stages behind this one, or handles, have asked something of the wire: a write, a flush, a close. Only if the filter
    /// [`PASSES`](Self::PASSES).
    #[inline]
    fn passed_write(&mut self, glance: Glance<'_>) {}
    /// See [`Handler::added`].
    fn added(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {}
    /// The channel is connected.
    fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {
        cx.fire_active();
    }
    /// A message on its way to the application.
    fn read(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, msg: R) {
        cx.fire_read(msg);
    }
    /// The next message that was kept and may go on; see [`Handler::pull`].
    fn pull(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) -> Option<R> {
        cx.never_pulls();
        None
    }
    /// The transport has delivered all that it had for now.
    fn read_complete(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {
        cx.fire_read_complete();
    }
    /// A stage nearer to the wire has something to say.
    fn event(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, event: Event) {
        cx.fire_event(event);
    }
    /// There is too much to be sent, or room again; see [`Handler::writability`].
    fn writability(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, writable: bool) {
        cx.fire_writability(writable);
    }
    /// The peer sends no more.
    fn input_closed(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {
        cx.fire_input_closed();
    }
    /// Something went wrong nearer to the wire.
    fn error(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, fault: Fault) {
        cx.fire_error(fault);
    }
    /// The channel has ended.
    fn inactive(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, cause: CloseCause) {
        cx.fire_inactive(cause);
    }
    /// A message on its way to the wire. Passed on with its promise, which otherwise reports it as abandoned.
    fn write(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, msg: W, done: WritePromise) {
        cx.write_with(msg, done);
    }
    /// What was written so far should be sent.
    fn flush(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {
        cx.flush();
    }
    /// The channel should be closed.
    fn close(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, cause: CloseCause, done: WritePromise) {
        cx.close_with(cause, done);
    }
    /// The peer should be told that no more will come.
    fn shut_down_output(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, done: WritePromise) {
        cx.shut_down_output_with(done);
    }
    /// A timer of this filter is due.
    fn timer(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, timer: StageTimer) {}
    /// See [`Handler::owes`].
    fn owes(&self) -> bool {
        false
    }
    /// Whether something is kept that will go on later by itself, so that the end has to wait for it.
    #[doc(hidden)]
    fn is_busy(&self) -> bool {
        false
    }
    /// See [`Handler::half_closure`].
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Passes
    }
    /// The segment that the filter is part of is about to be exchanged; see [`Handler::leaving`].
    fn leaving(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {}
    /// A stage has panicked, and the channel is about to be closed; see [`Handler::panicked`].
    fn panicked(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>) {}
    /// Another conversation may begin: true if the filter can take it; see [`Handler::start_over`].
    fn start_over(&mut self) -> bool {
        false
    }
    /// The filter leaves its pipeline for good.
    fn removed(&mut self) {}
    /// What was read and not passed on, for the one that takes this filter's place.
    fn leftover(&mut self) -> Leftover<R> {
        Leftover::nothing()
    }
}

/// A [`Filter`] as a stage of certain types: where they are not those of the stage before it, or of bytes, or where the stage is handed around by
/// itself. In a pipeline [`PipelineBuilder::filter`](super::PipelineBuilder::filter) knows them.
///
/// ```
/// use netwright_core::{Filter, FilterStage, Outgoing, filter, pipeline};
/// use bytes::BytesMut;
///
/// struct Passes(u32);
/// impl<R: 'static, W: 'static> Filter<R, W> for Passes {}
///
/// let stage: FilterStage<Passes, BytesMut, Outgoing> = filter(Passes(7));
/// assert_eq!(stage.0, 7);
/// let stages = pipeline().add(stage).add(filter::<_, BytesMut, Outgoing>(Passes(8)));
/// ```
pub fn filter<F, R: 'static, W: 'static>(filter: F) -> FilterStage<F, R, W> {
    FilterStage::new(filter)
}

/// A [`Filter`] in its pipeline, made by [`PipelineBuilder::filter`](super::PipelineBuilder::filter) or [`filter`]. Gives the filter by `Deref`, for closures that come back
/// to it.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Filter, FilterContext, pipeline};
/// use bytes::BytesMut;
///
/// struct Asks { answers: u32 }
///
/// impl<R: 'static, W: 'static> Filter<R, W> for Asks {
///     fn read(&mut self, cx: &mut FilterContext<'_, Self, R, W>, msg: R) {
///         cx.spawn(async {}, |stage, _, ()| stage.answers += 1);
///         cx.fire_read(msg);
///     }
/// }
///
/// EmbeddedChannel::new(pipeline().filter(Asks { answers: 0 }).handle(|_, _| {})).write_inbound("hello");
/// ```
pub struct FilterStage<F, R, W> {
    filter: F,
    #[allow(clippy::type_complexity)]
    passes: PhantomData<(fn(R) -> R, fn(W) -> W)>,
}

impl<F, R, W> FilterStage<F, R, W> {
    pub(super) fn new(filter: F) -> Self {
        Self { filter, passes: PhantomData }
    }
}

impl<F, R, W> Deref for FilterStage<F, R, W> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.filter
    }
}

impl<F, R, W> DerefMut for FilterStage<F, R, W> {
    fn deref_mut(&mut self) -> &mut F {
        &mut self.filter
    }
}

impl<F, R: 'static, W: 'static, P: Place> Handler<P> for FilterStage<F, R, W>
where
    F: Filter<R, W, P>,
{
    type Read = R;
    type ReadOut = R;
    type Write = W;
    type WriteOut = W;
    const PASSES: bool = F::PASSES;

    #[inline]
    fn passed_read(&mut self, glance: Glance<'_>, wrote: bool) {
        self.filter.passed_read(glance, wrote);
    }
    #[inline]
    fn passed_write(&mut self, glance: Glance<'_>) {
        self.filter.passed_write(glance);
    }
    fn added(&mut self, cx: &mut Context<'_, Self, P>) {
        self.filter.added(cx);
    }
    fn active(&mut self, cx: &mut Context<'_, Self, P>) {
        self.filter.active(cx);
    }
    #[inline]
    fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: R) {
        if F::PASSES {
            cx.fire_read(msg); // where its types are not those of its neighbours, or on workers
            return self.filter.passed_read(cx.glance(), false);
        }
        self.filter.read(cx, msg);
    }
    #[inline]
    fn pull(&mut self, cx: &mut Context<'_, Self, P>) -> Option<R> {
        if F::PASSES {
            cx.never_pulls();
            return None;
        }
        self.filter.pull(cx)
    }
    #[inline]
    fn read_complete(&mut self, cx: &mut Context<'_, Self, P>) {
        if F::PASSES {
            return cx.fire_read_complete();
        }
        self.filter.read_complete(cx);
    }
    fn event(&mut self, cx: &mut Context<'_, Self, P>, event: Event) {
        self.filter.event(cx, event);
    }
    fn writability(&mut self, cx: &mut Context<'_, Self, P>, writable: bool) {
        self.filter.writability(cx, writable);
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self, P>) {
        self.filter.input_closed(cx);
    }
    fn error(&mut self, cx: &mut Context<'_, Self, P>, fault: Fault) {
        self.filter.error(cx, fault);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
        self.filter.inactive(cx, cause);
    }
    #[inline]
    fn write(&mut self, cx: &mut Context<'_, Self, P>, msg: W, done: WritePromise) {
        if F::PASSES {
            cx.write_with(msg, done);
            return self.filter.passed_write(cx.glance());
        }
        self.filter.write(cx, msg, done);
    }
    #[inline]
    fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
        if F::PASSES {
            return cx.flush();
        }
        self.filter.flush(cx);
    }
    fn close(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause, done: WritePromise) {
        if F::PASSES {
            return cx.close_with(cause, done);
        }
        self.filter.close(cx, cause, done);
    }
    fn shut_down_output(&mut self, cx: &mut Context<'_, Self, P>, done: WritePromise) {
        if F::PASSES {
            return cx.shut_down_output_with(done);
        }
        self.filter.shut_down_output(cx, done);
    }
    fn timer(&mut self, cx: &mut Context<'_, Self, P>, timer: StageTimer) {
        self.filter.timer(cx, timer);
    }
    fn owes(&self) -> bool {
        self.filter.owes()
    }
    fn is_busy(&self) -> bool {
        self.filter.is_busy()
    }
    fn half_closure(&self) -> HalfClosure {
        self.filter.half_closure()
    }
    fn leaving(&mut self, cx: &mut Context<'_, Self, P>) {
        self.filter.leaving(cx);
    }
    fn panicked(&mut self, cx: &mut Context<'_, Self, P>) {
        self.filter.panicked(cx);
    }
    fn start_over(&mut self) -> bool {
        self.filter.start_over()
    }
    fn removed(&mut self) {
        self.filter.removed();
    }
    fn leftover(&mut self) -> Leftover<R> {
        self.filter.leftover()
    }
    fn name(&self) -> &'static str {
        short_name::<F>()
    }
}
