//! Compression of messages: permessage-deflate (RFC 7692).
//!
//! ```text
//!   offer / reply headers ──▶ negotiate ──▶ Agreed ──▶ inflate: pieces of a message in, its bytes out
//!                                                  └─▶ engine:  a message in, its compressed bytes out
//! ```
//! Always true:
//! 1. A connection whose directions do not carry their context over from message to message holds no compressor and no
//!    decompressor between messages: these take up to 300 KiB and 45 KiB, and are lent by the thread.
//! 2. What a message becomes is bounded by the largest message and by a ratio, while it is made.
//!
//! Windows of 9 to 15 bits are compressed with. 8 is agreed to as well, but zlib cannot compress with it: messages to
//! such a peer are not compressed, which the extension allows for every message.

mod deflater;
mod inflater;
mod negotiate;

pub(crate) use deflater::Deflater;
pub(crate) use inflater::Inflater;
pub use negotiate::{BadExtension, accept, check, offer};

/// Messages below this many bytes are not compressed: a few bytes are gained, a hash table is filled.
pub const COMPRESS_MIN: usize = 256;
/// Bytes that may come of one compressed byte: what deflate itself can reach, four codes of two bits for 258 bytes each. So
/// no message is refused because it repeats itself; the largest message is the limit then.
pub const RATIO_MAX: u64 = 1032;
/// Bytes that a message may become before the ratio counts.
pub const RATIO_GRACE: u64 = 1024 * 1024;
/// What zlib itself takes when nothing is said.
pub const LEVEL: u32 = 6;

/// How long the compressed form of so many bytes may be: nine bits for a byte, which is what the longest codes of those who do
/// not look for better ones take, and some for the heads of blocks, however short these are.
pub(crate) fn compressed_max(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 8).saturating_add(bytes / 64).saturating_add(64)
}

/// The largest window of the format: 32 KiB.
const WINDOW_BITS_MAX: u8 = 15;
/// The smallest that the extension knows.
const WINDOW_BITS_MIN: u8 = 8;

/// Whether and how messages are compressed; what is offered and what is agreed to.
///
/// By default no context is carried over from one message to the next, in either direction. Similar short messages compress
/// much better [with it](Self::takeover), at the price of up to 300 KiB for each connection.
///
/// ```
/// use netwright_websocket::{Config, Deflate};
///
/// let config = Config::default().deflate(Deflate::default().takeover(true).window_bits(12).min(64));
/// # drop(config);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deflate {
    level: u32,
    min: usize,
    ratio: u64,
    grace: u64,
    server_takeover: bool,
    client_takeover: bool,
    window_bits: u8,
}

impl Default for Deflate {
    fn default() -> Self {
        Self {
            level: LEVEL,
            min: COMPRESS_MIN,
            ratio: RATIO_MAX,
            grace: RATIO_GRACE,
            server_takeover: false,
            client_takeover: false,
            window_bits: WINDOW_BITS_MAX,
        }
    }
}

impl Deflate {
    /// From 1, the fastest, to 9, the smallest. Default: [`LEVEL`].
    pub fn level(mut self, level: u32) -> Self {
        self.level = level.clamp(1, 9);
        self
    }

    /// Messages below this many bytes are not compressed. Default: [`COMPRESS_MIN`].
    pub fn min(mut self, bytes: usize) -> Self {
        self.min = bytes;
        self
    }

    /// How many bytes may come of one compressed byte, once a message has made `grace` bytes. Default: [`RATIO_MAX`] and
    /// [`RATIO_GRACE`]. The largest message is limited in any case.
    pub fn ratio(mut self, ratio: u64, grace: u64) -> Self {
        (self.ratio, self.grace) = (ratio, grace);
        self
    }

    /// Whether both directions may carry their context over from message to message, if the peer agrees. Default: no.
    pub fn takeover(self, allowed: bool) -> Self {
        self.server_takeover(allowed).client_takeover(allowed)
    }

    /// Whether what servers send may.
    pub fn server_takeover(mut self, allowed: bool) -> Self {
        self.server_takeover = allowed;
        self
    }

    /// Whether what clients send may.
    pub fn client_takeover(mut self, allowed: bool) -> Self {
        self.client_takeover = allowed;
        self
    }

    /// How far back both sides may refer, as a power of two: from 9 to 15. Smaller windows take less memory. Default: 15.
    pub fn window_bits(mut self, bits: u8) -> Self {
        self.window_bits = bits.clamp(9, WINDOW_BITS_MAX);
        self
    }

    pub(crate) fn min_len(&self) -> usize {
        self.min
    }

    pub(crate) fn compression(&self) -> flate2::Compression {
        flate2::Compression::new(self.level)
    }
}

/// What both sides have agreed to.
///
/// ```
/// use netwright_websocket::Agreed;
///
/// let agreed = Agreed::default();
/// assert_eq!(agreed.server_max_window_bits, 15);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Agreed {
    /// Each message of the server stands for itself.
    pub server_no_context_takeover: bool,
    /// Each message of the client stands for itself.
    pub client_no_context_takeover: bool,
    /// How far back the server refers, as a power of two.
    pub server_max_window_bits: u8,
    /// How far back the client refers, as a power of two.
    pub client_max_window_bits: u8,
}

impl Default for Agreed {
    /// What the bare name of the extension means.
    fn default() -> Self {
        Self {
            server_no_context_takeover: false,
            client_no_context_takeover: false,
            server_max_window_bits: WINDOW_BITS_MAX,
            client_max_window_bits: WINDOW_BITS_MAX,
        }
    }
}

impl Agreed {
    /// Of the direction that a role sends: whether it carries its context over, and its window.
    pub(crate) fn direction(&self, of: crate::frame::Role) -> (bool, u8) {
        match of {
            crate::frame::Role::Server => (!self.server_no_context_takeover, self.server_max_window_bits),
            crate::frame::Role::Client => (!self.client_no_context_takeover, self.client_max_window_bits),
        }
    }
}
