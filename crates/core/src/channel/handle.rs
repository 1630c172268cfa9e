//! The handle to a channel: what every thread may ask of it.
//!
//! ```text
//!   Channel<W> ──▶ ChannelShared<W>: commands, in order ──▶ the loop
//!
//!   Channel<M> of a sealed segment ──▶ Inlet<M>: messages ┐
//!                                  └─▶ ChannelShared<Infallible>: commands, in order ──▶ the loop
//! ```
//! A handle made inside of a sealed segment differs in one thing only: where its messages wait. All the rest is the one
//! channel's.

use super::{
    Address, Carries, ChannelHold, ChannelId, CloseCause, Closed, Outgoing, ParentChannel, Weight,
    WriteError, WritePromise, Written,
    inlet::Inlet,
    shared::{ChannelShared, CloseListener, Command, NOBODY},
    waiting::Waiting,
};
use crate::{
    arena::Key,
    event_loop::EventLoop,
    pipeline::{Event, Handler, OnWorker, Slot, StageCaller, StageError, StageInfo},
    promise::{PromiseError, Promised, promise},
};
use std::{
    any::{Any, TypeId},
    fmt,
    future::poll_fn,
    net::SocketAddr,
    sync::Arc,
    task::Waker,
};

/// What a write from outside counts for while it is on its way to the loop, beside the message itself.
const COMMAND_OVERHEAD: usize = 32;

/// Told to every connection of a server that shuts down gracefully, as an event of its pipeline: finish what you have begun.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, Event, ShuttingDown, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// struct Polite;
///
/// impl Application for Polite {
///     type Read = BytesMut;
///     type Write = Bytes;
///     fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
///     fn event(&mut self, cx: &mut AppContext<'_, Self>, event: Event) {
///         if event.get::<ShuttingDown>().is_some() {
///             cx.write_and_flush(Bytes::from("goodbye"));
///             cx.close_when_flushed();
///         }
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().app(Polite));
/// channel.channel().fire_event(Event::new(ShuttingDown)); // as a server does
/// assert_eq!(channel.outbound_bytes(), b"goodbye");
/// assert!(!channel.is_open());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShuttingDown;

/// How far a channel is.
///
/// ```
/// use netwright_core::{ChannelState, EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
/// assert_eq!(channel.channel().state(), ChannelState::Active);
/// channel.close_by_peer();
/// assert_eq!(channel.channel().state(), ChannelState::Closed);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelState {
    /// Not connected yet.
    Opening,
    /// Connected.
    Active,
    /// Over.
    Closed,
}

/// A handle to a channel, for any thread. `W` is what its pipeline takes at the application's end.
///
/// Cheap to clone. What is asked for is carried out on the channel's loop, in the order in which one thread asks. The
/// handle does not keep the channel or its loop alive. The verbs mean the same here, on a [`Context`](crate::Context) and on a
/// [`Peer`](crate::Peer): `docs/verbs.md` has them in a table.
///
/// A handle that comes from inside of a [sealed](crate::PipelineBuilder::sealed) segment writes to that segment. When the
/// segment is exchanged, what was accepted before is carried out, and later writes report
/// [`WriteError::Exchanged`]; everything else goes on to be the channel's.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
/// use bytes::Bytes;
///
/// let mut embedded = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
/// let channel = embedded.channel().clone(); // may go to any thread
///
/// channel.write_and_flush(Bytes::from("fire and forget, "));
/// let mut written = channel.send(Bytes::from("or hear of it"));
/// assert_eq!(embedded.outbound_bytes(), b"fire and forget, or hear of it");
/// assert!(written.wait().is_ok());
///
/// channel.set_attribute(42_u32);
/// assert_eq!(channel.attribute::<u32>().as_deref(), Some(&42));
///
/// channel.close();
/// embedded.run();
/// assert!(matches!(channel.close_cause(), Some(CloseCause::Requested)));
/// assert!(channel.send(Bytes::from("too late")).wait().is_err());
/// ```
pub struct Channel<W = Outgoing> {
    way: WritesTo<W>,
}

/// Where messages go. Everything else goes to the channel.
pub(super) enum WritesTo<W> {
    Shared(Arc<ChannelShared<W>>),
    Inlet(Arc<Inlet<W>>),
}

