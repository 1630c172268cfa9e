//! Stages that may be absent, and stages that are one of two.
//!
//! Both are decided when the pipeline is built. An absent stage costs one branch per call.

use super::{Context, Event, Glance, Handler, Leftover, Ops, Place, StageTimer, Target, segment::Next};
use crate::channel::{ChannelCore, CloseCause, Fault, HalfClosure, Weight, WritePromise};
use std::any::Any;

/// Lends a context to the handler inside: the same boundary, seen by another handler of the same types.
fn lend<'a, O, H, P>(cx: &'a mut Context<'_, O, P>) -> Context<'a, H, P>
where
    O: Handler<P>,
    H: Handler<P, ReadOut = O::ReadOut, WriteOut = O::WriteOut>,
    P: Place,
{
    let next: &mut dyn Next<H::ReadOut> = &mut *cx.next;
    let ops: &mut Ops<H::WriteOut> = &mut *cx.ops;
    let core: &mut ChannelCore = &mut *cx.core;
    Context { next, ops, core, stage: cx.stage }
}

/// A stage that may be absent: TLS, a log, a limit. Only for handlers that keep the types.
///
/// ```
/// # use netwright_core::{Observer, observe, pipeline};
/// # use bytes::{Bytes, BytesMut};
/// # struct Log;
/// # impl Observer for Log { type Read = BytesMut; type Write = Bytes; }
/// let verbose = false;
/// let pipeline = pipeline().add(verbose.then(|| observe(Log)));
/// ```
impl<H, R: 'static, W: 'static, P: Place> Handler<P> for Option<H>
where
    H: Handler<P, Read = R, ReadOut = R, Write = W, WriteOut = W>,
{
    type Read = R;
    type ReadOut = R;
    type Write = W;
    type WriteOut = W;
    const WEIGHT: Weight<W> = H::WEIGHT;
    const PASSES: bool = H::PASSES;

    #[inline]
    fn passed_read(&mut self, glance: Glance<'_>, wrote: bool) {
        if let Some(handler) = self {
            handler.passed_read(glance, wrote);
        }
    }
    #[inline]
    fn passed_write(&mut self, glance: Glance<'_>) {
        if let Some(handler) = self {
            handler.passed_write(glance);
        }
    }
    fn added(&mut self, cx: &mut Context<'_, Self, P>) {
        if let Some(handler) = self {
            handler.added(&mut lend(cx));
        }
    }
    fn active(&mut self, cx: &mut Context<'_, Self, P>) {
        match self {
            Some(handler) => handler.active(&mut lend(cx)),
            None => cx.fire_active(),
        }
    }
    fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: R) {
        match self {
            Some(handler) => handler.read(&mut lend(cx), msg),
            None => cx.fire_read(msg),
        }
    }
    fn pull(&mut self, cx: &mut Context<'_, Self, P>) -> Option<R> {
        match self {
            Some(handler) => handler.pull(&mut lend(cx)),
            None => {
                cx.never_pulls();
                None
            }
        }
    }
    fn read_complete(&mut self, cx: &mut Context<'_, Self, P>) {
        match self {
            Some(handler) => handler.read_complete(&mut lend(cx)),
            None => cx.fire_read_complete(),
        }
    }
    fn event(&mut self, cx: &mut Context<'_, Self, P>, event: Event) {
        match self {
            Some(handler) => handler.event(&mut lend(cx), event),
            None => cx.fire_event(event),
        }
    }
    fn writability(&mut self, cx: &mut Context<'_, Self, P>, writable: bool) {
        match self {
            Some(handler) => handler.writability(&mut lend(cx), writable),
            None => cx.fire_writability(writable),
        }
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self, P>) {
        match self {
            Some(handler) => handler.input_closed(&mut lend(cx)),
            None => cx.fire_input_closed(),
        }
    }
    fn error(&mut self, cx: &mut Context<'_, Self, P>, fault: Fault) {
        match self {
            Some(handler) => handler.error(&mut lend(cx), fault),
            None => cx.fire_error(fault),
        }
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
        match self {
            Some(handler) => handler.inactive(&mut lend(cx), cause),
            None => cx.fire_inactive(cause),
        }
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, msg: W, done: WritePromise) {
        match self {
            Some(handler) => handler.write(&mut lend(cx), msg, done),
            None => cx.write_with(msg, done),
        }
    }
    fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
        match self {
            Some(handler) => handler.flush(&mut lend(cx)),
            None => cx.flush(),
        }
    }
    fn close(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause, done: WritePromise) {
        match self {
            Some(handler) => handler.close(&mut lend(cx), cause, done),
            None => cx.close_with(cause, done),
        }
    }
    fn shut_down_output(&mut self, cx: &mut Context<'_, Self, P>, done: WritePromise) {
        match self {
            Some(handler) => handler.shut_down_output(&mut lend(cx), done),
            None => cx.shut_down_output_with(done),
        }
    }
    fn is_busy(&self) -> bool {
        self.as_ref().is_some_and(Handler::is_busy)
    }
    fn is_away(&self) -> bool {
        self.as_ref().is_some_and(Handler::is_away)
    }
    fn owes(&self) -> bool {
        self.as_ref().is_some_and(Handler::owes)
    }
    fn half_closure(&self) -> HalfClosure {
        self.as_ref().map_or(HalfClosure::Passes, Handler::half_closure)
    }
    fn timer(&mut self, cx: &mut Context<'_, Self, P>, timer: StageTimer) {
        if let Some(handler) = self {
            handler.timer(&mut lend(cx), timer);
        }
    }
    fn called(&mut self, cx: &mut Context<'_, Self, P>, call: Box<dyn Any + Send>) {
        if let Some(handler) = self {
            handler.called(&mut lend(cx), call); // callers are made by the handler inside
        }
    }
    fn target(&self) -> Target {
        self.as_ref().map_or_else(Target::nobody, Handler::target)
    }
    fn polled(&mut self, cx: &mut Context<'_, Self, P>, task: Box<dyn Any>) {
        if let Some(handler) = self {
            handler.polled(&mut lend(cx), task);
        }
    }
    fn children_ready(&mut self, cx: &mut Context<'_, Self, P>) {
        if let Some(handler) = self {
            handler.children_ready(&mut lend(cx));
        }
    }
    fn leaving(&mut self, cx: &mut Context<'_, Self, P>) {
        if let Some(handler) = self {
            handler.leaving(&mut lend(cx));
        }
    }
    fn panicked(&mut self, cx: &mut Context<'_, Self, P>) {
        if let Some(handler) = self {
            handler.panicked(&mut lend(cx));
        }
    }
    fn start_over(&mut self) -> bool {
        self.as_mut().is_none_or(Handler::start_over)
    }
    fn removed(&mut self) {
        if let Some(handler) = self {
            handler.removed();
        }
    }
    fn leftover(&mut self) -> Leftover<R> {
        self.as_mut().map_or_else(Leftover::nothing, Handler::leftover)
    }
    fn name(&self) -> &'static str {
        self.as_ref().map_or("nothing", Handler::name)
    }
}

