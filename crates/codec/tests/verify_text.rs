//! Every stage for text against the verifier.

use bytes::Bytes;
use netwright_codec::{
    DecodeError, Hex, LineFrames, MessageDecoder, Messages, Utf8, Utf8Stream, decode_messages,
};
use netwright_core::pipeline;
use netwright_testkit::{
    verify::{Verify, recorded},
    verify_decoder,
};

#[test]
fn utf8_in_frames() {
    verify_decoder!(LineFrames::max(20), Utf8::strict();
        "grüße\n" => [Ok("grüße")],
        b"ab\xff\n" => [Err("a frame of 3 bytes is not UTF-8: wrong after 2 bytes")],
        b"cut \xc3\n\xbc\n" => [Err("wrong after 4 bytes"), Err("wrong after 0 bytes")],
        "☃\n" => [Ok("☃")],
    );
    verify_decoder!(LineFrames::max(20), Utf8::lossy();
        b"ab\xff\n\xf0\x9f\n" => [Ok("ab\u{fffd}"), Ok("\u{fffd}")],
    );
}

/// The single characters of a text: these do not depend on how a stream is split.
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
fn utf8_in_a_stream() {
    let channel = |recorder, stage: Utf8Stream| {
        let characters = decode_messages(Characters).passing::<String>();
        recorded(pipeline().add(stage).add(characters), recorder)
    };
    Verify::new(|recorder| channel(recorder, Utf8Stream::strict()))
        .sample("aü☃", [Ok('a'), Ok('ü'), Ok('☃')])
        .sample("🦀", [Ok('🦀')])
        .sample(b"b\xff", [Ok('b'), Err("the stream is not UTF-8: wrong after 11 bytes")])
        .last_may_come()
        .run();
    Verify::new(|recorder| channel(recorder, Utf8Stream::lossy()))
        .sample(b"\xe2\x98a", [Ok('\u{fffd}'), Ok('a')])
        .sample(b"\xff\xc3\xbc", [Ok('\u{fffd}'), Ok('ü')])
        .last_may_come()
        .run();
}

#[test]
fn hex() {
    verify_decoder!(LineFrames::max(20), Hex::lower();
        "00cAFe\n" => [Ok(Bytes::from_static(b"\0\xca\xfe"))],
        "\n" => [Ok(Bytes::new())],
        "abc\n" => [Err("no hex text has 3 digits")],
        "a1g0\n" => [Err("\"g\" at place 2 is no digit of hex")],
        "c3bc\n" => [Ok(Bytes::from_static(b"\xc3\xbc"))],
    );
}

#[cfg(feature = "base64")]
#[test]
fn base64() {
    use netwright_codec::Base64;
    verify_decoder!(LineFrames::max(20), Base64::standard();
        "aGVsbG8=\n" => [Ok(Bytes::from("hello"))],
        "+/+/\n\n" => [Ok(Bytes::from_static(b"\xfb\xff\xbf")), Ok(Bytes::new())],
        "aGVs_G8=\n" => [Err("\"_\" at place 4 is no digit of base64")],
        "aGVsbG8\n" => [Err("the padding of a base64 text is wrong")],
        "aGVsb\n" => [Err("base64")],
        "aGVsbG9=\n" => [Err("is no digit of base64")],
    );
    verify_decoder!(LineFrames::max(20), Base64::url_safe_unpadded();
        "-_-_\n" => [Ok(Bytes::from_static(b"\xfb\xff\xbf"))],
        "aGVsbG8\n" => [Ok(Bytes::from("hello"))],
    );
}

#[cfg(feature = "charsets")]
#[test]
fn charsets() {
    use netwright_codec::Charset;
    verify_decoder!(LineFrames::max(20), Charset::strict("shift_jis").unwrap();
        b"\x93\xfa\x96\x7b\n" => [Ok("日本")],
        b"ab\x81\n" => [Err("a frame of 3 bytes is not Shift_JIS")],
        b"plain\n" => [Ok("plain")],
    );
}
