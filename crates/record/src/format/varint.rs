//! Numbers of one to ten bytes: seven bits each, the lowest first; the highest bit says that more follow (LEB128).

/// The most bytes that a number takes.
pub(crate) const LEN_MAX: usize = 10;

/// Writes a number to the front of `out`, which has room for it, and tells how many bytes it took.
#[inline]
pub(crate) fn put(out: &mut [u8], mut number: u64) -> usize {
    let mut len = 0;
    while number >= 0x80 {
        out[len] = number as u8 | 0x80;
        number >>= 7;
        len += 1;
    }
    out[len] = number as u8;
    len + 1
}

/// How many bytes a number takes.
pub(crate) fn len(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(7).max(1) as usize
}

/// Appends a number.
pub(crate) fn push(out: &mut Vec<u8>, number: u64) {
    let mut room = [0; LEN_MAX];
    let len = put(&mut room, number);
    out.extend_from_slice(&room[..len]);
}

/// Why there is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoNumber {
    /// The bytes end within it.
    Cut,
    /// It is larger than 64 bits, or goes on behind them.
    TooLarge,
}

/// Reads a number off the bytes.
#[inline]
pub(crate) fn take(bytes: impl IntoIterator<Item = u8>) -> Result<(u64, usize), NoNumber> {
    let mut number = 0_u64;
    for (index, byte) in bytes.into_iter().take(LEN_MAX).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index == LEN_MAX - 1 && byte > 1 {
            return Err(NoNumber::TooLarge);
        }
        number |= bits << (7 * index);
        if byte < 0x80 {
            return Ok((number, index + 1));
        }
    }
    Err(NoNumber::Cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_and_takes_as_few_bytes_as_it_can() {
        for (number, len) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 10)] {
            let mut bytes = Vec::new();
            push(&mut bytes, number);
            assert_eq!((bytes.len(), super::len(number)), (len, len), "{number}");
            assert_eq!(take(bytes.iter().copied()), Ok((number, len)));
            assert_eq!(take(bytes[..len - 1].iter().copied()), Err(NoNumber::Cut));
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_none() {
        let mut bytes = [0xff; 10];
        bytes[9] = 2;
        assert_eq!(take(bytes), Err(NoNumber::TooLarge));
        assert_eq!(take([0xff; 11]), Err(NoNumber::TooLarge));
    }
}
