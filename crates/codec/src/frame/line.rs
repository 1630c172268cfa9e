//! Lines, ended by LF or CRLF.
//!
//! ```text
//!   bytes:  h e l l o \r \n w o r l d \n u n f i n
//!           └── line ──┘    └─ line ─┘   └ no end in sight: scanned, and not looked at again
//! ```
//! Always true between calls:
//! 1. What is left unfinished holds no LF and at most the limit plus a CR. Its bytes were looked at once.
//! 2. Where a stream is split changes neither the lines nor the errors, but for how much `fail_fast` has seen by then.
//!
//! A line that is too long is an error, once, and not the end: what is left of it is skipped as it comes, and the line
//! after it is read as if nothing had happened. (An error that nobody takes care of closes the channel all the same.) At
//! the channel's end a last line without its end is dropped; one that is too long is reported.
//!
//! Not here: keeping the unfinished line, gathering what is written (`base`), other delimiters (`delimiter`).

use super::FrameError;
use crate::base::{Batch, Coded, DecodeError, Decoder, Encoder, codec, take};
use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;
use netwright_core::Fault;

/// Cuts bytes into lines without their ends, and puts an end to each line that is written.
///
/// ```
/// use netwright_codec::LineFrames;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(1024)));
/// channel.write_inbound(b"one\r\ntw").write_inbound(b"o\nunfinished");
/// assert_eq!(channel.read_inbound().unwrap(), "one");
/// assert_eq!(channel.read_inbound().unwrap(), "two");
/// assert!(channel.read_inbound().is_none());
/// channel.write_outbound("three");
/// assert_eq!(channel.outbound_bytes(), b"three\n");
/// ```
///
/// A line that is written is sent as it is: with an LF inside, the peer sees two.
pub type LineFrames = Coded<(LineDecoder, LineEncoder)>;

impl LineFrames {
    /// Lines of up to `max` bytes, not counting their ends.
    pub fn max(max: usize) -> Self {
        codec((LineDecoder::max(max), LineEncoder::lf()))
    }

    /// Leaves LF or CRLF at the end of each line that is read. Default: they are taken off.
    pub fn keep_ends(mut self, keep: bool) -> Self {
        self.inner_mut().0.keep_ends = keep;
        self
    }

    /// Reports a line that is too long as soon as that is clear, instead of at its end. Default: at its end.
    pub fn fail_fast(mut self, fast: bool) -> Self {
        self.inner_mut().0.fail_fast = fast;
        self
    }

    /// Ends what is written with CRLF, as most protocols of the Internet want it. Default: LF. Both are read.
    pub fn crlf(mut self, crlf: bool) -> Self {
        self.inner_mut().1 = if crlf { LineEncoder::crlf() } else { LineEncoder::lf() };
        self
    }
}

/// Cuts bytes into lines; see [`LineFrames`].
///
/// ```
/// use netwright_codec::{Decoder, LineDecoder};
/// use bytes::BytesMut;
///
/// let (mut lines, mut bytes) = (LineDecoder::max(64), BytesMut::from("one\r\ntw"));
/// assert_eq!(lines.decode(&mut bytes).unwrap().unwrap(), "one");
/// assert!(lines.decode(&mut bytes).unwrap().is_none()); // more is needed
/// ```
#[derive(Debug, Clone)]
pub struct LineDecoder {
    max: usize,
    keep_ends: bool,
    fail_fast: bool,
    /// So many bytes hold no LF.
    scanned: usize,
    skipping: Option<Skipping>,
}

/// A line that is too long and not over yet.
#[derive(Debug, Clone)]
struct Skipping {
    seen: usize,
    /// The last byte was a CR, which may belong to the line's end.
    after_cr: bool,
}

impl LineDecoder {
    /// Lines of up to `max` bytes, not counting their ends.
    pub fn max(max: usize) -> Self {
        Self { max, keep_ends: false, fail_fast: false, scanned: 0, skipping: None }
    }

    /// Leaves LF or CRLF at the end of each line.
    pub fn keep_ends(mut self, keep: bool) -> Self {
        self.keep_ends = keep;
        self
    }

    /// Reports a line that is too long as soon as that is clear, instead of at its end.
    pub fn fail_fast(mut self, fast: bool) -> Self {
        self.fail_fast = fast;
        self
    }

    /// There is no end of a line: keeps what may become one, or skips it.
    fn unfinished(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        let Some(&last) = bytes.last() else { return Ok(None) };
        let (seen, after_cr) = (bytes.len(), last == b'\r');
        if let Some(skipping) = &mut self.skipping {
            *skipping = Skipping { seen: skipping.seen + seen, after_cr };
            bytes.clear();
            return Ok(None);
        }
        if seen - usize::from(after_cr) <= self.max {
            self.scanned = seen;
            return Ok(None);
        }
        self.scanned = 0;
        self.skipping = Some(Skipping { seen, after_cr });
        bytes.clear();
        if self.fail_fast { Err(self.too_long(seen)) } else { Ok(None) }
    }

    /// A line that was too long ends here.
    #[cold]
    fn skipped(&mut self, skipping: &Skipping, bytes: &mut BytesMut, lf: usize) -> Result<(), DecodeError> {
        let after_cr = if lf == 0 { skipping.after_cr } else { bytes[lf - 1] == b'\r' };
        bytes.advance(lf + 1);
        if self.fail_fast {
            return Ok(()); // reported when it became too long
        }
        Err(self.too_long(skipping.seen + lf - usize::from(after_cr)))
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

impl Decoder for LineDecoder {
    type Item = Bytes;

    #[inline]
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        loop {
            let Some(lf) = memchr(b'\n', &bytes[self.scanned..]) else { return self.unfinished(bytes) };
            let lf = lf + std::mem::take(&mut self.scanned);
            if let Some(skipping) = self.skipping.take() {
                self.skipped(&skipping, bytes, lf)?;
                continue;
            }
            let mut line = take(bytes, lf + 1);
            let end = if line.ends_with(b"\r\n") { lf - 1 } else { lf };
            if end > self.max {
                return Err(self.too_long(end));
            }
            if !self.keep_ends {
                line.truncate(end);
            }
            return Ok(Some(line.freeze()));
        }
    }

    fn decode_last(&mut self, _: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        match self.skipping.take() {
            Some(Skipping { seen, after_cr }) if !self.fail_fast => {
                Err(self.too_long(seen - usize::from(after_cr)))
            }
            _ => Ok(None),
        }
    }

    fn wants(&self, more: &[u8]) -> usize {
        memchr(b'\n', more).map_or(more.len(), |lf| lf + 1)
    }

    fn limit(&self) -> usize {
        self.max.saturating_add(1)
    }

    fn name(&self) -> &'static str {
        "LineFrames"
    }
}

/// Puts an end to each line that is written.
///
/// ```
/// use netwright_codec::{LineEncoder, encode};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(encode(LineEncoder::crlf())));
/// channel.write_outbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello\r\n");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct LineEncoder {
    end: &'static [u8],
}

impl LineEncoder {
    /// Ends lines with LF.
    pub const fn lf() -> Self {
        Self { end: b"\n" }
    }

    /// Ends lines with CRLF, as most protocols of the Internet want it.
    pub const fn crlf() -> Self {
        Self { end: b"\r\n" }
    }
}

impl Encoder for LineEncoder {
    type Message = Bytes;

    #[inline]
    fn encode(&mut self, line: Bytes, out: &mut Batch) -> Result<(), Fault> {
        out.pass(line);
        out.extend_from_slice(self.end);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
