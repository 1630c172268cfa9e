//! The compression of fields (RFC 7541): a block of bytes to fields and back, with tables that both sides keep in step.
//!
//! ```text
//!   0x82 0x41 …   ──▶ [ Decoder ] ──▶ Field, Field …        ──▶ heads
//!   0x88 0xbe …   ◀── [ Encoder ] ◀── name, value …         ◀── heads
//!
//!   index   1 … 61  fixed            62 …  what was said before on this connection, the last first
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `decoder`, `scratch` | [`Decoder`]: blocks to fields; where values lie that are not kept |
//! | `encoder`, `said`, `policy` | [`Encoder`]: fields to blocks; what it has said; what it says so that it can refer to it |
//! | `shape` | blocks of which all is in the tables, but perhaps a target |
//! | `again` | the block that was written last, for a list that is the same |
//! | `fixed`, `table` | the tables behind indices |
//! | `huffman`, `integer` | texts and numbers |
//!
//! Always true: whatever a block says, the tables of both sides are the same behind it, or the connection ends.

mod again;
mod decoder;
mod encoder;
mod fixed;
mod huffman;
mod integer;
mod policy;
mod said;
mod scratch;
mod shape;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use again::Beside;
pub(crate) use decoder::{Decoder, HeadLimits};
pub(crate) use encoder::Encoder;
pub(crate) use shape::Shape;

use std::fmt;

/// The size that tables have when nobody has said anything, and the largest that ours have.
pub(crate) const TABLE_MAX: usize = 4096;

/// A block that cannot be decoded: the connection ends (COMPRESSION_ERROR), because nobody knows what is in the table behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HpackError {
    /// The block ends in the middle of a field.
    CutOff,
    /// A number that is too large, or has more bytes than it needs by far.
    Number,
    /// An index behind the end of the tables, or 0.
    Index,
    /// A text that is not of the code, or not ended as it has to be.
    Huffman,
    /// A change of the size of the table behind a field, or to more than was allowed.
    TableSize,
    /// The table had to become smaller, and the block did not say so.
    NoTableSize,
}

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CutOff => "a block of fields ends within a field",
            Self::Number => "a number in a block of fields is too large",
            Self::Index => "a field refers to one that is in no table",
            Self::Huffman => "a text in a block of fields is not of the Huffman code",
            Self::TableSize => {
                "the size of the table of fields is changed where it cannot be, or to more than is allowed"
            }
            Self::NoTableSize => "the table of fields had to become smaller, and was not said to",
        })
    }
}

impl std::error::Error for HpackError {}
