use super::*;
use crate::base::{GATHER_MAX, Intake};
use netwright_core::{AppContext, Application, CloseCause, EmbeddedChannel, Fault, WriteError, pipeline};
use std::{cell::RefCell, rc::Rc};

const TEXT: &[u8] = b"one\r\n\ntwo\nthr\ree\r\r\n\r\nunfinished";
const LINES: [&[u8]; 5] = [b"one", b"", b"two", b"thr\ree\r", b""];

fn channel(frames: LineFrames) -> EmbeddedChannel<Bytes, Bytes> {
    EmbeddedChannel::new(pipeline().add(frames))
}

fn lines_of(channel: &mut EmbeddedChannel<Bytes, Bytes>) -> Vec<Bytes> {
    std::iter::from_fn(|| channel.read_inbound()).collect()
}

/// A decoder and the bytes that it has not used.
struct Fed {
    decoder: LineDecoder,
    intake: Intake,
}

impl Fed {
    fn max(max: usize) -> Self {
        Self { decoder: LineDecoder::max(max), intake: Intake::default() }
    }

    fn feed(&mut self, bytes: BytesMut) {
        self.intake.feed(bytes);
    }

    fn next(&mut self) -> Option<Result<Bytes, FrameError>> {
        let result = self.intake.next(&mut self.decoder)?;
        Some(result.map_err(|error| *error.fault().downcast_ref().unwrap()))
    }
}

/// Lines and errors of a decoder that is fed these pieces and asked for everything after each.
fn decode<'a>(fed: &mut Fed, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Result<Bytes, FrameError>> {
    let mut all = Vec::new();
    for piece in pieces {
        fed.feed(BytesMut::from(piece));
        all.extend(std::iter::from_fn(|| fed.next()));
        assert!(fed.intake.is_waiting_alone() && memchr(b'\n', fed.intake.rest()).is_none());
        assert!(fed.intake.rest().len() <= fed.decoder.max + 1);
    }
    all
}

/// A sequence of numbers that is the same for the same seed.
fn numbers(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    }
}

#[test]
fn lines_come_out_the_same_whole_split_anywhere_and_byte_by_byte() {
    for split in 0..=TEXT.len() {
        let mut channel = channel(LineFrames::max(100));
        channel.write_inbound(&TEXT[..split]).write_inbound(&TEXT[split..]);
        assert_eq!(lines_of(&mut channel), LINES, "split at {split}");
    }
    let mut channel = channel(LineFrames::max(100));
    for byte in TEXT {
        channel.write_inbound([*byte]);
    }
    assert_eq!(lines_of(&mut channel), LINES);
}

#[test]
fn where_a_stream_is_split_changes_neither_lines_nor_errors() {
    for seed in 0..200 {
        let mut number = numbers(seed);
        let alphabet = b"ab\r\n\n";
        let stream: Vec<u8> = (0..200).map(|_| alphabet[number(alphabet.len())]).collect();
        let max = number(6);
        let whole = decode(&mut Fed::max(max), [&stream[..]]);
        let bytes = decode(&mut Fed::max(max), stream.chunks(1));
        assert_eq!(whole, bytes, "seed {seed}, limit {max}, byte by byte");
        let mut pieces = Vec::new();
        let mut left = &stream[..];
        while !left.is_empty() {
            let (piece, behind) = left.split_at(1 + number(left.len().min(20)));
            pieces.push(piece);
            left = behind;
        }
        assert_eq!(whole, decode(&mut Fed::max(max), pieces), "seed {seed}, limit {max}");
        let plain = stream.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let expected: Vec<_> = plain
            .map(|line| match line.len() <= max {
                true => Ok(Bytes::copy_from_slice(line)),
                false => Err(FrameError::TooLong { limit: max, got: line.len() }),
            })
            .collect();
        assert_eq!(whole, expected[..expected.len() - 1], "seed {seed}: the last one has no end");
    }
}

#[test]
fn a_stream_cut_off_anywhere_gives_the_lines_that_were_whole() {
    for cut in 0..TEXT.len() {
        let mut channel = channel(LineFrames::max(100));
        channel.write_inbound(&TEXT[..cut]).close_by_peer();
        let whole = TEXT[..cut].iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(lines_of(&mut channel), &LINES[..whole], "cut at {cut}");
    }
}

#[test]
fn paused_after_each_message_gives_the_same_lines_one_by_one() {
    let mut channel = channel(LineFrames::max(100));
    channel.channel().pause();
    channel.run().write_inbound(TEXT);
    for line in LINES {
        assert_eq!(channel.read_inbound(), None);
        channel.channel().request();
        assert_eq!(channel.read_inbound().as_deref(), Some(line));
    }
}

