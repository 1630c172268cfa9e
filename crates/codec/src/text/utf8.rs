//! UTF-8 in frames.

use super::TextError;
use crate::base::{DecodeError, MessageCoded, MessageDecoder, MessageEncoder, Messages, message_codec};
use bytes::Bytes;
use netwright_core::Fault;

/// Makes text of frames, and frames of text.
///
/// ```
/// use netwright_codec::{LineFrames, Utf8};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(Utf8::lossy()));
/// channel.write_inbound(b"gr\xc3\xbc\xc3\x9fe, \xff\n");
/// assert_eq!(channel.read_inbound().as_deref(), Some("grüße, \u{fffd}"));
/// ```
pub type Utf8 = MessageCoded<Utf8Codec>;

impl Utf8 {
    /// A frame that is not UTF-8 is an error.
    pub fn strict() -> Self {
        message_codec(Utf8Codec { lossy: false })
    }

    /// What is not UTF-8 in a frame is replaced by U+FFFD.
    pub fn lossy() -> Self {
        message_codec(Utf8Codec { lossy: true })
    }
}

/// Makes text of frames, and frames of text; see [`Utf8`].
#[derive(Debug, Clone, Copy)]
pub struct Utf8Codec {
    lossy: bool,
}

impl MessageDecoder for Utf8Codec {
    type In = Bytes;
    type Out = String;

    #[inline]
    fn decode(&mut self, frame: Bytes, out: &mut Messages<String>) -> Result<(), DecodeError> {
        match simdutf8::compat::from_utf8(&frame) {
            Ok(text) => out.push(text.to_owned()),
            Err(_) if self.lossy => out.push(String::from_utf8_lossy(&frame).into_owned()),
            Err(error) => {
                let (valid_up_to, len) = (error.valid_up_to(), frame.len());
                return Err(DecodeError::recoverable(TextError::NotUtf8 { valid_up_to, len }));
            }
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "Utf8"
    }
}

impl MessageEncoder for Utf8Codec {
    type In = String;
    type Out = Bytes;

    #[inline]
    fn encode(&mut self, text: String, out: &mut Messages<Bytes>) -> Result<(), Fault> {
        out.push(Bytes::from(text));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LineFrames;
    use netwright_core::{CloseCause, EmbeddedChannel, pipeline};

    #[test]
    fn text_goes_both_ways() {
        let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(Utf8::strict()));
        channel.write_inbound("grüße\n");
        assert_eq!(channel.read_inbound().as_deref(), Some("grüße"));
        channel.write_outbound("zurück".to_owned());
        assert_eq!(channel.outbound_bytes(), "zurück\n".as_bytes());
    }

    #[test]
    fn what_is_not_utf8_closes_with_an_error_that_says_where() {
        let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(Utf8::strict()));
        channel.write_inbound(b"ab\xff\n");
        let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else {
            panic!("not closed by a fault")
        };
        assert_eq!(fault.downcast_ref(), Some(&TextError::NotUtf8 { valid_up_to: 2, len: 3 }));
        assert_eq!(fault.to_string(), "a frame of 3 bytes is not UTF-8: wrong after 2 bytes");
    }

    #[test]
    fn lossy_text_has_replacement_characters_instead() {
        let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(Utf8::lossy()));
        channel.write_inbound(b"ab\xff\n");
        assert_eq!(channel.read_inbound().as_deref(), Some("ab\u{fffd}"));
    }
}
