//! Blocks to fields.
//!
//! ```text
//!   1xxxxxxx  a field of the tables            001xxxxx  the table's size, before all fields
//!   01xxxxxx  a field, put into the table      000nxxxx  a field, not put into the table; n: a secret
//! ```
//! Always true:
//! 1. A block is decoded to its end, also when its list passes the limits: then nothing more is told, and the table is kept in
//!    step. What that costs is bounded by the block.
//! 2. What goes into the table is in memory of its own, so that no other is held by it.
//! 3. Secrets are marked as such, and never in the table.
//!
//! Not here: how blocks are put together from frames, and what makes a list of fields a head.

use super::{HpackError, TABLE_MAX, fixed, huffman, integer, scratch, table::Table};
use crate::{
    codec::h2::field::{Field, Line, Name, Pseudo},
    error::{HttpError, Limit},
    limits::HttpLimits,
};
use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue};

/// What a list of fields may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadLimits {
    /// Bytes of all names and values, and 32 for each field.
    pub(crate) size: usize,
    /// Fields, pseudo-fields included.
    pub(crate) fields: usize,
}

impl From<&HttpLimits> for HeadLimits {
    fn from(limits: &HttpLimits) -> Self {
        Self { size: limits.head, fields: limits.headers }
    }
}

/// What came of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// All fields were told.
    Whole,
    /// Only those before one that passed a limit were.
    TooLarge {
        what: Limit,
        max: usize,
        /// All that came.
        got: usize,
    },
}

impl Decoded {
    /// The error that says it.
    pub(crate) fn result(self) -> Result<(), HttpError> {
        match self {
            Self::Whole => Ok(()),
            Self::TooLarge { what: limit, max, got } => {
                Err(HttpError::TooMuch { limit, max: max as u64, got: got as u64 })
            }
        }
    }
}

/// Decodes the blocks of a connection, one after the other.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: Table,
    /// What we allowed the table to be.
    max: usize,
    /// We allowed less than the table has, so the next block has to make it smaller.
    must_shrink: bool,
    /// What the fields of the last block count for.
    list_size: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { table: Table::new(TABLE_MAX), max: TABLE_MAX, must_shrink: false, list_size: 0 }
    }
}

impl Decoder {
    /// The peer knows that the table may have so many bytes: it has acknowledged our settings.
    pub(crate) fn set_max(&mut self, max: usize) {
        self.max = max;
        self.must_shrink = self.table.max() > max;
    }

    /// Grows with each change of the table: a block of indices says the same while it is the same.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.table.generation()
    }

    /// What the fields of the last block count for, together.
    pub(crate) fn list_size(&self) -> usize {
        self.list_size
    }

    /// Whether the next block has to begin with a change of the table's size.
    pub(crate) fn must_shrink(&self) -> bool {
        self.must_shrink
    }

    /// Tells the fields of a whole block.
    ///
    /// # Errors
    /// The block is none: the connection has to end.
    #[inline]
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        limits: HeadLimits,
        mut sink: impl FnMut(&Field),
    ) -> Result<Decoded, HpackError> {
        let mut bytes = block;
        while let Some(&first) = bytes.first()
            && first & 0xe0 == 0x20
        {
            self.change_size(&mut bytes)?;
        }
        if self.must_shrink {
            return Err(HpackError::NoTableSize);
        }
        let mut list = List { limits, size: 0, fields: 0, passed: None };
        while let Some(&first) = bytes.first() {
            if first & 0x80 != 0 {
                let index = integer::take(&mut bytes, 7)?;
                let field = self.field(index)?;
                if list.takes(field) {
                    sink(field);
                }
            } else if first & 0x40 != 0 {
                let name = self.literal_name(&mut bytes, 6)?;
                let field = name.kept(Text::take(&mut bytes)?)?;
                if list.takes(&field) {
                    sink(&field);
                }
                self.table.insert(field);
            } else if first & 0x20 != 0 {
                return Err(HpackError::TableSize);
            } else {
                let name = self.literal_name(&mut bytes, 4)?;
                let field = name.passing(Text::take(&mut bytes)?, first & 0x10 != 0)?;
                if list.takes(&field) {
                    sink(&field);
                }
            }
        }
        self.list_size = list.size;
        Ok(list.decoded())
    }

    /// Keeps the table in step over a block that nobody wants any more.
    pub(crate) fn skip(&mut self, block: &[u8]) -> Result<(), HpackError> {
        self.decode(block, HeadLimits { size: 0, fields: 0 }, |_| ()).map(drop)
    }

    #[cold]
    fn change_size(&mut self, bytes: &mut &[u8]) -> Result<(), HpackError> {
        let size = integer::take(bytes, 5)?;
        if size > self.max {
            return Err(HpackError::TableSize);
        }
        self.table.set_max(size);
        self.must_shrink = false;
        Ok(())
    }

    #[inline]
    fn field(&self, index: usize) -> Result<&Field, HpackError> {
        match index.checked_sub(1 + fixed::LEN) {
            None => fixed::FIELDS.get(index.wrapping_sub(1)),
            Some(place) => self.table.get(place),
        }
        .ok_or(HpackError::Index)
    }

    /// The name of a field that is not in a table.
    fn literal_name(&self, bytes: &mut &[u8], bits: u32) -> Result<NameOf, HpackError> {
        let index = integer::take(bytes, bits)?;
        if index > 0 {
            let field = self.field(index)?;
            return Ok(NameOf { name: field.name(), len: field.name_len });
        }
        let of = |name: &[u8]| {
            let known = match name {
                [b':', ..] => Pseudo::of(name).map(Name::Pseudo),
                _ => HeaderName::from_lowercase(name).ok().map(Name::Header),
            };
            NameOf { name: known.unwrap_or(Name::Bad), len: name.len() as u32 }
        };
        let text = Text::take(bytes)?;
        if text.coded { scratch::show(text.room(), |out| text.write(out), of) } else { Ok(of(text.bytes)) }
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &Table {
        &self.table
    }
}

