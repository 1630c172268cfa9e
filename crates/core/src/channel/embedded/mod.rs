//! A channel for tests: no socket, no thread, a clock moved by hand.
//!
//! | file | what it is |
//! | --- | --- |
//! | `mod` | [`EmbeddedChannel`], its two ends and its time |
//! | `wire` | what a transport would do: of bytes, or of messages |
//! | `finished` | what is collected, and what is left in the end |

mod finished;
mod wire;

use super::{
    Address, CarriedBy, Carries, Channel, ChannelState, CloseCause, Host, HostSettings, Outgoing, Pack,
    Weight,
};
use crate::{
    ManualLoop,
    event_loop::LocalLoop,
    pipeline::{ApplicationStage, Complete, Element, IntoPipeline, Link, PipelineBuilder, Segment},
};
use bytes::{Bytes, BytesMut};
pub use finished::{Collector, Finished};
use std::{cell::RefCell, collections::VecDeque, fmt, rc::Rc, time::Duration};
use wire::{AnyHost, HostSource, OnWire};

/// Runs a pipeline by hand: bytes in at the wire's end, messages out at the application's, and back.
///
/// Behind the last stage of the pipeline it puts a collector: what that stage passes on is kept for
/// [`read_inbound`](Self::read_inbound).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use std::time::Duration;
///
/// let mut channel = EmbeddedChannel::new(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
/// channel.write_inbound(b"hello");
/// assert_eq!(channel.read_outbound().unwrap(), "hello");
/// channel.advance(Duration::from_secs(3600));
/// assert!(channel.is_open());
/// channel.finish().expect_nothing();
/// ```
///
/// The wire's end need not be bytes. A pipeline that begins with any message, such as a part of a request, a datagram or a
/// type of your own, runs without a codec in front ([`of_messages`](Self::of_messages)): it reads `I` and writes `O`.
pub struct EmbeddedChannel<R, W, I = BytesMut, O = Bytes> {
    manual: ManualLoop,
    host: Rc<RefCell<dyn AnyHost<I, O>>>,
    channel: Channel<W>,
    inbound: Rc<RefCell<VecDeque<R>>>,
    wire: VecDeque<O>,
    blocked: bool,
    in_turn: bool,
}

/// Of bytes.
impl<R: 'static, W: 'static> EmbeddedChannel<R, W> {
    /// A connected channel that runs this pipeline. For a pipeline that a function returns as `impl IntoPipeline<W>` there is
    /// [`of`](EmbeddedChannel::of).
    pub fn new<S, H, E, P, X>(pipeline: PipelineBuilder<(S, H), E>) -> Self
    where
        H: Element<ReadOut = R, Write = W>,
        ((S, H), ApplicationStage<Collector<R, W>>): Link<Complete, Linked = P>,
        P: Segment<BytesMut, X, Tail = W>,
        X: CarriedBy<Outgoing>,
    {
        Self::with_settings(pipeline, HostSettings::default())
    }

    /// The same with settings of one's own.
    pub fn with_settings<S, H, E, P, X>(pipeline: PipelineBuilder<(S, H), E>, settings: HostSettings) -> Self
    where
        H: Element<ReadOut = R, Write = W>,
        ((S, H), ApplicationStage<Collector<R, W>>): Link<Complete, Linked = P>,
        P: Segment<BytesMut, X, Tail = W>,
        X: CarriedBy<Outgoing>,
    {
        let inbound = Rc::default();
        let segment = collecting(pipeline, &inbound);
        Self::embed(inbound, |local| Host::new(local, segment, settings))
    }

    /// A connected channel whose pipeline ends in a joint, or is sealed: [`of`](EmbeddedChannel::of), with any type for what is never
    /// collected.
    pub fn with_joint(pipeline: impl IntoPipeline<W>) -> Self {
        Self::with_joint_and_settings(pipeline, HostSettings::default())
    }

    /// The same with settings of one's own.
    pub fn with_joint_and_settings(pipeline: impl IntoPipeline<W>, settings: HostSettings) -> Self {
        let segment = pipeline.into_pipeline();
        Self::embed(Rc::default(), |local| Host::new(local, segment, settings))
    }

    /// Delivers bytes as one read, followed by `read_complete`. While reading is paused they wait.
    pub fn write_inbound(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.receive(BytesMut::from(bytes.as_ref()))
    }

