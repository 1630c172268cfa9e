//! What every codec stands on: traits for the work, ready stages around them.
//!
//! ```text
//!   wire side                                                                    application side
//!   BytesMut ──▶ [ decode(Decoder) ] ──▶ Item ──▶ [ decode_messages(MessageDecoder) ] ──▶ Out
//!   Bytes    ◀── [ encode(Encoder) ] ◀── Message ◀ [ encode_messages(MessageEncoder) ] ◀── In
//!                └ codec(both) ─────┘             └ message_codec(both) ──────────┘
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `decoder` | [`Decoder`], one message of bytes for each call; [`DecodeError`] |
//! | `intake` | the bytes that are in no message yet, and how a decoder is asked |
//! | `decoding` | [`Decode`], a decoder as a stage |
//! | `encoder` | [`Encoder`], appends to a [`Batch`] |
//! | `batch` | what is written, gathered until the flush |
//! | `encoding` | [`Encode`], an encoder as a stage |
//! | `codec` | [`Codec`], both; [`Coded`], both as a stage |
//! | `message` | decoders and encoders from message to message |
//! | `aggregate` | [`Aggregator`], parts put together up to a limit |
//! | `lift` | [`Lift`], a message codec on datagrams |
//!
//! Not here: formats (`frame`, `text`, …), which know no stage.

mod aggregate;
mod batch;
mod codec;
mod decoder;
mod decoding;
mod encoder;
mod encoding;
mod intake;
mod lift;
mod message;

pub use aggregate::{Aggregate, AggregateError, Aggregator, WhichPart};
pub use batch::Batch;
pub use codec::{Codec, Coded, codec};
pub use decoder::{DecodeError, Decoder, DecoderDefect, Unfinished};
pub use decoding::{Decode, decode};
pub use encoder::Encoder;
pub use encoding::{Encode, encode};
pub use lift::{EachDatagram, Lift, NotDecoded, NotOneDatagram};
pub use message::{
    DecodeMessages, EncodeMessages, MessageCodec, MessageCoded, MessageDecoder, MessageEncoder, Messages,
    NothingEncoded, decode_messages, encode_messages, message_codec,
};

#[cfg(feature = "_compress")]
pub(crate) use decoding::Decoding;
pub(crate) use intake::take;
#[cfg(test)]
pub(crate) use {batch::GATHER_MAX, intake::Intake};

/// The last part of a type's path, without its parameters: what a stage is called in listings.
pub(crate) fn short_name<T>() -> &'static str {
    short(std::any::type_name::<T>())
}

/// Not generic, and so compiled here and not in every user's crate.
#[inline(never)]
fn short(full: &'static str) -> &'static str {
    full.split('<').next().and_then(|path| path.rsplit("::").next()).unwrap_or(full)
}