#[test]
fn ends_are_kept_if_asked_for_and_do_not_count() {
    let mut channel = channel(LineFrames::max(3).keep_ends(true));
    channel.write_inbound(b"one\r\n\ntwo\n").write_inbound(b"abc\r").write_inbound(b"\n");
    assert_eq!(lines_of(&mut channel), ["one\r\n", "\n", "two\n", "abc\r\n"]);
}

/// Notes errors and lines, and goes on.
struct Tolerant(Rc<RefCell<Vec<String>>>);

impl Application for Tolerant {
    type Read = Bytes;
    type Write = Bytes;
    fn read(&mut self, _: &mut AppContext<'_, Self>, line: Bytes) {
        self.0.borrow_mut().push(String::from_utf8_lossy(&line).into_owned());
    }
    fn error(&mut self, _: &mut AppContext<'_, Self>, fault: Fault) {
        self.0.borrow_mut().push(format!("error: {fault}"));
    }
}

fn tolerant(frames: LineFrames, pieces: &[&[u8]]) -> Vec<String> {
    let log = Rc::new(RefCell::new(Vec::new()));
    let mut channel = EmbeddedChannel::new(pipeline().add(frames).app(Tolerant(log.clone())));
    for piece in pieces {
        channel.write_inbound(piece);
    }
    drop(channel);
    log.take()
}

#[test]
fn a_line_that_is_too_long_is_an_error_once_and_the_next_one_is_read() {
    let error = "error: a frame of 8 bytes or more, the limit is 4";
    let splits: [&[&[u8]]; 4] = [
        &[b"12345678\nok\n"],
        &[b"1234567", b"8\no", b"k\n"],
        &[b"123456", b"7", b"8\r\nok\n"],
        &[b"12345", b"678\r", b"\nok\n"],
    ];
    for pieces in splits {
        assert_eq!(tolerant(LineFrames::max(4), pieces), [error, "ok"], "{pieces:?}");
    }
}

#[test]
fn a_line_of_just_the_limit_fits_wherever_its_end_is_split() {
    for pieces in [&[&b"1234\r\n"[..]][..], &[b"1234\r", b"\n"], &[b"1234", b"\r", b"\n"], &[b"1234", b"\n"]]
    {
        assert_eq!(tolerant(LineFrames::max(4), pieces), ["1234"], "{pieces:?}");
    }
    assert_eq!(tolerant(LineFrames::max(0), &[b"\r", b"\n\n"]), ["", ""]);
    let error = "error: a frame of 6 bytes or more, the limit is 4";
    assert_eq!(tolerant(LineFrames::max(4), &[b"1234\r", b"5\n"]), [error], "the CR was not the end");
}

#[test]
fn fail_fast_reports_before_the_line_has_ended_and_not_again_at_its_end() {
    let frames = LineFrames::max(4).fail_fast(true);
    assert_eq!(
        tolerant(frames, &[b"1234", b"567", b"890", b"1\nok\n12345678\n", b"ok\n"]),
        [
            "error: a frame of 7 bytes or more, the limit is 4",
            "ok",
            "error: a frame of 8 bytes or more, the limit is 4",
            "ok"
        ]
    );
}

#[test]
fn errors_and_lines_keep_their_order() {
    let error = "error: a frame of 4 bytes or more, the limit is 2";
    assert_eq!(tolerant(LineFrames::max(2), &[b"a\n1234\nb\n1234\nc"]), ["a", error, "b", error]);
}

#[test]
fn an_endless_line_costs_no_memory_and_its_error_closes_if_nobody_minds_it() {
    let mut decoder = Fed::max(100);
    let mut channel = channel(LineFrames::max(100));
    for _ in 0..1000 {
        decoder.feed(BytesMut::from(&[b'x'; 1000][..]));
        assert_eq!(decoder.next(), None);
        assert!(decoder.intake.is_waiting_alone() && decoder.intake.rest().capacity() == 0);
        channel.write_inbound([b'x'; 1000]);
    }
    assert!(channel.is_open(), "the error comes at the end of the line");
    channel.write_inbound(b"\n");
    let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { panic!("not by a fault") };
    assert_eq!(fault.downcast_ref(), Some(&FrameError::TooLong { limit: 100, got: 1_000_000 }));
}