/// One of two handlers of the same four types, decided when the pipeline is built.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Either, Observer, observe, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// struct Quiet;
/// struct Loud;
/// impl Observer for Quiet {
///     type Read = BytesMut;
///     type Write = Bytes;
/// }
/// impl Observer for Loud {
///     type Read = BytesMut;
///     type Write = Bytes;
///     fn sees_read(&mut self, bytes: &BytesMut) {
///         println!("{bytes:?}");
///     }
/// }
///
/// let verbose = false;
/// let looks_on = if verbose { Either::Left(observe(Loud)) } else { Either::Right(observe(Quiet)) };
/// let mut channel = EmbeddedChannel::new(pipeline().add(looks_on).handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
/// channel.write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

/// Calls the same method of whichever it is.
fn heavier<A: Handler<P>, B: Handler<P, Write = A::Write>, P: Place>(msg: &A::Write) -> usize {
    A::WEIGHT.held(msg).max(B::WEIGHT.held(msg))
}

macro_rules! either {
    ($self:ident, $cx:ident, $method:ident $(, $arg:expr)*) => {
        match $self {
            Either::Left(handler) => handler.$method(&mut lend($cx) $(, $arg)*),
            Either::Right(handler) => handler.$method(&mut lend($cx) $(, $arg)*),
        }
    };
}

