//! Content coding by negotiation: replies are compressed for those who accept it, requests of those who did are unpacked.
//!
//! ```text
//!   codec ── request ──▶ [ RequestDecompression ] ──▶ [ ReplyCompression ] ── request ──▶ application
//!         ◀── reply ───        (untouched)        ◀──   head, pieces     ◀── reply ──────
//! ```
//! | file | what it is |
//! | --- | --- |
//! | `compress` | [`ReplyCompression`], which replies are compressed; [`ReplyCompressionStage`], the stage |
//! | `decompress` | [`RequestDecompression`], the stage |
//!
//! Always true:
//! 1. A reply that is compressed for some says `Vary: accept-encoding` to all.
//! 2. What is flushed can be read by the peer, compressed or not.
//! 3. What a request unpacks to is bounded, in all and by ratio, and made a piece at a time.

mod compress;
mod decompress;

pub use compress::{ReplyCompression, ReplyCompressionStage};
pub use decompress::RequestDecompression;

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
