//! Numbers in the rest of a byte, and in more bytes if they do not fit (RFC 7541, section 5.1).
//!
//! ```text
//!   5 bits for the number:   10 ──▶ ???01010          1337 ──▶ ???11111 10011010 00001010
//! ```

use super::HpackError;
use bytes::{BufMut, BytesMut};

/// Larger numbers are refused: nothing in a block can be that long.
const MAX: usize = (1 << 28) - 1;
/// A number has at most so many bytes behind its first one, leading zeros included.
const MORE_BYTES_MAX: u32 = 4;

/// Takes a number off the front. The first byte is there, and its lowest `bits` bits belong to it.
#[inline]
pub(super) fn take(bytes: &mut &[u8], bits: u32) -> Result<usize, HpackError> {
    let (&first, rest) = bytes.split_first().ok_or(HpackError::CutOff)?;
    *bytes = rest;
    let most = (1 << bits) - 1;
    let number = usize::from(first) & most;
    if number < most { Ok(number) } else { take_more(bytes, most) }
}

fn take_more(bytes: &mut &[u8], mut number: usize) -> Result<usize, HpackError> {
    for place in 0..MORE_BYTES_MAX {
        let (&byte, rest) = bytes.split_first().ok_or(HpackError::CutOff)?;
        *bytes = rest;
        number += usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return if number <= MAX { Ok(number) } else { Err(HpackError::Number) };
        }
    }
    Err(HpackError::Number)
}

/// Appends a number, in the lowest `bits` bits of a byte whose others are those of `first`.
#[inline]
pub(super) fn put(out: &mut BytesMut, first: u8, bits: u32, mut number: usize) {
    let most = (1 << bits) - 1;
    if number < most {
        return out.put_u8(first | number as u8);
    }
    out.put_u8(first | most as u8);
    number -= most;
    while number >= 0x80 {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_standard() {
        for (number, bits, bytes) in [
            (10, 5, &[0b01010][..]),
            (1337, 5, &[0b11111, 154, 10]),
            (42, 8, &[42]),
            (30, 5, &[30]),
            (31, 5, &[31, 0]),
        ] {
            let mut out = BytesMut::new();
            put(&mut out, 0, bits, number);
            assert_eq!(out, bytes);
            let mut rest = &out[..];
            assert_eq!((take(&mut rest, bits), rest), (Ok(number), &[][..]));
        }
    }

    #[test]
    fn every_number_comes_back_and_its_byte_keeps_its_other_bits() {
        for bits in 1..=8 {
            for number in (0..70_000).step_by(13).chain([MAX - 1, MAX]) {
                let mut out = BytesMut::new();
                let first = if bits == 8 { 0 } else { 0x80 };
                put(&mut out, first, bits, number);
                out.extend_from_slice(b"rest");
                let mut rest = &out[..];
                assert_eq!((rest[0] & 0x80) & first, first);
                assert_eq!((take(&mut rest, bits), rest), (Ok(number), &b"rest"[..]), "{number} in {bits}");
            }
        }
    }

    #[test]
    fn numbers_that_are_too_large_or_too_long_or_cut_off_are_refused() {
        for (bytes, error) in [
            (&[0x1f][..], HpackError::CutOff),
            (&[0x1f, 0x80], HpackError::CutOff),
            (&[0x1f, 0xff, 0xff, 0xff, 0x7f], HpackError::Number),
            (&[0x1f, 0xff, 0xff, 0xff, 0xff, 0x00], HpackError::Number),
            (&[0x1f, 0x80, 0x80, 0x80, 0x80, 0x00], HpackError::Number),
            (&[0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], HpackError::Number),
        ] {
            let mut rest = bytes;
            assert_eq!(take(&mut rest, 5), Err(error), "{bytes:x?}");
        }
    }
}
