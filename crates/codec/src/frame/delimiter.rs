//! Frames that end with one of several delimiters.
//!
//! ```text
//!   delimiters: ";"  "\r\n"  "\n"         looked for by their last bytes: ; \n
//!   bytes:      a b \r \n c ; d e         at each of them: which delimiter ends here? the longest, so the shortest frame
//!               └─┘       └┘  └ scanned, and not looked at again
//! ```
//! Always true:
//! 1. The delimiter that ends first ends the frame; of several that end at the same byte, the longest one. This is the
//!    shortest frame, and it does not depend on how the stream is split: nobody has to wait for a byte to decide.
//! 2. No delimiter is inside another one but at its end: it would always end before that.
//! 3. What is left unfinished is at most the limit and a delimiter, less a byte; of a frame that is skipped only as much as
//!    may be the beginning of a delimiter is kept.

use super::{FrameError, Impossible};
use crate::base::{Batch, Coded, DecodeError, Decoder, Encoder, codec, take};
use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memchr2, memchr3};
use netwright_core::Fault;
use std::sync::Arc;

/// Cuts bytes into frames that end with one of several delimiters, and ends with the first of them what is written.
///
/// ```
/// use netwright_codec::DelimiterFrames;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(DelimiterFrames::max(100, [";", "\r\n", "\n"])?));
/// channel.write_inbound("a;b\r").write_inbound("\nc\n");
/// for frame in ["a", "b", "c"] {
///     assert_eq!(channel.read_inbound().unwrap(), frame);
/// }
/// channel.write_outbound("d");
/// assert_eq!(channel.outbound_bytes(), b"d;");
/// # Ok::<(), netwright_codec::Impossible>(())
/// ```
pub type DelimiterFrames = Coded<(DelimiterDecoder, DelimiterEncoder)>;

impl DelimiterFrames {
    /// Frames of up to `max` bytes, not counting their delimiters.
    pub fn max<D: AsRef<[u8]>>(
        max: usize,
        delimiters: impl IntoIterator<Item = D>,
    ) -> Result<Self, Impossible> {
        let decoder = DelimiterDecoder::max(max, delimiters)?;
        let encoder = DelimiterEncoder { delimiter: decoder.delimiters.first().cloned().unwrap_or_default() };
        Ok(codec((decoder, encoder)))
    }

    /// Leaves delimiters at the end of frames. Default: they are taken off.
    pub fn keep_delimiters(mut self, keep: bool) -> Self {
        self.inner_mut().0.keep = keep;
        self
    }

    /// Reports a frame that is too long as soon as that is clear (default), or at its end.
    pub fn fail_fast(mut self, fast: bool) -> Self {
        self.inner_mut().0.fail_fast = fast;
        self
    }
}

/// Cuts bytes into frames that end with one of several delimiters; see [`DelimiterFrames`].
///
/// ```
/// use netwright_codec::{Decoder, DelimiterDecoder};
/// use bytes::BytesMut;
///
/// let (mut records, mut bytes) = (DelimiterDecoder::max(64, ["\0", "||"])?, BytesMut::from("one\0two||"));
/// assert_eq!(records.decode(&mut bytes).unwrap().unwrap(), "one");
/// assert_eq!(records.decode(&mut bytes).unwrap().unwrap(), "two");
/// # Ok::<(), netwright_codec::Impossible>(())
/// ```
#[derive(Debug, Clone)]
pub struct DelimiterDecoder {
    /// In the order in which they were given.
    delimiters: Arc<[Bytes]>,
    /// The same, the longest one first.
    by_length: Arc<[Bytes]>,
    last_bytes: LastBytes,
    longest: usize,
    max: usize,
    keep: bool,
    fail_fast: bool,
    /// In so many bytes no delimiter ends.
    scanned: usize,
    /// How many bytes of a frame that is too long are gone.
    skipped: Option<usize>,
}

impl DelimiterDecoder {
    /// Frames of up to `max` bytes, not counting their delimiters.
    pub fn max<D: AsRef<[u8]>>(
        max: usize,
        delimiters: impl IntoIterator<Item = D>,
    ) -> Result<Self, Impossible> {
        let delimiters: Vec<Bytes> =
            delimiters.into_iter().map(|delimiter| Bytes::copy_from_slice(delimiter.as_ref())).collect();
        if delimiters.is_empty() {
            return Err(Impossible::new("delimiters", "none", "no frame would end"));
        }
        for inner in &delimiters {
            let shown = format!("\"{}\"", inner.escape_ascii());
            if inner.is_empty() {
                return Err(Impossible::new("delimiter", shown, "there would be frames without end"));
            }
            let ends_in = |outer: &Bytes| {
                let places = outer.windows(inner.len()).position(|place| place == inner);
                places.is_some_and(|place| place + inner.len() < outer.len())
            };
            if let Some(outer) = delimiters.iter().find(|outer| ends_in(outer)) {
                let rule =
                    format!("it ends inside \"{}\", which could never end a frame", outer.escape_ascii());
                return Err(Impossible::new("delimiter", shown, rule));
            }
        }
        let mut by_length = delimiters.clone();
        by_length.sort_by_key(|delimiter| std::cmp::Reverse(delimiter.len()));
        Ok(Self {
            last_bytes: LastBytes::of(&delimiters),
            longest: by_length.first().map_or(0, Bytes::len),
            delimiters: delimiters.into(),
            by_length: by_length.into(),
            max,
            keep: false,
            fail_fast: true,
            scanned: 0,
            skipped: None,
        })
    }

