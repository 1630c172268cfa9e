//! Every frame decoder against the verifier: whole, split anywhere, byte by byte, cut off, paused, hostile.

use bytes::Bytes;
use netwright_codec::{
    DecodeError, DelimiterFrames, FixedDecoder, FixedFrames, JsonFrames, LengthField, LengthFrames,
    LengthPrepender, LineBatches, LineFrames, Lines, MessageDecoder, Messages, Varint32Frames, decode,
    decode_messages,
};
use netwright_testkit::verify_decoder;

#[test]
fn lines() {
    verify_decoder!(LineFrames::max(8); last_may_come; // what is too long is told of with the end
        b"one\r\n" => [Ok("one")],
        b"\n" => [Ok("")],
        b"thr\ree\r\r\n" => [Ok("thr\ree\r")],
        b"much too long\r\n" => [Err("a frame of 13 bytes or more, the limit is 8")],
        b"12345678\n\r\n" => [Ok("12345678"), Ok("")],
    );
    verify_decoder!(LineFrames::max(4).fail_fast(true).keep_ends(true);
        b"one\r\n" => [Ok("one\r\n")],
        b"too long\n" => [Err("the limit is 4")],
        b"1234\n" => [Ok("1234\n")],
    );
}

/// The single lines of a batch: these do not depend on how a stream is split.
struct Apart;

impl MessageDecoder for Apart {
    type In = Lines;
    type Out = Bytes;
    fn decode(&mut self, lines: Lines, out: &mut Messages<Bytes>) -> Result<(), DecodeError> {
        lines.iter().for_each(|line| out.push(Bytes::copy_from_slice(line)));
        Ok(())
    }
}

#[test]
fn line_batches() {
    verify_decoder!(decode(LineBatches::max(8)), decode_messages(Apart); last_may_come; // what is too long is told of with the end
        b"one\r\n\ntwo\n" => [Ok("one"), Ok(""), Ok("two")],
        b"much too long\r\n" => [Err("a frame of 13 bytes or more, the limit is 8")],
        b"12345678\n\r\n" => [Ok("12345678"), Ok("")],
    );
}

#[test]
fn delimiters() {
    verify_decoder!(DelimiterFrames::max(6, [&b"\0"[..], b"\r\n", b"\n"]).unwrap();
        b"one\0" => [Ok("one")],
        b"two\r\n\n" => [Ok("two"), Ok("")],
        b"a\rb\n" => [Ok("a\rb")],
        b"much too long\0" => [Err("the limit is 6")],
        b"\0six...\r\n" => [Ok(""), Ok("six...")],
    );
    verify_decoder!(DelimiterFrames::max(5, ["<->", ";"]).unwrap().fail_fast(false).keep_delimiters(true); last_may_come; // what is too long is told of with the end
        b"a<->" => [Ok("a<->")],
        b"<-<->" => [Ok("<-<->")],
        b"much too long<->" => [Err("a frame of 13 bytes or more, the limit is 5")],
        b"<-;five5;" => [Ok("<-;"), Ok("five5;")],
        b"sixsix;" => [Err("a frame of 6 bytes or more, the limit is 5")],
    );
}

#[test]
fn fixed_lengths() {
    verify_decoder!(FixedFrames::of(3).unwrap(); b"abc" => [Ok("abc")], b"\0\0\0def" => [Ok("\0\0\0"), Ok("def")]);
    verify_decoder!(FixedFrames::of(1).unwrap(); b"ab" => [Ok("a"), Ok("b")]);
}

#[test]
fn fixed_lengths_filled_up_with_a_byte() {
    verify_decoder!(FixedFrames::of(4).unwrap().filled_with(b' ');
        b"full" => [Ok("full")],
        b"one tw\0 " => [Ok("one"), Ok("tw\0")],
        b"    " => [Ok("")],
        b"  a a   " => [Ok("  a"), Ok("a")],
    );
    verify_decoder!(FixedFrames::of(1).unwrap().filled_with(0); b"a\0b" => [Ok("a"), Ok(""), Ok("b")]);
    verify_decoder!(decode(FixedDecoder::of(3).unwrap().trimmed_of(0)); b"ab\0\0\0c" => [Ok("ab"), Ok("\0\0c")]);
}

