//! CBOR, by `minicbor-serde`.

use super::{DEPTH_MAX, Format, SerialError, Typed, guard};
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
#[derive(Debug, Clone, Copy)]
pub struct CborFormat {
    depth: usize,
    trailing: bool,
}

impl CborFormat {
    /// Up to [`DEPTH_MAX`] levels, and nothing behind the value.
    pub fn new() -> Self {
        Self { depth: DEPTH_MAX, trailing: false }
    }

    /// Arrays, maps, enums and `Some`s inside each other, at most so many. Each level takes stack: thousands need a thread
    /// with a large one. Default: [`DEPTH_MAX`]. What a type does not want is skipped, however deep it is.
    pub fn depth(mut self, max: usize) -> Self {
        self.depth = max;
        self
    }

    /// Whether bytes behind the value are ignored. Default: an error.
    pub fn ignore_trailing(mut self, ignore: bool) -> Self {
        self.trailing = ignore;
        self
    }
}

impl Default for CborFormat {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: DeserializeOwned, W: Serialize> Format<R, W> for CborFormat {
    fn name(&self) -> &'static str {
        "Cbor"
    }

    #[inline]
    fn read(&mut self, message: Bytes) -> Result<R, SerialError> {
        let mut cbor = Deserializer::new(&message);
        let value = guard::read("CBOR", self.depth, message.len(), &mut cbor)?;
        let used = cbor.decoder().position();
        if used < message.len() && !self.trailing {
            return Err(SerialError::Trailing { format: "CBOR", used, len: message.len() });
        }
        Ok(value)
    }

    #[inline]
    fn write(&mut self, value: &W, out: &mut BytesMut) -> Result<(), SerialError> {
        value
            .serialize(&mut Serializer::new(Out(out)))
            .map_err(|error| SerialError::not_writable("CBOR", error.into()))
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
