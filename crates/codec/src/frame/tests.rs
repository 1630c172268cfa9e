//! What all frames have in common.

use super::*;
use crate::base::{Decoder, Intake};
use bytes::{Bytes, BytesMut};

const MIB: usize = 1 << 20;
/// Long enough to tell linear from quadratic, and short enough for a debug build.
const LONG: usize = 1 << 17;

/// Feeds a long frame byte by byte, and asks after each whether all of it has been looked at.
fn trickle<D: Decoder<Item = Bytes>>(
    decoder: D,
    header: &[u8],
    len: usize,
    end: &[u8],
    mut looked_at: impl FnMut(&D, usize) -> bool,
) {
    let mut frame = header.to_vec();
    frame.resize(header.len() + len, b'x');
    let mut counted = Counted { decoder, calls: 0 };
    let mut intake = Intake::default();
    let (mut moves, mut place) = (0, std::ptr::null());
    for byte in &frame {
        intake.feed(BytesMut::from(&[*byte][..]));
        assert!(intake.next(&mut counted).is_none());
        let rest = intake.rest();
        assert!(looked_at(&counted.decoder, rest.len()), "at {} of {}", rest.len(), counted.decoder.name());
        moves += usize::from(std::mem::replace(&mut place, rest.as_ptr()) != place);
    }
    intake.feed(BytesMut::from(end));
    let last = intake.next(&mut counted).map(Result::unwrap);
    assert_eq!(last.map(|frame| frame.len() >= len), (!end.is_empty()).then_some(true));
    assert!(counted.calls <= frame.len() + end.len() + 1, "{} calls", counted.calls);
    assert!(moves <= 20, "the rest moved {moves} times: more than by doubling");
}

/// Counts the calls of a decoder.
struct Counted<D> {
    decoder: D,
    calls: usize,
}

impl<D: Decoder> Decoder for Counted<D> {
    type Item = D::Item;
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<D::Item>, crate::DecodeError> {
        self.calls += 1;
        self.decoder.decode(bytes)
    }
    fn needs(&self) -> Option<usize> {
        self.decoder.needs()
    }
    fn wants(&self, more: &[u8]) -> usize {
        self.decoder.wants(more)
    }
    fn limit(&self) -> usize {
        self.decoder.limit()
    }
}

#[test]
fn a_byte_at_a_time_costs_one_call_and_no_byte_is_looked_at_twice() {
    trickle(LineDecoder::max(MIB), b"", MIB, b"\n", |lines, len| lines.scanned() == len);
    let delimiters = DelimiterDecoder::max(MIB, ["\r\n", "<-->"]).unwrap();
    trickle(delimiters, b"", LONG, b"\r\n", |delimiters, len| delimiters.scanned() == len);
    trickle(JsonDecoder::max(MIB), b"{\"", LONG, b"\"}", |json, len| json.scanned() == len);
    trickle(JsonDecoder::max(MIB), b"[", LONG, b"]", |json, len| json.scanned() == len);
    // These know by their header how long the frame is, and look at nothing else.
    let header = (MIB as u32 + 1).to_be_bytes();
    let length = LengthField::new(4).max(2 * MIB).decoder().unwrap();
    trickle(length, &header, MIB, b"!", |length, len| len < 4 || length.needs() == Some(MIB + 5));
    let varint = Varint32Decoder::max(MIB);
    trickle(varint, b"\x81\x80\x08", LONG, b"!", |varint, len| len < 3 || varint.needs() == Some(LONG + 4));
    let fixed = FixedDecoder::of(LONG + 1).unwrap();
    trickle(fixed, b"", LONG, b"!", |fixed, _| fixed.needs() == Some(LONG + 1));
}

