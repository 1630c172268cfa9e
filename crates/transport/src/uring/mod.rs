//! Completion: io_uring. A loop hands the kernel what it wants done, and reaps what was done, with one system call a turn.
//!
//! ```text
//!   source ── Uring: receive, send, accept, connect, watch ──▶ slot ──▶ submission queue ─┐
//!                                                               ▲                          ▼ one io_uring_enter a turn
//!   source ◀── Event by token ── told ◀── inbox, result ── slot ◀── completion queue ◀── the kernel
//!                                                                                          ▲
//!                        buffers: BytesMut of the loop ── provided by the ring of buffers ─┘
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `ring.rs` | the queues shared with the kernel, and the call that enters it |
//! | `buffers.rs` | what the kernel may write into, and how it comes back |
//! | `memory.rs` | what the kernel reads from while a send is under way |
//! | `slot.rs` | one registration: what flies for it, what has arrived |
//! | `engine/` | starts operations, reaps completions, closes, drains |
//! | `extension.rs` | [`Uring`]: what sources call |
//! | `driver.rs` | [`UringSeed`] and the driver of a loop |
//! | `stream.rs`, `listener.rs`, `connect.rs` | channels, listeners and connects on it |
//! | `files.rs` | operations of [`files`](crate::files) on it, and the source that tells how they ended |
//!
//! # The rules that every `unsafe` block here argues from
//! 1. **What the kernel reads is held.** Memory whose address is in an operation (bytes, gathering lists, socket addresses)
//!    is owned by the operation's slot, or by the tables of sends and of file operations under way, from before the operation is
//!    queued until its last completion is reaped. It lies on the heap, so moving its owner does not move it.
//! 2. **What the kernel writes is out of reach.** The kernel writes only into buffers of [`buffers`], and into the room of the
//!    buffer that a read of a file owns in the table of file operations. Between handing one to the kernel and reaping the
//!    completion that names it, nothing reads, writes or references its room.
//! 3. **Names are not reused early.** A completion names index, generation and kind. A slot gets another owner only when
//!    nothing flies for it any more, and then with another generation.
//! 4. **The end waits.** A ring is given up only after everything in flight was cancelled and reaped. What the kernel does not give
//!    back in time is leaked and reported, never freed.
//! 5. **Descriptors outlive what names them.** A slot owns its descriptor, and closes it when nothing flies for it or by an
//!    operation queued behind all others. So nothing queued can name a number that means another descriptor by then. An operation
//!    on a file holds the file, which is closed by an operation of its own when no other one holds it.
//! 6. **One thread.** Everything but the seed and the waker stays on the loop's thread; only that thread enters the ring.
//!
//! Not here: the loop, pipelines (`netwright-core`), readiness ([`readiness`](crate::readiness)).

mod buffers;
mod connect;
mod driver;
mod engine;
mod error;
mod extension;
mod figures;
mod files;
mod listener;
mod memory;
mod ring;
mod settings;
mod slot;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use connect::{Target, connect};
pub use driver::UringSeed;
pub use error::UringError;
pub use extension::Uring;
pub use figures::UringFigures;
pub(crate) use files::start_on_ring;
pub(crate) use listener::UringListener;
pub use settings::UringSettings;
pub(crate) use stream::UringStream;
