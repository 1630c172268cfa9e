//! Bytes that were read and are in no message yet.

use bytes::BytesMut;

/// Room for the rest of a head: most fit, and an idle connection may hold that much.
const ROOM_MIN: usize = 256;

/// What was read, as long as possible in the loop's own buffer.
#[derive(Debug, Default)]
pub(crate) struct Input {
    pub(crate) bytes: BytesMut,
    /// The bytes lie in a buffer of this connection.
    own: bool,
}

impl Input {
    #[inline]
    pub(crate) fn feed(&mut self, bytes: BytesMut) {
        if self.bytes.is_empty() {
            self.bytes = bytes;
            self.own = false;
        } else {
            self.bytes.unsplit(bytes); // copied, unless the pieces lie next to each other
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Nothing can be made of the bytes for now: a rest moves into a buffer of its own, and without one none is kept.
    #[inline]
    pub(crate) fn put_aside(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = BytesMut::new();
            self.own = false;
        } else if !self.own {
            let mut own = BytesMut::with_capacity((2 * self.bytes.len()).max(ROOM_MIN));
            own.extend_from_slice(&self.bytes);
            self.bytes = own;
            self.own = true;
        }
    }

    pub(crate) fn take(&mut self) -> BytesMut {
        self.own = false;
        std::mem::take(&mut self.bytes)
    }
}
