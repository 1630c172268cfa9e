//! Attacks on every decoder. The corpus is in `corpus/`; how to attack for longer is in `netwright_testkit::verify::Fuzz`.

use bytes::Bytes;
use netwright_codec::{
    DecodeError, DelimiterFrames, FixedFrames, Hex, JsonFrames, LengthField, LengthFrames, LineBatches,
    LineFrames, Lines, MessageDecoder, Messages, Utf8, Utf8Stream, Varint32Frames, decode, decode_messages,
};
use netwright_testkit::fuzz_decoder;

#[test]
fn lines() {
    fuzz_decoder!("lines", LineFrames::max(12));
}

#[test]
fn lines_fail_fast() {
    fuzz_decoder!("lines", LineFrames::max(12).fail_fast(true).keep_ends(true));
}

/// What does not depend on how a stream is split: the single lines, the single characters.
struct Apart;

impl MessageDecoder for Apart {
    type In = Lines;
    type Out = Bytes;
    fn decode(&mut self, lines: Lines, out: &mut Messages<Bytes>) -> Result<(), DecodeError> {
        lines.iter().for_each(|line| out.push(Bytes::copy_from_slice(line)));
        Ok(())
    }
}

struct Characters;

impl MessageDecoder for Characters {
    type In = String;
    type Out = char;
    fn decode(&mut self, text: String, out: &mut Messages<char>) -> Result<(), DecodeError> {
        text.chars().for_each(|character| out.push(character));
        Ok(())
    }
}

#[test]
fn line_batches() {
    fuzz_decoder!("lines", decode(LineBatches::max(12)), decode_messages(Apart));
}

#[test]
fn utf8_streams() {
    fuzz_decoder!("utf8", Utf8Stream::strict(), decode_messages(Characters).passing::<String>());
}

#[test]
fn utf8_streams_lossy() {
    fuzz_decoder!("utf8", Utf8Stream::lossy(), decode_messages(Characters).passing::<String>());
}

#[test]
fn delimiters() {
    fuzz_decoder!("delimiters", DelimiterFrames::max(12, ["--", ";", "\r\n", "\n", "=+="]).unwrap());
}

#[test]
fn delimiters_fail_late() {
    fuzz_decoder!("delimiters", DelimiterFrames::max(3, ["-->", "\n"]).unwrap().fail_fast(false));
}

#[test]
fn fixed() {
    fuzz_decoder!("lines", FixedFrames::of(7).unwrap());
}

#[test]
fn fixed_filled_with_spaces() {
    fuzz_decoder!("lines", FixedFrames::of(5).unwrap().filled_with(b' '));
}

#[test]
fn lengths() {
    fuzz_decoder!("lengths", LengthFrames::max(24));
}

#[test]
fn lengths_adjusted() {
    let field =
        LengthField::new(2).offset(1).little_endian(true).adjustment(-3).strip(2).max(20).fail_fast(false);
    fuzz_decoder!("lengths", decode(field.decoder().unwrap()));
}

#[test]
fn lengths_of_eight() {
    fuzz_decoder!("lengths", decode(LengthField::new(8).strip(9).max(40).decoder().unwrap()));
}

#[test]
fn varints() {
    fuzz_decoder!("varints", Varint32Frames::max(150));
}

#[test]
fn varints_fail_late() {
    fuzz_decoder!("varints", Varint32Frames::max(3).fail_late());
}

#[test]
fn json() {
    fuzz_decoder!("json", JsonFrames::max(32));
}

#[test]
fn json_arrays_streamed() {
    fuzz_decoder!("json", JsonFrames::max(9).stream_arrays(true).fail_fast(false));
}

#[test]
fn utf8() {
    fuzz_decoder!("utf8", LineFrames::max(64), Utf8::strict());
}

#[test]
fn hex() {
    fuzz_decoder!("hex", LineFrames::max(64), Hex::upper());
}

#[cfg(feature = "base64")]
#[test]
fn base64() {
    fuzz_decoder!("base64", LineFrames::max(64), netwright_codec::Base64::standard());
}

#[cfg(feature = "charsets")]
#[test]
fn charsets() {
    fuzz_decoder!("charsets", LineFrames::max(64), netwright_codec::Charset::strict("gb18030").unwrap());
}

#[cfg(feature = "tokio-util")]
#[test]
fn tokio_util_lengths() {
    use netwright_codec::FromTokio;
    use tokio_util::codec::LengthDelimitedCodec;
    let codec = || LengthDelimitedCodec::builder().max_frame_length(24).new_codec();
    fuzz_decoder!("lengths", decode(FromTokio::decoder(codec())));
}