#[test]
fn a_frame_of_a_mebibyte_in_pieces_is_copied_once() {
    let mut frame = (MIB as u32).to_be_bytes().to_vec();
    frame.resize(4 + MIB, b'x');
    let mut decoder = LengthField::new(4).strip(4).max(2 * MIB).decoder().unwrap();
    let mut intake = Intake::default();
    let mut place = std::ptr::null();
    for (number, piece) in frame.chunks(16 * 1024).enumerate() {
        intake.feed(BytesMut::from(piece));
        if let Some(got) = intake.next(&mut decoder) {
            assert_eq!(got.unwrap().as_ptr(), place, "what is passed on is where the bytes were copied to");
            return;
        }
        let at = intake.rest()[4..].as_ptr();
        assert!(number == 0 || at == place, "moved with piece {number}");
        place = at;
    }
    panic!("no frame");
}

/// The most that is held while a frame that is too long comes and goes.
fn most_held<D: Decoder>(mut decoder: D, header: &[u8]) -> usize {
    let mut intake = Intake::default();
    intake.feed(BytesMut::from(header));
    let mut most = 0;
    for _ in 0..1000 {
        while intake.next(&mut decoder).is_some() {}
        most = most.max(intake.rest().capacity());
        intake.feed(BytesMut::from(&[b'x'; 1000][..]));
    }
    most
}

#[test]
fn no_more_is_held_than_the_limit_however_long_a_frame_is() {
    for limit in [0, 10, 100, 999, 1001, 5000] {
        let most = [
            most_held(LineDecoder::max(limit), b""),
            most_held(DelimiterDecoder::max(limit, ["--", "\n"]).unwrap(), b""),
            most_held(LengthField::new(4).max(limit + 4).decoder().unwrap(), b"\x7f\xff\xff\xff"),
            most_held(Varint32Decoder::max(limit), b"\xff\xff\xff\xff\x0f"),
            most_held(JsonDecoder::max(limit), b"{"),
        ];
        assert!(most.iter().all(|&held| held <= limit + 64), "{most:?} held, the limit is {limit}");
    }
}

/// The errors of a stream that is cut off in a frame that is too long.
fn errors_of<D: Decoder>(mut decoder: D, stream: &[u8]) -> Vec<String> {
    let (mut intake, mut errors) = (Intake::default(), Vec::new());
    for piece in stream.chunks(3) {
        intake.feed(BytesMut::from(piece));
        while let Some(result) = intake.next(&mut decoder) {
            errors.extend(result.err().map(|error| error.to_string()));
        }
    }
    errors.extend(intake.last(&mut decoder).and_then(Result::err).map(|error| error.to_string()));
    errors
}

#[test]
fn a_frame_that_is_too_long_and_has_no_end_is_reported_once_at_the_latest_with_the_end_of_the_stream() {
    let reported = |errors: Vec<String>, got: usize, name: &str| {
        assert_eq!(errors, [format!("a frame of {got} bytes or more, the limit is 8")], "{name}");
    };
    for fast in [false, true] {
        let seen = |late, early| if fast { early } else { late };
        let lines = LineDecoder::max(8).fail_fast(fast);
        reported(errors_of(lines, b"one\nxxxxxxxxxxxxxxx"), seen(15, 11), "lines");
        let delimiters = DelimiterDecoder::max(8, [";;"]).unwrap().fail_fast(fast);
        reported(errors_of(delimiters, b"one;;xxxxxxxxxxxxxxx"), seen(15, 10), "delimiters");
        reported(errors_of(JsonDecoder::max(8).fail_fast(fast), b"{}[xxxxxxxxxxxxxx"), seen(15, 10), "JSON");
        let field = LengthField::new(1).max(8).fail_fast(fast).decoder().unwrap();
        reported(errors_of(field, b"\x01a\x20xxxxxxxxxx"), 33, "lengths");
        let varint = Varint32Decoder::max(8);
        let varint = if fast { varint } else { varint.fail_late() };
        reported(errors_of(varint, b"\x01a\x20xxxxxxxxxx"), 32, "varints");
    }
    reported(errors_of(LineBatches::max(8), b"one\nxxxxxxxxxxxxxxx"), 15, "batches");
}
