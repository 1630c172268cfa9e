use super::*;
use crate::codec::input::Input;
use bytes::BytesMut;
use netwright_core::{Context, Handler, Outgoing, WritePromise};
use netwright_testkit::{fuzz_decoder, verify_decoder};

const MAX: usize = 64;

/// The decoder as a stage, which tells what comes as text. Data is told byte by byte, because pieces depend on how it comes.
#[derive(Default)]
struct Frames {
    decoder: FrameDecoder,
    input: Input,
    failed: bool,
}

impl Handler for Frames {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = Outgoing;
    type WriteOut = Outgoing;
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        self.input.feed(bytes);
        while !self.failed {
            match self.decoder.next(&mut self.input.bytes, MAX) {
                Ok(Some(frame)) => told(frame, |text| cx.fire_read(text)),
                Ok(None) => break,
                Err(error) => {
                    self.failed = error.stream.is_none();
                    cx.fire_read(format!("error: {error}"));
                }
            }
        }
        self.input.put_aside();
        assert!(self.failed || self.input.len() < HEAD_LEN + MAX, "held: {}", self.input.len());
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

fn told(frame: Frame, mut tell: impl FnMut(String)) {
    let Frame::Data { stream, data, padding, end, begins } = frame else { return tell(format!("{frame:?}")) };
    if let Some(len) = begins {
        tell(format!("data of {len} on {stream}"));
    }
    data.iter().for_each(|&byte| tell(format!("{:?}", byte as char)));
    if padding > 0 {
        tell(format!("padding {padding}"));
    }
    if end {
        tell("end".to_owned());
    }
}

/// All frames and the error that ends them, of bytes that are there at once.
fn decode(bytes: &[u8]) -> (Vec<Frame>, Option<FrameError>) {
    let (mut decoder, mut input, mut frames) = (FrameDecoder::default(), BytesMut::from(bytes), Vec::new());
    loop {
        match decoder.next(&mut input, MAX_FRAME_DEFAULT) {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error)),
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn how_a_stream_of_frames_is_split_does_not_show() {
    verify_decoder!(Frames::default();
        frame(kind::DATA, flag::END_STREAM, 1, b"hey") =>
            [Ok("data of 3 on 1"), Ok("'h'"), Ok("'e'"), Ok("'y'"), Ok("end")],
        frame(kind::DATA, flag::END_STREAM | flag::PADDED, 3, b"\x02ab\0\0") =>
            [Ok("data of 5 on 3"), Ok("'a'"), Ok("'b'"), Ok("padding 3"), Ok("end")],
        frame(kind::HEADERS, flag::END_HEADERS | flag::PADDED | flag::PRIORITY, 5, b"\x01\x80\0\0\x05\x10block\0") =>
            [Ok("Headers { stream: 5, block: b\"block\", end_headers: true, end_stream: false }")],
        frame(kind::HEADERS, flag::END_STREAM, 7, b"be") =>
            [Ok("Headers { stream: 7, block: b\"be\", end_headers: false, end_stream: true }")],
        frame(kind::CONTINUATION, 0, 7, b"hi") =>
            [Ok("Continuation { stream: 7, block: b\"hi\", end_headers: false }")],
        frame(kind::CONTINUATION, flag::END_HEADERS, 7, b"nd") =>
            [Ok("Continuation { stream: 7, block: b\"nd\", end_headers: true }")],
        frame(77, 0xff, 0x8000_0009, b"whatever") => [Ok("Unknown { kind: 77, len: 8 }")],
        frame(kind::PRIORITY, 0, 9, b"1234") => [Ok("error: FRAME_SIZE_ERROR: a frame has a length that its kind cannot have, stream 9")],
        frame(kind::WINDOW_UPDATE, 0, 9, &[0; 4]) => [Ok("error: PROTOCOL_ERROR: a window is to grow by nothing, stream 9")],
        frame(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x0bu=1, i") => [Ok("PriorityUpdate { stream: 11, value: b\"u=1, i\" }")],
        frame(kind::GOAWAY, 0, 0, b"\0\0\0\x0b\0\0\0\x0benough") =>
            [Ok("GoAway { last: 11, code: ENHANCE_YOUR_CALM, debug: b\"enough\" }")],
        frame(kind::PING, flag::ACK, 0, b"12345678") =>
            [Ok("Ping { ack: true, data: [49, 50, 51, 52, 53, 54, 55, 56] }")],
        frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]) => [Ok("Reset { stream: 1, code: CANCEL }")],
        frame(kind::PING, 0, 1, b"12345678") => [Ok("error: PROTOCOL_ERROR: a frame of the connection is on a stream")],
    );
}

