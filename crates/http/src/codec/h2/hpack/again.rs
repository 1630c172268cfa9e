//! The block that was written last, for a list that is the same: most replies of a connection differ in their bodies alone.
//!
//! Always true: a block is written again only if all that it was made of is the same, byte by byte, and the encoder would do the
//! same again. It would if nothing was put into its table since, nor remembered to be put there the next time.

use http::{HeaderMap, HeaderName};

/// Lists of more fields are not kept.
const FIELDS_MAX: usize = 12;
/// Blocks that are longer are not kept.
const BLOCK_MAX: usize = 128;
/// Lists with more bytes of values are not kept.
const TEXT_MAX: usize = 512;

/// What is said beside headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beside<'a> {
    pub(crate) status: u16,
    pub(crate) length: Option<u64>,
    /// Not empty if a date is said.
    pub(crate) date: &'a [u8],
}

#[derive(Debug)]
pub(super) struct Again {
    /// Of the encoder.
    generation: u64,
    status: u16,
    length: Option<u64>,
    date: Vec<u8>,
    /// Names, and where their values end.
    fields: Vec<(HeaderName, usize)>,
    /// The values.
    text: Vec<u8>,
    block: Vec<u8>,
}

impl Again {
    pub(super) fn new() -> Self {
        let (date, fields, text, block) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { generation: 0, status: 0, length: None, date, fields, text, block }
    }

    /// Whether the block can be kept that was made of this.
    pub(super) fn takes(headers: &HeaderMap, block: &[u8]) -> bool {
        headers.len() <= FIELDS_MAX
            && block.len() <= BLOCK_MAX
            && headers.values().map(|value| value.len()).sum::<usize>() <= TEXT_MAX
            && !headers.values().any(|value| value.is_sensitive())
    }

    pub(super) fn keep(&mut self, generation: u64, beside: Beside<'_>, headers: &HeaderMap, block: &[u8]) {
        (self.generation, self.status, self.length) = (generation, beside.status, beside.length);
        self.date.clear();
        self.date.extend_from_slice(beside.date);
        self.fields.clear();
        self.text.clear();
        for (name, value) in headers {
            self.text.extend_from_slice(value.as_bytes());
            self.fields.push((name.clone(), self.text.len()));
        }
        self.block.clear();
        self.block.extend_from_slice(block);
    }

    /// The block that was made of this.
    #[inline]
    pub(super) fn find(&self, generation: u64, beside: Beside<'_>, headers: &HeaderMap) -> Option<&[u8]> {
        if generation != self.generation
            || beside.status != self.status
            || beside.length != self.length
            || headers.len() != self.fields.len()
            || *beside.date != *self.date
        {
            return None;
        }
        let mut from = 0;
        for ((name, value), (kept, end)) in headers.iter().zip(&self.fields) {
            // A secret is said otherwise than the same text that is none.
            if name != kept || *value.as_bytes() != self.text[from..*end] || value.is_sensitive() {
                return None;
            }
            from = *end;
        }
        Some(&self.block)
    }
}