/// A name, and how long it is, also if it is none.
struct NameOf {
    name: Name,
    len: u32,
}

impl NameOf {
    /// The field that is made of this name and a value, for the table.
    fn kept(self, value: Text<'_>) -> Result<Field, HpackError> {
        let value = if value.coded {
            scratch::show(value.room(), |out| value.write(out), Bytes::copy_from_slice)?
        } else {
            Bytes::copy_from_slice(value.bytes)
        };
        Ok(self.field(value, false))
    }

    /// The field that is made of this name and a value, for one head.
    fn passing(self, value: Text<'_>, secret: bool) -> Result<Field, HpackError> {
        let value = scratch::keep(value.room(), |out| value.write(out))?;
        Ok(self.field(value, secret))
    }

    fn field(self, value: Bytes, secret: bool) -> Field {
        let size = self.len + value.len() as u32;
        let line = match self.name {
            Name::Pseudo(pseudo) => Line::Pseudo(pseudo, value),
            Name::Header(name) => match HeaderValue::from_maybe_shared(value) {
                Ok(mut value) => {
                    value.set_sensitive(secret);
                    Line::Header(name, value)
                }
                Err(_) => Line::BadValue(name),
            },
            Name::Bad => Line::BadName,
        };
        Field { line, name_len: self.len, size }
    }
}

/// A text of a block.
#[derive(Clone, Copy)]
struct Text<'a> {
    bytes: &'a [u8],
    coded: bool,
}

impl<'a> Text<'a> {
    fn take(bytes: &mut &'a [u8]) -> Result<Self, HpackError> {
        let coded = bytes.first().is_some_and(|first| first & 0x80 != 0);
        let len = integer::take(bytes, 7)?;
        let (text, rest) = bytes.split_at_checked(len).ok_or(HpackError::CutOff)?;
        *bytes = rest;
        Ok(Self { bytes: text, coded })
    }

    /// Bytes that it is at most.
    fn room(self) -> usize {
        if self.coded { huffman::decoded_len_max(self.bytes.len()) } else { self.bytes.len() }
    }

    fn write(self, out: &mut BytesMut) -> Result<(), HpackError> {
        if self.coded {
            huffman::decode(self.bytes, out)
        } else {
            out.extend_from_slice(self.bytes);
            Ok(())
        }
    }
}

/// What a text of a block says.
pub(super) fn read_text(mut bytes: &[u8]) -> Result<Bytes, HpackError> {
    let text = Text::take(&mut bytes)?;
    scratch::keep(text.room(), |out| text.write(out))
}

/// The list so far, and whether it has passed a limit.
struct List {
    limits: HeadLimits,
    size: usize,
    fields: usize,
    passed: Option<Limit>,
}

impl List {
    /// Counts a field. Whether it is to be told.
    #[inline]
    fn takes(&mut self, field: &Field) -> bool {
        self.size += field.weight();
        self.fields += 1;
        if self.size <= self.limits.size && self.fields <= self.limits.fields {
            return true;
        }
        self.passed.get_or_insert(if self.size > self.limits.size { Limit::Head } else { Limit::Headers });
        false
    }

    fn decoded(self) -> Decoded {
        match self.passed {
            None => Decoded::Whole,
            Some(what @ Limit::Head) => Decoded::TooLarge { what, max: self.limits.size, got: self.size },
            Some(what) => Decoded::TooLarge { what, max: self.limits.fields, got: self.fields },
        }
    }
}
