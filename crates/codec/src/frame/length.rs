//! Frames whose header tells their length.
//!
//! ```text
//!   offset 2   width 2      adjustment -4 (the length counts the whole header), strip 4
//!   ├──┬──┼──┬──┼─────────── ─ ─ ─ ──────────┤
//!   │ CA FE│ 00 0C│ H  E  L  L  O  ,  _  W ... │      frame = length + adjustment + offset + width
//!   └──────┴──────┴───────────────────────────┘
//!   └── stripped ─┘└──── what is passed on ───┘
//! ```
//! Always true between calls:
//! 1. `frame` is the length of the unfinished frame if its header is there, and 0 otherwise. It is within the limit.
//! 2. A frame that is too long is reported once and skipped byte by byte, and nothing of it is kept.
//!
//! A length that cannot be right, below zero or ending in the header, is fatal: nobody knows where the next frame begins.
//! (Netty goes on behind the header, and reads whatever a peer has put there as frames.)
//!
//! Not here: writing lengths (`prepend`), lengths of a variable width (`varint`).

use super::{FrameError, Impossible, LengthPrepender, skip::Skip};
use crate::base::{Coded, DecodeError, Decoder, codec, take};
use bytes::{Buf, Bytes, BytesMut};

/// Cuts bytes into frames whose header tells their length, and puts a length before each frame that is written.
///
/// ```
/// use netwright_codec::LengthFrames;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(LengthFrames::max(1024)));
/// channel.write_inbound(b"\0\0\0\x05hel").write_inbound(b"lo\0\0\0\0");
/// assert_eq!(channel.read_inbound().unwrap(), "hello");
/// assert_eq!(channel.read_inbound().unwrap(), "");
/// channel.write_outbound("back");
/// assert_eq!(channel.outbound_bytes(), b"\0\0\0\x04back");
/// ```
///
/// Other headers are described by a [`LengthField`].
pub type LengthFrames = Coded<(LengthDecoder, LengthPrepender)>;

impl LengthFrames {
    /// Frames of up to `max` bytes behind a length of four bytes, the highest first, which is not passed on.
    pub fn max(max: usize) -> Self {
        let field = LengthField { max: max.saturating_add(4), strip: 4, ..LengthField::new(4) };
        codec((LengthDecoder::plain(field), LengthPrepender::plain(4)))
    }
}

/// Where a header has its length, and what that means: all parameters of Netty's `LengthFieldBasedFrameDecoder`.
///
/// ```
/// use netwright_codec::{LengthField, decode};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// // Two bytes of magic, then a length of two bytes that counts all four of the header, which is not passed on.
/// let header = LengthField::new(2).offset(2).adjustment(-4).strip(4).max(1024);
/// let mut channel = EmbeddedChannel::new(pipeline().add(decode(header.decoder()?)));
/// channel.write_inbound(b"\xca\xfe\x00\x09HELLO");
/// assert_eq!(channel.read_inbound().unwrap(), "HELLO");
///
/// let error = LengthField::new(5).decoder().unwrap_err();
/// assert_eq!(error.to_string(), "width cannot be 5: a length has 1, 2, 3, 4 or 8 bytes");
/// # Ok::<(), netwright_codec::Impossible>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthField {
    width: usize,
    offset: usize,
    adjustment: i64,
    strip: usize,
    max: usize,
    little_endian: bool,
    fail_fast: bool,
}

/// What a frame may have unless somebody says otherwise.
const FRAME_MAX: usize = 1024 * 1024;

impl LengthField {
    /// A length of so many bytes at the beginning of a frame, counting what follows it. Frames have up to 1 MiB and are
    /// passed on with their header.
    pub const fn new(width: usize) -> Self {
        let (offset, adjustment, strip, max) = (0, 0, 0, FRAME_MAX);
        Self { width, offset, adjustment, strip, max, little_endian: false, fail_fast: true }
    }

    /// How many bytes of a frame come before its length.
    pub const fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// What has to be added to the length to get the number of bytes that follow it. Below zero if the length counts the
    /// header or a part of it.
    pub const fn adjustment(mut self, adjustment: i64) -> Self {
        self.adjustment = adjustment;
        self
    }

    /// How many bytes at the beginning of a frame are not passed on.
    pub const fn strip(mut self, strip: usize) -> Self {
        self.strip = strip;
        self
    }

    /// How many bytes a frame may have, its header included.
    pub const fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// The lowest byte of the length comes first. Default: the highest.
    pub const fn little_endian(mut self, little: bool) -> Self {
        self.little_endian = little;
        self
    }

    /// Reports a frame that is too long as soon as its length is there (default), or when it has been skipped.
    pub const fn fail_fast(mut self, fast: bool) -> Self {
        self.fail_fast = fast;
        self
    }

