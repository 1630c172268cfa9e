//! Building a pipeline from the wire towards the application, one stage after the other.

use super::{
    Application, ApplicationStage, ClosureStage, Context, Element, Filter, FilterStage, Filtered, Handler,
    IntoPipeline, Joint, Sealed, Switch,
    carrying::boxed,
    named::Names,
    segment::{End, Segment, Writes},
};
use crate::channel::{CarriedBy, Carries, Outgoing};
use bytes::BytesMut;
use std::convert::Infallible;

/// Starts a pipeline. Stages are added in the order in which bytes from the wire meet them.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// /// Sends everything back.
/// struct Echo;
///
/// impl Application for Echo {
///     type Read = BytesMut;
///     type Write = Bytes;
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
///         cx.write_and_flush(bytes.freeze());
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().app(Echo));
/// channel.write_inbound(b"hello");
/// assert_eq!(channel.read_outbound().unwrap(), "hello");
/// ```
pub fn pipeline() -> PipelineBuilder<()> {
    PipelineBuilder { stages: (), end: Open, names: Names::default() }
}

/// A pipeline under construction. Whole by whoever takes it: a server, a client, an embedded channel. `E` says
/// whether stages may still be added ([`Open`]), or the last one is there ([`Complete`], [`Joint`], [`Sealed`]).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let open = pipeline(); // nothing yet: bytes in, bytes out
/// let complete = open.handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
/// let mut channel = EmbeddedChannel::new(complete);
/// channel.write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// ```
#[must_use = "a pipeline does nothing until a channel runs it"]
pub struct PipelineBuilder<S, E = Open> {
    stages: S,
    end: E,
    names: Names,
}

/// Stages may still be added.
///
/// ```
/// use netwright_core::{Open, PipelineBuilder, pipeline};
///
/// let stages: PipelineBuilder<(), Open> = pipeline();
/// let _complete = stages.handle(|_, _| {});
/// ```
pub struct Open;

/// The last stage is there.
///
/// ```compile_fail
/// use netwright_core::pipeline;
///
/// pipeline().handle(|_, _| {}).handle(|_, _| {}); // nothing comes behind the last stage
/// ```
pub struct Complete;

/// How a pipeline ends.
///
/// ```
/// use netwright_core::{Ending, PipelineBuilder, pipeline};
///
/// /// Whatever is to run, it can be handed on as it is.
/// fn same<S, E: Ending>(stages: PipelineBuilder<S, E>) -> PipelineBuilder<S, E> {
///     stages
/// }
///
/// let _stages = same(pipeline().handle(|_, _| {}));
/// ```
pub trait Ending {
    /// What lies behind the last stage, which takes `W`.
    type Segment<W: 'static>;
    #[doc(hidden)]
    fn into_segment<W: 'static>(self) -> Self::Segment<W>;
}

impl Ending for Open {
    type Segment<W: 'static> = End<W>;
    fn into_segment<W: 'static>(self) -> End<W> {
        End::new()
    }
}

impl Ending for Complete {
    type Segment<W: 'static> = End<W>;
    fn into_segment<W: 'static>(self) -> End<W> {
        End::new()
    }
}

impl<T: 'static, R: 'static, W: 'static> Ending for Joint<T, R, W> {
    type Segment<V: 'static> = Self;
    fn into_segment<V: 'static>(self) -> Self {
        self
    }
}

impl<P, T> Ending for Sealed<P, T> {
    type Segment<W: 'static> = Self;
    fn into_segment<W: 'static>(self) -> Self {
        self
    }
}

/// The stages of another pipeline follow; see [`PipelineBuilder::then`].
///
/// ```
/// use netwright_core::{Outgoing, pipeline, slot};
/// use bytes::BytesMut;
///
/// let rest = pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes));
/// let _stages = pipeline().add(slot::<BytesMut, Outgoing>("watch")).then(rest); // ends in a `Rest`
/// ```
pub struct Rest<P>(P);

impl<P> Ending for Rest<P> {
    type Segment<W: 'static> = P;
    fn into_segment<W: 'static>(self) -> P {
        self.0
    }
}

