//! A segment whose far end is closed to the outside.
//!
//! ```text
//!   … ──▶ ( joint ) ──▶ ┌ Sealed ───────────────────────────────┐
//!                       │ [ frames ] ──▶ [ chat ] ◀── Inlet<M> ◀┼── Channel<M>, from cx.channel()
//!                       └───────────────────────────────────────┘
//!                               tail: Infallible                      Channel<Infallible>, the outside's
//! ```
//!
//! Always true:
//! 1. Operations from outside, but writes, enter at the segment's far end as if it were not sealed.
//! 2. From `added` on until it leaves, handles that stages of this segment ask for write to this segment.
//! 3. When it leaves, what its inlet has accepted enters first; when it is dropped, nothing waits in the inlet.
//!
//! Not here: where the messages wait and who may put them there (`channel::inlet`).

use super::{
    Inbound, Leftover, Op, Segment, Signal, StageInfo,
    segment::{Out, Writes},
};
use crate::channel::{AnyShared, CloseCause, HalfClosure, Inlet, Weight, WriteError};
use std::{convert::Infallible, sync::Arc};

/// A segment to which nothing can be written from outside. Made by [`PipelineBuilder::sealed`](super::PipelineBuilder).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// // Its channel takes no messages from outside, whatever the stages inside take.
/// let stages = pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).sealed();
/// let mut channel = EmbeddedChannel::<(), _>::with_joint(stages);
/// channel.write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// ```
pub struct Sealed<P, T> {
    segment: P,
    stage: u32,
    /// What messages at its far end count for.
    weight: Weight<T>,
    inlet: Option<Arc<Inlet<T>>>,
    /// Whose handles there were before.
    outer: Option<Arc<dyn AnyShared>>,
}

impl<P, T> Sealed<P, T> {
    pub(super) fn new(segment: P) -> Self {
        Self { segment, stage: 0, weight: Weight::unsaid(), inlet: None, outer: None }
    }
}

impl<P: Writes, T: 'static> Writes for Sealed<P, T> {
    type Message = P::Message;
}

impl<R, W, P, T> Segment<R, W> for Sealed<P, T>
where
    P: Segment<R, W, Tail = T>,
    T: 'static,
{
    type Tail = Infallible;

    fn is_end(&self) -> bool {
        self.segment.is_end()
    }

    fn weigh(&mut self, taker: Weight<W>) -> Weight<Infallible> {
        self.weight = self.segment.weigh(taker);
        Weight::unsaid() // nothing can be written
    }

    fn link(&mut self, out: &mut Out<'_, W>) {
        self.stage = out.core.next_stage_id();
        let (inlet, outer) = out.core.open_inlet(self.stage, self.weight);
        self.inlet = Some(inlet);
        self.outer = outer;
        self.segment.link(out);
    }

    fn read(&mut self, out: &mut Out<'_, W>, msg: R) {
        self.segment.read(out, msg);
    }

    fn event(&mut self, out: &mut Out<'_, W>, event: Inbound) {
        self.segment.event(out, event);
    }

    fn read_complete(&mut self, out: &mut Out<'_, W>) {
        self.segment.read_complete(out);
    }

    fn step(&mut self, out: &mut Out<'_, W>) -> bool {
        self.segment.step(out)
    }

    fn blocked(&mut self, out: &mut Out<'_, W>) -> bool {
        self.segment.blocked(out)
    }

    fn would_hold_up(&mut self, out: &mut Out<'_, W>) -> bool {
        self.segment.would_hold_up(out)
    }

    fn enter_at_tail(&mut self, out: &mut Out<'_, W>, op: Op<Infallible>) {
        let op = match op {
            Op::Write(never, _) => match never {},
            Op::Flush => Op::Flush,
            Op::Close(cause, done) => Op::Close(cause, done),
            Op::ShutDownOutput(done) => Op::ShutDownOutput(done),
        };
        self.segment.enter_at_tail(out, op);
    }

    fn signal(&mut self, out: &mut Out<'_, W>, stage: u32, signal: Signal) -> Option<Signal> {
        if stage != self.stage {
            return self.segment.signal(out, stage, signal);
        }
        if let Some((msg, done)) = self.inlet.as_ref().and_then(|inlet| inlet.take()) {
            self.segment.enter_at_tail(out, Op::Write(msg, done));
        }
        None
    }

    fn is_holding(&self) -> bool {
        self.segment.is_holding()
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
        if let Some(inlet) = self.inlet.take() {
            for (msg, done) in inlet.leave() {
                self.segment.enter_at_tail(out, Op::Write(msg, done));
            }
        }
        if !self.segment.leave(out) {
            return false;
        }
        if let Some(outer) = self.outer.take() {
            out.core.restore_handle(Some(outer));
        }
        true
    }

    fn panicked(&mut self, out: &mut Out<'_, W>) -> bool {
        self.segment.panicked(out)
    }

    /// Its inlet has ended with the conversation.
    fn start_over(&mut self) -> bool {
        false
    }

    fn removed(&mut self) {
        self.segment.removed();
    }

    fn leftover(&mut self) -> Leftover<R> {
        self.segment.leftover()
    }

    fn stages(&self, list: &mut Vec<StageInfo>) {
        self.segment.stages(list);
    }
}

/// A loop that goes away takes its channels with it.
impl<P, T> Drop for Sealed<P, T> {
    fn drop(&mut self) {
        if let Some(inlet) = &self.inlet {
            inlet.fail(WriteError::Closed(CloseCause::ShutDown)); // nothing is left if the end was told
        }
    }
}
