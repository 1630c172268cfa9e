//! The handler: one job on the way of a byte.

use super::{Context, Event, Glance, Leftover, OnLoop, Place, Target, caller::Call};
use crate::channel::{CloseCause, Fault, HalfClosure, Weight, WritePromise};
use std::any::Any;

/// A timer of one stage.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, StageTimer, pipeline};
/// use bytes::{Bytes, BytesMut};
/// use std::time::Duration;
///
/// struct Wakes { at_six: Option<StageTimer> }
///
/// impl Application for Wakes {
///     type Read = BytesMut;
///     type Write = Bytes;
///
///     fn active(&mut self, cx: &mut AppContext<'_, Self>) {
///         cx.arm(Duration::from_secs(5));
///         self.at_six = Some(cx.arm(Duration::from_secs(6)));
///     }
///     fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
///     fn timer(&mut self, cx: &mut AppContext<'_, Self>, timer: StageTimer) {
///         cx.write_and_flush(Bytes::from(if self.at_six == Some(timer) { "six" } else { "five, " }));
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().app(Wakes { at_six: None }));
/// channel.advance(Duration::from_secs(10));
/// assert_eq!(channel.outbound_bytes(), b"five, six");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StageTimer(pub(crate) u32);

/// One stage of a pipeline. Four types say what it does: what it reads, what it passes on, what it is asked to write,
/// what it writes.
///
/// ```text
///   wire side   ── Read ──▶ [ handler ] ── ReadOut ──▶   application side
///               ◀─ WriteOut ─           ◀── Write ───
/// ```
///
/// While a handler runs, nothing can call it: what the stages behind it write waits at the boundary until its own call
/// has returned. So a handler never sees itself half-changed.
///
/// Every method but [`read`](Self::read) and [`write`](Self::write) has a default that passes things on untouched. For
/// handlers that look one way only there are [`Application`](super::Application), [`Observer`](super::Observer),
/// [`InboundOnly`](super::InboundOnly) and [`OutboundOnly`](super::OutboundOnly).
///
/// `impl Handler for X` is a handler on its channel's loop. One that blocks, and is put [on workers](super::PipelineBuilder::add_on), is
/// `impl Handler<OnWorker> for X`; one that can run in either [place](Place) is `impl<P: Place> Handler<P> for X`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a stage: it does not implement `Handler`",
    label = "not a `Handler`",
    note = "an `Application` is added by `.app(…)`, a closure by `.handle(…)`, an async function by `.serve(…)`",
    note = "an `Observer` is added by `.add(observe(…))`, a `Decoder` with its `Encoder` by `.add(codec(…))`, one alone by `decode(…)`, `encode(…)`",
    note = "the context of an `Application` is `AppContext<'_, Self>`, and its stage is called `ApplicationStage<…>`"
)]
#[doc(alias = "middleware")]
#[doc(alias = "filter")]
#[allow(unused_variables)]
pub trait Handler<P: Place = OnLoop>: Sized + 'static {
    /// Arrives from the wire side.
    type Read: 'static;
    /// Goes on towards the application.
    type ReadOut: 'static;
    /// Arrives from the application side.
    type Write: 'static;
    /// Goes on towards the wire.
    type WriteOut: 'static;

    /// What a message to be written counts for while it waits, so that writers are told when it is too much. To be said by
    /// whoever takes messages of a type of its own that hold memory; stages that take the same type count them alike, and need
    /// not say it again. See [`Weight::unsaid`] for types of which nobody says anything.
    ///
    /// ```
    /// use netwright_core::{Context, EmbeddedChannel, Handler, WaterMarks, Weight, WritePromise, pipeline};
    /// use bytes::{Bytes, BytesMut};
    ///
    /// struct Chapter { title: String, text: Bytes }
    ///
    /// /// Sends books.
    /// struct Press;
    ///
    /// impl Handler for Press {
    ///     type Read = BytesMut;
    ///     type ReadOut = BytesMut;
    ///     type Write = Chapter;
    ///     type WriteOut = Bytes;
    ///     const WEIGHT: Weight<Chapter> = Weight::of(|chapter| chapter.title.len() + chapter.text.len());
    ///
    ///     fn read(&mut self, cx: &mut Context<'_, Self>, order: BytesMut) {
    ///         cx.fire_read(order);
    ///     }
    ///     fn write(&mut self, cx: &mut Context<'_, Self>, chapter: Chapter, done: WritePromise) {
    ///         cx.write(Bytes::from(chapter.title));
    ///         cx.write_with(chapter.text, done);
    ///     }
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().add(Press));
    /// let handle = channel.channel().clone(); // may go to any thread
    /// handle.write(Chapter { title: "One".into(), text: Bytes::from(vec![b'.'; WaterMarks::default().high()]) });
    /// assert!(!handle.is_writable()); // before its loop has seen it
    /// channel.run();
    /// ```
    const WEIGHT: Weight<Self::Write> = Weight::unsaid();

    /// Whether messages and flushes go by the handler without being given to it; see [`Filter::PASSES`](super::Filter::PASSES).
    #[doc(hidden)]
    const PASSES: bool = false;

    /// A message has gone by towards the application, and all that it caused has happened; `wrote`: something was asked of the wire meanwhile.
    #[doc(hidden)]
    #[inline]
    fn passed_read(&mut self, glance: Glance<'_>, wrote: bool) {}

    /// Something was asked of the wire by stages behind this one, and not because of a message.
    #[doc(hidden)]
    #[inline]
    fn passed_write(&mut self, glance: Glance<'_>) {}

    /// The handler has become part of a pipeline; nothing else happened to it before. What it fires here arrives when the
    /// stages behind it have been added too.
    fn added(&mut self, cx: &mut Context<'_, Self, P>) {}

    /// The channel is connected.
    fn active(&mut self, cx: &mut Context<'_, Self, P>) {
        cx.fire_active();
    }

    /// A message. A handler that makes several out of it keeps them and answers [`pull`](Self::pull).
    fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: Self::Read);

    /// The next message that the handler can make out of what it has read; `None` when it needs more.
    ///
    /// Asked for after every `read`, one message at a time: everything that a message causes has happened before the
    /// next one is asked for. None is asked for while reading is paused, but for one when an event comes: whether the
    /// event has to wait for a message shows only then, and that message is held. If there is none, it is asked again when
    /// reading goes on.
    fn pull(&mut self, cx: &mut Context<'_, Self, P>) -> Option<Self::ReadOut> {
        cx.never_pulls();
        None
    }

    /// The transport has delivered all that it had for now.
    fn read_complete(&mut self, cx: &mut Context<'_, Self, P>) {
        cx.fire_read_complete();
    }

    /// A stage in front of this one has something to say.
    fn event(&mut self, cx: &mut Context<'_, Self, P>, event: Event) {
        cx.fire_event(event);
    }

    /// So much waits to be sent that the handler should stop writing (`false`), or there is room again (`true`). The latter also when
    /// the channel ends while somebody may wait for that ([`close_cause`](super::ChannelView::close_cause) tells), and to whoever was told in its own call that
    /// there is none ([`Context::is_writable`]): so `true` may follow `true`.
    fn writability(&mut self, cx: &mut Context<'_, Self, P>, writable: bool) {
        cx.fire_writability(writable);
    }

    /// The peer sends no more, but may still read. Only if a stage [needs](Self::half_closure) to hear of it; otherwise the channel
    /// closes.
    fn input_closed(&mut self, cx: &mut Context<'_, Self, P>) {
        cx.fire_input_closed();
    }

    /// Something went wrong. An error that reaches the end of the pipeline closes the channel.
    fn error(&mut self, cx: &mut Context<'_, Self, P>, fault: Fault) {
        cx.fire_error(fault);
    }

    /// The channel has ended. What is written from now on fails.
    fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
        cx.fire_inactive(cause);
    }

    /// A message to be written. Passed on with its promise, which otherwise reports it as abandoned.
    fn write(&mut self, cx: &mut Context<'_, Self, P>, msg: Self::Write, done: WritePromise);

    /// What was written so far should be sent.
    fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
        cx.flush();
    }

    /// The channel should be closed. A handler that has something to send first does it here.
    fn close(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause, done: WritePromise) {
        cx.close_with(cause, done);
    }

    /// The peer should be told that no more will come, once what was flushed is sent. A handler that has something to send
    /// first does it here.
    fn shut_down_output(&mut self, cx: &mut Context<'_, Self, P>, done: WritePromise) {
        cx.shut_down_output_with(done);
    }

    /// A timer of this stage is due.
    fn timer(&mut self, cx: &mut Context<'_, Self, P>, timer: StageTimer) {}

    /// Children of this stage have run by themselves, because of a timer, a future or a command of another thread, and have
    /// something to say: [`Children::next_ready`](crate::Children::next_ready) tells who.
    fn children_ready(&mut self, cx: &mut Context<'_, Self, P>) {}

    /// A closure for this handler has come back through its [`StageCaller`](super::StageCaller).
    #[doc(hidden)]
    fn called(&mut self, cx: &mut Context<'_, Self, P>, call: Box<dyn Any + Send>) {
        if let Ok(call) = call.downcast::<Call<Self, P>>() {
            call.run(self, cx);
        }
    }

    /// Whose calls [`called`](Self::called) takes: those of the handler inside, where one wraps another.
    #[doc(hidden)]
    fn target(&self) -> Target {
        Target::of::<Self, P>()
    }

    /// One of this handler's futures has to be polled.
    #[doc(hidden)]
    fn polled(&mut self, cx: &mut Context<'_, Self, P>, task: Box<dyn Any>) {
        P::polled(self, cx, task);
    }

    /// Whether something is on its way through this stage that will come out later, so that the pipeline has to live on.
    #[doc(hidden)]
    fn is_busy(&self) -> bool {
        false
    }

    /// Whether that is on a worker: it comes back by itself, whatever is delivered meanwhile.
    #[doc(hidden)]
    fn is_away(&self) -> bool {
        false
    }

    /// Whether an answer to something that was read is still to come. A peer that sends no more is waited for until there is none,
    /// for as long as answers may take; after the end nobody asks.
    fn owes(&self) -> bool {
        false
    }

    /// Whether the channel is to live on when the peer sends no more. Asked when that has come, behind all that it sent; by default
    /// it is all the same to a stage. A stage on workers is asked when it is made.
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Passes
    }

    /// The segment that the handler is part of is about to be exchanged, on a channel that goes on. What it kept can still
    /// be written, and a handler that paused can resume for its successor; holds, timers and futures end by themselves.
    /// Stages behind it have left before. What it fires is lost.
    fn leaving(&mut self, cx: &mut Context<'_, Self, P>) {}

    /// A stage of this channel has panicked, and the channel is about to be closed. What is written and flushed here is tried to
    /// be sent first, so that a peer can be told; it is not waited for. Stages behind this one have been asked before. Nothing
    /// else happens to the handler before it is removed.
    fn panicked(&mut self, cx: &mut Context<'_, Self, P>) {}

    /// The conversation is over, and another one may begin with the same stages: [`active`](Self::active) comes again, in place of
    /// [`removed`](Self::removed). A handler that can take it forgets all that it knows of the last one, and says so. Its timers,
    /// futures and holds have ended by themselves. Asked only of children ([`Children`](crate::Children)) that have ended in order.
    fn start_over(&mut self) -> bool {
        false
    }

    /// The handler leaves its pipeline for good; nothing else happens to it after.
    fn removed(&mut self) {}

    /// What was read and not used, for the one that takes this handler's place.
    fn leftover(&mut self) -> Leftover<Self::Read> {
        Leftover::nothing()
    }

    /// What to call this stage in listings.
    fn name(&self) -> &'static str {
        super::simple::short(std::any::type_name::<Self>())
    }
}
