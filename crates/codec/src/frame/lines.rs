//! All the lines of a read as one message.
//!
//! ```text
//!   bytes:  h e l l o \r \n w o r l d \n u n f i n
//!           └────────── one `Lines` ────┘ └ waits for its end
//! ```
//! A line that is a message of its own costs two atomic operations, because it shares a buffer with its neighbours, and a
//! step of the pipeline. Where lines are handled in bulk, as logs and metrics are, one message for all of them costs a
//! fraction of that.
//!
//! Always true: every line of a batch is within the limit. One that is too long is an error between two batches.

use super::LineDecoder;
use crate::base::{DecodeError, Decoder, take};
use bytes::{Bytes, BytesMut};
use memchr::{memchr, memrchr};

/// Cuts bytes behind the last line that is whole: a [`Decoder`] of [`Lines`].
///
/// ```
/// use netwright_codec::{LineBatches, decode};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(decode(LineBatches::max(1024))));
/// channel.write_inbound("one\r\ntwo\nthr").write_inbound("ee\n");
/// let lines = channel.read_inbound().unwrap();
/// assert!(lines.iter().eq([&b"one"[..], b"two"]));
/// assert!(channel.read_inbound().unwrap().iter().eq([b"three"]));
/// ```
#[derive(Debug, Clone)]
pub struct LineBatches {
    max: usize,
    /// So many bytes hold no LF.
    scanned: usize,
    /// Reads a line that is too long, up to its end.
    long: Option<LineDecoder>,
}

impl LineBatches {
    /// Lines of up to `max` bytes, not counting their ends.
    pub fn max(max: usize) -> Self {
        Self { max, scanned: 0, long: None }
    }

    /// How many of these bytes, which end with a line, are lines within the limit.
    fn within(&self, bytes: &[u8]) -> usize {
        if bytes.len() <= self.max {
            return bytes.len();
        }
        let mut within = 0;
        while let Some(lf) = memchr(b'\n', &bytes[within..]) {
            if without_cr(&bytes[within..within + lf]).len() > self.max {
                break;
            }
            within += lf + 1;
        }
        within
    }

    /// A line at the front is too long: reads it up to its end, which may be far.
    #[cold]
    fn skip(&mut self, bytes: &mut BytesMut) -> Result<Option<Lines>, DecodeError> {
        let max = self.max;
        let error = self.long.get_or_insert_with(|| LineDecoder::max(max)).decode(bytes).err();
        match error {
            Some(error) => {
                self.long = None;
                Err(error)
            }
            None => Ok(None),
        }
    }
}

impl Decoder for LineBatches {
    type Item = Lines;

    #[inline]
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Lines>, DecodeError> {
        if self.long.is_some() {
            return self.skip(bytes);
        }
        let scanned = std::mem::take(&mut self.scanned);
        let within = match memrchr(b'\n', &bytes[scanned..]) {
            Some(last) => self.within(&bytes[..=scanned + last]),
            None if without_cr(bytes).len() <= self.max => {
                self.scanned = bytes.len();
                return Ok(None);
            }
            None => 0,
        };
        match within {
            0 => self.skip(bytes),
            within => Ok(Some(Lines(take(bytes, within).freeze()))),
        }
    }

    fn decode_last(&mut self, bytes: &mut BytesMut) -> Result<Option<Lines>, DecodeError> {
        match self.long.take() {
            Some(mut long) => long.decode_last(bytes).map(|_| None),
            None => Ok(None),
        }
    }

    fn wants(&self, more: &[u8]) -> usize {
        memchr(b'\n', more).map_or(more.len(), |lf| lf + 1)
    }

    fn limit(&self) -> usize {
        self.max.saturating_add(1)
    }
}

/// Some lines, one after the other; at least one.
///
/// ```
/// use netwright_codec::{LineBatches, decode};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(decode(LineBatches::max(64))));
/// channel.write_inbound("one\ntwo\nthr");
/// let lines = channel.read_inbound().unwrap();
/// assert_eq!(lines.iter().collect::<Vec<_>>(), ["one".as_bytes(), b"two"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines(Bytes);

impl Lines {
    /// The lines without their ends.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut left = &self.0[..];
        std::iter::from_fn(move || {
            let lf = memchr(b'\n', left)?;
            let line = &left[..lf];
            left = &left[lf + 1..];
            Some(without_cr(line))
        })
    }

    /// The lines as they came, with their ends.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

#[inline]
fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Intake;

    /// All lines and errors of these pieces, and how many messages they were.
    fn lines<'a>(max: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<String>, usize) {
        let (mut decoder, mut intake) = (LineBatches::max(max), Intake::default());
        let (mut all, mut messages) = (Vec::new(), 0);
        for piece in pieces {
            intake.feed(BytesMut::from(piece));
            while let Some(result) = intake.next(&mut decoder) {
                messages += 1;
                match result {
                    Ok(lines) => all.extend(lines.iter().map(|line| line.escape_ascii().to_string())),
                    Err(error) => all.push(error.to_string()),
                }
            }
        }
        (all, messages)
    }

    #[test]
    fn a_read_of_lines_is_one_message_and_the_lines_are_those_of_line_frames() {
        assert_eq!(
            lines(100, [&b"one\r\n\ntwo\nrest"[..]]),
            (["one", "", "two"].map(str::to_owned).to_vec(), 1)
        );
        let stream = b"a\nbb\r\nmuch too long\n\r\nccc\r\n\ndddd\neeeee\nf\r\r\nxxxxxxxxxxx\r\ng\n";
        let (whole, _) = lines(4, [&stream[..]]);
        let error = |got| format!("a frame of {got} bytes or more, the limit is 4");
        let (long, five, eleven) = (error(13), error(5), error(11));
        assert_eq!(whole, ["a", "bb", &long, "", "ccc", "", "dddd", &five, "f\\r", &eleven, "g"]);
        assert_eq!(lines(4, stream.chunks(1)).0, whole);
        for split in 0..stream.len() {
            let (before, behind) = stream.split_at(split);
            assert_eq!(lines(4, [before, behind]).0, whole, "split at {split}");
        }
    }
}
