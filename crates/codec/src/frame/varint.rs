//! Frames behind a length in a variable number of bytes, as Protobuf writes its messages one after the other.
//!
//! ```text
//!   1010 1100  0000 0010 │ 300 bytes        seven bits in each byte, the lowest first; the highest bit: more follow
//! ```
//! Always true: a length has at most five bytes and 32 bits. One that has more is fatal: nobody knows where the next frame
//! begins.

use super::{FrameError, skip::Skip};
use crate::base::{Batch, Coded, DecodeError, Decoder, Encoder, codec, take};
use bytes::{Buf, Bytes, BytesMut};
use netwright_core::Fault;

/// Cuts bytes into frames behind a length of one to five bytes, and writes such.
///
/// ```
/// use netwright_codec::Varint32Frames;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(Varint32Frames::max(1 << 20)));
/// channel.write_inbound(b"\x05hello\x00");
/// assert_eq!((channel.read_inbound().unwrap(), channel.read_inbound().unwrap()), ("hello".into(), "".into()));
/// channel.write_outbound(vec![b'x'; 300]);
/// assert!(channel.outbound_bytes().starts_with(b"\xac\x02xxx"));
/// ```
pub type Varint32Frames = Coded<(Varint32Decoder, Varint32Prepender)>;

impl Varint32Frames {
    /// Frames of up to `max` bytes, not counting their lengths.
    pub fn max(max: usize) -> Self {
        codec((Varint32Decoder::max(max), Varint32Prepender))
    }

    /// Reports a frame that is too long when it has been skipped. Default: as soon as its length is there.
    pub fn fail_late(mut self) -> Self {
        self.inner_mut().0.fail_fast = false;
        self
    }
}

/// What a length of 32 bits takes at most.
const VARINT32_MAX: usize = 5;

/// Cuts bytes into frames behind a length of one to five bytes; see [`Varint32Frames`].
///
/// ```
/// use netwright_codec::{Decoder, Varint32Decoder};
/// use bytes::BytesMut;
///
/// let (mut frames, mut bytes) = (Varint32Decoder::max(1024), BytesMut::from(&b"\x05hello\x80"[..]));
/// assert_eq!(frames.decode(&mut bytes).unwrap().unwrap(), "hello");
/// assert!(frames.decode(&mut bytes).unwrap().is_none());
/// ```
#[derive(Debug, Clone)]
pub struct Varint32Decoder {
    max: usize,
    fail_fast: bool,
    /// Header and frame, if the header is there; 0 otherwise.
    whole: usize,
    header: usize,
    skip: Skip,
}

impl Varint32Decoder {
    /// Frames of up to `max` bytes, not counting their lengths.
    pub fn max(max: usize) -> Self {
        Self { max, fail_fast: true, whole: 0, header: 0, skip: Skip::default() }
    }

    /// Reports a frame that is too long when it has been skipped. Default: as soon as its length is there.
    pub fn fail_late(mut self) -> Self {
        self.fail_fast = false;
        self
    }
}

/// The number at the front and how many bytes it has. `None`: it does not end here.
#[inline]
fn varint32(bytes: &[u8]) -> Result<Option<(u32, usize)>, FrameError> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(VARINT32_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            let bytes = index + 1;
            let value = u32::try_from(value).map_err(|_| FrameError::BadVarint { bytes })?;
            return Ok(Some((value, bytes)));
        }
    }
    if bytes.len() >= VARINT32_MAX { Err(FrameError::BadVarint { bytes: VARINT32_MAX }) } else { Ok(None) }
}

impl Decoder for Varint32Decoder {
    type Item = Bytes;

    #[inline]
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        if self.skip.is_on() {
            self.skip.go_on(bytes, self.max)?;
        }
        if self.whole == 0 {
            let Some((length, header)) = varint32(bytes)? else { return Ok(None) };
            if length as usize > self.max {
                bytes.advance(header);
                self.skip.begin(bytes, u64::from(length), self.max, self.fail_fast)?;
                return Ok(None);
            }
            (self.whole, self.header) = (header + length as usize, header);
        }
        if bytes.len() < self.whole {
            return Ok(None);
        }
        let length = std::mem::take(&mut self.whole) - self.header;
        bytes.advance(self.header);
        Ok(Some(take(bytes, length).freeze()))
    }

    fn decode_last(&mut self, _: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        self.skip.end(self.max)?;
        Ok(None)
    }

    fn needs(&self) -> Option<usize> {
        (self.whole > 0).then_some(self.whole)
    }

    fn limit(&self) -> usize {
        self.max.saturating_add(VARINT32_MAX)
    }

    fn name(&self) -> &'static str {
        "Varint32Frames"
    }
}

/// Puts a length of one to five bytes before each frame.
///
/// ```
/// use netwright_codec::Varint32Frames;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// // The other half of `Varint32Frames`.
/// let mut channel = EmbeddedChannel::new(pipeline().add(Varint32Frames::max(1024)));
/// channel.write_outbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"\x05hello");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Varint32Prepender;

impl Encoder for Varint32Prepender {
    type Message = Bytes;

    #[inline]
    fn encode(&mut self, frame: Bytes, out: &mut Batch) -> Result<(), Fault> {
        let Ok(mut left) = u32::try_from(frame.len()) else {
            return Err(FrameError::DoesNotFit { width: 4, length: frame.len() as i128 }.into());
        };
        let (mut header, mut len) = ([0; VARINT32_MAX], 0);
        while left >= 0x80 {
            header[len] = left as u8 | 0x80;
            left >>= 7;
            len += 1;
        }
        header[len] = left as u8;
        out.extend_from_slice(&header[..=len]);
        out.pass(frame);
        Ok(())
    }
}
