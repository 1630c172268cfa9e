//! Cutting a stream of bytes into messages.
//!
//! | stage | a frame ends |
//! | --- | --- |
//! | [`LineFrames`] | with LF or CRLF |
//! | [`decode`](crate::decode)`(`[`LineBatches`]`)` | the same, all lines of a read as one message |
//! | [`DelimiterFrames`] | with one of several delimiters |
//! | [`FixedFrames`] | after a fixed number of bytes, also filled up with one ([`filled_with`](FixedFrames::filled_with)) |
//! | [`LengthFrames`] | where a length in its header says |
//! | [`Varint32Frames`] | the same, with Protobuf's length |
//! | [`JsonFrames`] | with the brace that closes its first one |
//!
//! Each is a pair of a decoder and an encoder, which can be had alone. All of them keep this: a frame that is too long is
//! reported once, at once or at its end (`fail_fast`), and skipped without being kept; the next one is read. Where nobody
//! can know where the next frame begins, the error is fatal.

mod delimiter;
mod error;
mod fixed;
mod json;
mod length;
mod line;
mod lines;
mod prepend;
mod skip;
mod varint;

pub use delimiter::{DelimiterDecoder, DelimiterEncoder, DelimiterFrames};
pub use error::{FrameError, Impossible};
pub use fixed::{FixedDecoder, FixedEncoder, FixedFrames};
pub use json::{JsonDecoder, JsonEncoder, JsonFrames};
pub use length::{LengthDecoder, LengthField, LengthFrames};
pub use line::{LineDecoder, LineEncoder, LineFrames};
pub use lines::{LineBatches, Lines};
pub use prepend::LengthPrepender;
pub use varint::{Varint32Decoder, Varint32Frames, Varint32Prepender};

#[cfg(test)]
mod tests;
