//! UTF-8 in a stream that has no frames: text as it comes.
//!
//! ```text
//!   read:  g r 0xc3 │ 0xbc n          the first byte of a character waits for the second
//!   text:  "gr"       "ün"
//! ```
//! Always true: how a stream is split changes where the texts are split, but not what they say together. At most three bytes
//! wait.

use super::TextError;
use crate::base::{Batch, Coded, DecodeError, Decoder, Encoder, codec};
use bytes::{Buf, Bytes, BytesMut};
use netwright_core::Fault;
use simdutf8::compat::from_utf8;

/// Makes text of a stream as it comes, and writes text as it is.
///
/// ```
/// use netwright_codec::Utf8Stream;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(Utf8Stream::strict()));
/// channel.write_inbound(b"gr\xc3").write_inbound(b"\xbcn");
/// assert_eq!(channel.read_inbound().as_deref(), Some("gr"));
/// assert_eq!(channel.read_inbound().as_deref(), Some("ün"));
/// ```
pub type Utf8Stream = Coded<Utf8StreamCodec>;

impl Utf8Stream {
    /// A stream that is not UTF-8 is a fatal error.
    pub fn strict() -> Self {
        codec(Utf8StreamCodec { lossy: false, taken: 0 })
    }

    /// What is not UTF-8 in a stream is replaced by U+FFFD, as [`String::from_utf8_lossy`] does it.
    pub fn lossy() -> Self {
        codec(Utf8StreamCodec { lossy: true, taken: 0 })
    }
}

/// Makes text of a stream as it comes; see [`Utf8Stream`].
#[derive(Debug, Clone)]
pub struct Utf8StreamCodec {
    lossy: bool,
    /// How many bytes of the stream were text so far.
    taken: u64,
}

/// What a character has at most.
const CHARACTER_MAX: usize = 4;

impl Utf8StreamCodec {
    fn fail<T>(&self, valid: usize) -> Result<T, DecodeError> {
        Err(TextError::NotUtf8Stream { after: self.taken + valid as u64 }.into())
    }

    fn take(&mut self, bytes: &mut BytesMut, len: usize) {
        bytes.advance(len);
        self.taken += len as u64;
    }
}

impl Decoder for Utf8StreamCodec {
    type Item = String;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<String>, DecodeError> {
        let mut text = String::new();
        while !bytes.is_empty() {
            let (valid, wrong) = match from_utf8(bytes) {
                Ok(all) => {
                    text.push_str(all);
                    self.take(bytes, bytes.len());
                    break;
                }
                Err(error) => (error.valid_up_to(), error.error_len()),
            };
            // Valid by what was just said, so nothing is replaced here.
            text.push_str(&String::from_utf8_lossy(&bytes[..valid]));
            match wrong {
                None => {
                    self.take(bytes, valid); // the rest begins a character
                    break;
                }
                Some(_) if !self.lossy && text.is_empty() => return self.fail(valid),
                Some(_) if !self.lossy => {
                    self.take(bytes, valid); // what was text before comes first, then the error
                    break;
                }
                Some(wrong) => {
                    text.push(char::REPLACEMENT_CHARACTER);
                    self.take(bytes, valid + wrong);
                }
            }
        }
        Ok((!text.is_empty()).then_some(text))
    }

    fn decode_last(&mut self, bytes: &mut BytesMut) -> Result<Option<String>, DecodeError> {
        match (bytes.is_empty(), self.lossy) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(char::REPLACEMENT_CHARACTER.to_string())),
            (false, false) => self.fail(0),
        }
    }

    fn limit(&self) -> usize {
        CHARACTER_MAX
    }

    fn name(&self) -> &'static str {
        "Utf8Stream"
    }
}

impl Encoder for Utf8StreamCodec {
    type Message = String;

    fn encode(&mut self, text: String, out: &mut Batch) -> Result<(), Fault> {
        out.pass(Bytes::from(text));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright_core::{CloseCause, EmbeddedChannel, pipeline};

    const SAMPLES: [&[u8]; 8] = [
        b"plain",
        "grüße, ☃ und 🦀".as_bytes(),
        b"a\xffb\xc3",
        b"\xf0\x9f\xa6",
        b"\xf0\x9f\xa6x\xe2\x98",
        b"\xed\xa0\x80 \xc0\xaf \xf5\x80",
        b"\x80\x80\xe2\x28\xa1",
        b"",
    ];

    /// Everything that comes of these pieces, as one, and whether it ended well.
    fn together<'a>(stage: Utf8Stream, pieces: impl IntoIterator<Item = &'a [u8]>) -> (String, bool) {
        let mut channel = EmbeddedChannel::new(pipeline().add(stage));
        for piece in pieces {
            channel.write_inbound(piece);
        }
        channel.close_by_peer();
        let text = std::iter::from_fn(|| channel.read_inbound()).collect();
        (text, matches!(channel.channel().close_cause(), Some(CloseCause::PeerClosed)))
    }

    #[test]
    fn lossy_text_is_the_same_however_it_is_split() {
        for sample in SAMPLES {
            let expected = String::from_utf8_lossy(sample);
            for split in 0..=sample.len() {
                let (before, behind) = sample.split_at(split);
                assert_eq!(together(Utf8Stream::lossy(), [before, behind]).0, expected, "split at {split}");
            }
            assert_eq!(together(Utf8Stream::lossy(), sample.chunks(1)).0, expected);
        }
    }

    #[test]
    fn strict_text_ends_where_it_is_none_however_it_is_split() {
        for sample in SAMPLES {
            let valid = std::str::from_utf8(sample).map_or_else(|error| error.valid_up_to(), str::len);
            let expected = std::str::from_utf8(&sample[..valid]).unwrap();
            for split in 0..=sample.len() {
                let (before, behind) = sample.split_at(split);
                let (text, _) = together(Utf8Stream::strict(), [before, behind]);
                assert_eq!(text, expected, "split at {split}");
            }
        }
    }

    #[test]
    fn an_error_says_after_how_many_bytes_of_the_stream() {
        let mut channel = EmbeddedChannel::new(pipeline().add(Utf8Stream::strict()));
        channel.write_inbound("grün").write_inbound(b"abc\xff");
        let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else {
            panic!("not by a fault")
        };
        assert_eq!(fault.to_string(), "the stream is not UTF-8: wrong after 8 bytes");
    }
}
