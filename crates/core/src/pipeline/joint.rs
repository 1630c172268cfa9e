//! Rewiring a live channel: the rest of a pipeline behind a joint can be replaced as a whole.
//!
//! ```text
//!   … ──▶ [ stage ] ──▶ ( joint ) ──▶ [ handshake ]              switch.to(pipeline().add(Frames).app(Chat))
//!                           │
//!                           └───────▶ [ frames ] ──▶ [ chat ]    from the next message on, leftover first
//! ```
//!
//! Always true:
//! 1. A replacement takes effect when the call that asked for it has unwound to the joint, so no handler is taken away
//!    under its own feet.
//! 2. What the first stage of the old segment had read and not used is the first thing that the new one reads.
//! 3. What was written to the old segment and accepted is on its way to the wire before the new one writes anything.
//! 4. A segment with something under way on workers is exchanged when that has come out. Meanwhile nothing is delivered, and
//!    what enters at the far end waits for the new segment: the old one gets nothing more.
//! 5. The old segment hears `leaving` and `removed`, the new one `added` and, on a connected channel, `active`, before
//!    anything else. The end of input and of the channel it hears behind what was left over.

use super::{
    Inbound, IntoPipeline, Leftover, Op, Segment, Signal, StageInfo,
    carrying::{BoxedSegment, boxed},
    segment::{Out, Writes},
};
use crate::channel::{CloseCause, HalfClosure, Outgoing, Weight};
use bytes::BytesMut;
use std::{cell::RefCell, collections::VecDeque, fmt, rc::Rc};

/// The end of a pipeline that can be exchanged. Made by [`PipelineBuilder::joint`](super::PipelineBuilder::joint).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let stages = pipeline().joint(|_switch| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
/// let mut channel = EmbeddedChannel::<(), _>::with_joint(stages);
/// channel.write_inbound("as if there was none");
/// assert_eq!(channel.outbound_bytes(), b"as if there was none");
/// ```
pub struct Joint<T, R = BytesMut, W = Outgoing> {
    segment: BoxedSegment<R, W, T>,
    switch: Switch<T, R, W>,
    /// What the old segment left for the new one, and what that has to be told behind it.
    waiting: VecDeque<Waiting<R>>,
    known: Known,
    /// An exchange that waits for what the old segment has under way on workers.
    parting: Option<Box<Parting<R, W, T>>>,
    /// The number of the first stage of the segment; everything behind the joint has a higher one.
    first: u32,
    /// It is not the first segment any more.
    exchanged: bool,
}

enum Waiting<R> {
    Message(R),
    Event(Inbound),
}

/// What comes while the old segment leaves, for the new one.
struct Parting<R, W, T> {
    wanted: Wanted<R, W, T>,
    /// Everything that was under way has come out: the stages are told that they leave.
    leaving: bool,
    events: Vec<Inbound>,
    ops: Vec<Op<T>>,
}

/// What is true of the channel, so that whoever comes late has to be told.
#[derive(Default)]
struct Known {
    active: bool,
    /// A message has come since the last `read_complete`.
    reading: bool,
    input_closed: bool,
    inactive: Option<Box<CloseCause>>,
}

impl Known {
    fn learn(&mut self, event: &Inbound) {
        match event {
            Inbound::Active => self.active = true,
            Inbound::ReadComplete => self.reading = false,
            Inbound::InputClosed => self.input_closed = true,
            Inbound::Inactive(cause) => self.inactive = Some(Box::new(cause.clone())),
            _ => {}
        }
    }

    /// What comes behind the leftovers: they were read long ago, or the transport has not said yet that this was all.
    fn afterwards(&self, leftovers: bool) -> impl Iterator<Item = Inbound> + use<> {
        let complete = (leftovers && !self.reading).then_some(Inbound::ReadComplete);
        let input_closed = self.input_closed.then_some(Inbound::InputClosed);
        let inactive = self.inactive.as_deref().cloned().map(Inbound::Inactive);
        [complete, input_closed, inactive].into_iter().flatten()
    }
}

