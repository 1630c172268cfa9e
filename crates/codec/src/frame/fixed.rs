//! Frames that all have the same length.

use super::{FrameError, Impossible};
use crate::base::{Batch, Coded, DecodeError, Decoder, Encoder, codec, take};
use bytes::{Bytes, BytesMut};
use netwright_core::Fault;

/// Cuts bytes into frames of a fixed length, and refuses to write any other. What is left at the channel's end is dropped.
///
/// ```
/// use netwright_codec::FixedFrames;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(FixedFrames::of(3)?));
/// channel.write_inbound(b"abcde").write_inbound(b"fg");
/// assert_eq!(channel.read_inbound().unwrap(), "abc");
/// assert_eq!(channel.read_inbound().unwrap(), "def");
/// assert!(channel.read_inbound().is_none());
/// # Ok::<(), netwright_codec::Impossible>(())
/// ```
pub type FixedFrames = Coded<(FixedDecoder, FixedEncoder)>;

impl FixedFrames {
    /// Frames of so many bytes.
    pub fn of(length: usize) -> Result<Self, Impossible> {
        Ok(codec((FixedDecoder::of(length)?, FixedEncoder { length })))
    }
}

/// Cuts bytes into frames of a fixed length.
///
/// ```
/// use netwright_codec::{Decoder, FixedDecoder};
/// use bytes::BytesMut;
///
/// let (mut pairs, mut bytes) = (FixedDecoder::of(2)?, BytesMut::from("abc"));
/// assert_eq!(pairs.decode(&mut bytes).unwrap().unwrap(), "ab");
/// assert!(pairs.decode(&mut bytes).unwrap().is_none());
/// # Ok::<(), netwright_codec::Impossible>(())
/// ```
#[derive(Debug, Clone)]
pub struct FixedDecoder {
    length: usize,
}

impl FixedDecoder {
    /// Frames of so many bytes.
    pub fn of(length: usize) -> Result<Self, Impossible> {
        match length {
            0 => Err(Impossible::new("length", 0, "there would be frames without end")),
            length => Ok(Self { length }),
        }
    }
}

impl Decoder for FixedDecoder {
    type Item = Bytes;

    #[inline]
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        Ok((bytes.len() >= self.length).then(|| take(bytes, self.length).freeze()))
    }

    fn needs(&self) -> Option<usize> {
        Some(self.length)
    }

    fn limit(&self) -> usize {
        self.length
    }

    fn name(&self) -> &'static str {
        "FixedFrames"
    }
}

/// Writes frames of a fixed length, and refuses others.
///
/// ```
/// use netwright_codec::FixedFrames;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// // The other half of `FixedFrames`.
/// let mut channel = EmbeddedChannel::new(pipeline().add(FixedFrames::of(5)?));
/// channel.write_outbound("hello".into());
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// # Ok::<(), netwright_codec::Impossible>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FixedEncoder {
    length: usize,
}

impl Encoder for FixedEncoder {
    type Message = Bytes;

    #[inline]
    fn encode(&mut self, frame: Bytes, out: &mut Batch) -> Result<(), Fault> {
        if frame.len() != self.length {
            return Err(FrameError::WrongLength { expected: self.length, got: frame.len() }.into());
        }
        out.pass(frame);
        Ok(())
    }
}
