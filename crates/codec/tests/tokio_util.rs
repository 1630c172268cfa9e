//! tokio-util's codecs as stages, and ours in its `Framed`.
#![cfg(feature = "tokio-util")]

use bytes::{Bytes, BytesMut};
use netwright_codec::{
    FromTokio, IntoTokio, LengthDecoder, LengthField, LengthPrepender, LineDecoder, LineEncoder, codec,
    decode, tokio::TokioError,
};
use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
use netwright_testkit::verify::{Verify, recorded};
use std::{pin::pin, task::Context as TaskContext, task::Poll, task::Waker};
use tokio_util::codec::{Decoder, Encoder, FramedRead, LengthDelimitedCodec, LinesCodec};

#[test]
fn their_codecs_pass_our_verifier_as_stages() {
    Verify::new(|recorder| {
        let frames = codec(FromTokio::<_, Bytes>::codec(LengthDelimitedCodec::new()));
        recorded(pipeline().add(frames), recorder)
    })
    .sample(b"\0\0\0\x05hello", [Ok("hello")])
    .sample(b"\0\0\0\0\0\0\0\x01x", [Ok(""), Ok("x")])
    .sample(b"\xff\xff\xff\xff", [Err("frame size too big")])
    .last_may_come() // an unfinished frame is an error to them
    .run();
}

#[test]
fn their_error_is_fatal_and_their_last_words_are_heard() {
    let lines = || decode(FromTokio::decoder(LinesCodec::new_with_max_length(3)));
    let mut channel = EmbeddedChannel::new(pipeline().add(lines()));
    channel.write_inbound("abcd\ne\n");
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::Fault(_))));
    assert_eq!(channel.read_inbound(), None);
    let mut channel = EmbeddedChannel::new(pipeline().add(lines()));
    channel.write_inbound("a\nb").close_by_peer();
    assert_eq!(channel.read_inbound().as_deref(), Some("a"));
    assert_eq!(channel.read_inbound().as_deref(), Some("b"));
}

/// What a reader gets that reads a few bytes at a time.
fn framed<D: Decoder>(decoder: D, bytes: &'static [u8]) -> Vec<Result<D::Item, D::Error>> {
    let mut framed = pin!(FramedRead::with_capacity(bytes, decoder, 4));
    let mut all = Vec::new();
    let mut ended = 0;
    while ended < 2 {
        let mut cx = TaskContext::from_waker(Waker::noop());
        match futures_core::Stream::poll_next(framed.as_mut(), &mut cx) {
            Poll::Ready(Some(frame)) => all.push(frame),
            Poll::Ready(None) => ended += 1, // once behind an error, once at the end
            Poll::Pending => unreachable!("a slice is always ready"),
        }
    }
    all
}

#[test]
fn ours_work_in_framed_and_an_error_says_whether_the_stream_can_go_on() {
    let got = framed(IntoTokio(LineDecoder::max(5)), b"one\r\ntoo long\ntwo\nunfinished");
    assert_eq!(got.len(), 4);
    assert_eq!(got[0].as_ref().unwrap(), "one");
    assert_eq!(got[2].as_ref().unwrap(), "two");
    for (place, len) in [(1, 8), (3, 10)] {
        let Err(TokioError::Decode(error)) = &got[place] else { panic!("no error") };
        let told = format!("a frame of {len} bytes or more, the limit is 5");
        assert!(!error.is_fatal() && error.to_string() == told, "{error}");
    }
}

#[test]
fn ours_and_theirs_understand_each_other() {
    let ours: LengthDecoder = LengthField::new(4).strip(4).decoder().unwrap();
    let mut ours = IntoTokio((ours, LengthPrepender::new(4).unwrap()));
    let mut theirs = LengthDelimitedCodec::new();
    let mut bytes = BytesMut::new();
    for len in [0, 1, 100, 5000, 70_000] {
        let frame = Bytes::from(vec![b'x'; len]);
        ours.encode(frame.clone(), &mut bytes).unwrap();
        assert_eq!(theirs.decode(&mut bytes).unwrap().unwrap(), frame);
        theirs.encode(frame.clone(), &mut bytes).unwrap();
        assert_eq!(ours.decode(&mut bytes).unwrap().unwrap(), frame);
    }
    let mut lines = IntoTokio((LineDecoder::max(10), LineEncoder::crlf()));
    lines.encode("a".into(), &mut bytes).unwrap();
    assert_eq!(bytes, "a\r\n");
}
