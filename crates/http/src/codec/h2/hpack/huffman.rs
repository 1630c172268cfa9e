//! The code for texts (RFC 7541, appendix B): frequent bytes are short.
//!
//! ```text
//!   code lengths ──▶ codes: of the same length in order, each length behind the one before   (the code is canonical)
//!                ├─▶ CODES     byte ──▶ code                               to write
//!                ├─▶ SHORT     8 bits ──▶ byte, for codes that are so short  to read almost everything
//!                └─▶ LENGTHS   where the codes of each length end           to read the rest
//! ```

use super::HpackError;
use bytes::BytesMut;

/// Bits of the code of each byte, and of the end, which may not be written.
#[rustfmt::skip]
const BITS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11,
    10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8,
    15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5,
    6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23,
    23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21,
    23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25,
    26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26,
    28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const BITS_MIN: usize = 5;
const BITS_MAX: usize = 30;
const SHORT_BITS: usize = 8;
const END: u16 = 256;

/// Codes of a length.
#[derive(Clone, Copy)]
struct Length {
    /// The first code behind those of this length, with as many bits as the longest has.
    limit: u32,
    /// What to add to a code for its place in [`SORTED`].
    place: u32,
}

struct Tables {
    /// Code and bits of each byte.
    codes: [(u32, u8); 256],
    /// Byte and bits, for the next eight bits of a text; 0 bits if the code is longer.
    short: [(u8, u8); 1 << SHORT_BITS],
    /// By bits.
    lengths: [Length; BITS_MAX + 1],
    /// What codes stand for, in the order of codes.
    sorted: [u16; 257],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables {
        codes: [(0, 0); 256],
        short: [(0, 0); 1 << SHORT_BITS],
        lengths: [Length { limit: 0, place: 0 }; BITS_MAX + 1],
        sorted: [0; 257],
    };
    let (mut bits, mut code, mut place) = (BITS_MIN, 0u32, 0usize);
    while bits <= BITS_MAX {
        tables.lengths[bits].place = (place as u32).wrapping_sub(code);
        let mut symbol = 0;
        while symbol < BITS.len() {
            if BITS[symbol] as usize == bits {
                if symbol < 256 {
                    tables.codes[symbol] = (code, bits as u8);
                }
                if bits <= SHORT_BITS {
                    let mut short = (code as usize) << (SHORT_BITS - bits);
                    let behind = (code as usize + 1) << (SHORT_BITS - bits);
                    while short < behind {
                        tables.short[short] = (symbol as u8, bits as u8);
                        short += 1;
                    }
                }
                tables.sorted[place] = symbol as u16;
                place += 1;
                code += 1;
            }
            symbol += 1;
        }
        tables.lengths[bits].limit = code << (BITS_MAX - bits);
        code <<= 1;
        bits += 1;
    }
    tables
}

/// What the next 30 bits begin with, and how many of them it takes.
#[inline]
fn symbol(next: u32) -> (u16, u32) {
    let (byte, bits) = TABLES.short[(next >> (BITS_MAX - SHORT_BITS)) as usize & 0xff];
    if bits > 0 { (u16::from(byte), u32::from(bits)) } else { long_symbol(next) }
}

fn long_symbol(next: u32) -> (u16, u32) {
    for bits in SHORT_BITS + 1..BITS_MAX {
        let Length { limit, place } = TABLES.lengths[bits];
        if next < limit {
            let place = (next >> (BITS_MAX - bits)).wrapping_add(place);
            return (TABLES.sorted[place as usize], bits as u32);
        }
    }
    let place = next.wrapping_add(TABLES.lengths[BITS_MAX].place);
    (TABLES.sorted.get(place as usize).copied().unwrap_or(END), BITS_MAX as u32)
}

