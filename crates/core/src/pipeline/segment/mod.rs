//! How stages nest, and how messages and operations pass between two of them.
//!
//! ```text
//!   Stage<A, Stage<B, End>>
//!
//!     ┌ Stage ─────────────────────────────────────────────────┐
//!     │ handler A      ┌ Boundary ─────────────────────────────┐│
//!     │      │  next   │ held: what may not pass yet           ││
//!     │      └────────▶│ ops:  what B asked of A, in order     ││
//!     │                │ Stage<B, End>                         ││
//!     │                └───────────────────────────────────────┘│
//!     └─────────────────────────────────────────────────────────┘
//! ```
//!
//! A filter has a place with less in it: `filtering`.
//!
//! Always true:
//! 1. While a handler runs it is mutably borrowed, so nothing can call it: what the stages behind it ask for waits in
//!    `ops` and is carried out when its call has returned (`settle`).
//! 2. Messages and events leave a boundary in the order in which they came to it. While delivery is paused, messages
//!    wait in `held`, and so do the events behind them. Only news of room to write passes by.
//! 3. Messages that a handler can make more of are pulled by `step`, one for each call, deepest stage first: so the
//!    second one is looked at after everything that the first one caused, down to the wire.

mod boundary;
mod end;
mod filtering;
mod stage;

use super::{Inbound, Op, Ops, Signal};
use crate::channel::{ChannelCore, HalfClosure, Weight};

pub(crate) use boundary::Boundary;
pub use end::End;
pub(super) use filtering::Filtering;
pub(super) use stage::Stage;

/// Where a segment puts what it asks of the stage before it, and the channel it lives in.
pub struct Out<'a, W> {
    pub(crate) ops: &'a mut Ops<W>,
    pub(crate) core: &'a mut ChannelCore,
}

/// What a piece of a pipeline asks to be written: the `W` of its [`Segment`], which it has for one `W` alone.
#[doc(hidden)]
pub trait Writes: 'static {
    type Message: 'static;
}

/// A piece of a pipeline: reads `R`, asks for `W` to be written. Made by [`pipeline`](super::pipeline); not implemented
/// by hand.
///
/// ```
/// use netwright_core::{Outgoing, Segment, pipeline};
/// use bytes::BytesMut;
///
/// fn is_one(_: &impl Segment<BytesMut, Outgoing>) {}
///
/// is_one(&pipeline().handle(|cx, bytes| cx.write(bytes)).into_segment());
/// ```
pub trait Segment<R, W>: 'static {
    /// What may be written at its far end, from outside the pipeline.
    type Tail: 'static;

    /// Whether no message can come this far, so that the stage before this is the last one.
    #[doc(hidden)]
    fn is_end(&self) -> bool;
    /// Hears what its writes count for, and says what those at its far end do. Before it is linked.
    #[doc(hidden)]
    fn weigh(&mut self, taker: Weight<W>) -> Weight<Self::Tail>;
    #[doc(hidden)]
    fn link(&mut self, out: &mut Out<'_, W>);
    #[doc(hidden)]
    fn read(&mut self, out: &mut Out<'_, W>, msg: R);
    #[doc(hidden)]
    fn event(&mut self, out: &mut Out<'_, W>, event: Inbound);
    /// The event that comes with nearly every message.
    #[doc(hidden)]
    fn read_complete(&mut self, out: &mut Out<'_, W>) {
        self.event(out, Inbound::ReadComplete);
    }
    /// Delivers one message that waits somewhere inside. False if none does or delivery is paused.
    #[doc(hidden)]
    fn step(&mut self, out: &mut Out<'_, W>) -> bool;
    /// Whether the first stage holds a message that has to go before an event may enter.
    #[doc(hidden)]
    fn blocked(&mut self, out: &mut Out<'_, W>) -> bool;
    /// Whether any stage holds a message, so that an end would have to wait for it.
    #[doc(hidden)]
    fn would_hold_up(&mut self, out: &mut Out<'_, W>) -> bool;
    /// An operation that enters at the far end.
    #[doc(hidden)]
    fn enter_at_tail(&mut self, out: &mut Out<'_, W>, op: Op<Self::Tail>);
    /// Finds the stage that a signal is for. Gives the signal back if that has gone.
    #[doc(hidden)]
    fn signal(&mut self, out: &mut Out<'_, W>, stage: u32, signal: Signal) -> Option<Signal>;
    /// Whether a message or an event waits somewhere inside to be asked for.
    #[doc(hidden)]
    fn is_holding(&self) -> bool;
    /// Whether a stage has something under way that comes out by itself.
    #[doc(hidden)]
    fn is_busy(&self) -> bool;
    /// Whether that is on a worker.
    #[doc(hidden)]
    fn is_away(&self) -> bool;
    /// Whether a stage has yet to answer something.
    #[doc(hidden)]
    fn owes(&self) -> bool;
    /// What its stages say together about a peer that sends no more.
    #[doc(hidden)]
    fn half_closure(&self) -> HalfClosure;
    /// The segment is about to be exchanged: what it has accepted goes out now. False while a stage still has something
    /// under way on workers; to be called again when that is back.
    #[doc(hidden)]
    fn leave(&mut self, out: &mut Out<'_, W>) -> bool;
    /// A stage has panicked: whoever has something to say to the peer says it now, deepest stage first. Tells whether anybody has.
    /// To be called again when something is back from workers: stages in front of it have not been asked.
    #[doc(hidden)]
    fn panicked(&mut self, out: &mut Out<'_, W>) -> bool;
    /// A conversation has ended in order: forgets it, to begin another. False if a stage cannot.
    #[doc(hidden)]
    fn start_over(&mut self) -> bool;
    #[doc(hidden)]
    fn removed(&mut self);
    #[doc(hidden)]
    fn leftover(&mut self) -> super::Leftover<R>;
    #[doc(hidden)]
    fn stages(&self, list: &mut Vec<StageInfo>);
}

/// A stage as `Channel::stages` shows it.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
/// let mut stages = channel.channel().stages();
/// channel.run();
/// for stage in stages.wait().unwrap() {
///     println!("{stage:?}");
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageInfo {
    /// The stage's name: the one that it [was given](crate::PipelineBuilder::named), else that of its handler.
    pub name: &'static str,
    /// The handler's own name.
    pub handler: &'static str,
    /// Messages read so far.
    pub reads: u64,
    /// Messages written so far.
    pub writes: u64,
    /// Whether what is written to this stage counts for all the memory that it holds. If not, nobody has
    /// [said](crate::Handler::WEIGHT) how much that is, and messages count for the size of their type alone.
    pub weighed: bool,
}

/// The way on from one stage, as its handler sees it.
pub(crate) trait Next<R> {
    fn read(&mut self, core: &mut ChannelCore, msg: R);
    fn event(&mut self, core: &mut ChannelCore, event: Inbound);
    fn read_complete(&mut self, core: &mut ChannelCore);
    /// What the stages from here on say about a peer that sends no more.
    fn half_closure(&self) -> HalfClosure;
}
