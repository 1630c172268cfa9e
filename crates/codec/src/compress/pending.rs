//! Compressed bytes that found no room.

use std::io::{self, Write};

/// What a library that writes has written, to be taken in pieces.
#[derive(Debug, Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    at: usize,
}

impl Pending {
    #[cfg(any(feature = "gzip", feature = "zlib", feature = "deflate"))]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Moves as much as there is room for, and says how much that was.
    pub(super) fn drain(&mut self, output: &mut [u8]) -> usize {
        let rest = &self.bytes[self.at..];
        let len = rest.len().min(output.len());
        output[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        if self.is_empty() {
            self.bytes.clear();
            self.at = 0;
        }
        len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
