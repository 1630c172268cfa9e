//! Serialisation: frames become values of the user's types, and back.
//!
//! ```text
//!   Bytes ──▶ [ Typed<Format, R, W> ] ──▶ R     one frame, one value
//!   Bytes ◀── [                     ] ◀── W
//! ```
//! Always true:
//! 1. A frame gives one value or one error. The error is about this message only: the next frame can be read. (An error that
//!    nobody takes care of closes the channel all the same.)
//! 2. What a message makes us allocate is bounded by its own length, whatever lengths it claims; how deep it nests, by
//!    [`DEPTH_MAX`] or what the format was told.
//! 3. Of a value that could not be encoded nothing is sent.
//!
//! | stage | feature | on the wire |
//! | --- | --- | --- |
//! | [`Protobuf`] | `protobuf` | Protocol Buffers, by `prost` |
//! | [`MessagePack`] | `messagepack` | MessagePack, by `rmp-serde` |
//! | [`Json`] | `json` | JSON, by `serde_json` |
//! | [`Cbor`] | `cbor` | CBOR (RFC 8949), by `minicbor-serde` |
//! | [`Postcard`] | `postcard` | postcard: compact, between Rust programs that share their types |
//! | [`Thrift`] | `thrift` | Thrift, binary or compact, by the `thrift` crate |
//!
//! `docs/codecs.md` compares their sizes and speeds.
//!
//! Not here: cutting the stream into frames (`frame`).

// Links to stages of features that are off lead nowhere.
#![cfg_attr(
    not(all(
        feature = "protobuf",
        feature = "messagepack",
        feature = "json",
        feature = "cbor",
        feature = "postcard",
        feature = "thrift"
    )),
    allow(rustdoc::broken_intra_doc_links)
)]

mod error;
#[cfg(feature = "_serde")]
mod guard;
#[cfg(feature = "_serde")]
mod serde_format;

#[cfg(feature = "cbor")]
mod cbor;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "messagepack")]
mod message_pack;
#[cfg(feature = "postcard")]
mod postcard;
#[cfg(feature = "protobuf")]
mod protobuf;
#[cfg(feature = "thrift")]
mod thrift;

pub use error::SerialError;
#[cfg(feature = "_serde")]
pub use serde_format::{Notation, SerdeFormat};

#[cfg(feature = "cbor")]
pub use cbor::{Cbor, CborFormat, CborNotation};
#[cfg(feature = "json")]
pub use json::{Json, JsonFormat, JsonNotation};
#[cfg(feature = "messagepack")]
pub use message_pack::{MessagePack, MessagePackFormat, MessagePackNotation};
#[cfg(feature = "postcard")]
pub use postcard::{Postcard, PostcardFormat, PostcardNotation};
#[cfg(feature = "protobuf")]
pub use protobuf::{Protobuf, ProtobufFormat};
#[cfg(feature = "thrift")]
pub use thrift::{Thrift, ThriftBody, ThriftCall, ThriftFormat};

use crate::base::{DecodeError, MessageCoded, MessageDecoder, MessageEncoder, Messages, message_codec};
use bytes::{Bytes, BytesMut};
use netwright_core::Fault;
use std::marker::PhantomData;

/// How deep a message may nest unless its format was told otherwise. What people mean to send has a handful of levels; at this
/// many, even a thread with a small stack has most of it left.
pub const DEPTH_MAX: usize = 100;

/// Encoded messages up to this length leave their buffer for the next one: an idle connection may keep that much.
const KEEP_MAX: usize = 512;

/// How values of type `R` are read from the bytes of a message, and values of type `W` are written.
///
/// ```
/// use bytes::{BufMut, Bytes, BytesMut};
/// use netwright_codec::{LineFrames, serial::{Format, SerialError, Typed}, message_codec};
/// use netwright_core::{EmbeddedChannel, Fault, pipeline};
///
/// /// Numbers, in decimal.
/// #[derive(Default)]
/// struct Decimal;
///
/// impl Format<u32, u64> for Decimal {
///     fn name(&self) -> &'static str {
///         "Decimal"
///     }
///     fn read(&mut self, message: Bytes) -> Result<u32, SerialError> {
///         let number = std::str::from_utf8(&message).ok().and_then(|text| text.parse().ok());
///         number.ok_or_else(|| SerialError::malformed("decimal", message.len(), "not a number".into()))
///     }
///     fn write(&mut self, number: &u64, out: &mut BytesMut) -> Result<(), SerialError> {
///         Ok(out.put_slice(number.to_string().as_bytes()))
///     }
/// }
///
/// let stage = message_codec(Typed::<Decimal, u32, u64>::new());
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(stage));
/// channel.write_inbound("42\n").write_outbound(43);
/// assert_eq!(channel.read_inbound(), Some(42));
/// assert_eq!(channel.outbound_bytes(), b"43\n");
/// ```
pub trait Format<R, W>: 'static {
    /// What to call it in listings.
    fn name(&self) -> &'static str;

    /// Makes a value of a whole message.
    fn read(&mut self, message: Bytes) -> Result<R, SerialError>;

    /// Appends a value. With an error, nothing that was appended is sent.
    fn write(&mut self, value: &W, out: &mut BytesMut) -> Result<(), SerialError>;
}

