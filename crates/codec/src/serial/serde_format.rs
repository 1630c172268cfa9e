//! What all formats for types of `serde` have in common: how deep values nest, and what may stand behind them.

use super::{DEPTH_MAX, Format, SerialError};
use bytes::{Bytes, BytesMut};
use serde::{Serialize, de::DeserializeOwned};

/// A notation for values of `serde`, without the settings that all of them have.
pub trait Notation: Default + 'static {
    /// What to call the stage in listings.
    const STAGE: &'static str;
    /// What to call it in errors.
    const NAME: &'static str;

    /// Reads a value of at most `depth` levels. Unless `trailing` bytes are ignored, they are an error.
    fn read<R: DeserializeOwned>(
        &self,
        message: &[u8],
        depth: usize,
        trailing: bool,
    ) -> Result<R, SerialError>;

    /// Appends a value.
    fn write<W: Serialize>(&self, value: &W, out: &mut BytesMut) -> Result<(), SerialError>;
}

/// A format for types of `serde`, in one of its notations: [`JsonFormat`](super::JsonFormat),
/// [`MessagePackFormat`](super::MessagePackFormat), [`CborFormat`](super::CborFormat) and
/// [`PostcardFormat`](super::PostcardFormat).
#[derive(Debug, Clone, Copy)]
pub struct SerdeFormat<N> {
    depth: usize,
    trailing: bool,
    pub(super) notation: N,
}

impl<N: Notation> SerdeFormat<N> {
    /// Up to [`DEPTH_MAX`] levels, and nothing behind the value (but white space, in JSON).
    pub fn new() -> Self {
        Self { depth: DEPTH_MAX, trailing: false, notation: N::default() }
    }

    /// Lists, maps, structs, enums and `Some`s inside each other, at most so many. Each level takes stack: thousands need a
    /// thread with a large one. Default: [`DEPTH_MAX`]. What a type does not want is skipped, in JSON and CBOR however deep
    /// it is.
    pub fn depth(mut self, max: usize) -> Self {
        self.depth = max;
        self
    }

    /// Whether bytes behind the value are ignored. Default: an error.
    pub fn ignore_trailing(mut self, ignore: bool) -> Self {
        self.trailing = ignore;
        self
    }
}

impl<N: Notation> Default for SerdeFormat<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N: Notation, R: DeserializeOwned, W: Serialize> Format<R, W> for SerdeFormat<N> {
    fn name(&self) -> &'static str {
        N::STAGE
    }

    #[inline]
    fn read(&mut self, message: Bytes) -> Result<R, SerialError> {
        self.notation.read(&message, self.depth, self.trailing)
    }

    #[inline]
    fn write(&mut self, value: &W, out: &mut BytesMut) -> Result<(), SerialError> {
        self.notation.write(value, out)
    }
}
