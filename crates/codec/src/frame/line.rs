//! Lines, ended by LF or CRLF.
//!
//! ```text
//!   input:  h e l l o \r \n w o r l d \n u n f i n        what was read, in the loop's own buffer
//!           └── line ──┘    └─ line ─┘   └ no end in sight: moves to `rest`, a small buffer of its own
//!   rest:   u n f i n ── the next read's bytes up to the first LF ──▶ line
//! ```
//! Always true between calls:
//! 1. `rest` holds no LF and at most the limit plus a CR. Its bytes were looked at once and are not looked at again.
//! 2. When `pull` has answered `None`, `input` is empty: nothing of the loop's buffer is kept. At most one line of a read
//!    is copied; the others are pieces of what was read.
//! 3. Where a stream is split changes neither the lines nor the errors, but for how much `fail_fast` has seen by then.
//!
//! A line that is too long is an error, once, and not the end: what is left of it is skipped as it comes, and the line
//! after it is read as if nothing had happened. (An error that nobody takes care of closes the channel all the same.) At
//! the channel's end a last line without its end is dropped.
//!
//! Not here: gathering what is written (`gather`), other delimiters.

use super::FrameError;
use crate::gather::Gather;
use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;
use netwright_core::{Context, Handler, Leftover, WritePromise};

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
/// channel.write_outbound("three".into());
/// assert_eq!(channel.outbound_bytes(), b"three\n");
/// ```
///
/// A line that is written is sent as it is: with an LF inside, the peer sees two.
#[derive(Debug)]
pub struct LineFrames {
    decoder: LineDecoder,
    gather: Gather,
    end: &'static [u8],
}

impl LineFrames {
    /// Lines of up to `max` bytes, not counting their ends.
    pub fn max(max: usize) -> Self {
        Self { decoder: LineDecoder::new(max), gather: Gather::default(), end: b"\n" }
    }

    /// Leaves LF or CRLF at the end of each line that is read. Default: they are taken off.
    pub fn keep_ends(mut self, keep: bool) -> Self {
        self.decoder.keep_ends = keep;
        self
    }

    /// Reports a line that is too long as soon as that is clear, instead of at its end. Default: at its end.
    pub fn fail_fast(mut self, fast: bool) -> Self {
        self.decoder.fail_fast = fast;
        self
    }

    /// Ends what is written with CRLF, as most protocols of the Internet want it. Default: LF. Both are read.
    pub fn crlf(mut self, crlf: bool) -> Self {
        self.end = if crlf { b"\r\n" } else { b"\n" };
        self
    }
}

impl Handler for LineFrames {
    type Read = BytesMut;
    type ReadOut = Bytes;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn read(&mut self, _: &mut Context<'_, Self>, bytes: BytesMut) {
        self.decoder.feed(bytes);
    }

    fn pull(&mut self, cx: &mut Context<'_, Self>) -> Option<Bytes> {
        loop {
            match self.decoder.next()? {
                Ok(line) => return Some(line),
                Err(error) => cx.fire_error(error),
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, line: Bytes, done: WritePromise) {
        self.gather.write(cx, line, self.end, done);
    }

    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        self.gather.pass_on(cx);
        cx.flush();
    }

    fn leftover(&mut self) -> Leftover<BytesMut> {
        self.decoder.leftover().map_or_else(Leftover::nothing, Leftover::one)
    }
}

/// Room for an unfinished line: most lines fit, and an idle connection may hold that much.
const REST_ROOM_MIN: usize = 64;

/// Decides what is a line; knows no channel.
#[derive(Debug)]
struct LineDecoder {
    max: usize,
    keep_ends: bool,
    fail_fast: bool,
    input: BytesMut,
    rest: BytesMut,
    skipping: Option<Skipping>,
}

/// A line that is too long and not over yet.
#[derive(Debug)]
struct Skipping {
    seen: usize,
    /// The last byte was a CR, which may belong to the line's end.
    after_cr: bool,
}

impl LineDecoder {
    fn new(max: usize) -> Self {
        Self {
            max,
            keep_ends: false,
            fail_fast: false,
            input: BytesMut::new(),
            rest: BytesMut::new(),
            skipping: None,
        }
    }

    fn feed(&mut self, bytes: BytesMut) {
        if self.input.is_empty() {
            self.input = bytes;
        } else {
            self.input.unsplit(bytes); // a stage in front passes on several pieces before we are asked for lines
        }
    }

    /// The next line, or what is wrong with it. `None`: more bytes are needed.
    fn next(&mut self) -> Option<Result<Bytes, FrameError>> {
        loop {
            let Some(lf) = memchr(b'\n', &self.input) else { return self.put_aside().map(Err) };
            if let Some(skipping) = self.skipping.take() {
                let after_cr = if lf == 0 { skipping.after_cr } else { self.input[lf - 1] == b'\r' };
                self.input.advance(lf + 1);
                if self.fail_fast {
                    continue; // reported when it became too long
                }
                return Some(Err(self.too_long(skipping.seen + lf - usize::from(after_cr))));
            }
            let mut line = self.take(lf + 1);
            let end = if line.ends_with(b"\r\n") { line.len() - 2 } else { line.len() - 1 };
            if end > self.max {
                return Some(Err(self.too_long(end)));
            }
            if !self.keep_ends {
                line.truncate(end);
            }
            return Some(Ok(line.freeze()));
        }
    }

    /// The rest and so many bytes of the input.
    fn take(&mut self, len: usize) -> BytesMut {
        if !self.rest.is_empty() {
            let mut line = std::mem::take(&mut self.rest);
            line.extend_from_slice(&self.input[..len]);
            self.input.advance(len);
            return line;
        }
        if self.input.len() == len {
            return std::mem::take(&mut self.input); // the usual case of one line in a read: nothing to be shared
        }
        self.input.split_to(len)
    }

    /// The input holds no end of a line: keeps what may become one, in a buffer of its own, or skips it.
    fn put_aside(&mut self) -> Option<FrameError> {
        let input = std::mem::take(&mut self.input);
        let after_cr = *input.last()? == b'\r';
        if let Some(skipping) = &mut self.skipping {
            *skipping = Skipping { seen: skipping.seen + input.len(), after_cr };
            return None;
        }
        let seen = self.rest.len() + input.len();
        if seen - usize::from(after_cr) <= self.max {
            if self.rest.is_empty() {
                self.rest.reserve((2 * seen).max(REST_ROOM_MIN).min(self.max.saturating_add(2))); // for what is still to come
            }
            self.rest.extend_from_slice(&input);
            return None;
        }
        self.rest = BytesMut::new();
        self.skipping = Some(Skipping { seen, after_cr });
        self.fail_fast.then(|| self.too_long(seen))
    }

    fn too_long(&self, got: usize) -> FrameError {
        FrameError::TooLong { limit: self.max, got }
    }

    /// What was read and is in no line.
    fn leftover(&mut self) -> Option<BytesMut> {
        let mut rest = std::mem::take(&mut self.rest);
        let input = std::mem::take(&mut self.input);
        if rest.is_empty() {
            rest = input;
        } else {
            rest.unsplit(input);
        }
        (!rest.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests;
