//! What frames may allocate: nothing for a frame that a read holds whole, nothing for a small answer in steady state.

use bytes::{Bytes, BytesMut};
use netwright_codec::{DelimiterFrames, FixedFrames, JsonFrames, LengthFrames, LineFrames, Varint32Frames};
use netwright_core::{EmbeddedChannel, Handler, pipeline};
use netwright_testkit::{CountingAllocator, allocations_during, assert_allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Allocations of one read of so many lines; the first reads, which fill what grows once, do not count.
fn reading(lines: usize, unfinished: &str) -> u64 {
    let mut channel = EmbeddedChannel::new(
        pipeline().add(LineFrames::max(100)).handle(|_, line: Bytes| assert!(line.len() >= 26)),
    );
    let read = "abcdefghijklmnopqrstuvwxyz\n".repeat(lines) + unfinished;
    for _ in 0..10 {
        channel.write_inbound(&read);
    }
    let (allocations, _) = allocations_during(|| channel.write_inbound(&read).is_open());
    allocations
}

#[test]
fn a_line_allocates_nothing_however_many_a_read_holds() {
    // The read's own buffer, and the bookkeeping that makes it one that lines can share.
    for lines in [1, 2, 16, 1000] {
        assert_eq!(reading(lines, ""), 2, "{lines} lines");
    }
}

/// Allocations of one read of so many frames.
fn framing<H>(make: impl Fn() -> H, frame: &[u8], frames: usize)
where
    H: Handler<Read = BytesMut, ReadOut = Bytes, Write = Bytes, WriteOut = Bytes>,
{
    let mut channel = EmbeddedChannel::new(pipeline().add(make()).handle(|_, frame: Bytes| drop(frame)));
    let read = frame.repeat(frames);
    for _ in 0..10 {
        channel.write_inbound(&read);
    }
    // The read's own buffer, and the bookkeeping of `bytes` that makes it one that frames can share.
    assert_allocations!(at most 2, channel.write_inbound(&read).is_open());
}

#[test]
fn a_frame_of_any_kind_allocates_nothing_however_many_a_read_holds() {
    for frames in [1, 2, 16, 1000] {
        framing(|| LineFrames::max(100), b"hello\n", frames);
        framing(|| DelimiterFrames::max(100, [";", "\r\n"]).unwrap(), b"hello\r\n", frames);
        framing(|| FixedFrames::of(5).unwrap(), b"hello", frames);
        framing(|| FixedFrames::of(7).unwrap().filled_with(b' '), b"hello  ", frames);
        framing(|| LengthFrames::max(100), b"\0\0\0\x05hello", frames);
        framing(|| Varint32Frames::max(100), b"\x05hello", frames);
        framing(|| JsonFrames::max(100), br#"{"hello":1}"#, frames);
        framing(|| JsonFrames::max(100).stream_arrays(true), br#"[1,"two",{}]"#, frames);
    }
}

#[test]
fn an_unfinished_line_costs_a_buffer_of_its_own_once() {
    let finished = reading(2, "");
    let unfinished = reading(2, "unfin");
    assert!(
        unfinished <= finished + 2,
        "{unfinished} against {finished}: its buffer, and making a line of it"
    );
}

#[test]
fn small_answers_allocate_nothing_in_steady_state() {
    let answer = Bytes::from_static(b"the time is now");
    let reply = answer.clone();
    let mut channel = EmbeddedChannel::new(
        pipeline().add(LineFrames::max(100)).handle(move |cx, _: Bytes| cx.write_and_flush(reply.clone())),
    );
    let mut round = || {
        channel.write_inbound("what time is it?\n");
        let sent = channel.read_outbound().unwrap();
        assert_eq!(sent.len(), answer.len() + 1);
    };
    (0..10).for_each(|_| round());
    let (allocations, ()) = allocations_during(|| (0..100).for_each(|_| round()));
    let (input, ()) = allocations_during(|| {
        for _ in 0..100 {
            let mut line = BytesMut::from("what time is it?\n");
            line.truncate(16);
            drop(line.freeze());
        }
    });
    assert_eq!(allocations, input, "only the test's own input");
}