impl<T: 'static, R: 'static, W: 'static> Joint<T, R, W> {
    pub(super) fn new(segment: BoxedSegment<R, W, T>, switch: Switch<T, R, W>) -> Self {
        let (waiting, known) = (VecDeque::new(), Known::default());
        Self { segment, switch, waiting, known, parting: None, first: u32::MAX, exchanged: false }
    }

    /// Exchanges the segment if that was asked for during the call that has just ended.
    fn exchange(&mut self, out: &mut Out<'_, W>) {
        while self.parting.is_some() || self.is_wanted() {
            self.exchanged = true;
            let Some(parting) = self.part(out) else { return };
            let Parting { wanted: Wanted { segment, leftover }, events, ops, .. } = *parting;
            let mut old = std::mem::replace(&mut self.segment, segment);
            out.core.forget_stages(self.first);
            self.inherit(leftover.into_messages(), old.leftover().into_messages());
            out.core.unrest.may_wait(!self.waiting.is_empty());
            old.removed();
            drop(old);
            self.first = out.core.first_free_stage();
            let weight = self.segment.weigh(out.ops.weight());
            out.core.tail_weighs(weight);
            self.segment.link(out);
            if self.known.active {
                self.segment.event(out, Inbound::Active);
            }
            events.into_iter().for_each(|event| self.segment.event(out, event));
            ops.into_iter().for_each(|op| self.segment.enter_at_tail(out, op));
        }
    }

    /// Whether an exchange was asked for; it is begun then.
    fn is_wanted(&mut self) -> bool {
        let Some(wanted) = self.switch.wanted.take() else { return false };
        let parting = Parting { wanted, leaving: false, events: Vec::new(), ops: Vec::new() };
        self.parting = Some(Box::new(parting));
        true
    }

    /// Has the old segment leave. `None` while it has something under way on workers: whatever comes back from there calls
    /// again.
    fn part(&mut self, out: &mut Out<'_, W>) -> Option<Box<Parting<R, W, T>>> {
        let parting = self.parting.as_mut()?;
        if !parting.leaving && self.segment.is_away() {
            return None;
        }
        parting.leaving = true;
        if self.segment.leave(out) { self.parting.take() } else { None }
    }

    /// Puts what the new segment reads first in front of what waits already, and what it has to be told behind it.
    fn inherit(&mut self, handed_over: Vec<R>, left: Vec<R>) {
        self.waiting.retain(|waiting| matches!(waiting, Waiting::Message(_)));
        for message in handed_over.into_iter().chain(left).rev() {
            self.waiting.push_front(Waiting::Message(message));
        }
        let leftovers = !self.waiting.is_empty();
        self.waiting.extend(self.known.afterwards(leftovers).map(Waiting::Event));
    }

    /// Delivers one thing that waits for the segment.
    fn release(&mut self, out: &mut Out<'_, W>) -> bool {
        let paused = out.core.demand.is_paused();
        match self.waiting.front() {
            None => return false,
            Some(Waiting::Message(_)) if out.core.demand.is_forsaken() => {
                out.core.unrest.lost(1);
                return self.waiting.pop_front().is_some();
            }
            Some(Waiting::Message(_)) if paused => return false,
            Some(Waiting::Event(_)) if out.core.demand.is_away() => return false,
            // An event waits for messages, not for demand.
            Some(Waiting::Event(_)) if paused && self.segment.blocked(out) => return false,
            Some(_) => {}
        }
        match self.waiting.pop_front() {
            Some(Waiting::Message(msg)) => self.segment.read(out, msg),
            Some(Waiting::Event(event)) => self.segment.event(out, event),
            None => return false,
        }
        true
    }
}

impl<T: 'static, R: 'static, W: 'static> Writes for Joint<T, R, W> {
    type Message = W;
}