#[test]
fn frames_of_any_bytes_are_the_same_however_they_come() {
    fuzz_decoder!("h2_frames", Frames::default());
}

#[test]
fn data_is_passed_on_before_its_frame_is_whole_and_its_padding_is_not_kept() {
    let bytes = frame(kind::DATA, flag::END_STREAM | flag::PADDED, 1, b"\x04abcd\0\0\0\0");
    let (mut decoder, mut input) = (FrameDecoder::default(), BytesMut::new());
    let mut next = |more: &[u8]| {
        input.extend_from_slice(more);
        let piece = decoder.next(&mut input, MAX).unwrap();
        assert!(input.is_empty() || input.len() < HEAD_LEN + 1, "nothing waits");
        piece
    };
    assert_eq!(next(&bytes[..9]), None);
    let data = |data: &'static str, padding, end, begins| {
        Some(Frame::Data { stream: 1, data: data.into(), padding, end, begins })
    };
    assert_eq!(next(&bytes[9..12]), data("ab", 0, false, Some(9)));
    assert_eq!(next(&bytes[12..15]), data("cd", 0, false, None));
    assert_eq!(next(&bytes[15..17]), None);
    assert_eq!(next(&bytes[17..]), data("", 5, true, None));
    assert!(decoder.is_between());
}

#[test]
fn what_is_not_known_is_told_at_once_and_thrown_away_as_it_comes() {
    let (mut decoder, mut input) =
        (FrameDecoder::default(), BytesMut::from(&frame(99, 0, 0, &[7; 60])[..20]));
    assert_eq!(decoder.next(&mut input, MAX), Ok(Some(Frame::Unknown { kind: 99, len: 60 })));
    assert_eq!((decoder.next(&mut input, MAX), input.len()), (Ok(None), 0));
    assert!(!decoder.is_between());
    input.extend_from_slice(&[7; 49]);
    input.extend_from_slice(&frame(kind::SETTINGS, flag::ACK, 0, b""));
    assert_eq!(decoder.next(&mut input, MAX), Ok(Some(Frame::SettingsAck)));
}

