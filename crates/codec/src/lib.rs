//! Codecs as stages: bytes to frames, frames to text, and back.
//!
//! TCP is a stream: messages stick together and break apart. A frame stage cuts it, and the stages behind it see whole
//! messages.
//!
//! ```
//! use netwright_codec::{LineFrames, Utf8};
//! use netwright_core::{EmbeddedChannel, pipeline};
//!
//! let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(1024)).add(Utf8::strict()));
//! channel.write_inbound(b"hel").write_inbound(b"lo\r\nwor").write_inbound(b"ld\n");
//! assert_eq!(channel.read_inbound().as_deref(), Some("hello"));
//! assert_eq!(channel.read_inbound().as_deref(), Some("world"));
//! channel.write_outbound("and back".to_owned());
//! assert_eq!(channel.outbound_bytes(), b"and back\n");
//! ```
//!
//! A codec of one's own is a [`Decoder`], an [`Encoder`] or both, and becomes a stage by [`decode`], [`encode`] or [`codec`].

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod base;
#[cfg(feature = "_compress")]
pub mod compress;
pub mod frame;
pub mod serial;
pub mod text;
#[cfg(feature = "tokio-util")]
pub mod tokio;

pub use base::{
    Aggregate, AggregateError, Aggregator, Batch, Codec, Coded, Decode, DecodeError, DecodeMessages, Decoder,
    DecoderDefect, EachDatagram, Encode, EncodeMessages, Encoder, Lift, MessageCodec, MessageCoded,
    MessageDecoder, MessageEncoder, Messages, NotDecoded, NotOneDatagram, NothingEncoded, Unfinished,
    WhichPart, codec, decode, decode_messages, encode, encode_messages, message_codec,
};
pub use frame::{
    DelimiterDecoder, DelimiterEncoder, DelimiterFrames, FixedDecoder, FixedEncoder, FixedFrames, FrameError,
    Impossible, JsonDecoder, JsonEncoder, JsonFrames, LengthDecoder, LengthField, LengthFrames,
    LengthPrepender, LineBatches, LineDecoder, LineEncoder, LineFrames, Lines, Varint32Decoder,
    Varint32Frames, Varint32Prepender,
};
#[cfg(feature = "base64")]
pub use text::Base64;
#[cfg(feature = "charsets")]
pub use text::Charset;
pub use text::{Hex, TextError, Utf8, Utf8Stream};
#[cfg(feature = "tokio-util")]
pub use tokio::{FromTokio, IntoTokio};

#[cfg(feature = "brotli")]
pub use compress::Brotli;
#[cfg(feature = "deflate")]
pub use compress::Deflate;
#[cfg(feature = "gzip")]
pub use compress::Gzip;
#[cfg(feature = "lz4")]
pub use compress::Lz4;
#[cfg(feature = "snappy")]
pub use compress::Snappy;
#[cfg(feature = "zlib")]
pub use compress::Zlib;
#[cfg(feature = "zstd")]
pub use compress::Zstd;
#[cfg(feature = "_compress")]
pub use compress::{
    Compress, CompressError, Compression, Compressor, DecompressError, DecompressLimits, Decompressor, Flush,
    Format, State, Step, compress,
};
#[cfg(feature = "protobuf")]
#[doc(no_inline)]
pub use prost; // whose messages they are
#[cfg(feature = "cbor")]
pub use serial::Cbor;
#[cfg(feature = "json")]
pub use serial::Json;
#[cfg(feature = "messagepack")]
pub use serial::MessagePack;
#[cfg(feature = "postcard")]
pub use serial::Postcard;
#[cfg(feature = "protobuf")]
pub use serial::Protobuf;
#[cfg(feature = "thrift")]
pub use serial::{Thrift, ThriftCall};

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
