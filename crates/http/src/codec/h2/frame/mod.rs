//! Frames: bytes to frames and back, and what is wrong with one that can be seen in it alone (RFC 9113, sections 4 and 6).
//!
//! ```text
//!   +------------+--------+---------+---+--------------------+
//!   | length: 24 | kind 8 | flags 8 | 0 | stream: 31         |  9 bytes, then `length` bytes of payload
//!   +------------+--------+---------+---+--------------------+
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `decode` | [`FrameDecoder`]: bytes to frames |
//! | `encode` | frames to bytes |
//! | `settings` | [`Settings`], checked |
//! | `fault` | what can be wrong with a frame: [`FrameError`] |
//!
//! Not here: whether a frame is allowed now (connection, streams), windows, what blocks of fields say (`hpack`, `head`).

mod decode;
pub(crate) mod encode;
mod fault;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use decode::FrameDecoder;
pub(crate) use fault::{FrameError, FrameFault};
pub(crate) use settings::Settings;

use super::code::ErrorCode;
use bytes::Bytes;

/// Bytes of the head of a frame.
pub(crate) const HEAD_LEN: usize = 9;
/// What a peer may send that was told nothing else: the least that a limit can be set to.
pub(crate) const MAX_FRAME_DEFAULT: usize = 16 * 1024;
/// Windows cannot be larger.
pub(crate) const WINDOW_MAX: u32 = (1 << 31) - 1;
/// What a client sends before its first frame.
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a frame is.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
    /// RFC 9218.
    pub(crate) const PRIORITY_UPDATE: u8 = 16;
}

pub(crate) mod flag {
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// A frame that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A piece of a DATA frame: as much of one as is there.
    Data {
        stream: u32,
        data: Bytes,
        /// With the last piece, what was put beside the data: the padding and the byte that says its length. Windows count it.
        padding: usize,
        /// The last piece of the last frame of its stream.
        end: bool,
        /// With the first piece of a frame, the length of its payload, which is what windows count.
        begins: Option<usize>,
    },
    Headers {
        stream: u32,
        block: Bytes,
        end_headers: bool,
        end_stream: bool,
    },
    /// What [`Frame::Headers`] of the same stream began goes on. Nothing else comes between.
    Continuation {
        stream: u32,
        block: Bytes,
        end_headers: bool,
    },
    /// Priorities of the old kind, which nobody follows.
    Priority {
        stream: u32,
    },
    Reset {
        stream: u32,
        code: ErrorCode,
    },
    Settings(Settings),
    SettingsAck,
    /// A push, which nobody here asks for: its payload is thrown away, so that nothing can be decoded behind it.
    Push {
        stream: u32,
    },
    Ping {
        ack: bool,
        data: [u8; 8],
    },
    GoAway {
        last: u32,
        code: ErrorCode,
        debug: Bytes,
    },
    /// `by` is not zero.
    WindowUpdate {
        stream: u32,
        by: u32,
    },
    /// Priorities of RFC 9218, for a stream.
    PriorityUpdate {
        stream: u32,
        value: Bytes,
    },
    /// A frame of a kind that we do not know. Its payload is thrown away as it comes.
    Unknown {
        kind: u8,
        len: usize,
    },
}
