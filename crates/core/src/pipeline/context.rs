//! What a handler can do while it runs.

use super::{
    Event, Glance, Handler, Hold, Inbound, Job, Kept, OnLoop, Op, Ops, Place, StageCaller, StageTimer,
    segment::Next,
};
use crate::{
    channel::{
        Address, Carries, Channel, ChannelCore, ChildError, CloseCause, Family, Fault, ParentChannel,
        TailEnded, What, WritePromise, Written,
    },
    driver::Token,
    event_loop::{LocalLoop, Moment},
};
use std::{
    any::TypeId,
    convert::Infallible,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// A handler's view of its pipeline and channel, for the time of one call.
///
/// `fire_…` goes on towards the application, at once. `write`, `flush` and `close` go towards the wire: they are queued
/// at the boundary to the stage before, in order, and carried out when that stage is free. The verbs mean the same here, on a
/// [`Channel`] and on a [`Peer`](crate::Peer): `docs/verbs.md` has them in a table.
///
/// `P` is the [place](Place) where the handler runs. Nearly everything works everywhere. Futures ([`spawn`](Self::spawn), [`offload`](Self::offload),
/// [`schedule`](Self::schedule)) and [children](crate::Children) belong to a loop, and are there for handlers [`OnLoop`].
///
/// ```
/// use netwright_core::{Context, EmbeddedChannel, Handler, WritePromise, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// /// Answers pings itself, and passes everything else on.
/// struct Pings;
///
/// impl Handler for Pings {
///     type Read = BytesMut;
///     type ReadOut = BytesMut;
///     type Write = Bytes;
///     type WriteOut = Bytes;
///
///     fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
///         match &bytes[..] {
///             b"ping" => cx.write_and_flush(Bytes::from("pong")), // towards the wire
///             _ => cx.fire_read(bytes),                           // towards the application
///         }
///     }
///     fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Bytes, done: WritePromise) {
///         cx.write_with(bytes, done);
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(Pings));
/// channel.write_inbound("ping").write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"pong");
/// assert_eq!(channel.read_inbound().unwrap(), "hello");
/// ```
pub struct Context<'a, H: Handler<P>, P: Place = OnLoop> {
    pub(super) next: &'a mut dyn Next<H::ReadOut>,
    pub(super) ops: &'a mut Ops<H::WriteOut>,
    pub(super) core: &'a mut ChannelCore,
    pub(super) stage: u32,
}

