//! What a capture has done, counted by all its channels.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a [`Capture`](super::Capture) has done so far.
///
/// ```
/// use netwright_handler::Capture;
///
/// let figures = Capture::ring(64 * 1024)?.figures();
/// assert_eq!((figures.channels, figures.packets, figures.lost_packets), (0, 0, 0));
/// # Ok::<(), netwright_handler::CaptureError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaptureFigures {
    /// Channels that were captured, also those that have ended.
    pub channels: u64,
    /// Packets that are in the capture, or on their way to its file.
    pub packets: u64,
    /// The bytes that these take there.
    pub bytes: u64,
    /// Packets that are not: the file has reached its bound, the disk is full or too slow, or newer ones have taken their room in a ring.
    pub lost_packets: u64,
    /// The bytes that those would have taken.
    pub lost_bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    channels: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
    lost_packets: AtomicU64,
    lost_bytes: AtomicU64,
}

impl Counts {
    /// One more channel: tells its number.
    pub(super) fn channel(&self) -> u64 {
        self.channels.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn accept(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn lose(&self, packets: u64, bytes: u64) {
        self.lost_packets.fetch_add(packets, Ordering::Relaxed);
        self.lost_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What was accepted is lost after all.
    pub(super) fn take_back(&self, packets: u64, bytes: u64) {
        self.packets.fetch_sub(packets, Ordering::Relaxed);
        let less = |known: u64| Some(known.saturating_sub(bytes)); // the first blocks are in no figure
        _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.lose(packets, bytes);
    }

    /// Packets that are there, and packets that are lost.
    pub(super) fn seen(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.lost_packets.load(Ordering::Relaxed))
    }

    pub(super) fn figures(&self) -> CaptureFigures {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        CaptureFigures {
            channels: of(&self.channels),
            packets: of(&self.packets),
            bytes: of(&self.bytes),
            lost_packets: of(&self.lost_packets),
            lost_bytes: of(&self.lost_bytes),
        }
    }
}
