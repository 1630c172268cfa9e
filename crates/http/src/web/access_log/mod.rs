//! One line for each request: who asked what, what came of it, and how long it took.
//!
//! ```text
//!   codec ── request ──▶ [ AccessLog ] ── request ──▶ …        notes method, target, time
//!   codec ◀── reply ──── [ AccessLog ] ◀── reply ──── …        counts bytes; at the end: one entry to the sink
//! ```
//! Always true:
//! 1. Each request that passes gives one entry, also if its connection ends first; and so does a head that the codec refuses,
//!    behind those of the requests before it.
//! 2. What a peer sent cannot break out of its place in a line: quotes, backslashes, control characters and everything beyond
//!    ASCII are escaped.
//!
//! Not here: files and their rotation. A sink is a function; it runs on the loop, so it hands on what takes long.

mod entry;
mod stage;
#[cfg(test)]
mod tests;

pub use entry::AccessEntry;
pub use stage::AccessLogStage;

use std::{fmt, sync::Arc};

/// A stage that tells a sink of every request when its reply is over. Everything passes untouched.
///
/// Right behind the codec it sees also what stages answer themselves, and counts bytes as they are sent.
///
/// ```
/// use netwright_http::web::AccessLog;
///
/// // One for all connections, a stage for each: pipeline().add(HttpServer::new()).add(log.stage()).…
/// let log = AccessLog::new(|entry| println!("{}", entry.combined()));
/// let stage = log.stage();
/// # let _ = stage;
/// ```
#[derive(Clone)]
pub struct AccessLog {
    sink: Arc<dyn Fn(&AccessEntry) + Send + Sync>,
}

impl AccessLog {
    /// Tells a function.
    pub fn new(sink: impl Fn(&AccessEntry) + Send + Sync + 'static) -> Self {
        Self { sink: Arc::new(sink) }
    }

    /// Tells `tracing`: an event at level info with the target `netwright::access`, and a field for each thing that is known.
    pub fn tracing() -> Self {
        Self::new(|entry| {
            tracing::info!(
                target: "netwright::access",
                peer = entry.peer.map(tracing::field::display),
                method = %entry.method,
                target = %entry.target,
                version = ?entry.version,
                status = entry.status.map(|status| status.as_u16()),
                request_bytes = entry.request_bytes,
                reply_bytes = entry.reply_bytes,
                latency_us = u64::try_from(entry.latency.as_micros()).unwrap_or(u64::MAX),
                complete = entry.complete,
                refused = entry.refused.as_ref().map(tracing::field::display),
            );
        })
    }

    /// A stage for one connection.
    pub fn stage(&self) -> AccessLogStage {
        AccessLogStage::new(self.clone())
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessLog")
    }
}