    /// Everything that was sent and not yet read, as one.
    pub fn outbound_bytes(&mut self) -> Vec<u8> {
        std::iter::from_fn(|| self.read_outbound()).flatten().collect()
    }
}

/// Of bytes, with any complete pipeline.
impl<W: 'static> EmbeddedChannel<(), W> {
    /// A connected channel that runs a complete pipeline of any type, such as one that a function returns as `impl IntoPipeline<W>`. Its last stage
    /// passes nothing on, so [`read_inbound`](Self::read_inbound) has nothing to give.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, IntoPipeline, Outgoing, pipeline};
    ///
    /// fn echo() -> impl IntoPipeline<Outgoing> {
    ///     pipeline().handle(|cx, bytes| cx.write_and_flush(bytes))
    /// }
    ///
    /// let mut channel = EmbeddedChannel::of(echo());
    /// assert_eq!(channel.write_inbound("hello").outbound_bytes(), b"hello");
    /// ```
    pub fn of(pipeline: impl IntoPipeline<W>) -> Self {
        Self::with_joint(pipeline)
    }

    /// The same for a channel whose ends have these addresses.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline};
    ///
    /// let greets = pipeline().handle(|cx, _: bytes::BytesMut| {
    ///     let peer = cx.view().peer_addr().unwrap();
    ///     cx.write_and_flush(format!("hello, {peer}"));
    /// });
    /// let mut channel = EmbeddedChannel::between(greets, None, Some("192.0.2.7:4711".parse()?));
    /// assert_eq!(channel.write_inbound("?").outbound_bytes(), b"hello, 192.0.2.7:4711");
    /// # Ok::<(), netwright_core::AddressError>(())
    /// ```
    pub fn between(pipeline: impl IntoPipeline<W>, local: Option<Address>, peer: Option<Address>) -> Self {
        let segment = pipeline.into_pipeline();
        let host = |home| Host::new(home, segment, HostSettings::default());
        Self::embed_between(Rc::default(), (local, peer), host)
    }
}

/// Of messages of any type.
impl<R: 'static, W: 'static, I: 'static, O: 'static> EmbeddedChannel<R, W, I, O> {
    /// A connected channel that runs this pipeline, which reads messages instead of bytes and writes messages.
    ///
    /// ```
    /// use netwright_core::{AppContext, Application, EmbeddedChannel, pipeline};
    ///
    /// /// The last stage of a calculator, without the codec in front of it.
    /// struct Adds { sum: u64 }
    ///
    /// impl Application for Adds {
    ///     type Read = u32;
    ///     type Write = String;
    ///     fn read(&mut self, cx: &mut AppContext<'_, Self>, number: u32) {
    ///         self.sum += u64::from(number);
    ///         cx.write_and_flush(format!("{} so far", self.sum));
    ///     }
    /// }
    ///
    /// let mut channel = EmbeddedChannel::of_messages(pipeline().app(Adds { sum: 0 }));
    /// channel.receive(20).receive(22);
    /// assert_eq!(channel.read_outbound().unwrap(), "20 so far");
    /// assert_eq!(channel.finish().outbound, ["42 so far"]);
    /// ```
    pub fn of_messages<S, H, E, P>(pipeline: PipelineBuilder<(S, H), E>) -> Self
    where
        H: Element<ReadOut = R, Write = W>,
        ((S, H), ApplicationStage<Collector<R, W>>): Link<Complete, Linked = P>,
        P: Segment<I, O, Tail = W>,
    {
        Self::of_messages_with(pipeline, HostSettings::default(), Weight::unsaid())
    }

    /// The same with settings of one's own, and with what a message counts for while it waits: at the wire's end no stage
    /// can say it, because none takes what the first one writes.
    pub fn of_messages_with<S, H, E, P>(
        pipeline: PipelineBuilder<(S, H), E>,
        settings: HostSettings,
        weight: Weight<O>,
    ) -> Self
    where
        H: Element<ReadOut = R, Write = W>,
        ((S, H), ApplicationStage<Collector<R, W>>): Link<Complete, Linked = P>,
        P: Segment<I, O, Tail = W>,
    {
        let inbound = Rc::default();
        let segment = collecting(pipeline, &inbound);
        Self::embed(inbound, |local| Host::of_messages(local, segment, settings, weight))
    }