impl<A, B, P: Place> Handler<P> for Either<A, B>
where
    A: Handler<P>,
    B: Handler<P, Read = A::Read, ReadOut = A::ReadOut, Write = A::Write, WriteOut = A::WriteOut>,
{
    type Read = A::Read;
    type ReadOut = A::ReadOut;
    type Write = A::Write;
    type WriteOut = A::WriteOut;
    /// Which of the two it is, is not known by the type: what the heavier says counts.
    const WEIGHT: Weight<A::Write> = match (A::WEIGHT.is_said(), B::WEIGHT.is_said()) {
        (true, true) => Weight::of(heavier::<A, B, P>),
        (true, false) => A::WEIGHT,
        _ => B::WEIGHT,
    };
    const PASSES: bool = A::PASSES && B::PASSES;

    #[inline]
    fn passed_read(&mut self, glance: Glance<'_>, wrote: bool) {
        match self {
            Self::Left(handler) => handler.passed_read(glance, wrote),
            Self::Right(handler) => handler.passed_read(glance, wrote),
        }
    }
    #[inline]
    fn passed_write(&mut self, glance: Glance<'_>) {
        match self {
            Self::Left(handler) => handler.passed_write(glance),
            Self::Right(handler) => handler.passed_write(glance),
        }
    }
    fn added(&mut self, cx: &mut Context<'_, Self, P>) {
        either!(self, cx, added);
    }
    fn active(&mut self, cx: &mut Context<'_, Self, P>) {
        either!(self, cx, active);
    }
    fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: A::Read) {
        either!(self, cx, read, msg);
    }
    fn pull(&mut self, cx: &mut Context<'_, Self, P>) -> Option<A::ReadOut> {
        either!(self, cx, pull)
    }
    fn read_complete(&mut self, cx: &mut Context<'_, Self, P>) {
        either!(self, cx, read_complete);
    }
    fn event(&mut self, cx: &mut Context<'_, Self, P>, event: Event) {
        either!(self, cx, event, event);
    }
    fn writability(&mut self, cx: &mut Context<'_, Self, P>, writable: bool) {
        either!(self, cx, writability, writable);
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self, P>) {
        either!(self, cx, input_closed);
    }
    fn error(&mut self, cx: &mut Context<'_, Self, P>, fault: Fault) {
        either!(self, cx, error, fault);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
        either!(self, cx, inactive, cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, msg: A::Write, done: WritePromise) {
        either!(self, cx, write, msg, done);
    }
    fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
        either!(self, cx, flush);
    }
    fn close(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause, done: WritePromise) {
        either!(self, cx, close, cause, done);
    }
    fn shut_down_output(&mut self, cx: &mut Context<'_, Self, P>, done: WritePromise) {
        either!(self, cx, shut_down_output, done);
    }
    fn is_busy(&self) -> bool {
        match self {
            Self::Left(handler) => handler.is_busy(),
            Self::Right(handler) => handler.is_busy(),
        }
    }
    fn is_away(&self) -> bool {
        match self {
            Self::Left(handler) => handler.is_away(),
            Self::Right(handler) => handler.is_away(),
        }
    }
    fn owes(&self) -> bool {
        match self {
            Self::Left(handler) => handler.owes(),
            Self::Right(handler) => handler.owes(),
        }
    }
    fn half_closure(&self) -> HalfClosure {
        match self {
            Self::Left(handler) => handler.half_closure(),
            Self::Right(handler) => handler.half_closure(),
        }
    }
    fn timer(&mut self, cx: &mut Context<'_, Self, P>, timer: StageTimer) {
        either!(self, cx, timer, timer);
    }
    fn called(&mut self, cx: &mut Context<'_, Self, P>, call: Box<dyn Any + Send>) {
        either!(self, cx, called, call);
    }
    fn target(&self) -> Target {
        match self {
            Self::Left(handler) => handler.target(),
            Self::Right(handler) => handler.target(),
        }
    }
    fn polled(&mut self, cx: &mut Context<'_, Self, P>, task: Box<dyn Any>) {
        either!(self, cx, polled, task);
    }
    fn children_ready(&mut self, cx: &mut Context<'_, Self, P>) {
        either!(self, cx, children_ready);
    }
    fn leaving(&mut self, cx: &mut Context<'_, Self, P>) {
        either!(self, cx, leaving);
    }
    fn panicked(&mut self, cx: &mut Context<'_, Self, P>) {
        either!(self, cx, panicked);
    }
    fn start_over(&mut self) -> bool {
        match self {
            Self::Left(handler) => handler.start_over(),
            Self::Right(handler) => handler.start_over(),
        }
    }
    fn removed(&mut self) {
        match self {
            Self::Left(handler) => handler.removed(),
            Self::Right(handler) => handler.removed(),
        }
    }
    fn leftover(&mut self) -> Leftover<A::Read> {
        match self {
            Self::Left(handler) => handler.leftover(),
            Self::Right(handler) => handler.leftover(),
        }
    }
    fn name(&self) -> &'static str {
        match self {
            Self::Left(handler) => handler.name(),
            Self::Right(handler) => handler.name(),
        }
    }
}
