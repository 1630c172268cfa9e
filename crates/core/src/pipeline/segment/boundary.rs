//! What lies between two stages: messages that may not pass yet, and what was asked of the stage before.

use super::{
    super::{Inbound, Op, Ops, Signal, waiting::Waiting},
    Next, Out, Segment, StageInfo,
};
use crate::channel::{ChannelCore, HalfClosure, Weight};

pub(super) enum Held<R> {
    Message(R),
    Event(Inbound),
}

impl<R> Held<R> {
    pub(super) fn is_message(&self) -> bool {
        matches!(self, Self::Message(_))
    }
}

/// What lies between a handler and the rest of its pipeline.
pub(crate) struct Boundary<N, R, W> {
    pub(super) segment: N,
    pub(super) ops: Ops<W>,
    pub(super) held: Waiting<Held<R>>,
}

impl<R, W: 'static, N: Segment<R, W>> Boundary<N, R, W> {
    pub(crate) fn new(segment: N) -> Self {
        Self { segment, ops: Ops::new(), held: Waiting::new() }
    }

    /// What is written here counts for what `weight` says. Returns what counts at the far end.
    pub(crate) fn weigh(&mut self, weight: Weight<W>) -> Weight<N::Tail> {
        self.ops.set_weight(weight);
        self.segment.weigh(weight)
    }

    // ---- for the channel, whose boundary to the first stage this is ----

    pub(crate) fn link(&mut self, core: &mut ChannelCore) {
        self.segment.link(&mut Out { ops: &mut self.ops, core });
    }

    /// Delivers one message or event that waits somewhere.
    pub(crate) fn step(&mut self, core: &mut ChannelCore) -> bool {
        self.segment.step(&mut Out { ops: &mut self.ops, core })
            || !self.held.is_empty() && self.release(core)
    }

    pub(crate) fn would_hold_up(&mut self, core: &mut ChannelCore) -> bool {
        self.has_message() || self.segment.would_hold_up(&mut Out { ops: &mut self.ops, core })
    }

    /// Whether a message waits here; events that wait alone go on by themselves.
    pub(super) fn has_message(&self) -> bool {
        self.held.count(Held::is_message) > 0
    }

    pub(crate) fn enter_at_tail(&mut self, core: &mut ChannelCore, op: Op<N::Tail>) {
        self.segment.enter_at_tail(&mut Out { ops: &mut self.ops, core }, op);
    }

    pub(crate) fn signal(&mut self, core: &mut ChannelCore, stage: u32, signal: Signal) -> Option<Signal> {
        self.segment.signal(&mut Out { ops: &mut self.ops, core }, stage, signal)
    }

    pub(crate) fn ops(&mut self) -> &mut Ops<W> {
        &mut self.ops
    }

    pub(crate) fn has_ops(&self) -> bool {
        !self.ops.is_empty()
    }

    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty() || self.segment.is_holding()
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.segment.is_busy()
    }

    pub(crate) fn owes(&self) -> bool {
        self.segment.owes()
    }

    pub(crate) fn half_closure(&self) -> HalfClosure {
        self.segment.half_closure()
    }

    pub(crate) fn panicked(&mut self, core: &mut ChannelCore) -> bool {
        self.segment.panicked(&mut Out { ops: &mut self.ops, core })
    }

    /// Whether nothing is left here, and the stages behind can begin anew.
    pub(crate) fn start_over(&mut self) -> bool {
        self.held.is_empty() && self.ops.is_empty() && self.segment.start_over()
    }

    pub(crate) fn removed(&mut self) {
        self.segment.removed();
    }

    pub(crate) fn stages(&self, list: &mut Vec<StageInfo>) {
        self.segment.stages(list);
    }

    #[inline(never)] // nearly always nothing is held
    fn release(&mut self, core: &mut ChannelCore) -> bool {
        release(&mut self.segment, &mut self.held, &mut Out { ops: &mut self.ops, core })
    }
}

/// Keeps a message until it is asked for, if it may be.
pub(super) fn hold<R>(held: &mut Waiting<Held<R>>, core: &mut ChannelCore, msg: R) {
    if core.demand.is_forsaken() {
        core.unrest.lost(1);
        return drop(msg);
    }
    held.push_back(Held::Message(msg));
    core.unrest.waits();
    if core.has_ended() {
        core.expects_room(); // it came out of a worker after the end: whoever is to ask for it may wait for room
    }
}

/// Releases one thing that was held.
#[inline]
pub(super) fn release<N: Segment<R, W>, R, W>(
    segment: &mut N,
    held: &mut Waiting<Held<R>>,
    out: &mut Out<'_, W>,
) -> bool {
    match held.front() {
        None => return false,
        Some(Held::Message(_)) if out.core.demand.is_forsaken() => {
            out.core.unrest.lost(1);
            return held.pop_front().is_some();
        }
        Some(Held::Message(_)) if out.core.demand.is_paused() => return false,
        // Nothing happens in front of what is under way on workers.
        Some(Held::Event(_)) if out.core.demand.is_away() => return false,
        // An event waits for messages, not for demand: with none before it, it goes on.
        Some(Held::Event(_)) if out.core.demand.is_paused() && segment.blocked(out) => return false,
        Some(_) => {}
    }
    match held.pop_front() {
        Some(Held::Message(msg)) => segment.read(out, msg),
        Some(Held::Event(event)) => segment.event(out, event),
        None => return false,
    }
    true
}

impl<R, W: 'static, N: Segment<R, W>> Next<R> for Boundary<N, R, W> {
    fn read(&mut self, core: &mut ChannelCore, msg: R) {
        if !self.held.is_empty() || core.demand.is_paused() {
            hold(&mut self.held, core, msg);
        } else {
            self.segment.read(&mut Out { ops: &mut self.ops, core }, msg);
        }
    }

    fn event(&mut self, core: &mut ChannelCore, event: Inbound) {
        let out = &mut Out { ops: &mut self.ops, core };
        if !event.overtakes()
            && (!self.held.is_empty() || out.core.demand.is_away() || self.segment.blocked(out))
        {
            self.held.push_back(Held::Event(event));
            out.core.unrest.waits();
        } else {
            self.segment.event(out, event);
        }
    }

    fn read_complete(&mut self, core: &mut ChannelCore) {
        let out = &mut Out { ops: &mut self.ops, core };
        if !self.held.is_empty() || out.core.demand.is_away() || self.segment.blocked(out) {
            self.held.push_back(Held::Event(Inbound::ReadComplete));
            out.core.unrest.waits();
        } else {
            self.segment.read_complete(out);
        }
    }

    fn half_closure(&self) -> HalfClosure {
        self.segment.half_closure()
    }
}

/// What lies behind a handler while it is added: nobody, yet.
pub(super) struct Later<'a, R> {
    pub(super) held: &'a mut Waiting<Held<R>>,
}

impl<R> Next<R> for Later<'_, R> {
    fn read(&mut self, core: &mut ChannelCore, msg: R) {
        self.held.push_back(Held::Message(msg));
        core.unrest.waits();
    }

    fn event(&mut self, core: &mut ChannelCore, event: Inbound) {
        self.held.push_back(Held::Event(event));
        core.unrest.waits();
    }

    fn read_complete(&mut self, core: &mut ChannelCore) {
        self.event(core, Inbound::ReadComplete);
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Passes
    }
}
