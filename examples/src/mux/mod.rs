//! A toy protocol with many conversations in one connection: what HTTP/2 does, without HTTP.
//!
//! ```text
//!                                    ┌─▶ stream 1: a pipeline of its own, in and out of bytes
//!   connection ── frames ── [ Mux ] ═╪═▶ stream 3
//!                                    └─▶ stream 2: opened by the server
//!
//!   0        2        3              7                7 + length
//!   [ length ][ kind  ][ stream id   ][ length bytes  ]
//!     kind 0  DATA     bytes of a stream; the first frame of a new number opens it
//!     kind 1  END      no more will come from this side
//!     kind 2  CREDIT   4 bytes: so many bytes more may be sent on the stream
//!     kind 3  RESET    4 bytes: the stream is broken off, with a code
//! ```
//! Each stream is a child of the connection's channel ([`Children`](netwright::channel::Children)). What its pipeline has not asked for waits in the
//! child, and its credit with it: a stream that nobody reads holds up itself alone. What it writes waits in the child as well,
//! until the connection has room, the peer has given credit and it is its turn: one frame each.
//!
//! | file | what it is |
//! | --- | --- |
//! | `frame` | frames to bytes and back |
//! | `stage` | [`Mux`], the stage of a connection |
//! | `stream` | what it knows of one stream |
//! | `error` | [`MuxError`], everything that a peer can do wrong; [`OpenError`] |

mod error;
mod frame;
mod stage;
mod stream;

pub use error::{MuxError, OpenError};
pub use frame::{Frame, HEAD, Kind};
pub use stage::{Mux, Open};

/// How much a peer may have of us. Both sides have to agree on `credit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MuxLimits {
    /// The longest payload of a frame: 16 KiB.
    pub frame: usize,
    /// Streams that are open at a time: 100.
    pub streams: usize,
    /// Bytes that may be sent on a stream before any of them was read: 64 KiB.
    pub credit: usize,
}

impl Default for MuxLimits {
    fn default() -> Self {
        Self { frame: 16 * 1024, streams: 100, credit: 64 * 1024 }
    }
}

/// Codes of a reset.
pub mod code {
    /// Everything was said, and the rest need not come.
    pub const NO_ERROR: u32 = 0;
    /// Nobody needs the stream any more.
    pub const CANCEL: u32 = 1;
    /// What answers it has failed.
    pub const INTERNAL: u32 = 2;
    /// There are too many streams.
    pub const REFUSED: u32 = 3;
}

#[cfg(test)]
mod tests;
