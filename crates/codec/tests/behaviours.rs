//! The behaviours of buffers and frames, as people who know Netty expect them.
//!
//! | no. | behaviour | test |
//! | --- | --- | --- |
//! | 68 | index, bounds, slices, counts | moot: buffers are `bytes`, owned and shared by the compiler's rules |
//! | 69 | partial gathering writes keep data | the outbound queue: `channel::outbound_tests` in `core`; pieces of one message: `base::encoding::tests::large_payloads_pass_as_they_are_between_what_was_gathered` |
//! | 70 | pools give memory back | moot: no pool; the loop's one buffer is given back by decoders: `frame::line::tests::nothing_of_the_loops_buffer_is_kept_when_all_lines_are_gone` |
//! | 71 | no object has two owners | moot: ownership |
//! | 72 | CRLF over two reads is one line, an empty line an empty frame | [`crlf_split_over_two_reads_is_one_line_and_an_empty_line_an_empty_frame`] |
//! | 73 | an over-long line: one error, the next line decodes; fail fast before its end | [`an_over_long_line_is_one_error_and_the_next_one_decodes`] |
//! | 74 | an over-long length frame over several reads: error at once, the next one decodes | [`an_over_long_length_frame_is_an_error_at_once_and_the_next_one_decodes`] |
//! | 75 | delimiters recover, failing fast or late | [`delimiters_recover_whether_they_fail_fast_or_late`] |
//! | 76 | a decoder that leaves hands over the bytes behind its last message | [`a_decoder_that_leaves_hands_over_the_bytes_behind_its_last_message`] |
//! | 77 | bytes that come while one decodes are decoded after, in order | a stage cannot be re-entered; [`pieces_that_a_stage_in_front_passes_on_in_one_call_are_decoded_in_order`] |
//! | 78 | with demand for one message, reading goes on only until there is one | [`one_request_reads_until_there_is_one_message_and_no_further`] |
//! | 79 | a failing merge leaks neither buffer | moot: buffers are owned; a decoder that panics ends its channel alone: [`a_decoder_that_panics_ends_its_own_channel`] |
//! | 80 | JSON: strings and escapes do not count, arrays are streamed, over-length is an error | [`json_brackets_in_strings_do_not_count_arrays_are_streamed_and_too_long_is_an_error`] |

use bytes::{Buf, Bytes, BytesMut};
use netwright_codec::{DecodeError, Decoder, DelimiterFrames, JsonFrames, LengthFrames, LineFrames, decode};
use netwright_core::{
    AppContext, Application, Carries, CloseCause, Context, EmbeddedChannel, Fault, Handler, InboundOnly,
    InboundStage, Outgoing, Switch, inbound, pipeline,
};
use std::{cell::RefCell, convert::Infallible, rc::Rc};

/// Notes frames and errors, and goes on.
#[derive(Clone, Default)]
struct Notes(Rc<RefCell<Vec<String>>>);

impl Application for Notes {
    type Read = Bytes;
    type Write = Bytes;
    fn read(&mut self, _: &mut AppContext<'_, Self>, frame: Bytes) {
        self.0.borrow_mut().push(frame.escape_ascii().to_string());
    }
    fn error(&mut self, _: &mut AppContext<'_, Self>, fault: Fault) {
        self.0.borrow_mut().push(format!("error: {fault}"));
    }
}

fn noted<H>(frames: H) -> (EmbeddedChannel<Infallible, Bytes>, Notes)
where
    H: Handler<Read = BytesMut, ReadOut = Bytes, Write: Carries<Bytes>>,
    Outgoing: Carries<H::WriteOut>,
{
    let notes = Notes::default();
    (EmbeddedChannel::new(pipeline().add(frames).app(notes.clone())), notes)
}

#[test]
fn crlf_split_over_two_reads_is_one_line_and_an_empty_line_an_empty_frame() {
    let (mut channel, notes) = noted(LineFrames::max(100));
    channel.write_inbound("line\r").write_inbound("\n\n\r\n");
    assert_eq!(notes.0.take(), ["line", "", ""]);
}

#[test]
fn an_over_long_line_is_one_error_and_the_next_one_decodes() {
    let error = "error: a frame of 8 bytes or more, the limit is 4";
    for fail_fast in [false, true] {
        let (mut channel, notes) = noted(LineFrames::max(4).fail_fast(fail_fast));
        channel.write_inbound("12345678");
        assert_eq!(notes.0.borrow().len(), usize::from(fail_fast), "before its end only if asked to");
        channel.write_inbound("\nnext\n");
        assert_eq!(notes.0.take(), [error, "next"]);
    }
}

#[test]
fn an_over_long_length_frame_is_an_error_at_once_and_the_next_one_decodes() {
    let (mut channel, notes) = noted(LengthFrames::max(4));
    channel.write_inbound(b"\0\0\0\x08a");
    assert_eq!(notes.0.take(), ["error: a frame of 12 bytes or more, the limit is 8"]);
    channel.write_inbound("bcdef").write_inbound(b"gh\0\0\0\x04next");
    assert_eq!(notes.0.take(), ["next"]);
}