#[test]
fn nothing_of_the_loops_buffer_is_kept_when_all_lines_are_gone() {
    const ROOM: usize = 64 * 1024;
    let mut scratch = BytesMut::new();
    let mut decoder = Fed::max(1024);
    for piece in [&b"a\nb\nunfin"[..], b"ished\nc\n", b"", b"\n", b"d\r", b"\ne"] {
        assert!(scratch.try_reclaim(ROOM) || scratch.capacity() == 0, "kept before {piece:?}");
        scratch.reserve(ROOM);
        scratch.extend_from_slice(piece);
        decoder.feed(scratch.split());
        while let Some(line) = decoder.next() {
            drop(line);
        }
    }
    assert!(scratch.try_reclaim(ROOM));
    let room = decoder.intake.rest().capacity();
    assert!(room < 100, "the rest is as small as it is: {room}");
}

#[test]
fn only_the_line_that_a_read_cuts_in_two_is_copied() {
    let mut decoder = Fed::max(1024);
    assert!(decode(&mut decoder, [&b"unfin"[..]]).is_empty());
    let input = BytesMut::from(&b"ished\nsecond\nthird\n"[..]);
    let place = input.as_ptr() as usize;
    decoder.feed(input);
    let lines: Vec<Bytes> = std::iter::from_fn(|| decoder.next()).map(Result::unwrap).collect();
    assert_eq!(lines, ["unfinished", "second", "third"]);
    assert_eq!([lines[1].as_ptr() as usize, lines[2].as_ptr() as usize], [place + 6, place + 13]);
}

#[test]
fn what_was_read_and_not_used_is_handed_over_in_order() {
    let mut fed = Fed::max(100);
    decode(&mut fed, [&b"a\nbe"[..], b"gun"]);
    fed.feed(BytesMut::from(&b"\nnot look"[..]));
    fed.feed(BytesMut::from(&b"ed at\n"[..]));
    assert_eq!(fed.intake.take(), &b"begun\nnot looked at\n"[..]);
    assert!(fed.intake.take().is_empty());
}

#[test]
fn lines_are_gathered_until_the_flush() {
    let mut channel = channel(LineFrames::max(100));
    for line in ["a", "", "b"] {
        channel.channel().write(Bytes::from(line));
    }
    assert_eq!(channel.read_outbound(), None);
    channel.channel().write(Bytes::from(vec![b'x'; GATHER_MAX + 1]));
    channel.channel().write(Bytes::from("c"));
    channel.channel().flush();
    assert_eq!(channel.read_outbound().unwrap(), "a\n\nb\n", "one piece");
    assert_eq!(channel.read_outbound().unwrap().len(), GATHER_MAX + 1, "a large one as it is");
    assert_eq!(channel.read_outbound().unwrap(), "\nc\n");
}

#[test]
fn a_batch_leaves_when_it_is_large_so_that_the_channel_knows_what_waits() {
    let mut channel = channel(LineFrames::max(100));
    channel.block_output(true);
    for _ in 0..100 {
        channel.channel().write(Bytes::from(vec![b'x'; 1000]));
        channel.run();
    }
    assert!(!channel.channel().is_writable(), "100 KB wait to be sent");
    channel.channel().flush();
    channel.block_output(false);
    assert_eq!(channel.outbound_bytes().len(), 100 * 1001);
}

#[test]
fn a_tracked_line_is_told_of_and_cancelling_it_takes_no_other_with_it() {
    let mut channel = channel(LineFrames::max(100));
    channel.channel().write(Bytes::from("a"));
    let mut told = channel.channel().write_tracked(Bytes::from("b"));
    let small = channel.channel().write_tracked(Bytes::from("c"));
    let large = channel.channel().write_tracked(Bytes::from(vec![b'x'; GATHER_MAX + 1]));
    channel.channel().write(Bytes::from("d"));
    channel.run();
    assert!(small.cancel() && large.cancel());
    channel.channel().flush();
    assert_eq!(channel.outbound_bytes(), b"a\nb\nd\n");
    assert!(matches!(told.try_take(), Some(Ok(()))));
    let mut late = channel.channel().write_tracked(Bytes::from("e"));
    channel.close_by_peer();
    assert!(matches!(late.try_take(), Some(Err(WriteError::Closed(CloseCause::PeerClosed)))));
}

#[test]
fn lines_are_ended_by_crlf_if_asked_for() {
    let mut channel = channel(LineFrames::max(100).crlf(true));
    channel.write_outbound(Bytes::from("a"));
    drop(channel.channel().send(Bytes::from("b")));
    assert_eq!(channel.outbound_bytes(), b"a\r\nb\r\n");
}