/// The end of a pipeline that has a last stage: no message falls off behind it. What servers, clients and joints run.
///
/// ```
/// use netwright_core::{PipelineBuilder, Whole, pipeline};
///
/// fn can_be_served<S, E: Whole>(_: &PipelineBuilder<S, E>) {}
///
/// can_be_served(&pipeline().handle(|_, _| {}));
/// // can_be_served(&pipeline().add(frames)): nobody would read the frames, and it does not compile
/// ```
#[diagnostic::on_unimplemented(
    message = "this pipeline has no last stage: what comes out of it, nobody would read",
    label = "add one with `.app(…)`, `.handle(…)`, `.serve(…)` or `.last(…)`"
)]
pub trait Whole: Ending {}

#[diagnostic::do_not_recommend]
impl Whole for Complete {}
#[diagnostic::do_not_recommend]
impl<T: 'static, R: 'static, W: 'static> Whole for Joint<T, R, W> {}
#[diagnostic::do_not_recommend]
impl<P, T> Whole for Sealed<P, T> {}

#[diagnostic::do_not_recommend]
impl<P> Whole for Rest<P> {}

#[allow(clippy::should_implement_trait)] // stages are added, not summed
impl PipelineBuilder<()> {
    /// Adds the stage next to the wire.
    pub fn add<H: Handler>(self, handler: H) -> PipelineBuilder<((), H)> {
        PipelineBuilder { stages: ((), handler), end: Open, names: self.names.one_more() }
    }

    /// Adds a [`Filter`] of bytes next to the wire. Of something else it is a stage of a type that says so:
    /// `add(filter::<_, Datagram, Datagram>(…))`.
    #[allow(clippy::type_complexity)] // the type is the list of stages
    pub fn filter<F>(self, filter: F) -> PipelineBuilder<((), Filtered<FilterStage<F, BytesMut, Outgoing>>)>
    where
        F: Filter<BytesMut, Outgoing>,
    {
        self.element(Filtered(FilterStage::new(filter)))
    }

    /// Adds a [`Filter`] of bytes that may be absent.
    #[allow(clippy::type_complexity)] // the type is the list of stages
    pub fn filter_if<F>(
        self,
        filter: Option<F>,
    ) -> PipelineBuilder<((), Filtered<Option<FilterStage<F, BytesMut, Outgoing>>>)>
    where
        F: Filter<BytesMut, Outgoing>,
    {
        self.element(Filtered(filter.map(FilterStage::new)))
    }

    /// Adds the last stage: an application handler.
    pub fn app<A: Application>(self, application: A) -> PipelineBuilder<((), ApplicationStage<A>), Complete> {
        self.add(ApplicationStage(application)).complete()
    }

    /// Adds a handler as the only stage: it passes nothing on, and says so by its type.
    pub fn last<H: Handler<ReadOut = Infallible>>(self, handler: H) -> PipelineBuilder<((), H), Complete> {
        self.add(handler).complete()
    }

    /// Adds a closure as the only stage: it gets the bytes as they come.
    pub fn handle<F>(self, call: F) -> PipelineBuilder<((), ClosureStage<BytesMut, Outgoing>), Complete>
    where
        F: FnMut(&mut Context<'_, ClosureStage<BytesMut, Outgoing>>, BytesMut) + 'static,
    {
        self.add(ClosureStage::new(call)).complete()
    }
}

#[allow(clippy::should_implement_trait, clippy::type_complexity)] // the type is the list of stages: it grows with them
impl<S, H: Element> PipelineBuilder<(S, H)> {
    /// Adds a stage behind the last one. It has to read what that one passes on, and to write what that one takes, or what is
    /// [carried](crate::Carries) by that.
    pub fn add<K>(self, handler: K) -> PipelineBuilder<((S, H), K)>
    where
        K: Handler<Read = H::ReadOut>,
        H::Write: Carries<K::WriteOut>,
    {
        PipelineBuilder { stages: (self.stages, handler), end: Open, names: self.names.one_more() }
    }

