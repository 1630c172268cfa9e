//! Smaller traits for handlers that look one way: each becomes a stage by a wrapper that passes the rest on.
//!
//! | trait | it is | reads | writes |
//! | --- | --- | --- | --- |
//! | [`Application`] | the last stage | ends here | passes through |
//! | [`Observer`] | looks on | seen, passed on | seen, passed on |
//! | [`InboundOnly`] | a decoder | changed | passes through |
//! | [`OutboundOnly`] | an encoder | passes through | changed |
//!
//! Handlers that look both ways and keep the types are [`Filter`](super::Filter)s.
//!
//! As with [`Handler`], each is one for loops unless it names its [place](Place). An [`Observer`] does nothing that would depend on it.

use super::{ChannelView, Context, Event, Handler, Leftover, OnLoop, Place, StageTimer, last_words};
use crate::channel::{Channel, CloseCause, Fault, HalfClosure, Weight, WritePromise};
use std::{
    convert::Infallible,
    ops::{Deref, DerefMut},
};

/// The view of an [`Application`] on its pipeline and channel.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// struct Echo;
///
/// impl Application for Echo {
///     type Read = BytesMut;
///     type Write = Bytes;
///
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
///         println!("{} from {:?}", bytes.len(), cx.view().peer_addr());
///         cx.write_and_flush(bytes.freeze());
///     }
/// }
///
/// EmbeddedChannel::new(pipeline().app(Echo)).write_inbound("hello");
/// ```
///
/// That of an application on workers is an `AppContext<'_, Self, OnWorker>`; see [`Place`].
pub type AppContext<'a, A, P = OnLoop> = Context<'a, ApplicationStage<A>, P>;