impl<T: 'static, R: 'static, W: 'static> Segment<R, W> for Joint<T, R, W> {
    type Tail = T;

    fn is_end(&self) -> bool {
        false
    }

    fn weigh(&mut self, taker: Weight<W>) -> Weight<T> {
        self.segment.weigh(taker)
    }

    fn link(&mut self, out: &mut Out<'_, W>) {
        self.first = out.core.first_free_stage();
        self.segment.link(out);
        self.exchange(out);
    }

    fn read(&mut self, out: &mut Out<'_, W>, msg: R) {
        self.known.reading = true;
        if self.waiting.is_empty() && self.parting.is_none() {
            self.segment.read(out, msg);
            self.exchange(out);
        } else {
            self.waiting.push_back(Waiting::Message(msg));
            out.core.unrest.waits();
        }
    }

    fn event(&mut self, out: &mut Out<'_, W>, event: Inbound) {
        self.known.learn(&event);
        match &mut self.parting {
            Some(parting) if event.overtakes() => parting.events.push(event),
            Some(_) => {} // known: the new segment is told
            None => self.segment.event(out, event),
        }
        self.exchange(out);
    }

    fn read_complete(&mut self, out: &mut Out<'_, W>) {
        self.known.reading = false;
        if self.parting.is_none() {
            self.segment.read_complete(out);
        }
        self.exchange(out);
    }

    fn step(&mut self, out: &mut Out<'_, W>) -> bool {
        let stepped = self.parting.is_none() && (self.segment.step(out) || self.release(out));
        self.exchange(out);
        stepped
    }

    fn blocked(&mut self, out: &mut Out<'_, W>) -> bool {
        !self.waiting.is_empty() || self.segment.blocked(out)
    }

    fn would_hold_up(&mut self, out: &mut Out<'_, W>) -> bool {
        !self.waiting.is_empty() || self.segment.would_hold_up(out)
    }

    fn enter_at_tail(&mut self, out: &mut Out<'_, W>, op: Op<T>) {
        match &mut self.parting {
            Some(parting) => parting.ops.push(op),
            None => self.segment.enter_at_tail(out, op),
        }
        self.exchange(out);
    }

    fn signal(&mut self, out: &mut Out<'_, W>, stage: u32, signal: Signal) -> Option<Signal> {
        let left = self.segment.signal(out, stage, signal);
        self.exchange(out);
        left
    }

    fn is_holding(&self) -> bool {
        !self.waiting.is_empty() || self.segment.is_holding()
    }

    fn is_busy(&self) -> bool {
        self.segment.is_busy()
    }

    fn is_away(&self) -> bool {
        self.segment.is_away()
    }

    fn owes(&self) -> bool {
        self.segment.owes()
    }

    fn half_closure(&self) -> HalfClosure {
        self.segment.half_closure()
    }

    fn leave(&mut self, out: &mut Out<'_, W>) -> bool {
        self.segment.leave(out)
    }

    fn panicked(&mut self, out: &mut Out<'_, W>) -> bool {
        self.segment.panicked(out)
    }

    fn start_over(&mut self) -> bool {
        let whole = !self.exchanged && self.waiting.is_empty() && self.switch.wanted.borrow().is_none();
        self.known = Known::default();
        whole && self.segment.start_over()
    }

    fn removed(&mut self) {
        self.segment.removed();
    }

    fn leftover(&mut self) -> Leftover<R> {
        let mut messages = self.segment.leftover().into_messages();
        let waiting = self.waiting.drain(..).filter_map(|waiting| match waiting {
            Waiting::Message(message) => Some(message),
            Waiting::Event(_) => None,
        });
        messages.extend(waiting);
        Leftover::many(messages)
    }

    fn stages(&self, list: &mut Vec<StageInfo>) {
        self.segment.stages(list);
    }
}