    /// Adds a [`Filter`] of what passes here: it keeps the types, so nobody has to name them.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, Filter, FilterContext, pipeline};
    /// use bytes::BytesMut;
    ///
    /// struct First(usize);
    ///
    /// /// Lets so many messages in, and no more.
    /// impl<R: 'static, W: 'static> Filter<R, W> for First {
    ///     fn read(&mut self, cx: &mut FilterContext<'_, Self, R, W>, msg: R) {
    ///         if self.0 > 0 {
    ///             self.0 -= 1;
    ///             cx.fire_read(msg);
    ///         }
    ///     }
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().filter(First(2)).filter(First(1)).handle(|cx, msg| cx.write_and_flush(msg)));
    /// channel.write_inbound("one").write_inbound("two");
    /// assert_eq!(channel.outbound_bytes(), b"one");
    /// ```
    pub fn filter<F>(
        self,
        filter: F,
    ) -> PipelineBuilder<((S, H), Filtered<FilterStage<F, H::ReadOut, H::Write>>)>
    where
        F: Filter<H::ReadOut, H::Write>,
    {
        self.element(Filtered(FilterStage::new(filter)))
    }

    /// Adds a [`Filter`] that may be absent.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, Filter, pipeline};
    ///
    /// struct Watch;
    /// impl<R: 'static, W: 'static> Filter<R, W> for Watch {}
    ///
    /// let careful = false;
    /// EmbeddedChannel::new(pipeline().filter_if(careful.then(|| Watch)).handle(|cx, bytes| cx.write(bytes)));
    /// ```
    pub fn filter_if<F>(
        self,
        filter: Option<F>,
    ) -> PipelineBuilder<((S, H), Filtered<Option<FilterStage<F, H::ReadOut, H::Write>>>)>
    where
        F: Filter<H::ReadOut, H::Write>,
    {
        self.element(Filtered(filter.map(FilterStage::new)))
    }

    /// Adds the last stage: an application handler.
    pub fn app<A>(self, application: A) -> PipelineBuilder<((S, H), ApplicationStage<A>), Complete>
    where
        A: Application<Read = H::ReadOut>,
        H::Write: Carries<A::Write>,
    {
        self.add(ApplicationStage(application)).complete()
    }

    /// Adds the last stage: a handler that passes nothing on, and says so by its type. [`app`](Self::app) takes the simpler
    /// trait for that.
    pub fn last<K>(self, handler: K) -> PipelineBuilder<((S, H), K), Complete>
    where
        K: Handler<Read = H::ReadOut, ReadOut = Infallible>,
        H::Write: Carries<K::WriteOut>,
    {
        self.add(handler).complete()
    }

    /// Adds the last stage: a closure that is called with every message.
    pub fn handle<F>(self, call: F) -> PipelineBuilder<((S, H), ClosureStage<H::ReadOut, H::Write>), Complete>
    where
        F: FnMut(&mut Context<'_, ClosureStage<H::ReadOut, H::Write>>, H::ReadOut) + 'static,
    {
        self.add(ClosureStage::new(call)).complete()
    }
}

#[allow(clippy::type_complexity)] // as above
impl<S, R: 'static, W: 'static> PipelineBuilder<(S, ClosureStage<R, W>), Complete> {
    /// Says that the closure keeps nothing of a conversation, so that it can take the next one: see [`Handler::start_over`]. Of a
    /// closure that is not said it is not known, and each child ([`Children`](crate::Children)) has one of its own.
    ///
    /// ```
    /// use netwright_core::{Outgoing, Segment, pipeline};
    /// use bytes::BytesMut;
    ///
    /// fn echo() -> impl Segment<BytesMut, Outgoing> {
    ///     pipeline().handle(|cx, bytes| cx.write_and_flush(bytes)).starts_over().into_segment()
    /// }
    /// # echo();
    /// ```
    pub fn starts_over(mut self) -> Self {
        self.names.last_forgets();
        self
    }
}

#[allow(clippy::type_complexity)] // as above
impl<S, H: Element> PipelineBuilder<(S, H)> {
    pub(crate) fn complete(self) -> PipelineBuilder<(S, H), Complete> {
        PipelineBuilder { stages: self.stages, end: Complete, names: self.names }
    }

