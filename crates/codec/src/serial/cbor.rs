//! CBOR, by `minicbor-serde`.

use super::{Notation, SerdeFormat, SerialError, Typed, guard};
use crate::base::MessageCoded;
use bytes::{Bytes, BytesMut};
use minicbor_serde::{Deserializer, Serializer};
use serde::{Serialize, de::DeserializeOwned};
use std::convert::Infallible;

/// Frames of CBOR (RFC 8949) as values of type `R`, and values of type `W` as frames.
///
/// ```
/// use bytes::Bytes;
/// use netwright_codec::serial::{CborFormat, Format};
///
/// let mut format = CborFormat::new();
/// let value: (u8, String) = Format::<_, ()>::read(&mut format, Bytes::from_static(b"\x82\x05\x63abc"))?;
/// assert_eq!(value, (5, "abc".to_owned()));
/// # Ok::<(), netwright_codec::serial::SerialError>(())
/// ```
///
/// Behind frames: `pipeline().add(frames).add(Cbor::<Request, Reply>::new())`. Settings: [`CborFormat`].
///
/// Strings that come in pieces (of indefinite length) are read only where a type takes anything, and tags only where a type
/// asks for them.
pub type Cbor<R, W = R, B = Bytes> = MessageCoded<Typed<CborFormat, R, W, B>>;

/// The format of [`Cbor`].
///
/// ```
/// use netwright_codec::{message_codec, serial::{CborFormat, Typed}};
///
/// let _stage = message_codec(Typed::<CborFormat, Vec<u32>>::with(CborFormat::new().depth(16)));
/// ```
pub type CborFormat = SerdeFormat<CborNotation>;

/// How [`CborFormat`] writes values.
#[derive(Debug, Clone, Copy, Default)]
pub struct CborNotation;

impl Notation for CborNotation {
    const STAGE: &'static str = "Cbor";
    const NAME: &'static str = "CBOR";

    #[inline]
    fn read<R: DeserializeOwned>(
        &self,
        message: &[u8],
        depth: usize,
        trailing: bool,
    ) -> Result<R, SerialError> {
        let mut cbor = Deserializer::new(message);
        let value = guard::read(Self::NAME, depth, message.len(), &mut cbor)?;
        let used = cbor.decoder().position();
        if used < message.len() && !trailing {
            return Err(SerialError::Trailing { format: Self::NAME, used, len: message.len() });
        }
        Ok(value)
    }

    #[inline]
    fn write<W: Serialize>(&self, value: &W, out: &mut BytesMut) -> Result<(), SerialError> {
        value
            .serialize(&mut Serializer::new(Out(out)))
            .map_err(|error| SerialError::not_writable(Self::NAME, error.into()))
    }
}

struct Out<'a>(&'a mut BytesMut);

impl minicbor::encode::Write for Out<'_> {
    type Error = Infallible;

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}