#[test]
fn each_thing_that_is_wrong_with_a_frame_has_its_code_and_says_who_has_to_end() {
    use FrameFault::*;
    use kind::*;
    const SIZE: ErrorCode = ErrorCode::FRAME_SIZE_ERROR;
    const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;
    let setting = |id: u16, value: u32| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    for (bytes, code, stream, why) in [
        (frame(DATA, 0, 1, &[0; MAX_FRAME_DEFAULT + 1]), SIZE, None, TooLong),
        (frame(99, 0, 1, &[0; MAX_FRAME_DEFAULT + 1]), SIZE, None, TooLong),
        (frame(DATA, 0, 0, b"x"), PROTOCOL, None, NoStream),
        (frame(DATA, 0, 0x8000_0000, b"x"), PROTOCOL, None, NoStream),
        (frame(DATA, flag::PADDED, 1, b""), SIZE, None, Length),
        (frame(DATA, flag::PADDED, 1, b"\x01"), PROTOCOL, None, Padding),
        (frame(DATA, flag::PADDED, 1, b"\x03ab"), PROTOCOL, None, Padding),
        (frame(HEADERS, flag::END_HEADERS, 0, b"x"), PROTOCOL, None, NoStream),
        (frame(HEADERS, flag::END_HEADERS | flag::PADDED, 1, b""), SIZE, None, Length),
        (frame(HEADERS, flag::END_HEADERS | flag::PRIORITY, 1, b"1234"), SIZE, None, Length),
        (frame(HEADERS, flag::END_HEADERS | flag::PRIORITY | flag::PADDED, 1, b"12345"), SIZE, None, Length),
        (frame(HEADERS, flag::END_HEADERS | flag::PADDED, 1, b"\x02a"), PROTOCOL, None, Padding),
        (frame(HEADERS, flag::PRIORITY | flag::PADDED, 1, b"\x01\0\0\0\x02\0"), PROTOCOL, None, Padding),
        (frame(CONTINUATION, flag::END_HEADERS, 1, b"x"), PROTOCOL, None, Continuation),
        (frame(PRIORITY, 0, 0, b"12345"), PROTOCOL, None, NoStream),
        (frame(PRIORITY, 0, 3, b"123456"), SIZE, Some(3), Length),
        (frame(RST_STREAM, 0, 0, b"1234"), PROTOCOL, None, NoStream),
        (frame(RST_STREAM, 0, 1, b"123"), SIZE, None, Length),
        (frame(RST_STREAM, 0, 1, b"12345"), SIZE, None, Length),
        (frame(SETTINGS, 0, 1, b""), PROTOCOL, None, OnStream),
        (frame(SETTINGS, flag::ACK, 0, &[0; 6]), SIZE, None, Length),
        (frame(SETTINGS, 0, 0, &[0; 5]), SIZE, None, Length),
        (frame(SETTINGS, 0, 0, &setting(2, 2)), PROTOCOL, None, Setting(2)),
        (frame(SETTINGS, 0, 0, &setting(4, 1 << 31)), ErrorCode::FLOW_CONTROL_ERROR, None, Setting(4)),
        (frame(SETTINGS, 0, 0, &setting(5, 16383)), PROTOCOL, None, Setting(5)),
        (frame(SETTINGS, 0, 0, &setting(5, 1 << 24)), PROTOCOL, None, Setting(5)),
        (frame(SETTINGS, 0, 0, &setting(8, 2)), PROTOCOL, None, Setting(8)),
        (frame(SETTINGS, 0, 0, &setting(9, 7)), PROTOCOL, None, Setting(9)),
        (frame(SETTINGS, 0, 0, &[0; 65 * 6]), ErrorCode::ENHANCE_YOUR_CALM, None, TooManySettings),
        (frame(PING, 0, 1, &[0; 8]), PROTOCOL, None, OnStream),
        (frame(PING, 0, 0, &[0; 7]), SIZE, None, Length),
        (frame(GOAWAY, 0, 1, &[0; 8]), PROTOCOL, None, OnStream),
        (frame(GOAWAY, 0, 0, &[0; 7]), SIZE, None, Length),
        (frame(WINDOW_UPDATE, 0, 0, &[0; 4]), PROTOCOL, None, NoIncrement),
        (frame(WINDOW_UPDATE, 0, 5, &[0x80, 0, 0, 0]), PROTOCOL, Some(5), NoIncrement),
        (frame(WINDOW_UPDATE, 0, 5, &[0; 3]), SIZE, None, Length),
        (frame(PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1]), PROTOCOL, None, OnStream),
        (frame(PRIORITY_UPDATE, 0, 0, &[0; 3]), SIZE, None, Length),
        (frame(PRIORITY_UPDATE, 0, 0, &[0; 4]), PROTOCOL, None, NoStream),
    ] {
        let error = decode(&bytes).1;
        let shown = bytes[..bytes.len().min(20)].escape_ascii();
        assert_eq!(error, Some(FrameError { code, stream, why }), "{shown}");
    }
}

#[test]
fn nothing_comes_between_the_frames_of_a_block() {
    let begin = frame(kind::HEADERS, 0, 1, b"a");
    for between in [
        frame(kind::DATA, 0, 1, b""),
        frame(kind::HEADERS, 0, 1, b"b"),
        frame(kind::PING, 0, 0, &[0; 8]),
        frame(kind::CONTINUATION, 0, 3, b"b"),
        frame(99, 0, 0, b""),
    ] {
        let (frames, error) = decode(&[begin.clone(), between].concat());
        assert_eq!(frames.len(), 1);
        assert_eq!(error, Some(FrameError::connection(ErrorCode::PROTOCOL_ERROR, FrameFault::Continuation)));
    }
}