    /// Ends the pipeline in the stages of another one, as if they had been added here: so that whoever builds the first stages need not know
    /// the types of the last ones.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, IntoPipeline, Outgoing, pipeline, slot};
    /// use bytes::BytesMut;
    ///
    /// /// Any pipeline, and a place in front of it for a stage that comes later.
    /// fn with_a_place<T: 'static>(rest: impl IntoPipeline<T>) -> impl IntoPipeline<T> {
    ///     pipeline().add(slot::<BytesMut, Outgoing>("watch")).then(rest)
    /// }
    ///
    /// let mut channel = EmbeddedChannel::of(with_a_place(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes))));
    /// channel.write_inbound("hello");
    /// assert_eq!(channel.outbound_bytes(), b"hello");
    /// ```
    pub fn then<P, T>(self, rest: P) -> PipelineBuilder<(S, H), Rest<P::Segment>>
    where
        P: IntoPipeline<T, H::ReadOut, H::Write>,
    {
        PipelineBuilder { stages: self.stages, end: Rest(rest.into_pipeline()), names: self.names }
    }

    /// Ends the pipeline in a joint: what `first` returns lies behind it, and can be exchanged as a whole through the
    /// switch that `first` is given.
    pub fn joint<P, T>(
        self,
        first: impl FnOnce(Switch<T, H::ReadOut, H::Write>) -> P,
    ) -> PipelineBuilder<(S, H), Joint<T, H::ReadOut, H::Write>>
    where
        P: IntoPipeline<T, H::ReadOut, H::Write>,
        T: 'static,
    {
        let switch = Switch::new();
        let segment = boxed(first(switch.clone()).into_pipeline());
        PipelineBuilder { stages: self.stages, end: Joint::new(segment, switch), names: self.names }
    }
}

impl PipelineBuilder<()> {
    /// A pipeline that is a joint from the first byte on: its protocol is not known yet.
    pub fn joint<P, T>(self, first: impl FnOnce(Switch<T>) -> P) -> PipelineBuilder<(), Joint<T>>
    where
        P: IntoPipeline<T>,
        T: 'static,
    {
        let switch = Switch::new();
        let segment = boxed(first(switch.clone()).into_pipeline());
        PipelineBuilder { stages: (), end: Joint::new(segment, switch), names: self.names }
    }
}

impl PipelineBuilder<()> {
    /// A pipeline that is a joint from the first message on, where that is not of bytes: the pipeline of a child, for instance. What it
    /// reads and writes is said by the switch.
    ///
    /// ```
    /// use netwright_core::{AppContext, Application, EmbeddedChannel, HostSettings, Switch, Weight, pipeline};
    ///
    /// /// Says words again until there is a full stop.
    /// struct Words(Switch<String, String, String>);
    ///
    /// /// Says how long they are.
    /// struct Lengths;
    ///
    /// impl Application for Words {
    ///     type Read = String;
    ///     type Write = String;
    ///     fn read(&mut self, cx: &mut AppContext<'_, Self>, word: String) {
    ///         match word.as_str() {
    ///             "." => self.0.to(pipeline().app(Lengths)),
    ///             _ => cx.write_and_flush(word),
    ///         }
    ///     }
    /// }
    ///
    /// impl Application for Lengths {
    ///     type Read = String;
    ///     type Write = String;
    ///     fn read(&mut self, cx: &mut AppContext<'_, Self>, word: String) {
    ///         cx.write_and_flush(word.len().to_string());
    ///     }
    /// }
    ///
    /// let stages = pipeline().joint_between(|switch| pipeline().app(Words(switch)));
    /// let (settings, weight) = (HostSettings::default(), Weight::unsaid());
    /// let mut channel: EmbeddedChannel<(), _, _, _> = EmbeddedChannel::of_messages_with_joint(stages, settings, weight);
    /// ["hello", ".", "hello"].into_iter().for_each(|word| _ = channel.receive(word.to_owned()));
    /// assert_eq!(channel.read_outbound().as_deref(), Some("hello"));
    /// assert_eq!(channel.read_outbound().as_deref(), Some("5"));
    /// ```
    pub fn joint_between<R, W, P, T>(
        self,
        first: impl FnOnce(Switch<T, R, W>) -> P,
    ) -> PipelineBuilder<(), Joint<T, R, W>>
    where
        P: IntoPipeline<T, R, W>,
        R: 'static,
        W: 'static,
        T: 'static,
    {
        let switch = Switch::new();
        let segment = boxed(first(switch.clone()).into_pipeline());
        PipelineBuilder { stages: (), end: Joint::new(segment, switch), names: self.names }
    }
}

impl<S, E: Whole> PipelineBuilder<S, E> {
    /// Closes the far end to the outside, so that segments that write messages of different types fit behind one joint.
    ///
    /// The channel as the outside has it is a `Channel<Infallible>`: it can be closed and waited for, has attributes and
    /// figures, but nothing can be written to it. Inside, everything is as before: `cx.channel()` and
    /// [`Peer::channel`](crate::Peer::channel) are handles of the segment's own type, for other threads and
    /// [groups](crate::ChannelGroup). When the segment is exchanged, what was written to such a handle and accepted is
    /// carried out, and what is written later reports [`Exchanged`](crate::WriteError::Exchanged).
    ///
    /// ```
    /// use netwright_core::{AppContext, Application, EmbeddedChannel, Outgoing, Switch, pipeline};
    /// use bytes::{Bytes, BytesMut};
    /// use std::convert::Infallible;
    /// # use netwright_core::{Context, Handler, WritePromise};
    /// # struct Numbers;
    /// # impl Handler for Numbers {
    /// #     type Read = BytesMut;
    /// #     type ReadOut = u8;
    /// #     type Write = u64;
    /// #     type WriteOut = Bytes;
    /// #     fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
    /// #         bytes.into_iter().for_each(|byte| cx.fire_read(byte));
    /// #     }
    /// #     fn write(&mut self, cx: &mut Context<'_, Self>, number: u64, done: WritePromise) {
    /// #         cx.write_with(Bytes::from(number.to_string()), done);
    /// #     }
    /// # }
    ///
    /// /// Writes bytes until it is told to count, then gives way to a segment that writes numbers.
    /// struct Hello { switch: Switch<Infallible> }
    ///
    /// impl Application for Hello {
    ///     type Read = BytesMut;
    ///     type Write = Bytes;
    ///     fn read(&mut self, cx: &mut AppContext<'_, Self>, word: BytesMut) {
    ///         cx.write_and_flush(Bytes::from("ok "));
    ///         if word == "count" {
    ///             let mut sum = 0;
    ///             self.switch.to(pipeline().add(Numbers).handle(move |cx, number| {
    ///                 sum += u64::from(number - b'0');
    ///                 cx.channel().write_and_flush(sum); // a `Channel<u64>`
    ///             }).sealed());
    ///         }
    ///     }
    /// }
    ///
    /// let mut channel = EmbeddedChannel::<(), _>::with_joint(
    ///     pipeline().joint(|switch| pipeline().app(Hello { switch }).sealed()),
    /// );
    /// channel.write_inbound(b"count").write_inbound(b"57");
    /// assert_eq!(channel.outbound_bytes(), b"ok 512");
    /// ```
    pub fn sealed<R, P>(self) -> PipelineBuilder<(), Sealed<P, P::Tail>>
    where
        S: Link<E, Linked = P>,
        P: Writes + Segment<R, <P as Writes>::Message>,
    {
        PipelineBuilder::closed(self.into_segment())
    }
}

impl<P, T> PipelineBuilder<(), Sealed<P, T>> {
    pub(super) fn closed(segment: P) -> Self {
        PipelineBuilder { stages: (), end: Sealed::new(segment), names: Names::default() }
    }
}

impl<S, H: Element, E> PipelineBuilder<(S, H), E> {
    /// Names the stage that was added last, so that it is found by this name: [`Channel::stage`](crate::Channel::stage),
    /// [`ChannelView::stage`](crate::ChannelView::stage). [`Channel::stages`](crate::Channel::stages) shows the name. No two stages that a channel has at
    /// one time may have the same: the channel is closed then, with [`StageError::Duplicate`](super::StageError::Duplicate).
    ///
    /// ```
    /// use netwright_core::{AppContext, Application, ApplicationStage, EmbeddedChannel, pipeline};
    /// use bytes::{Bytes, BytesMut};
    ///
    /// struct Counter { seen: usize }
    ///
    /// impl Application for Counter {
    ///     type Read = BytesMut;
    ///     type Write = Bytes;
    ///     fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
    ///         self.seen += bytes.len();
    ///     }
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().app(Counter { seen: 0 }).named("counter"));
    /// channel.write_inbound(b"hello");
    ///
    /// let counter = channel.channel().stage::<ApplicationStage<Counter>>("counter")?; // from any thread
    /// let mut seen = counter.ask(|counter, _| std::mem::take(&mut counter.seen)); // runs on the channel's loop
    /// channel.run();
    /// assert_eq!(seen.wait(), Ok(5));
    /// # Ok::<(), netwright_core::StageError>(())
    /// ```
    pub fn named(mut self, name: &'static str) -> Self {
        self.names.give(name);
        self
    }