impl<W> Clone for WritesTo<W> {
    fn clone(&self) -> Self {
        match self {
            Self::Shared(shared) => Self::Shared(shared.clone()),
            Self::Inlet(inlet) => Self::Inlet(inlet.clone()),
        }
    }
}

/// Does something with the channel's own shared part, whatever it takes.
macro_rules! shared {
    ($way:expr, $shared:ident => $call:expr) => {
        match &$way {
            WritesTo::Shared($shared) => $call,
            WritesTo::Inlet(inlet) => {
                let $shared = inlet.channel();
                $call
            }
        }
    };
}

impl<W> WritesTo<W> {
    pub(super) fn close_cause(&self) -> Option<CloseCause> {
        shared!(self, shared => shared.close_cause())
    }

    pub(super) fn register(&self, place: &mut Option<Key>, waker: &Waker) {
        shared!(self, shared => shared.register(place, waker));
    }

    pub(super) fn unregister(&self, place: Key) {
        shared!(self, shared => shared.unregister(place));
    }

    pub(super) fn listen(
        &self,
        owner: usize,
        listener: CloseListener,
    ) -> Result<(), (CloseListener, CloseCause)> {
        shared!(self, shared => shared.listen(owner, listener))
    }

    fn is_writable(&self) -> bool {
        match self {
            Self::Shared(shared) => shared.is_writable(),
            Self::Inlet(inlet) => inlet.is_open() && inlet.channel().is_writable(),
        }
    }

    /// Whether the segment that takes such messages has been exchanged.
    fn is_exchanged(&self) -> bool {
        matches!(self, Self::Inlet(inlet) if !inlet.is_open())
    }

    /// What whoever waits for room finds, if anything.
    fn room(&self) -> Option<Result<(), CloseCause>> {
        match self.close_cause() {
            Some(cause) => Some(Err(cause)),
            None if self.is_writable() => Some(Ok(())),
            None if self.is_exchanged() => Some(Err(CloseCause::Fault(WriteError::Exchanged.into()))),
            None => None,
        }
    }
}

