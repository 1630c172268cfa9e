//! postcard: what `serde` knows and nothing else on the wire.

use super::{Notation, SerdeFormat, SerialError, Typed, guard};
use crate::base::MessageCoded;
use ::postcard::{Deserializer, ser_flavors::Flavor, serialize_with_flavor};
use bytes::{Bytes, BytesMut};
use serde::{Serialize, de::DeserializeOwned};

/// Frames of postcard as values of type `R`, and values of type `W` as frames: for two ends that are the same program, or share
/// the crate with its types. No names and no types are sent, so both ends have to agree on every field and its place.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use netwright_codec::serial::{Format, PostcardFormat};
///
/// let (mut format, mut bytes) = (PostcardFormat::new(), BytesMut::new());
/// Format::<(), _>::write(&mut format, &(300u32, "abc", Some(true)), &mut bytes)?;
/// assert_eq!(&bytes[..], b"\xac\x02\x03abc\x01\x01");
/// let value: (u32, String, Option<bool>) = Format::<_, ()>::read(&mut format, bytes.freeze())?;
/// assert_eq!(value, (300, "abc".to_owned(), Some(true)));
/// # Ok::<(), netwright_codec::serial::SerialError>(())
/// ```
///
/// Behind frames: `pipeline().add(frames).add(Postcard::<Request, Reply>::new())`. Settings: [`PostcardFormat`].
pub type Postcard<R, W = R, B = Bytes> = MessageCoded<Typed<PostcardFormat, R, W, B>>;

/// The format of [`Postcard`].
///
/// ```
/// use netwright_codec::{message_codec, serial::{PostcardFormat, Typed}};
///
/// let _stage = message_codec(Typed::<PostcardFormat, Vec<u32>>::with(PostcardFormat::new().depth(16)));
/// ```
pub type PostcardFormat = SerdeFormat<PostcardNotation>;

/// How [`PostcardFormat`] writes values.
#[derive(Debug, Clone, Copy, Default)]
pub struct PostcardNotation;

impl Notation for PostcardNotation {
    const STAGE: &'static str = "Postcard";
    const NAME: &'static str = "postcard";

    #[inline]
    fn read<R: DeserializeOwned>(
        &self,
        message: &[u8],
        depth: usize,
        trailing: bool,
    ) -> Result<R, SerialError> {
        let mut card = Deserializer::from_bytes(message);
        let value = guard::read(Self::NAME, depth, message.len(), &mut card)?;
        let rest = card.finalize().map_or(0, <[u8]>::len);
        if rest > 0 && !trailing {
            let used = message.len() - rest;
            return Err(SerialError::Trailing { format: Self::NAME, used, len: message.len() });
        }
        Ok(value)
    }

    #[inline]
    fn write<W: Serialize>(&self, value: &W, out: &mut BytesMut) -> Result<(), SerialError> {
        serialize_with_flavor(value, Out(out))
            .map_err(|error| SerialError::not_writable(Self::NAME, error.into()))
    }
}

struct Out<'a>(&'a mut BytesMut);

impl Flavor for Out<'_> {
    type Output = ();

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> ::postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
    #[inline]
    fn try_push(&mut self, byte: u8) -> ::postcard::Result<()> {
        self.0.extend_from_slice(&[byte]);
        Ok(())
    }
    fn finalize(self) -> ::postcard::Result<()> {
        Ok(())
    }
}