/// The last stage of a pipeline: reads messages, writes answers. What is written from outside passes it untouched.
///
/// ```
/// use netwright_core::{AppContext, Application};
///
/// struct Greeter;
///
/// impl Application for Greeter {
///     type Read = String;
///     type Write = String;
///
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, name: String) {
///         cx.write_and_flush(format!("hello, {name}"));
///     }
/// }
/// ```
#[allow(unused_variables)]
pub trait Application<P: Place = OnLoop>: Sized + 'static {
    /// What arrives.
    type Read: 'static;
    /// What is written.
    type Write: 'static;

    /// The channel is connected.
    fn active(&mut self, cx: &mut AppContext<'_, Self, P>) {}
    /// A message.
    fn read(&mut self, cx: &mut AppContext<'_, Self, P>, msg: Self::Read);
    /// The transport has delivered all for now.
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self, P>) {}
    /// A stage in front has something to say.
    fn event(&mut self, cx: &mut AppContext<'_, Self, P>, event: Event) {}
    /// There is too much to be sent, or room again.
    fn writability(&mut self, cx: &mut AppContext<'_, Self, P>, writable: bool) {}
    /// The peer sends no more. Only if a stage [needs](Self::half_closure) to hear of it; otherwise the channel closes.
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self, P>) {}
    /// Something went wrong. By default the channel closes with this as the cause.
    fn error(&mut self, cx: &mut AppContext<'_, Self, P>, fault: Fault) {
        cx.fire_error(fault);
    }
    /// The channel has ended.
    fn inactive(&mut self, cx: &mut AppContext<'_, Self, P>, cause: CloseCause) {}
    /// A timer of this stage is due.
    fn timer(&mut self, cx: &mut AppContext<'_, Self, P>, timer: StageTimer) {}
    /// Whether an answer to something that was read is still to come; see [`Handler::owes`].
    fn owes(&self) -> bool {
        false
    }
    /// Children of this stage have something to say; see [`Handler::children_ready`].
    fn children_ready(&mut self, cx: &mut AppContext<'_, Self, P>) {}
    /// Another conversation may begin; see [`Handler::start_over`].
    fn start_over(&mut self) -> bool {
        false
    }
    /// Whether the channel is to live on when the peer sends no more; see [`Handler::half_closure`].
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Passes
    }
    /// The segment that the application is part of is about to be exchanged; see [`Handler::leaving`].
    fn leaving(&mut self, cx: &mut AppContext<'_, Self, P>) {}
    /// The handler leaves its pipeline.
    fn removed(&mut self) {}
}

/// An [`Application`] as a stage.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// struct Counts { answers: u32 }
///
/// impl Application for Counts {
///     type Read = BytesMut;
///     type Write = Bytes;
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
///         // What comes back is given the stage, which is the application by `Deref`.
///         cx.spawn(async {}, |stage, _, ()| stage.answers += 1);
///     }
/// }
///
/// EmbeddedChannel::new(pipeline().app(Counts { answers: 0 })).write_inbound("hello");
/// ```
pub struct ApplicationStage<A>(pub(crate) A);

/// The application itself, for closures that come back to it.
impl<A> Deref for ApplicationStage<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}

impl<A> DerefMut for ApplicationStage<A> {
    fn deref_mut(&mut self) -> &mut A {
        &mut self.0
    }
}

impl<A: Application<P>, P: Place> Handler<P> for ApplicationStage<A> {
    type Read = A::Read;
    type ReadOut = Infallible;
    type Write = A::Write;
    type WriteOut = A::Write;

    fn active(&mut self, cx: &mut Context<'_, Self, P>) {
        self.0.active(cx);
    }
    fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: A::Read) {
        self.0.read(cx, msg);
    }
    fn read_complete(&mut self, cx: &mut Context<'_, Self, P>) {
        self.0.read_complete(cx);
    }
    fn event(&mut self, cx: &mut Context<'_, Self, P>, event: Event) {
        self.0.event(cx, event);
    }
    fn writability(&mut self, cx: &mut Context<'_, Self, P>, writable: bool) {
        self.0.writability(cx, writable);
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self, P>) {
        self.0.input_closed(cx);
    }
    fn error(&mut self, cx: &mut Context<'_, Self, P>, fault: Fault) {
        self.0.error(cx, fault);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
        self.0.inactive(cx, cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, msg: A::Write, done: WritePromise) {
        cx.write_with(msg, done);
    }
    fn timer(&mut self, cx: &mut Context<'_, Self, P>, timer: StageTimer) {
        self.0.timer(cx, timer);
    }
    fn owes(&self) -> bool {
        self.0.owes()
    }
    fn children_ready(&mut self, cx: &mut Context<'_, Self, P>) {
        self.0.children_ready(cx);
    }
    fn start_over(&mut self) -> bool {
        self.0.start_over()
    }
    fn half_closure(&self) -> HalfClosure {
        self.0.half_closure()
    }
    fn leaving(&mut self, cx: &mut Context<'_, Self, P>) {
        self.0.leaving(cx);
    }
    fn removed(&mut self) {
        self.0.removed();
    }
    fn name(&self) -> &'static str {
        short_name::<A>()
    }
}

impl<A: Application<P>, P: Place> Context<'_, ApplicationStage<A>, P> {
    /// The channel's handle, to be given to others: what they write enters the pipeline here.
    pub fn channel(&self) -> Channel<A::Write> {
        self.core.handle().expect("an application is the last stage, so its channel takes what it writes")
    }
}

impl<R: 'static, W: 'static> Context<'_, ClosureStage<R, W>> {
    /// The channel's handle, to be given to others: what they write enters the pipeline here.
    pub fn channel(&self) -> Channel<W> {
        self.core.handle().expect("a closure is the last stage, so its channel takes what it writes")
    }
}

/// A closure as the last stage.
///
/// ```
/// use netwright_core::{ClosureStage, Context, EmbeddedChannel, Outgoing, pipeline};
/// use bytes::BytesMut;
///
/// fn echo(cx: &mut Context<'_, ClosureStage<BytesMut, Outgoing>>, bytes: BytesMut) {
///     cx.write_and_flush(bytes);
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().handle(echo));
/// channel.write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// ```
pub struct ClosureStage<R: 'static, W: 'static> {
    #[allow(clippy::type_complexity)]
    call: Box<dyn FnMut(&mut Context<'_, Self>, R)>,
    writes: std::marker::PhantomData<W>,
}

impl<R: 'static, W: 'static> ClosureStage<R, W> {
    pub(super) fn new(call: impl FnMut(&mut Context<'_, Self>, R) + 'static) -> Self {
        Self { call: Box::new(call), writes: std::marker::PhantomData }
    }
}

impl<R: 'static, W: 'static> Handler for ClosureStage<R, W> {
    type Read = R;
    type ReadOut = Infallible;
    type Write = W;
    type WriteOut = W;

    fn read(&mut self, cx: &mut Context<'_, Self>, msg: R) {
        (self.call)(cx, msg);
    }
    /// A closure is called with messages and hears of nothing else: with the last one its channel ends.
    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        cx.flush();
        cx.close_when_flushed();
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: W, done: WritePromise) {
        cx.write_with(msg, done);
    }
    fn name(&self) -> &'static str {
        "closure"
    }
}

