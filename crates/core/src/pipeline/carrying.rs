//! Segments behind a joint, where what they write and what the joint takes are known by different types.
//!
//! Between two stages the compiler sees both types, and what is written becomes what is taken where it is handed over. A joint knows
//! the type that it takes alone: a segment that writes another one brings along who does it.

use super::{
    Inbound, Leftover, Op, Ops, Segment, Signal, StageInfo,
    segment::{Out, Writes},
};
use crate::channel::{CarriedBy, HalfClosure, Weight};
use std::{any::Any, marker::PhantomData};

/// A segment of which only the types at its ends are known.
pub(super) type BoxedSegment<R, W, T> = Box<dyn Segment<R, W, Tail = T>>;

/// Boxes a segment for whoever takes `W`: as it is, if that is what it writes.
pub(super) fn boxed<R, W, X, T, P>(segment: P) -> BoxedSegment<R, W, T>
where
    R: 'static,
    W: 'static,
    X: CarriedBy<W>,
    T: 'static,
    P: Segment<R, X, Tail = T>,
{
    let mut place: Option<BoxedSegment<R, X, T>> = Some(Box::new(segment));
    // One type or two: known when this is compiled.
    let same = (&mut place as &mut dyn Any).downcast_mut::<Option<BoxedSegment<R, W, T>>>();
    if let Some(segment) = same.and_then(Option::take) {
        return segment;
    }
    let segment = place.expect("taken above alone");
    Box::new(Carrying { segment, ops: Ops::new(), takes: PhantomData })
}

/// A segment that writes `X` where `W` is taken.
struct Carrying<R, X, T, W> {
    segment: BoxedSegment<R, X, T>,
    ops: Ops<X>,
    takes: PhantomData<fn(W)>,
}

impl<R, X: CarriedBy<W>, T, W> Carrying<R, X, T, W> {
    /// Calls the segment, then hands on what it has asked for.
    fn run<V>(
        &mut self,
        out: &mut Out<'_, W>,
        call: impl FnOnce(&mut dyn Segment<R, X, Tail = T>, &mut Out<'_, X>) -> V,
    ) -> V {
        let result = call(&mut *self.segment, &mut Out { ops: &mut self.ops, core: out.core });
        self.hand_on(out);
        result
    }

    fn hand_on(&mut self, out: &mut Out<'_, W>) {
        while let Some(op) = self.ops.take_any() {
            out.ops.push(match op {
                Op::Write(msg, done) => Op::Write(msg.carried(), done),
                Op::Flush => Op::Flush,
                Op::Close(cause, done) => Op::Close(cause, done),
                Op::ShutDownOutput(done) => Op::ShutDownOutput(done),
            });
        }
    }
}

impl<R: 'static, X: 'static, T: 'static, W: 'static> Writes for Carrying<R, X, T, W> {
    type Message = W;
}

impl<R: 'static, X: CarriedBy<W>, T: 'static, W: 'static> Segment<R, W> for Carrying<R, X, T, W> {
    type Tail = T;

    fn is_end(&self) -> bool {
        self.segment.is_end()
    }
    fn weigh(&mut self, _: Weight<W>) -> Weight<T> {
        self.segment.weigh(Weight::unsaid()) // what is said is said of `W`
    }
    fn link(&mut self, out: &mut Out<'_, W>) {
        self.run(out, |segment, out| segment.link(out));
    }
    fn read(&mut self, out: &mut Out<'_, W>, msg: R) {
        self.run(out, |segment, out| segment.read(out, msg));
    }
    fn event(&mut self, out: &mut Out<'_, W>, event: Inbound) {
        self.run(out, |segment, out| segment.event(out, event));
    }
    fn read_complete(&mut self, out: &mut Out<'_, W>) {
        self.run(out, |segment, out| segment.read_complete(out));
    }
    fn step(&mut self, out: &mut Out<'_, W>) -> bool {
        self.run(out, |segment, out| segment.step(out))
    }
    fn blocked(&mut self, out: &mut Out<'_, W>) -> bool {
        self.run(out, |segment, out| segment.blocked(out))
    }
    fn would_hold_up(&mut self, out: &mut Out<'_, W>) -> bool {
        self.run(out, |segment, out| segment.would_hold_up(out))
    }
    fn enter_at_tail(&mut self, out: &mut Out<'_, W>, op: Op<T>) {
        self.run(out, |segment, out| segment.enter_at_tail(out, op));
    }
    fn signal(&mut self, out: &mut Out<'_, W>, stage: u32, signal: Signal) -> Option<Signal> {
        self.run(out, |segment, out| segment.signal(out, stage, signal))
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
        self.run(out, |segment, out| segment.leave(out))
    }
    fn panicked(&mut self, out: &mut Out<'_, W>) -> bool {
        // What was asked for in the call that panicked stays, unless somebody speaks.
        let spoke = self.segment.panicked(&mut Out { ops: &mut self.ops, core: out.core });
        if spoke {
            self.hand_on(out);
        }
        spoke
    }
    fn start_over(&mut self) -> bool {
        self.segment.start_over()
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
