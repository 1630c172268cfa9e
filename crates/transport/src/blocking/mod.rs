//! A thread for each channel.
//!
//! ```text
//!   accepted ──▶ ThreadPerChannel ── a loop that nobody uses, or a new one ──▶ EventLoop: one thread, one channel
//!                      ▲                                                          │ poll(2): the socket and the bell
//!                      └──────────── the channel has been removed ◀───────────────┘
//! ```
//! The same handlers, the same semantics of write, flush, timers, tasks and close as on any loop: only who shares a
//! thread differs, and what waits.
//!
//! | file | what it is |
//! | --- | --- |
//! | `per_channel` | [`ThreadPerChannel`]: hands loops out and takes them back |
//! | `driver` | the thread blocks in `poll(2)` |
//! | `levels` | what is asked about each descriptor, and what is news |

#[cfg(unix)]
mod driver;
#[cfg(not(unix))]
mod elsewhere;
#[cfg(unix)]
mod levels;
mod per_channel;

#[cfg(unix)]
pub use driver::BlockingSeed;
#[cfg(not(unix))]
pub use elsewhere::BlockingSeed;
#[cfg(unix)]
pub(crate) use levels::Levels;
pub(crate) use per_channel::Lease;
pub use per_channel::{ThreadError, ThreadFigures, ThreadPerChannel, ThreadPerChannelBuilder};
