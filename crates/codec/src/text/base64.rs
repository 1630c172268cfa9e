//! Bytes written as base64 digits.

use super::TextError;
use crate::base::{DecodeError, MessageCoded, MessageDecoder, MessageEncoder, Messages, message_codec};
use base64::{
    DecodeError as Wrong, Engine,
    engine::general_purpose::{GeneralPurpose, STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use netwright_core::Fault;

/// Makes bytes of frames of base64 digits, and writes bytes as such.
///
/// ```
/// use netwright_codec::{Base64, LineFrames};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(Base64::standard()));
/// channel.write_inbound("aGVsbG8=\n").write_outbound("world");
/// assert_eq!(channel.read_inbound().unwrap(), "hello");
/// assert_eq!(channel.outbound_bytes(), b"d29ybGQ=\n");
/// ```
pub type Base64 = MessageCoded<Base64Codec>;

impl Base64 {
    /// The standard digits, with padding.
    pub fn standard() -> Self {
        message_codec(Base64Codec { engine: &STANDARD })
    }

    /// The standard digits, without padding.
    pub fn standard_unpadded() -> Self {
        message_codec(Base64Codec { engine: &STANDARD_NO_PAD })
    }

    /// Digits that are safe in addresses and file names, with padding.
    pub fn url_safe() -> Self {
        message_codec(Base64Codec { engine: &URL_SAFE })
    }

    /// Digits that are safe in addresses and file names, without padding.
    pub fn url_safe_unpadded() -> Self {
        message_codec(Base64Codec { engine: &URL_SAFE_NO_PAD })
    }
}

/// Bytes as base64 digits; see [`Base64`].
#[derive(Debug, Clone, Copy)]
pub struct Base64Codec {
    engine: &'static GeneralPurpose,
}

const DIGITS: &str = "base64";

impl MessageDecoder for Base64Codec {
    type In = Bytes;
    type Out = Bytes;

    fn decode(&mut self, text: Bytes, out: &mut Messages<Bytes>) -> Result<(), DecodeError> {
        let error = match self.engine.decode(&text) {
            Ok(bytes) => {
                out.push(bytes.into());
                return Ok(());
            }
            Err(Wrong::InvalidByte(at, byte) | Wrong::InvalidLastSymbol { offset: at, symbol: byte, .. }) => {
                TextError::BadDigit { digits: DIGITS, byte, at }
            }
            Err(Wrong::InvalidLength(len)) => TextError::BadLength { digits: DIGITS, len },
            Err(Wrong::InvalidPadding) => TextError::BadPadding { digits: DIGITS },
        };
        Err(DecodeError::recoverable(error))
    }

    fn name(&self) -> &'static str {
        "Base64"
    }
}

impl MessageEncoder for Base64Codec {
    type In = Bytes;
    type Out = Bytes;

    fn encode(&mut self, bytes: Bytes, out: &mut Messages<Bytes>) -> Result<(), Fault> {
        out.push(self.engine.encode(&bytes).into());
        Ok(())
    }
}
