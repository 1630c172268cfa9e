//! Bytes written as hexadecimal digits.

use super::TextError;
use crate::base::{DecodeError, MessageCoded, MessageDecoder, MessageEncoder, Messages, message_codec};
use bytes::Bytes;
use netwright_core::Fault;

/// Makes bytes of frames of hexadecimal digits, upper or lower case, and writes bytes as such.
///
/// ```
/// use netwright_codec::{Hex, LineFrames};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(Hex::lower()));
/// channel.write_inbound("CAfe\n").write_outbound(b"\xca\xfe");
/// assert_eq!(channel.read_inbound().unwrap(), b"\xca\xfe"[..]);
/// assert_eq!(channel.outbound_bytes(), b"cafe\n");
/// ```
pub type Hex = MessageCoded<HexCodec>;

impl Hex {
    /// Writes digits from `a` to `f`.
    pub fn lower() -> Self {
        message_codec(HexCodec { digits: b"0123456789abcdef" })
    }

    /// Writes digits from `A` to `F`.
    pub fn upper() -> Self {
        message_codec(HexCodec { digits: b"0123456789ABCDEF" })
    }
}

/// Bytes as hexadecimal digits; see [`Hex`].
#[derive(Debug, Clone, Copy)]
pub struct HexCodec {
    digits: &'static [u8; 16],
}

impl MessageDecoder for HexCodec {
    type In = Bytes;
    type Out = Bytes;

    fn decode(&mut self, text: Bytes, out: &mut Messages<Bytes>) -> Result<(), DecodeError> {
        if !text.len().is_multiple_of(2) {
            return Err(DecodeError::recoverable(TextError::BadLength { digits: "hex", len: text.len() }));
        }
        let digit = |at: usize| {
            let byte = text[at];
            let wrong = TextError::BadDigit { digits: "hex", byte, at };
            char::from(byte).to_digit(16).map(|digit| digit as u8).ok_or(wrong)
        };
        let byte = |at| Ok::<u8, TextError>(digit(at)? << 4 | digit(at + 1)?);
        let bytes: Result<Vec<u8>, _> = (0..text.len()).step_by(2).map(byte).collect();
        out.push(bytes.map_err(DecodeError::recoverable)?.into());
        Ok(())
    }

    fn name(&self) -> &'static str {
        "Hex"
    }
}

impl MessageEncoder for HexCodec {
    type In = Bytes;
    type Out = Bytes;

    fn encode(&mut self, bytes: Bytes, out: &mut Messages<Bytes>) -> Result<(), Fault> {
        let digit = |four: u8| self.digits[usize::from(four)];
        out.push(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect());
        Ok(())
    }
}
