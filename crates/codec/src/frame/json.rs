//! JSON values, cut where the bracket closes that opened them.
//!
//! ```text
//!   {"a":"}"}  [1,{"b":2}]         two frames; braces in strings do not count
//!   [ 1 , {"b":2} , "x" ]          with `stream_arrays`: three frames, `1`, `{"b":2}` and `"x"`
//! ```
//! Always true between calls:
//! 1. The unfinished value begins at the first byte that is kept. `scanned` bytes of it were looked at, and are not again.
//! 2. `open` has a bit for each bracket that is open, 1 for a brace; at most [`DEPTH_MAX`] are.
//! 3. A value that is too long is reported once and skipped up to its end, and nothing of it is kept.
//!
//! What cannot be JSON at that place, nesting that is too deep and a bracket that closes another one are fatal: nobody knows
//! where the next value begins. What stands between the brackets is not looked at: that is the parser's work.

use super::FrameError;
use crate::base::{Batch, Coded, DecodeError, Decoder, Encoder, codec, take};
use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr2;
use netwright_core::Fault;

/// Cuts bytes into JSON objects and arrays; what is written is sent as it is.
///
/// ```
/// use netwright_codec::JsonFrames;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(JsonFrames::max(1024)));
/// channel.write_inbound(r#"{"brace":"}"} [1,"#).write_inbound("2]");
/// assert_eq!(channel.read_inbound().unwrap(), r#"{"brace":"}"}"#);
/// assert_eq!(channel.read_inbound().unwrap(), "[1,2]");
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(JsonFrames::max(1024).stream_arrays(true)));
/// channel.write_inbound(r#"[ 1 , {"two":2}"#);
/// assert_eq!(channel.read_inbound().unwrap(), "1");
/// assert_eq!(channel.read_inbound().unwrap(), r#"{"two":2}"#);
/// ```
pub type JsonFrames = Coded<(JsonDecoder, JsonEncoder)>;

impl JsonFrames {
    /// Values of up to `max` bytes.
    pub fn max(max: usize) -> Self {
        codec((JsonDecoder::max(max), JsonEncoder))
    }

    /// Passes on the elements of an outermost array one by one, as soon as each is there. Default: the array as one.
    pub fn stream_arrays(mut self, stream: bool) -> Self {
        self.inner_mut().0.stream_arrays = stream;
        self
    }

    /// Reports a value that is too long as soon as that is clear (default), or at its end.
    pub fn fail_fast(mut self, fast: bool) -> Self {
        self.inner_mut().0.fail_fast = fast;
        self
    }
}

/// How deep objects and arrays may nest: as deep as parsers follow them.
const DEPTH_MAX: usize = 128;

/// Cuts bytes into JSON values; see [`JsonFrames`].
///
/// ```
/// use netwright_codec::{Decoder, JsonDecoder};
/// use bytes::BytesMut;
///
/// let (mut values, mut bytes) = (JsonDecoder::max(1024), BytesMut::from("{\"a\": \"}\"} [1"));
/// assert_eq!(values.decode(&mut bytes).unwrap().unwrap(), "{\"a\": \"}\"}");
/// assert!(values.decode(&mut bytes).unwrap().is_none());
/// ```
#[derive(Debug, Clone)]
pub struct JsonDecoder {
    max: usize,
    stream_arrays: bool,
    fail_fast: bool,
    /// Inside an array whose elements are passed on: what may come next.
    array: Option<Expect>,
    open: u128,
    depth: usize,
    string: Text,
    /// How many bytes of the value were looked at.
    scanned: usize,
    /// Of a value that is too long: how many bytes of it are gone.
    skipped: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

/// What may come between two elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// `[` was the last thing.
    FirstOrEnd,
    /// `,` was.
    Element,
    /// An element was, up to its bracket or quote.
    CommaOrEnd,
}

impl JsonDecoder {
    /// Values of up to `max` bytes.
    pub fn max(max: usize) -> Self {
        Self {
            max,
            stream_arrays: false,
            fail_fast: true,
            array: None,
            open: 0,
            depth: 0,
            string: Text::Outside,
            scanned: 0,
            skipped: None,
        }
    }

    /// Passes on the elements of an outermost array one by one, as soon as each is there. Default: the array as one.
    pub fn stream_arrays(mut self, stream: bool) -> Self {
        self.stream_arrays = stream;
        self
    }

    /// Reports a value that is too long as soon as that is clear (default), or at its end.
    pub fn fail_fast(mut self, fast: bool) -> Self {
        self.fail_fast = fast;
        self
    }

    /// Whether no value has begun.
    fn is_between(&self) -> bool {
        self.scanned == 0 && self.skipped.is_none()
    }