    /// The same for a pipeline that ends in a joint, or is sealed; see [`with_joint`](EmbeddedChannel::with_joint).
    pub fn of_messages_with_joint<P>(pipeline: P, settings: HostSettings, weight: Weight<O>) -> Self
    where
        P: IntoPipeline<W, I, O, Written = O>,
    {
        let segment = pipeline.into_pipeline();
        Self::embed(Rc::default(), |local| Host::of_messages(local, segment, settings, weight))
    }

    fn embed<P, X, M>(
        inbound: Rc<RefCell<VecDeque<R>>>,
        host: impl FnOnce(LocalLoop) -> Host<P, X, I, M>,
    ) -> Self
    where
        P: Segment<I, X, Tail = W>,
        X: 'static,
        M: Pack<X> + OnWire<O>,
    {
        Self::embed_between(inbound, (None, None), host)
    }

    fn embed_between<P, X, M>(
        inbound: Rc<RefCell<VecDeque<R>>>,
        (here, peer): (Option<Address>, Option<Address>),
        host: impl FnOnce(LocalLoop) -> Host<P, X, I, M>,
    ) -> Self
    where
        P: Segment<I, X, Tail = W>,
        X: 'static,
        M: Pack<X> + OnWire<O>,
    {
        let mut manual = ManualLoop::new();
        let (host, channel) = manual.enter(|| {
            let local = LocalLoop::current().expect("inside the loop");
            let host = Rc::new(RefCell::new(host(local.clone())));
            let token = local.register(HostSource(host.clone())).expect("a new loop takes sources");
            host.borrow_mut().register(token);
            host.borrow_mut().activate(here, peer);
            let channel = host.borrow().channel();
            (host as Rc<RefCell<dyn AnyHost<I, O>>>, channel)
        });
        let mut embedded =
            Self { manual, host, channel, inbound, wire: VecDeque::new(), blocked: false, in_turn: false };
        embedded.settle();
        embedded
    }

    // ---- the wire's end ----

    /// Delivers a message, followed by `read_complete`. While reading is paused it waits.
    pub fn receive(&mut self, message: I) -> &mut Self {
        if !self.is_open() {
            return self; // as on a socket that is closed
        }
        self.drive(|host| {
            host.received(message);
            host.read_complete();
        })
    }

    /// The peer sends no more: the pipeline hears of it if a stage [needs](crate::HalfClosure) that, as on any transport; else the channel
    /// ends.
    pub fn end_input(&mut self) -> &mut Self {
        if self.host.borrow().allows_half_closure() { self.close_input() } else { self.close_by_peer() }
    }

    /// The peer sends no more, with half-closure allowed whatever the stages say.
    pub fn close_input(&mut self) -> &mut Self {
        if !self.is_open() {
            return self;
        }
        self.drive(|host| host.input_closed())
    }

    /// The peer closes the connection.
    pub fn close_by_peer(&mut self) -> &mut Self {
        self.drive(|host| host.closed(CloseCause::PeerClosed))
    }

    /// The connection ends with this cause: the peer resets it, say.
    ///
    /// ```
    /// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
    /// use std::io;
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
    /// channel.end_because(CloseCause::io(io::ErrorKind::ConnectionReset.into()));
    /// assert!(matches!(channel.finish().cause, Some(CloseCause::Io(_))));
    /// ```
    pub fn end_because(&mut self, cause: CloseCause) -> &mut Self {
        self.drive(|host| {
            host.closed(cause);
        })
    }

    /// The next piece of bytes, or the next message, that was sent.
    pub fn read_outbound(&mut self) -> Option<O> {
        self.settle();
        self.wire.pop_front()
    }

    /// A peer that does not read (`true`), or reads again (`false`): what is flushed meanwhile waits.
    pub fn block_output(&mut self, blocked: bool) -> &mut Self {
        self.blocked = blocked;
        self.settle();
        self
    }

    /// Whether what happens from now on happens in one turn of the loop (`true`), as when a transport reads several times, and then the end of
    /// input: neither is anything sent meanwhile, nor is anybody else heard, such as workers. Ends with `false`; everything is
    /// done then.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline};
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
    /// channel.one_turn(true).write_inbound("one ").write_inbound("two");
    /// assert!(channel.read_outbound().is_none());
    /// assert_eq!(channel.one_turn(false).outbound_bytes(), b"one two");
    /// ```
    pub fn one_turn(&mut self, on: bool) -> &mut Self {
        self.in_turn = on;
        self.settle();
        self
    }

    // ---- the application's end ----

