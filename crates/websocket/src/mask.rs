//! The mask over what clients send: every byte XOR one of four.

/// Puts a mask on bytes, or takes it off: the same thing. In words of eight bytes, which the compiler makes vectors of.
///
/// ```
/// use netwright_websocket::frame::mask;
///
/// let mut bytes = *b"hello";
/// mask(&mut bytes, [1, 2, 3, 4]);
/// assert_eq!(&bytes, b"igohn");
/// ```
#[inline]
pub fn mask(bytes: &mut [u8], key: [u8; 4]) {
    let [a, b, c, d] = key;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip([a, b, c, d, a, b, c]) {
        *byte ^= key;
    }
}

/// The key for what follows so many bytes.
#[inline]
pub(crate) fn rotated(mut key: [u8; 4], bytes: usize) -> [u8; 4] {
    key.rotate_left(bytes % 4);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_in_pieces_is_the_same_as_in_one() {
        let key = [0x12, 0x34, 0x56, 0x78];
        let whole: Vec<u8> = (0..100u8).collect();
        let mut expected = whole.clone();
        expected.iter_mut().enumerate().for_each(|(at, byte)| *byte ^= key[at % 4]);
        for len in 0..whole.len() {
            for split in 0..=len {
                let mut bytes = whole[..len].to_vec();
                let (first, second) = bytes.split_at_mut(split);
                mask(first, key);
                mask(second, rotated(key, split));
                assert_eq!(bytes, expected[..len]);
            }
        }
    }
}
