//! UTF-8 that comes in pieces, refused with the first byte that cannot be right.

/// A check of a text that comes in pieces: keeps the character that a piece ended in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Utf8 {
    open: [u8; 4],
    have: u8,
}

/// These bytes are not UTF-8, whatever follows.
#[derive(Debug, PartialEq)]
pub(crate) struct NotUtf8;

impl Utf8 {
    /// Checks the next piece.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), NotUtf8> {
        while self.have > 0 {
            let Some((&byte, rest)) = bytes.split_first() else { return Ok(()) };
            bytes = rest;
            self.open[usize::from(self.have)] = byte; // at most three are open: the fourth ends a character
            self.have += 1;
            match std::str::from_utf8(&self.open[..usize::from(self.have)]) {
                Ok(_) => self.have = 0,
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(NotUtf8),
            }
        }
        let Err(error) = simdutf8::compat::from_utf8(bytes) else { return Ok(()) };
        if error.error_len().is_some() {
            return Err(NotUtf8);
        }
        let open = &bytes[error.valid_up_to()..];
        self.open[..open.len()].copy_from_slice(open);
        self.have = open.len() as u8;
        Ok(())
    }

    /// Whether the text may end here.
    pub(crate) fn is_whole(&self) -> bool {
        self.have == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first byte that makes a text wrong.
    fn refused_at(bytes: &[u8]) -> Option<usize> {
        let mut utf8 = Utf8::default();
        bytes.iter().position(|byte| utf8.push(&[*byte]).is_err())
    }

    #[test]
    fn a_text_split_anywhere_is_accepted() {
        let text = "κόσμε \u{10ffff} \u{800} ü".as_bytes();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let mut utf8 = Utf8::default();
                for piece in [&text[..first], &text[first..second], &text[second..]] {
                    utf8.push(piece).unwrap();
                }
                assert!(utf8.is_whole());
            }
        }
    }

    #[test]
    fn the_first_impossible_byte_is_refused() {
        assert_eq!(refused_at(b"\xff"), Some(0));
        assert_eq!(refused_at(b"\xf4\x90\x80\x80"), Some(1)); // above U+10FFFF
        assert_eq!(refused_at(b"\xed\xa0\x80"), Some(1)); // a surrogate
        assert_eq!(refused_at(b"\xc0\xaf"), Some(0)); // longer than needed
        assert_eq!(refused_at(b"ab\xce\xbacd\xe2\x82A"), Some(8));
        let mut utf8 = Utf8::default();
        utf8.push(b"\xf0\x9f\x98").unwrap();
        assert!(!utf8.is_whole());
    }
}
