//! What happens to requests now and then, counted.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counts what went wrong with requests, on one connection or on all that share it. Clones are the same.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::{Ask, RequestFigures, Requests};
/// use bytes::{Bytes, BytesMut};
/// use std::time::Duration;
///
/// let figures = RequestFigures::default();
/// let requests = Requests::<Bytes, BytesMut>::in_order().deadline(Duration::from_secs(1)).counting(&figures);
/// let mut channel = EmbeddedChannel::of(pipeline().last(requests));
/// channel.write_outbound(Ask::new(Bytes::from("?")).0).advance(Duration::from_secs(1));
/// channel.write_inbound("!");
/// assert_eq!((figures.timed_out(), figures.late_replies()), (1, 1));
/// ```
#[derive(Debug, Clone, Default)]
pub struct RequestFigures {
    counts: Arc<[AtomicU64; 3]>,
}

impl RequestFigures {
    /// Requests whose deadline came first.
    pub fn timed_out(&self) -> u64 {
        self.counts[0].load(Ordering::Relaxed)
    }

    /// Replies that came when their request was given up: dropped.
    pub fn late_replies(&self) -> u64 {
        self.counts[1].load(Ordering::Relaxed)
    }

    /// Requests that were refused, because too many waited or their id was in use.
    pub fn refused(&self) -> u64 {
        self.counts[2].load(Ordering::Relaxed)
    }

    pub(super) fn count_timed_out(&self) {
        self.counts[0].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_late(&self) {
        self.counts[1].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_refused(&self) {
        self.counts[2].fetch_add(1, Ordering::Relaxed);
    }
}