/// Appends what a text stands for.
pub(super) fn decode(text: &[u8], out: &mut BytesMut) -> Result<(), HpackError> {
    const NEXT: u64 = (1 << BITS_MAX) - 1;
    const NEXT_BITS: u32 = BITS_MAX as u32;
    let mut at = out.len();
    out.resize(at + decoded_len_max(text.len()), 0);
    // The lowest `bits` bits are those that were taken off the text and stand for nothing yet.
    let (mut held, mut bits) = (0u64, 0u32);
    let (words, rest) = text.as_chunks::<4>();
    for word in words {
        held = held << 32 | u64::from(u32::from_be_bytes(*word));
        bits += 32;
        while bits >= NEXT_BITS {
            let (symbol, took) = symbol((held >> (bits - NEXT_BITS) & NEXT) as u32);
            if symbol == END {
                return Err(HpackError::Huffman);
            }
            out[at] = symbol as u8;
            at += 1;
            bits -= took;
        }
    }
    for &byte in rest {
        held = held << 8 | u64::from(byte);
        bits += 8;
    }
    // What is missing is read as the padding that has to be there: ones.
    while bits > 0 {
        let next = match NEXT_BITS.checked_sub(bits) {
            Some(missing) => held << missing | ((1 << missing) - 1),
            None => held >> (bits - NEXT_BITS),
        };
        let (symbol, took) = symbol((next & NEXT) as u32);
        if took > bits {
            let ones = (1 << bits) - 1;
            if bits >= 8 || held & ones != ones {
                return Err(HpackError::Huffman);
            }
            break;
        }
        if symbol == END {
            return Err(HpackError::Huffman);
        }
        out[at] = symbol as u8;
        at += 1;
        bits -= took;
    }
    out.truncate(at);
    Ok(())
}

/// Bytes that a text of this length stands for at most.
pub(super) fn decoded_len_max(len: usize) -> usize {
    len * 8 / BITS_MIN
}

/// Bytes that [`encode`] makes of a text.
#[inline]
pub(super) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(BITS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends a text in the code.
pub(super) fn encode(text: &[u8], out: &mut BytesMut) {
    let (mut held, mut bits) = (0u64, 0u32);
    for &byte in text {
        let (code, len) = TABLES.codes[usize::from(byte)];
        held = held << len | u64::from(code);
        bits += u32::from(len);
        if bits >= 32 {
            bits -= 32;
            out.extend_from_slice(&((held >> bits) as u32).to_be_bytes());
        }
    }
    if bits > 0 {
        let padding = bits.next_multiple_of(8) - bits;
        held = held << padding | ((1 << padding) - 1);
        bits += padding;
        let bytes = (held << (64 - bits)).to_be_bytes();
        out.extend_from_slice(&bytes[..bits as usize / 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = BytesMut::from("before");
        decode(text, &mut out)?;
        Ok(out[6..].to_vec())
    }

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        encode(text, &mut out);
        assert_eq!(out.len(), encoded_len(text));
        out.to_vec()
    }

    #[test]
    fn codes_are_those_of_the_standard() {
        for (byte, code, bits) in [
            (0, 0x1ff8, 13),
            (b'0', 0, 5),
            (b'a', 3, 5),
            (b'~', 0x1ffd, 13),
            (10, 0x3fff_fffc, 30),
            (255, 0x3ff_ffee, 26),
        ] {
            assert_eq!(TABLES.codes[byte as usize], (code, bits), "{byte}");
        }
        assert_eq!(encoded(b"www.example.com"), *b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff");
    }

    #[test]
    fn every_text_comes_back() {
        for byte in 0..=255 {
            for len in 0..9 {
                let text = vec![byte; len];
                assert_eq!(decoded(&encoded(&text)).unwrap(), text);
            }
        }
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        for start in 0..all.len() {
            for end in [start, start + 1, start + 2, start + 7, all.len()] {
                let text = &all[start..end.clamp(start, all.len())];
                assert_eq!(decoded(&encoded(text)).unwrap(), text);
            }
        }
    }

    #[test]
    fn padding_is_less_than_a_byte_of_ones_and_the_end_is_never_written() {
        assert_eq!(decoded(b"\x1f"), Ok(b"a".to_vec()));
        for bad in [
            &b"\x18"[..],        // zeros
            b"\x1e",             // not only ones
            b"\x1f\xff",         // a byte too many
            b"\xff",             // nothing but padding, of eight bits
            b"\xff\xff\xff\xff", // the end, and padding
            b"\xff\xff\xff\xfc", // the end
            b"\x1f\xff\xff\xff\xff\xff",
            b"\xff\xff\xff\xfe",
        ] {
            assert_eq!(decoded(bad), Err(HpackError::Huffman), "{bad:x?}");
        }
    }
}
