//! How much is offered to the system at once.

use super::outbound::GATHER_BYTES_MAX;

/// How many bytes to offer in one gathering write: as many as this connection has lately been able to take.
///
/// More only makes the system walk along slices that it will not send.
///
/// ```
/// use netwright_core::GatherCap;
///
/// let mut cap = GatherCap::for_send_buffer(64 * 1024);
/// let before = cap.get();
/// cap.record(before, before); // all of it was taken: next time it may be more
/// assert!(cap.get() >= before);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatherCap(usize);

impl GatherCap {
    /// Writes of up to this many bytes do not shrink it: they are cheap however little of them is sent.
    const SMALL: usize = 4096;

    /// To begin with, twice the socket's send buffer; no limit if that is not known (0).
    pub fn for_send_buffer(bytes: usize) -> Self {
        match bytes {
            0 => Self::default(),
            _ => Self(bytes.saturating_mul(2).min(GATHER_BYTES_MAX)),
        }
    }

    /// How many bytes to offer next.
    pub fn get(self) -> usize {
        self.0
    }

    /// Learns from a write that offered `attempted` bytes of which `written` were taken: all, then it may be twice as
    /// many next time; less than half, then half as many.
    pub fn record(&mut self, attempted: usize, written: usize) {
        if written >= attempted {
            self.0 = self.0.max(attempted.saturating_mul(2)).min(GATHER_BYTES_MAX);
        } else if attempted > Self::SMALL && written < attempted / 2 {
            self.0 = attempted / 2;
        }
    }
}

/// No limit but the system's.
impl Default for GatherCap {
    fn default() -> Self {
        Self(GATHER_BYTES_MAX)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_gather_cap_starts_at_twice_the_send_buffer() {
        assert_eq!(GatherCap::for_send_buffer(16 * 1024).get(), 32 * 1024);
        assert_eq!(GatherCap::for_send_buffer(0).get(), GATHER_BYTES_MAX, "not known");
        assert_eq!(GatherCap::for_send_buffer(usize::MAX).get(), GATHER_BYTES_MAX);
    }

    #[test]
    fn the_gather_cap_doubles_on_full_writes_and_halves_on_poor_ones() {
        let mut cap = GatherCap::for_send_buffer(8 * 1024);
        cap.record(16 * 1024, 16 * 1024);
        assert_eq!(cap.get(), 32 * 1024);
        cap.record(1000, 1000);
        assert_eq!(cap.get(), 32 * 1024, "a small write that fits says nothing");
        cap.record(32 * 1024, 16 * 1024);
        assert_eq!(cap.get(), 32 * 1024, "half is not poor");
        cap.record(32 * 1024, 16 * 1024 - 1);
        assert_eq!(cap.get(), 16 * 1024);
        cap.record(4096, 0);
        assert_eq!(cap.get(), 16 * 1024, "a small write that does not fit costs little");
        cap.record(4098, 1);
        assert_eq!(cap.get(), 2049);
        for _ in 0..100 {
            cap.record(cap.get(), cap.get());
        }
        assert_eq!(cap.get(), GATHER_BYTES_MAX);
    }
}