    /// Puts a collector behind the last stage, also behind an application.
    pub(crate) fn collect<K>(self, collector: K) -> PipelineBuilder<((S, H), K), Complete>
    where
        K: Handler<Read = H::ReadOut, WriteOut = H::Write>,
    {
        PipelineBuilder { stages: (self.stages, collector), end: Complete, names: self.names.one_more() }
    }
}

impl<S> PipelineBuilder<S> {
    fn element<K: Element>(self, element: K) -> PipelineBuilder<(S, K)> {
        PipelineBuilder { stages: (self.stages, element), end: Open, names: self.names.one_more() }
    }
}

impl<S, E> PipelineBuilder<S, E>
where
    S: Link<E>,
{
    /// Turns the stages round into the nested form that runs.
    pub fn into_segment(mut self) -> S::Linked {
        self.stages.link(self.end, &mut self.names)
    }
}

/// A list of stages that fit one another, before an ending `E`: what can be turned round into the nested form that runs. Whoever takes
/// or returns pipelines names [`IntoPipeline`] instead.
#[doc(hidden)]
pub trait Link<E> {
    /// The nested form.
    type Linked;
    fn link(self, end: E, names: &mut Names) -> Self::Linked;
}

impl<E: Ending> Link<E> for () {
    type Linked = E::Segment<Infallible>;
    fn link(self, end: E, _: &mut Names) -> Self::Linked {
        end.into_segment()
    }
}