/// Exchanges what lies behind a joint. Given to whoever builds the first segment; the handlers inside keep it.
///
/// The types say what fits: the new segment reads what the joint gives, and writes what it takes or what that [carries](crate::Carries). What may be written at the
/// far end, `T`, is the same for all of them; those that differ in it are [sealed](super::PipelineBuilder::sealed).
///
/// What was true of the channel stays true: the new segment hears `active`, and behind the leftovers that the peer sends no
/// more, or that the channel has ended, if that is so. Demand stays as the old segment left it, so one that
/// [paused](super::Context::pause) resumes first, or in [`leaving`](super::Handler::leaving). Messages that wait behind the first
/// stage of the old segment, because somebody paused, cannot be read by another one: they are dropped with a warning. What the
/// old stages had under way ends with them: their timers, futures, and the requests of a `service` that are not answered.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// // Says hello; from then on everything comes back.
/// let mut channel = EmbeddedChannel::<(), _>::with_joint(pipeline().joint(|switch| {
///     pipeline().handle(move |cx, _| {
///         cx.write_and_flush("hello");
///         switch.to(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
///     })
/// }));
/// channel.write_inbound("whatever").write_inbound("and back");
/// assert_eq!(channel.outbound_bytes(), b"helloand back");
/// ```
pub struct Switch<T, R = BytesMut, W = Outgoing> {
    wanted: Rc<RefCell<Option<Wanted<R, W, T>>>>,
}

struct Wanted<R, W, T> {
    segment: BoxedSegment<R, W, T>,
    leftover: Leftover<R>,
}

impl<T: 'static, R: 'static, W: 'static> Switch<T, R, W> {
    pub(super) fn new() -> Self {
        Self { wanted: Rc::default() }
    }

    /// Asks for the exchange: it happens when the handler that asks has returned. Of several requests in one call the
    /// last one counts. Asked for outside of the pipeline, it happens with the next thing that passes the joint.
    pub fn to(&self, pipeline: impl IntoPipeline<T, R, W>) {
        self.to_with(pipeline, Leftover::nothing());
    }

    /// [`to`](Self::to), and hands over what was read and not used: the new segment reads it first. For whoever has no
    /// [`leftover`](super::Handler::leftover) to be asked for: closures, applications and async functions that read
    /// what the joint gives.
    ///
    /// ```
    /// use netwright_core::{CloseCause, EmbeddedChannel, Leftover, Outgoing, Peer, Switch, pipeline};
    /// use bytes::BytesMut;
    ///
    /// /// Reads a greeting of five bytes; then everything is sent back.
    /// async fn greet(mut peer: Peer, switch: Switch<Outgoing>) -> Result<(), CloseCause> {
    ///     let Some(mut bytes) = peer.read().await? else { return Ok(()) };
    ///     let rest = bytes.split_off(bytes.len().min(5));
    ///     let echo = pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
    ///     switch.to_with(echo, Leftover::one(rest));
    ///     Ok(()) // the channel goes on with its successor
    /// }
    ///
    /// let mut channel = EmbeddedChannel::<(), _>::with_joint(
    ///     pipeline().joint(|switch| pipeline().serve(move |peer| greet(peer, switch))),
    /// );
    /// channel.write_inbound(b"hello, world");
    /// assert_eq!(channel.outbound_bytes(), b", world");
    /// ```
    pub fn to_with(&self, pipeline: impl IntoPipeline<T, R, W>, leftover: Leftover<R>) {
        let wanted = Wanted { segment: boxed(pipeline.into_pipeline()), leftover };
        let before = self.wanted.replace(Some(wanted));
        drop(before);
    }
}

impl<T, R, W> Clone for Switch<T, R, W> {
    fn clone(&self) -> Self {
        Self { wanted: self.wanted.clone() }
    }
}

impl<T, R, W> fmt::Debug for Switch<T, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.wanted.try_borrow().is_ok_and(|wanted| wanted.is_some());
        f.debug_struct("Switch").field("pending", &pending).finish()
    }
}
