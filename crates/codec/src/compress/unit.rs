//! Gathers units of known length out of input that comes in pieces.

/// The bytes of a unit that is not whole yet.
#[derive(Debug, Default)]
pub(super) struct Unit(Vec<u8>);

/// What a connection between units may keep.
const KEEP_MAX: usize = 1024;

impl Unit {
    /// How many of these bytes the unit of `len` bytes takes, and whether it is whole with them. If it is, [`get`](Self::get)
    /// has it, without a copy if the input holds all of it.
    pub(super) fn fill(&mut self, input: &[u8], len: usize) -> (usize, bool) {
        let taken = input.len().min(len.saturating_sub(self.0.len()));
        let whole = self.0.len() + taken >= len;
        if !self.0.is_empty() || !whole {
            let wanted = self.0.len() + taken;
            if self.0.capacity() < wanted {
                // Grows with what has come, up to what was announced.
                self.0.reserve_exact((2 * wanted).min(len) - self.0.len());
            }
            self.0.extend_from_slice(&input[..taken]);
        }
        (taken, whole)
    }

    /// The whole unit: `input` is what `fill` took last.
    pub(super) fn get<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        if self.0.is_empty() { input } else { &self.0 }
    }

    #[cfg(feature = "snappy")]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The unit turned out to be the beginning of a longer one: `input` is what `fill` took last.
    #[cfg(feature = "lz4")]
    pub(super) fn put_back(&mut self, input: &[u8]) {
        if self.0.is_empty() {
            self.0.extend_from_slice(input);
        }
    }

    /// The unit is used.
    pub(super) fn clear(&mut self) {
        self.0.clear();
        if self.0.capacity() > KEEP_MAX {
            self.0 = Vec::new();
        }
    }
}