/// A format with the types that it is used for: a codec from frames of type `B` to values, and back.
///
/// Stages are made of it by names like [`Json`]. By itself it is for [`Lift`](crate::Lift), whose datagrams are `BytesMut`:
/// `Lift::new(Typed::<JsonFormat, Request, Reply, BytesMut>::new())`.
///
/// ```
/// use netwright_codec::{MessageDecoder, Messages, serial::{Format, SerialError, Typed}};
/// use bytes::{Bytes, BytesMut};
///
/// #[derive(Default)]
/// struct Length;
///
/// impl Format<usize, ()> for Length {
///     fn name(&self) -> &'static str {
///         "Length"
///     }
///     fn read(&mut self, message: Bytes) -> Result<usize, SerialError> {
///         Ok(message.len())
///     }
///     fn write(&mut self, _: &(), _: &mut BytesMut) -> Result<(), SerialError> {
///         Ok(())
///     }
/// }
///
/// let (mut typed, mut out) = (Typed::<Length, usize, ()>::new(), Messages::new());
/// typed.decode(Bytes::from("hello"), &mut out).unwrap();
/// assert_eq!(out.pop(), Some(5));
/// ```
pub struct Typed<F, R, W = R, B = Bytes> {
    format: F,
    /// Where the next message is written.
    room: BytesMut,
    types: PhantomData<fn(W, B) -> R>,
}

impl<F: Format<R, W>, R, W, B> Typed<F, R, W, B> {
    /// With the format's defaults.
    #[allow(clippy::new_without_default)] // the stage's `new` needs no second spelling either
    pub fn new() -> Self
    where
        F: Default,
    {
        Self::with(F::default())
    }

    /// With a format as it was set up.
    pub fn with(format: F) -> Self {
        Self { format, room: BytesMut::new(), types: PhantomData }
    }
}

impl<F, R, W, B> MessageDecoder for Typed<F, R, W, B>
where
    F: Format<R, W>,
    R: 'static,
    W: 'static,
    B: Into<Bytes> + 'static,
{
    type In = B;
    type Out = R;

    #[inline]
    fn decode(&mut self, frame: B, out: &mut Messages<R>) -> Result<(), DecodeError> {
        out.push(self.format.read(frame.into()).map_err(DecodeError::recoverable)?);
        Ok(())
    }

    fn name(&self) -> &'static str {
        self.format.name()
    }
}

impl<F, R, W, B> MessageEncoder for Typed<F, R, W, B>
where
    F: Format<R, W>,
    R: 'static,
    W: 'static,
    B: 'static,
{
    type In = W;
    type Out = Bytes;

    #[inline]
    fn encode(&mut self, value: W, out: &mut Messages<Bytes>) -> Result<(), Fault> {
        if let Err(error) = self.format.write(&value, &mut self.room) {
            self.room.clear();
            return Err(error.into());
        }
        let message = self.room.split().freeze();
        if message.len() > KEEP_MAX {
            self.room = BytesMut::new();
        }
        out.push(message);
        Ok(())
    }

    fn name(&self) -> &'static str {
        self.format.name()
    }
}

impl<F, R, W, B> MessageCoded<Typed<F, R, W, B>>
where
    F: Format<R, W>,
    R: 'static,
    W: 'static,
    B: Into<Bytes> + 'static,
{
    /// The stage, with the format's defaults.
    #[allow(clippy::new_without_default)] // a stage is made where its types are named
    pub fn new() -> Self
    where
        F: Default,
    {
        message_codec(Typed::new())
    }

    /// The stage, with a format as it was set up.
    pub fn with(format: F) -> Self {
        message_codec(Typed::with(format))
    }
}
