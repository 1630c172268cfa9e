//! Protocol Buffers, by `prost`.

use super::{DEPTH_MAX, Format, SerialError, Typed};
use crate::base::MessageCoded;
use bytes::{Bytes, BytesMut};
use prost::Message;

/// Frames of Protocol Buffers as messages of type `R`, and messages of type `W` as frames.
///
/// ```
/// use bytes::BytesMut;
/// use netwright_codec::serial::{Format, ProtobufFormat};
///
/// #[derive(Clone, PartialEq, prost::Message)]
/// struct Request {
///     #[prost(string, tag = "1")]
///     query: String,
/// }
///
/// let (mut format, mut bytes) = (ProtobufFormat::new(), BytesMut::new());
/// let request = Request { query: "hello".to_owned() };
/// Format::<Request, Request>::write(&mut format, &request, &mut bytes)?;
/// assert_eq!(&bytes[..], b"\x0a\x05hello");
/// let read: Request = Format::<Request, Request>::read(&mut format, bytes.freeze())?;
/// assert_eq!(read, request);
/// # Ok::<(), netwright_codec::serial::SerialError>(())
/// ```
///
/// Behind frames: `pipeline().add(frames).add(Protobuf::<Request, Reply>::new())`.
///
/// There is no end mark: a message ends with its frame, and bytes behind it would be fields of it. `prost` allows
/// [`DEPTH_MAX`] levels, and that cannot be changed.
///
/// Fields of type [`Bytes`] share the frame's memory instead of a copy, and keep what the connection had read with
/// it for as long as they live.
pub type Protobuf<R, W = R, B = Bytes> = MessageCoded<Typed<ProtobufFormat, R, W, B>>;

/// The format of [`Protobuf`].
///
/// ```
/// use netwright_codec::serial::ProtobufFormat;
///
/// let format = ProtobufFormat::new();
/// # let _ = format;
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ProtobufFormat;

impl ProtobufFormat {
    /// There is nothing to set.
    pub fn new() -> Self {
        Self
    }
}

impl<R, W> Format<R, W> for ProtobufFormat
where
    R: Message + Default,
    W: Message,
{
    fn name(&self) -> &'static str {
        "Protobuf"
    }

    #[inline]
    fn read(&mut self, message: Bytes) -> Result<R, SerialError> {
        let len = message.len();
        R::decode(message).map_err(|error| not_read(len, error))
    }

    #[inline]
    fn write(&mut self, value: &W, out: &mut BytesMut) -> Result<(), SerialError> {
        value.encode(out).map_err(|error| SerialError::not_writable("Protobuf", error.into()))
    }
}

#[cold]
fn not_read(len: usize, error: prost::DecodeError) -> SerialError {
    // prost keeps the kind of its errors to itself; a test holds it to these words.
    if error.to_string().ends_with("recursion limit reached") {
        return SerialError::TooDeep { format: "Protobuf", limit: DEPTH_MAX, got: DEPTH_MAX + 1 };
    }
    SerialError::malformed("Protobuf", len, error.into())
}