#[test]
fn a_stream_error_leaves_the_rest_readable() {
    let mut decoder = FrameDecoder::default();
    let bytes =
        [frame(kind::WINDOW_UPDATE, 0, 5, &[0; 4]), frame(kind::SETTINGS, flag::ACK, 0, b"")].concat();
    let mut input = BytesMut::from(&bytes[..]);
    assert!(decoder.next(&mut input, MAX).is_err());
    assert_eq!(decoder.next(&mut input, MAX), Ok(Some(Frame::SettingsAck)));
}

#[test]
fn what_is_written_is_read_as_the_same() {
    let settings = Settings {
        header_table_size: Some(0),
        header_table_least: Some(0),
        enable_push: Some(false),
        max_concurrent_streams: Some(100),
        initial_window_size: Some(WINDOW_MAX),
        max_frame_size: Some(16384),
        max_header_list_size: Some(u32::MAX),
        enable_connect_protocol: Some(true),
        no_rfc7540_priorities: Some(true),
    };
    let mut out = BytesMut::new();
    encode::settings(&mut out, &settings);
    encode::settings(&mut out, &Settings::default());
    encode::settings_ack(&mut out);
    encode::ping(&mut out, false, *b"abcdefgh");
    encode::go_away(&mut out, 7, ErrorCode::NO_ERROR, b"bye");
    encode::reset(&mut out, 3, ErrorCode::REFUSED_STREAM);
    encode::window_update(&mut out, 0, WINDOW_MAX);
    encode::priority_update(&mut out, 9, b"u=0");
    encode::data_head(&mut out, 5, 4, true);
    out.extend_from_slice(b"data");
    let (frames, error) = decode(&out);
    assert_eq!(error, None);
    assert_eq!(
        frames,
        [
            Frame::Settings(settings),
            Frame::Settings(Settings::default()),
            Frame::SettingsAck,
            Frame::Ping { ack: false, data: *b"abcdefgh" },
            Frame::GoAway { last: 7, code: ErrorCode::NO_ERROR, debug: "bye".into() },
            Frame::Reset { stream: 3, code: ErrorCode::REFUSED_STREAM },
            Frame::WindowUpdate { stream: 0, by: WINDOW_MAX },
            Frame::PriorityUpdate { stream: 9, value: "u=0".into() },
            Frame::Data { stream: 5, data: "data".into(), padding: 0, end: true, begins: Some(4) },
        ]
    );
}

#[test]
fn a_table_size_that_goes_down_and_up_again_shows_how_far_down() {
    let sizes = [[0, 1, 0, 0, 16, 0], [0, 1, 0, 0, 0, 7], [0, 1, 0, 0, 8, 0]].concat();
    let settings =
        Settings { header_table_size: Some(2048), header_table_least: Some(7), ..Settings::default() };
    assert_eq!(decode(&frame(kind::SETTINGS, 0, 0, &sizes)), (vec![Frame::Settings(settings)], None));
}

#[test]
fn a_block_is_cut_at_the_limit_of_the_peer_and_put_together_again() {
    let block: Vec<u8> = (0..=255).cycle().take(1000).collect();
    for (max, pieces) in [(1000, 1), (999, 2), (500, 2), (333, 4)] {
        let mut out = BytesMut::from("before");
        let write = |out: &mut BytesMut| {
            out.extend_from_slice(&block);
            Ok::<_, ()>(())
        };
        encode::headers(&mut out, 3, true, max, write).unwrap();
        let (frames, error) = decode(&out[6..]);
        assert_eq!((frames.len(), error), (pieces, None));
        let mut all = Vec::new();
        for (number, frame) in frames.into_iter().enumerate() {
            let last = number + 1 == pieces;
            match frame {
                Frame::Headers { stream: 3, block, end_headers, end_stream: true } if number == 0 => {
                    assert_eq!(end_headers, last);
                    all.extend_from_slice(&block);
                }
                Frame::Continuation { stream: 3, block, end_headers } if number > 0 => {
                    assert_eq!(end_headers, last);
                    all.extend_from_slice(&block);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(all, block);
    }
}

#[test]
fn of_fields_that_cannot_be_written_nothing_is() {
    let mut out = BytesMut::from("before");
    let failed = encode::headers(&mut out, 3, true, 100, |out| {
        out.extend_from_slice(b"something");
        Err::<(), _>("no")
    });
    assert_eq!((failed, &out[..]), (Err("no"), &b"before"[..]));
}
