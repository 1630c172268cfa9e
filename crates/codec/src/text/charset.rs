//! Text in other charsets than UTF-8, in frames.

use super::TextError;
use crate::{
    base::{DecodeError, MessageCoded, MessageDecoder, MessageEncoder, Messages, message_codec},
    frame::Impossible,
};
use bytes::Bytes;
use encoding_rs::{EncoderResult, Encoding, UTF_16BE, UTF_16LE};
use netwright_core::Fault;

/// Makes text of frames in any charset that the Web knows, and frames of text.
///
/// ```
/// use netwright_codec::{Charset, LineFrames};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let latin = Charset::strict("windows-1252")?;
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(latin));
/// channel.write_inbound(b"gr\xfc\xdfe\n").write_outbound("zurück".to_owned());
/// assert_eq!(channel.read_inbound().as_deref(), Some("grüße"));
/// assert_eq!(channel.outbound_bytes(), b"zur\xfcck\n");
///
/// let error = Charset::strict("windows-9").err().unwrap();
/// assert_eq!(error.to_string(), "charset cannot be windows-9: no such label in the WHATWG Encoding Standard");
/// # Ok::<(), netwright_codec::Impossible>(())
/// ```
pub type Charset = MessageCoded<CharsetCodec>;

impl Charset {
    /// A frame that is not in the charset is an error, and so is a character that it does not have.
    pub fn strict(label: &str) -> Result<Self, Impossible> {
        Ok(message_codec(CharsetCodec { encoding: by_label(label)?, lossy: false }))
    }

    /// What is not in the charset is read as U+FFFD and written as a question mark.
    pub fn lossy(label: &str) -> Result<Self, Impossible> {
        Ok(message_codec(CharsetCodec { encoding: by_label(label)?, lossy: true }))
    }
}

fn by_label(label: &str) -> Result<&'static Encoding, Impossible> {
    let unknown = || Impossible::new("charset", label, "no such label in the WHATWG Encoding Standard");
    Encoding::for_label_no_replacement(label.as_bytes()).ok_or_else(unknown)
}

/// Text in another charset; see [`Charset`].
#[derive(Debug, Clone, Copy)]
pub struct CharsetCodec {
    encoding: &'static Encoding,
    lossy: bool,
}

impl MessageDecoder for CharsetCodec {
    type In = Bytes;
    type Out = String;

    fn decode(&mut self, frame: Bytes, out: &mut Messages<String>) -> Result<(), DecodeError> {
        let (text, wrong) = self.encoding.decode_without_bom_handling(&frame);
        if wrong && !self.lossy {
            let (charset, len) = (self.encoding.name(), frame.len());
            return Err(DecodeError::recoverable(TextError::NotInCharset { charset, len }));
        }
        out.push(text.into_owned());
        Ok(())
    }

    fn name(&self) -> &'static str {
        "Charset"
    }
}

impl MessageEncoder for CharsetCodec {
    type In = String;
    type Out = Bytes;

    fn encode(&mut self, text: String, out: &mut Messages<Bytes>) -> Result<(), Fault> {
        // The Web reads UTF-16 and never writes it, and so does the crate.
        if self.encoding == UTF_16LE {
            out.push(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
        } else if self.encoding == UTF_16BE {
            out.push(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
        } else {
            out.push(self.encode_bytes(&text)?.into());
        }
        Ok(())
    }
}

impl CharsetCodec {
    fn encode_bytes(&self, text: &str) -> Result<Vec<u8>, TextError> {
        let mut encoder = self.encoding.new_encoder();
        let mut bytes = Vec::with_capacity(text.len() + 8);
        let mut left = text;
        loop {
            let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(left, &mut bytes, true);
            left = &left[read..];
            match result {
                EncoderResult::InputEmpty => return Ok(bytes),
                EncoderResult::OutputFull => bytes.reserve(left.len() + 8),
                EncoderResult::Unmappable(_) if self.lossy => bytes.push(b'?'),
                EncoderResult::Unmappable(character) => {
                    return Err(TextError::NoSuchCharacter { charset: self.encoding.name(), character });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codec(label: &str, lossy: bool) -> CharsetCodec {
        CharsetCodec { encoding: by_label(label).unwrap(), lossy }
    }

    fn decoded(mut codec: CharsetCodec, bytes: &'static [u8]) -> Result<String, String> {
        let mut out = Messages::new();
        codec.decode(Bytes::from_static(bytes), &mut out).map_err(|error| error.to_string())?;
        Ok(out.pop().unwrap())
    }

    fn encoded(mut codec: CharsetCodec, text: &str) -> Result<Bytes, String> {
        let mut out = Messages::new();
        codec.encode(text.to_owned(), &mut out).map_err(|fault| fault.to_string())?;
        Ok(out.pop().unwrap())
    }

    #[test]
    fn texts_come_back_as_they_went() {
        for label in ["utf-8", "windows-1252", "utf-16le", "utf-16be", "iso-8859-15"] {
            let bytes = encoded(codec(label, false), "grüße €").unwrap();
            let mut out = Messages::new();
            codec(label, false).decode(bytes, &mut out).unwrap();
            assert_eq!(out.pop().unwrap(), "grüße €", "{label}");
        }
        for label in ["shift_jis", "gb18030", "euc-kr", "big5"] {
            assert_eq!(encoded(codec(label, false), &"中".repeat(3000)).unwrap().len(), 6000, "{label}");
        }
    }

    #[test]
    fn what_a_charset_does_not_have_is_an_error_or_replaced() {
        assert_eq!(
            decoded(codec("shift_jis", false), b"ab\x81"),
            Err("a frame of 3 bytes is not Shift_JIS".to_owned())
        );
        assert_eq!(decoded(codec("shift_jis", true), b"ab\x81"), Ok("ab\u{fffd}".to_owned()));
        let error = Err("windows-1252 has no '☃'".to_owned());
        assert_eq!(encoded(codec("latin1", false), "a☃b"), error);
        assert_eq!(encoded(codec("latin1", true), "a☃b"), Ok(Bytes::from("a?b")));
    }
}
