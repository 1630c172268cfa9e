//! Where a pipeline ends.

use super::{
    super::{Inbound, Leftover, Op, Signal},
    Out, Segment, StageInfo, Writes,
};
use crate::{
    channel::{ChannelCore, HalfClosure, Weight},
    task_error::tell,
};
use std::marker::PhantomData;

/// The end of a pipeline: what arrives here nobody wanted. What enters here, from outside, is what the last stage takes.
pub struct End<W>(PhantomData<fn(W)>);

impl<W> End<W> {
    pub(in crate::pipeline) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<W: 'static> Writes for End<W> {
    type Message = W;
}

impl<R, W: 'static> Segment<R, W> for End<W> {
    type Tail = W;

    fn is_end(&self) -> bool {
        true
    }

    fn weigh(&mut self, taker: Weight<W>) -> Weight<W> {
        taker
    }

    fn link(&mut self, _: &mut Out<'_, W>) {}

    fn read(&mut self, out: &mut Out<'_, W>, _: R) {
        nobody_took(out.core, std::any::type_name::<R>());
    }

    fn event(&mut self, out: &mut Out<'_, W>, event: Inbound) {
        if let Inbound::Error(fault) = event {
            out.core.unhandled(fault);
        }
    }

    fn step(&mut self, _: &mut Out<'_, W>) -> bool {
        false
    }

    fn blocked(&mut self, _: &mut Out<'_, W>) -> bool {
        false
    }

    fn would_hold_up(&mut self, _: &mut Out<'_, W>) -> bool {
        false
    }

    fn enter_at_tail(&mut self, out: &mut Out<'_, W>, op: Op<W>) {
        out.ops.push(op);
    }

    fn signal(&mut self, _: &mut Out<'_, W>, _: u32, signal: Signal) -> Option<Signal> {
        Some(signal)
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn is_busy(&self) -> bool {
        false
    }

    fn is_away(&self) -> bool {
        false
    }

    fn owes(&self) -> bool {
        false
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Passes
    }

    fn leave(&mut self, _: &mut Out<'_, W>) -> bool {
        true
    }

    fn panicked(&mut self, _: &mut Out<'_, W>) -> bool {
        false
    }

    fn start_over(&mut self) -> bool {
        true
    }

    fn removed(&mut self) {}

    fn leftover(&mut self) -> Leftover<R> {
        Leftover::nothing()
    }

    fn stages(&self, _: &mut Vec<StageInfo>) {}
}

#[cold]
fn nobody_took(core: &mut ChannelCore, message: &'static str) {
    core.unrest.lost(1);
    let channel = core.id;
    tell(|| tracing::debug!(%channel, message, "no handler took this message"));
}