impl<S, H, E> Link<E> for (S, H)
where
    H: Element,
    E: Ending,
    (S, H): Nest<E::Segment<H::Write>>,
{
    type Linked = <Self as Nest<E::Segment<H::Write>>>::Nested;
    fn link(self, end: E, names: &mut Names) -> Self::Linked {
        self.nest(end.into_segment(), names)
    }
}

/// Turns `((((), A), B), C)` round into `Stage<A, Stage<B, Stage<C, N>>>`; each is [placed](Element::Placed) as what it is.
#[doc(hidden)]
pub trait Nest<N> {
    type Nested;
    fn nest(self, next: N, names: &mut Names) -> Self::Nested;
}

impl<N> Nest<N> for () {
    type Nested = N;
    fn nest(self, next: N, _: &mut Names) -> N {
        next
    }
}

impl<S, H, N> Nest<N> for (S, H)
where
    H: Element,
    N: Writes + Segment<H::ReadOut, <N as Writes>::Message>,
    N::Message: CarriedBy<H::Write>,
    S: Nest<H::Placed<N>>,
{
    type Nested = S::Nested;
    fn nest(self, next: N, names: &mut Names) -> Self::Nested {
        let (name, forgets) = (names.take_last(), names.take_forgets());
        self.0.nest(self.1.place(name, forgets, next), names)
    }
}