#[test]
fn delimiters_recover_whether_they_fail_fast_or_late() {
    for fail_fast in [false, true] {
        let frames = DelimiterFrames::max(4, ["\0", "\r\n"]).unwrap().fail_fast(fail_fast);
        let (mut channel, notes) = noted(frames);
        channel.write_inbound("1234567");
        assert_eq!(notes.0.borrow().len(), usize::from(fail_fast));
        channel.write_inbound("8\r").write_inbound("\nA\r\n123456789\0B\0");
        let notes = notes.0.take();
        assert_eq!(notes.len(), 4);
        assert!(notes[0].starts_with("error: ") && notes[2].starts_with("error: "));
        assert_eq!([&notes[1], &notes[3]], ["A", "B"]);
    }
}

/// Frames of four bytes.
struct Fours;

impl Decoder for Fours {
    type Item = Bytes;
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        Ok((bytes.len() >= 4).then(|| bytes.split_to(4).freeze()))
    }
}

/// Has everything behind the joint exchanged after the first frame.
struct Once {
    switch: Switch<Infallible>,
    rest: Rc<RefCell<Vec<BytesMut>>>,
}

impl Application for Once {
    type Read = Bytes;
    type Write = Bytes;
    fn read(&mut self, _: &mut AppContext<'_, Self>, frame: Bytes) {
        assert_eq!(frame, "1234", "no other frame is decoded");
        let rest = self.rest.clone();
        self.switch.to(pipeline().handle(move |_, bytes| rest.borrow_mut().push(bytes)).sealed());
    }
}

#[test]
fn a_decoder_that_leaves_hands_over_the_bytes_behind_its_last_message() {
    for pieces in [&[&b"123456789"[..]][..], &[b"123", b"456789"], &[b"1234", b"56789"]] {
        let rest = Rc::default();
        let first = Rc::clone(&rest);
        let mut channel = EmbeddedChannel::<Infallible, _>::with_joint(
            pipeline()
                .joint(|switch| pipeline().add(decode(Fours)).app(Once { switch, rest: first }).sealed()),
        );
        for piece in pieces {
            channel.write_inbound(piece);
        }
        assert_eq!(rest.take().concat(), b"56789", "{pieces:?}");
    }
}

/// Passes on each byte by itself, all in one call.
struct Split;

impl InboundOnly for Split {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    fn read(&mut self, cx: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) {
        bytes.chunks(1).for_each(|byte| cx.fire_read(BytesMut::from(byte)));
    }
}

#[test]
fn pieces_that_a_stage_in_front_passes_on_in_one_call_are_decoded_in_order() {
    let notes = Notes::default();
    let stages = pipeline().add(inbound(Split)).add(LineFrames::max(9)).app(notes.clone());
    EmbeddedChannel::<Infallible, Bytes>::new(stages).write_inbound("one\ntwo\n\nthree\n");
    assert_eq!(notes.0.take(), ["one", "two", "", "three"]);
}

#[test]
fn one_request_reads_until_there_is_one_message_and_no_further() {
    let (mut channel, notes) = noted(LengthFrames::max(9));
    channel.channel().pause();
    assert!(!channel.run().wants_read());
    channel.channel().request();
    assert!(channel.run().wants_read());
    channel.write_inbound(b"\0\0").write_inbound(b"\0\x01");
    assert!(channel.wants_read(), "no message yet");
    channel.write_inbound(b"a\0\0\0\x01b");
    assert!(!channel.wants_read());
    assert_eq!(notes.0.take(), ["a"]);
    channel.channel().request();
    assert!(!channel.run().wants_read(), "the next one was there");
    assert_eq!(notes.0.take(), ["b"]);
}

struct Panics;

impl Decoder for Panics {
    type Item = Bytes;
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        panic!("cannot take {}", bytes.get_u8());
    }
}

#[test]
fn a_decoder_that_panics_ends_its_own_channel() {
    let (mut channel, notes) = noted(decode(Panics));
    channel.write_inbound([7]);
    assert!(
        matches!(channel.channel().close_cause(), Some(CloseCause::Panicked(text)) if text == "cannot take 7")
    );
    assert!(notes.0.take().is_empty());
}

#[test]
fn json_brackets_in_strings_do_not_count_arrays_are_streamed_and_too_long_is_an_error() {
    let (mut channel, notes) = noted(JsonFrames::max(20));
    channel.write_inbound(r#"{"a":"}\""}"#).write_inbound(r#"{"b":"[{"} {"much":"too long for that"}[]"#);
    let json = [
        r#"{\"a\":\"}\\\"\"}"#,
        r#"{\"b\":\"[{\"}"#,
        "error: a frame of 28 bytes or more, the limit is 20",
        "[]",
    ];
    assert_eq!(notes.0.take(), json);
    let (mut channel, notes) = noted(JsonFrames::max(20).stream_arrays(true));
    channel.write_inbound(r#"[{"a":[1,2]},"#);
    assert_eq!(notes.0.take(), [r#"{\"a\":[1,2]}"#], "before the array has ended");
    channel.write_inbound("null]");
    assert_eq!(notes.0.take(), ["null"]);
}