impl<H: Handler<P>, P: Place> Context<'_, H, P> {
    // ---- towards the application ----

    /// Passes a message on.
    pub fn fire_read(&mut self, msg: H::ReadOut) {
        self.next.read(self.core, msg);
    }

    /// Passes on that the channel is connected.
    pub fn fire_active(&mut self) {
        self.next.event(self.core, Inbound::Active);
    }

    /// Passes on that the transport has delivered all for now.
    pub fn fire_read_complete(&mut self) {
        self.next.read_complete(self.core);
    }

    /// Tells the stages behind this one something.
    pub fn fire_event(&mut self, event: Event) {
        self.next.event(self.core, Inbound::User(event));
    }

    /// Passes on whether there is room to write.
    pub fn fire_writability(&mut self, writable: bool) {
        self.next.event(self.core, Inbound::Writability(writable));
    }

    /// Passes on that the peer sends no more.
    pub fn fire_input_closed(&mut self) {
        self.next.event(self.core, Inbound::InputClosed);
    }

    /// Passes on an error, or raises one.
    pub fn fire_error(&mut self, fault: impl Into<Fault>) {
        self.next.event(self.core, Inbound::Error(fault.into()));
    }

    /// Passes on that the channel has ended.
    pub fn fire_inactive(&mut self, cause: CloseCause) {
        self.next.event(self.core, Inbound::Inactive(cause));
    }

    // ---- towards the wire ----

    /// Writes a message that nobody tracks. It is sent at the next flush.
    #[inline]
    pub fn write<M>(&mut self, msg: M)
    where
        H::WriteOut: Carries<M>,
    {
        self.write_with(msg, WritePromise::untracked());
    }

    /// Writes a message for somebody who may be waiting to hear of it.
    #[inline]
    pub fn write_with<M>(&mut self, msg: M, done: WritePromise)
    where
        H::WriteOut: Carries<M>,
    {
        let msg = H::WriteOut::carry(msg);
        self.core.count_write(self.ops.weight(), &msg);
        self.ops.push_write(msg, done);
    }

    /// Writes a message and returns a future of its fate.
    pub fn write_tracked<M>(&mut self, msg: M) -> Written
    where
        H::WriteOut: Carries<M>,
    {
        let (done, written) = WritePromise::tracked();
        self.write_with(msg, done);
        written
    }

    /// Sends what was written so far.
    pub fn flush(&mut self) {
        self.ops.push_flush();
    }

    /// Writes a message that nobody tracks, and sends it.
    pub fn write_and_flush<M>(&mut self, msg: M)
    where
        H::WriteOut: Carries<M>,
    {
        self.write(msg);
        self.flush();
    }

    /// Writes a message, sends it, and returns a future of its fate.
    pub fn send<M>(&mut self, msg: M) -> Written
    where
        H::WriteOut: Carries<M>,
    {
        let written = self.write_tracked(msg);
        self.flush();
        written
    }

    /// Closes the channel. What was flushed before is sent as far as the socket takes it at once.
    pub fn close(&mut self) {
        self.close_with(CloseCause::Requested, WritePromise::untracked());
    }

    /// Closes the channel for a reason that everybody will be told.
    pub fn close_because(&mut self, cause: CloseCause) {
        self.close_with(cause, WritePromise::untracked());
    }

    /// Closes the channel, and tells when that is done.
    pub fn close_with(&mut self, cause: CloseCause, done: WritePromise) {
        self.wants_no_more();
        self.ops.push(Op::Close(cause, done));
    }

    /// This handler closes the channel. If it is the last one, nobody waits for messages that have not reached it.
    pub(super) fn wants_no_more(&mut self) {
        if TypeId::of::<H::ReadOut>() == TypeId::of::<Infallible>() {
            self.core.wants_no_more();
        }
    }

    /// Closes the channel once everything that was flushed is sent.
    pub fn close_when_flushed(&mut self) {
        self.wants_no_more();
        self.core.close_when_flushed();
    }

    /// Tells the peer that no more will come, once everything that was flushed is sent. Reading goes on.
    pub fn shut_down_output(&mut self) {
        self.shut_down_output_with(WritePromise::untracked());
    }

    /// [`shut_down_output`](Self::shut_down_output), and returns a future of when that is done.
    pub fn shut_down_output_tracked(&mut self) -> Written {
        let (done, written) = WritePromise::tracked();
        self.shut_down_output_with(done);
        written
    }

    /// [`shut_down_output`](Self::shut_down_output) for somebody who may be waiting to hear of it.
    pub fn shut_down_output_with(&mut self, done: WritePromise) {
        self.ops.push(Op::ShutDownOutput(done));
    }

    // ---- demand ----

    /// Stops delivery at once: the transport stops reading, decoders are not asked for more, messages on their way are
    /// held.
    pub fn pause(&mut self) {
        self.core.pause();
    }

    /// Lets delivery go on.
    pub fn resume(&mut self) {
        self.core.resume();
    }

    /// Asks for one message while paused: it reaches the last stage, then delivery stops again.
    pub fn request(&mut self) {
        self.core.request();
    }

    // ---- what a stage holds back: let go when what is returned is dropped, at the latest when the stage leaves ----

    /// Stops delivery, whatever the application asks for: this stage has no room for another message. Holds of several stages add up.
    #[doc(alias = "rate limit")]
    #[doc(alias = "backpressure")]
    pub fn hold(&mut self) -> Hold {
        Hold::take(self, What::Hold)
    }

    /// Has the transport read no more, while messages that are inside go on: for a decoder that holds enough bytes and
    /// waits for an answer before it goes on.
    pub fn hold_input(&mut self) -> Hold {
        Hold::take(self, What::HoldInput)
    }

    /// Has messages delivered also while the application asks for none: this stage has something to settle with the peer first, such as
    /// a handshake that a write waits for. It passes no message on meanwhile.
    pub fn insist(&mut self) -> Hold {
        Hold::take(self, What::Insist)
    }

    /// This stage keeps so many bytes that were written: they count as pending, so that writers hear of it when they are
    /// too many. How many changes through what is returned.
    pub fn keep(&mut self, bytes: usize) -> Kept {
        Kept::new(self, bytes)
    }

    /// What a message counts for while it waits to be sent: what a stage that keeps it [keeps](Self::keep).
    pub fn weigh(&self, msg: &H::WriteOut) -> usize {
        self.ops.weight().of_message(msg)
    }

    // ---- time ----

    /// Has [`Handler::timer`] called after `delay`. Never early; forgotten when the stage leaves or
    /// [`Handler::inactive`] has been told.
    pub fn arm(&mut self, delay: Duration) -> StageTimer {
        self.core.arm(self.stage, delay)
    }

    /// Has [`Handler::timer`] called at `moment`, to look whether something is over by then that nearly always is not: how long a peer has been silent, say.
    /// It cannot be taken back, and comes in a later turn of the loop if the moment has passed.
    ///
    /// The first stage of a channel that does so has one of these at a time, of which 16 bytes are kept; a second call takes the place of the first, if it has not
    /// come. For other stages it is the same as [`arm`](Self::arm).
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, Filter, FilterContext, Glance, Moment, StageTimer, pipeline};
    /// use std::time::Duration;
    ///
    /// /// Closes a channel on which nothing has been read for a minute. No message touches a timer.
    /// struct Silence(Moment);
    ///
    /// const LIMIT: Duration = Duration::from_secs(60);
    ///
    /// impl<R: 'static, W: 'static> Filter<R, W> for Silence {
    ///     const PASSES: bool = true;
    ///
    ///     fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W>) {
    ///         self.0 = cx.moment();
    ///         cx.look_at(self.0.saturating_add(LIMIT));
    ///         cx.fire_active();
    ///     }
    ///     fn passed_read(&mut self, glance: Glance<'_>, _: bool) {
    ///         self.0 = glance.moment();
    ///     }
    ///     fn timer(&mut self, cx: &mut FilterContext<'_, Self, R, W>, _: StageTimer) {
    ///         let over = self.0.saturating_add(LIMIT);
    ///         if over <= cx.moment() { cx.close() } else { cx.look_at(over) }
    ///     }
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().filter(Silence(Moment::START)).handle(|_, _| {}));
    /// channel.advance(Duration::from_secs(59)).write_inbound("hello").advance(Duration::from_secs(59));
    /// assert!(channel.is_open());
    /// channel.advance(Duration::from_secs(1));
    /// assert!(!channel.is_open());
    /// ```
    pub fn look_at(&mut self, moment: Moment) {
        self.core.look_at(self.stage, moment);
    }

    /// Takes a timer back. False if it was due already.
    pub fn disarm(&mut self, timer: StageTimer) -> bool {
        self.core.disarm(self.stage, timer)
    }

    /// The moment of the loop's turn, by the loop's clock; see [`LocalLoop::turn_time`](crate::LocalLoop::turn_time). On a worker, the
    /// present moment. What a timeout notes with each message: it costs next to nothing.
    #[inline]
    pub fn now(&self) -> Instant {
        self.core.now()
    }

    /// The moment at which the loop last read the clock, which it does when it wakes and when it has delivered what came: never later than
    /// [`now`](Self::now), and by no more than this turn has taken. What is noted with each message: it costs a few instructions.
    #[inline]
    pub fn moment(&self) -> Moment {
        self.core.moment()
    }

    /// What a filter sees that lets messages [pass](crate::Filter::PASSES).
    #[inline]
    pub fn glance(&self) -> Glance<'_> {
        Glance::at(self.core)
    }

    /// Gives demand back as it was found.
    pub(crate) fn restore_demand(&mut self, flowing: bool) {
        if flowing { self.resume() } else { self.pause() }
    }

    /// This handler never has a message to be pulled: it need not be asked again.
    pub(super) fn never_pulls(&mut self) {
        self.core.unrest.never_pulls();
    }

    /// The channel's handle, for the last stage: only it writes what the handle takes.
    pub(crate) fn handle<W: 'static>(&self) -> Option<Channel<W>> {
        self.core.handle()
    }

    // ---- the way back ----

    /// Calls this handler back later, from any thread.
    pub fn caller(&self) -> StageCaller<H, P> {
        self.core.caller(self.stage)
    }

    // ---- the channel ----

    /// Says where the two ends of the channel are, for whoever asks from now on: stages, handles, children. For a stage that knows better than the
    /// socket, because a proxy is in between and has told whom it speaks for. The addresses of the wire stay known
    /// ([`ChannelView::wire_peer`](crate::ChannelView::wire_peer)).
    ///
    /// ```
    /// use netwright_core::{Address, EmbeddedChannel, pipeline};
    ///
    /// let client: Address = "192.0.2.7:4711".parse()?;
    /// let told = client.clone();
    /// let stages = pipeline().handle(move |cx, _| cx.set_addresses(cx.view().local(), Some(told.clone())));
    /// let mut channel = EmbeddedChannel::between(stages, None, Some("10.0.0.1:80".parse()?));
    /// channel.write_inbound("it is another one");
    /// assert_eq!(channel.channel().peer(), Some(client));
    /// assert_eq!(channel.channel().wire_peer(), Some("10.0.0.1:80".parse()?));
    /// # Ok::<(), netwright_core::AddressError>(())
    /// ```
    pub fn set_addresses(&mut self, local: Option<Address>, peer: Option<Address>) {
        self.core.is_said_to_be_at((local, peer));
    }

    /// Attaches a value to the channel, one for each type, in place of the one that was there: for handles, and for
    /// [stages](crate::ChannelView::attribute) that come to it later than an event would.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline};
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().handle(|cx, bytes: bytes::BytesMut| {
    ///     let sum = cx.view().attribute::<usize>().map_or(0, |sum| *sum);
    ///     cx.set_attribute(sum + bytes.len());
    /// }));
    /// channel.write_inbound("hello").write_inbound("world");
    /// assert_eq!(channel.channel().attribute::<usize>().as_deref(), Some(&10));
    /// ```
    pub fn set_attribute<T: Send + Sync + 'static>(&mut self, value: T) {
        self.core.set_attribute(TypeId::of::<T>(), Arc::new(value));
    }

    /// Whether there is room to write: less than the high water mark waits to be sent, what this call has written
    /// included. Whoever is told that there is none hears [`Handler::writability`] when there is, or when the channel has
    /// ended or its output is shut down: then there is room too, for what is written only fails. Why the channel has ended tells
    /// [`close_cause`](crate::ChannelView::close_cause).
    pub fn is_writable(&self) -> bool {
        self.core.is_writable()
    }
}

// What belongs to a loop.
impl<H: Handler> Context<'_, H> {
    /// An async tail has ended: the channel closes once everything that was flushed is sent, if no other segment goes on.
    pub(crate) fn tail_ended(&mut self, how: TailEnded) {
        self.core.tail_ended(how);
    }

    /// Takes something to be polled on this stage.
    pub(crate) fn spawn_job(&mut self, job: impl Job<H> + 'static) {
        self.core.spawn(self.stage, Box::pin(job));
    }

    /// A family for this stage, which is about to have its first child.
    pub(crate) fn found_family(
        &mut self,
        found: impl FnOnce(ParentChannel, LocalLoop, Token, u32) -> Family,
    ) -> Result<Rc<Family>, ChildError> {
        self.core.found_family(self.stage, found)
    }
}
