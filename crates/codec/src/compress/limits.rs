//! How much a peer may make us unpack.

/// What a [`Decompressor`](super::Decompressor) puts up with. All limits are finite unless told otherwise.
///
/// | limit | default | what it bounds |
/// | --- | --- | --- |
/// | [`total`](Self::total) | 1 GiB | bytes that come out, over the whole life of the stream |
/// | [`ratio`](Self::ratio) | 1000 | bytes that come out for each byte that went in |
/// | [`grace`](Self::grace) | 1 MiB | bytes that may come out before the ratio counts |
/// | [`window`](Self::window) | 8 MiB | how far back a stream may refer, which is what has to be kept in memory |
///
/// A connection that lives for days and carries more than the total needs a larger one; the ratio stays its protection.
///
/// ```
/// use netwright_codec::DecompressLimits;
///
/// let uploads = DecompressLimits::default().total(100 << 20).ratio(50);
/// assert_eq!((uploads.total_max(), uploads.ratio_max()), (100 << 20, 50));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecompressLimits {
    total: u64,
    ratio: u64,
    grace: u64,
    window: u64,
}

impl DecompressLimits {
    /// Bytes that may come out in all. `u64::MAX` is no limit.
    pub const fn total(mut self, bytes: u64) -> Self {
        self.total = bytes;
        self
    }

    /// Bytes that may come out for each byte that went in. `u64::MAX` is no limit.
    ///
    /// Deflate reaches 1032 and LZ4 255 at most; the others know no bound.
    pub const fn ratio(mut self, ratio: u64) -> Self {
        self.ratio = ratio;
        self
    }

    /// Bytes that may come out before the ratio counts: short streams of nothing but zeros are no attack.
    pub const fn grace(mut self, bytes: u64) -> Self {
        self.grace = bytes;
        self
    }

    /// How many bytes back a stream may refer: what zstd and Brotli may keep as their window, LZ4 as a block. One byte more
    /// is refused. zstd's library keeps no more than 2 GiB (1 GiB where an address has 32 bits), whatever is allowed here.
    /// Deflate (32 KiB) and Snappy (64 KiB) have a window that nobody chooses, and are not held to this.
    pub const fn window(mut self, bytes: u64) -> Self {
        self.window = bytes;
        self
    }

    /// What [`total`](Self::total) is set to.
    pub const fn total_max(&self) -> u64 {
        self.total
    }

    /// What [`ratio`](Self::ratio) is set to.
    pub const fn ratio_max(&self) -> u64 {
        self.ratio
    }

    /// What [`grace`](Self::grace) is set to.
    pub const fn grace_max(&self) -> u64 {
        self.grace
    }

    /// What [`window`](Self::window) is set to.
    pub const fn window_max(&self) -> u64 {
        self.window
    }
}

impl Default for DecompressLimits {
    fn default() -> Self {
        Self {
            // A body or a file that is worth keeping in memory is smaller, and a disk is not full at once.
            total: 1 << 30,
            // Text gives 3 to 20, logs up to 100; what gives 1000 for longer than the grace is a bomb.
            ratio: 1000,
            grace: 1 << 20,
            // What RFC 9659 lets HTTP's zstd use, and twice what Brotli's library uses by default.
            window: 8 << 20,
        }
    }
}