    /// A decoder of such frames, if there can be one.
    pub fn decoder(self) -> Result<LengthDecoder, Impossible> {
        check_width(self.width)?;
        let Self { width, offset, adjustment, strip, max, .. } = self;
        let Some(header) = offset.checked_add(width).filter(|&header| header <= max) else {
            let rule = format!("a length of {width} bytes behind it ends beyond max, {max}");
            return Err(Impossible::new("offset", offset, rule));
        };
        if strip > max {
            return Err(Impossible::new("strip", strip, format!("no frame has more than max, {max}")));
        }
        let longest = i128::from(largest(width)) + i128::from(adjustment);
        if longest < 0
            || i64::try_from(header).ok().and_then(|header| adjustment.checked_add(header)).is_none()
        {
            let rule = format!("with a length of {width} bytes, no frame ends behind its header");
            return Err(Impossible::new("adjustment", adjustment, rule));
        }
        Ok(LengthDecoder::plain(self))
    }

    /// A decoder of such frames as a stage with a prepender for what is written.
    pub fn frames(self, prepender: LengthPrepender) -> Result<LengthFrames, Impossible> {
        Ok(codec((self.decoder()?, prepender)))
    }
}

/// The largest length that fits. Eight bytes have a sign, as on the JVM: no frame is longer than that.
pub(super) fn largest(width: usize) -> u64 {
    if width == 8 { i64::MAX as u64 } else { (1 << (8 * width)) - 1 }
}

pub(super) fn check_width(width: usize) -> Result<(), Impossible> {
    match width {
        1..=4 | 8 => Ok(()),
        _ => Err(Impossible::new("width", width, "a length has 1, 2, 3, 4 or 8 bytes")),
    }
}

/// Cuts bytes into frames whose header tells their length. Made by [`LengthField::decoder`].
///
/// ```
/// use netwright_codec::{Decoder, LengthField};
/// use bytes::BytesMut;
///
/// let mut frames = LengthField::new(2).strip(2).max(1024).decoder()?; // two bytes of length, which are taken off
/// let mut bytes = BytesMut::from(&b"\0\x05hello\0\0"[..]);
/// assert_eq!(frames.decode(&mut bytes).unwrap().unwrap(), "hello");
/// # Ok::<(), netwright_codec::Impossible>(())
/// ```
#[derive(Debug, Clone)]
pub struct LengthDecoder {
    field: LengthField,
    /// Up to the end of the length.
    header: usize,
    /// From the length to the length of the frame.
    add: i64,
    frame: usize,
    skip: Skip,
}

impl LengthDecoder {
    /// A decoder for a field that has been checked.
    pub(super) fn plain(field: LengthField) -> Self {
        let header = field.offset + field.width;
        Self { field, header, add: field.adjustment + header as i64, frame: 0, skip: Skip::default() }
    }

    /// The length in the header.
    #[inline]
    fn length(&self, bytes: &[u8]) -> u64 {
        let field = &bytes[self.field.offset..self.header];
        let mut eight = [0; 8];
        if self.field.little_endian {
            eight[..field.len()].copy_from_slice(field);
            return u64::from_le_bytes(eight);
        }
        if let Ok(four) = <[u8; 4]>::try_from(field) {
            return u64::from(u32::from_be_bytes(four)); // nearly always
        }
        eight[8 - field.len()..].copy_from_slice(field);
        u64::from_be_bytes(eight)
    }

    /// How long the frame is whose header is there. `None`: too long, and skipped.
    #[inline]
    fn measure(&mut self, bytes: &mut BytesMut) -> Result<Option<usize>, DecodeError> {
        let length = self.length(bytes) as i64;
        let frame = length.saturating_add(self.add);
        if length < 0 || frame < self.header as i64 {
            return Err(self.impossible(length, frame));
        }
        if frame as u64 > self.field.max as u64 {
            let LengthField { max, fail_fast, .. } = self.field;
            self.skip.begin(bytes, frame as u64, max, fail_fast)?;
            return Ok(None);
        }
        Ok(Some(frame as usize))
    }

    #[cold]
    fn impossible(&self, length: i64, frame: i64) -> DecodeError {
        match length < 0 {
            true => FrameError::NegativeLength { length }.into(),
            false => FrameError::EndsInHeader { length, frame, header: self.header }.into(),
        }
    }
}

impl Decoder for LengthDecoder {
    type Item = Bytes;

    #[inline]
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        if self.skip.is_on() {
            self.skip.go_on(bytes, self.field.max)?;
        }
        if self.frame == 0 {
            if bytes.len() < self.header {
                return Ok(None);
            }
            match self.measure(bytes)? {
                Some(frame) => self.frame = frame,
                None => return Ok(None),
            }
        }
        if bytes.len() < self.frame {
            return Ok(None);
        }
        let (frame, strip) = (std::mem::take(&mut self.frame), self.field.strip);
        if strip > frame {
            bytes.advance(frame);
            return Err(DecodeError::recoverable(FrameError::StripsTooMuch { strip, frame }));
        }
        bytes.advance(strip);
        Ok(Some(take(bytes, frame - strip).freeze()))
    }

    fn decode_last(&mut self, _: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        self.skip.end(self.field.max)?;
        Ok(None)
    }

    fn needs(&self) -> Option<usize> {
        Some(if self.frame == 0 { self.header } else { self.frame })
    }

    fn limit(&self) -> usize {
        self.field.max
    }

    fn name(&self) -> &'static str {
        "LengthFrames"
    }
}

#[cfg(test)]
mod tests;