    /// Leaves delimiters at the end of frames. Default: they are taken off.
    pub fn keep_delimiters(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }

    /// Reports a frame that is too long as soon as that is clear (default), or at its end.
    pub fn fail_fast(mut self, fast: bool) -> Self {
        self.fail_fast = fast;
        self
    }

    /// Where the first delimiter ends, and how long it is.
    #[inline]
    fn find(&mut self, bytes: &[u8]) -> Option<(usize, usize)> {
        loop {
            let Some(at) = self.last_bytes.find(&bytes[self.scanned..]) else {
                self.scanned = bytes.len();
                return None;
            };
            self.scanned += at + 1;
            let seen = &bytes[..self.scanned];
            if let Some(delimiter) = self.by_length.iter().find(|delimiter| seen.ends_with(delimiter)) {
                return Some((std::mem::take(&mut self.scanned), delimiter.len()));
            }
        }
    }

    /// No delimiter ends here: keeps what may become a frame, or skips it.
    fn unfinished(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        let most = self.max.saturating_add(self.longest - 1);
        if self.skipped.is_none() && bytes.len() <= most {
            return Ok(None);
        }
        let gone = bytes.len().saturating_sub(self.longest - 1);
        bytes.advance(gone);
        self.scanned = bytes.len();
        let first = self.skipped.is_none();
        let skipped = self.skipped.unwrap_or(0) + gone;
        self.skipped = Some(skipped);
        if first && self.fail_fast { Err(self.too_long(skipped + bytes.len())) } else { Ok(None) }
    }

    #[cold]
    fn too_long(&self, got: usize) -> DecodeError {
        DecodeError::recoverable(FrameError::TooLong { limit: self.max, got })
    }

    #[cfg(test)]
    pub(super) fn scanned(&self) -> usize {
        self.scanned
    }
}

impl Decoder for DelimiterDecoder {
    type Item = Bytes;

    #[inline]
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        loop {
            let Some((end, delimiter)) = self.find(bytes) else { return self.unfinished(bytes) };
            if let Some(skipped) = self.skipped.take() {
                bytes.advance(end);
                if self.fail_fast {
                    continue; // reported when it became too long
                }
                return Err(self.too_long(skipped + end - delimiter));
            }
            let len = end - delimiter;
            if len > self.max {
                bytes.advance(end);
                return Err(self.too_long(len));
            }
            let mut frame = take(bytes, end);
            if !self.keep {
                frame.truncate(len);
            }
            return Ok(Some(frame.freeze()));
        }
    }

    fn decode_last(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        match self.skipped.take() {
            Some(skipped) if !self.fail_fast => Err(self.too_long(skipped + std::mem::take(bytes).len())),
            _ => Ok(None),
        }
    }

    fn wants(&self, more: &[u8]) -> usize {
        self.last_bytes.find(more).map_or(more.len(), |at| at + 1)
    }

    fn limit(&self) -> usize {
        self.max.saturating_add(self.longest)
    }

    fn name(&self) -> &'static str {
        "DelimiterFrames"
    }
}

/// The last bytes of all delimiters.
#[derive(Debug, Clone)]
enum LastBytes {
    One(u8),
    Two(u8, u8),
    Three(u8, u8, u8),
    Many(Arc<[bool; 256]>),
}

impl LastBytes {
    fn of(delimiters: &[Bytes]) -> Self {
        let mut bytes: Vec<u8> =
            delimiters.iter().filter_map(|delimiter| delimiter.last().copied()).collect();
        bytes.sort_unstable();
        bytes.dedup();
        match bytes[..] {
            [a] => Self::One(a),
            [a, b] => Self::Two(a, b),
            [a, b, c] => Self::Three(a, b, c),
            _ => {
                let mut table = [false; 256];
                bytes.iter().for_each(|&byte| table[usize::from(byte)] = true);
                Self::Many(Arc::new(table))
            }
        }
    }

    #[inline]
    fn find(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::One(a) => memchr(*a, bytes),
            Self::Two(a, b) => memchr2(*a, *b, bytes),
            Self::Three(a, b, c) => memchr3(*a, *b, *c, bytes),
            Self::Many(table) => bytes.iter().position(|&byte| table[usize::from(byte)]),
        }
    }
}

/// Puts a delimiter behind each frame that is written. A frame is sent as it is: with a delimiter inside, the peer sees two.
///
/// ```
/// use netwright_codec::{DelimiterEncoder, encode};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(encode(DelimiterEncoder::new("\0"))));
/// channel.write_outbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello\0");
/// ```
#[derive(Debug, Clone)]
pub struct DelimiterEncoder {
    delimiter: Bytes,
}

impl DelimiterEncoder {
    /// This delimiter behind each frame.
    pub fn new(delimiter: impl AsRef<[u8]>) -> Self {
        Self { delimiter: Bytes::copy_from_slice(delimiter.as_ref()) }
    }
}

impl Encoder for DelimiterEncoder {
    type Message = Bytes;

    #[inline]
    fn encode(&mut self, frame: Bytes, out: &mut Batch) -> Result<(), Fault> {
        out.pass(frame);
        out.extend_from_slice(&self.delimiter);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