    /// The next message that came out of the last stage.
    pub fn read_inbound(&mut self) -> Option<R> {
        self.settle();
        self.inbound.borrow_mut().pop_front()
    }

    /// Writes and flushes a message at the application's end.
    pub fn write_outbound<M>(&mut self, msg: M) -> &mut Self
    where
        W: Carries<M>,
    {
        self.channel.write_and_flush(msg);
        self.settle();
        self
    }

    /// The channel's handle, as the outside has it.
    pub fn channel(&self) -> &Channel<W> {
        &self.channel
    }

    // ---- time and end ----

    /// Moves the clock, and runs what becomes due.
    pub fn advance(&mut self, by: Duration) -> &mut Self {
        self.manual.advance(by);
        self.settle();
        self
    }

    /// Runs what was asked for through [`channel`](Self::channel).
    pub fn run(&mut self) -> &mut Self {
        self.settle();
        self
    }

    /// The loop under the channel.
    pub fn event_loop(&mut self) -> &mut ManualLoop {
        &mut self.manual
    }

    /// Whether the channel is not closed.
    pub fn is_open(&self) -> bool {
        self.channel.state() != ChannelState::Closed
    }

    /// Whether the pipeline wants bytes, or messages.
    pub fn wants_read(&self) -> bool {
        self.host.borrow().wants_read()
    }

    /// Whether a stage on workers has something under way: [`run`](Self::run) goes on with it once it is back.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, Workers, inbound, pipeline};
    /// # use netwright_core::{Context, InboundOnly, InboundStage, OnWorker};
    /// # use bytes::{Bytes, BytesMut};
    /// # struct Counts;
    /// # impl InboundOnly<OnWorker> for Counts {
    /// #     type Read = BytesMut;
    /// #     type ReadOut = usize;
    /// #     type Write = Bytes;
    /// #     fn read(&mut self, cx: &mut Context<'_, InboundStage<Self>, OnWorker>, bytes: BytesMut) { cx.fire_read(bytes.len()); }
    /// # }
    ///
    /// let workers = Workers::new(1)?;
    /// let mut channel = EmbeddedChannel::new(pipeline().add_on(&workers, inbound(Counts)));
    /// channel.write_inbound("hello");
    /// while channel.is_busy() {
    ///     channel.run();
    /// }
    /// assert_eq!(channel.read_inbound(), Some(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_busy(&self) -> bool {
        self.host.borrow().is_busy()
    }

    /// Closes the channel and tells what was left over at both ends.
    pub fn finish(mut self) -> Finished<R, O> {
        self.in_turn = false;
        self.settle_workers();
        self.channel.resume(); // what is held is left over as well
        self.settle_workers();
        drop(self.channel.close());
        self.settle_workers();
        Finished {
            inbound: self.inbound.borrow_mut().drain(..).collect(),
            outbound: self.wire.drain(..).collect(),
            cause: self.channel.close_cause(),
        }
    }

    fn drive(&mut self, f: impl FnOnce(&mut dyn AnyHost<I, O>)) -> &mut Self {
        let host = self.host.clone();
        self.manual.enter(|| f(&mut *host.borrow_mut()));
        self.settle();
        self
    }

    /// Waits for what is on workers, too.
    fn settle_workers(&mut self) {
        self.settle();
        while self.is_busy() {
            std::thread::yield_now();
            self.settle();
        }
    }

    /// Does what a transport would do.
    fn settle(&mut self) {
        if self.in_turn {
            return;
        }
        loop {
            self.manual.run_until_idle();
            let host = self.host.clone();
            let (wire, blocked) = (&mut self.wire, self.blocked);
            let busy = self.manual.enter(|| host.borrow_mut().act(wire, blocked));
            if !busy {
                break;
            }
        }
    }
}

impl<R, W: 'static, I, O> fmt::Debug for EmbeddedChannel<R, W, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedChannel").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// Puts a collector behind the last stage.
fn collecting<S, H, E, P>(
    pipeline: PipelineBuilder<(S, H), E>,
    inbound: &Rc<RefCell<VecDeque<H::ReadOut>>>,
) -> P
where
    H: Element,
    ((S, H), ApplicationStage<Collector<H::ReadOut, H::Write>>): Link<Complete, Linked = P>,
{
    pipeline.collect(ApplicationStage(Collector::into(inbound.clone()))).into_segment()
}

#[cfg(all(test, not(loom)))]
mod tests;
