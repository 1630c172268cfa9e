//! Typed pipelines: handlers that fit one another by their types, and cannot be re-entered.
//!
//! | file | what it is |
//! | --- | --- |
//! | `handler` | [`Handler`], one job on the way of a byte |
//! | `place` | [`Place`], where a stage runs, as a type |
//! | `context` | [`Context`], what a handler can do while it runs |
//! | `hold` | [`Hold`] and [`Kept`], what a stage holds back until it lets go |
//! | `view` | [`ChannelView`], what a handler can see of its channel |
//! | `segment` | how stages nest, and what passes between two of them |
//! | `builder` | [`pipeline`], stages one after the other |
//! | `simple` | smaller traits for handlers that look one way |
//! | `filter` | [`Filter`], handlers that keep the types of what passes |
//! | `element` | what a list of stages consists of |
//! | `optional` | `Option<H>` and [`Either`] as handlers |
//! | `caller` | [`StageCaller`], the way back to a handler from any thread |
//! | `task` | futures of a stage: `cx.spawn`, `cx.offload`, `cx.schedule` |
//! | `on_workers` | a whole stage on workers |
//! | `named` | stages with a name, found by it from any thread |
//! | `into_pipeline` | [`IntoPipeline`], pipelines as parameters and results |
//! | `joint` | [`Switch`], exchanging the rest of a live pipeline |
//! | `carrying` | segments behind a joint that write another type than it takes |
//! | `sealed` | [`Sealed`], a segment whose far end is closed to the outside |
//! | `slot` | [`slot`], a place for an observer that comes and goes |
//! | `waiting` | what waits between two stages |
//! | `glance` | what a filter sees of its channel when a message passes it |
//! | `last_words` | what a handler panicked with, while others are asked for last words |
//! | `op`, `event`, `leftover` | what travels: towards the wire, towards the application, to a successor |

mod builder;
mod caller;
mod carrying;
mod context;
mod element;
mod event;
mod filter;
mod glance;
mod handler;
mod hold;
mod into_pipeline;
mod joint;
pub(crate) mod last_words;
mod leftover;
mod named;
mod on_workers;
mod op;
mod optional;
mod place;
mod sealed;
mod segment;
mod simple;
mod slot;
mod task;
mod view;
mod waiting;
mod write_from;

pub use builder::{Complete, Ending, Link, Nest, Open, PipelineBuilder, Rest, Whole, pipeline};
pub use caller::{Signal, StageCaller};
pub use context::Context;
pub use element::{Element, Filtered};
pub use event::{Event, Inbound};
pub use filter::{Filter, FilterContext, FilterStage, filter};
pub use glance::Glance;
pub use handler::{Handler, StageTimer};
pub use hold::{Hold, Kept};
pub use into_pipeline::IntoPipeline;
pub use joint::{Joint, Switch};
pub use leftover::Leftover;
pub(crate) use named::NamedStage;
pub use named::{Names, StageError, Target};
pub use on_workers::{OnWorkers, SendApplication, SendHandler, on_workers};
pub use op::Op;
pub(crate) use op::Ops;
pub use optional::Either;
pub use place::{OnLoop, OnWorker, Place};
pub use sealed::Sealed;
pub(crate) use segment::{Boundary, Next};
pub use segment::{End, Out, Segment, StageInfo, Writes};
pub use simple::{
    AppContext, Application, ApplicationStage, ClosureStage, InboundOnly, InboundStage, Observer,
    ObserverStage, OutboundOnly, OutboundStage, inbound, observe, outbound,
};
pub use slot::{Slot, SlotStage, slot};
pub(crate) use task::{Job, TaskWaker, Tasks};
pub use task::{OffloadError, StageTask};
pub use view::ChannelView;
