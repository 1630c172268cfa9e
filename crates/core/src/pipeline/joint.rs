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
//! 4. The old segment hears `removed`, the new one `added` and, on a connected channel, `active`, before anything else.

use super::{Ending, Inbound, Leftover, Link, Op, PipelineBuilder, Segment, Signal, StageInfo, segment::Out};
use std::{cell::RefCell, collections::VecDeque, fmt, rc::Rc};

type BoxedSegment<R, W, T> = Box<dyn Segment<R, W, Tail = T>>;

/// The end of a pipeline that can be exchanged. Made by [`PipelineBuilder::joint`].
pub struct Joint<R, W, T> {
    segment: BoxedSegment<R, W, T>,
    switch: Switch<R, W, T>,
    /// What the old segment left for the new one.
    waiting: VecDeque<R>,
    active: bool,
    /// The number of the first stage of the segment; everything behind the joint has a higher one.
    first: u32,
}

impl<R: 'static, W: 'static, T: 'static> Joint<R, W, T> {
    pub(super) fn new(segment: BoxedSegment<R, W, T>, switch: Switch<R, W, T>) -> Self {
        Self { segment, switch, waiting: VecDeque::new(), active: false, first: u32::MAX }
    }

    /// Exchanges the segment if that was asked for during the call that has just ended.
    fn exchange(&mut self, out: &mut Out<'_, W>) {
        while let Some(segment) = self.switch.wanted.take() {
            self.segment.leave(out);
            let mut old = std::mem::replace(&mut self.segment, segment);
            out.core.drop_tasks(self.first);
            let leftover = old.leftover().into_messages();
            for message in leftover.into_iter().rev() {
                self.waiting.push_front(message);
            }
            out.core.waiting_inside |= !self.waiting.is_empty();
            old.removed();
            drop(old);
            self.first = out.core.first_free_stage();
            self.segment.link(out);
            if self.active {
                self.segment.event(out, Inbound::Active);
            }
        }
    }
}

impl<R: 'static, W: 'static, T: 'static> Segment<R, W> for Joint<R, W, T> {
    type Tail = T;

    fn is_end(&self) -> bool {
        false
    }

    fn link(&mut self, out: &mut Out<'_, W>) {
        self.first = out.core.first_free_stage();
        self.segment.link(out);
        self.exchange(out);
    }

    fn read(&mut self, out: &mut Out<'_, W>, msg: R) {
        if self.waiting.is_empty() {
            self.segment.read(out, msg);
            self.exchange(out);
        } else {
            self.waiting.push_back(msg);
            out.core.waiting_inside = true;
        }
    }

    fn event(&mut self, out: &mut Out<'_, W>, event: Inbound) {
        self.active |= matches!(event, Inbound::Active);
        self.segment.event(out, event);
        self.exchange(out);
    }

    fn step(&mut self, out: &mut Out<'_, W>) -> bool {
        let mut stepped = self.segment.step(out);
        if !stepped
            && !out.core.demand.is_paused()
            && let Some(msg) = self.waiting.pop_front()
        {
            self.segment.read(out, msg);
            stepped = true;
        }
        self.exchange(out);
        stepped
    }

    fn blocked(&mut self, out: &mut Out<'_, W>) -> bool {
        !self.waiting.is_empty() || self.segment.blocked(out)
    }

    fn enter_at_tail(&mut self, out: &mut Out<'_, W>, op: Op<T>) {
        self.segment.enter_at_tail(out, op);
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

    fn leave(&mut self, out: &mut Out<'_, W>) {
        self.segment.leave(out);
    }

    fn removed(&mut self) {
        self.segment.removed();
    }

    fn leftover(&mut self) -> Leftover<R> {
        let mut messages = self.segment.leftover().into_messages();
        messages.extend(self.waiting.drain(..));
        Leftover::many(messages)
    }

    fn stages(&self, list: &mut Vec<StageInfo>) {
        self.segment.stages(list);
    }
}

/// Exchanges what lies behind a joint. Given to whoever builds the first segment; the handlers inside keep it.
///
/// The types say what fits: the new segment reads what the joint gives and writes what it takes. What may be written at the
/// far end, `T`, is the same for all of them; those that differ in it are [sealed](PipelineBuilder::sealed).
pub struct Switch<R, W, T> {
    wanted: Wanted<R, W, T>,
}

type Wanted<R, W, T> = Rc<RefCell<Option<BoxedSegment<R, W, T>>>>;

impl<R: 'static, W: 'static, T: 'static> Switch<R, W, T> {
    pub(super) fn new() -> Self {
        Self { wanted: Rc::default() }
    }

    /// Asks for the exchange: it happens when the handler that asks has returned. Of several requests in one call the
    /// last one counts.
    pub fn to<S, E, P>(&self, pipeline: PipelineBuilder<S, E>)
    where
        E: Ending,
        S: Link<E::Segment, Linked = P>,
        P: Segment<R, W, Tail = T>,
    {
        let before = self.wanted.replace(Some(Box::new(pipeline.into_segment())));
        drop(before);
    }
}

impl<R, W, T> Clone for Switch<R, W, T> {
    fn clone(&self) -> Self {
        Self { wanted: self.wanted.clone() }
    }
}

impl<R, W, T> fmt::Debug for Switch<R, W, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.wanted.try_borrow().is_ok_and(|wanted| wanted.is_some());
        f.debug_struct("Switch").field("pending", &pending).finish()
    }
}