#[test]
fn length_fields() {
    verify_decoder!(LengthFrames::max(5);
        b"\0\0\0\x05hello" => [Ok("hello")],
        b"\0\0\0\0" => [Ok("")],
        b"\0\0\0\x06hello!" => [Err("a frame of 10 bytes or more, the limit is 9")],
        b"\0\0\0\x01x\0\0\0\x02yz" => [Ok("x"), Ok("yz")],
    );
    let late = || {
        let header = LengthField::new(3).offset(2).little_endian(true).adjustment(-1).strip(1).max(12);
        decode(header.fail_fast(false).decoder().unwrap())
    };
    verify_decoder!(late();
        b"..\x04\0\0abc" => [Ok(".\x04\0\0abc")],
        b"..\x40\0\0much too long, and so on, until there have been 63 bytes of it." =>
            [Err("a frame of 68 bytes or more, the limit is 12")],
        b"..\x01\0\0" => [Ok(".\x01\0\0")],
    );
    verify_decoder!(decode(LengthField::new(8).max(20).decoder().unwrap());
        b"\0\0\0\0\0\0\0\x01x" => [Ok("\0\0\0\0\0\0\0\x01x")],
        b"\0\0\0\0\0\0\0\0" => [Ok("\0\0\0\0\0\0\0\0")],
        b"\x80\0\0\0\0\0\0\0" => [Err("a frame's length is -9223372036854775808, the least is 0")],
    );
    let both =
        || LengthField::new(1).adjustment(-1).strip(1).frames(LengthPrepender::new(1).unwrap()).unwrap();
    verify_decoder!(both(); b"\x03ab\x01" => [Ok("ab"), Ok("")], b"\0" => [Err("makes 0 bytes in all")]);
}

#[test]
fn varints() {
    let long = [&b"\x80\x01"[..], &[b'x'; 128]].concat();
    verify_decoder!(Varint32Frames::max(128);
        b"\x05hello" => [Ok(Bytes::from("hello"))],
        b"\0" => [Ok(Bytes::new())],
        &long => [Ok(Bytes::from(vec![b'x'; 128]))],
        b"\x85\x80\x80\x80\0hello" => [Ok(Bytes::from("hello"))],
        [&b"\x81\x01"[..], &[b'x'; 129]].concat() => [Err("a frame of 129 bytes or more, the limit is 128")],
        b"\x01y" => [Ok(Bytes::from("y"))],
        b"\xff\xff\xff\xff\x1f" => [Err("a frame's length is above 32 bits after 5 bytes")],
    );
    verify_decoder!(Varint32Frames::max(1).fail_late();
        b"\x02xx" => [Err("the limit is 1")],
        b"\x01x" => [Ok("x")],
        b"\x80\x80\x80\x80\x80" => [Err("above 32 bits")],
    );
}

#[test]
fn json_values() {
    verify_decoder!(JsonFrames::max(24);
        br#"{}"# => [Ok("{}")],
        br#" {"a":"}\"{\\"} "# => [Ok(r#"{"a":"}\"{\\"}"#)],
        br#"[1,[2,{"b":[]}]]"# => [Ok(r#"[1,[2,{"b":[]}]]"#)],
        br#"{"much":"too long [ and with one"}"# => [Err("the limit is 24")],
        b"\t{\"x\":\"\xc3\xbc\"}\r\n" => [Ok("{\"x\":\"ü\"}")],
        b"}" => [Err("cannot be at place 0")],
    );
    verify_decoder!(JsonFrames::max(9).stream_arrays(true).fail_fast(false); last_may_come; // what is too long is told of with the end
        br#"[ 1 , {"two":2},"# => [Ok("1"), Ok(r#"{"two":2}"#)],
        br#""t,]\"h", [[4],5] ,"# => [Ok(r#""t,]\"h""#), Ok("[[4],5]")],
        br#"1234567890,null]"# => [Err("a frame of 10 bytes or more, the limit is 9"), Ok("null")],
        br#"[]{"six":6}"# => [Ok(r#"{"six":6}"#)],
        br#"[{"much":"too long"}]"# => [Err("a frame of 19 bytes or more, the limit is 9")],
    );
}
