//! The heart of Netwright: event loops, timers, promises, executors, and the contract for what waits for I/O.
//!
//! ```text
//!  other threads ──tasks──▶ ┌────────────── event loop (one thread, one driver) ────────────────────────────────┐
//!   execute, schedule,      │ 1 poll the driver    sleeps only if nothing waits; at most one wake-up per sleep    │
//!   spawn, wakers           │ 2 deliver I/O        each event to the source that its token names                  │
//!                           │ 3 run tasks          due timers, task queue, futures; bounded by the I/O ratio      │
//!                           │ 4 run tail tasks     lowest priority                                                │
//!                           │ 5 shutting down?     close all, quiet period, leave                                 │
//!                           └─────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! An [`EventLoop`] is a thread that does one thing after the other, so what lives on it needs no lock. Other threads
//! reach it through its handle: a task goes into its queue, and if the loop sleeps, the first submitter wakes it.
//!
//! ```
//! use netwright_core::{EventLoop, EventLoopGroup};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let group = EventLoopGroup::builder().loops(2).name("worker").build()?;
//! let event_loop = group.next();
//!
//! // A task, from any thread. It runs on the loop, after everything that was submitted before it.
//! event_loop.execute(|| println!("running on {}", EventLoop::current().unwrap().name()))?;
//!
//! // A timer: a future of its result, and it can be cancelled.
//! let mut answer = event_loop.schedule(Duration::from_millis(5), || 6 * 7)?;
//! assert_eq!(answer.wait()?, 42);
//!
//! // A future, polled on the loop. Anything that wakes it, from any thread, puts it into the loop's queue.
//! let timer = event_loop.schedule(Duration::from_millis(1), || "done")?;
//! let mut spawned = event_loop.spawn(async move { timer.await.map(str::len) })?;
//! assert_eq!(spawned.wait()??, 4);
//!
//! // The end: nothing that was accepted is lost.
//! group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where to find what
//!
//! - Tasks, timers, futures, tail tasks, shutdown: [`EventLoop`]; several of them: [`EventLoopGroup`], also
//!   such as grow and shrink with their load: [`AutoScale`].
//! - Time under your control, in tests and simulations: [`ManualLoop`] and [`ManualClock`].
//! - One result from one writer to whoever waits: [`promise`].
//! - Work that blocks or computes for long: [`Workers`], ordered per [`Lane`].
//! - How the threads of all these are made: [`ThreadFactory`]; how loops wait when they have nothing to do: [`WaitStrategy`].
//! - One port for several protocols: [`detect`].
//! - What a transport has to provide: [`driver`].
//! - What a loop knows about itself: [`LoopFigures`].

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod alone;
mod arena;
mod channel;
mod clock;
mod coordination;
pub mod detect;
pub mod driver;
mod error;
mod event_loop;
mod group;
mod loop_thread;
mod pipeline;
#[cfg(feature = "_planted")]
#[doc(hidden)]
pub mod planted;
mod promise;
mod refused;
mod select;
pub mod source;
mod spill;
mod sync;
mod tail;
mod task_error;
mod threads;
pub mod time;
mod timer;
mod workers;
pub mod world;

pub use channel::{
    Address, AddressError, AnyHost, ByteSource, Carries, Channel, ChannelGroup, ChannelHold, ChannelId,
    ChannelState, Child, ChildError, ChildKey, ChildSettings, Children, CloseCause, Closed, ConflationKey,
    ENTRY_OVERHEAD, EmbeddedChannel, Envelope, Fault, FileProgress, FileRegion, Finished, GATHER_BYTES_MAX,
    GATHER_PIECES_MAX, GatherCap, Gathered, GroupResult, GroupWritten, HalfClosure, Host, HostOf,
    HostSettings, LeastRate, OtherAddress, Outbound, OutboundQueue, Outgoing, Pace, Pack, Parcel,
    ParentChannel, ShuttingDown, SlowFigures, SlowMember, SlowMembers, Special, UnixName, WaterMarks,
    Weighed, Weight, WriteError, WritePromise, Written,
};
pub use clock::{Clock, ManualClock, SystemClock};
pub use coordination::{Acquire, AcquireError, Changed, Permit, Semaphore, Watch, WatchEnded, Watcher};
pub use error::{BuildError, InvalidArgument, LoopError};
pub use event_loop::{
    EventLoop, EventLoopBuilder, JoinHandle, LocalLoop, LongestTask, LoopFigures, ManualLoop, Moment,
    QUIET_PERIOD, Rejection, ReservedPlace, SHUTDOWN_TIMEOUT, Scheduled, SourceCaller, SourceTimer, TailTask,
    TaskKind, Termination, WaitStrategy, WeakEventLoop,
};
pub use group::{
    AutoScale, AutoScaleBuilder, AutoScaleFigures, Chooser, EventLoopGroup, EventLoopGroupBuilder,
    GroupFigures, LeastLoaded, RoundRobin,
};
pub use pipeline::{
    AppContext, Application, ApplicationStage, ChannelView, ClosureStage, Complete, Context, Either, Ending,
    Event, Filter, FilterContext, FilterStage, Filtered, Glance, Handler, Hold, InboundOnly, InboundStage,
    IntoPipeline, Joint, Kept, Leftover, Link, Observer, ObserverStage, OffloadError, OnLoop, OnWorker,
    OnWorkers, Open, OutboundOnly, OutboundStage, PipelineBuilder, Place, Rest, Sealed, Segment,
    SendApplication, SendHandler, Slot, SlotStage, StageCaller, StageError, StageInfo, StageTask, StageTimer,
    Switch, Whole, filter, inbound, observe, on_workers, outbound, pipeline, slot,
};
pub use promise::{Promise, PromiseError, Promised, SharedPromised, promise};
pub use refused::{Refused, RefusedWhy};
pub use select::{Select, Selected, select};
pub use tail::{Outcome, Peer, PeerReader, PeerWriter, Serve, Service};
pub use task_error::TaskError;
pub use threads::{ThreadBody, ThreadFactory};
pub use workers::{
    Lane, ShutdownError, Workers, WorkersBuilder, WorkersError, WorkersFigures, WorkersTermination,
};

/// Parts of public signatures, and what the other crates share with this one: nobody else's business.
#[doc(hidden)]
pub mod internal {
    pub use crate::{
        channel::{AnyPipe, CarriedBy, Collector, Inside, Kin, Pipe, PipeOf},
        pipeline::{Element, End, Inbound, Names, Nest, Op, Out, Signal, Target, Writes},
        task_error::catch,
    };
}

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
