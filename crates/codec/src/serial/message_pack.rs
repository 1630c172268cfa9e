//! MessagePack, by `rmp-serde`.

use super::{Notation, SerdeFormat, SerialError, Typed, guard};
use crate::base::MessageCoded;
use bytes::{BufMut, Bytes, BytesMut};
use rmp_serde::{Deserializer, decode, encode};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::Cursor;

/// Frames of MessagePack as values of type `R`, and values of type `W` as frames.
///
/// ```
/// use bytes::Bytes;
/// use netwright_codec::serial::{Format, MessagePackFormat};
///
/// let mut format = MessagePackFormat::new();
/// let value: (u8, String) = Format::<_, ()>::read(&mut format, Bytes::from_static(b"\x92\x05\xa3abc"))?;
/// assert_eq!(value, (5, "abc".to_owned()));
/// # Ok::<(), netwright_codec::serial::SerialError>(())
/// ```
///
/// Behind frames: `pipeline().add(frames).add(MessagePack::<Request, Reply>::new())`. Settings: [`MessagePackFormat`].
pub type MessagePack<R, W = R, B = Bytes> = MessageCoded<Typed<MessagePackFormat, R, W, B>>;

/// The format of [`MessagePack`].
///
/// ```
/// use netwright_codec::{message_codec, serial::{MessagePackFormat, Typed}};
///
/// let format = MessagePackFormat::new().named(true).depth(16);
/// let _stage = message_codec(Typed::<MessagePackFormat, Vec<u32>>::with(format));
/// ```
pub type MessagePackFormat = SerdeFormat<MessagePackNotation>;

/// How [`MessagePackFormat`] writes values.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessagePackNotation {
    named: bool,
}

impl MessagePackFormat {
    /// Writes structs as maps with the names of their fields, as programs in Python or JavaScript like them. Default: lists,
    /// which are shorter. Both are read.
    pub fn named(mut self, named: bool) -> Self {
        self.notation.named = named;
        self
    }
}

impl Notation for MessagePackNotation {
    const STAGE: &'static str = "MessagePack";
    const NAME: &'static str = "MessagePack";

    #[inline]
    fn read<R: DeserializeOwned>(
        &self,
        message: &[u8],
        depth: usize,
        trailing: bool,
    ) -> Result<R, SerialError> {
        let mut pack = Deserializer::from_read_ref(message);
        pack.set_max_depth(usize::MAX); // the guard counts, and says what it counted
        let value = guard::read(Self::NAME, depth, message.len(), &mut pack)?;
        // The quick reader does not tell where it is, but that there is no further value's first byte.
        if !trailing && !matches!(bool::deserialize(&mut pack), Err(decode::Error::InvalidMarkerRead(_))) {
            return Err(find_trailing::<R>(depth, message));
        }
        Ok(value)
    }

    #[inline]
    fn write<W: Serialize>(&self, value: &W, out: &mut BytesMut) -> Result<(), SerialError> {
        let mut out = out.writer();
        let written = match self.named {
            true => encode::write_named(&mut out, value),
            false => encode::write(&mut out, value),
        };
        written.map_err(|error| SerialError::not_writable(Self::NAME, error.into()))
    }
}

/// Reads once more, by a reader that tells where it is.
#[cold]
fn find_trailing<R: DeserializeOwned>(depth: usize, message: &[u8]) -> SerialError {
    let mut pack = Deserializer::new(Cursor::new(message));
    pack.set_max_depth(usize::MAX);
    match guard::read::<R, _>(MessagePackNotation::NAME, depth, message.len(), &mut pack) {
        Ok(_) => {
            let used = usize::try_from(pack.position()).unwrap_or(message.len());
            SerialError::Trailing { format: MessagePackNotation::NAME, used, len: message.len() }
        }
        Err(error) => error,
    }
}