/// Looks at what passes and changes nothing: logs, recorders, counters.
///
/// ```
/// use netwright_core::{Observer, observe, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// struct CountBytes(usize);
///
/// impl Observer for CountBytes {
///     type Read = BytesMut;
///     type Write = Bytes;
///     fn sees_read(&mut self, bytes: &BytesMut) {
///         self.0 += bytes.len();
///     }
/// }
///
/// let pipeline = pipeline().add(observe(CountBytes(0)));
/// ```
#[allow(unused_variables)]
pub trait Observer: 'static {
    /// What passes towards the application.
    type Read: 'static;
    /// What passes towards the wire.
    type Write: 'static;

    /// The channel that is looked at. Comes before all else that is seen of it: with its beginning, or when the observer is put into
    /// a [slot](super::slot).
    fn sees_channel(&mut self, channel: &ChannelView<'_, Self::Read>) {}
    /// The channel is connected.
    fn sees_active(&mut self) {}
    /// A message passes towards the application.
    fn sees_read(&mut self, msg: &Self::Read) {}
    /// So much waits to be sent that nobody should write (`false`), or there is room again (`true`).
    fn sees_writability(&mut self, writable: bool) {}
    /// The peer sends no more.
    fn sees_input_closed(&mut self) {}
    /// A message passes towards the wire.
    fn sees_write(&mut self, msg: &Self::Write) {}
    /// A flush passes.
    fn sees_flush(&mut self) {}
    /// An error passes: of a stage nearer to the wire.
    fn sees_error(&mut self, fault: &Fault) {}
    /// A stage nearer to the application closes the channel.
    fn sees_close(&mut self, cause: &CloseCause) {}
    /// A stage nearer to the application tells the peer that no more will come.
    fn sees_shut_down_output(&mut self) {}
    /// A stage has panicked with this message, and the channel is about to be closed: nothing else is seen of it. The message is not
    /// known where a stage on workers is waited for first.
    fn sees_panicked(&mut self, message: Option<&str>) {}
    /// The channel has ended.
    fn sees_inactive(&mut self, cause: &CloseCause) {}
    /// Another conversation may begin: true if the observer can take it; see [`Handler::start_over`].
    fn sees_start_over(&mut self) -> bool {
        false
    }
}

/// An [`Observer`] as a stage.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Observer, observe, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// struct Printer;
/// impl Observer for Printer {
///     type Read = BytesMut;
///     type Write = Bytes;
///     fn sees_write(&mut self, bytes: &Bytes) {
///         println!("sends {bytes:?}");
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(observe(Printer)).handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
/// channel.write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// ```
pub fn observe<O: Observer>(observer: O) -> ObserverStage<O> {
    ObserverStage(observer)
}

/// Made by [`observe`].
///
/// ```
/// use netwright_core::{Observer, ObserverStage, observe};
/// use bytes::{Bytes, BytesMut};
///
/// struct Nosy;
/// impl Observer for Nosy {
///     type Read = BytesMut;
///     type Write = Bytes;
/// }
///
/// let _stage: ObserverStage<Nosy> = observe(Nosy);
/// ```
pub struct ObserverStage<O>(O);

impl<O: Observer, P: Place> Handler<P> for ObserverStage<O> {
    type Read = O::Read;
    type ReadOut = O::Read;
    type Write = O::Write;
    type WriteOut = O::Write;

    fn active(&mut self, cx: &mut Context<'_, Self, P>) {
        self.0.sees_channel(&cx.view());
        self.0.sees_active();
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: O::Read) {
        self.0.sees_read(&msg);
        cx.fire_read(msg);
    }
    fn writability(&mut self, cx: &mut Context<'_, Self, P>, writable: bool) {
        self.0.sees_writability(writable);
        cx.fire_writability(writable);
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self, P>) {
        self.0.sees_input_closed();
        cx.fire_input_closed();
    }
    fn error(&mut self, cx: &mut Context<'_, Self, P>, fault: Fault) {
        self.0.sees_error(&fault);
        cx.fire_error(fault);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
        self.0.sees_inactive(&cause);
        cx.fire_inactive(cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, msg: O::Write, done: WritePromise) {
        self.0.sees_write(&msg);
        cx.write_with(msg, done);
    }
    fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
        self.0.sees_flush();
        cx.flush();
    }
    fn close(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause, done: WritePromise) {
        self.0.sees_close(&cause);
        cx.close_with(cause, done);
    }
    fn shut_down_output(&mut self, cx: &mut Context<'_, Self, P>, done: WritePromise) {
        self.0.sees_shut_down_output();
        cx.shut_down_output_with(done);
    }
    fn panicked(&mut self, _: &mut Context<'_, Self, P>) {
        last_words::with_message(|message| self.0.sees_panicked(message));
    }
    fn start_over(&mut self) -> bool {
        self.0.sees_start_over()
    }
    fn name(&self) -> &'static str {
        short_name::<O>()
    }
}

