//! Blocks of which all is in the tables, but perhaps the target of a request: most requests of a connection are like that from the
//! second one on.
//!
//! ```text
//!   82 87 │ 04 05 /path │ be bf c0      the same fields for each target, while the table is the same
//! ```

use super::decoder::read_text;
use bytes::Bytes;
use std::ops::Range;

/// What such a block is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Where the target lies, with the byte that says its length; empty: it is in a table too.
    pub(crate) target: Range<usize>,
}

impl Shape {
    /// That of a block; `None` if it is not like that.
    #[inline]
    pub(crate) fn of(block: &[u8]) -> Option<Self> {
        let (mut at, mut target) = (0, 0..0);
        while let Some(&byte) = block.get(at) {
            match byte {
                0x81..=0xfe => at += 1,
                // Said in full, and put into no table.
                0x04 | 0x05 if target.is_empty() => {
                    let len = usize::from(block.get(at + 1)? & 0x7f);
                    target = at + 1..at + 2 + len;
                    if len == 0x7f || target.end > block.len() {
                        return None;
                    }
                    at = target.end;
                }
                _ => return None,
            }
        }
        Some(Self { target })
    }

    /// The target, if there is one in the block and it is a good text.
    #[inline]
    pub(crate) fn read_target(&self, block: &[u8]) -> Option<Bytes> {
        read_text(&block[self.target.clone()]).ok()
    }
}
