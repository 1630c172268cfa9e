//! JSON, by `serde_json`.

use super::{Notation, SerdeFormat, SerialError, Typed, guard};
use crate::base::MessageCoded;
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Serialize, de::DeserializeOwned};

/// Frames of JSON as values of type `R`, and values of type `W` as frames.
///
/// ```
/// use netwright_codec::{LineFrames, serial::Json};
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use std::collections::BTreeMap;
///
/// // JSON lines: a value that is written has no line feed in it.
/// let stages = pipeline().add(LineFrames::max(1024)).add(Json::<BTreeMap<String, u32>, Vec<u32>>::new());
/// let mut channel = EmbeddedChannel::new(stages);
/// channel.write_inbound("{\"a\": 1}\n").write_outbound(vec![2, 3]);
/// assert_eq!(channel.read_inbound().unwrap()["a"], 1);
/// assert_eq!(channel.outbound_bytes(), b"[2,3]\n");
/// ```
///
/// Settings: [`JsonFormat`].
pub type Json<R, W = R, B = Bytes> = MessageCoded<Typed<JsonFormat, R, W, B>>;

/// The format of [`Json`].
///
/// ```
/// use netwright_codec::{message_codec, serial::{JsonFormat, Typed}};
///
/// let format = JsonFormat::new().depth(16).ignore_trailing(true);
/// let _stage = message_codec(Typed::<JsonFormat, Vec<u32>>::with(format));
/// ```
pub type JsonFormat = SerdeFormat<JsonNotation>;

/// How [`JsonFormat`] writes values.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonNotation;

impl Notation for JsonNotation {
    const STAGE: &'static str = "Json";
    const NAME: &'static str = "JSON";

    #[inline]
    fn read<R: DeserializeOwned>(
        &self,
        message: &[u8],
        depth: usize,
        trailing: bool,
    ) -> Result<R, SerialError> {
        let mut json = serde_json::Deserializer::from_slice(message);
        json.disable_recursion_limit(); // the guard counts, and says what it counted
        let value = guard::read(Self::NAME, depth, message.len(), &mut json)?;
        if !trailing && let Err(error) = json.end() {
            let used = offset(message, &error);
            return Err(SerialError::Trailing { format: Self::NAME, used, len: message.len() });
        }
        Ok(value)
    }

    #[inline]
    fn write<W: Serialize>(&self, value: &W, out: &mut BytesMut) -> Result<(), SerialError> {
        serde_json::to_writer(out.writer(), value)
            .map_err(|error| SerialError::not_writable(Self::NAME, error.into()))
    }
}

/// Where the error's character is.
#[cold]
fn offset(message: &[u8], error: &serde_json::Error) -> usize {
    let lines = message.split_inclusive(|&byte| byte == b'\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(<[u8]>::len).sum();
    (before + error.column().saturating_sub(1)).min(message.len())
}
