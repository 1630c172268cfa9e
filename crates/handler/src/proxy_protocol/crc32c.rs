//! CRC-32C (Castagnoli), by a table of 1 KiB: a header is checked once for each connection.

const TABLE: [u32; 256] = {
    let (mut table, mut index) = ([0; 256], 0);
    while index < 256 {
        let (mut value, mut bit) = (index as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0x82f6_3b78 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

/// Of bytes in some pieces.
pub(super) fn crc32c<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let next = |sum: u32, byte: &u8| sum >> 8 ^ TABLE[usize::from(sum as u8 ^ byte)];
    !pieces.into_iter().flatten().fold(u32::MAX, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_3720_come_out() {
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c([&[0; 32][..]]), 0x8a91_36aa);
        assert_eq!(crc32c([&[0xff; 32][..]]), 0x62a8_ab43);
        assert_eq!(crc32c([&ascending[..]]), 0x46dd_794e);
        assert_eq!(crc32c([&ascending[..7], &ascending[7..]]), 0x46dd_794e);
        assert_eq!(crc32c([&b"123456789"[..]]), 0xe306_9283);
    }
}
