//! Content coding by negotiation: replies are compressed for those who accept it.
//!
//! ```text
//!   codec ── request ──▶ [ ReplyCompression ] ── request ──▶ application
//!         ◀── reply ───    head, pieces     ◀── reply ──────
//! ```
//! Always true:
//! 1. A reply that is compressed for some says `Vary: accept-encoding` to all.
//! 2. What is flushed can be read by the peer, compressed or not.

mod compress;

pub use compress::{Compression, ReplyCompression};

use super::Coding;
use netwright_codec::Format;

/// The format behind a coding.
fn format(coding: Coding) -> Option<Format> {
    match coding {
        Coding::Gzip => Some(Format::Gzip),
        Coding::Brotli => Some(Format::Brotli),
        Coding::Zstd => Some(Format::Zstd),
        Coding::Identity => None,
    }
}