impl<W: 'static> Channel<W> {
    pub(super) fn through(inlet: Arc<Inlet<W>>) -> Self {
        Self { way: WritesTo::Inlet(inlet) }
    }

    /// The channel's number, unique in this process.
    pub fn id(&self) -> ChannelId {
        shared!(self.way, shared => shared.id)
    }

    /// How far the channel is.
    pub fn state(&self) -> ChannelState {
        shared!(self.way, shared => shared.state())
    }

    /// Whether the end has come or was asked for, by a handle or by the pipeline: what is written now may not be sent any
    /// more. Known at once, while [`state`](Self::state) tells of the end itself. A channel on which this is false may
    /// still end at any moment, because its peer may.
    ///
    /// ```
    /// use netwright_core::{ChannelState, EmbeddedChannel, pipeline};
    ///
    /// let embedded = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
    /// let channel = embedded.channel();
    /// assert!(!channel.is_closing());
    /// channel.close_when_flushed();
    /// assert!(channel.is_closing());
    /// assert_eq!(channel.state(), ChannelState::Active); // until its loop comes to it
    /// ```
    pub fn is_closing(&self) -> bool {
        shared!(self.way, shared => shared.is_closing())
    }

    /// Our host and port, once connected; `None` if the channel is not on the network.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local().as_ref().and_then(Address::ip)
    }

    /// The peer's host and port, once connected; `None` if the channel is not on the network.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer().as_ref().and_then(Address::ip)
    }

    /// Our address of any kind, once connected; the one that a stage has [set](crate::Context::set_addresses), if any has.
    pub fn local(&self) -> Option<Address> {
        shared!(self.way, shared => shared.addresses()).0
    }

    /// The peer's address of any kind, once connected; the one that a stage has [set](crate::Context::set_addresses), if any has.
    pub fn peer(&self) -> Option<Address> {
        shared!(self.way, shared => shared.addresses()).1
    }

    /// Our address on the wire, whatever stages have [set](crate::Context::set_addresses).
    pub fn wire_local(&self) -> Option<Address> {
        shared!(self.way, shared => shared.wire_addresses()).0
    }

    /// Who is at the other end of the wire, whatever stages have [set](crate::Context::set_addresses): the proxy, behind one.
    pub fn wire_peer(&self) -> Option<Address> {
        shared!(self.way, shared => shared.wire_addresses()).1
    }

    /// Whose child the channel is, if it is one: a stream of HTTP/2 is a child of its connection.
    pub fn parent(&self) -> Option<ParentChannel> {
        shared!(self.way, shared => shared.parent())
    }

    /// The numbers of the channel's children at the moment when its loop comes to it.
    pub fn children(&self) -> Promised<Vec<ChannelId>, PromiseError> {
        let (answer, children) = promise();
        shared!(self.way, shared => shared.send(Command::Ask(Box::new(|channel| answer.succeed(channel.children())))));
        children
    }

    /// The loop on which the channel lives, for life. While this handle of it is held, the loop does not end for want of
    /// handles, as the channel's own handle does not keep it from doing. Once it has ended, it refuses what it is given.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use bytes::Bytes;
    /// use std::time::Duration;
    ///
    /// let mut embedded = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
    /// let channel = embedded.channel().clone(); // may go to any thread
    /// let remind = channel.clone();
    /// channel.event_loop().schedule(Duration::from_secs(60), move || remind.write_and_flush(Bytes::from("still there?")))?;
    ///
    /// embedded.advance(Duration::from_secs(60));
    /// assert_eq!(embedded.outbound_bytes(), b"still there?");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn event_loop(&self) -> EventLoop {
        shared!(self.way, shared => shared.event_loop())
    }

    /// Tells the pipeline something, from its first stage on, as if a stage in front had said it.
    pub fn fire_event(&self, event: Event) {
        shared!(self.way, shared => shared.send(Command::Event(event)));
    }

    // ---- writing ----

    /// Writes a message that nobody tracks; it is sent with the next flush.
    ///
    /// Until then it takes room. Whoever writes more than the high [water mark](crate::WaterMarks) and does not flush leaves no room to the others, for ever:
    /// an async function waits in its next `write`, and a handler or a service that is held back until its answers are taken gets nothing more.
    /// Any flush ends that.
    ///
    /// ```
    /// use netwright_core::{CloseCause, EmbeddedChannel, Peer, pipeline};
    /// use bytes::Bytes;
    ///
    /// async fn echo(mut peer: Peer) -> Result<(), CloseCause> {
    ///     while let Some(bytes) = peer.read().await? {
    ///         peer.write_and_flush(bytes).await?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let mut embedded = EmbeddedChannel::new(pipeline().serve(echo));
    /// let channel = embedded.channel().clone();
    /// channel.write(Bytes::from(vec![b'.'; 100_000])); // 64 KiB is the high mark
    /// embedded.run().write_inbound("hello?");
    /// assert!(embedded.outbound_bytes().is_empty()); // no room for the answer
    /// channel.flush();
    /// assert!(embedded.run().outbound_bytes().ends_with(b"hello?"));
    /// ```
    pub fn write<M>(&self, msg: M)
    where
        W: Carries<M>,
    {
        self.write_with(msg, WritePromise::untracked());
    }

    /// Writes a message. The future tells when the transport has taken it; until it is flushed it can be cancelled.
    pub fn write_tracked<M>(&self, msg: M) -> Written
    where
        W: Carries<M>,
    {
        let (done, written) = WritePromise::tracked();
        self.write_with(msg, done);
        written
    }

    /// Sends what was written so far.
    pub fn flush(&self) {
        shared!(self.way, shared => shared.send(Command::Flush));
    }

    /// Writes a message that nobody tracks, and sends it.
    pub fn write_and_flush<M>(&self, msg: M)
    where
        W: Carries<M>,
    {
        self.write(msg);
        self.flush();
    }

    /// Writes a message and sends it. The future tells when the transport has taken it.
    pub fn send<M>(&self, msg: M) -> Written
    where
        W: Carries<M>,
    {
        let written = self.write_tracked(msg);
        self.flush();
        written
    }

    /// What messages count for that enter here.
    pub(crate) fn weight(&self) -> Weight<W> {
        match &self.way {
            WritesTo::Shared(shared) => shared.weight.get(),
            WritesTo::Inlet(inlet) => inlet.weight.get(),
        }
    }

    /// What a message counts for that is written here.
    pub(super) fn size(&self, msg: &W) -> usize {
        self.weight().of_message(msg) + COMMAND_OVERHEAD
    }

    /// Writes a message for somebody who may be waiting to hear of it.
    pub fn write_with<M>(&self, msg: M, done: WritePromise)
    where
        W: Carries<M>,
    {
        let msg = W::carry(msg);
        let size = self.size(&msg);
        match &self.way {
            WritesTo::Shared(shared) => {
                shared.sets_out(size);
                shared.send(Command::Write(msg, done, size));
            }
            WritesTo::Inlet(inlet) => inlet.write(msg, done, size),
        }
    }

    /// Whether there is room to write: fewer bytes wait to be sent than the high water mark. [`writable`](Self::writable) waits for it.
    #[doc(alias = "backpressure")]
    pub fn is_writable(&self) -> bool {
        self.way.is_writable()
    }

    /// Resolves when there is room to write, or to the cause when the channel has ended. If the segment that takes such
    /// messages was exchanged, there never will be room: the cause is a fault that holds [`WriteError::Exchanged`].
    pub async fn writable(&self) -> Result<(), CloseCause> {
        let mut waiting = Waiting::new(self.way.clone());
        poll_fn(|cx| waiting.poll(cx, WritesTo::room)).await
    }

    // ---- reading ----

    /// Stops delivery: the transport stops reading, messages on their way are held.
    pub fn pause(&self) {
        shared!(self.way, shared => shared.send(Command::Pause));
    }

    /// Lets delivery go on.
    pub fn resume(&self) {
        shared!(self.way, shared => shared.send(Command::Resume));
    }

    /// Asks for one message while paused.
    pub fn request(&self) {
        shared!(self.way, shared => shared.send(Command::Request));
    }

    /// Stops delivery until what is returned is dropped, whatever [`resume`](Self::resume) and [`request`](Self::request) say. Several reasons to pause add up, each
    /// with a guard of its own; [`pause`](Self::pause) is one bit that everybody shares.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline};
    ///
    /// let mut embedded = EmbeddedChannel::new(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
    /// let channel = embedded.channel().clone(); // may go to any thread
    /// let disk_is_full = channel.hold();
    /// let backend_is_away = channel.hold();
    /// embedded.run().write_inbound("hello");
    /// drop(disk_is_full);
    /// channel.resume(); // is none of their business
    /// assert_eq!(embedded.run().outbound_bytes(), b"");
    /// drop(backend_is_away);
    /// assert_eq!(embedded.run().outbound_bytes(), b"hello");
    /// ```
    #[doc(alias = "pause guard")]
    pub fn hold(&self) -> ChannelHold<W> {
        ChannelHold::of(self.clone())
    }

    pub(super) fn take_hold(&self) {
        shared!(self.way, shared => shared.send(Command::Hold));
    }

    pub(super) fn let_go(&self) {
        shared!(self.way, shared => shared.send(Command::LetGo));
    }

    // ---- the end ----

    /// Closes the channel. The future resolves when it is closed; closing twice is fine.
    pub fn close(&self) -> Closed<W> {
        self.close_because(CloseCause::Requested)
    }

    /// Closes the channel for a reason that everybody will be told.
    pub fn close_because(&self, cause: CloseCause) -> Closed<W> {
        shared!(self.way, shared => shared.side().closing = true);
        shared!(self.way, shared => shared.send(Command::Close(cause, WritePromise::untracked())));
        self.closed()
    }

    /// Breaks the conversation off, and has the peer told this code of the protocol: closes with [`CloseCause::Reset`]. For
    /// children, whose parent speaks such a protocol; other channels are just closed.
    pub fn reset(&self, code: u64) -> Closed<W> {
        self.close_because(CloseCause::Reset(code))
    }

    /// Closes the channel without asking its stages: no protocol says goodbye, nothing under way on workers and no peer is
    /// waited for, whatever its options say. The stages hear [`inactive`](crate::Handler::inactive) as ever.
    ///
    /// ```
    /// use netwright_core::{CloseCause, Context, EmbeddedChannel, Handler, WritePromise, pipeline};
    /// # use bytes::{Bytes, BytesMut};
    ///
    /// /// Says goodbye before it lets a channel close.
    /// struct Polite;
    ///
    /// impl Handler for Polite {
    /// #     type Read = BytesMut;
    /// #     type ReadOut = BytesMut;
    /// #     type Write = Bytes;
    /// #     type WriteOut = Bytes;
    /// #     fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
    /// #         cx.fire_read(bytes);
    /// #     }
    /// #     fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Bytes, done: WritePromise) {
    /// #         cx.write_with(bytes, done);
    /// #     }
    ///     fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
    ///         cx.write("goodbye");
    ///         cx.flush();
    ///         cx.close_with(cause, done);
    ///     }
    ///     // and everything else as it comes
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().add(Polite).handle(|_, _| {}));
    /// let closed = channel.channel().close_now(CloseCause::ShutDown);
    /// channel.run();
    /// assert!(matches!(closed.wait(), Ok(CloseCause::ShutDown)));
    /// assert_eq!(channel.outbound_bytes(), b"");
    /// ```
    pub fn close_now(&self, cause: CloseCause) -> Closed<W> {
        shared!(self.way, shared => shared.side().closing = true);
        shared!(self.way, shared => shared.send(Command::CloseNow(cause)));
        self.closed()
    }

    /// Closes the channel once everything that was flushed is sent.
    pub fn close_when_flushed(&self) -> Closed<W> {
        shared!(self.way, shared => shared.side().closing = true);
        shared!(self.way, shared => shared.send(Command::CloseWhenFlushed));
        self.closed()
    }

    /// Tells the peer that no more will come, once everything that was flushed is sent. Reading goes on.
    pub fn shut_down_output(&self) {
        self.shut_down_output_with(WritePromise::untracked());
    }

    /// [`shut_down_output`](Self::shut_down_output), and tells when that is done.
    pub fn shut_down_output_tracked(&self) -> Written {
        let (done, written) = WritePromise::tracked();
        self.shut_down_output_with(done);
        written
    }

    /// [`shut_down_output`](Self::shut_down_output) for somebody who may be waiting to hear of it.
    pub fn shut_down_output_with(&self, done: WritePromise) {
        shared!(self.way, shared => shared.send(Command::ShutDownOutput(done)));
    }

    /// The end of the channel: a future of its cause, and a blocking wait.
    pub fn closed(&self) -> Closed<W> {
        Closed::new(self.way.clone())
    }

    /// Calls `listener` with the cause when the channel has ended: on its loop, before its pipeline hears of it; or here
    /// and now if it has ended already. A listener that panics is reported, and the others are still called.
    pub fn on_close(&self, listener: impl FnOnce(&CloseCause) + Send + 'static) {
        if let Err((listener, cause)) = self.way.listen(NOBODY, Box::new(listener)) {
            listener(&cause);
        }
    }

    /// The same for an owner, any number but 0, that can take its listener back. A channel that has ended already gives
    /// it back at once.
    pub(super) fn listen_for(&self, owner: usize, listener: CloseListener) -> Result<(), CloseListener> {
        debug_assert_ne!(owner, NOBODY);
        self.way.listen(owner, listener).map_err(|(listener, _)| listener)
    }

    /// Why the channel ended, if it has.
    pub fn close_cause(&self) -> Option<CloseCause> {
        self.way.close_cause()
    }

    // ---- attributes and stages ----

    /// Attaches a value to the channel, one for each type. Returns the one that was there.
    pub fn set_attribute<T: Send + Sync + 'static>(&self, value: T) -> Option<Arc<T>> {
        let before = shared!(self.way, shared => shared.set_attribute(TypeId::of::<T>(), Arc::new(value)));
        before.and_then(|before| before.downcast().ok())
    }

    /// Attaches values that many channels share. For transports: servers and clients are given them once for all.
    #[doc(hidden)]
    pub fn attach(&self, attributes: &[(TypeId, Arc<dyn Any + Send + Sync>)]) {
        if !attributes.is_empty() {
            shared!(self.way, shared => shared.side().rare().attributes.extend(attributes.iter().cloned()));
        }
    }

    /// The value of this type that is attached to the channel.
    pub fn attribute<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        shared!(self.way, shared => shared.attribute(TypeId::of::<T>()))?.downcast().ok()
    }

    /// The slot of this name, if the pipeline has one for these types.
    pub fn slot<R: 'static, X: 'static>(&self, name: &str) -> Option<Slot<R, X>> {
        let mut side = shared!(self.way, shared => shared.side());
        side.rare_if_any()?
            .slots
            .iter()
            .find(|(known, _)| *known == name)
            .and_then(|(_, slot)| slot.downcast_ref::<Slot<R, X>>().cloned())
    }

    /// The stage that was [given this name](crate::PipelineBuilder::named), to be called on the channel's loop with the handler in hand.
    ///
    /// `H` is the handler as its stage has it: for an [application](crate::Application) or an [observer](crate::Observer) the
    /// [`ApplicationStage`](crate::ApplicationStage) or [`ObserverStage`](crate::ObserverStage) around it; for an `Option`,
    /// an [`Either`](crate::Either) or a stage on workers the handler inside.
    ///
    /// ```
    /// use netwright_core::{Context, EmbeddedChannel, Handler, WritePromise, pipeline};
    /// use bytes::{Bytes, BytesMut};
    ///
    /// /// Cuts what is written after so many bytes.
    /// struct Limit { bytes: usize }
    ///
    /// impl Handler for Limit {
    ///     type Read = BytesMut;
    ///     type ReadOut = BytesMut;
    ///     type Write = Bytes;
    ///     type WriteOut = Bytes;
    ///     fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
    ///         cx.fire_read(bytes);
    ///     }
    ///     fn write(&mut self, cx: &mut Context<'_, Self>, mut bytes: Bytes, done: WritePromise) {
    ///         bytes.truncate(self.bytes);
    ///         cx.write_with(bytes, done);
    ///     }
    /// }
    ///
    /// let stages = pipeline().add(Limit { bytes: 3 }).named("limit").handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
    /// let mut channel = EmbeddedChannel::new(stages);
    /// channel.channel().stage::<Limit>("limit")?.call(|limit, _| limit.bytes = 5);
    /// channel.run().write_inbound("hello, world");
    /// assert_eq!(channel.outbound_bytes(), b"hello");
    /// # Ok::<(), netwright_core::StageError>(())
    /// ```
    ///
    /// # Errors
    /// No stage has this name now, or the one that has it is of another type: the error names what there is.
    pub fn stage<H: Handler>(&self, name: &str) -> Result<StageCaller<H>, StageError> {
        shared!(self.way, shared => shared.stage(name))
    }

    /// [`stage`](Self::stage) for one that [runs on workers](crate::PipelineBuilder::add_on): what it is called with runs there, with the
    /// context that a stage has there.
    ///
    /// # Errors
    /// As those of [`stage`](Self::stage).
    pub fn stage_on_workers<H: Handler<OnWorker>>(
        &self,
        name: &str,
    ) -> Result<StageCaller<H, OnWorker>, StageError> {
        shared!(self.way, shared => shared.stage(name))
    }

    /// The stages of the pipeline, from the wire to the application, with their figures.
    pub fn stages(&self) -> Promised<Vec<StageInfo>, PromiseError> {
        let (answer, stages) = promise();
        shared!(self.way, shared => shared.send(Command::Ask(Box::new(|channel| answer.succeed(channel.stages())))));
        stages
    }
}

impl<W> Channel<W> {
    pub(super) fn of(shared: Arc<ChannelShared<W>>) -> Self {
        Self { way: WritesTo::Shared(shared) }
    }

    /// Takes back what [`listen_for`](Self::listen_for) was given. The caller drops it, with no lock held.
    pub(super) fn take_listener(&self, owner: usize) -> Option<CloseListener> {
        shared!(self.way, shared => shared.take_listener(owner))
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn listeners(&self) -> usize {
        shared!(self.way, shared => shared.lock().rare.as_ref().map_or(0, |rare| rare.listeners.len()))
    }
}

impl<W> Clone for Channel<W> {
    fn clone(&self) -> Self {
        Self { way: self.way.clone() }
    }
}

impl<W> PartialEq for Channel<W> {
    fn eq(&self, other: &Self) -> bool {
        shared!(self.way, shared => shared.id) == shared!(other.way, shared => shared.id)
    }
}

impl<W> Eq for Channel<W> {}

impl<W: 'static> fmt::Debug for Channel<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("id", &self.id())
            .field("state", &self.state())
            .field("peer", &self.peer_addr())
            .finish_non_exhaustive()
    }
}
