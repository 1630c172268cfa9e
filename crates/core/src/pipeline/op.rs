//! What travels from the application towards the wire.

use crate::channel::{CloseCause, WritePromise};

/// An outbound operation, waiting at the boundary between two stages.
#[doc(hidden)]
pub enum Op<W> {
    Write(W, WritePromise),
    Flush,
    Close(CloseCause, WritePromise),
    /// Send what is queued, then tell the peer that no more will come.
    ShutDownOutput(WritePromise),
}
