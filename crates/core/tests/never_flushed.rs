//! What is written and not flushed takes room: above the high mark whoever waits for room waits for somebody's flush.
#![cfg(not(loom))]

use bytes::{Bytes, BytesMut};
use netwright_core::{
    Channel, CloseCause, EmbeddedChannel, HostSettings, Outgoing, Peer, WaterMarks, pipeline,
};
use std::{convert::Infallible, num::NonZeroUsize};

type Embedded = EmbeddedChannel<Infallible, Outgoing>;

fn settings() -> HostSettings {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(500, 1_000).unwrap();
    settings
}

/// Answers each message with itself, once there is room.
async fn echo(mut peer: Peer) -> Result<(), CloseCause> {
    while let Some(bytes) = peer.read().await? {
        peer.write_and_flush(bytes).await?;
    }
    Ok(())
}

/// Writes more than the high mark from outside, and does not flush.
fn fill(channel: &mut Embedded) -> Channel<Outgoing> {
    let outside: Channel<Outgoing> = channel.channel().clone();
    outside.write(Bytes::from(vec![b'.'; 2_000]));
    channel.run();
    assert!(!outside.is_writable());
    outside
}

#[test]
fn an_async_function_waits_for_room_until_somebody_flushes_what_others_have_written() {
    let mut channel: Embedded = EmbeddedChannel::with_settings(pipeline().serve(echo), settings());
    let outside = fill(&mut channel);
    channel.write_inbound("question");
    assert_eq!(channel.outbound_bytes(), b"");
    assert!(!channel.wants_read());
    outside.flush();
    assert!(channel.run().outbound_bytes().ends_with(b"question"));
    assert!(channel.wants_read());
}

#[test]
fn an_answer_of_a_handler_takes_along_what_others_have_written_before_it() {
    let stages = pipeline().handle(|cx, bytes: BytesMut| cx.write(bytes.freeze()));
    let mut channel: Embedded = EmbeddedChannel::with_settings(stages, settings());
    let _outside = fill(&mut channel);
    channel.write_inbound("question");
    assert!(channel.outbound_bytes().ends_with(b"question"));
    assert!(channel.wants_read());
}

/// Held back by an answer that the peer does not take at first, while others write and do not flush.
fn goes_on_behind_a_flush(mut channel: Embedded) {
    channel.block_output(true).write_inbound(vec![b'a'; 2_000]);
    assert!(!channel.wants_read());
    let outside = fill(&mut channel);
    channel.block_output(false);
    assert_eq!(channel.outbound_bytes().len(), 2_000);
    assert!(!channel.wants_read());
    outside.flush();
    assert_eq!(channel.run().outbound_bytes().len(), 2_000);
    assert!(channel.wants_read());
}

#[test]
fn a_handler_that_is_held_back_gets_no_more_before_what_others_have_written_since_is_flushed() {
    let stages = pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze()));
    goes_on_behind_a_flush(EmbeddedChannel::with_settings(stages, settings()));
}

#[test]
fn a_service_takes_no_request_before_what_others_have_written_since_its_last_reply_is_flushed() {
    let answer = |bytes: BytesMut| async move { bytes.freeze() };
    let stages = pipeline().service(NonZeroUsize::MIN, answer);
    goes_on_behind_a_flush(EmbeddedChannel::with_settings(stages, settings()));
}