/// Changes what is read and lets through what is written: a decoder.
///
/// ```
/// use netwright_core::{Context, EmbeddedChannel, InboundOnly, InboundStage, inbound, pipeline};
/// use bytes::{Buf, Bytes, BytesMut};
///
/// /// Makes numbers of four bytes each.
/// #[derive(Default)]
/// struct Numbers { rest: BytesMut }
///
/// impl InboundOnly for Numbers {
///     type Read = BytesMut;
///     type ReadOut = u32;
///     type Write = Bytes;
///
///     fn read(&mut self, _: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) {
///         self.rest.unsplit(bytes);
///     }
///     fn pull(&mut self, _: &mut Context<'_, InboundStage<Self>>) -> Option<u32> {
///         (self.rest.len() >= 4).then(|| self.rest.get_u32())
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(inbound(Numbers::default())));
/// channel.write_inbound([0, 0, 0, 1, 0, 0]).write_inbound([0, 2]);
/// assert_eq!((channel.read_inbound(), channel.read_inbound()), (Some(1), Some(2)));
/// ```
#[allow(unused_variables)]
pub trait InboundOnly<P: Place = OnLoop>: Sized + 'static {
    /// Arrives from the wire side.
    type Read: 'static;
    /// Goes on towards the application.
    type ReadOut: 'static;
    /// Passes towards the wire.
    type Write: 'static;

    /// A message; see [`Handler::read`].
    fn read(&mut self, cx: &mut Context<'_, InboundStage<Self>, P>, msg: Self::Read);
    /// The next message that can be made of what was read; see [`Handler::pull`].
    fn pull(&mut self, cx: &mut Context<'_, InboundStage<Self>, P>) -> Option<Self::ReadOut> {
        None
    }
    /// The peer sends no more: what can still be made of the rest goes on first; see [`Handler::input_closed`].
    fn input_closed(&mut self, cx: &mut Context<'_, InboundStage<Self>, P>) {
        cx.fire_input_closed();
    }
    /// The channel has ended: what can still be made of the rest goes on first.
    fn inactive(&mut self, cx: &mut Context<'_, InboundStage<Self>, P>, cause: CloseCause) {
        cx.fire_inactive(cause);
    }
    /// What was read and not used.
    fn leftover(&mut self) -> Leftover<Self::Read> {
        Leftover::nothing()
    }
    /// Another conversation may begin; see [`Handler::start_over`].
    fn start_over(&mut self) -> bool {
        false
    }
}

/// An [`InboundOnly`] as a stage.
///
/// ```
/// use netwright_core::{Context, EmbeddedChannel, InboundOnly, InboundStage, inbound, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// struct Lengths;
/// impl InboundOnly for Lengths {
///     type Read = BytesMut;
///     type ReadOut = usize;
///     type Write = Bytes;
///     fn read(&mut self, cx: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) {
///         cx.fire_read(bytes.len());
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(inbound(Lengths)));
/// channel.write_inbound("hello");
/// assert_eq!(channel.read_inbound(), Some(5));
/// ```
pub fn inbound<D>(decoder: D) -> InboundStage<D> {
    InboundStage(decoder)
}

/// Made by [`inbound`].
///
/// ```
/// use netwright_core::{Context, InboundOnly, InboundStage, inbound};
///
/// struct Doubles;
/// impl InboundOnly for Doubles {
///     type Read = u32;
///     type ReadOut = u64;
///     type Write = ();
///     fn read(&mut self, cx: &mut Context<'_, InboundStage<Self>>, number: u32) {
///         cx.fire_read(2 * u64::from(number));
///     }
/// }
///
/// let _stage: InboundStage<Doubles> = inbound(Doubles);
/// ```
pub struct InboundStage<D>(D);

impl<D: InboundOnly<P>, P: Place> Handler<P> for InboundStage<D> {
    type Read = D::Read;
    type ReadOut = D::ReadOut;
    type Write = D::Write;
    type WriteOut = D::Write;

    fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: D::Read) {
        self.0.read(cx, msg);
    }
    fn pull(&mut self, cx: &mut Context<'_, Self, P>) -> Option<D::ReadOut> {
        self.0.pull(cx)
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self, P>) {
        self.0.input_closed(cx);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
        self.0.inactive(cx, cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, msg: D::Write, done: WritePromise) {
        cx.write_with(msg, done);
    }
    fn leftover(&mut self) -> Leftover<D::Read> {
        self.0.leftover()
    }
    fn start_over(&mut self) -> bool {
        self.0.start_over()
    }
    fn name(&self) -> &'static str {
        short_name::<D>()
    }
}

/// Changes what is written and lets through what is read: an encoder.
///
/// ```
/// use netwright_core::{Context, EmbeddedChannel, OutboundOnly, OutboundStage, WritePromise, outbound, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// /// Writes numbers as four bytes each.
/// struct Numbers;
///
/// impl OutboundOnly for Numbers {
///     type Read = BytesMut;
///     type Write = u32;
///     type WriteOut = Bytes;
///
///     fn write(&mut self, cx: &mut Context<'_, OutboundStage<Self>>, number: u32, done: WritePromise) {
///         cx.write_with(Bytes::copy_from_slice(&number.to_be_bytes()), done);
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(outbound(Numbers)));
/// channel.write_outbound(258);
/// assert_eq!(channel.outbound_bytes(), [0, 0, 1, 2]);
/// ```
pub trait OutboundOnly<P: Place = OnLoop>: Sized + 'static {
    /// Passes towards the application.
    type Read: 'static;
    /// Arrives from the application side.
    type Write: 'static;
    /// Goes on towards the wire.
    type WriteOut: 'static;

    /// What a message to be written counts for while it waits; see [`Handler::WEIGHT`].
    const WEIGHT: Weight<Self::Write> = Weight::unsaid();

    /// A message to be written; see [`Handler::write`].
    fn write(&mut self, cx: &mut Context<'_, OutboundStage<Self>, P>, msg: Self::Write, done: WritePromise);
    /// What was written so far should be sent.
    fn flush(&mut self, cx: &mut Context<'_, OutboundStage<Self>, P>) {
        cx.flush();
    }
    /// Another conversation may begin; see [`Handler::start_over`].
    fn start_over(&mut self) -> bool {
        false
    }
}

/// An [`OutboundOnly`] as a stage.
///
/// ```
/// use netwright_core::{Context, EmbeddedChannel, OutboundOnly, OutboundStage, WritePromise, outbound, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// struct Shouts;
/// impl OutboundOnly for Shouts {
///     type Read = BytesMut;
///     type Write = String;
///     type WriteOut = Bytes;
///     fn write(&mut self, cx: &mut Context<'_, OutboundStage<Self>>, text: String, done: WritePromise) {
///         cx.write_with(text.to_uppercase(), done);
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(outbound(Shouts)));
/// channel.write_outbound("hello".to_owned());
/// assert_eq!(channel.outbound_bytes(), b"HELLO");
/// ```
pub fn outbound<E>(encoder: E) -> OutboundStage<E> {
    OutboundStage(encoder)
}

/// Made by [`outbound`].
///
/// ```
/// use netwright_core::{Context, OutboundOnly, OutboundStage, WritePromise, outbound};
///
/// struct Halves;
/// impl OutboundOnly for Halves {
///     type Read = ();
///     type Write = u64;
///     type WriteOut = u64;
///     fn write(&mut self, cx: &mut Context<'_, OutboundStage<Self>>, number: u64, done: WritePromise) {
///         cx.write_with(number / 2, done);
///     }
/// }
///
/// let _stage: OutboundStage<Halves> = outbound(Halves);
/// ```
pub struct OutboundStage<E>(E);

impl<E: OutboundOnly<P>, P: Place> Handler<P> for OutboundStage<E> {
    type Read = E::Read;
    type ReadOut = E::Read;
    type Write = E::Write;
    type WriteOut = E::WriteOut;
    const WEIGHT: Weight<E::Write> = E::WEIGHT;

    fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: E::Read) {
        cx.fire_read(msg);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, msg: E::Write, done: WritePromise) {
        self.0.write(cx, msg, done);
    }
    fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
        self.0.flush(cx);
    }
    fn start_over(&mut self) -> bool {
        self.0.start_over()
    }
    fn name(&self) -> &'static str {
        short_name::<E>()
    }
}

pub(super) fn short_name<T>() -> &'static str {
    short(std::any::type_name::<T>())
}

/// The last part of a type's path, without its parameters.
#[inline(never)]
pub(super) fn short(full: &'static str) -> &'static str {
    full.split('<').next().and_then(|path| path.rsplit("::").next()).unwrap_or(full)
}
