//! Event loops: one thread, one driver, one task queue each.
//!
//! | file | what it is |
//! | --- | --- |
//! | `handle` | [`EventLoop`], what every thread may ask of a loop |
//! | `local_loop`, `local` | the same loop seen from its own thread: timers, futures, sources |
//! | `queues` | what it has to run, in which order |
//! | `shared`, `inbox` | what threads share: the door for tasks, the wake-up protocol, start and end |
//! | `runner` | the turn: poll, I/O, tasks, tail tasks, leave |
//! | `requests` | what a loop is asked for beside tasks: to look up, to suspend, to rebuild, to end now |
//! | `budget`, `shutdown` | how long tasks may run; when to leave. Pure decisions |
//! | `submit`, `schedule`, `spawn`, `tail` | tasks with a result, timers, futures, tail tasks |
//! | `appointments` | moments at which stages want to look at their channels |
//! | `driven`, `manual` | a loop that is driven from outside: by a world, by hand |
//! | `waiting`, `nap` | how a loop waits; how one does whose driver cannot |
//! | `moment` | time as a loop counts it |
//! | `config`, `figures` | settings; what a loop tells about itself |

mod appointments;
mod budget;
mod config;
mod driven;
mod figures;
mod handle;
mod inbox;
mod local;
mod local_loop;
mod manual;
mod moment;
mod nap;
mod queues;
mod requests;
mod runner;
mod schedule;
mod shared;
mod shutdown;
mod spawn;
mod submit;
mod tail;
mod waiting;

pub use config::{EventLoopBuilder, Rejection};
pub(crate) use config::{LoopConfig, loop_setters, made};
pub(crate) use driven::Driven;
pub use figures::{LongestTask, LoopFigures, TaskKind};
pub(crate) use handle::LoopRef;
pub use handle::{EventLoop, QUIET_PERIOD, SHUTDOWN_TIMEOUT, Termination, WeakEventLoop};
pub use local_loop::{LocalLoop, ReservedPlace, SourceCaller, SourceTimer};
pub use manual::ManualLoop;
pub use moment::Moment;
pub(crate) use moment::tick_of;
pub use schedule::Scheduled;
pub(crate) use schedule::{Period, Waits};
pub(crate) use shared::Shared;
pub(crate) use shutdown::Patience;
pub use spawn::JoinHandle;
pub use tail::TailTask;
pub use waiting::WaitStrategy;