    /// Takes off what stands between values. True if a value begins here.
    fn begin(&mut self, bytes: &mut BytesMut) -> Result<bool, FrameError> {
        loop {
            let blank = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
            bytes.advance(blank);
            let Some(&byte) = bytes.first() else { return Ok(false) };
            let wrong = FrameError::NotJson { byte, at: 0 };
            self.array = match (self.array, byte) {
                (None, b'[') if self.stream_arrays => Some(Expect::FirstOrEnd),
                (None, b'{' | b'[') => return Ok(true),
                (None, _) => return Err(wrong),
                (Some(Expect::FirstOrEnd | Expect::CommaOrEnd), b']') => None,
                (Some(Expect::CommaOrEnd), b',') => Some(Expect::Element),
                (Some(Expect::CommaOrEnd), _) | (Some(_), b',' | b':' | b'}' | b']') => return Err(wrong),
                (Some(_), _) => return Ok(true),
            };
            bytes.advance(1);
        }
    }

    /// Looks for the end of the value, from where it stopped: behind its last byte.
    fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        while let Some(&byte) = bytes.get(self.scanned) {
            match self.string {
                Text::Outside => {
                    if let Some(end) = self.outside(byte)? {
                        return Ok(Some(end));
                    }
                }
                Text::Escaped => self.string = Text::Inside,
                Text::Inside => match memchr2(b'"', b'\\', &bytes[self.scanned..]) {
                    None => {
                        self.scanned = bytes.len();
                        return Ok(None);
                    }
                    Some(at) => {
                        self.scanned += at;
                        let quote = bytes[self.scanned] == b'"';
                        self.string = if quote { Text::Outside } else { Text::Escaped };
                        if quote && self.depth == 0 {
                            return Ok(Some(self.scanned + 1)); // a string is an element
                        }
                    }
                },
            }
            self.scanned += 1;
        }
        Ok(None)
    }

    /// A byte of the value that is in no string.
    #[inline]
    fn outside(&mut self, byte: u8) -> Result<Option<usize>, FrameError> {
        let at = self.scanned;
        match byte {
            b'"' => self.string = Text::Inside,
            b'{' | b'[' => {
                if self.depth == DEPTH_MAX {
                    return Err(FrameError::TooDeep { limit: DEPTH_MAX });
                }
                self.depth += 1;
                self.open = self.open << 1 | u128::from(byte == b'{');
            }
            b',' | b']' | b'}' if self.depth == 0 => return Ok(Some(at)), // a number ends before it
            b'}' | b']' => {
                if (self.open & 1 == 1) != (byte == b'}') {
                    return Err(FrameError::NotJson { byte, at: at + self.skipped.unwrap_or(0) });
                }
                self.depth -= 1;
                self.open >>= 1;
                if self.depth == 0 {
                    return Ok(Some(at + 1));
                }
            }
            b' ' | b'\t' | b'\n' | b'\r' if self.depth == 0 => return Ok(Some(at)),
            _ => {}
        }
        Ok(None)
    }

    /// The value has no end here: keeps it, or skips it.
    fn unfinished(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        if self.skipped.is_none() && bytes.len() <= self.max {
            return Ok(None);
        }
        let skipped = self.skipped.unwrap_or(0) + bytes.len();
        bytes.clear();
        self.scanned = 0;
        if self.skipped.replace(skipped).is_none() && self.fail_fast {
            return Err(self.too_long(skipped));
        }
        Ok(None)
    }

    /// A number that was too long ended with the byte before this one, which is taken off: an error has to take off one.
    #[cold]
    fn behind_skipped(&mut self, bytes: &mut BytesMut) -> Result<(), FrameError> {
        self.array = match bytes.get_u8() {
            b',' => Some(Expect::Element),
            b']' => None,
            byte @ b'}' => return Err(FrameError::NotJson { byte, at: 0 }),
            _ => Some(Expect::CommaOrEnd),
        };
        Ok(())
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

impl Decoder for JsonDecoder {
    type Item = Bytes;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        loop {
            if self.is_between() && !self.begin(bytes)? {
                return Ok(None);
            }
            let Some(end) = self.scan(bytes)? else { return self.unfinished(bytes) };
            self.scanned = 0;
            self.array = self.array.map(|_| Expect::CommaOrEnd);
            let len = end + self.skipped.unwrap_or(0);
            if len > self.max {
                bytes.advance(end);
                if end == 0 {
                    self.behind_skipped(bytes)?;
                }
                if self.skipped.take().is_some() && self.fail_fast {
                    continue; // reported when it became too long
                }
                return Err(self.too_long(len));
            }
            return Ok(Some(take(bytes, end).freeze()));
        }
    }

    fn decode_last(&mut self, _: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        match self.skipped.take() {
            Some(skipped) if !self.fail_fast => Err(self.too_long(skipped)),
            _ => Ok(None),
        }
    }

    fn limit(&self) -> usize {
        self.max
    }

    fn name(&self) -> &'static str {
        "JsonFrames"
    }
}

/// Writes JSON as it is: a value tells where it ends.
///
/// ```
/// use netwright_codec::JsonFrames;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// // The other half of `JsonFrames`.
/// let mut channel = EmbeddedChannel::new(pipeline().add(JsonFrames::max(64)));
/// channel.write_outbound("[1]");
/// assert_eq!(channel.outbound_bytes(), b"[1]");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct JsonEncoder;

impl Encoder for JsonEncoder {
    type Message = Bytes;

    #[inline]
    fn encode(&mut self, value: Bytes, out: &mut Batch) -> Result<(), Fault> {
        out.pass(value);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
