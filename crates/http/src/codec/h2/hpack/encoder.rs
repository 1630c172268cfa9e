//! Fields to blocks.
//!
//! Always true:
//! 1. The table is at most what the peer allows and at most [`TABLE_MAX`], and a change is said in the next block.
//! 2. Secrets are said as such, and are not in the table.
//! 3. What is in the table is in memory of its own.
//!
//! Not here: which fields a head has, and how blocks are cut in frames.

use super::{
    TABLE_MAX,
    again::{Again, Beside},
    fixed, huffman, integer,
    policy::{self, Once, Policy},
    said::{Key, Said, Sums},
};
use crate::{codec::h2::field::Pseudo, grammar::trim};
use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Encodes the blocks of a connection, one after the other.
#[derive(Debug)]
pub(crate) struct Encoder {
    said: Said,
    once: Once,
    /// The smallest size that the table has had, and the one that it has now, until a block says so.
    sizes: Option<(usize, usize)>,
    /// Grows when the table changes, or what is remembered to be put there: while it is the same, so are blocks.
    generation: u64,
    again: Option<Box<Again>>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { said: Said::new(TABLE_MAX), once: Once::default(), sizes: None, generation: 0, again: None }
    }
}

impl Encoder {
    /// The peer allows the table to have so many bytes. If it said several sizes, each is to be given in turn, or the least and
    /// then the last of them.
    pub(crate) fn set_max(&mut self, max: usize) {
        let max = max.min(TABLE_MAX);
        if max == self.said.max() {
            return;
        }
        let least = self.sizes.map_or(max, |(least, _)| least.min(max));
        self.sizes = Some((least, max));
        self.said.set_max(max);
        self.generation += 1;
    }

    /// The block of the list that was written last, if this is the same.
    #[inline]
    pub(crate) fn find_again(&self, beside: Beside<'_>, headers: &HeaderMap) -> Option<&[u8]> {
        self.again.as_ref()?.find(self.generation, beside, headers)
    }

    /// Grows with whatever changes what is written.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// A block was made of this list, without secrets; before it, the encoder was of this generation.
    pub(crate) fn keep_again(
        &mut self,
        generation: u64,
        beside: Beside<'_>,
        headers: &HeaderMap,
        block: &[u8],
    ) {
        if generation == self.generation && Again::takes(headers, block) {
            self.again.get_or_insert_with(|| Box::new(Again::new())).keep(generation, beside, headers, block);
        }
    }

    /// Begins a block.
    #[inline]
    pub(crate) fn begin(&mut self, out: &mut BytesMut) {
        if let Some((least, now)) = self.sizes.take() {
            self.generation += 1;
            if least < now {
                integer::put(out, 0x20, 5, least);
            }
            integer::put(out, 0x20, 5, now);
        }
    }

    /// Appends a pseudo-field.
    #[inline]
    pub(crate) fn pseudo(&mut self, out: &mut BytesMut, pseudo: Pseudo, value: &[u8]) {
        match fixed::index_of_pseudo_field(pseudo, value) {
            Some(index) => integer::put(out, 0x80, 7, index),
            None => self.field(out, Key::Pseudo(pseudo), value),
        }
    }

    /// Appends a header, without blanks around its value, which may not be there (RFC 9113, section 8.2.1).
    #[inline]
    pub(crate) fn header(&mut self, out: &mut BytesMut, name: &HeaderName, value: &HeaderValue) {
        let key = Key::Header(name);
        if policy::is_secret(name, value) {
            let sums = Sums::of(key, b"");
            self.literal(out, 0x10, 4, sums, key, trim(value.as_bytes()));
        } else {
            self.field(out, key, trim(value.as_bytes()));
        }
    }

    /// Appends a header whose value is no secret.
    #[inline]
    pub(crate) fn plain(&mut self, out: &mut BytesMut, name: &HeaderName, value: &[u8]) {
        self.field(out, Key::Header(name), value);
    }

    #[inline]
    fn field(&mut self, out: &mut BytesMut, key: Key<'_>, value: &[u8]) {
        let sums = Sums::of(key, value);
        match self.said.find(sums, key, value) {
            Some(newer) => integer::put(out, 0x80, 7, 1 + fixed::LEN + newer),
            None => self.say(out, sums, key, value),
        }
    }

    /// Appends a field that is not in the table.
    fn say(&mut self, out: &mut BytesMut, sums: Sums, key: Key<'_>, value: &[u8]) {
        // What takes half of the table drives out more than it saves.
        let fits = key.text().len() + value.len() <= self.said.max() / 2;
        let put = fits
            && match policy::of(key) {
                Policy::AtOnce => true,
                Policy::SecondTime => self.once.was_said(sums),
            };
        if fits {
            self.generation += 1;
        }
        if put {
            self.literal(out, 0x40, 6, sums, key, value);
            self.said.insert(sums, key, value);
        } else {
            self.literal(out, 0, 4, sums, key, value);
        }
    }

    /// Appends a field in full, but for a name that is in a table.
    fn literal(&self, out: &mut BytesMut, kind: u8, bits: u32, sums: Sums, key: Key<'_>, value: &[u8]) {
        let known = match key {
            Key::Pseudo(pseudo) => fixed::index_of_pseudo(pseudo),
            Key::Header(name) => fixed::index_of_name(name.as_str()),
        };
        let known = known.or_else(|| Some(1 + fixed::LEN + self.said.find_name(sums, key)?));
        match known {
            Some(index) => integer::put(out, kind, bits, index),
            None => {
                out.put_u8(kind);
                text(out, key.text().as_bytes());
            }
        }
        text(out, value);
    }
}

/// Appends a text, in the code if that is shorter.
fn text(out: &mut BytesMut, text: &[u8]) {
    let coded = huffman::encoded_len(text);
    if coded < text.len() {
        integer::put(out, 0x80, 7, coded);
        huffman::encode(text, out);
    } else {
        integer::put(out, 0, 7, text.len());
        out.extend_from_slice(text);
    }
}
